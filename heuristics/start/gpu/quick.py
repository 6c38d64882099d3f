"""The guesses of `gpu.py`, the likeliest first, for a start schedule that is chosen among few."""

from __future__ import annotations

from collections.abc import Iterator, Set
from itertools import islice
from math import prod

from ....ir.kernel import Kernel
from ....opts.analysis.structure import Contraction, contractions, extent, nests, shared_axes
from ....opts.defaults import points
from ....opts.opt import Opts
from ....opts.options.fuse import with_rows
from ....targets import Target
from ..effects import EXACT
from ..scatters import thread_copies
from ..tiny_axes import copies
from .chains import chains
from .contractions import Tiles, contraction, guesses, tile_cost
from .folds import folds
from .rows import LANES, columns, rows, transposed
from .tensor_folds import tensor_folds
from .warps import quick_tensor

UNITS = 3
"""Schedules with matrix instructions that are asked about."""
FEW = 64
"""Groups below which a launch leaves most of a machine idle whatever its tile."""


def gpu_wishes(kernel: Kernel, target: Target, allowed: Set[str] = EXACT) -> Iterator[Opts]:
    """Guesses, perhaps illegal: a fold's that are soon built, a product's by matrix instructions and by a closed form, reductions
    across memory, tiles of a transposition, rows, and a thread a few elements. The empty list is one of them, as what has an
    order has no better."""
    fused, tiny = with_rows(kernel, target), copies(kernel)
    for wish in _apart(kernel, target, allowed):
        yield (*wish, *(tiny if all(o.op != "TC" for o in wish) else ()), *fused)


def _apart(kernel: Kernel, target: Target, allowed: Set[str]) -> Iterator[Opts]:
    yield from islice(thread_copies(kernel, target), 1)
    yield from islice(tensor_folds(kernel, target, allowed), UNITS)
    yield from _folds(kernel)
    yield from islice(chains(kernel), 2)
    yield from islice(quick_tensor(kernel, target, allowed), UNITS)
    products, across = contractions(kernel), columns(kernel)
    if products:
        c = max(products, key=lambda c: prod(extent(a) for a in c.nest.all_axes))
        yield from _products(kernel, target, c)
    yield from (across[i] for i in (12, 3, 6, 2) if i < len(across))
    turned = transposed(kernel)
    yield from (turned[i] for i in (3, 0) if i < len(turned))
    reduced = any(n.kind == "reduce" for n in nests(kernel))
    few = reduced and prod(extent(a) for a in shared_axes(kernel)) <= FEW
    for threads in ((1024, 256, 64, 32) if few else (64, 32, 256)) if reduced else ():
        yield rows(kernel, target, threads, 8 if threads == 1024 else LANES, True)
    yield points(kernel, 64, 2 * LANES)
    yield points(kernel, 64, LANES)
    yield ()
    yield points(kernel, 64, 1)


def _folds(kernel: Kernel) -> list[Opts]:
    """Those that a few threads share first: the likeliest to fit registers."""
    found = folds(kernel)
    return sorted(found, key=lambda o: -next((x.amount for x in o if x.op == "GROUP"), 0))


def _products(kernel: Kernel, target: Target, c: Contraction) -> Iterator[Opts]:
    free = prod(extent(a) for a in shared_axes(kernel) if a is not c.lane and a not in c.rows)
    found = guesses(c, target)
    shared = [g for g in found if g.gk > 1]  # few results: threads share the reduction
    for gk in (256, 32):
        yield from (contraction(kernel, c, g) for g in [g for g in shared if g.gk == gk][:1])
    order = sorted((g for g in found if g.gk == 1), key=lambda g: (tile_cost(g, target, c, free), -g.kt))
    kinds: dict[tuple[int, int, int], Tiles] = {}
    for g in order:
        kinds.setdefault((g.um, g.un, g.sk), g)
    first = list(kinds.values())[: 1 if shared else 3]
    # the least tile fills a machine with what little there is, and may be staged where larger ones may not
    small = [g for g in found if (g.lm, g.ln, g.um, g.un, g.kt, g.sk) == (4, 8, 1, 1, 16, 1)]
    for g in (*first[:2], *small, *first[2:]):
        yield contraction(kernel, c, g)
    if prod(extent(a) for a in c.nest.axes) <= FEW * FEW * FEW:
        yield rows(kernel, target, 32, 1, False)
