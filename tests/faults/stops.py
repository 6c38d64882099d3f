"""Processes that stand still for a while, as on a machine that swaps, is suspended, or whose container is frozen."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

from . import evidence
from .kinds import Verdict, kind
from .runs import search
from .tool import kill, pick

SOME = 5


def _stop(roles: tuple[str, ...], rng: random.Random, scratch: Path) -> Verdict:
    """Stop and continue processes of some roles a few times in a run, which then ends as usual."""
    v = Verdict()
    s = search(scratch, rng, budget="2s")
    if s.begun():
        for _ in range(SOME):
            time.sleep(rng.uniform(0, 0.4))
            stopped = [pid for role in roles for pid in pick(s.tool.mark, role) if kill(pid, signal.SIGSTOP)]
            v.injections += bool(stopped)
            time.sleep(rng.uniform(0.05, 0.4))
            for pid in stopped:
                kill(pid, signal.SIGCONT)
    before = evidence.committed(s.cache)
    s.ended(v, (0,))
    s.settled(v, before)
    return v


@kind("stop main", "the command is stopped for a while and continued")
def stop_main(rng: random.Random, scratch: Path) -> Verdict:
    return _stop(("main",), rng, scratch)


@kind("stop runner", "the runner and the child in which candidates run are stopped for a while and continued")
def stop_runner(rng: random.Random, scratch: Path) -> Verdict:
    return _stop(("runner", "child"), rng, scratch)


@kind("stop all", "every process is stopped for a while and continued")
def stop_all(rng: random.Random, scratch: Path) -> Verdict:
    return _stop(("main", "runner", "child", "builder"), rng, scratch)
