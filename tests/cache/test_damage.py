"""Damage at rest is seen, the answer is never a changed one, and what is intact is taken over."""

from __future__ import annotations

import random
import sqlite3
import warnings
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from thorough import amount
from tilewright import cache
from tilewright.cache import CacheWarning, Key, Row
from tilewright.cache import store as examine


@pytest.fixture
def filled(path: Path, make_row) -> dict[str, Row]:
    """A file with some rows of 40 keys: the answer to each kernel."""
    rows = [
        make_row(
            kernel=f"kernel{i % 40}",
            t_med=1e-3 + i * 1e-6,
            t_min=1e-3,
            opts=[["UPCAST", "a1", 2 + i]],
            verified=i % 3 < 2,
            provenance={"confirmed": True},
        )
        for i in range(200)
    ]
    with cache.open(path) as store:
        store.record(rows)
        return {r.kernel: store.best(r.key) for r in rows}


def asked(path: Path, kernels: dict[str, Row], key: Key) -> dict[str, Row | None]:
    with warnings.catch_warnings(), cache.open(path) as store:
        warnings.simplefilter("ignore", CacheWarning)
        store.will_write = True
        return {k: store.best(r.key) for k, r in kernels.items()}


@pytest.mark.slow
def test_flipped_bits_change_no_answer(
    path: Path, filled: dict[str, Row], key: Key, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    whole, rng, lost = path.read_bytes(), random.Random(3), 0
    flips = amount(request, 25, 60)  # tests/soak.py --faults flips more
    for i in range(flips):
        folder = tmp_path / str(i)
        folder.mkdir()
        raw = bytearray(whole)
        raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
        (folder / "cache.db").write_bytes(bytes(raw))
        for kernel, row in asked(folder / "cache.db", filled, key).items():
            if row != filled[kernel]:
                # the flip may have hit this very row: then the next one of its key answers, or none
                lost += 1
                assert row is None or row in every_row(path), f"flip {i}: {kernel} is answered by what was never written"
    # one flip can take one row; where it takes the head of the file, which names the tables, it takes all
    assert lost < flips * 4, f"{lost} answers of {flips * len(filled)} were lost: what is intact is not taken over"


def every_row(path: Path) -> list[Row]:
    with cache.open(path) as store:
        return store.rows()


def view(c: sqlite3.Connection) -> None:
    c.execute("ALTER TABLE measurement RENAME TO hidden")
    c.execute("CREATE VIEW measurement AS SELECT * FROM hidden")


def trigger(c: sqlite3.Connection) -> None:
    c.execute("CREATE TRIGGER t AFTER INSERT ON measurement BEGIN UPDATE measurement SET t_med = 1e-9; END")


def not_utf8(c: sqlite3.Connection) -> None:
    c.execute("UPDATE measurement SET strategy = CAST(X'FF41' AS TEXT) WHERE rowid = 7")


def changed(c: sqlite3.Connection) -> None:
    c.execute("UPDATE measurement SET t_med = 1e-9 WHERE rowid = 7")


def no_schema(c: sqlite3.Connection) -> None:
    c.execute("DELETE FROM tilewright_meta")


def tables_are_called_otherwise(c: sqlite3.Connection) -> None:
    c.execute("ALTER TABLE tilewright_meta RENAME TO tilewright_meda")


def index_lacks_a_row(c: sqlite3.Connection) -> None:
    c.execute("PRAGMA writable_schema = ON")
    sql = "CREATE INDEX measurement_best ON measurement (key_hash, verified, outcome, t_med) WHERE rowid <> 7"
    c.execute("DROP INDEX measurement_best")
    c.execute(sql)
    c.execute("UPDATE sqlite_master SET sql = ? WHERE name = 'measurement_best'", (sql.partition(" WHERE ")[0],))


@pytest.mark.slow
@pytest.mark.parametrize("damage", [view, trigger, not_utf8, changed, no_schema, tables_are_called_otherwise, index_lacks_a_row])
def test_damage_moves_the_file_aside_and_intact_rows_over(
    path: Path, filled: dict[str, Row], damage: Callable[[sqlite3.Connection], None]
) -> None:
    with closing(sqlite3.connect(path)) as c, c:
        damage(c)
    hit = filled["kernel6"]
    before = path.read_bytes()
    with pytest.warns(CacheWarning, match="read as empty and left as it is") as said, cache.open(path) as store:
        assert store.best(hit.key) is None  # who only reads leaves it alone
    assert len(said) == 1 and path.read_bytes() == before and [p.name for p in path.parent.iterdir()] == ["cache.db"]
    with pytest.warns(CacheWarning) as said, cache.open(path) as store:
        store.will_write = True
        got = store.best(hit.key)
        assert [str(w.message).partition(" is damaged")[0] for w in said][:1] == [f"the cache {path}"]
        assert "intact and were taken over" in str(said[-1].message)
        # the seventh row is the answer: where it is the one that was changed, the next of its key answers
        assert got is not None and got.t_med == pytest.approx(1e-3 + (46e-6 if damage in (changed, not_utf8) else 6e-6))
        assert len(store.rows()) == (199 if damage in (changed, not_utf8) else 200)
    assert len(list(path.parent.glob("cache.db.corrupt-*"))) == 1
    assert examine.fault(path) is None


@pytest.mark.parametrize("reads", [True, False])
def test_a_column_of_another_name_is_damage(path: Path, filled: dict[str, Row], make_row, reads: bool) -> None:
    with closing(sqlite3.connect(path)) as c, c:
        c.execute("ALTER TABLE measurement RENAME COLUMN outcome TO outcomf")
    with pytest.warns(CacheWarning, match="is damaged; it was moved to"), cache.open(path) as store:
        store.will_write = True
        assert not reads or store.best(filled["kernel6"].key) is None
        assert store.record(make_row(kernel="new")) == 1


def test_every_command_leaves_one_whole_file(path: Path, make_row, key: Key) -> None:
    with cache.open(path) as store:
        store.best(key)
        store.record(make_row())
        assert store.best(key) is not None
        store.record([make_row() for _ in range(20)])
    assert [p.name for p in path.parent.iterdir()] == ["cache.db"]
    with cache.open(path) as store:
        assert store.best(key) is not None
        assert not store.explain(key).outcomes.get("crash")
    assert [p.name for p in path.parent.iterdir()] == ["cache.db"]


def test_rows_are_in_the_file_though_its_writer_was_killed(path: Path, make_row, key: Key) -> None:
    store = cache.open(path)
    assert store.best(key) is None
    store.record(make_row())
    store.best(key)
    store.record(make_row(t_med=9e-5))
    copy = path.with_name("copy.db")  # what a job that saves the file, and only the file, saves
    copy.write_bytes(path.read_bytes())
    with cache.open(copy) as saved:
        assert len(saved.rows()) == 2
    store.close()
