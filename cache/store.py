"""The cache as one object: the layer that is written, and the layers below it that are only read."""

from __future__ import annotations

import hashlib
import math
import os
import shlex
import sqlite3
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO, Any, TypeVar

from ..ir.errors import CacheError
from ..log import logger
from . import bundles, file_check, layers, queries, signatures
from .file_check import ELSEWHERE, CacheWarning, Damaged, Newer, Older, Unreadable, classify, schema_of
from .keys import Key
from .layers import Shipped, user_path
from .lookup import Reader, to_rows
from .lookup_report import LookupReport, explain
from .ranking import Standing, distance, standing
from .rows import Row, check
from .server.address import Address
from .server.server_errors import Unreachable
from .server.server_writer import ServerWriter
from .server.team_cache import Team
from .version import SCHEMA
from .writer import BUSY_S, Writer

# moving a cache file aside that cannot be used: with a warning, never overwritten or deleted --------------------------

# examine ----------------------------------------------------------------------------------------------------
# A cache file looked at from end to end: is it sound, and what of it can be saved? Slow on purpose; look-ups check only
# what they touch.


_TALLY = """SELECT key_hash, COUNT(*), SUM(verified AND outcome = 'ok') FROM measurement NOT INDEXED GROUP BY key_hash"""


def fault(path: Path) -> str | None:
    """None for a file that is sound, missing or not ours; else the suffix it should be moved to ('corrupt' or 'newer-vN')."""
    if not path.is_file():
        return None
    try:
        file_check.check(path, again=True)
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=10)) as c:
            found = schema_of(c, str(path))
            if found is None:
                return None
            if found > SCHEMA:
                return f"newer-v{found}"
            return None if c.execute("PRAGMA integrity_check(1)").fetchone() == ("ok",) and _is_complete(c, found, str(path)) else "corrupt"
    except Damaged:
        return "corrupt"
    except CacheError:
        return None
    except sqlite3.Error as e:
        return "corrupt" if isinstance(classify(e, str(path)), Damaged) else None


def _is_complete(c: sqlite3.Connection, schema: int, place: str) -> bool:
    """Whether every row is what was written, and none is missing. Raises Damaged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CacheWarning)  # a strange row that was written so is no damage
        for record in c.execute(f"SELECT {queries.FIELDS} FROM measurement NOT INDEXED"):
            to_rows([record], place)
    return schema < 2 or sorted(c.execute(_TALLY)) == sorted(
        c.execute("SELECT key_hash, total, usable FROM tilewright_tally WHERE total > 0")
    )


def rescue(path: Path) -> list[Row]:
    """The rows of a damaged file that are still what was written."""
    out: dict[str, Row] = {}
    for order in ("ASC", "DESC"):  # from both ends, as far as the damage lets one read
        with warnings.catch_warnings(), suppress(sqlite3.Error), closing(_bytes(path)) as c:
            warnings.simplefilter("ignore", CacheWarning)
            for record in c.execute(f"SELECT {queries.FIELDS} FROM measurement NOT INDEXED ORDER BY rowid {order}"):
                for row in _intact(record, str(path)):
                    out[row.digest] = row
    return list(out.values())


def _bytes(path: Path) -> sqlite3.Connection:
    """The file, read-only, its texts not decoded: one that is no UTF-8 must not end the reading."""
    c = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=10)
    c.text_factory = bytes
    return c


def _intact(record: tuple[Any, ...], place: str) -> Iterator[Row]:
    try:
        yield from to_rows([tuple(v.decode() if isinstance(v, bytes) else v for v in record)], place)
    except (UnicodeDecodeError, Damaged):
        return


# move aside -------------------------------------------------------------------------------------------------


def moved_aside(path: Path, damaged: bool) -> list[Row]:
    """Move a cache aside; of one that is `damaged` the rows that are still what was written. Raises CacheError."""
    moved = move_aside(path)
    return rescue(moved) if moved is not None and damaged else []


def move_aside(path: Path) -> Path | None:
    """Move a corrupt or newer cache, with its WAL, to NAME.corrupt-DATE or NAME.newer-vN and warn. Returns the new place, None
    when another process did it first. Raises CacheError where the folder does not allow it."""
    with _exclusive(path.parent):
        suffix = fault(path)
        if suffix is None:
            return None
        reason = (
            "is damaged" if suffix == "corrupt" else f"was written by a later Tilewright (schema {suffix[7:]}, this one reads {SCHEMA})"
        )
        if suffix == "corrupt":
            suffix += datetime.now(UTC).strftime("-%Y%m%dT%H%M%SZ")
        target, i = path.with_name(f"{path.name}.{suffix}"), 1
        while target.exists():
            target, i = path.with_name(f"{path.name}.{suffix}.{i}"), i + 1
        try:
            # the log first: beside a new file of the old name it would be replayed into that
            for tail in ("-wal", "-shm", ""):
                if os.path.exists(f"{path}{tail}"):
                    os.rename(f"{path}{tail}", f"{target}{tail}")
        except OSError as e:
            raise CacheError(f"the cache {path} {reason} and cannot be moved aside ({e.strerror}): {ELSEWHERE}") from None
    log.info("%s %s: moved to %s", path, reason, target)
    warnings.warn(f"the cache {path} {reason}; it was moved to {target} and a new one begins", CacheWarning, stacklevel=2)
    return target


def preserved_rows(error: CacheError, told: set[str]) -> None:
    """Say, once, that a file which only a writer may move aside, or that cannot be read, is read as empty. `told`: what was said."""
    does = "migrates it" if isinstance(error, Older) else "moves it aside"
    ours = isinstance(error, (Damaged, Newer, Older))
    then = f" and left as it is: a command that writes to it (`tune run`) {does}" if ours else ""
    said = f"{error}; it is read as empty{then}"
    if said not in told:
        told.add(said)
        warnings.warn(said, CacheWarning, stacklevel=5)


@contextmanager
def _exclusive(folder: Path) -> Iterator[None]:
    """One process at a time in here for a folder (where the system has flock)."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


# store ----------------------------------------------------------------------------------------------------------------

# spill ------------------------------------------------------------------------------------------------------
# Measurements that could not be written into the cache: a bundle that the next run which can write takes in.
#
# It lies beside the cache file, else (a full disk, a server) in the user's data folder, else in the folder for
# temporary files, from where it is imported by hand.


class UnsentRows:
    """What waits for one cache: `names` are those under which it may have been kept, today's first (a path or the name of a
    server); `path`, where it is a file."""

    def __init__(self, names: Iterable[str], path: Path | None) -> None:
        self.names, self.path = tuple(dict.fromkeys(names)), path

    def keep(self, rows: Iterable[Row], run: str) -> Path:
        """Write `rows` of the run `run` to the first place that takes them; where. Raises CacheError."""
        kept = list(rows)
        error: CacheError | None = None
        for folder, name in (*_bundle_names(self.names[0], self.path), (Path(tempfile.gettempdir()), "tilewright")):
            file = folder / f"{name}.spill-{run}.jsonl"
            try:
                folder.mkdir(parents=True, exist_ok=True)
                bundles.write(kept, file)
            except CacheError as e:
                error = error or e
            except OSError as e:
                error = error or CacheError(f"cannot write {file}: {e.strerror}")
            else:
                return file
        assert error is not None
        raise error

    def advice(self, kept: Iterable[Path]) -> str:
        """What comes of bundles that `keep` made, for whoever reads where they are: those in the folder of temporary files are looked for
        by nobody, as others could put some there."""
        apart = [f for f in kept if f not in self.files()]
        if not apart:
            return "the next run takes them in"
        return f"take them in with `tune cache import {' '.join(shlex.quote(str(f)) for f in apart)}`"

    def said(self) -> str:
        """What there is to say at the end of several searches: where rows wait, or ''."""
        kept = self.files()
        return f"the cache could not be written: measurements are in {', '.join(map(str, kept))}; {self.advice(kept)}" if kept else ""

    def files(self) -> list[Path]:
        """The bundles that wait to be taken in: this user's own files only."""
        return list(dict.fromkeys(file for name in self.names for file in self._named(name)))

    def _named(self, wanted: str) -> Iterator[Path]:
        for folder, name in _bundle_names(wanted, self.path):
            try:
                found = sorted(folder.glob(f"{_literal(name)}.spill-*.jsonl"))
                yield from (f for f in found if not f.is_symlink() and f.stat().st_uid == os.getuid())
            except OSError:  # a folder that cannot be looked into holds none of ours
                continue

    def take_in(self, record: Callable[[list[Row]], int]) -> int:
        """Have `record` add what waits; how many rows were new. Warns of what it took, and of what cannot be recorded now
        either. Raises Unreachable where the server does not answer."""
        done = 0
        for file in self.files():
            try:
                added = record(bundles.read(file))
                file.unlink(missing_ok=True)
            except Unreachable:
                raise
            except (CacheError, OSError) as e:
                said = f"{file} holds measurements that could not be written to this cache, nor can they now: {e}"
            else:
                done += added
                said = f"took in {added} measurements that an earlier run could not write ({file})"
            warnings.warn(said, CacheWarning, stacklevel=4)
        return done


def _bundle_names(location: str, path: Path | None) -> list[tuple[Path, str]]:
    """Folder and first part of the name."""
    about = hashlib.sha256(location.encode(errors="surrogateescape")).hexdigest()[:12]
    beside = [(path.parent, path.name)] if path is not None else []
    return [*beside, (user_path().parent, f"cache-{about}")]


def _literal(name: str) -> str:
    """A name as a pattern that only it matches."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)


# store ------------------------------------------------------------------------------------------------------
log = logger("cache")
T = TypeVar("T")


class Cache:
    """Open with `Cache.open`. Reading a file needs no SQLAlchemy and makes no file; the first write makes file and tables.

    Of a server the mirror is read (see `server.team`), as fast as any file: look-ups never ask the server, except for a first mirror.
    A damaged or newer file of the top layer is moved aside with a warning by whoever writes (see `recover`), and read as empty by whoever
    only reads; one in a lower layer is ignored with a warning. A file that is not ours is a CacheError, and nobody changes it. Every
    failure is a CacheError that says what to do."""

    rows_wait_s: float = 1.0
    """Seconds that a search's rows wait for others, to share a transaction: one takes as long as a candidate."""

    will_write: bool = False
    """Whether its user is going to write: then a damaged file is moved aside before it is read, so that what is intact answers."""
    written: bool = False
    """Whether it was written since it was opened. From then on a file that cannot be read or written, on a disk that became full for one, ends nobody's
    search: it is read as empty, with a warning, and rows go into bundles."""

    def __init__(self, where: layers.Layers) -> None:
        self.path = layers.file_of(where.top)
        self._named, self._told = where.named, set[str]()
        self._team = None if self.path is not None else Team(Address.parse(where.top))
        self.location = where.top if self._team is None else str(self._team.address)
        """As it was named, without a password."""
        self._writer: Writer | ServerWriter
        if self._team is not None:
            self._writer, self._top = self._team.writer, self._team.mirror.reader
        else:
            assert self.path is not None
            self._writer, self._top = Writer(self.path), Reader(self.path)
        names = (self.location,) if self._team is None else (self._team.address.name, self._team.address.written)
        self.waiting = UnsentRows(names, self.path)
        """What earlier runs could not write."""
        self._teams = [Team(p, elsewhere=True) for p in where.below if isinstance(p, Address)]
        mirrors = iter(self._teams)
        self._below = [
            next(mirrors).mirror.reader if isinstance(p, Address) else Reader(p, elsewhere=True) if isinstance(p, Path) else p
            for p in where.below
        ]

    @classmethod
    def open(cls, location: str | os.PathLike[str] | None = None) -> Cache:
        """The cache at a path or URL, else the one named by TILEWRIGHT_CACHE, else the user's default one over the project's and
        the shipped one. Nothing is read or made yet."""
        return cls(layers.find(location))

    @property
    def team(self) -> Team | None:
        """The server that this cache is, or that is below it; None where there is none."""
        return self._team or next(iter(self._teams), None)

    @property
    def below(self) -> tuple[Reader, ...]:
        """The layers that are only read, nearest first."""
        return tuple(self._below)

    def stamp(self) -> str:
        """A text that changes with the rows of any layer."""
        self._refresh()
        return str([self._read(lambda s: s.state()), *(self._read_below(r, lambda s: s.state()) for r in self.below)])

    # reading --------------------------------------------------------------------------------------------------------
    def is_empty(self) -> bool:
        """Whether no layer but the shipped one has a measurement: then nothing needs to be computed in order to ask for neighbours."""
        query = "SELECT 1 AS one FROM measurement LIMIT 1"
        below = (self._read_below(r, lambda s: s.table(query)) for r in self.below if not isinstance(r, Shipped))
        return not (self._read(lambda s: s.table(query)) or any(below))

    def best(self, key: Key) -> Row | None:
        """The row that answers a look-up of `key`: see `choice`; of several layers, the nearest one's. Whether its
        options still apply and mean the same code is for whoever uses it to find out: `answers` has those that come
        next."""
        return next(iter(self.answers(key)), None)

    def answers(self, key: Key) -> list[Row]:
        """Every row that may answer a look-up of `key`, one for each schedule, the best first."""
        found = [row for row, _ in self._answers(key)]
        if not found and log.listens():
            for line in self.explain(key).lines():
                log.debug("%s", line)
        return found

    def standing(self, row: Row) -> Standing:
        """What is known here of a row that `best` or `answers` gave."""
        return standing(
            row,
            elsewhere=any(row in r.answers(row.key) for r in self._below) and row not in (self._read(lambda s: s.answers(row.key)) or ()),
        )

    def _answers(self, key: Key) -> list[tuple[Row, str]]:
        found = [(row, self._writer.place) for row in self._read(lambda s: s.answers(key)) or ()]
        for reader in tuple(self._below):
            found += [(row, reader.path) for row in self._read_below(reader, lambda s: s.answers(key)) or ()]
        return found

    def rows(self, **filters: Any) -> list[Row]:
        """All rows of all layers that match (see `queries.FILTERS`; None means any), oldest first, each once. Of a server, with what is
        new there."""
        self._refresh()
        return self._select(*queries.rows(filters))

    def nearest(
        self,
        key: Key,
        loose_extents: str,
        loose_epilogue: str = "",
        *,
        shape: Mapping[str, int] | None = None,
        flops: int | None = None,
        limit: int = 8,
    ) -> list[Row]:
        """Rows of other keys to start from, best first: the fastest usable one of each key with the same target, compiler, policy
        and loose key (equal but for extents, then equal but for the epilogue), by distance in threads and shape."""
        out: dict[str, Row] = {}
        for column, loose in (("loose_extents", loose_extents), ("loose_epilogue", loose_epilogue)):
            if not loose or len(out) >= limit:
                continue
            fixed = {"loose": loose, "target": key.target, "compiler": key.compiler, "policy": key.policy}
            found = [r for r in self._select(queries.NEAREST.format(column=column), fixed) if r.key != key]
            for r in sorted(found, key=lambda r: (distance(r, key, shape, flops), r.digest)):
                out.setdefault(r.digest, r)
        return list(out.values())[:limit]

    def siblings(self, key: Key) -> list[Row]:
        """Shipped rows of this very kernel and policy for other processors of the device's kind, threads or compilers, one for each: the
        same processor first, then the nearest number of threads."""
        kind, _, cpu = key.target.rpartition(":")[0].rpartition(":")
        found: list[Row] = []
        for shipped in [r for r in self._below if isinstance(r, Shipped)]:
            rows = self._read_below(shipped, lambda _, s=shipped: s.of_kernel(key.kernel))  # type: ignore[misc]
            for k in dict.fromkeys(r.key for r in rows or ()):
                if k.policy == key.policy and k.objective == key.objective and k.target.startswith(f"{kind}:"):
                    found += shipped.answers(k)[:1]

        def order(row: Row) -> tuple[bool, bool, float, str]:
            return f":{cpu}:" not in row.target, row.target != key.target, abs(math.log(row.threads / key.threads)), row.digest

        return sorted(found, key=order)

    def with_trees(self, key: Key, loose_extents: str) -> list[Row]:
        """Rows of kernels that are equal but for extents, of the same target, threads, compiler and policy, which hold a tree of sizes
        (`cache.size_tree`): the newest first."""
        fixed = {"loose": loose_extents, "target": key.target, "compiler": key.compiler, "policy": key.policy, "threads": key.threads}
        return sorted(self._select(queries.TREES, fixed), key=lambda r: (r.when, r.digest), reverse=True)

    def explain(self, key: Key) -> LookupReport:
        """Hit or miss, and for a miss how the closest key differs, field by field."""
        row, place = next(iter(self._answers(key)), (None, None))
        groups = self._read(lambda s: s.table(queries.KEYS)) or []
        for reader in tuple(self._below):
            groups = groups + (self._read_below(reader, lambda s: s.table(queries.KEYS)) or [])
        return explain(key, row, place, groups, None if row is None else self.standing(row))

    def export(self, file: str | os.PathLike[str] | IO[str], *, best_only: bool = False, overwrite: bool = False, **filters: Any) -> int:
        """Write the matching rows as a bundle (`best_only`: the row a look-up would return for each key); returns their number.
        `overwrite`: in the place of whatever file is there, else only of a bundle. Raises CacheError."""
        rows = self.rows(**filters)
        if best_only:
            rows = [r for r in (self.best(k) for k in dict.fromkeys(r.key for r in rows)) if r is not None]
        return bundles.write(rows, file, overwrite)

    # writing --------------------------------------------------------------------------------------------------------
    def record(self, rows: Row | Iterable[Row], *, patience_s: float = BUSY_S) -> int:
        """Add measurements to the top layer in one transaction; returns how many were new. Raises CacheError, then
        none is added. `patience_s`: how long to wait for another writer."""
        checked = [check(r) for r in ((rows,) if isinstance(rows, Row) else rows)]
        self._writer.patience_s = patience_s
        try:
            added = self._write(lambda: self._writer.record(checked))
            log.debug("%d rows written to %s, %d of them new", len(checked), self._writer.place, added)
            if self._team is not None:
                self._team.add(checked)
            return added
        finally:
            self._writer.patience_s = BUSY_S

    def import_(self, file: str | os.PathLike[str], trust: signatures.Trust | None = None) -> bundles.Imported:
        """Add a bundle's rows, marked as measured elsewhere unless they are here already; importing it again changes
        nothing. Raises CacheError where it is not a bundle, or not signed as `trust` asks; then none is added."""
        rows, _ = signatures.read(file, trust)
        here = self._write(lambda: self._writer.known([r.digest for r in rows]))
        added = self.record([r.marked(imported=True) for r in rows if r.digest not in here])
        return bundles.Imported(added, len(rows) - added)

    def clear(self, **filters: Any) -> int:
        """Delete the matching rows (all, without a filter) of the top layer; returns how many."""
        queries.where_clause(filters)
        if self.path is not None and not self.path.exists():
            return 0
        gone = self._write(lambda: self._writer.delete(filters))
        self._refresh()
        return gone

    def remove(self, rows: Iterable[Row]) -> int:
        """Delete exactly these rows of the top layer, all or none; returns how many were there. Raises CacheError."""
        gone = self._write(lambda: self._writer.remove([r.digest for r in rows]))
        self._refresh()
        return gone

    def begin_writing(self) -> None:
        """Whoever calls this is going to write: a damaged file is moved aside before it is read, and what an earlier run could not write
        is there for look-ups, as far as the file takes it now."""
        self.will_write = True
        if self._team is None:
            self.waiting.take_in(self.record)

    def ensure_writable(self) -> None:
        """Make file and tables now, so that a bad place is found before hours of tuning, take in what an earlier run could
        not write, and what is new in the team's. A server that does not answer does no harm once there is a mirror, nor does what cannot
        be written any more. Raises CacheError."""
        try:
            self._write(self._writer.prepare)
            self.waiting.take_in(self.record)
        except Unreachable as e:
            if self._team is None or not self._team.mirror.there:
                raise
            self._team.went_away(e)
        except CacheError as e:
            if not self.written:
                raise
            log.info("%s; its rows go into bundles", e)
        for team in filter(None, (self._team, *self._teams)):
            team.refresh()

    def spill(self, rows: Iterable[Row], run: str) -> Path:
        """Keep rows that cannot be recorded now in a bundle; where. They answer here all the same, as far as there is a mirror.
        `ensure_writable` takes them in. Raises CacheError."""
        rows = list(rows)
        kept = self.waiting.keep(rows, run)
        log.info("rows of run %s wait in %s", run, kept)
        if self._team is not None:
            self._team.add(rows)
        return kept

    def close(self) -> None:
        """Let go of all files; using the cache again opens them again. What was written is in the one file then."""
        for part in (self._top, *self._below, self._writer, *self._teams):
            part.close()

    def __enter__(self) -> Cache:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # ----------------------------------------------------------------------------------------------------------------
    def _select(self, sql: str, parameters: Mapping[str, Any]) -> list[Row]:
        out = {r.digest: r for r in self._read(lambda s: s.select(sql, parameters)) or ()}
        for reader in tuple(self._below):
            for r in self._read_below(reader, lambda s: s.select(sql, parameters)) or ():
                out.setdefault(r.digest, r)
        return list(out.values())

    def _read(self, work: Callable[[Reader], T]) -> T | None:
        """`work` on the top layer; after a recovery, on the fresh one. A bad file that cannot be moved reads as nothing."""
        if self._team is not None:
            self._team.fetch()
        try:
            return work(self._top)
        except (Damaged, Newer, Older) as e:
            if not self.will_write and self._team is None:
                preserved_rows(e, self._told)
                return None
            try:
                self._writer.prepare() if isinstance(e, Older) else self._recover(e)
            except CacheError as stuck:
                if isinstance(stuck, (Damaged, Newer)):
                    raise
                warnings.warn(f"{stuck}; it is read as empty", CacheWarning, stacklevel=3)
                return None
            return work(self._top)
        except CacheError as e:
            if not self.written and (self._named or self.will_write or not isinstance(e, Unreadable)):
                raise
            preserved_rows(e, self._told)
            return None

    def _read_below(self, reader: Reader, work: Callable[[Reader], T]) -> T | None:
        try:
            return work(reader)
        except CacheError as e:
            warnings.warn(f"ignoring the cache {reader.path}: {e}", CacheWarning, stacklevel=3)
            self._below.remove(reader)
            for team in self._teams:
                team.dropped(reader, e)
            return None

    def _refresh(self) -> None:
        if self._team is not None:
            self._team.refresh()

    def _write(self, work: Callable[[], T]) -> T:
        self.will_write = True
        if self._team is None:
            self._top.close()  # whoever closes a file last brings its log in; a connection that only reads cannot
        try:
            done = work()
        except (Damaged, Newer) as e:
            self._recover(e)
            done = work()
        self.written = True
        return done

    def _recover(self, error: CacheError) -> None:
        """Move the top file aside, and save what of it is intact. Where it turns out sound (another process was
        first) go on with the one that is there."""
        if self._team is not None and isinstance(error, Damaged):
            return self._team.renew()
        if self.path is None:
            raise error
        self._top.close()
        self._writer.close()
        if intact := moved_aside(self.path, isinstance(error, Damaged)):
            self._writer.record(intact)
            warnings.warn(f"{len(intact)} measurements of it are intact and were taken over", CacheWarning, stacklevel=3)
