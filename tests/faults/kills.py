"""SIGKILL, as an impatient person, the out-of-memory killer or a batch system sends it: to the command, and to each kind of helper."""

from __future__ import annotations

import contextlib
import random
import resource
import signal
import time
from pathlib import Path

from . import evidence
from .kinds import Verdict, kind
from .runs import again, search
from .tool import kill, pick

SOME = 5
"""Helpers killed in one run."""


@kind("kill main", "SIGKILL of the command at a random moment")
def kill_main(rng: random.Random, scratch: Path) -> Verdict:
    v = Verdict(1)
    s = search(scratch, rng)
    if rng.random() < 0.8 and s.begun():
        s.recording(evidence.committed(s.cache))
    time.sleep(rng.uniform(0, 0.9))
    before = evidence.committed(s.cache)
    kill(s.tool.pid, signal.SIGKILL)
    s.tool.wait(v)
    s.settled(v, before)
    evidence.answered(v, s.cache)
    if rng.random() < 0.1:
        again(v, scratch, rng)
    return v


def _helpers(role: str, rng: random.Random, scratch: Path) -> Verdict:
    """Kill a few helpers of one role during a run, which goes on."""
    v = Verdict()
    s = search(scratch, rng, budget="2.2s")
    if s.begun(role):
        time.sleep(rng.uniform(0, 0.3))
        for _ in range(SOME):
            found = pick(s.tool.mark, role)
            v.injections += bool(found) and kill(rng.choice(found), signal.SIGKILL)
            time.sleep(rng.uniform(0.1, 0.6))
    before = evidence.committed(s.cache)
    # a runner that is killed three times before one result ends the search, with this message
    code = s.ended(v, (0, 4))
    if code == 4 and not any(said in s.tool.output() for said in ("keeps ending", "keep dying", "nothing")):
        v.fail("broken", f"exit code 4 without its reason: {s.tool.tail()}")
    s.settled(v, before)
    return v


@kind("kill runner", "SIGKILL of the process that forks candidates")
def kill_runner(rng: random.Random, scratch: Path) -> Verdict:
    return _helpers("runner", rng, scratch)


@kind("kill child", "SIGKILL of the process in which candidates run")
def kill_child(rng: random.Random, scratch: Path) -> Verdict:
    return _helpers("child", rng, scratch)


@kind("kill builder", "SIGKILL of a process that compiles")
def kill_builder(rng: random.Random, scratch: Path) -> Verdict:
    return _helpers("builder", rng, scratch)


@kind("out of memory", "the runner, its child or a builder can allocate nothing more from a random moment on")
def out_of_memory(rng: random.Random, scratch: Path) -> Verdict:
    v = Verdict()
    s = search(scratch, rng, budget="2.2s")
    if s.begun("child"):
        time.sleep(rng.uniform(0, 0.5))
        for _ in range(SOME):
            found = pick(s.tool.mark, rng.choice(("runner", "child", "child", "builder")))
            if found:
                with contextlib.suppress(ProcessLookupError):
                    pid = rng.choice(found)
                    resource.prlimit(pid, resource.RLIMIT_DATA, (1 << 20, resource.prlimit(pid, resource.RLIMIT_DATA)[1]))
                    v.injections += 1
            time.sleep(rng.uniform(0.1, 0.5))
    before = evidence.committed(s.cache)
    code = s.ended(v, (0, 4), helpers_may_complain=True)
    if code == 4 and not any(said in s.tool.output() for said in ("memory", "keeps ending", "keep dying", "nothing")):
        v.fail("broken", f"exit code 4 without its reason: {s.tool.tail()}")
    s.settled(v, before)
    return v
