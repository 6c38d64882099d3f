"""What each start rule is worth: the start schedules of every kernel without it.

    python benchmarks/start_ablation.py [--target v2,v3,v4] [--choice quick,ranked] [--only REGEX] [--rule TEXT]
        [--measure] [--opts]

Kernels are those of `user/cases.toml`, the named ones, and those of parts/jit_kernels.py, once each by their canonical hash. One after the
other, every rule of `heuristics/start/start_rules.py` that guesses something for a kernel is left out, and every step that adds to what rules
found. Where the first schedule is another then, both are lowered and counted (`heuristics.counted`).

One JSON line a change: `without` names the rule, `ratio` is the counted time without it over the time with it (above 1: the rule helps).
`--measure` times both too, in turns on one thread (`real`, the same of medians; on this machine's target or under TILEWRIGHT_TARGET, which
`--target` then names). The last lines sum up each rule, `changed` and `asked` being numbers of kernels: `helps` and `hurts` count ratios
beyond 2 %, `mean` is the geometric mean over changes, `most` the largest. `--opts` prints the schedules. The counted model alone is no judge
of a rule: it said of one for scatters that it hurts (0.70) where it is 1.60 times as fast. So measure before one goes."""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import signal
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from jit_start import KERNELS, forked
from parts.schedule_times import built, timed
from tilewright import devices, heuristics, named_kernels, targets
from tilewright.heuristics.counted import of_program
from tilewright.heuristics.start import choose, start_rules
from tilewright.ir import Kernel
from tilewright.ir.normal_form import canonical, normalise
from tilewright.lower import lower
from tilewright.opts import Opts, apply, short
from tilewright.targets import Target
from vs_c import cases

LIMIT_S = 90
NOTICED = 1.02
STEPS: dict[str, Callable[..., Any]] = {
    "joined_places": lambda trials, found: found,
    "streamed": lambda trials, found, favourites=4: found,
    "with_early_exits": lambda trials, found: found,
    "finished": lambda trials, found: found,
    "hoisted": lambda trials, found, parts, count=0, **more: found,
    "better_lanes": lambda trials, plain, found: (),
    "phase_starts": lambda trials, starts: iter(()),
    "online_starts": lambda trials, starts: iter(()),
    "computed_starts": lambda trials, starts: [],
    "paired": lambda kernel: iter(()),
    "constant_starts": lambda kernel, target, threads, found: iter(()),
    "phases_first": lambda kernel, target: iter(()),
}
"""Functions of `choose.py`, each with what stands in its place when it is left out."""


def kernels() -> dict[str, Callable[..., Kernel]]:
    """All kernels by name."""
    found: dict[str, Callable[..., Kernel]] = {n: named_kernels.get(n).make for n in named_kernels.NAMES}
    return found | KERNELS | {c.name: partial(c.make, **c.sizes) for c in cases().values()}


@contextmanager
def without(name: str) -> Iterator[None]:
    """With a rule or a step left out."""
    if name in STEPS:
        kept = getattr(choose, name)
        setattr(choose, name, STEPS[name])
        yield
        setattr(choose, name, kept)
        return
    rule = next(r for r in start_rules.CPU_RULES if r.name == name)
    kind: Any = type(rule)
    own = {k: kind.__dict__.get(k) for k in ("guesses", "quick")}
    kind.guesses, kind.quick = lambda self, f: iter(()), lambda self, f: []
    yield
    for k, function in own.items():
        delattr(kind, k) if function is None else setattr(kind, k, function)


def asked(work: Callable[[], object]) -> set[str]:
    """The rules that guessed something, and the steps that did something, while `work` ran."""
    seen: set[str] = set()
    undo: list[Callable[[], None]] = []
    for rule in start_rules.CPU_RULES:
        kind: Any = type(rule)
        own, plain = kind.__dict__.get("guesses"), kind.guesses

        def watched(self: Any, f: Any, plain: Any = plain) -> Iterator[Opts]:
            for guess in plain(self, f):
                seen.add(self.name)
                yield guess

        kind.guesses = watched
        undo.append(lambda kind=kind, own=own: delattr(kind, "guesses") if own is None else setattr(kind, "guesses", own))
    for name, stand_in in STEPS.items():
        step = getattr(choose, name)

        def acted(*given: Any, name: str = name, step: Any = step, stand_in: Any = stand_in, **more: Any) -> Iterator[Opts]:
            given = tuple(list(x) if isinstance(x, Iterator) else x for x in given)
            found = list(step(*given, **more))
            if found != list(stand_in(*given, **more)):
                seen.add(name)
            return iter(found)

        setattr(choose, name, acted)
        undo.append(partial(setattr, choose, name, step))
    work()
    for back in reversed(undo):
        back()
    return seen


def rows(name: str, kernel: Kernel, target: Target, args: argparse.Namespace) -> list[dict[str, Any]]:
    """What changes for one kernel, and which rules were asked."""
    signal.alarm(LIMIT_S)
    out: list[dict[str, Any]] = []
    times: dict[Opts, float] = {}

    def seconds(opts: Opts) -> float:
        if opts not in times:
            times[opts] = of_program(lower(apply(kernel, opts, target)), target, 1)
        return times[opts]

    for choice in args.choice.split(","):
        first = heuristics.quick_starts if choice == "quick" else heuristics.starts
        found: list[Opts] = []
        words = asked(lambda first=first, found=found: found.extend(first(kernel, target, 1)))
        row = {"kernel": name, "target": target.name, "choice": choice}
        out.append(row | {"asked": sorted(words)})
        for one in sorted(w for w in words if args.rule in w):
            with without(one):
                other = first(kernel, target, 1)[0]
            if other != found[0]:
                changed = {"without": one, "ratio": round(seconds(other) / seconds(found[0]), 4)}
                if args.measure:
                    changed["real"] = round(measured(kernel, found[0], other), 3)
                if args.opts:
                    changed |= {"with_it": short(found[0]), "without_it": short(other)}
                out.append(row | changed)
    return out


def measured(kernel: Kernel, one: Opts, other: Opts) -> float:
    """The time of the other schedule over that of the one."""
    device = devices.get("cpu")
    of_one, of_other = timed(kernel, built(kernel, [one, other], device), device)
    return statistics.median(b / a for a, b in zip(of_one, of_other, strict=True))


def main() -> None:
    """One JSON line a change, then one a rule."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--target", default="v3,v4,v2")
    p.add_argument("--choice", default="quick,ranked")
    p.add_argument("--only", default="", metavar="REGEX")
    p.add_argument("--rule", default="", metavar="TEXT", help="rules and steps whose name has it")
    p.add_argument("--measure", action="store_true", help="time what changes")
    p.add_argument("--opts", action="store_true", help="print the schedules")
    args = p.parse_args()
    named: dict[str, tuple[str, Kernel]] = {}
    for name, make in kernels().items():
        if re.search(args.only, name):
            kernel = normalise(make())
            named.setdefault(canonical(kernel).hash, (name, kernel))
    order = sorted(named)
    random.Random(0).shuffle(order)
    counts: dict[str, int] = defaultdict(int)
    ratios: dict[str, list[float]] = defaultdict(list)
    for key in order:
        for target in args.target.split(","):
            name, kernel = named[key]
            try:
                found = forked(lambda: rows(name, kernel, targets.named(target), args))  # noqa: B023
            except EOFError:
                found = [{"kernel": name, "target": target, "error": "no answer"}]
            for row in found:
                for one in row.get("asked", ()):
                    counts[one] += 1
                if "without" in row:
                    ratios[row["without"]].append(row["ratio"])
                if "asked" not in row:
                    print(json.dumps(row), flush=True)
    for one, of in counts.items():
        r = ratios[one]
        line = {"rule": one, "asked": of, "changed": len(r), "helps": sum(x > NOTICED for x in r), "hurts": sum(x < 1 / NOTICED for x in r)}
        print(json.dumps(line | {"mean": round(math.exp(sum(map(math.log, r)) / max(1, len(r))), 4), "most": max(r, default=1.0)}))


if __name__ == "__main__":
    os.nice(5)
    main()
