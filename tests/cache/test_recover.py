"""Files that cannot be used: damaged, newer, somebody else's, read-only, on a full disk, locked."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from tilewright import cache
from tilewright.cache import Cache, CacheWarning, Key, file_check, migrations, program_choices, schema, version, writer
from tilewright.cache import file_check as recover
from tilewright.cache.lookup import Reader
from tilewright.cache.store import move_aside
from tilewright.files import kinds
from tilewright.ir.errors import CacheError


def aside(path: Path) -> list[Path]:
    return sorted(p for p in path.parent.glob(f"{path.name}.*") if not p.name.endswith(("-wal", "-shm")))


@pytest.fixture
def damaged(path: Path, make_row) -> bytes:
    """A cache of ours whose pages, but for the first, are gone; its bytes."""
    with cache.open(path) as store:
        store.record([make_row() for _ in range(300)])
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\xff" * (len(data) - 8192) + data[-4096:])
    return path.read_bytes()


@pytest.mark.parametrize("action", ["read", "explain", "rows", "export"])
def test_a_damaged_file_is_left_alone_by_who_reads(path: Path, damaged: bytes, key: Key, action: str) -> None:
    with cache.open(path) as store, pytest.warns(CacheWarning, match=r"is damaged .*; it is read as empty and left as it is") as said:
        if action == "read":
            assert store.best(key) is None
        elif action == "explain":
            assert not store.explain(key).hit
        elif action == "rows":
            assert store.rows() == []
        else:
            assert store.export(path.with_name("out.jsonl")) == 0
            path.with_name("out.jsonl").unlink()
    assert len(said) == 1 and path.read_bytes() == damaged and [p.name for p in path.parent.iterdir()] == ["cache.db"]


def test_a_damaged_file_is_moved_aside_by_who_writes(path: Path, damaged: bytes, make_row, key: Key) -> None:
    moved = r"is damaged; it was moved to .*cache\.db\.corrupt-\d{8}T\d{6}Z and a new one begins"
    with cache.open(path) as store, pytest.warns(CacheWarning, match=moved):
        assert store.record(make_row()) == 1
    assert [p.read_bytes() for p in aside(path)] == [damaged]
    with cache.open(path) as store:
        store.record(make_row())
        assert store.best(key) is not None


def other_database(path: Path) -> None:
    with sqlite3.connect(path) as c:
        c.execute("CREATE TABLE mine (x)")
        c.execute("INSERT INTO mine VALUES ('tilewright is nice')")
    c.close()


def one_with_an_id(path: Path) -> None:
    with sqlite3.connect(path) as c:
        c.execute("PRAGMA application_id = 252006675")
    c.close()


def one_that_is_torn(path: Path) -> None:
    other_database(path)
    path.write_bytes(path.read_bytes()[:5000])


def a_log(path: Path) -> None:
    c = sqlite3.connect(path)
    c.execute("PRAGMA journal_mode = WAL")
    c.execute("CREATE TABLE mine (x)")
    copies = {p: p.read_bytes() for p in path.parent.iterdir()}
    c.close()
    for p, content in copies.items():  # as a process that was killed leaves it
        p.write_bytes(content)


FOREIGN = {
    "markdown": lambda p: p.write_text("# Notes\n\nImportant.\n"),
    "python": lambda p: p.write_text("print('tilewright_meta')\n" * 999),
    "binary": lambda p: p.write_bytes(bytes(range(256)) * 50),
    "database": other_database,
    "identified": one_with_an_id,
    "torn": one_that_is_torn,
    "logged": a_log,
}


@pytest.mark.parametrize("kind", FOREIGN)
@pytest.mark.parametrize("link", ["", "link"])
def test_what_is_not_ours_is_refused_and_untouched(path: Path, make_row, key: Key, kind: str, link: str) -> None:
    FOREIGN[kind](path)
    before = {p.name: p.read_bytes() for p in path.parent.iterdir()}
    if link:
        path = path.with_name("other.db")
        path.symlink_to("cache.db")
        before["other.db"] = path.read_bytes()
    works = (lambda s: s.best(key), lambda s: s.rows(), lambda s: s.explain(key), lambda s: s.record(make_row()))
    for work in (*works, lambda s: s.ensure_writable(), lambda s: s.clear(), lambda s: s.stamp()):
        with (
            cache.open(path) as store,
            pytest.raises(CacheError, match=r"is not a Tilewright cache, but .*: it was left as it is; choose another"),
        ):
            work(store)
    assert {p.name: p.read_bytes() for p in path.parent.iterdir()} == before


@pytest.mark.parametrize("writes", [False, True])
def test_a_folder_and_a_fifo_are_no_caches(path: Path, make_row, key: Key, writes: bool) -> None:
    for make, said in ((os.mkdir, "but a folder"), (os.mkfifo, "but no regular file")):
        make(path)
        with cache.open(path) as store, pytest.raises(CacheError, match=said):
            store.record(make_row()) if writes else store.best(key)
        path.rmdir() if path.is_dir() else path.unlink()
    assert [*path.parent.iterdir()] == []


def test_one_that_cannot_be_read_says_so(path: Path, make_row, key: Key, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"x")

    def refused(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(file_check, "opened", refused)
    for work in (lambda s: s.best(key), lambda s: s.record(make_row())):
        with cache.open(path) as store, pytest.raises(CacheError, match=r"cannot read the cache .*: Permission denied; choose another"):
            work(store)


def test_a_file_says_whose_it_is(path: Path, make_row, key: Key) -> None:
    with cache.open(path) as store:
        store.record(make_row())
    with sqlite3.connect(path) as c:
        assert c.execute("PRAGMA application_id").fetchone() == (kinds.APPLICATION,)
        c.execute("PRAGMA application_id = 0")  # as earlier versions left it
    c.close()
    with cache.open(path) as store:
        assert store.best(key) is not None
        store.record(make_row(kernel="other"))
    with sqlite3.connect(path) as c:
        assert c.execute("PRAGMA application_id").fetchone() == (kinds.APPLICATION,)
    c.close()


def test_reading_leaves_no_log_beside_a_file(path: Path, make_row, key: Key) -> None:
    with cache.open(path) as store:
        store.record(make_row())
    with sqlite3.connect(path) as c:
        c.execute("PRAGMA journal_mode = WAL")
    c.close()
    before = path.read_bytes()
    with cache.open(path) as store:
        assert store.best(key) is not None and len(store.rows()) == 1
        assert [p.name for p in path.parent.iterdir()] == ["cache.db"]
        with cache.open(path) as other:  # a writer is seen all the same
            other.record(make_row(kernel="other"))
            assert len(store.rows()) == 2
    assert before[18:20] == b"\2\2"


def test_damage_in_the_middle_of_a_file(path: Path, damaged: bytes) -> None:
    with cache.open(path) as store, pytest.warns(CacheWarning, match="is damaged"):
        store.ensure_writable()
        assert store.rows() == []
    assert len(aside(path)) == 1 and aside(path)[0].stat().st_size == len(damaged)


def test_a_truncated_file(path: Path, make_row, key: Key) -> None:
    with cache.open(path) as store:
        store.record([make_row() for _ in range(300)])
    with sqlite3.connect(path) as c:
        c.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    os.truncate(path, 5000)
    with cache.open(path) as store, pytest.warns(CacheWarning, match="is damaged"):
        store.record(make_row())
        assert len(store.rows()) == 1
    assert len(aside(path)) == 1


def test_two_damaged_files_in_one_second_keep_both(path: Path, damaged: bytes, make_row) -> None:
    for _ in range(2):
        path.write_bytes(damaged)
        with cache.open(path) as store, pytest.warns(CacheWarning):
            store.record(make_row())
        path.unlink()
    assert len(aside(path)) == 2


def test_a_newer_file_is_moved_aside_whole(path: Path, make_row, key: Key) -> None:
    with cache.open(path) as store:
        store.record(make_row())
    with sqlite3.connect(path) as c:
        c.execute(f"UPDATE tilewright_meta SET value = '{version.SCHEMA + 3}'")
    c.close()
    with (
        cache.open(path) as store,
        pytest.warns(
            CacheWarning, match=rf"later Tilewright \(schema {version.SCHEMA + 3}, this one reads {version.SCHEMA}\); it was moved"
        ),
    ):
        assert store.record(make_row()) == 1
    moved = path.with_name(f"cache.db.newer-v{version.SCHEMA + 3}")
    with sqlite3.connect(moved) as c:
        assert c.execute("SELECT COUNT(*) FROM measurement").fetchone() == (1,)


def test_a_newer_file_is_moved_by_a_writer_too(path: Path, make_row) -> None:
    with cache.open(path) as store:
        store.record(make_row())
        with sqlite3.connect(path) as c:
            c.execute("UPDATE tilewright_meta SET value = '99'")
        c.close()
    with cache.open(path) as store, pytest.warns(CacheWarning, match="newer-v99"):
        store.ensure_writable()
    assert store.rows() == []


def test_an_empty_file_is_a_new_cache(path: Path, make_row, key: Key) -> None:
    path.touch()
    with cache.open(path) as store:
        assert store.best(key) is None
        store.record(make_row())
        assert store.best(key) is not None


def test_an_older_file_is_migrated(path: Path, make_row, key: Key, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with cache.open(path) as store:
        store.record(make_row())
    scripts = tmp_path / "a folder, 100%"
    shutil.copytree(migrations.SCRIPTS, scripts)
    (scripts / "versions" / "schema_3.py").unlink()
    monkeypatch.setattr(migrations, "SCRIPTS", scripts)
    newer = version.SCHEMA + 1
    for module in (version, schema, recover, writer, sys.modules["tilewright.cache.lookup"], sys.modules["tilewright.cache.store"]):
        monkeypatch.setattr(module, "SCHEMA", newer)
    monkeypatch.setattr(sys.modules["tilewright.cache.lookup"], "OLDEST", newer)
    with (
        cache.open(path) as store,
        pytest.raises(CacheError, match=f"this cache has schema {newer - 1} and Tilewright knows no way from it to {newer}"),
    ):
        store.ensure_writable()
    (scripts / "versions" / "schema_3.py").write_text(
        "from alembic import op\nrevision, down_revision = '3', '2'\n"
        "def upgrade(): op.execute(\"UPDATE tilewright_meta SET value = '3' WHERE name = 'schema'\")\n"
    )
    with cache.open(path) as store, pytest.warns(CacheWarning, match=r"read as empty .*migrates it"):
        assert store.best(key) is None
    with cache.open(path) as store:
        store.will_write = True
        assert store.best(key) is not None
    with sqlite3.connect(path) as c:
        assert c.execute("SELECT value FROM tilewright_meta").fetchone() == (str(newer),)


def test_a_file_of_schema_1_is_read_as_it_is_and_migrated_by_writing(path: Path, make_row, key: Key) -> None:
    with cache.open(path) as store:
        store.record([make_row(), make_row(outcome="wrong", t_med=None, opts=[["UPCAST", "a1", 4]])])
    with sqlite3.connect(path) as c:
        c.execute("DROP TABLE tilewright_tally")
        c.execute("UPDATE tilewright_meta SET value = '1'")
    c.close()
    with cache.open(path) as store:
        assert store.best(key) is not None
        store.record(make_row(kernel="other"))
        assert store.best(key) is not None
    with sqlite3.connect(path) as c:
        assert c.execute("SELECT value FROM tilewright_meta").fetchone() == ("2",)
        assert sorted(c.execute("SELECT total, usable FROM tilewright_tally")) == [(1, 1), (2, 1)]


def test_a_place_that_cannot_be_a_file_says_what_to_do(tmp_path: Path, make_row, key: Key) -> None:
    (tmp_path / "file").write_text("x")
    with (
        cache.open(tmp_path / "file" / "sub" / "cache.db") as store,
        pytest.raises(CacheError, match=r"cannot make the folder .*: choose another place with --cache PATH"),
    ):
        store.record(make_row())
    (tmp_path / "folder").mkdir()
    with (
        cache.open(tmp_path / "folder") as store,
        pytest.raises(CacheError, match=r"folder.*choose another place with --cache PATH or the environment variable TILEWRIGHT_CACHE"),
    ):
        store.ensure_writable()


AS_NOBODY = """
import os, sys, warnings
from tilewright import cache
from tilewright import opts
from tilewright.cache import schema
from tilewright.ir.errors import CacheError
import sqlalchemy.dialects.sqlite
path, action = sys.argv[1], sys.argv[2]
if os.getuid() == 0:
    os.setuid(65534)
store = cache.open(path)
key = cache.Key("kkkkkkkk", "llvm:x86_64:znver5:avx2", 2, "llvmlite-0.50")
if action == "read":
    print(store.best(key) is not None, len(store.rows()), store.explain(key).hit)
elif action == "damaged":
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        print(store.best(key), [str(w.message) for w in seen])
try:
    store.record(cache.Row(kernel="k", target="t", threads=2, compiler="c", t_med=1.0))
    print("written")
except CacheError as e:
    print(e)
"""


def as_nobody(path: Path, action: str) -> str:
    for folder in path.parents:  # let the other user reach it
        if folder.stat().st_uid == os.getuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    done = subprocess.run([sys.executable, "-c", AS_NOBODY, str(path), action], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_read_only_cache_can_be_read(tmp_path: Path, make_row) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    path = folder / "cache.db"
    with cache.open(path) as store:
        store.record(make_row())
    path.chmod(0o444)
    folder.chmod(0o555)
    out = as_nobody(path, "read")
    folder.chmod(0o755)
    assert out.startswith("True 1 True\n")
    assert "cannot write the cache" in out and "--cache PATH" in out
    assert "written" not in out


@pytest.mark.slow
def test_a_damaged_file_in_a_read_only_folder_reads_as_empty(tmp_path: Path, path: Path, damaged: bytes) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    path = path.rename(folder / "cache.db")
    path.chmod(0o444)
    folder.chmod(0o555)
    out = as_nobody(path, "damaged")
    folder.chmod(0o755)
    assert out.startswith("None ['") and "it is read as empty" in out
    assert "written" not in out and path.read_bytes() == damaged


FULL = """
import resource, sys
from tilewright import cache
from tilewright.ir.errors import CacheError
store = cache.open(sys.argv[1])
row = lambda i: cache.Row(kernel="k", target="t", threads=2, compiler="c", t_med=1.0, verified=True, run_id=str(i), provenance={"x": "y" * 2000})
store.record([row(i) for i in range(20)])
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
try:
    store.record([row(i) for i in range(20, 2000)])
    print("written")
except CacheError as e:
    print(e)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(len(store.rows()), store.record(row(5000)))
"""


@pytest.mark.slow
def test_a_full_disk_says_so_and_loses_nothing(path: Path) -> None:
    """A limit on the size of files stands in for the full disk."""
    done = subprocess.run([sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    message, counts = done.stdout.splitlines()
    assert "full" in message and "free some space, or choose another place with --cache PATH" in message
    assert counts == "20 1"
    assert aside(path) == []


def test_sqlites_own_disk_full(store: Cache, make_row, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.record(make_row())
    usual = writer._on_connect

    def small(connection, record) -> None:
        usual(connection, record)
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")

    monkeypatch.setattr(writer, "_on_connect", small)
    with cache.open(path) as c, pytest.raises(CacheError, match=r"the disk that holds the cache .* is full: free some space"):
        c.record([make_row(provenance={"x": "y" * 5000}) for _ in range(100)])
    assert len(store.rows()) == 1


def test_a_disk_that_fills_after_the_first_row_ends_no_search(path: Path, make_row, key: Key, monkeypatch: pytest.MonkeyPatch) -> None:
    """A manifest's next kernel, or the next step of a tree of sizes, finds nothing, and its rows wait in a bundle."""

    def full(*_: object, **__: object) -> None:
        raise CacheError("the disk is full")

    with cache.open(path) as store:
        store.begin_writing()
        store.ensure_writable()
        with monkeypatch.context() as m:
            for part, names in ((store._writer, ("prepare", "record")), (store._top, ("select", "answers", "table", "state"))):
                for name in names:
                    m.setattr(part, name, full, raising=False)
            store.ensure_writable()
            with pytest.warns(CacheWarning, match="the disk is full; it is read as empty$"):
                assert store.best(key) is None and store.is_empty()
            with pytest.warns(CacheWarning, match=r"the disk is full. What the program runs is in .*; the next run takes them in"):
                program_choices.keep(store, [make_row()])
            assert store.waiting.said().startswith("the cache could not be written: measurements are in ")
    with cache.open(path) as store, pytest.warns(CacheWarning, match="took in 1 measurements"):
        store.begin_writing()
        assert store.best(key) is not None, "before anything is searched again"


def test_a_lock_that_is_never_released_is_an_error_not_a_hang(store: Cache, make_row, path: Path) -> None:
    store.record(make_row())
    blocker = sqlite3.connect(path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    with cache.open(path) as c, pytest.raises(CacheError, match=r"is locked by another process .*: try again"):
        c.record(make_row(), patience_s=0.1)
    blocker.execute("ROLLBACK")
    blocker.close()
    assert store.record(make_row()) == 1


def test_a_sound_file_is_not_moved(store: Cache, make_row, path: Path) -> None:
    """What happens to the second of two processes that saw the damage."""
    store.record(make_row())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert move_aside(path) is None
    assert len(store.rows()) == 1


def test_what_is_no_cache_under_a_name_of_ours_is_damage(path: Path, key: Key) -> None:
    """A mirror of a team's cache, say, which is made again."""
    path.write_bytes(b"garbage " * 999)
    with pytest.raises(recover.Damaged, match="is damaged"):
        Reader(path, kept=True).answers(key)
    with pytest.raises(recover.Stranger, match="not a Tilewright cache"):
        Reader(path).answers(key)
