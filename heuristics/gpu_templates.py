"""Start schedules of GPUs with their numbers left open."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from math import prod

from ..ir.kernel import Kernel
from ..opts.analysis.structure import contractions, extent
from ..opts.defaults import points
from ..opts.opt import Opts
from ..targets import Target
from .start.gpu import contractions as gpu_contractions
from .start.gpu import rows as gpu_rows
from .start.gpu.warps import TensorProduct, Warps, find_products, tensor_product

Made = tuple[str, dict[str, tuple[int, ...]], Callable[[Mapping[str, int]], Opts]]
"""A template: its name, the choices of each parameter, and the options that one choice of each makes."""


def gpu_templates(kernel: Kernel, target: Target, allowed: Set[str]) -> Iterator[Made]:
    """Those that fit a kernel's structure: sums of products by matrix instructions, then by threads, rows, and a thread
    for a few elements. `allowed`: effects that they may have."""
    by_units = find_products(kernel, target, allowed)
    if by_units:
        yield _units(kernel, max(by_units, key=lambda p: prod(extent(a) for a in p.nest.all_axes)))
    found = contractions(kernel)
    if found:
        c = max(found, key=lambda c: prod(extent(a) for a in c.nest.all_axes))
        rows, width = max((extent(a) for a in c.rows), default=1), extent(c.lane)
        depth = max(extent(a) for a in c.reduce)
        tiles = {
            "lm": tuple(n for n in (1, 2, 4, 8, 16, 32) if n < 2 * rows),
            "ln": tuple(n for n in (1, 2, 4, 8, 16, 32, 64) if n < 2 * width),
            "um": tuple(n for n in (1, 2, 4, 6, 8, 12, 16) if n < 2 * rows),
            "un": tuple(n for n in (1, 2, 4, 8, 16) if n < 2 * width),
            "kt": (0, *(n for n in (4, 8, 16, 32, 64) if n <= depth)),
            "gk": (1, *(n for n in (8, 32, 128, 256) if n <= depth)),
            "pad": (0, 1, 4),
            "swizzle": (0, 4, 8),
            "depth": (1, 2, 3, 4),
            "band": (0, 2, 4, 8),
            "sk": (1, *(n for n in (2, 4, 8, 16) if depth >= 16 * n)),
        }
        yield "tiles", tiles, lambda p: gpu_contractions.contraction(kernel, c, gpu_contractions.Tiles(**p))
    space: dict[str, tuple[int, ...]] = {"threads": (16, 32, 64, 128, 256, 512, 1024), "vector": (1, 2, 4, 8, 16)}
    if gpu_rows.rows(kernel, target, 32, 1, False):
        yield (
            "rows",
            {**space, "stage": (0, 1)},
            lambda p: gpu_rows.rows(kernel, target, p["threads"], p["vector"], bool(p["stage"])),
        )
    yield "points", space, lambda p: points(kernel, p["threads"], p["vector"])


def _units(kernel: Kernel, p: TensorProduct) -> Made:
    """Warps, what each makes, how much of the reduction is staged in how many slots, bands and chunks."""
    row, deep = p.row, extent(p.k)
    choices = {
        "wm": tuple(n for n in (1, 2, 4, 8) if n * row.m < 2 * max(row.m, extent(p.m))),
        "wn": tuple(n for n in (1, 2, 4, 8) if n * row.n < 2 * max(row.n, extent(p.n))),
        "um": tuple(n for n in (16, 32, 48, 64, 96, 128) if n % row.m == 0 and n < 2 * max(row.m, extent(p.m))),
        "un": tuple(n for n in (8, 16, 32, 48, 64, 96, 128) if n % row.n == 0 and n < 2 * max(row.n, extent(p.n))),
        "kt": (0, *(n * row.k for n in (1, 2, 4, 8) if n * row.k < max(row.k + 1, deep))),
        "depth": (1, 2, 3, 4, 5, 6),
        "band": (0, 2, 4, 8),
        "sk": (1, *(n for n in (2, 3, 4, 6, 8, 12, 16) if deep >= 4 * n * row.k)),
    }
    return "units", choices, lambda found: tensor_product(kernel, p, Warps(**found))
