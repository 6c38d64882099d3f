"""Runs injections of many kinds in worker processes, and prints the table."""

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
import traceback
from collections import deque
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .kinds import KINDS, Verdict, load

CHUNK = 25
"""Injections that one worker makes before a fresh one, with a fresh cache, takes over."""
SILENT_S = 300.0
"""A worker that reports nothing for so long hangs."""
VERDICTS, ERRORS = "verdicts.txt", "worker.txt"
COLUMNS = ("injections", "lost", "wrong", "orphans", "hung", "broken")
HEADS = ("kind", "injections", "lost", "wrong believed", "left over", "hung", "other", "seconds")


@dataclass
class Tally:
    """What came of one kind so far."""

    verdict: Verdict = field(default_factory=Verdict)
    seconds: float = 0.0
    missing: str = ""


@dataclass
class Worker:
    """A process that injects `kind` until it has made `count`."""

    kind: str
    count: int
    process: subprocess.Popen[bytes]
    scratch: Path
    read: int = 0
    since: float = field(default_factory=time.monotonic)


def work(name: str, first: int, count: int, seed: int, scratch: Path) -> int:
    """The body of a worker: inject, and print a line of JSON for each verdict."""
    load()
    done, i = 0, first
    while done < count and i < first + 3 * count:
        began = time.monotonic()
        try:
            v = KINDS[name].inject(random.Random(f"{seed}/{name}/{i}"), scratch)
        except Exception:
            v = Verdict(1)
            v.fail("broken", f"the injection itself failed (seed {seed}/{name}/{i}): {traceback.format_exc()[-1500:]}")
        v.notes = [f"[{seed}/{name}/{i}] {n}" for n in v.notes]
        print(json.dumps({**asdict(v), "seconds": time.monotonic() - began}), flush=True)
        done, i = done + v.injections, i + 1
    return 0


class Driver:
    """Keeps `jobs` workers busy until every kind has its injections."""

    def __init__(self, names: list[str], injections: int, jobs: int, seed: int, root: Path) -> None:
        self.names, self.injections, self.jobs, self.seed, self.root = names, injections, jobs, seed, root
        self.tallies = {n: Tally(missing=KINDS[n].missing()) for n in names}
        self._todo = deque(
            (n, first, min(CHUNK, injections - first))
            for n in names
            if not self.tallies[n].missing
            for first in range(0, injections, CHUNK)
        )
        self._all = len(self._todo)
        self._workers: list[Worker] = []
        self._said = 0.0

    def run(self) -> None:
        """Until all is done. Ctrl-C ends the workers."""
        began = time.monotonic()
        try:
            while self._todo or self._workers:
                while self._todo and len(self._workers) < self.jobs:
                    self._start(*self._todo.popleft())
                for w in list(self._workers):
                    self._look(w)
                self._progress(time.monotonic() - began)
                time.sleep(0.05)
        finally:
            for w in self._workers:
                _end(w)
        print(file=sys.stderr)

    def _start(self, name: str, first: int, count: int) -> None:
        scratch = Path(tempfile.mkdtemp(dir=self.root, prefix=f"{name.replace(' ', '-')}-{first}-"))
        words = [
            sys.executable,
            str(Path(__file__).parent.parent / "soak.py"),
            "--faults",
            "--worker",
            name,
            str(first),
            str(count),
            str(scratch),
        ]
        with open(scratch / VERDICTS, "wb") as out, open(scratch / ERRORS, "wb") as errors:
            process = subprocess.Popen([*words, "--seed", str(self.seed)], stdout=out, stderr=errors, start_new_session=True)
        self._workers.append(Worker(name, count, process, scratch))

    def _look(self, w: Worker) -> None:
        """Take what a worker has reported; notice its end."""
        ended = w.process.poll() is not None
        new = (w.scratch / VERDICTS).read_bytes()[w.read :]
        for line in new.splitlines(keepends=True):
            if line.endswith(b"\n"):
                w.since, w.read = time.monotonic(), w.read + len(line)
                self._count(w.kind, json.loads(line))
        if ended:
            self._workers.remove(w)
            if w.process.returncode:
                said = (w.scratch / ERRORS).read_text()[-500:]
                self._count(
                    w.kind,
                    {**asdict(Verdict(1, broken=1, notes=[f"broken: the worker ended with {w.process.returncode}: {said}"])), "seconds": 0},
                )
            elif not self.tallies[w.kind].verdict.bad:
                shutil.rmtree(w.scratch, ignore_errors=True)
        elif time.monotonic() - w.since > SILENT_S:
            self._workers.remove(w)
            _end(w)
            self._count(
                w.kind,
                {
                    **asdict(Verdict(1, hung=1, notes=[f"hung: the worker in {w.scratch} said nothing for {SILENT_S:.0f} s"])),
                    "seconds": SILENT_S,
                },
            )

    def _count(self, name: str, said: dict[str, Any]) -> None:
        tally = self.tallies[name]
        tally.seconds += said.pop("seconds")
        tally.verdict.add(Verdict(**said))
        for note in said["notes"]:
            print(f"\r\x1b[K{name}: {note}" if sys.stderr.isatty() else f"{name}: {note}", file=sys.stderr, flush=True)

    def _progress(self, seconds: float) -> None:
        """A line that is written over on a terminal, one a minute elsewhere."""
        live = sys.stderr.isatty()
        if live or seconds - self._said >= 60:
            self._said = seconds
            made = sum(t.verdict.injections for t in self.tallies.values())
            text = f"{seconds:.0f} s: {made} injections, {len(self._todo)} of {self._all} parts to come; now {', '.join(w.kind for w in self._workers)}"
            print(f"\r\x1b[K{text}" if live else text, end="" if live else "\n", file=sys.stderr, flush=True)


def _end(w: Worker) -> None:
    """Kill a worker; what it had started is found by its session, or by its scratch folder in the environment."""
    w.process.send_signal(signal.SIGKILL)
    w.process.wait()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and str(w.scratch).encode() in (entry / "environ").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)
        except OSError:
            continue


def table(tallies: dict[str, Tally]) -> str:
    """The result as Markdown."""
    lines = ["| " + " | ".join(HEADS) + " | what is done |", "|" + "---|" * (len(HEADS) + 1)]
    for name, t in tallies.items():
        figures = ["–"] * 6 if t.missing else [str(getattr(t.verdict, c)) for c in COLUMNS]
        what = f"not run: {t.missing}" if t.missing else KINDS[name].what
        lines.append("| " + " | ".join([name, *figures, f"{t.seconds:.0f}", what]) + " |")
    total = Verdict()
    for t in tallies.values():
        total.add(t.verdict)
    lines.append(
        "| "
        + " | ".join(["**all**", *(str(getattr(total, c)) for c in COLUMNS), f"{sum(t.seconds for t in tallies.values()):.0f}", ""])
        + " |"
    )
    return "\n".join(lines)


def main(args: argparse.Namespace) -> int:
    """`soak.py --faults`."""
    if args.worker:
        name, first, count, scratch = args.worker
        return work(name, int(first), int(count), args.seed, Path(scratch))
    load()
    names = [n.strip() for n in args.kinds.split(",")] if args.kinds else list(KINDS)
    if unknown := [n for n in names if n not in KINDS]:
        print(f"unknown kind {', '.join(unknown)}; there are: {', '.join(KINDS)}", file=sys.stderr)
        return 2
    root = Path(tempfile.mkdtemp(prefix="tilewright-faults-"))
    driver = Driver(names, args.injections, args.jobs, args.seed, root)
    for number in (signal.SIGINT, signal.SIGTERM):  # ended early, it says how far it came
        signal.signal(number, signal.default_int_handler)
    try:
        driver.run()
    except KeyboardInterrupt:
        print("ended before all was done", file=sys.stderr)
    finally:
        print(table(driver.tallies))
        if args.json:
            rows = {n: {**asdict(t.verdict), "seconds": round(t.seconds, 1), "missing": t.missing} for n, t in driver.tallies.items()}
            Path(args.json).write_text(json.dumps({"seed": args.seed, "kinds": rows}, indent=1) + "\n")
    short = any(t.verdict.injections < args.injections and not t.missing for t in driver.tallies.values())
    bad = any(t.verdict.bad for t in driver.tallies.values())
    print(f"what failed is in {root}" if bad else "", file=sys.stderr)
    if not bad:
        shutil.rmtree(root, ignore_errors=True)
    return 1 if bad or short else 0
