"""Measure the fields of the machine model that small kernels can measure, on one thread of this processor.

    python benchmarks/calibrate.py [--json FILE]

Each kernel is scheduled, built and timed by the tool's own device, in turns with one that differs in the one thing
measured, so that calls and loops cancel. Prints a line for each field beside its default; `--json FILE` writes the
whole model, with what was not measured at its default, for `benchmarks/model_rank.py --machine FILE`. Nothing reads
such a file by itself: start schedules and estimates use the defaults."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tilewright
from parts.machine_file import from_json, to_json
from tilewright import devices
from tilewright.devices.base import Device
from tilewright.heuristics.machine import DEFAULT
from tilewright.ir import Kernel, KernelBuilder, Node, exp, float32, log, sqrt
from tilewright.ir.functions import erf, tanh
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.renderers import render

N = 2048
"""Elements of an array that stays in the first cache."""
SLOT_S, ROUNDS = 0.02, 9
"""Seconds of a burst, and how many bursts of each kernel."""
WIDE = 1 << 14
"""Elements of a row that spans whole pages."""
Found = Iterator[tuple[str, str, float]]


def pointwise(f: Callable[[Node], Node], n: int = N, step: int = 1) -> Kernel:
    """y[i] = f(x[i, 0]), where rows of x have `step` elements."""
    kb = KernelBuilder("pointwise")
    i, x = kb.axis("n", n), kb.input("x", (n, step), float32)
    kb.store("y", float32, (n,), (i,), f(x[i, 0]))
    return kb.build()


def strip(rows: int, columns: int) -> Kernel:
    """Sums down the first columns of a wide array: a short piece of every row."""
    kb = KernelBuilder("strip")
    i, j, x = kb.axis("m", rows), kb.axis("n", columns), kb.input("x", (rows, WIDE), float32)
    kb.store("y", float32, (columns,), (j,), kb.sum("s", (j,), i, x[i, j])[j])
    return kb.build()


class Timed:
    """A kernel loaded on the device, with its arrays (all numbers are 0.75)."""

    def __init__(self, device: Device, kernel: Kernel, opts: list[Any], places: int = 1) -> None:
        """`places`: start the first input at so many places, 256 bytes apart, one after the other."""
        source = render(lower(apply(kernel, parse(opts), device.target)), device.target)
        self.arrays = [tilewright.empty(tuple(int(d) for d in b.shape), b.dtype.np) for b in kernel.buffers]
        for a in self.arrays:
            a[...] = 0.75
        first, *rest = (a.ctypes.data for a in self.arrays)
        self.pointers = [[first + 256 * k, *rest] for k in range(places)]
        self.executable = device.load(device.build(source), source.signature, 1)
        self.executable.run(self.pointers[0])

    def burst(self) -> list[float]:
        """Seconds of the calls of one burst."""
        return self.executable.time(self.pointers, (), 100_000, SLOT_S)


def difference(a: Timed, b: Timed) -> float:
    """Seconds that a call of `a` takes longer than one of `b`: the median over bursts in turns, each by its fastest call."""
    return max(statistics.median(min(a.burst()) - min(b.burst()) for _ in range(ROUNDS)), 1e-12)


def from_limits(device: Device) -> Found:
    """What the device's own probe knows: the clock by the rate of fused products, and the rates of caches and memory."""
    limits = device.limits()
    if limits is None:
        return
    one, target = limits.rates[1], device.target
    clock = one.peak_f32 / (2 * target.lanes(float32) * DEFAULT.core.ports)
    yield "core", "clock", clock
    yield "caches", "dram", one.read / clock
    for name, least in (("l2", target.l1), ("l3", target.l2)):
        held = [c.read for c in one.caches if c.size > least]
        if held:
            yield "caches", name, held[0] / clock
    most = max(limits.rates)
    if most > 1:
        yield "caches", "scaling", min(1.0, limits.rates[most].read / (most * one.read))


def measured(device: Device, clock: float) -> Found:
    """What kernels of this file measure; `clock`: cycles a second."""
    lanes = device.target.lanes(float32)
    core, wide = DEFAULT.core, [["UPCAST", "n", 4 * lanes]]
    plain = Timed(device, pointwise(lambda x: x * 1.5), wide)
    functions: dict[str, Callable[[Node], Node]] = {
        "exp": exp,
        "log": log,
        "tanh": tanh,
        "erf": erf,
        "div": lambda x: 1.5 / x,
        "sqrt": sqrt,
    }
    for name, f in functions.items():
        extra = difference(Timed(device, pointwise(f), wide), plain)
        yield "core", name, extra * clock * core.ports / (N / lanes)
        if name in ("div", "sqrt"):  # the divider is all that such a kernel waits for
            yield "core", {"div": "divided", "sqrt": "rooted"}[name], extra * clock / (4 * N)
    few = N // 4
    gathered = Timed(device, pointwise(lambda x: x * 1.5, few, 8), [["UPCAST", "n", lanes]])
    extra = difference(gathered, Timed(device, pointwise(lambda x: x * 1.5, few), [["UPCAST", "n", lanes]]))
    yield "core", "gathered", extra * clock * core.load_ports / few
    rows = 2 * DEFAULT.jumps.translations
    jumping = Timed(device, strip(rows, 64), [["UPCAST", "n", 64]], places=(WIDE - 64) * 4 // 256)
    yield "jumps", "far", statistics.median(jumping.burst() + jumping.burst()) * clock / rows


def main() -> None:
    """Print one line a field, and write the file."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--json", type=Path, metavar="FILE")
    args = p.parse_args()
    device = devices.get("cpu")
    found: dict[str, dict[str, float]] = {}
    clock = DEFAULT.core.clock

    def keep(lines: Found) -> None:
        for part, name, value in lines:
            found.setdefault(part, {})[name] = float(f"{value:.4g}")
            print(f"{part + '.' + name:18} default {getattr(getattr(DEFAULT, part), name):<10.4g} measured {value:.4g}", flush=True)

    keep(from_limits(device))
    clock = found.get("core", {}).get("clock", clock)
    keep(measured(device, clock))
    if args.json:
        machine = from_json(found)
        shown = {k: v for k, v in device.fingerprint().items() if k in ("cpu", "target", "cores", "l1", "l2", "l3", "compiler", "llvm")}
        about = {
            "command": f"python benchmarks/calibrate.py {' '.join(sys.argv[1:])}",
            "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
            "device": shown,
            "load_average_at_end": os.getloadavg(),
            "versions": {"python": platform.python_version(), **{p: version(p) for p in ("tilewright", "numpy", "llvmlite")}},
            "measured": found,
            "machine": to_json(machine),
        }
        args.json.write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
