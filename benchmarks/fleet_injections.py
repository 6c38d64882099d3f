"""What a fleet survives: a scheduler, two workers and a client on this machine, and one injection into each run.

    python benchmarks/fleet_injections.py [--count 100] [--only KIND] [--what kernel] [--seed N] [--stop-s 25] [--seconds 120] [--keep FILE]

Each injection is a run of `tune run --kernel … --fleet` (batches travel) or of `tune run --manifest … --fleet` (entries travel), on a
scripted device whose candidates are all right. Afterwards: did the run end, was a candidate or an entry blamed that is not to blame, how
many seconds of rows are missing, and was a process left. A fleet serves several runs, over TLS and --insecure in turn, and must be whole
again after each. With `stranger` among the kinds, it is also tried whether one without a certificate can connect or read.

One JSON line an injection, and a table at the end; it exits with 1 where anything was bad. `--keep FILE` adds the lines to a file, and
leaves out those that are there: the same command goes on where it was stopped. `--record FILE` writes such a file's table to results/.

It uses what `tests/faults` has for that: a home of its own, processes that are found by a mark in their environment, a disk that is
full on command, and a PostgreSQL server, if there is one."""

from __future__ import annotations

import argparse
import json
import random
import sys
import threading
import time
import traceback
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

import record
from injections import strangers
from injections.judging import judge, over
from injections.kinds import KINDS
from injections.local import LocalFleet, place
from injections.run import WHATS, FleetVerdict, Injected

SERIES = 6
"""Runs that one fleet serves."""
MACHINES = 2
STRANGER = "stranger"
SERVER = "server gone"
_SERVER = threading.Lock()
"""There is one database server for all fleets at once."""


def one(kind: str, what: str, fleet: LocalFleet, seed: int, stop_s: float) -> tuple[FleetVerdict, dict[str, Any]]:
    """One injection, and what was bad."""
    folder = fleet.scratch / f"run-{seed}"
    folder.mkdir()
    x = Injected(fleet, WHATS[WHATS.index(what)], random.Random(seed), folder, stop_s)
    facts: dict[str, Any] = {}
    try:
        KINDS[kind].inject(x)
        facts = judge(x)
    except Exception:
        x.verdict.fail("broken", f"the injection itself failed: {traceback.format_exc()[-1500:]}")
    finally:
        over(x)
    if x.verdict.counts and x.client is not None:
        facts["screen"] = x.client.output()[-3000:]
    return x.verdict, facts


class Series:
    """Fleets, one after the other; each serves a few runs. `job`: which of `--jobs` it is, all with a share of the plan."""

    def __init__(self, args: argparse.Namespace, kinds: list[str], job: int = 0) -> None:
        self.args, self.kinds, self.job, self.began = args, kinds, job, time.monotonic()
        self.lines: list[dict[str, Any]] = []

    def plan(self) -> list[tuple[int, str, str]]:
        """(seed, kind, what) of every injection that is not in the file yet."""
        pairs = [(k, w) for w in self.args.what or WHATS for k in self.kinds if k == STRANGER or w in KINDS[k].whats]
        seeds = range(self.args.seed, self.args.seed + self.args.count)
        kept = Path(self.args.keep).read_text().splitlines() if self.args.keep and Path(self.args.keep).exists() else []
        done = {json.loads(line)["seed"] for line in kept}
        return [(seed, *pairs[seed % len(pairs)]) for seed in seeds if seed not in done]

    def run(self) -> None:
        """All of the plan, or as much as fits."""
        left = self.plan()[self.job :: self.args.jobs]
        for number in range(len(left)):
            now, left = left[:SERIES], left[SERIES:]
            if not now or self._late():
                return
            secured = (now[0][0] // SERIES + self.job + number) % 2 == 0 if self.args.tls is None else self.args.tls
            with place() as scratch:
                self._serve(LocalFleet(scratch, secured), now)

    def _late(self) -> bool:
        return time.monotonic() - self.began > self.args.seconds

    def _serve(self, fleet: LocalFleet, plan: list[tuple[int, str, str]]) -> None:
        at_end = FleetVerdict()
        try:
            fleet.begin(MACHINES)
            for seed, kind, what in plan:
                if self._late():
                    break
                began = time.monotonic()
                with _SERVER if kind == SERVER else nullcontext():
                    verdict, facts = strangers.tried(fleet) if kind == STRANGER else one(kind, what, fleet, seed, self.args.stop_s)
                self._again(fleet, verdict)
                told = {"kind": kind, "what": what, "tls": fleet.secured, "seed": seed, "seconds": round(time.monotonic() - began, 1)}
                self._say(told | facts, verdict)
        finally:
            fleet.end(at_end)
        if at_end.counts:
            self._say({"kind": "end of a fleet", "what": "", "tls": fleet.secured, "seed": plan[0][0]}, at_end)

    def _again(self, fleet: LocalFleet, verdict: FleetVerdict) -> None:
        """The fleet is whole again, or that is bad too."""
        try:
            fleet.mend()
            for i in range(MACHINES):
                if f"host{i}" not in fleet.workers:
                    fleet.join(f"host{i}")
            fleet.whole()
        except RuntimeError as e:
            verdict.fail("broken", f"{e}")

    def _say(self, facts: dict[str, Any], verdict: FleetVerdict) -> None:
        line = facts | {"injections": verdict.injections, "bad": verdict.counts, "notes": verdict.notes[:4]}
        self.lines.append(line)
        print(json.dumps(line), flush=True)
        if self.args.keep:
            with Path(self.args.keep).open("a") as f:
                f.write(json.dumps(line) + "\n")


def table(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What came of each kind, a row each."""
    by: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        by[line.get("of", ""), line["kind"], line["what"]].append(line)
    out = []
    for (of, kind, what), some in by.items():
        bad: Counter[str] = Counter()
        for line in some:
            bad.update(line["bad"])
        row = {"kind": kind, "what": what, "runs": len(some), "injections": sum(s["injections"] for s in some), "bad": dict(bad)}
        row |= {"of": of} if of else {}
        row |= {"over_tls": sum(s["tls"] for s in some), "timed": sum(s.get("timed", 0) for s in some)}
        row |= {"lost_rows": sum(s.get("lost_rows", 0) for s in some), "most_lost_s": max(s.get("lost_s", 0.0) for s in some)}
        out.append(row | {"most_waited_s": max(s.get("waited_s", 0.0) for s in some)})
    return out


def main() -> int:
    """The command."""
    p = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    p.add_argument("--count", type=int, default=100)
    p.add_argument("--only", action="append", choices=[*KINDS, STRANGER])
    p.add_argument("--what", action="append", choices=WHATS)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--stop-s", type=float, default=25.0, help="seconds that a worker is stopped for")
    p.add_argument("--jobs", type=int, default=1, help="fleets at once")
    p.add_argument("--seconds", type=float, default=1e9, help="begin no injection after so many")
    p.add_argument("--tls", action=argparse.BooleanOptionalAction, help="only over TLS, or only without")
    p.add_argument("--keep", help="a file that gets the JSON lines as well")
    p.add_argument("--record", help="such a file: write its table to results/, and inject nothing")
    args = p.parse_args()
    if args.record:
        lines = [json.loads(line) for line in Path(args.record).read_text().splitlines()]
        whole = {"distributed": version("distributed"), "runs": len(lines), "bad": sum(bool(line["bad"]) for line in lines)}
        how = f"python benchmarks/fleet_injections.py --count {args.count} --jobs {args.jobs} --keep FILE"
        record.keep("fleet_injections", how, [*table(lines), whole])
        return 0
    kinds = args.only or [*(k for k, kind in KINDS.items() if kind.counts), STRANGER]
    kinds = [k for k in kinds if k == STRANGER or not (why := KINDS[k].missing()) or print(f"{k}: left out, {why}", file=sys.stderr)]
    series = [Series(args, kinds, job) for job in range(args.jobs)]
    with ThreadPoolExecutor(args.jobs) as pool:
        for done in [pool.submit(s.run) for s in series]:
            done.result()
    lines = [line for s in series for line in s.lines]
    for row in table(lines):
        print(json.dumps(row), file=sys.stderr)
    return 1 if any(line["bad"] for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
