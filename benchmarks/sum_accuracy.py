"""How exact sums are, beside NumPy's pairwise sum, under start schedules and under schedules drawn from what a search may propose.

    python benchmarks/sum_accuracy.py [--device cpu cpu:c opencl] [--threads N] [--schedules 8] [--most 1000000]

Each row is a layout, a number of terms and a distribution: the median error of 100 or more sums of random float32 numbers, against float64,
over that of `numpy.sum` of the same numbers in consecutive memory, by schedule. `worst` is the largest ratio; 2 is the limit. The rows called
`product` are sums of products that a register tile makes; NumPy's product (OpenBLAS) is what they are compared with."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from random import Random

import numpy as np
import tilewright as tw
from tilewright import devices
from tilewright.heuristics import starts
from tilewright.ir import KernelBuilder
from tilewright.ir.errors import TilewrightError
from tilewright.ir.kernel import Kernel
from tilewright.opts import apply, short
from tilewright.opts.actions import proposals

SUMS = 128
"""Sums of one kernel."""
STEPS = 6
"""Options that a drawn schedule has at most beside those that it begins with."""
Made = tuple[Kernel, tuple[int, ...]]


def rows(n: int) -> Made:
    """x (sums, n) → y (sums)."""
    kb = KernelBuilder("rows")
    i, j = kb.axis("m", SUMS), kb.axis("n", n)
    x = kb.input("x", (SUMS, n), "float32")
    kb.store("y", "float32", (SUMS,), (i,), kb.sum("total", (i,), j, x[i, j])[i])
    return kb.build(), (SUMS, n)


def columns(n: int) -> Made:
    """x (n, sums) → y (sums)."""
    kb = KernelBuilder("columns")
    i, j = kb.axis("m", SUMS), kb.axis("n", n)
    x = kb.input("x", (n, SUMS), "float32")
    kb.store("y", "float32", (SUMS,), (i,), kb.sum("total", (i,), j, x[j, i])[i])
    return kb.build(), (n, SUMS)


def channels(n: int) -> Made:
    """x (images, sums, n / images) → y (sums): what batch norm sums."""
    images = next(d for d in (15, 8, 7, 5, 4, 3, 2, 1) if n % d == 0)
    kb = KernelBuilder("channels")
    b, c, p = kb.axis("b", images), kb.axis("c", SUMS), kb.axis("p", n // images)
    x = kb.input("x", (images, SUMS, n // images), "float32")
    kb.store("y", "float32", (SUMS,), (c,), kb.sum("total", (c,), (b, p), x[b, c, p])[c])
    return kb.build(), (images, SUMS, n // images)


def products(n: int) -> Made:
    """a (sums, n), b (n, 64) → c (sums, 64)."""
    kb = KernelBuilder("product")
    i, j, k = kb.axis("m", SUMS), kb.axis("n", 64), kb.axis("k", n)
    a, b = kb.input("a", (SUMS, n), "float32"), kb.input("b", (n, 64), "float32")
    kb.store("c", "float32", (SUMS, 64), (i, j), kb.sum("total", (i, j), k, a[i, k] * b[k, j])[i, j])
    return kb.build(), (SUMS, n)


LAYOUTS: dict[str, tuple[Callable[[int], Made], tuple[int, ...]]] = {
    "rows": (rows, (0, 1)),
    "columns": (columns, (1, 0)),
    "channels": (channels, (1, 0, 2)),
    "product": (products, (0, 1)),
}
"""What makes a kernel, and how its input's dimensions are ordered for NumPy."""
DRAWS = {
    "normal": lambda rng, shape: rng.standard_normal(shape, dtype=np.float32),
    "uniform": lambda rng, shape: rng.random(shape, dtype=np.float32),
}


def drawn(kernel: Kernel, target: object, begin: tuple, rng: Random) -> tuple:
    """A schedule that a search could come to from another one."""
    opts, now = begin, apply(kernel, begin, target)
    for _ in range(rng.randint(1, STEPS)):
        kinds: dict[tuple[str, ...], list] = {}
        for more in proposals(now):
            kinds.setdefault(tuple(o.op for o in more), []).append(more)
        if not kinds:
            break
        for more in rng.sample(same := kinds[rng.choice(sorted(kinds))], min(4, len(same))):
            try:
                now = apply(kernel, (*opts, *more), target)
            except TilewrightError:
                continue
            opts = (*opts, *more)
            break
    return opts


def schedules(kernel: Kernel, target: object, threads: int, count: int, rng: Random) -> Iterator[tuple]:
    """Start schedules, the schedule without options, and drawn ones."""
    first = starts(kernel, target, threads)[:3]
    yield from first
    yield ()
    for i in range(count):
        yield drawn(kernel, target, first[0] if i % 2 else (), rng)


def main() -> None:
    """Print one JSON line a device, layout, number of terms and distribution."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--device", nargs="*", default=["cpu"])
    p.add_argument("--threads", type=int)
    p.add_argument("--schedules", type=int, default=8)
    p.add_argument("--most", type=int, default=1_000_000)
    p.add_argument("--layout", nargs="*", default=list(LAYOUTS), choices=list(LAYOUTS))
    args = p.parse_args()
    for device in args.device:
        place = devices.get(device)
        target, threads = place.target, args.threads or place.threads
        for layout in args.layout:
            make, order = LAYOUTS[layout]
            for n in (7, 32, 64, 100, 1000, 4096, 24_576, 114_375, 1_000_000):
                if n > min(args.most, 114_375 if layout == "product" else args.most):
                    continue
                kernel, shape = make(n)
                every = list(dict.fromkeys(schedules(kernel, target, threads, args.schedules, Random(n))))
                for name, draw in DRAWS.items():
                    rng = np.random.default_rng(n)
                    arrays = [draw(rng, shape), draw(rng, (n, 64))] if layout == "product" else [draw(rng, shape)]
                    print(json.dumps(row(device, layout, n, name, kernel, every, arrays, order, threads)), flush=True)


def row(device: str, layout: str, n: int, name: str, kernel: Kernel, every: list, arrays: list, order: tuple, threads: int) -> dict:
    """The errors of all schedules on some arrays."""
    exact = arrays[0].astype(np.float64).transpose(order).reshape(SUMS, -1)
    if layout == "product":
        numpy, exact = arrays[0] @ arrays[1], exact @ arrays[1].astype(np.float64)
    else:
        numpy = np.array([np.sum(x) for x in np.ascontiguousarray(arrays[0].transpose(order)).reshape(SUMS, -1)])
        exact = exact.sum(axis=1)
    least = float(np.median(np.spacing(np.abs(exact).astype(np.float32)))) / 4  # that of a rounded result
    base = max(float(np.median(np.abs(numpy - exact))), least)
    ratios = {}
    for opts in every:
        try:
            run = tw.best(kernel, device=device, threads=threads, opts=short(opts) or ())
        except TilewrightError as e:
            ratios[short(opts) + f" ({type(e).__name__})"] = 0.0
            continue
        got = np.asarray(run(*arrays), dtype=np.float64).reshape(exact.shape)
        ratios[short(opts)] = float(np.median(np.abs(got - exact))) / base
    worst = max(ratios, key=lambda k: ratios[k])
    first = short(every[0])
    return {
        "device": device, "layout": layout, "terms": n, "numbers": name, "numpy": base, "schedules": len(every),
        "start": round(ratios.get(first, 0.0), 2), "worst": round(ratios[worst], 2), "opts": worst,
    }  # fmt: skip


if __name__ == "__main__":
    main()
