"""What a fleet survives: a scheduler, two workers and a client on this machine, and one injection into each run.

    python benchmarks/fleet_injections.py [--count 100] [--only KIND] [--seed N] [--stop-s 25]

Each injection is a run of `tune run --kernel … --fleet`, on a scripted device whose candidates are all right. Afterwards: did the run
end, was a candidate blamed that is not to blame, how many seconds of rows are missing from the cache, and was a process left. One JSON
line an injection, and a table at the end. It exits with 1 where anything was bad.

It uses what `tests/faults` has for that: a home of its own, processes that are found by a mark in their environment, a disk that is
full on command, and a PostgreSQL server, if there is one."""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from fake_device import SPEC, _fraction
from faults import evidence, servers, shim
from faults.kinds import Verdict
from faults.tool import Tool, kill, processes, start, until

KILLERS = 0.04
"""Share of the candidates that take their worker down, where that is what is injected."""
FLEET_BUDGET = 4.0
"""Seconds of a run."""
CANDIDATE = re.compile(r"^ *(?:-|[\d.]+ ?\S+) +(?:-|\S+x) +(?:ok|slow|illegal|build|wrong|crash|timeout)\b", re.M)
"""A line about a candidate, as `tune run -v` prints it."""
ROWS_S = 0.5
"""Seconds of rows that a client's death may cost."""


def _joined_or_ended(worker: Tool) -> bool:
    return "joined" in worker.output() or not worker.running()


@dataclass
class LocalFleet:
    """A scheduler and workers here. `script`: the file by which the device behaves."""

    scratch: Path
    script: Path
    scheduler: Tool
    url: str
    workers: list[Tool]

    @staticmethod
    def begin(scratch: Path, workers: int, rules: list[dict[str, Any]]) -> LocalFleet:
        """Raises RuntimeError where they do not come up."""
        script = scratch / "script.json"
        script.write_text(json.dumps({"time": 2e-4, "rules": rules}))
        env = {"TILEWRIGHT_FAKE_SCRIPT": str(script)}
        scheduler = start(scratch, "fleet", "scheduler", "--host", "127.0.0.1", "--port", "0", "--insecure", env=env)
        found = re.compile(r"tcp://[\d.]+:\d+")
        until(lambda: bool(found.search(scheduler.output())) or not scheduler.running(), 60)
        said = found.search(scheduler.output())
        if said is None or not scheduler.running():
            raise RuntimeError(f"no scheduler: {scheduler.tail()}")
        url = said[0]
        fleet = LocalFleet(scratch, script, scheduler, url, [])
        for i in range(workers):
            fleet.workers.append(start(scratch, "fleet", "worker", url, "--device", SPEC, "--name", f"host{i}", env=env))
        for w in fleet.workers:
            if not until(partial(_joined_or_ended, w), 60) or not w.running():
                raise RuntimeError(f"no worker: {w.tail()}")
        return fleet

    def slot(self, which: int) -> int | None:
        """The process of a worker that takes jobs: the parent of its runner; before there is one, any that is not the command's."""
        for pid, role in processes(self.workers[which].mark).items():
            if role == "runner":
                return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        return None

    def of(self, which: int, role: str) -> list[int]:
        return [pid for pid, r in processes(self.workers[which].mark).items() if r == role]

    def end(self, v: Verdict) -> None:
        """As a user ends them; what is left afterwards is counted."""
        for tool in (*self.workers, self.scheduler):
            if tool.running():
                tool.process.send_signal(signal.SIGTERM)
        for tool in (*self.workers, self.scheduler):
            tool.clean(v, 10)


@dataclass
class FleetVerdict(Verdict):
    """Also: `blamed`, innocent candidates with a failure; `unseen`, killers with a time."""

    blamed: int = 0
    unseen: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """All that was bad."""
        names = ("lost", "wrong", "orphans", "hung", "broken", "blamed", "unseen")
        return {name: n for name in names if (n := getattr(self, name))}


@dataclass
class Injected:
    """One injection under way."""

    fleet: LocalFleet
    rng: random.Random
    scratch: Path
    stop_s: float
    verdict: FleetVerdict = field(default_factory=FleetVerdict)
    location: str = ""
    env: dict[str, str | None] = field(default_factory=dict)
    codes: tuple[int, ...] = (0,)
    dies: bool = False
    client: Tool | None = None

    @property
    def cache(self) -> Path:
        return self.scratch / "disk" / "cache.db"

    def run(self) -> Tool:
        """The client, begun: it measures."""
        words = ["run", "--kernel", "matmul", "--shape", "m=32,n=32,k=32", "--device", SPEC, "--fleet", self.fleet.url, "--retune", "-v"]
        words += [
            "--budget",
            f"{FLEET_BUDGET:g}s",
            "--cache",
            self.location or str(self.cache),
            "--json",
            str(self.scratch / "result.json"),
        ]
        self.cache.parent.mkdir(exist_ok=True)
        client = self.client = start(self.scratch, *words, "--random-seed", str(self.rng.randrange(1000)), env=self.env)
        until(lambda: self.told() > 0 or not client.running(), 60)
        time.sleep(self.rng.uniform(0.0, 0.5 * FLEET_BUDGET))
        return client

    def told(self) -> int:
        """Candidates that the client told of."""
        assert self.client is not None
        return len(CANDIDATE.findall(self.client.output()))


Injection = Callable[[Injected], None]
KINDS: dict[str, Injection] = {}


def injection(name: str) -> Callable[[Injection], Injection]:
    """Register one kind."""

    def add(f: Injection) -> Injection:
        KINDS[name] = f
        return f

    return add


@injection("worker killed")
def worker_killed(x: Injected) -> None:
    x.run()
    pid = x.fleet.slot(x.rng.randrange(len(x.fleet.workers))) or x.fleet.slot(0)
    x.verdict.injections += pid is not None and kill(pid, signal.SIGKILL)


@injection("runner killed")
def runner_killed(x: Injected) -> None:
    x.run()
    for pid in x.fleet.of(x.rng.randrange(len(x.fleet.workers)), "runner")[:1] or x.fleet.of(0, "runner")[:1]:
        x.verdict.injections += kill(pid, signal.SIGKILL)


@injection("scheduler killed")
def scheduler_killed(x: Injected) -> None:
    """The best so far is the answer, with the reason."""
    x.codes = (0, 4, 5, 6)
    x.run()
    x.verdict.injections += kill(x.fleet.scheduler.pid, signal.SIGKILL)


@injection("client killed")
def client_killed(x: Injected) -> None:
    x.codes, x.dies = (-signal.SIGKILL,), True
    client = x.run()
    x.verdict.injections += kill(client.pid, signal.SIGKILL)


@injection("worker stopped")
def worker_stopped(x: Injected) -> None:
    """For so long that others take over what it had, and it comes back."""
    x.run()
    pid = x.fleet.slot(x.rng.randrange(len(x.fleet.workers))) or x.fleet.slot(0)
    if pid is not None and kill(pid, signal.SIGSTOP):
        x.verdict.injections += 1
        time.sleep(x.stop_s)
        kill(pid, signal.SIGCONT)


@injection("a candidate kills")
def candidate_kills(x: Injected) -> None:
    x.fleet.script.write_text(json.dumps({"time": 2e-4, "rules": [{"share": KILLERS, "do": "worker"}]}))
    x.codes = (0, 4)
    x.run()
    x.verdict.injections += 1


@injection("disk full")
def disk_full(x: Injected) -> None:
    """That of the cache's folder, now and then."""
    disk = shim.Shim(x.scratch, x.scratch / "disk")
    x.env = dict(disk.env())
    x.run()
    disk.disk("full")
    x.verdict.injections += 1
    time.sleep(x.rng.uniform(0.3, 2.0))
    if x.rng.random() < 0.5:
        disk.disk("well")


@injection("server gone")
def server_gone(x: Injected) -> None:
    """The team's database ends in the middle."""
    server = servers.server()
    x.location = server.url
    x.run()
    server.stop(signal.SIGINT)
    x.verdict.injections += 1


def missing(kind: str) -> str:
    """Why a kind cannot be injected here."""
    return {"server gone": servers.missing, "disk full": shim.missing}.get(kind, lambda: "")()


# judging ------------------------------------------------------------------------------------------------------------------
def judge(x: Injected) -> dict[str, Any]:
    """What came of the run."""
    v, client = x.verdict, x.client
    assert client is not None
    began = time.monotonic()
    code = client.wait(v, 60)
    waited = time.monotonic() - began
    if code is not None and code not in x.codes:
        v.fail("broken", f"exit code {code}: {client.tail()}")
    if "Traceback" in client.output():
        v.fail("broken", f"a traceback: {client.tail()}")
    told = x.told()
    client.clean(v)
    facts: dict[str, Any] = {"code": code, "waited_s": round(waited, 2), "candidates": told}
    if x.location:
        return facts | {"spilled": len(evidence.spilled(x.scratch))}
    rows = list(evidence.stored(x.cache).values()) if x.cache.exists() else []
    blamed = [r for r in rows if r.outcome not in ("ok", "slow", "illegal") and not guilty(x, r.source_sha)]
    if blamed:
        v.fail(
            "blamed", f"{len(blamed)} innocent candidates: {Counter(r.outcome for r in blamed)}, {blamed[0].provenance[:200]}", len(blamed)
        )
    free = [r for r in rows if r.outcome in ("ok", "slow") and guilty(x, r.source_sha)]
    if free:
        v.fail("unseen", f"{len(free)} killers have a time", len(free))
    have = len({r.opts for r in rows}) + len(evidence.spilled(x.scratch))
    lost_s = max(0, told - have) / max(1.0, told) * FLEET_BUDGET
    if lost_s > ROWS_S:
        v.fail("lost", f"{told} candidates were told of, {have} have rows: {lost_s:.2f} s", told - have)
    return facts | {"rows": have, "lost_s": round(lost_s, 3), "crashes": sum(r.outcome == "crash" for r in rows)}


def guilty(x: Injected, sha: str) -> bool:
    """Whether the script makes this source end its worker."""
    return any(r.get("do") == "worker" and _fraction(sha) < r["share"] for r in json.loads(x.fleet.script.read_text())["rules"])


@contextmanager
def place() -> Iterator[Path]:
    """A folder of this run."""
    folder = Path(tempfile.mkdtemp(prefix="tilewright-fleet-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def one(kind: str, seed: int, stop_s: float) -> tuple[FleetVerdict, dict[str, Any]]:
    """A fleet of its own, one injection, and what was bad."""
    with place() as scratch:
        fleet = LocalFleet.begin(scratch, 2, [])
        x = Injected(fleet, random.Random(seed), scratch, stop_s)
        try:
            KINDS[kind](x)
            facts = judge(x)
        finally:
            if x.client is not None:
                x.client.clean(None)
            fleet.end(x.verdict)
    return x.verdict, facts


def main() -> int:
    """The command."""
    p = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    p.add_argument("--count", type=int, default=100)
    p.add_argument("--only", action="append", choices=list(KINDS))
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--stop-s", type=float, default=25.0, help="seconds that a worker is stopped for")
    p.add_argument("--seconds", type=float, default=1e9, help="begin no injection after so many")
    args = p.parse_args()
    kinds = [k for k in args.only or KINDS if not (why := missing(k)) or print(f"{k}: left out, {why}", file=sys.stderr)]
    table: dict[str, Counter[str]] = defaultdict(Counter)
    began, bad = time.monotonic(), 0
    for n in range(args.count):
        if time.monotonic() - began > args.seconds:
            break
        kind = kinds[n % len(kinds)]
        verdict, facts = one(kind, args.seed + n, args.stop_s)
        said = verdict.counts
        table[kind].update(said | {"runs": 1, "injections": verdict.injections})
        bad += bool(said)
        print(json.dumps({"kind": kind, "seed": args.seed + n, **facts, "bad": said, "notes": verdict.notes[:3]}), flush=True)
    for kind, counts in table.items():
        print(
            f"{kind:<20} {counts.pop('runs')} runs, {counts.pop('injections')} injections, {dict(counts) or 'nothing bad'}", file=sys.stderr
        )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
