"""The long soak: one process tunes small kernels over and over while its helpers are killed now and then, and nothing of it may grow.

The process samples itself between two searches: resident memory, open files, threads, child processes, seconds a
search. A straight line is fitted to what comes after the first third, when everything that is loaded once has
been."""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from .evidence import committed
from .kinds import Verdict
from .runs import KERNELS, SHARE
from .tool import FLAKY, MARK, kill, pick, processes, surroundings

TRIALS, BUDGET_S = 5, 1.2
BOUND = 4096
"""What the largest of the tool's own memories hold."""
EVERY_S = 4.0
"""Seconds between two kills of a helper, on average."""
SLACK = {"rss": 0.05, "seconds": 0.5}
"""By how much of its median a figure may rise over the soak; the others not at all."""


@dataclass(frozen=True)
class Sample:
    """Between two searches. `at`: seconds since the start; `rss` in bytes; `seconds`: the last search and its
    look-ups took so long; `rows` and `size` (bytes) of the cache."""

    at: float
    rss: int
    fds: int
    threads: int
    children: int
    seconds: float
    rows: int
    size: int


def work(folder: Path, until: float, seed: int) -> None:
    """The process that is watched: prints a Sample a line."""
    import numpy as np
    import tilewright
    from tilewright import cache, named_kernels

    rng, path = random.Random(seed), folder / "cache.db"
    script = folder / "script.json"
    script.write_text(json.dumps({"time": 1e-4, "rules": [{"share": SHARE, "do": "wrong", "time": 2e-5}]}))
    _fill(folder)
    began = time.monotonic()
    while (now := time.monotonic()) < began + until:
        name, text = rng.choice(KERNELS)
        shape = named_kernels.parse_shape(text)
        try:
            tilewright.tune(
                name,
                shape,
                device=rng.choice(("cpu", FLAKY)),
                trials=TRIALS,
                budget=BUDGET_S,
                threads=1,
                random_seed=rng.randrange(1000),
                cache=path,
                retune=True,
            )
        except tilewright.MeasureError as e:
            print(f"a search ended: {e}", file=sys.stderr)  # its runner was killed three times in a row
        with cache.open(path) as store:
            compiled = tilewright.best(name, shape=shape, cache=store)
            compiled(*(np.ones([e for e in b.shape if isinstance(e, int)], np.float32) for b in compiled.kernel.inputs))
        took = time.monotonic() - now
        # counted by SQLite: to read them all takes memory by their number, and that would be growth of this file's making
        print(json.dumps(asdict(_sample(now - began + took, took, len(committed(path)), path.stat().st_size))), flush=True)


def _fill(folder: Path) -> None:
    """Fill what is remembered up to a bound (a few thousand schedules and rows' texts), so that it is no growth later."""
    from tilewright import cache, devices, named_kernels, targets
    from tilewright.cache import Row
    from tilewright.ir.normal_form import normalise
    from tilewright.opts.actions import actions, apply_cached

    machine = devices.get("cpu").fingerprint()
    rows = [
        Row(kernel=f"k{i}", target="t", threads=1, compiler="c", t_med=1.0, opts=[["TILE", "a0", i + 1]], opts_display=[["TILE", "m", i + 1]],
            provenance={"machine": machine, "note": i})
        for i in range(BOUND)
    ]  # fmt: skip
    with cache.open(folder / "filling.db") as store:
        store.record(rows)
        for row in store.rows():
            assert row.facts
    kernel = normalise(named_kernels.make("matmul", named_kernels.parse_shape("m=96,n=96,k=96")))
    todo = [apply_cached(kernel, (), targets.host())]
    while todo and apply_cached.cache_info().currsize < BOUND:
        state = todo.pop(0)
        todo += [apply_cached(kernel, (*state.opts, *more), state.target) for more in actions(state)[:60]]


def _sample(at: float, seconds: float, rows: int, size: int) -> Sample:
    me = Path("/proc/self")
    rss = int((me / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    tasks = list((me / "task").iterdir())
    children = sum(len((t / "children").read_text().split()) for t in tasks)
    return Sample(at, rss, len(list((me / "fd").iterdir())), len(tasks), children, seconds, rows, size)


def slope(samples: list[Sample], name: str) -> float:
    """The least-squares slope of a figure, a second."""
    xs, ys = [s.at for s in samples], [float(getattr(s, name)) for s in samples]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((a - x) ** 2 for a in xs)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / spread if spread else 0.0


def judge(samples: list[Sample]) -> list[str]:
    """What grew, in words; empty where nothing did."""
    later = samples[len(samples) // 3 :]
    if len(later) < 6:
        return [f"only {len(samples)} searches were made: too few to tell"]
    span, grown = later[-1].at - later[0].at, []
    for name, share in SLACK.items():
        usual = sorted(getattr(s, name) for s in later)[len(later) // 2]
        rise = slope(later, name) * span
        if rise > share * usual:
            grown.append(f"{name} rises by {rise:.4g} in {span:.0f} s, from about {usual:.4g}")
    half = len(later) // 2
    for name in ("fds", "threads", "children"):
        before, after = (max(getattr(s, name) for s in part) for part in (later[:half], later[half:]))
        if after > before:
            grown.append(f"{name} rose from {before} to {after}")
    return grown


def report(samples: list[Sample], kills: int) -> str:
    """The figures as Markdown."""
    later = samples[len(samples) // 3 :]
    lines = [f"{len(samples)} searches in {samples[-1].at / 60:.1f} minutes, {kills} helpers killed, {samples[-1].rows} rows recorded", ""]
    lines += ["| | after a third | at the end | fitted, an hour |", "|---|---|---|---|"]
    for name, unit, scale in (("rss", "MB", 1e-6), ("fds", "", 1), ("threads", "", 1), ("children", "", 1), ("seconds", "s a search", 1)):
        first, last = (sum(getattr(s, name) for s in part) / len(part) * scale for part in (later[:10], later[-10:]))
        lines.append(f"| {name} {unit} | {first:.4g} | {last:.4g} | {slope(later, name) * 3600 * scale:+.3g} |")
    per_row = [s.size / max(1, s.rows) for s in (later[0], later[-1])]
    lines.append(f"| bytes a row of the cache | {per_row[0]:.0f} | {per_row[1]:.0f} | |")
    return "\n".join(lines)


def main(args: argparse.Namespace) -> int:
    """`soak.py --faults --minutes M`."""
    if args.worker:
        work(Path(args.worker[3]), float(args.worker[1]), args.seed)
        return 0
    folder, rng, mark = Path(tempfile.mkdtemp(prefix="tilewright-growth-")), random.Random(args.seed), f"growth-{os.getpid()}"
    words = [sys.executable, str(Path(__file__).parent.parent / "soak.py"), "--faults", "--minutes", "0", "--seed", str(args.seed)]
    words += ["--worker", "growth", str(args.minutes * 60), "0", str(folder)]
    env = surroundings(folder, {MARK: mark, "TILEWRIGHT_FAKE_SCRIPT": str(folder / "script.json")})
    with open(folder / "samples.jsonl", "wb") as out, open(folder / "said.txt", "wb") as said:
        process = subprocess.Popen(words, stdout=out, stderr=said, cwd=folder, env=env, start_new_session=True)
    kills, early = 0, False
    for number in (signal.SIGINT, signal.SIGTERM):  # ended early, it says what it saw
        signal.signal(number, signal.default_int_handler)
    try:
        while process.poll() is None:
            time.sleep(rng.expovariate(1 / EVERY_S))
            found = pick(mark, rng.choice(("runner", "child", "builder")))
            kills += bool(found) and kill(rng.choice(found), signal.SIGKILL)
    except KeyboardInterrupt:
        early = True
        process.kill()
        process.wait()
        time.sleep(1)
    samples = [Sample(**json.loads(line)) for line in (folder / "samples.jsonl").read_text().splitlines()]
    grown = judge(samples)
    if early:
        grown.append("it was ended early")
    elif process.returncode:
        grown.append(f"the process ended with {process.returncode}: {(folder / 'said.txt').read_text()[-500:]}")
    left = Verdict()
    if orphans := processes(mark):
        left.fail("orphans", ", ".join(orphans.values()))
    print(report(samples, kills) if samples else "nothing was sampled")
    for line in (*grown, *left.notes):
        print(f"GREW: {line}")
    if args.json:
        Path(args.json).write_text(json.dumps({"kills": kills, "grown": grown, "samples": [asdict(s) for s in samples]}) + "\n")
    shutil.rmtree(folder, ignore_errors=True)
    return 1 if grown or left.bad else 0
