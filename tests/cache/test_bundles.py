"""Bundles: round trips, determinism, and hostile text that only ever raises CacheError."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import amount
from tilewright import cache
from tilewright.cache import BUNDLE_HEADER, Cache, Row, bundles
from tilewright.cache.version import BUNDLE_SCHEMA
from tilewright.ir.errors import CacheError

HEADER = json.dumps(BUNDLE_HEADER).encode()


def line(row: Row, **changes: object) -> bytes:
    values = json.loads(list(bundles.dumps([row]))[1])
    return json.dumps({k: v for k, v in (values | changes).items() if v is not ...}).encode()


def test_export_and_import_give_the_same_rows(store: Cache, make_row, tmp_path: Path) -> None:
    rows = [
        make_row(),
        make_row(outcome="crash", t_med=None, t_min=None, verified=False),
        make_row(name="softmax", provenance={"a": [1, None, "é"]}),
    ]
    store.record(rows)
    bundle = tmp_path / "b.jsonl"
    assert store.export(bundle) == 3
    with cache.open(tmp_path / "other.db") as other:
        assert other.import_(bundle) == (3, 0)
        assert other.import_(bundle) == (0, 3), "importing again changes nothing"
        assert all(r.imported for r in other.rows()), "what was measured elsewhere says so"
        assert sorted((r.marked(imported=False) for r in other.rows()), key=lambda r: r.digest) == sorted(rows, key=lambda r: r.digest)
        again = tmp_path / "again.jsonl"
        other.export(again)
    assert again.read_bytes() == bundle.read_bytes()


def test_the_text_does_not_depend_on_the_order_of_rows_and_merges_duplicates(make_row) -> None:
    rows = [make_row(name=n, t_med=t) for n in "ba" for t in (2e-3, 1e-3)]
    text = list(bundles.dumps(rows))
    assert text == list(bundles.dumps([*reversed(rows), *rows]))
    assert [(json.loads(x)["name"], json.loads(x)["t_med"]) for x in text[1:]] == [("a", 1e-3), ("a", 2e-3), ("b", 1e-3), ("b", 2e-3)]
    merged = bundles.loads([HEADER, text[1].encode(), text[1].encode()])
    assert len(merged) == 1


def test_best_only_and_filters(store: Cache, make_row, tmp_path: Path) -> None:
    store.record([make_row(t_med=2e-4), make_row(t_med=1e-4), make_row(verified=False, kernel="x"), make_row(name="softmax", kernel="s")])
    assert store.export(tmp_path / "b.jsonl", best_only=True) == 2
    assert store.export(tmp_path / "s.jsonl", name="softmax") == 1
    assert [r.t_med for r in bundles.read(tmp_path / "b.jsonl") if r.name == "matmul"] == [1e-4]


def test_json_fields_are_nested_for_reviewers(make_row) -> None:
    text = list(bundles.dumps([make_row()]))[1]
    assert '"opts":[["UPCAST","a1",8]]' in text and '"shape":{"k":64,"m":64,"n":64}' in text


def test_what_is_not_a_bundle_is_refused_whole(store: Cache, make_row, tmp_path: Path) -> None:
    row = make_row()
    good = line(row)
    cases: list[tuple[list[bytes], str]] = [
        ([], "empty; a bundle begins with"),
        ([b"\n"], "line 1: not valid JSON"),
        ([b"SQLite format 3\0\xff\xfe"], "line 1: not UTF-8"),
        ([b"[1]"], "line 1: must be a JSON object"),
        ([b'{"schema": 1}'], "line 1: a bundle begins with"),
        ([b'{"schema": true, "tilewright": "bundle"}'], "line 1: a bundle begins with"),
        ([b'{"schema": 0, "tilewright": "bundle"}'], "schema 0 is older"),
        (
            [b'{"schema": %d, "tilewright": "bundle"}' % (BUNDLE_SCHEMA + 1)],
            f"line 1: schema {BUNDLE_SCHEMA + 1} is newer than this Tilewright reads",
        ),
        ([b'{"schema": 1, "tilewright": "bundle", "more": 1}'], "line 1: a bundle begins with"),
        ([HEADER, good, b"{"], "line 3: not valid JSON"),
        ([HEADER, good, line(row, hook="x")], "line 3: unknown field 'hook'"),
        ([HEADER, good, line(row, dtype=...)], "line 3: missing field dtype"),
        ([HEADER, good, line(row, n="3")], "line 3: field n must be int, not str"),
        ([HEADER, good, line(row, n=True)], "line 3: field n must be int, not bool"),
        ([HEADER, good, line(row, verified=1)], "line 3: field verified must be bool"),
        ([HEADER, good, line(row, opts="[]")], "field opts must hold a JSON list"),
        ([HEADER, good, line(row, opts=[["EVAL", "a"]])], "line 3, field opts: unknown option 'EVAL'"),
        ([HEADER, good, line(row, opts=[["TILE", "a", -1]])], "line 3, field opts: TILE"),
        ([HEADER, good, line(row, shape={"m": 1.5})], "field shape must hold whole numbers"),
        ([HEADER, good, line(row, name="\ud800")], "line 3: not valid JSON"),
        ([HEADER, good, line(row).replace(b'"n": 30', b'"n": 30, "n": 31')], "line 3: a key appears twice"),
        ([HEADER, good, line(row).replace(b'"n": 30', b'"n": 99999999999999999999')], "does not fit in 64 bits"),
        ([HEADER, good, line(row).replace(b'"n": 30', b'"n": ' + b"9" * 5000)], "does not fit in 64 bits"),
        ([HEADER, good, line(row).replace(b'"t_min": 9e-05', b'"t_min": NaN')], "line 3: NaN is not allowed"),
        ([HEADER, good, line(row).replace(b'"t_min": 9e-05', b'"t_min": 1e999')], "a number is too large"),
        ([HEADER, good, line(row, provenance={"x": "y" * (1 << 20)})], "line 3: larger than a bundle may be"),
        ([HEADER, good, b'{"a":' * 100_000], "nested too deeply|not valid JSON"),
    ]
    for number, (lines, message) in enumerate(cases):
        file = tmp_path / f"{number}.jsonl"
        file.write_bytes(b"\n".join(lines))
        with pytest.raises(CacheError, match=message):
            store.import_(file)
    assert store.rows() == []


def test_files_that_cannot_be_read_or_written(store: Cache, make_row, tmp_path: Path) -> None:
    with pytest.raises(CacheError, match=r"cannot read the bundle .*absent\.jsonl: No such file"):
        store.import_(tmp_path / "absent.jsonl")
    with pytest.raises(CacheError, match="cannot read the bundle"):
        store.import_(tmp_path)
    with pytest.raises(CacheError, match=r"cannot write the bundle .*; choose another file"):
        store.export(tmp_path / "no" / "such" / "folder.jsonl")


def test_export_replaces_a_file_whole_and_to_a_stream(store: Cache, make_row, tmp_path: Path) -> None:
    import io

    store.record(make_row())
    file = tmp_path / "b.jsonl"
    file.write_text("old")
    with pytest.raises(CacheError, match="it is a text, not a bundle of `tune cache export`; it was left as it is"):
        store.export(file)
    assert file.read_text() == "old"
    store.export(file, overwrite=True)
    store.export(file)
    stream = io.StringIO()
    assert store.export(stream) == 1
    assert stream.getvalue() == file.read_text() and file.read_text().endswith("}\n")
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith("b.jsonl")] == ["b.jsonl"], "no temporary file is left"


def test_crlf_and_blank_lines_are_read(make_row) -> None:
    row = make_row()
    assert bundles.loads([HEADER + b"\r\n", line(row) + b"\r\n", b"\n"]) == [row]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(), x, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
def test_hostile_text_only_raises_cache_error(make_row, request: pytest.FixtureRequest) -> None:
    @settings(max_examples=amount(request, 120, 300), deadline=None)
    @given(data=st.data())
    def holds(data: st.DataObject) -> None:
        read_or_refused(data, make_row)

    holds()


def read_or_refused(data: st.DataObject, make_row) -> None:
    """Random changes to a good bundle: it is either read as rows that survive a round trip, or a CacheError; and nothing gets imported."""
    row = make_row(run_id="r", when="2025-01-01T00:00:00.000000+00:00")
    kind = data.draw(st.sampled_from(["bytes", "flip", "field", "extra", "option"]))
    if kind == "bytes":
        raw = data.draw(st.binary(max_size=300))
        lines = [HEADER, raw] if data.draw(st.booleans()) else [raw]
    elif kind == "flip":
        text = bytearray(HEADER + b"\n" + line(row))
        for at, to in data.draw(st.lists(st.tuples(st.integers(0, len(text) - 1), st.integers(0, 255)), max_size=3)):
            text[at] = to
        lines = bytes(text).split(b"\n")
    elif kind == "option":
        lines = [
            HEADER,
            line(
                row,
                opts=data.draw(st.lists(st.lists(json_values | st.sampled_from(["TILE", "STAGE", "MOVE", "a0"]), max_size=4), max_size=2)),
            ),
        ]
    else:
        name = data.draw(st.sampled_from([*row.to_dict()]) if kind == "field" else st.text())
        lines = [HEADER, line(row, **{name: data.draw(json_values)})]
    before = set(sys.modules)
    try:
        rows = bundles.loads(lines)
    except CacheError:
        return
    assert bundles.loads(x.encode() for x in bundles.dumps(rows)) == sorted(rows, key=bundles._order)
    assert not {"pickle", "marshal"} & (set(sys.modules) - before)
