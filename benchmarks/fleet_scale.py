"""A fleet of a thousand workers, on paper: a discrete-event simulation with costs that were measured.

    python benchmarks/fleet_scale.py                          # the table of docs/scale.md
    python benchmarks/fleet_scale.py --workers 5000 --rows-a-day 1e8 --clients 20

Workers tune entries, and send each batch of rows as a message through the scheduler to the client that asked. A client reads each row
strictly, and writes what arrived every half second into its cache. It asks the scheduler every second who is there. The rows go on to
one server, from which every machine's mirror pulls. Scheduler, client and server are queues with one processor each; arrivals are
random (exponential), so what is waited for is seen, and not only what is used. `fleet_costs.py` measures the costs."""

from __future__ import annotations

import argparse
import heapq
import json
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

COSTS = Path(__file__).parents[1] / "results" / "fleet-costs.json"
DAY_S = 86400.0
FULL = 0.8
"""The share of a processor from which on queues grow long."""


@dataclass(frozen=True)
class Costs:
    """Processor seconds and bytes. Those of the server and of mirrors are from the figures of the team cache's design: 1,000 rows in 0.2 s,
    100,000 rows pulled in 10 s at most, a question that has no news 0.7 ms."""

    heartbeat_s: float
    task_s: float
    message_s: float
    identity_s: float
    identity_worker_s: float
    identity_worker_bytes: float
    row_bytes: float
    row_parse_s: float
    row_write_s: float
    row_stored_bytes: float
    reach_s: float
    join_s: float
    server_row_s: float = 0.2e-3
    pull_row_s: float = 0.1e-3
    pull_ask_s: float = 0.7e-3

    @classmethod
    def read(cls, path: Path = COSTS) -> Costs:
        """Those that `fleet_costs.py` wrote."""
        known = json.loads(path.read_text())
        return cls(**{k: known[k] for k in cls.__dataclass_fields__ if k in known})

    def identity(self, workers: int) -> float:
        """The scheduler's seconds for saying who is there."""
        return self.identity_s + self.identity_worker_s * workers


@dataclass(frozen=True)
class Fleet:
    """What is simulated. `busy_rows_s`: rows a second of a worker that tunes (a batch of 12 takes 0.56 s on a small matmul); `entry_s`:
    seconds of an entry; `machines`: those that have a mirror, and how often each pulls (seconds); `look_s`: how often a client asks who
    is there; `probe_s`: how often each `tune fleet worker` looks over TLS whether the scheduler is there, though its process runs (0:
    never); `restart_s`: how long a worker's process lasts on the average. One that starts again looks once, and joins."""

    workers: int = 1000
    rows_a_day: float = 1e6
    clients: int = 1
    busy_rows_s: float = 20.0
    batch: int = 12
    entry_s: float = 60.0
    machines: int = 200
    pull_s: float = 60.0
    look_s: float = 1.0
    write_s: float = 0.5
    probe_s: float = 0.0
    restart_s: float = 3600.0

    @property
    def busy(self) -> float:
        """The share of the workers that tune at a time."""
        return min(1.0, self.rows_a_day / DAY_S / (self.workers * self.busy_rows_s))

    @property
    def rows_s(self) -> float:
        """Rows a second of all."""
        return self.busy * self.workers * self.busy_rows_s


@dataclass
class Station:
    """One processor with a queue. `waits`: seconds from an arrival to its end."""

    used: float = 0.0
    free_at: float = 0.0
    waits: list[float] = field(default_factory=list)
    by: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def serve(self, now: float, seconds: float, why: str) -> float:
        """Take something in; when it is done."""
        self.free_at = max(self.free_at, now) + seconds
        self.used += seconds
        self.by[why] += seconds
        self.waits.append(self.free_at - now)
        return self.free_at


class Simulation:
    """One run of `fleet` for `seconds`."""

    def __init__(self, fleet: Fleet, costs: Costs, seconds: float, seed: int = 0) -> None:
        self.fleet, self.costs, self.seconds = fleet, costs, seconds
        self.random = random.Random(seed)
        self.scheduler, self.server = Station(), Station()
        self.clients = [Station() for _ in range(fleet.clients)]
        self.pending = [0] * fleet.clients
        self.rows = 0
        self.tuning = max(1, round(fleet.workers * fleet.busy))
        self.bytes: dict[str, float] = defaultdict(float)
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._count = 0

    def at(self, when: float, what: Callable[[float], None]) -> None:
        """Do something then."""
        self._count += 1
        heapq.heappush(self._events, (when, self._count, what))

    def run(self) -> dict[str, Any]:
        """Everything; the figures."""
        f = self.fleet
        for i in range(self.tuning):
            self.at(self.random.uniform(0, f.entry_s), partial(self._entry, client=i % f.clients))
            self.at(self.random.uniform(0, f.batch * self.tuning / f.rows_s), partial(self._batch, client=i % f.clients))
        for c in range(f.clients):
            self.at(self.random.uniform(0, f.look_s), partial(self._look, client=c))
            self.at(self.random.uniform(0, f.write_s), partial(self._write, client=c))
        for _ in range(f.workers):
            self.at(self.random.uniform(0, self._heartbeat), self._alive)
            self.at(self.random.expovariate(1 / f.restart_s), self._restart)
            if f.probe_s:
                self.at(self.random.uniform(0, f.probe_s), self._probe)
        for _ in range(f.machines):
            self.at(self.random.uniform(0, f.pull_s), self._pull)
        while self._events and self._events[0][0] < self.seconds:
            now, _, what = heapq.heappop(self._events)
            what(now)
        return self._figures()

    @property
    def _heartbeat(self) -> float:
        """Dask's interval: the more workers, the longer."""
        n = self.fleet.workers
        return 0.5 if n <= 10 else 1.0 if n < 50 else 2.0 if n < 200 else n / 200 + 1

    # what happens ---------------------------------------------------------------------------------------------------
    def _entry(self, now: float, client: int) -> None:
        self.scheduler.serve(now, self.costs.task_s, "tasks")
        each = self.fleet.workers * self.fleet.busy / self.tuning
        self.at(now + self.random.expovariate(each / self.fleet.entry_s), lambda t: self._entry(t, client))

    def _batch(self, now: float, client: int) -> None:
        f, c = self.fleet, self.costs
        arrives = self.scheduler.serve(now, c.message_s, "messages")
        self.bytes["scheduler"] += 2 * f.batch * c.row_bytes
        self.at(arrives, lambda t: self._rows_arrive(t, client))
        self.at(now + self.random.expovariate(f.rows_s / self.tuning / f.batch), lambda t: self._batch(t, client))

    def _rows_arrive(self, now: float, client: int) -> None:
        n = self.fleet.batch
        self.clients[client].serve(now, n * self.costs.row_parse_s, "reading rows")
        self.pending[client] += n
        self.rows += n

    def _write(self, now: float, client: int) -> None:
        n, self.pending[client] = self.pending[client], 0
        if n:
            done = self.clients[client].serve(now, n * self.costs.row_write_s, "writing rows")
            self.at(done, lambda t: self._on_server(t, n))
        self.at(now + self.fleet.write_s, lambda t: self._write(t, client))

    def _on_server(self, now: float, n: int) -> None:
        self.server.serve(now, n * self.costs.server_row_s, "rows written")
        self.bytes["server in"] += n * self.costs.row_bytes

    def _look(self, now: float, client: int) -> None:
        f = self.fleet
        self.scheduler.serve(now, self.costs.identity(f.workers), "who is there")
        self.clients[client].serve(now, self.costs.identity(f.workers), "who is there")
        self.bytes["scheduler"] += f.workers * self.costs.identity_worker_bytes
        self.at(now + f.look_s, lambda t: self._look(t, client))

    def _alive(self, now: float) -> None:
        self.scheduler.serve(now, self.costs.heartbeat_s, "signs of life")
        self.at(now + self._heartbeat, self._alive)

    def _probe(self, now: float) -> None:
        self.scheduler.serve(now, self.costs.reach_s, "looks whether it is there")
        self.at(now + self.fleet.probe_s, self._probe)

    def _restart(self, now: float) -> None:
        self.scheduler.serve(now, self.costs.reach_s + self.costs.join_s, "workers that join")
        self.at(now + self.random.expovariate(1 / self.fleet.restart_s), self._restart)

    def _pull(self, now: float) -> None:
        f, c = self.fleet, self.costs
        # each mirror takes every row once: on the average what came since its last time
        n = f.rows_s * f.pull_s
        self.server.serve(now, c.pull_ask_s + n * c.pull_row_s, "mirrors")
        self.bytes["mirrors"] += n * c.row_bytes
        self.at(now + f.pull_s, self._pull)

    def _figures(self) -> dict[str, Any]:
        def station(s: Station) -> dict[str, Any]:
            waits = sorted(s.waits) or [0.0]
            most = max(s.by, key=lambda k: s.by[k]) if s.by else ""
            return {"share": s.used / self.seconds, "p99_s": waits[int(0.99 * (len(waits) - 1))], "most": most}

        busiest = max(self.clients, key=lambda c: c.used)
        a_day = DAY_S / self.seconds
        return {
            "workers": self.fleet.workers,
            "clients": self.fleet.clients,
            "busy": self.fleet.busy,
            "rows_s": self.rows / self.seconds,
            "rows_a_day": self.rows * a_day,
            "scheduler": station(self.scheduler),
            "client": station(busiest),
            "server": station(self.server),
            "gb_a_day": {k: v * a_day / 1e9 for k, v in sorted(self.bytes.items())},
            "stored_gb_a_year": self.rows * a_day * 365 * self.costs.row_stored_bytes / 1e9,
        }


def breaks(fleet: Fleet, costs: Costs, seconds: float) -> dict[str, float]:
    """The rows a day at which each part has no time left: what its time grows by with each row, from two runs."""
    low, high = (Simulation(replace(fleet, rows_a_day=r), costs, seconds).run() for r in (fleet.rows_a_day, 10 * fleet.rows_a_day))
    out = {}
    for part in ("scheduler", "client", "server"):
        slope = (high[part]["share"] - low[part]["share"]) / max(1.0, high["rows_a_day"] - low["rows_a_day"])
        out[part] = low["rows_a_day"] + (FULL - low[part]["share"]) / slope if slope > 0 else float("inf")
    return out


AGAIN_S = 2.0
"""How often a worker without a scheduler looks for one, on the average (`fleet.worker.AGAIN_S`)."""
GIVES_UP_S = 5.0
"""How long it waits for an answer (`fleet.scheduler.CONNECT_S`)."""
STARTS_S = 2.0
"""How long its process then takes to start."""


def all_back(workers: int, costs: Costs, seed: int = 0) -> float:
    """Seconds from a scheduler's start until all workers have joined it, who all looked for it. One that waits too long for an answer
    has cost it the time all the same, and looks again."""
    rng, hub = random.Random(seed), Station()
    events = [(rng.uniform(0, 1.5 * AGAIN_S), i, False) for i in range(workers)]
    heapq.heapify(events)
    last = 0.0
    while events:
        now, i, joins = heapq.heappop(events)
        done = hub.serve(now, costs.join_s if joins else costs.reach_s, "")
        if joins:
            last = max(last, done)
        elif done - now <= GIVES_UP_S:
            heapq.heappush(events, (done + STARTS_S, i, True))
        else:
            heapq.heappush(events, (now + GIVES_UP_S + rng.uniform(0.5, 1.5) * AGAIN_S, i, False))
    return last


CASES = {
    "100 workers, 10⁶ rows a day": Fleet(workers=100, rows_a_day=1e6),
    "1,000 workers, 10⁶ rows a day": Fleet(),
    "each worker looking every 2 s": Fleet(probe_s=2.0),
    "1,000 workers, 10⁷": Fleet(rows_a_day=1e7),
    "1,000 workers, 10⁸": Fleet(rows_a_day=1e8),
    "the same, looking every 30 s": Fleet(rows_a_day=1e8, look_s=30),
    "the same, 10 clients": Fleet(rows_a_day=1e8, look_s=30, clients=10),
    "the same, mirrors of answers": Fleet(rows_a_day=1e8, look_s=30, clients=10, machines=0),
    "1,000 workers, all busy": Fleet(rows_a_day=2e9, look_s=30, clients=10, machines=0),
}
"""What docs/scale.md shows. 'Mirrors of answers' pull only what answers look-ups, a row in a thousand: no load that counts."""


def table(found: dict[str, dict[str, Any]]) -> str:
    """The figures as a table in Markdown."""
    lines = [
        "| | busy | rows a second | scheduler | client | server | mirrors, GB a day | cache, GB a year |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, x in found.items():
        shares = [
            f"{'**' * (x[p]['share'] >= FULL)}{x[p]['share']:.1%}{'**' * (x[p]['share'] >= FULL)}"
            for p in ("scheduler", "client", "server")
        ]
        mirrors = x["gb_a_day"].get("mirrors", 0.0)
        cells = [name, f"{x['busy']:.2%}", f"{x['rows_s']:,.1f}", *shares, f"{mirrors:,.0f}", f"{x['stored_gb_a_year']:,.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Simulate and print."""
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--workers", type=int)
    p.add_argument("--rows-a-day", type=float)
    p.add_argument("--clients", type=int)
    p.add_argument("--machines", type=int, help="machines with a mirror")
    p.add_argument("--look", dest="look_s", type=float, help="seconds between two questions who is there")
    p.add_argument("--seconds", type=float, default=180.0, help="how long to simulate; default 180")
    p.add_argument("--json", metavar="FILE", help="also write all figures")
    args = p.parse_args()
    costs = Costs.read()
    given = {k: v for k in ("workers", "rows_a_day", "clients", "machines", "look_s") if (v := getattr(args, k)) is not None}
    cases = {"as asked": Fleet(**given)} if given else CASES
    found = {name: Simulation(fleet, costs, args.seconds).run() for name, fleet in cases.items()}
    print(table(found))
    print()
    for name, x in found.items():
        print(f"{name}: scheduler mostly {x['scheduler']['most']} (99 % within {1e3 * x['scheduler']['p99_s']:.3g} ms), "
              f"client mostly {x['client']['most']}, server mostly {x['server']['most']}; "
              + ", ".join(f"{k} {v:,.0f} GB a day" for k, v in x["gb_a_day"].items()))  # fmt: skip
    for workers in sorted({f.workers for f in cases.values()}):
        print(f"{workers:,} workers are back {all_back(workers, costs):.0f} s after a scheduler that was started anew")
    limits = breaks(Fleet(**given) if given else Fleet(look_s=30), costs, min(args.seconds, 60.0))
    print("\n80 % busy at (rows a day): " + ", ".join(f"{part} {rows:.2g}" for part, rows in sorted(limits.items(), key=lambda x: x[1])))
    if args.json:
        Path(args.json).write_text(json.dumps({"costs": vars(costs), "cases": found, "limits": limits}, indent=1) + "\n")


if __name__ == "__main__":
    main()
