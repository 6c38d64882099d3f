"""Recording, looking up, filtering and clearing."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tilewright import cache
from tilewright.cache import Cache, Key, Row, lookup
from tilewright.cache.rows import digest_of
from tilewright.ir.errors import CacheError


def test_a_row_comes_back_as_it_was(store: Cache, make_row, key: Key) -> None:
    row = make_row()
    assert store.record(row) == 1
    assert store.rows() == [row]
    assert store.best(key) == row
    assert row.shape_dict == {"m": 64, "n": 64, "k": 64}


def test_a_file_that_was_deleted_meanwhile_is_made_anew(store: Cache, path: Path, make_row) -> None:
    for _ in range(3):
        assert store.record(make_row()) == 1 and len(store.rows()) == 1
        path.unlink()


def test_reading_an_absent_cache_makes_no_file(store: Cache, path: Path, key: Key) -> None:
    assert store.best(key) is None and store.rows() == [] and store.clear() == 0
    assert not path.exists()


def test_best_is_the_fastest_that_is_verified_and_ok(store: Cache, make_row, key: Key) -> None:
    store.record(
        [
            make_row(t_med=5e-5, t_min=5e-5, verified=False),
            make_row(t_med=4e-5, t_min=4e-5, outcome="slow"),
            make_row(t_med=None, t_min=None, outcome="crash"),
            make_row(t_med=3e-4, t_min=3e-4),
            make_row(t_med=2e-4, t_min=2e-4),
            make_row(t_med=2e-4, t_min=1e-4, opts=[["UPCAST", "a0", 4]]),
            make_row(t_med=1e-6, t_min=1e-6, threads=1),
        ]
    )
    found = store.best(key)
    assert found is not None and (found.t_med, found.t_min) == (2e-4, 1e-4)
    assert len(store.rows()) == 7, "all outcomes are kept"


@pytest.mark.parametrize("field", ["kernel", "target", "threads", "compiler", "policy"])
def test_every_field_of_the_key_is_strict(store: Cache, make_row, key: Key, field: str) -> None:
    store.record(make_row())
    other = replace(key, **{field: 1 if field == "threads" else "other"})
    assert store.best(key) is not None
    assert store.best(other) is None


def test_the_same_measurement_is_kept_once(store: Cache, make_row) -> None:
    row = make_row()
    assert store.record([row, row]) == 1
    assert store.record([row, make_row()]) == 1
    assert len(store.rows()) == 2


def test_numbers_and_json_take_one_form(store: Cache, make_row) -> None:
    a = make_row(run_id="r", when="2025-01-01T00:00:00.000000+00:00", start_s=1, shape='{"n": 3,  "m": 4}')
    b = replace(a, start_s=1.0, shape={"m": 4, "n": 3})
    assert store.record(a) == 1 and store.record(b) == 0
    assert store.rows()[0].shape == '{"m":4,"n":3}'


@pytest.mark.slow
def test_a_commit_by_another_process_is_seen_by_the_next_look_up(store: Cache, make_row, key: Key, path: Path) -> None:
    store.record(make_row(t_med=1e-3))
    assert lookup(path, key).t_med == 1e-3
    assert lookup(path, key).t_med == 1e-3
    code = f"import sys; from tilewright import cache; cache.open({str(path)!r}).import_(sys.argv[1])"
    bundle = path.with_name("b.jsonl")
    with cache.open(path.with_name("other.db")) as other:
        other.record(make_row(kernel="another", t_med=5e-4))
        other.export(bundle)
    subprocess.run([sys.executable, "-c", code, str(bundle)], check=True, timeout=240)
    assert lookup(path, replace(key, kernel="another")).t_med == 5e-4


def test_a_replaced_file_is_noticed(make_row, key: Key, path: Path, tmp_path: Path) -> None:
    for name, t in (("a.db", 1e-3), ("b.db", 2e-3)):
        with cache.open(tmp_path / name) as c:
            c.record(make_row(t_med=t))
    (tmp_path / "a.db").rename(path)
    assert lookup(path, key).t_med == 1e-3
    (tmp_path / "b.db").replace(path)
    assert lookup(path, key).t_med == 2e-3
    path.unlink()
    assert lookup(path, key) is None


@pytest.mark.slow
def test_look_up_among_ten_thousand_rows(store: Cache, make_row, key: Key, path: Path) -> None:
    rows = [make_row(kernel=f"kernel{i % 500}", t_med=1e-3 + i * 1e-7, t_min=1e-3, opts=[["UPCAST", "a1", 2 + i]]) for i in range(10_000)]
    assert store.record(rows) == 10_000
    for i in (0, 7, 499):
        found = lookup(path, replace(key, kernel=f"kernel{i}"))
        assert found is not None and found.t_med == pytest.approx(1e-3 + i * 1e-7)
    assert lookup(path, replace(key, kernel="kernel500")) is None
    with sqlite3.connect(path) as c:
        from tilewright.cache import queries

        plan = " ".join(str(r) for r in c.execute("EXPLAIN QUERY PLAN " + queries.ANSWERS, {"key": key.hash}))
    assert "USING INDEX measurement_best (key_hash=?" in plan, "a look-up searches the index"


def test_looking_up_loads_neither_sqlalchemy_nor_numpy(store: Cache, make_row, key: Key, path: Path) -> None:
    store.record(make_row())
    code = f"""
import sys
from tilewright import cache
key = cache.Key({key.kernel!r}, {key.target!r}, {key.threads}, {key.compiler!r}, {key.policy!r})
store = cache.open({str(path)!r})
assert cache.lookup({str(path)!r}, key) and store.best(key) and store.rows() and store.nearest(key, "le") == [] and store.explain(key).hit
print(sorted({{"sqlalchemy", "numpy"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, timeout=240, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_filters(store: Cache, make_row) -> None:
    store.record([make_row(name="softmax", dtype="float16"), make_row(), make_row(threads=1, verified=False)])
    assert [r.name for r in store.rows(name="softmax")] == ["softmax"]
    assert len(store.rows(name="matmul", threads=None)) == 2
    assert len(store.rows(verified=False)) == 1
    assert store.rows(name="x' OR 1=1 --") == []
    with pytest.raises(CacheError, match="cannot filter by 'colour'; use name, kernel"):
        store.rows(colour="red")
    with pytest.raises(CacheError, match="filter threads must be int, not str"):
        store.rows(threads="2")


def test_clear_deletes_what_matches(store: Cache, make_row, key: Key) -> None:
    store.record([make_row(), make_row(name="softmax", kernel="s"), make_row(name="softmax", kernel="s")])
    assert store.best(key) is not None
    assert store.clear(name="matmul") == 1
    assert store.best(key) is None
    assert store.clear() == 2 and store.rows() == []
    with pytest.raises(CacheError, match="cannot filter by"):
        store.clear(nmae="matmul")


def test_the_stamp_tells_a_row_that_took_anothers_place(store: Cache, path: Path, make_row) -> None:
    first, second, third = make_row(), make_row(), make_row()
    store.record([first, second, third])
    seen = [store.stamp()]
    assert store.stamp() == seen[0]
    for work in (
        lambda: (store.remove([third]), store.record(make_row())),  # as many rows, and the last one in the same place
        lambda: (store.remove([second]), store.record(second)),
        lambda: (store.remove([first, second]), store.record([make_row(), second])),
        lambda: (store.clear(), path.unlink(), store.record([make_row(), make_row(), make_row()])),
    ):
        work()
        seen.append(store.stamp())
    assert len(set(seen)) == len(seen)


def test_nearest_orders_by_distance_and_keeps_target_compiler_and_policy(store: Cache, make_row, key: Key) -> None:
    wanted = {"m": 64, "n": 64, "k": 128}
    store.record(
        [
            make_row(kernel="far", shape={"m": 1024, "n": 64, "k": 128}),
            make_row(kernel="near", shape={"m": 64, "n": 64, "k": 512}, t_med=3e-4),
            make_row(kernel="near", shape={"m": 64, "n": 64, "k": 512}, t_med=2e-4),
            make_row(threads=1, shape=wanted),
            make_row(kernel="other target", target="neon"),
            make_row(kernel="other compiler", compiler="gcc"),
            make_row(kernel="other policy", policy=""),
            make_row(kernel="wrong", outcome="wrong"),
            make_row(kernel="unlike", loose_extents="x", loose_epilogue="x"),
            make_row(kernel="other epilogue", loose_extents="y", shape=wanted),
        ]
    )
    found = store.nearest(key, "le", "lp", shape=wanted)
    assert [(r.kernel, r.threads) for r in found[:3]] == [(key.kernel, 1), ("near", 2), ("far", 2)]
    assert found[1].t_med == 2e-4
    assert [r.kernel for r in found[3:]] == ["other epilogue"]
    assert len(store.nearest(key, "le", shape=wanted)) == 3
    assert len(store.nearest(key, "le", shape=wanted, limit=2)) == 2


def test_rows_out_of_range_are_refused_before_anything_is_written(store: Cache, make_row) -> None:
    good = make_row()
    for bad, message in [
        (make_row(outcome="great"), "outcome 'great' is none of ok, wrong"),
        (make_row(threads=0), "threads is 0"),
        (make_row(t_med=None), "outcome is ok but t_med is missing"),
        (make_row(t_med=float("nan")), "field t_med must be finite"),
        (make_row(flops=2**63), "field flops must be in"),
        (make_row(name="a\0b"), "field name is too long or holds"),
        (make_row(name="\ud800"), "field name is too long or holds"),
        (make_row(opts="{}"), "field opts must hold a JSON list"),
        (make_row(shape="nonsense"), "field shape: not valid JSON"),
        (make_row(shape={"m": -1}), "field shape must hold whole numbers"),
        (make_row(when="yesterday"), "field when must be UTC"),
        (make_row(verified=1), "field verified must be bool, not int"),
    ]:
        with pytest.raises(CacheError, match=message):
            store.record([good, bad])
    assert store.rows() == []


def test_a_row_that_was_written_wrong_is_left_out_with_a_warning(store: Cache, make_row, key: Key, path: Path) -> None:
    row = make_row()
    store.record(row)
    with sqlite3.connect(path) as c:
        digest = digest_of({**row.stored(), "opts": '{"rm": 1}'})
        c.execute("UPDATE measurement SET opts = '{\"rm\": 1}', digest = ?", (digest,))
    with pytest.warns(cache.CacheWarning, match="a row of the cache .* is ignored: row: field opts must hold a JSON list"):
        assert store.best(key) is None


def test_the_cache_survives_a_fork(store: Cache, make_row, key: Key, path: Path) -> None:
    import os

    store.record(make_row())
    assert store.best(key) is not None
    child = os.fork()
    if child == 0:
        ok = store.best(key) is not None and store.record(make_row()) == 1 and len(store.rows()) == 2
        os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(store.rows()) == 2


def test_sqlite_urls_name_files(make_row, path: Path) -> None:
    with cache.open(f"sqlite:///{path}") as c:
        c.record(make_row())
    with cache.open(path) as c:
        assert len(c.rows()) == 1
    with pytest.raises(CacheError, match="is not a file: use a path"):
        cache.open("sqlite://")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://u:secret@h/db", "pip install|not supported"),
        ("nonsense://x", "cannot use the cache nonsense://x"),
        ("postgresql+psycopg_absent://u:secret@h/db", "cannot use the cache postgresql"),
    ],
)
def test_urls_that_do_not_work_say_why_and_hide_the_password(url: str, message: str, key: Key) -> None:
    with pytest.raises(CacheError, match=message) as e:
        cache.open(url).best(key)
    assert "secret" not in str(e.value)


def test_tables_and_inserts_compile_for_postgresql() -> None:
    from sqlalchemy.dialects import postgresql
    from sqlalchemy.schema import CreateTable
    from tilewright.cache import schema, writer

    ddl = str(CreateTable(schema.measurement).compile(dialect=postgresql.dialect()))
    assert '"when" TEXT NOT NULL' in ddl and "DOUBLE PRECISION" in ddl and "BOOLEAN" in ddl and "BIGINT" in ddl
    insert = writer._insert("postgresql")(schema.measurement).on_conflict_do_nothing(index_elements=["digest"])
    assert "ON CONFLICT (digest) DO NOTHING" in str(insert.compile(dialect=postgresql.dialect()))


def test_rows_are_frozen_and_hash_by_content(make_row) -> None:
    a: Row = make_row(run_id="x", when="2025-01-01T00:00:00.000000+00:00")
    assert a.digest == replace(a).digest != replace(a, n=31).digest
    assert a.usable and not replace(a, verified=False).usable
