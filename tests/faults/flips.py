"""A cache file that changed at rest: flipped bits, a page of garbage or zeros, a cut end, in the file or in its log."""

from __future__ import annotations

import functools
import random
import shutil
import sqlite3
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

from tilewright import cache
from tilewright.cache import CacheWarning, Key, Row
from tilewright.ir.errors import CacheError

from .kinds import Verdict, kind

KEYS = 6
ROWS = 40
HEADER = 100
"""Bytes at the beginning of an SQLite file that say what it is."""
PAGE = 4096


@dataclass(frozen=True)
class Sound:
    """Its files by suffix, its answers, the answers that it gave before the second half of the rows was recorded, and
    all rows by digest."""

    files: dict[str, bytes]
    best: dict[Key, Row | None]
    half: dict[Key, Row | None]
    rows: dict[str, Row]


@functools.cache
def sound(logged: bool) -> Sound:
    """A cache at rest. `logged`: the later half of the rows is only in the -wal."""
    folder = Path(tempfile.mkdtemp(prefix="tilewright-sound-"))
    path = folder / "cache.db"
    rows = [_row(i) for i in range(ROWS)]
    with cache.open(path) as store:
        store.record(rows[: ROWS // 2])
        half = {r.key: store.best(r.key) for r in rows}
    with cache.open(path) as store:
        # a second connection that reads keeps the log from being brought in
        reader = sqlite3.connect(path, isolation_level=None)
        if logged:
            reader.execute("PRAGMA journal_mode = WAL")
            reader.execute("BEGIN")
            reader.execute("SELECT COUNT(*) FROM measurement").fetchone()
        store.record(rows[ROWS // 2 :])
        files = {tail: Path(f"{path}{tail}").read_bytes() for tail in (("", "-wal") if logged else ("",))}
        reader.close()
    with cache.open(path) as store:
        best = {r.key: store.best(r.key) for r in rows}
    shutil.rmtree(folder)
    return Sound(files, best, half, {r.digest: r for r in rows})


def _row(i: int) -> Row:
    rng = random.Random(i)
    kernel = f"{i % KEYS}" * 64
    good = rng.random() < 0.6
    t = rng.uniform(1e-5, 1e-4) if good else rng.uniform(1e-7, 1e-6)
    return Row(
        kernel=kernel, target="llvm:x86_64:znver5:avx2", threads=2, compiler="llvmlite-0.50", name="matmul", shape={"m": 64, "n": 64, "k": 64 + i % KEYS},
        dtype="float32", device="cpu", opts=[["UPCAST", "a1", 1 + i]], opts_display=[["UPCAST", "n", 1 + i]], t_min=t, t_med=t * 1.1, n=30, verified=good,
        flops=2 * 64**3, bytes=3 * 4 * 64 * 64, source_sha=f"{i:064x}", tool_version="00" * 8, run_id=f"run{i}", strategy="beam",
        loose_extents="le", loose_epilogue="lp", provenance={"host": "test", "note": "x" * rng.randrange(300)},
        when=f"2025-01-01T{i // 60 % 24:02d}:{i % 60:02d}:00.000000+00:00",
    )  # fmt: skip


def judge_file(v: Verdict, path: Path, logged: bool, what: str, may_refuse: bool = False) -> None:
    """Every answer is the sound file's, or there is a warning; a row that was never recorded is never an answer. A
    log that is damaged ends where the damage is, for SQLite as for anyone: an unfinished transaction looks the same.
    So what it gives may be all that was there before the log. `may_refuse`: an error that says what to do, and no
    answer at all, is right too."""
    whole = sound(logged)
    best, rows = whole.best, whole.rows
    with warnings.catch_warnings(record=True) as seen, cache.open(path) as store:
        warnings.simplefilter("always")
        try:
            answers = {key: store.best(key) for key in best}
            everything = store.rows()
        except CacheError as e:
            if not may_refuse:
                v.fail("broken", f"{what}: {e}")
            return
    said = " / ".join(str(w.message) for w in seen if issubclass(w.category, CacheWarning))
    earlier = logged and answers == whole.half and len(everything) == ROWS // 2
    for key, row in answers.items():
        if row is not None and (row.digest not in rows or not rows[row.digest].verified or rows[row.digest].key != key):
            v.fail("wrong", f"{what}: the answer {row.opts}, {row.t_med} s, was never recorded so; warnings: {said or 'none'}")
        elif row != best[key] and not said and not earlier:
            v.fail("lost", f"{what}: another answer ({row and row.opts}) or none, without a warning")
    changed = [r for r in everything if r.digest not in rows]
    if changed:
        v.fail("wrong", f"{what}: rows() gives {len(changed)} that were never recorded; warnings: {said or 'none'}")
    if len(everything) < len(rows) and not said and not earlier:
        v.fail("lost", f"{what}: {len(rows) - len(everything)} rows are missing without a warning", len(rows) - len(everything))
    try:
        with warnings.catch_warnings(), cache.open(path) as store:
            warnings.simplefilter("ignore")
            store.record(_row(1000))
            if "1000" not in {r.run_id[3:] for r in store.rows()}:
                v.fail("broken", f"{what}: a row recorded afterwards is not there")
    except CacheError as e:
        v.fail("broken", f"{what}: recording afterwards: {e}")


def _damage(rng: random.Random, scratch: Path, logged: bool, tail: str, how: str) -> Verdict:
    v = Verdict(1)
    folder = Path(tempfile.mkdtemp(dir=scratch))
    path = folder / "cache.db"
    files = {t: bytearray(b) for t, b in sound(logged).files.items()}
    data = files[tail]
    at = rng.randrange(len(data))
    if how == "bit":
        bit = rng.randrange(8)
        data[at] ^= 1 << bit
        what = f"bit {bit} of byte {at} of the file{tail}"
    elif how == "cut":
        del data[at:]
        what = f"the file{tail} cut to {at} bytes"
    else:
        at, size = rng.choice(((at // PAGE * PAGE, PAGE), (at // 512 * 512, 512)))
        data[at : at + size] = rng.choice((bytes(size), rng.randbytes(size), bytes(data[:size])))[: len(data) - at]
        what = f"{size} bytes at {at} of the file{tail}"
    for t, b in files.items():
        Path(f"{path}{t}").write_bytes(b)
    # a file whose header is gone says nothing of whose it is: it is refused, and left as it is
    judge_file(v, path, logged, what, may_refuse=how != "bit" and not tail and at < HEADER)
    shutil.rmtree(folder)
    return v


@kind("flip a bit", "one bit of the cache file, at rest", quick=True)
def flip(rng: random.Random, scratch: Path) -> Verdict:
    return _damage(rng, scratch, False, "", "bit")


@kind("flip in the log", "one bit of the file or of its -wal, where a killed command left one", quick=True)
def flip_log(rng: random.Random, scratch: Path) -> Verdict:
    return _damage(rng, scratch, True, rng.choice(("", "-wal", "-wal")), "bit")


@kind("cut the file", "the cache file or its -wal is cut at a random place", quick=True)
def cut(rng: random.Random, scratch: Path) -> Verdict:
    logged = rng.random() < 0.3
    return _damage(rng, scratch, logged, "", "cut")


@kind("bad block", "a page or a sector of the cache file holds zeros, garbage or another page", quick=True)
def block(rng: random.Random, scratch: Path) -> Verdict:
    return _damage(rng, scratch, rng.random() < 0.3, "", "block")
