"""Writing, through SQLAlchemy (imported on first use): here a file; `server.writer` has the same of a server."""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..files.kinds import APPLICATION
from ..ir.errors import CacheError
from . import file_check, queries
from .file_check import ELSEWHERE, Busy, Newer, classify, schema_of
from .rows import Row
from .version import SCHEMA

if TYPE_CHECKING:
    import sqlalchemy as sa

T = TypeVar("T")
BUSY_S = 15.0
"""How long a writer waits for another one."""
LOCK_S = 0.5
"""How long one attempt waits for a file's lock; attempts go on for `patience_s`."""
CHUNK = 500
"""Rows a statement."""


class RowWriter(ABC):
    """A database that rows are added to. Each call is one transaction; it may be used from any thread and after a fork."""

    def __init__(self, place: str) -> None:
        self.place = place
        """What messages call it."""
        self._engine: sa.Engine | None = None
        self.patience_s = BUSY_S
        """How long a call waits for another writer."""

    def prepare(self) -> None:
        """Create or migrate the tables. Raises CacheError where the place cannot be written, with what to do."""
        self._run(lambda c: None)

    def record(self, rows: Iterable[Row]) -> int:
        """Add the rows that are not there yet; returns how many were. All or none."""
        unique = {r.digest: r for r in rows}
        values = [{"digest": d, "key_hash": r.key.hash, **r.stored()} for d, r in unique.items()]

        def work(c: sa.Connection) -> int:
            from .schema import measurement

            insert = _insert(c.dialect.name)(measurement).on_conflict_do_nothing(index_elements=["digest"])
            fresh: list[dict[str, Any]] = []
            for i in range(0, len(values), CHUNK):
                part = values[i : i + CHUNK]
                known = _known(c, [v["digest"] for v in part])
                fresh += (new := [v for v in part if v["digest"] not in known])
                if new:
                    c.execute(insert, new)
            if c.dialect.name == "sqlite":
                _tally(c, fresh)
            return len(fresh)

        return self._run(work) if values else 0

    def known(self, digests: Sequence[str]) -> set[str]:
        """Which of these rows are there."""

        def work(c: sa.Connection) -> set[str]:
            return {d for i in range(0, len(digests), CHUNK) for d in _known(c, digests[i : i + CHUNK])}

        return self._run(work) if digests else set()

    def delete(self, filters: Mapping[str, Any]) -> int:
        """Delete the rows that pass (`queries.FILTERS`); returns how many."""
        clause, used = queries.where_clause(dict(filters))

        def work(c: sa.Connection) -> int:
            import sqlalchemy as sa

            from .schema import count

            gone = int(c.execute(sa.text(f"DELETE FROM measurement{clause}"), used).rowcount)
            if c.dialect.name == "sqlite":
                count(c)
            return gone

        return self._run(work, long=True)

    def remove(self, digests: Sequence[str]) -> int:
        """Delete these rows, all or none; returns how many were there."""
        from .schema import remove

        return self._run(lambda c: remove(c, digests, CHUNK), long=True) if digests else 0

    @abstractmethod
    def close(self) -> None:
        """Let go of the database."""

    # ----------------------------------------------------------------------------------------------------------------
    def _run(self, work: Callable[[sa.Connection], T], *, long: bool = False) -> T:
        """`work` in one transaction, on a prepared database; `long`: it may take minutes. Tried again while another writer holds the file: SQLite's own waiting
        does not cover the change to WAL and the recovery of a log, which fail at once."""
        deadline = time.monotonic() + self.patience_s
        while True:
            try:
                return self._once(work, long=long)
            except Busy:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(random.uniform(0.001, 0.02))

    @abstractmethod
    def _once(self, work: Callable[[sa.Connection], T], *, long: bool = False) -> T:
        """`work` in one transaction, on tables that are there. Raises Busy where another writer holds the database."""


class Writer(RowWriter):
    """The SQLite file `path`; each call has a connection of its own."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.path = path
        self._ready: tuple[int, int] | bool = False
        self._wrote = False

    def close(self) -> None:
        """Let go of the database; a file is left whole, without a log beside it, unless somebody else has it open."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None
        if self._wrote and self.path.is_file():
            self._wrote = False
            _checkpoint(self.path)

    def _once(self, work: Callable[[sa.Connection], T], *, long: bool = False) -> T:
        import sqlalchemy as sa

        from . import schema

        _make_folder(self.path.parent)
        if self._ready != self._identity():
            self._ready = False  # (the file that is made in the place of a deleted one may get its number)
            _refuse_strangers(self.path)
        try:
            engine = self._engine = self._engine or self._connect()
            with engine.begin() as c:
                if self._ready is False or self._ready != self._identity():
                    found = schema.version_of(c)
                    if found is not None and found > SCHEMA:
                        raise Newer(found)
                    schema.prepare(c)
                result = work(c)
            self._ready, self._wrote = self._identity(), True
            return result
        except sa.exc.DBAPIError as e:
            raise classify(e.orig if isinstance(e.orig, Exception) else e, self.place) from None
        except OverflowError as e:
            raise CacheError(f"the cache {self.place} cannot hold a number this large ({e})") from None

    def _identity(self) -> tuple[int, int] | bool:
        """Which file this is: after it was moved aside, the new one wants its tables."""
        try:
            st = os.stat(self.path)
        except OSError:
            return False
        return (st.st_dev, st.st_ino)

    def _connect(self) -> sa.Engine:
        import sqlalchemy as sa

        url = sa.URL.create("sqlite", database=str(self.path))
        engine = sa.create_engine(url, poolclass=sa.pool.NullPool, connect_args={"timeout": min(LOCK_S, self.patience_s)})
        sa.event.listen(engine, "connect", _on_connect)
        sa.event.listen(engine, "begin", _on_begin)
        return engine


def _on_connect(connection: Any, record: Any) -> None:
    # we begin transactions ourselves (below): the driver's own way starts them too late for DDL
    connection.isolation_level = None
    if not connection.execute("PRAGMA page_count").fetchone()[0]:  # a new file says from its first byte on whose it is
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")


def _on_begin(connection: sa.Connection) -> None:
    # IMMEDIATE: wait for the other writer at the start; a transaction that turned from reading to writing would fail at once
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _insert(dialect: str) -> Any:
    if dialect == "postgresql":
        from sqlalchemy.dialects.postgresql import insert as pg

        return pg
    from sqlalchemy.dialects.sqlite import insert as lite

    return lite


def _known(c: sa.Connection, digests: Sequence[str]) -> set[str]:
    import sqlalchemy as sa

    from .schema import measurement

    return set(c.execute(sa.select(measurement.c.digest).where(measurement.c.digest.in_(digests))).scalars())


def _tally(c: sa.Connection, fresh: Iterable[Mapping[str, Any]]) -> None:
    """Count rows that were just added."""
    from .schema import tally

    total: Counter[str] = Counter()
    usable: Counter[str] = Counter()
    for v in fresh:
        total[v["key_hash"]] += 1
        usable[v["key_hash"]] += v["verified"] and v["outcome"] == "ok"
    if total:
        insert = _insert(c.dialect.name)(tally)
        more = {"total": tally.c.total + insert.excluded.total, "usable": tally.c.usable + insert.excluded.usable}
        c.execute(
            insert.on_conflict_do_update(index_elements=["key_hash"], set_=more),
            [{"key_hash": k, "total": n, "usable": usable[k]} for k, n in sorted(total.items())],
        )


def _checkpoint(path: Path) -> None:
    """Bring the log into the file and end it, so that the file alone is the whole cache: it is what gets copied,
    cached in CI and looked at."""
    # where somebody reads or writes at this moment, that one leaves it whole
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=0.2)) as c:
        c.execute("PRAGMA synchronous = FULL")
        c.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        c.execute("PRAGMA journal_mode = DELETE")


def _refuse_strangers(path: Path) -> None:
    """Raise Stranger for what is not ours, before a pragma of ours changes it."""
    if not file_check.check(path):
        return
    try:
        with contextlib.closing(file_check.reading(str(path), file_check.at_rest(str(path)))) as c:
            schema_of(c, str(path))
    except sqlite3.Error as e:
        if e.sqlite_errorcode & 0xFF == sqlite3.SQLITE_READONLY:
            return  # a journal that a lost power left: the first who may write takes it back
        raise classify(e, str(path)) from None


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise CacheError(f"cannot make the folder {folder} for the cache ({e.strerror}): {ELSEWHERE}") from None
