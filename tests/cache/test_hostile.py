"""Bundles from strangers through `tune cache import`: refused with the line, or read; never run, never half imported,
never harmful to a terminal."""

from __future__ import annotations

import json
import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tilewright import cache
from tilewright.cache import BUNDLE_HEADER, Cache, Row, bundles, writer
from tilewright.cli import main
from tilewright.ir.errors import CacheError

HEADER = json.dumps(BUNDLE_HEADER).encode()
NEVER = (
    "exec",
    "compile",
    "import",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "subprocess.Popen",
    "pickle.find_class",
    "marshal.loads",
    "socket.connect",
)
"""What Python reports (PEP 578) when code is made or run, a process started, or the network used."""
_seen: list[str] = []
_watching = False


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if _watching and event in NEVER:
        _seen.append(f"{event} {str(args)[:200]}")


sys.addaudithook(_hook)


@contextmanager
def watched() -> Iterator[list[str]]:
    """What of NEVER happens inside."""
    global _watching
    _seen.clear()
    _watching = True
    try:
        yield _seen
    finally:
        _watching = False


def text_of(row: Row, **changes: Any) -> bytes:
    values = json.loads(list(bundles.dumps([row]))[1])
    return json.dumps({k: v for k, v in (values | changes).items() if v is not ...}).encode()


@pytest.fixture
def row(make_row) -> Row:
    return make_row(run_id="r", when="2025-01-01T00:00:00.000000+00:00")


def test_the_watch_sees_what_it_must() -> None:
    with watched() as seen:
        eval("1 + 1")
        import pickle

        pickle.loads(pickle.dumps(Path("x")))
    assert any(s.startswith("compile") for s in seen) and any(s.startswith("pickle.find_class") for s in seen)


CODE = [
    "__import__('os').system('touch pwned')",
    "cos\nsystem\n(S'touch pwned'\ntR.",
    "!!python/object/apply:os.system ['x']",
    "${jndi:ldap://x/y}",
    "'; DROP TABLE measurement; --",
]


@pytest.mark.slow
@pytest.mark.parametrize("code", CODE)
def test_code_in_any_field_is_text(store: Cache, row: Row, tmp_path: Path, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a field takes text it is stored as that; where it does not, the line is refused. Nothing is run, compiled or imported."""
    monkeypatch.chdir(tmp_path)
    good = tmp_path / "good.jsonl"
    good.write_bytes(HEADER + b"\n" + text_of(row) + b"\n")
    store.import_(good)  # everything that is imported lazily is there now
    store.rows()
    taken = 0
    for field in row.to_dict():
        changed = {"x": code} if field == "provenance" else code
        bundle = tmp_path / "b.jsonl"
        bundle.write_bytes(HEADER + b"\n" + text_of(row, **{field: changed}))
        with watched() as seen:
            try:
                store.import_(bundle)
                taken += 1
            except CacheError as e:
                assert "line 2" in str(e)
        assert seen == []
    found = store.rows()
    assert len(found) == 1 + taken and taken >= 1
    assert not (tmp_path / "pwned").exists()


def test_option_values_are_data(row: Row) -> None:
    for value in (
        {"at": "n", "__class__": "x"},
        {"at": {"at": 1}},
        ["n"],
        {"at": "\x1b[2J"},
        {"at": "a\nb"},
        5,
        1 << 70,
        1.5,
        "x",
        True,
        False,
        [],
        [["at", "n"]],
    ):
        with pytest.raises(CacheError, match="line 2"):
            bundles.loads([HEADER, text_of(row, opts=[["STAGE", "b", value]])])
    for on in ("\x1b]0;title\x07", "a\u202eb", "x" * 5000, ""):
        with pytest.raises(CacheError, match="line 2") as e:
            bundles.loads([HEADER, text_of(row, opts=[["TILE", on, 8]])])
        assert "\x1b" not in str(e.value) and "\u202e" not in str(e.value) and len(str(e.value)) < 2000


@pytest.mark.parametrize("bad", ["\x1b[31m", "a\nb", "a\rb", "\x00", "\x9b2J", "\u202e", "\u2028", "x" * 5000])
def test_what_could_act_on_a_terminal_is_refused(row: Row, bad: str) -> None:
    for field in ("name", "device", "dtype", "strategy", "target", "compiler", "policy", "run_id", "tool_version", "source_sha", "kernel"):
        with pytest.raises(CacheError, match=rf"line 2: .*{field}") as e:
            bundles.loads([HEADER, text_of(row, **{field: bad})])
        assert bad not in str(e.value)
    if len(bad) < 100:
        with pytest.raises(CacheError, match="field shape"):
            bundles.loads([HEADER, text_of(row, shape={bad: 1})])


def test_limits_name_the_line(row: Row) -> None:
    good = text_of(row)
    deep = good.replace(b'"provenance": {', b'"provenance": {"x": ' + b"[" * 40 + b"]" * 40 + b", ")
    cases = [
        ([HEADER, good, b"\xef\xbb\xbf" + good], "line 3: begins with a byte order mark"),
        ([b"\xef\xbb\xbf" + HEADER], "line 1: begins with a byte order mark"),
        ([HEADER, good, deep], "line 3: nested too deeply"),
        ([HEADER, b"[" * 100_000], "line 2: nested too deeply"),
        ([HEADER, b'{"a":' * 100_000], "line 2: nested too deeply"),
        ([HEADER, good[: len(good) // 2]], "line 2: not valid JSON"),
        ([HEADER[:10]], "line 1: not valid JSON"),
        ([HEADER, good + b"}"], "line 2: not valid JSON"),
        ([HEADER, good.replace(b'"n": 30', b'"n": 1e400')], "line 2: a number is too large"),
        ([HEADER, good.replace(b'"n": 30', b'"n": -0')], None),
        ([HEADER, good.replace(b'"n": 30', b'"n": 30.0')], "line 2: field n must be int"),
        ([HEADER, good.replace(b'"n": 30', b'"n": ' + b"1" * 500_000)], "line 2: an integer does not fit in 64 bits"),
        ([HEADER, good.replace(b'"n": 30', b'"n": Infinity')], "line 2: Infinity is not allowed"),
        ([HEADER, good.replace(b'"n": 30', b'"n": -1')], "line 2: field n must be in 0 .. 2"),
        ([HEADER, good.replace(b'"t_min": 9e-05', b'"t_min": -1.0')], "line 2: field t_min must be finite and not negative"),
        ([HEADER, good.replace(b'"threads": 2', b'"threads": 0')], "line 2: threads is 0"),
        ([HEADER, good.replace(b'"m": 64', b'"m": 64, "m": 65')], "line 2: a key appears twice"),
        ([HEADER, good, HEADER], "line 3: unknown field"),
        ([HEADER, good.replace(b'"float32"', b'"\xff\xfe"')], "line 2: not UTF-8"),
        ([HEADER, b" " * (bundles.MAX_LINE + 1)], "line 2: larger than a bundle may be"),
        ([HEADER, good.replace(b'"name": "matmul"', b'"name": "' + b"m" * 5000 + b'"')], "line 2: field name is too long"),
    ]  # fmt: skip
    for lines, said in cases:
        if said is None:
            assert bundles.loads(lines)
            continue
        with pytest.raises(CacheError, match=said):
            bundles.loads(lines)


def test_too_many_rows_or_bytes(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundles, "MAX_ROWS", 3)
    many = [text_of(row, run_id=str(i)) for i in range(4)]
    assert len(bundles.loads([HEADER, *many[:3]])) == 3
    with pytest.raises(CacheError, match="line 5: larger than a bundle may be"):
        bundles.loads([HEADER, *many])
    with pytest.raises(CacheError, match=r"4 rows, .* are more than a bundle may hold .*: narrow it with --best"):
        bundles.write(bundles.loads([HEADER, *many[:3]]) + bundles.loads([HEADER, many[3]]), "never.jsonl")
    monkeypatch.setattr(bundles, "MAX_BYTES", len(HEADER) + len(many[0]) + 10)
    with pytest.raises(CacheError, match="line 3: larger than a bundle may be"):
        bundles.loads([HEADER, *many[:2]])


def test_an_endless_line_is_not_read_to_its_end() -> None:
    with pytest.raises(CacheError, match="line 1: larger than a bundle may be"):
        bundles.read("/dev/zero")


# the command, fuzzed ------------------------------------------------------------------------------------------------
pieces = st.sampled_from(
    [
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b"\\",
        b"\\ud800",
        b"\0",
        b"\xff",
        b"\xef\xbb\xbf",
        b"NaN",
        b"1e999",
        b"-",
        b"\n",
        b"\r",
        b"null",
        b",",
        b":",
        b"9" * 30,
    ]
)


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_the_command_takes_all_or_nothing(
    data: st.DataObject, row: Row, make_row, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bytes are cut, doubled, swapped and put into a good bundle. Exit 0 and every row, or exit 2, one line that says where, and no row."""
    rows = [make_row(run_id=str(i), when="2025-01-01T00:00:00.000000+00:00") for i in range(3)]
    raw = bytearray("\n".join(bundles.dumps(rows)).encode() + b"\n")
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw)))
        kind = data.draw(st.sampled_from(["put", "cut", "double", "set", "end"]))
        if kind == "put":
            raw[at:at] = data.draw(pieces)
        elif kind == "cut":
            del raw[at : at + data.draw(st.integers(1, 40))]
        elif kind == "double":
            raw[at:at] = raw[at : at + data.draw(st.integers(1, 400))]
        elif kind == "set" and at < len(raw):
            raw[at] = data.draw(st.integers(0, 255))
        else:
            del raw[at:]
    folder = tmp_path_factory.mktemp("fuzz")
    bundle, db = folder / "b.jsonl", folder / "c.db"
    bundle.write_bytes(bytes(raw))
    capsys.readouterr()
    code = main(["cache", "import", str(bundle), "--cache", str(db)])
    said = capsys.readouterr()
    assert code in (0, 2) and "Traceback" not in said.err
    with cache.open(db) as store:
        found = store.rows()
    if code:
        assert found == [] and said.err.startswith("error: ") and said.err.count("\n") == 1
        assert f"{bundle}, line " in said.err or "empty; a bundle begins with" in said.err
        assert all(c == "\n" or c.isprintable() for c in said.err)
    else:
        assert [*map(bundles._order, sorted((r.marked(imported=False) for r in found), key=bundles._order))] == [
            *map(bundles._order, sorted(bundles.read(bundle), key=bundles._order))
        ]


names = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=30) | st.sampled_from(
    ["[/b]", "[link=x]", "</script><script>alert(1)</script>", "=1+1", "|", "`", "%s{}"]
)


@pytest.mark.slow
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=names, dtype=names, device=names, on=names.filter(bool))
@example(name="[/b]", dtype="[red]", device="[link=file:///etc/passwd]x[/]", on="[/bold]")
def test_whatever_can_be_imported_can_be_shown(
    name: str, dtype: str, device: str, on: str, row: Row, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command that shows rows survives odd names, shows them as they are, and lets none of them be markup."""
    folder = tmp_path_factory.mktemp("show")
    (folder / "b.jsonl").write_bytes(
        HEADER + b"\n" + text_of(row, name=name, dtype=dtype, device=device, opts_display=[["TILE", on, 8]], verified=True)
    )
    db = str(folder / "c.db")
    if main(["cache", "import", str(folder / "b.jsonl"), "--cache", db]):
        assert "line 2" in capsys.readouterr().err
        return
    for words in (
        ["cache", "list"],
        ["cache", "list", "--all"],
        ["cache", "show"],
        ["report"],
        *(["report", "--format", f] for f in ("json", "csv", "markdown", "t4")),
    ):
        capsys.readouterr()
        assert main([*words, "--cache", db]) == 0, capsys.readouterr().err
    assert main(["report", "--html", str(folder / "r.html"), "--cache", db]) == 0
    assert "<script>alert" not in (folder / "r.html").read_text()


# disks and locks ----------------------------------------------------------------------------------------------------
FULL = """
import resource, sys
from tilewright.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
sys.exit(main(sys.argv[2:]))
"""


def limited(size: int, *args: str, out: Any = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    """The command where no file may be larger than `size` bytes, which stands in for a full disk."""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    return subprocess.run([sys.executable, "-c", FULL, str(size), *args], stdout=out, stderr=subprocess.PIPE, text=True, timeout=240)


def test_exporting_to_a_full_disk_keeps_the_old_bundle(store: Cache, make_row, path: Path, tmp_path: Path) -> None:
    store.record([make_row(provenance={"x": "y" * 1000}) for _ in range(50)])
    bundle = tmp_path / "b.jsonl"
    bundles.write([], bundle)
    old = bundle.read_text()
    done = limited(60_000, "cache", "export", str(bundle), "--cache", str(path))
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert done.stderr == f"error: cannot write the bundle {bundle}: File too large; choose another file\n"
    assert bundle.read_text() == old and [p.name for p in tmp_path.glob("b.jsonl*")] == ["b.jsonl"]
    assert len(store.rows()) == 50


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has /dev/full")
@pytest.mark.parametrize("file", ["-", "/dev/full"])
def test_exporting_to_a_full_stream(store: Cache, make_row, path: Path, file: str) -> None:
    store.record([make_row() for _ in range(20)])
    with open("/dev/full", "w") as full:
        done = limited(1 << 30, "cache", "export", file, "--cache", str(path), out=full)
    assert (
        done.returncode == 2
        and done.stderr.startswith("error: cannot write the bundle ")
        and done.stderr.endswith("No space left on device; choose another file\n")
    )
    assert Path("/dev/full").is_char_device()


def test_what_is_no_regular_file_is_written_to_and_a_link_stays(store: Cache, make_row, tmp_path: Path) -> None:
    store.record(make_row())
    real, link, pipe = tmp_path / "real.jsonl", tmp_path / "link.jsonl", tmp_path / "pipe"
    real.touch()
    real.chmod(0o640)
    link.symlink_to(real)
    assert store.export(link) == 1
    assert link.is_symlink() and real.read_text().startswith('{"schema"') and real.stat().st_mode & 0o777 == 0o640
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE)
    assert store.export(pipe) == 1
    assert reader.communicate(timeout=240)[0] == real.read_bytes() and pipe.is_fifo()


@pytest.mark.slow
def test_importing_into_a_full_disk_adds_nothing(store: Cache, make_row, path: Path, tmp_path: Path) -> None:
    store.record([make_row() for _ in range(3)])
    bundle = tmp_path / "b.jsonl"
    bundles.write([make_row(provenance={"x": "y" * 2000}) for _ in range(500)], bundle)
    done = limited(150_000, "cache", "import", str(bundle), "--cache", str(path))
    assert done.returncode == 2 and "Traceback" not in done.stderr and "full" in done.stderr and "free some space" in done.stderr
    assert len(store.rows()) == 3
    assert store.import_(bundle) == (500, 0), "nothing is broken by it"


def test_importing_into_a_locked_cache(
    store: Cache, make_row, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store.record(make_row())
    bundle = tmp_path / "b.jsonl"
    bundles.write([make_row() for _ in range(5)], bundle)
    monkeypatch.setattr(writer, "BUSY_S", 0.1)
    blocker = sqlite3.connect(path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    assert main(["cache", "import", str(bundle), "--cache", str(path)]) == 2
    assert "is locked by another process" in (said := capsys.readouterr().err) and "try again" in said
    assert main(["cache", "export", str(tmp_path / "out.jsonl"), "--cache", str(path)]) == 0, "a reader does not wait"
    blocker.execute("ROLLBACK")
    blocker.close()
    assert len(bundles.read(tmp_path / "out.jsonl")) == 1
    assert main(["cache", "import", str(bundle), "--cache", str(path)]) == 0 and len(store.rows()) == 6
