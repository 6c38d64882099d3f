"""Writing to a server, and asking it what is new, over one connection that is kept."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from ...ir.errors import CacheError
from .. import queries
from ..file_check import Newer, Older
from ..version import SERVER_SCHEMA
from ..writer import RowWriter
from .address import Address
from .server_errors import WRITER, Forbidden, classify, stands_still

if TYPE_CHECKING:
    import sqlalchemy as sa


# silence ----------------------------------------------------------------------------------------------------
# A server that stands still: its process is stopped, or its disk hangs. The connection is sound then, so nothing but a
# clock of our own notices, and neither driver has one for a statement.


class SilenceWatch:
    """Ends a connection over which nothing came for `limit_s` seconds: whoever waits for it gets an error at once. `fired`: whether it
    did so."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s, self.fired = limit_s, False
        self._until = 0.0
        self._over = threading.Event()

    def over(self, connection: Any) -> None:
        """Watch a driver's connection, from now, and no other any more. Raises CacheError where this process has no more files or
        threads."""
        self.done()
        self._over, self._until = threading.Event(), time.monotonic() + self.limit_s
        try:
            # a descriptor of its own: the driver may close its one, and another connection have the number then
            line = socket.fromfd(connection.fileno(), socket.AF_INET, socket.SOCK_STREAM)
            try:
                threading.Thread(target=self._run, args=(line, self._over), daemon=True, name="watches a server").start()
            except RuntimeError:
                line.close()
                raise
        except (OSError, RuntimeError) as e:
            raise CacheError(
                f"a cache's server cannot be used, for want of a file or a thread to watch it ({e}); raise `ulimit -n` or `-u`"
            ) from None

    def heard(self) -> None:
        """Something came: the clock begins anew."""
        self._until = time.monotonic() + self.limit_s

    def done(self) -> None:
        """Watch no more."""
        self._over.set()

    def _run(self, line: socket.socket, over: threading.Event) -> None:
        with line:
            while (left := self._until - time.monotonic()) > 0:
                if over.wait(left):
                    return
            self.fired = True
            with contextlib.suppress(OSError):  # the driver gave it up just now
                line.shutdown(socket.SHUT_RDWR)


# writer -----------------------------------------------------------------------------------------------------
T = TypeVar("T")
CONNECT_S, HURRIED_S = 10, 2
"""How long a server may take to answer: at the start or end of something, and in the middle of a search."""
ANSWER_S, HURRIED_ANSWER_S, LONG_S = 30, 5, 600
"""How long a statement may take, and how long nothing may come of it: at the start or end of something, in the middle of a search, and
where much is changed or read at once. A server whose process is stopped or whose disk hangs counts as one that is away."""
SILENT_S = 10
"""How long sent data may stay unacknowledged before the connection counts as lost, and how long a transaction may lie idle."""
_MAKING = 7316294  # any fixed number: one process at a time makes the tables


@dataclass(frozen=True)
class Changes:
    """What a server says is new: records of `queries.FIELDS`, the digests of deleted rows, and the change number up to which
    that is all. `epoch` is '' where there are no tables yet. `again`: it begins at the beginning. `more`: there are later ones."""

    epoch: str
    upto: int
    again: bool
    records: tuple[tuple[Any, ...], ...] = ()
    deleted: tuple[str, ...] = ()
    more: bool = False


class ServerWriter(RowWriter):
    """The tables of one server. May be used from any thread, and after a fork. Raises `errors.Unreachable` where it does not
    answer, `errors.Forbidden` where this user may not."""

    def __init__(self, address: Address) -> None:
        super().__init__(str(address))
        self.address = address
        self._process = 0
        self._ready = False
        self._here = threading.local()
        """`watch`: over this thread's transaction, None outside of one."""

    def prepare(self) -> None:
        """Make or migrate the tables, where this user may, and see that rows can be added. Raises CacheError."""
        self._ready = False
        self._run(lambda c: None)

    def changes(self, after: int, epoch: str, limit: int) -> Changes:
        """What became visible since change number `after` of `epoch`; from the beginning, where the server has another
        epoch or is behind that (a backup was restored). Raises Older, Newer, CacheError."""

        def work(c: sa.Connection) -> Changes:
            import sqlalchemy as sa

            found = _schema(c, self.place)
            if found is None:
                return Changes("", 0, True)
            if found > SERVER_SCHEMA:
                raise Newer(found, SERVER_SCHEMA)
            if found < SERVER_SCHEMA:
                raise Older(f"the cache {self.place} has schema {found}: whoever owns its tables migrates them with `tune cache roles`")
            name = c.exec_driver_sql("SELECT value FROM tilewright_meta WHERE name = 'epoch'").scalar_one()
            last = c.exec_driver_sql("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM tilewright_change").scalar_one()
            start = after if name == epoch and after <= last else 0
            rows = f"SELECT {queries.FIELDS} FROM measurement WHERE change > %s ORDER BY change LIMIT %s"
            # the driver's own tuples: a pull asks for a hundred thousand, and COPY would leave their decoding to Python
            new = c.exec_driver_sql(rows, (start, limit)).cursor.fetchall()
            more = len(new) == limit
            last_digest = sa.text("SELECT change FROM measurement WHERE digest = :digest")
            last_change = c.execute(last_digest, {"digest": new[-1][-1]}).scalar_one() if more else 0
            # not beyond what this transaction sees: a number that is drawn already may belong to one that is still open
            seen = c.exec_driver_sql(
                "SELECT greatest((SELECT max(change) FROM measurement), (SELECT max(change) FROM tilewright_deleted), 0)"
            ).scalar_one()
            upto = last_change if more else max(start, seen)
            gone = sa.text("SELECT digest FROM tilewright_deleted WHERE change > :start AND change <= :upto")
            deleted = c.execute(gone, {"start": start, "upto": upto}).scalars().all()
            return Changes(str(name), upto, not start, tuple(new), tuple(deleted), more)

        return self._transaction(work, reading=True)

    def rows(self) -> int:
        """How many rows there are."""
        return int(self._transaction(lambda c: c.exec_driver_sql("SELECT count(*) FROM measurement").scalar_one(), reading=True))

    def execute(self, script: str) -> None:
        """Run SQL statements in one transaction, as whoever the address names."""
        quoted = script.replace("%", "%%")  # to drivers, a % begins a parameter
        self._run(lambda c: c.exec_driver_sql(quoted), long=True)

    def close(self) -> None:
        """Let go of the connection; the next call makes another."""
        if self._engine is not None:
            self._engine.dispose(close=self._process == os.getpid())
            self._engine = None

    # ----------------------------------------------------------------------------------------------------------------
    def _once(self, work: Callable[[sa.Connection], T], *, long: bool = False) -> T:
        return self._transaction(work, long=long)

    @property
    def _limit_s(self) -> float:
        return ANSWER_S if self.patience_s >= 1 else HURRIED_ANSWER_S

    def _transaction(self, work: Callable[[sa.Connection], T], *, reading: bool = False, long: bool = False) -> T:
        import sqlalchemy as sa

        watch = self._here.watch = SilenceWatch(LONG_S if long else self._limit_s)
        try:
            with self._connected().begin() as c:
                if reading:  # one moment for all that is asked
                    c.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                # who is cut off in the middle must not hold the lock that others wait for; a server that is slow to write says so before
                # the watch (one that reads much is watched only for standing still)
                c.exec_driver_sql(
                    f"SELECT set_config('lock_timeout', '{max(50, round(1000 * self.patience_s))}', true), "
                    f"set_config('statement_timeout', '{round(900 * (LONG_S if reading else watch.limit_s))}', true), "
                    f"set_config('idle_in_transaction_session_timeout', '{1000 * SILENT_S}', true)"
                )
                if not (reading or self._ready):
                    _prepare(c, self.place, watch)
                result = work(c)
            self._ready = self._ready or not reading
            return result
        except sa.exc.DBAPIError as e:
            if watch.fired:
                raise stands_still(self.address, watch.limit_s) from None
            raise classify(e.orig if isinstance(e.orig, Exception) else e, self.address, writing=not reading) from None
        except OverflowError as e:
            raise CacheError(f"the cache {self.place} cannot hold a number this large ({e})") from None
        finally:
            self._here.watch = None
            watch.done()

    def _heard(self) -> None:
        """Something came from the server, in a transaction of this thread."""
        if (watch := getattr(self._here, "watch", None)) is not None:
            watch.heard()

    def _connected(self) -> sa.Engine:
        """The engine of this process, with its one kept connection: a forked child must not use its parent's."""
        if self._engine is not None and self._process != os.getpid():
            self._engine.dispose(close=False)
            self._engine = None
        if self._engine is None:
            self._engine, self._process = self._connect(), os.getpid()
        return self._engine

    def _connect(self) -> sa.Engine:
        import sqlalchemy as sa

        a = self.address
        given = dict(a.query)
        chosen: dict[str, Any] = {
            "application_name": "tilewright",
            "keepalives_idle": SILENT_S,
            "keepalives_interval": 3,
            "keepalives_count": 3,
            "tcp_user_timeout": 1000 * SILENT_S,
        }
        more = {k: v for k, v in chosen.items() if k not in given}
        if a.driver.endswith("+psycopg"):
            more["prepare_threshold"] = None  # behind PgBouncer, statements do not stay prepared
        if a.sslpassword:
            more["sslpassword"] = a.sslpassword
        url = sa.URL.create(a.driver, a.user, a.password, a.host or None, a.port, a.database or None, given)
        try:
            engine = sa.create_engine(url, pool_size=1, max_overflow=8, connect_args=more, hide_parameters=True)
        except ImportError as e:
            raise CacheError(f"the cache {self.place} needs a driver that works here ({e}): pip install 'tilewright[postgresql]'") from None

        @sa.event.listens_for(engine, "do_connect")
        def hurry(dialect: Any, record: Any, words: Any, parameters: dict[str, Any]) -> None:
            parameters.setdefault("connect_timeout", CONNECT_S if self.patience_s >= 1 else HURRIED_S)

        @sa.event.listens_for(engine, "connect")
        def note(connection: Any, record: Any) -> None:
            record.info["fresh"] = True

        @sa.event.listens_for(engine, "checkout")
        def see(connection: Any, record: Any, proxy: Any) -> None:
            """What SQLAlchemy's `pool_pre_ping` does, which has no limit."""
            watch: SilenceWatch | None = getattr(self._here, "watch", None)
            if watch is not None:  # else it is not for a transaction of ours
                watch.over(connection)
            try:
                alive = record.info.pop("fresh", False) or engine.dialect.do_ping(connection)
            except engine.dialect.dbapi.Error:  # type: ignore[union-attr]
                alive = False
            if not alive:  # versions of SQLAlchemy differ in whether they raise
                if watch is not None and watch.fired:
                    record.invalidate()
                    raise stands_still(a, watch.limit_s)
                raise sa.exc.DisconnectionError

        @sa.event.listens_for(engine, "after_cursor_execute")
        def heard(*words: Any) -> None:
            self._heard()

        return engine


def _schema(c: sa.Connection, place: str) -> int | None:
    """The schema number, None where there are no tables. Raises Forbidden where they cannot even be seen."""
    missing, usable = c.exec_driver_sql("SELECT to_regclass('tilewright_meta') IS NULL, current_schema() IS NOT NULL").one()
    if missing and not usable:
        raise Forbidden(f"you may not use the tables of the cache {place}: ask their owner for a role (`tune cache roles`)")
    if missing:
        return None
    from .. import schema

    return schema.version_of(c)


def _prepare(c: sa.Connection, place: str, watch: SilenceWatch) -> None:
    """Make or migrate the tables. Raises Newer, and Forbidden where they cannot be written."""
    from .. import schema

    found = _schema(c, place)
    if found is None or found < SERVER_SCHEMA:
        watch.limit_s = LONG_S
        c.exec_driver_sql(f"SELECT set_config('statement_timeout', '{1000 * LONG_S}', true)")
        c.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_MAKING})")
        schema.prepare(c)
    elif found > SERVER_SCHEMA:
        raise Newer(found, SERVER_SCHEMA)
    if not c.exec_driver_sql("SELECT has_table_privilege('measurement', 'INSERT') AND NOT pg_is_in_recovery()").scalar_one():
        raise Forbidden(f"you may read the cache {place}, but not write it: {WRITER}")
