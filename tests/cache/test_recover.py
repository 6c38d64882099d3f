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
from tilewright.cache import Cache, CacheWarning, Key, migrations, move_aside, recover, schema, version, writer
from tilewright.ir.errors import CacheError


def aside(path: Path) -> list[Path]:
    return sorted(p for p in path.parent.glob(f"{path.name}.*") if not p.name.endswith(("-wal", "-shm")))


@pytest.mark.parametrize("action", ["read", "write", "explain"])
def test_a_damaged_file_is_moved_aside_and_a_new_one_begins(path: Path, make_row, key: Key, action: str) -> None:
    path.write_bytes(b"this is not a database at all, " * 100)
    with (
        cache.open(path) as store,
        pytest.warns(CacheWarning, match=r"is damaged; it was moved to .*cache\.db\.corrupt-\d{8}T\d{6}Z and a new one begins"),
    ):
        if action == "read":
            assert store.best(key) is None
        elif action == "explain":
            assert not store.explain(key).hit
        else:
            assert store.record(make_row()) == 1
    assert [p.read_bytes()[:22] for p in aside(path)] == [b"this is not a database"]
    with cache.open(path) as store:
        store.record(make_row())
        assert store.best(key) is not None


def test_damage_in_the_middle_of_a_file(path: Path, make_row, key: Key) -> None:
    with cache.open(path) as store:
        store.record([make_row() for _ in range(300)])
        assert store.best(key) is not None
    with sqlite3.connect(path) as c:
        c.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\xff" * (len(data) - 8192) + data[-4096:])
    with cache.open(path) as store, pytest.warns(CacheWarning, match="is damaged"):
        assert store.rows() == []
    assert len(aside(path)) == 1 and aside(path)[0].stat().st_size == len(data)


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


def test_two_damaged_files_in_one_second_keep_both(path: Path, make_row) -> None:
    for _ in range(2):
        path.write_bytes(b"garbage " * 1000)
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
        assert store.best(key) is None
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


def test_somebody_elses_database_is_left_alone(path: Path, make_row, key: Key) -> None:
    with sqlite3.connect(path) as c:
        c.execute("CREATE TABLE mine (x)")
    c.close()
    before = path.read_bytes()
    with cache.open(path) as store:
        with pytest.raises(CacheError, match="is a database, but not a Tilewright cache: choose another place with --cache"):
            store.best(key)
        with pytest.raises(CacheError, match="not a Tilewright cache"):
            store.record(make_row())
    assert path.read_bytes() == before and aside(path) == []


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
    for module in (version, schema, recover, writer, sys.modules["tilewright.cache.lookup"], sys.modules["tilewright.cache.examine"]):
        monkeypatch.setattr(module, "SCHEMA", newer)
    monkeypatch.setattr(sys.modules["tilewright.cache.lookup"], "OLDEST", newer)
    with (
        cache.open(path) as store,
        pytest.raises(CacheError, match=f"this cache has schema {newer - 1} and Tilewright knows no way from it to {newer}"),
    ):
        store.best(key)
    (scripts / "versions" / "schema_3.py").write_text(
        "from alembic import op\nrevision, down_revision = '3', '2'\n"
        "def upgrade(): op.execute(\"UPDATE tilewright_meta SET value = '3' WHERE name = 'schema'\")\n"
    )
    with cache.open(path) as store:
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
    done = subprocess.run([sys.executable, "-c", AS_NOBODY, str(path), action], capture_output=True, text=True, timeout=60)
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
def test_a_damaged_file_in_a_read_only_folder_reads_as_empty(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    path = folder / "cache.db"
    path.write_bytes(b"garbage " * 1000)
    path.chmod(0o444)
    folder.chmod(0o555)
    out = as_nobody(path, "damaged")
    folder.chmod(0o755)
    assert out.startswith("None ['") and "it is read as empty" in out
    assert "written" not in out and path.read_bytes().startswith(b"garbage")


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
    done = subprocess.run([sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, timeout=60)
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
        assert move_aside.move_aside(path) is None
    assert len(store.rows()) == 1
