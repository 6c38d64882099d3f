"""Many schedules of a kernel, built once and timed in turns, on one thread."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any

from tilewright import devices, heuristics, opts
from tilewright.devices.base import Device
from tilewright.ir import Kernel, OptError, TilewrightError
from tilewright.lower import lower
from tilewright.opts.actions import proposals
from tilewright.renderers import render

STEPS = 3
"""Actions of a random walk at most."""
LONGEST = 400_000
"""Characters of a source that is still built."""
HOPELESS = 30.0
"""How many times the best a schedule may take to be timed more than once."""
BURST_S, BURSTS = 0.004, 2
"""Seconds of the calls of a schedule in a row, and how often its turn comes."""
Built = tuple[opts.Opts, bytes, Any]


def drawn(kernel: Kernel, count: int, rng: random.Random, starts: Sequence[opts.Opts] = (), limit_s: float = 12.0) -> list[opts.Opts]:
    """Up to `count` legal schedules of different meaning, by no model's choice: the first start schedules and a third of start schedules, a third of
    instances of the templates, the rest random walks of actions from all of these. `starts`: the kernel's, where they are known."""
    target, found = devices.get("cpu").target, dict[str, opts.Opts]()
    end = time.monotonic() + limit_s

    def take(wishes: Iterator[opts.Opts], most: int) -> None:
        for _, wish in zip(range(30 * count), wishes, strict=False):
            if len(found) >= most or time.monotonic() > end:
                return
            try:
                found.setdefault(opts.apply(kernel, wish, target).hash, wish)
            except OptError:
                continue

    starts = starts or heuristics.starts(kernel, target, 1)
    templates = heuristics.templates(kernel, target, 1)

    def instances() -> Iterator[opts.Opts]:
        while True:
            t = rng.choice(templates)
            yield t.make({k: rng.choice(v) for k, v in t.params.items()})

    def walks() -> Iterator[opts.Opts]:
        while True:
            at = rng.choice([(), *starts[:4], *found.values()])
            for _ in range(rng.randint(1, STEPS)):
                try:
                    steps = proposals(opts.apply(kernel, at, target))
                except OptError:  # an action was not legal there
                    break
                at = (*at, *rng.choice(steps)) if steps else at
            yield at

    take(iter([*starts[:3], *heuristics.quick_starts(kernel, target, 1)[:1]]), 4)
    take(iter(rng.sample(starts, len(starts))), count // 3)
    take(instances(), 2 * count // 3)
    take(walks(), count)
    return list(found.values())


def built(kernel: Kernel, schedules: Sequence[opts.Opts], device: Device) -> list[Built]:
    """(options, object, signature) of those that can be built."""
    out = []
    for o in schedules:
        try:
            source = render(lower(opts.apply(kernel, o, device.target)), device.target)
            if len(source.text) <= LONGEST:
                out.append((o, device.build(source), source.signature))
        except TilewrightError as e:
            print(f"{kernel.name} {opts.short(o)}: {e}")
    return out


def arrays_of(kernel: Kernel) -> list[Any]:
    """Inputs, uniform over a float's range where it has one, and zeros for outputs; each begins on a cache line."""
    import numpy as np
    import tilewright
    from tilewright.measure.inputs import generate

    made, out = generate(kernel, {}, 0), []
    for position, b in enumerate(kernel.buffers):
        a = tilewright.empty(tuple(int(d) for d in b.shape), b.dtype.np)
        a[...] = made.get(b.name, 0)
        if b.name in made and b.range is not None and b.dtype.is_float:
            a[...] = np.random.default_rng([0, position]).uniform(*b.range, a.shape)
        out.append(a)
    return out


def timed(kernel: Kernel, schedules: Sequence[Built], device: Device) -> list[list[float]]:
    """Seconds of each schedule in each of its turns: the lower quartile of a burst of calls. Outputs are not checked: tests do that."""
    arrays = arrays_of(kernel)
    pointers = [[a.ctypes.data for a in arrays]]
    loaded, first, best = [], [], math.inf
    for _, code, signature in schedules:
        loaded.append(device.load(code, signature, 1))
        once = loaded[-1].time(pointers, (), 1, 0.0)[0]
        first.append(min(once, *loaded[-1].time(pointers, (), 200, BURST_S / 2 if once < 20 * best else 0.0)))
        best = min(best, first[-1])
    out: list[list[float]] = [[] for _ in schedules]
    for _ in range(BURSTS):
        for program, least, times in zip(loaded, first, out, strict=True):
            hopeless = least > HOPELESS * best
            times.append(least if hopeless else statistics.quantiles([*program.time(pointers, (), 400, BURST_S)] * 2, n=4)[0])
    for program in loaded:
        program.close()
    return out
