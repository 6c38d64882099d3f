"""A client with an injection: what it was told to do, and what is known of it."""

from __future__ import annotations

import json
import random
import re
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from faults.kinds import Verdict
from faults.tool import Tool, kill, start, until

from .device import WATCHED, timings
from .local import LocalFleet

What = Literal["kernel", "manifest"]
WHATS: tuple[What, ...] = ("kernel", "manifest")
"""Batches of one kernel travel, or whole entries of a manifest."""
BUDGET_S = 25.0
TRIALS = {"kernel": 40, "manifest": 12}
"""A run ends by its trials (an entry, of a manifest); by its budget where the machine is busy."""
ENTRIES = (("matmul", "m=32,n=32,k=32"), ("softmax", "m=16,n=64"), ("layernorm", "m=16,n=64"))
CANDIDATE = re.compile(r"^ *(?:-|[\d.]+ ?\S+) +(?:-|\S+x) +(?:ok|slow|illegal|build|wrong|crash|timeout)\b", re.M)
"""A line about a candidate, as `tune run -v` prints it."""


@dataclass
class FleetVerdict(Verdict):
    """Also: `blamed`, innocent candidates with a failure and innocent entries that failed; `unseen`, killers with a time."""

    blamed: int = 0
    unseen: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """All that was bad."""
        names = ("lost", "wrong", "orphans", "hung", "broken", "blamed", "unseen")
        return {name: n for name in names if (n := getattr(self, name))}


@dataclass
class Injected:
    """One injection under way. An injection says what it expects: `codes`, exit codes of the client; `may_fail`, whether entries may
    fail; `cut`, whether what is measured after it can reach nobody; `goes_on`, whether the run has to measure after it; `lingers`, whether workers may keep a kernel's processes for a
    while, since nobody could tell them that the run is over."""

    fleet: LocalFleet
    what: What
    rng: random.Random
    folder: Path
    stop_s: float
    verdict: FleetVerdict = field(default_factory=FleetVerdict)
    location: str = ""
    known: set[str] = field(default_factory=set)
    """Digests that were in a server's cache before."""
    env: dict[str, str | None] = field(default_factory=dict)
    budget_s: float = BUDGET_S
    codes: tuple[int, ...] = (0,)
    may_fail: bool = False
    cut: bool = False
    goes_on: bool = False
    lingers: bool = False
    client: Tool | None = None
    offset: int = 0
    older: dict[int, str] = field(default_factory=dict)
    """What workers kept of the run before this one."""
    at: float = 0.0
    """When it was injected (seconds since 1970)."""
    facts: dict[str, object] = field(default_factory=dict)

    @property
    def cache(self) -> Path:
        return self.folder / "disk" / "cache.db"

    @property
    def result(self) -> Path:
        return self.folder / "result.json"

    def begin(self) -> Tool:
        """The client, started."""
        self.cache.parent.mkdir(exist_ok=True)
        self.offset, self.older = self.fleet.log.stat().st_size, self.fleet.working()
        words = self._kernel() if self.what == "kernel" else self._manifest()
        words += ["--fleet", self.fleet.url, "--retune", "--budget", f"{self.budget_s:g}s", "--trials", str(TRIALS[self.what])]
        words += ["--cache", self.location or str(self.cache), "--json", str(self.result)]
        self.client = start(self.folder, "run", *words, env={**self.fleet.env, **self.env})
        return self.client

    def run(self) -> Tool:
        """The client, begun: it measures."""
        client = self.begin()
        wanted = self.rng.randrange(2, TRIALS[self.what] * 2 // 3)
        until(lambda: len(self.timed()) >= wanted or not client.running(), 60)
        time.sleep(self.rng.uniform(0.0, 0.3))
        return client

    def _kernel(self) -> list[str]:
        name, shape = ENTRIES[0]
        seed = str(self.rng.randrange(1000))
        return ["--kernel", name, "--shape", shape, "--device", WATCHED, "-v", "--random-seed", seed]

    def _manifest(self) -> list[str]:
        lines = ["[targets.here]", f"device = {json.dumps(WATCHED)}", "threads = 1"]
        for name, shape in ENTRIES:
            lines += ["[[kernel]]", f'name = "{name}"', f'shapes = ["{shape}"]']
        path = self.folder / "tune.toml"
        path.write_text("\n".join(lines) + "\n")
        return ["--manifest", str(path), "--trust"]

    # what is done to it ---------------------------------------------------------------------------------------------
    def inject(self, pid: int | None, number: signal.Signals) -> bool:
        """Send a signal; it is an injection where the process was there."""
        self.now()
        done = pid is not None and kill(pid, number)
        self.verdict.injections += done
        return done

    def now(self) -> None:
        """The injection is at this moment."""
        self.at = self.at or time.time()

    def machine(self) -> str:
        """One of the fleet's machines that is at work, if there is one."""
        able = [m for m in self.fleet.workers if self.fleet.of(m, "runner")]
        return self.rng.choice(able or list(self.fleet.workers))

    # what came of it ------------------------------------------------------------------------------------------------
    def told(self) -> int:
        """Candidates that the client told of."""
        assert self.client is not None
        return len(CANDIDATE.findall(self.client.output()))

    def timed(self) -> dict[tuple[str, int, float], float]:
        """When a timing ended, by source, process and when it was loaded."""
        with self.fleet.log.open() as f:
            f.seek(self.offset)
            lines = timings(f.read())
        return {(sha, process, loaded): ended for loaded, ended, process, sha in lines}
