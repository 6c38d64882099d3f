"""Small searches to be attacked: real kernels on the real device, or on one that claims scripted times and computes
some candidates wrong."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.cache import Row

from . import evidence
from .flaky import fraction
from .flaky import write as write_script
from .kinds import Verdict
from .tool import FLAKY, Tool, processes, start, until

KERNELS = (("matmul", "m=48,n=48,k=48"), ("softmax", "m=16,n=300"), ("rmsnorm", "m=24,n=256"))
SHARE = 0.2
"""Candidates of the scripted device that are always wrong."""


@dataclass
class Search:
    """A search under way, and what must be judged of it."""

    tool: Tool
    cache: Path
    bad: evidence.Bad
    folder: Path

    def begun(self, role: str = "runner", seconds: float = 60.0) -> bool:
        """Wait until it has a process of this role; False where it ended before, or none came in time."""
        return until(lambda: not self.tool.running() or role in processes(self.tool.mark).values(), seconds) and self.tool.running()

    def recording(self, known: set[str], seconds: float = 60.0) -> bool:
        """Wait until it has committed rows that were not `known`; False where it ended before, or none came in time."""
        return until(lambda: not self.tool.running() or bool(evidence.committed(self.cache) - known), seconds) and self.tool.running()

    @property
    def through(self) -> bool:
        """Whether it has printed its result."""
        return "reproduce" in self.tool.output()

    def ended(self, v: Verdict, codes: tuple[int, ...] = (0,), seconds: float = 60.0, helpers_may_complain: bool = False) -> int | None:
        """Wait for its end; an exit code that is none of `codes`, or a traceback, is counted."""
        code = self.tool.wait(v, seconds)
        if code is not None and code not in codes:
            v.fail("broken", f"exit code {code}, not {' or '.join(map(str, codes))}: {self.tool.tail()}")
        if "Traceback" in self.tool.output() and not helpers_may_complain:
            v.fail("broken", f"a traceback: {self.tool.tail()}")
        return code

    def settled(self, v: Verdict, before: set[str], elsewhere: set[str] | None = None) -> None:
        """Nothing is left of it, and the cache holds what it must."""
        self.tool.clean(v)
        evidence.check(v, self.cache, before, self.bad, elsewhere or ())
        evidence.unlocked(v, self.cache)


def planted(row: Row) -> bool:
    """Whether the usual script makes this row's candidate wrong."""
    return row.compiler.startswith("fake") and fraction(row.source_sha) < SHARE


def search(
    scratch: Path,
    rng: random.Random,
    *words: str,
    budget: str = "1.2s",
    device: str = "",
    script: dict[str, Any] | None = None,
    location: str = "",
    env: Mapping[str, str | None] | None = None,
) -> Search:
    """Start a search that records into scratch/disk/cache.db (or `location`). `device`: cpu, fake, or either by
    chance; `script` is the fake one's."""
    device = device or rng.choice(("cpu", "fake", "fake"))  # the scripted one has one builder, and is done sooner
    kernel, shape = rng.choice(KERNELS)
    folder = scratch / "disk"
    folder.mkdir(exist_ok=True)
    cache, file = folder / "cache.db", scratch / "script.json"
    write_script(file, script if script is not None else {"time": 1e-4, "rules": [{"share": SHARE, "do": "wrong", "time": 2e-5}]})
    more = ("--threads", rng.choice(("1", "2"))) if device == "cpu" else ()
    tool = start(
        scratch,
        *("run", "--kernel", kernel, "--shape", shape, "--device", FLAKY if device == "fake" else device, *more, "--budget", budget),
        *("--random-seed", str(rng.randrange(1000)), "--retune", "--cache", location or str(cache), "--quiet", *words),
        env={"TILEWRIGHT_FAKE_SCRIPT": str(file), **(env or {})},
    )
    return Search(tool, cache, planted, folder)


def again(v: Verdict, scratch: Path, rng: random.Random) -> None:
    """The next run works."""
    s = search(scratch, rng, "--trials", "4", budget="20s", device="fake")
    before = evidence.committed(s.cache)
    s.ended(v, (0, 4))
    s.settled(v, before)
    if evidence.committed(s.cache) <= before:
        v.fail("broken", f"the next run recorded nothing: {s.tool.tail()}")
