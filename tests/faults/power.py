"""The power goes while rows are recorded: the cache file holds whole transactions, from the first to some last one,
and what a closed cache had is there."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

from tilewright import cache
from tilewright.cache import CacheWarning

from . import powerlog
from .kinds import Verdict, kind
from .shim import Shim, missing
from .tool import surroundings

IMAGES = 25
"""Power losses made of one log."""

WRITER = """
import random, sqlite3, sys
from tilewright import cache
path, seed = sys.argv[1], int(sys.argv[2])
rng = random.Random(seed)
marks = open(path + ".marks", "ab", buffering=0)
n = 0
for session in range(rng.randrange(1, 4)):
    reads = rng.random() < 0.6  # as a search does: the look-up before it stays open, and the log with it
    with cache.open(path) as store:
        if reads:
            store.rows()
        for i in range(rng.randrange(1, 12)):
            rows = [cache.Row(kernel=f"k{j % 3}", target="t", threads=2, compiler="c", name=str(n), t_med=1e-3 + j, t_min=1e-3, verified=True, run_id=f"{n}-{j}",
                    provenance={"x": "y" * rng.randrange(2000)}) for j in range(rng.randrange(1, 20))]
            store.record(rows)
            marks.write(b"recorded %d %d\\n" % (n, len(rows)))
            if reads and rng.random() < 0.5:
                store.best(rows[0].key)
            n += 1
    marks.write(b"closed %d\\n" % n)
"""


@kind(
    "power loss",
    "unsynced writes are dropped, reordered and torn at a random moment of recording (images made from a log of every write)",
    missing=missing,
)
def power_loss(rng: random.Random, scratch: Path) -> Verdict:
    v = Verdict()
    folder = Path(tempfile.mkdtemp(dir=scratch)) / "disk"
    shim = Shim(scratch, folder)
    shim.log.unlink(missing_ok=True)
    path = folder / "cache.db"
    env = surroundings(scratch, shim.env(logged=True))
    done = subprocess.run(
        [sys.executable, "-c", WRITER, str(path), str(rng.randrange(1 << 30))], env=env, capture_output=True, text=True, timeout=120
    )
    if done.returncode:
        v.fail("broken", f"the writer failed: {done.stderr[-500:]}")
        return v
    changes = powerlog.read(shim.log)
    for _ in range(IMAGES):
        cut = rng.randrange(1, len(changes) + 1) if rng.random() < 0.9 else len(changes)
        _lose(v, changes, cut, rng, path)
        v.injections += 1
    shutil.rmtree(folder.parent)
    return v


def _lose(v: Verdict, changes: list[powerlog.Change], cut: int, rng: random.Random, path: Path) -> None:
    """Look at one image."""
    sizes, closed, begun = _promised(changes[:cut])
    shutil.rmtree(path.parent)
    path.parent.mkdir()
    for name, data in powerlog.image(changes, cut, rng).items():
        if not name.endswith(("-shm", ".marks")):
            Path(name).write_bytes(data)
    what = f"power lost after change {cut} of {len(changes)}, {begun} transactions recorded, {closed} of them in a closed cache"
    try:
        with warnings.catch_warnings(record=True) as seen, cache.open(path) as store:
            warnings.simplefilter("always")
            rows = store.rows()
            store.record(cache.Row(kernel="after", target="t", threads=1, compiler="c", t_med=1.0, verified=True))
            if not any(r.kernel == "after" for r in store.rows()):
                v.fail("broken", f"{what}: a row recorded afterwards is not there")
    except Exception as e:
        v.fail("broken", f"{what}: {type(e).__name__}: {e}")
        return
    said = [str(w.message) for w in seen if issubclass(w.category, CacheWarning)]
    if said:
        v.fail("broken", f"{what}: {said}")
    found: dict[int, int] = {}
    for r in rows:
        found[int(r.name)] = found.get(int(r.name), 0) + 1
    last = max(found, default=-1)
    # the transaction after the last mark may be there as well: it was being recorded
    torn = [n for n in range(last + 1) if n in sizes and found.get(n, 0) != sizes[n]]
    if torn or last > begun:
        v.fail("wrong", f"{what}: transactions {torn} of {last + 1} are not whole, though a later one is there")
    gone = [n for n in range(closed) if not found.get(n)]
    if gone:
        v.fail("lost", f"{what}: transactions {gone} of a cache that was closed are gone", len(gone))


def _promised(changes: list[powerlog.Change]) -> tuple[dict[int, int], int, int]:
    """Rows of each transaction that record() had returned for, how many transactions were in a cache that was closed,
    and how many there were."""
    sizes, closed = {}, 0
    for c in changes:
        if c.path.endswith(".marks") and c.op == "w":
            word, *numbers = c.data.split()
            if word == b"recorded":
                sizes[int(numbers[0])] = int(numbers[1])
            else:
                closed = int(numbers[0])
    return sizes, closed, len(sizes)
