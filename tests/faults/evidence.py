"""What is really in a cache file, read with the standard library and not with the code under attack."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
import warnings
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path

from tilewright import cache
from tilewright.cache import CacheWarning, Row
from tilewright.cache.rows import COLUMNS

from .kinds import Verdict

TAILS = ("", "-wal", "-shm")
ENOUGH = 12
"""Right candidates that a search has recorded when its start schedule must have been measured."""
Bad = Callable[[Row], bool]
"""Whether a row's candidate was made to give wrong results."""


def never(row: Row) -> bool:
    """Nothing was planted."""
    return False


def committed(path: Path) -> set[str]:
    """The digests of the rows that another process would see now; empty where there is no file or it cannot be read at this moment."""
    if not path.is_file():
        return set()
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=5)) as c:
        return {str(d) for (d,) in c.execute("SELECT digest FROM measurement")}
    return set()


def stored(path: Path) -> dict[str, Row]:
    """Every row of a file at rest by its stored digest, from a copy, so that reading changes nothing. Raises sqlite3.Error."""
    copy = path.with_name(f"copy-of-{path.name}")
    for tail in TAILS[:2]:
        if Path(f"{path}{tail}").exists():
            shutil.copyfile(f"{path}{tail}", f"{copy}{tail}")
    try:
        with contextlib.closing(sqlite3.connect(copy)) as c:
            if not c.execute("SELECT COUNT(*) FROM sqlite_master WHERE name = 'measurement'").fetchone()[0]:
                return {}  # it was made when nothing could be written
            names = ", ".join(f'"{n}"' for n in COLUMNS)
            found = c.execute(f"SELECT digest, {names} FROM measurement").fetchall()
    finally:
        for tail in TAILS:
            Path(f"{copy}{tail}").unlink(missing_ok=True)
    own = [f.name for f in fields(Row)]
    return {r[0]: Row(**dict(zip(own, [*r[1:]], strict=True)) | {"verified": bool(r[1 + COLUMNS.index("verified")])}) for r in found}


def moved(path: Path) -> list[Path]:
    """What the tool moved aside."""
    return sorted(p for p in path.parent.glob(f"{path.name}.*") if not p.name.endswith(("-wal", "-shm")))


def salvaged(path: Path) -> set[str]:
    """Digests that can still be read from files that were moved aside."""
    out: set[str] = set()
    for p in moved(path):
        with contextlib.suppress(sqlite3.Error):
            out |= set(stored(p))
    return out


def spilled(folder: Path) -> set[str]:
    """Digests of the rows in bundles below a folder: where a search leaves what it could not record."""
    out: set[str] = set()
    for p in folder.rglob("*.jsonl"):
        head, *lines = p.read_text().splitlines() or [""]
        if '"bundle"' in head:
            out |= {Row(**json.loads(line)).digest for line in lines if line}
    return out


def read(path: Path) -> tuple[list[Row], list[str]]:
    """What the tool reads from a file, and what it warns of."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with cache.open(path) as store:
            rows = store.rows()
    return rows, [str(w.message) for w in seen if issubclass(w.category, CacheWarning)]


def check(v: Verdict, path: Path, before: Iterable[str], bad: Bad = never, elsewhere: Iterable[str] = ()) -> None:
    """After an injection: the rows `before` are all there, moved aside with a warning, or `elsewhere`; no answer is
    one that was not measured, or is `bad`."""
    try:
        rows, said = read(path)
    except Exception as e:
        v.fail("broken", f"the cache cannot be read any more: {type(e).__name__}: {e}")
        return
    there = {r.digest for r in rows}
    gone = set(before) - there - salvaged(path) - set(elsewhere)
    if gone:
        v.fail("lost", f"{len(gone)} of {len(set(before))} committed rows are gone; warnings: {said}", len(gone))
    believed(v, path, rows, bad)


def believed(v: Verdict, path: Path, rows: list[Row], bad: Bad = never) -> None:
    """Every key's answer is a verified row of the file, unchanged, and not a planted wrong one."""
    raw = stored(path) if path.is_file() else {}
    with cache.open(path) as store:
        for key in dict.fromkeys(r.key for r in rows):
            row = store.best(key)
            if row is not None:
                judge(v, row, raw, bad)


def answered(v: Verdict, path: Path) -> None:
    """A search that was ended, however, answers by what it had measured: each key with a few right candidates has an answer."""
    rows, _ = read(path)
    with cache.open(path) as store:
        for key in dict.fromkeys(r.key for r in rows):
            right = sum(r.outcome == "ok" and r.key == key for r in rows)
            if right >= ENOUGH and store.best(key) is None:
                v.fail("lost", f"{right} right candidates of {rows[0].name} are recorded, and no schedule answers")


def judge(v: Verdict, row: Row, raw: dict[str, Row], bad: Bad) -> None:
    """Count an answer that should not have been given."""
    if row.digest not in raw:
        v.fail("wrong", f"the answer {row.name} {row.opts} is no stored row, or was changed since it was stored")
    elif not (row.verified and row.outcome == "ok"):
        v.fail("wrong", f"the answer {row.name} {row.opts} is {row.outcome}, verified {row.verified}")
    elif bad(row):
        v.fail("wrong", f"the answer {row.name} {row.opts} is a planted wrong candidate")


def unlocked(v: Verdict, path: Path) -> None:
    """Nobody holds the file."""
    if not path.is_file():
        return
    with contextlib.closing(sqlite3.connect(path, timeout=2, isolation_level=None)) as c:
        try:
            c.execute("BEGIN EXCLUSIVE")
            c.execute("ROLLBACK")
        except sqlite3.OperationalError as e:
            v.fail("orphans", f"the cache is still locked ({e})")
        except sqlite3.DatabaseError:
            return  # damaged files are other checks' business
