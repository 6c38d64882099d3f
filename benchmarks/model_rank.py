"""How well the analytic model ranks what is measured, kernel by kernel.

    python benchmarks/model_rank.py [--held-out] [--kernel NAME ...] [--schedules N] [--threads N] [--machine FILE]
    [--record FILE | --recorded FILE] [--json FILE]

Schedules are drawn without the model: seeds, instances of the templates, and short random walks of actions from both,
a third each, always the same ones. Each is built, verified and timed once. `rank` is Spearman's correlation between
predicted and measured times. `first_ten` is the best measured time among the ten schedules that the model ranks
first, over the best of all: 1 means that measuring ten would have been enough, 1.3 is the aim. Where ten or fewer
were measured it would be 1 whatever the model says, so it is null there, and the last line counts such kernels apart.

Seeds and model are worked on with one half of the named workloads and judged on the other: a workload is held out
where the first byte of its name's SHA-256 is odd. `--held-out` measures those, at shapes that are not their defaults,
and the ten kernels of held_out_kernels.py. Without it the other half is measured, at its default shapes. `--record`
keeps what was measured, `--recorded` ranks it again without measuring, say with another `--machine`
(benchmarks/calibrate.py)."""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import held_out_kernels
from tilewright import heuristics, kernels, opts, targets
from tilewright.heuristics.machine import DEFAULT, MachineModel
from tilewright.heuristics.machine_file import load
from tilewright.ir import Kernel, OptError
from tilewright.ir.normalise import normalise
from tilewright.opts.actions import proposals

KERNELS = (
    "matmul", "matmul_nt", "batched_matmul", "matvec", "conv2d", "attention", "softmax", "log_softmax", "layernorm", "rmsnorm", "cross_entropy", "gelu", "add",
    "transpose", "sum_rows", "sum_cols", "sum_all", "max_pool2d", "argmax", "cumsum", "embedding",
)  # fmt: skip
USERS = {f.__name__: f for f in held_out_kernels.KERNELS}
TEN = 10
STEPS = 3
"""Actions of a random walk at most."""


@dataclass(frozen=True)
class Space:
    """What was measured of one kernel: (options, median seconds) of each schedule, on `threads` threads of `target`."""

    kernel: str
    shape: dict[str, int]
    threads: int
    target: dict[str, Any]
    times: list[tuple[Any, float]]


def held_out(name: str) -> bool:
    """Whether a named workload is one that seeds and model are judged on."""
    return name in USERS or hashlib.sha256(name.encode()).digest()[0] % 2 == 1


def shape_of(name: str) -> dict[str, int]:
    """Default sizes; those of a held-out workload from 32 on are five eighths of that, in multiples of 8. A user's kernel has its own."""
    if name in USERS:
        return {}
    default = dict(kernels.get(name).default_shape)
    return {k: n * 5 // 8 // 8 * 8 if n >= 32 else n for k, n in default.items()} if held_out(name) else default


def made(name: str, shape: dict[str, int]) -> Kernel:
    """The kernel in its normal form, in float32 where it has one."""
    kernel = USERS[name]() if name in USERS else kernels.make(name, shape, "float32" if "float32" in kernels.get(name).dtypes else None)
    return normalise(kernel)


def drawn(kernel: Kernel, threads: int, count: int, rng: random.Random) -> list[opts.Opts]:
    """Up to `count` legal schedules of different meaning, by no model's choice."""
    target, found = targets.host(), dict[str, opts.Opts]()

    def take(wishes: Iterator[opts.Opts], most: int) -> None:
        for _, wish in zip(range(20 * count), wishes, strict=False):
            if len(found) >= most:
                return
            try:
                found.setdefault(opts.apply(kernel, wish, target).hash, wish)
            except OptError:
                continue

    take(iter(rng.sample(seeds := heuristics.seeds(kernel, target, threads), len(seeds))), count // 3)
    templates = heuristics.templates(kernel, target, threads)

    def instances() -> Iterator[opts.Opts]:
        while True:
            t = rng.choice(templates)
            yield t.make({k: rng.choice(v) for k, v in t.params.items()})

    def walks() -> Iterator[opts.Opts]:
        while True:
            at = rng.choice([(), *found.values()])
            for _ in range(rng.randint(1, STEPS)):
                try:
                    steps = proposals(opts.apply(kernel, at, target))
                except OptError:  # an action was not legal there
                    break
                at = (*at, *rng.choice(steps)) if steps else at
            yield at

    take(instances(), 2 * count // 3)
    take(walks(), count)
    return list(found.values())


def measured(name: str, count: int, threads: int) -> Space:
    """Build, verify and time schedules of a kernel; those that fail are left out."""
    from tilewright.measure import Measurement, Measurer

    shape = shape_of(name)
    kernel = made(name, shape)
    schedules = drawn(kernel, threads, count, random.Random(name))
    times = []
    with Measurer(kernel, "cpu", threads, deadline_s=20) as m:
        for i, built in m.build(schedules):
            got = built if isinstance(built, Measurement) else m.measure([built])[0]
            if got.ok and got.t_med is not None:
                times.append(([o.json for o in schedules[i]], got.t_med))
    target = dataclasses.asdict(targets.host())
    return Space(name, shape, threads, target | {"features": sorted(target["features"])}, sorted(times, key=lambda e: e[1]))


def ranked(space: Space, machine: MachineModel) -> dict[str, Any]:
    """One line of the result."""
    kernel = made(space.kernel, space.shape)
    target = targets.Target(**{**space.target, "features": frozenset(space.target["features"])})
    pairs = [(heuristics.estimate(opts.apply(kernel, opts.parse(o), target), space.threads, machine=machine), t) for o, t in space.times]
    best = min(t for _, t in pairs)
    first = min(t for _, t in sorted(pairs)[:TEN])
    return {
        "kernel": space.kernel,
        "shape": space.shape,
        "held_out": held_out(space.kernel),
        "threads": space.threads,
        "schedules": len(pairs),
        "rank": round(spearman(*zip(*pairs, strict=True)), 3) if len(pairs) > 2 else None,
        "first_ten": round(first / best, 3) if len(pairs) > TEN else None,
        "slowest": round(max(t for _, t in pairs) / best, 1),
    }


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Rank correlation of two series; what is equal shares its mean rank."""
    return statistics.correlation(*(_ranks(x) for x in (a, b))) if len(set(a)) > 1 and len(set(b)) > 1 else 0.0


def _ranks(x: Sequence[float]) -> list[float]:
    return [sum(u < v for u in x) + (sum(u == v for u in x) - 1) / 2 for v in x]


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The last line: how many kernels say something about the best of the model's ten, and how many cannot."""
    told = [r["first_ten"] for r in rows if r["first_ten"] is not None]
    ranks = [r["rank"] for r in rows if r["rank"] is not None]
    return {
        "kernels": len(rows),
        "rank_median": round(statistics.median(ranks), 3) if ranks else None,
        "first_ten_told": len(told),
        "first_ten_within_1.3": sum(x <= 1.3 for x in told),
        "first_ten_worst": max(told, default=None),
        "ten_or_fewer_measured": len(rows) - len(told),
    }


def main() -> None:
    """Print one JSON line a kernel, and one for all of them."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--kernel", nargs="*", choices=(*KERNELS, *USERS))
    p.add_argument("--held-out", action="store_true")
    p.add_argument("--schedules", type=int, default=24)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--machine", type=Path, metavar="FILE")
    p.add_argument("--record", type=Path, metavar="FILE")
    p.add_argument("--recorded", type=Path, metavar="FILE")
    p.add_argument("--json", metavar="FILE")
    args = p.parse_args()
    machine = load(args.machine) if args.machine else DEFAULT
    names = args.kernel or [n for n in (*KERNELS, *USERS) if held_out(n) == args.held_out]
    if args.recorded:
        spaces: Iterator[Space] = (Space(**json.loads(line)) for line in args.recorded.read_text().splitlines())
    else:
        spaces = (measured(n, args.schedules, args.threads) for n in names)
    rows, kept = [], []
    for space in spaces:
        kept.append(json.dumps(dataclasses.asdict(space), separators=(",", ":")))
        if not space.times:
            continue
        rows.append(ranked(space, machine))
        print(json.dumps(rows[-1]), flush=True)
        if args.record:
            args.record.write_text("\n".join(kept) + "\n")
    lines = [json.dumps(r) for r in (*rows, summary(rows))]
    print(lines[-1])
    if args.json:
        Path(args.json).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
