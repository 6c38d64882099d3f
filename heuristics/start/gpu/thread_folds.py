"""The start rule for folds in block form (attention) for groups of threads, without matrix instructions (Dao et al.,
"FlashAttention", 2022).

A few threads share what a row keeps, so that its accumulators fit their registers: with all 64 of them in one thread,
builds took up to ten seconds and 254 registers."""

from __future__ import annotations

from collections.abc import Iterator

from ....ir.body import Fold
from ....ir.buffer import Buffer, loads
from ....ir.kernel import Kernel
from ....ir.node import Node, axes_of
from ....opts.analysis.structure import extent, read_elsewhere, shared_axes, stageable_values
from ....opts.defaults import family_name, points
from ....opts.opt import Opt, Opts, opt
from ....opts.options.phase import phased
from ..start_rule import StartFacts, StartRule

HELD = 32
"""Accumulators of a row that one thread has at most."""
STEPS = 16
"""Steps of a sum that are unrolled at most."""


class ThreadFolds(StartRule):
    """Folds in block form, by threads."""

    name = "folds"

    def guesses(self, f: StartFacts) -> Iterator[Opts]:
        return iter(folds(f.kernel))

    def quick(self, f: StartFacts) -> list[Opts]:
        """Those that a few threads share first: the likeliest to fit registers."""
        return sorted(folds(f.kernel), key=lambda o: -next((x.amount for x in o if x.op == "GROUP"), 0))


def folds(kernel: Kernel) -> list[Opts]:
    """A few threads for each row keep its state in registers, and the group stages what all rows read of one tile of
    the folded axis."""
    out: list[Opts] = []
    shared = shared_axes(kernel)
    for fold in kernel.body:
        if not isinstance(fold, Fold) or not shared or not any(set(fold.component(c).axes) - set(shared) for c in fold.components):
            continue
        for tile in (8, 16, 32):
            for parts in (1, 2, 4, 8):
                out += _fold(kernel, fold, tile, parts)
    return out


def _fold(kernel: Kernel, fold: Fold, tile: int, parts: int) -> list[Opts]:
    """Tiles of the folded axis; `parts` threads share the axes that a row's results have of their own."""
    shared, family = shared_axes(kernel), fold.axis.arg.family
    cuts: dict[Node, Opt] = {}
    split: dict[str, Opt] = {}
    for v in fold.block:
        own = [a for a in v.axes if a not in shared and a.arg.family != family]
        for a in (*v.axes, *v.reduce_axes):
            if a.arg.family == family:
                cuts[a] = opt("UNROLL", str(a.arg.name), 4) if a in v.reduce_axes and own else opt("UPCAST", str(a.arg.name), tile)
            elif a in v.reduce_axes:
                cuts[a] = opt("UNROLL", str(a.arg.name), max(1, min(STEPS, extent(a) // parts)))
            elif a in own:
                if parts > 1:
                    split[a.arg.family] = opt("GROUP", family_name(kernel, a), parts)
                cuts[a] = opt("UPCAST", str(a.arg.name), max(1, min(HELD, extent(a) // parts)))
    if parts > 1 and not split:
        return []
    tiles = {b.name: opt("STAGE", b.name, at=str(fold.axis.arg.name), order="row") for v in fold.block for b in _along(v.body, family)}
    kept = [opt("STAGE", v, at=str(shared[-1].arg.name)) for v in stageable_values(kernel)]
    found = [o for o in cuts.values() if o.amount > 1]
    first = opt("TILE", str(fold.axis.arg.name), tile)
    rows = [opt("LOCAL", family_name(kernel, shared[-1]), n // parts) for n in (64, 128, 256)]
    return [(first, local, *split.values(), *found, *kept, *tiles.values()) for local in rows]


def _along(expr: Node, family: str) -> list[Buffer]:
    return [b for b, indices, _ in loads(expr) if any(a.arg.family == family for a in axes_of(*indices))]


# grid chains ----------------------------------------------------------------------------------------------------------
# The start rule for chains on a GPU: reductions that others read at shifted places, or whole, get a phase (a launch) of their own.
#
# A grid is of what all loops share, and such a chain shares none: without phases one group would do it all.


UNROLLED = 9
"""Taps of a window that are unrolled."""


class GridChains(StartRule):
    """Chains of which all loops share no axis."""

    name = "chain"
    quick_places = (0, 1)

    def guesses(self, f: StartFacts) -> Iterator[Opts]:
        return _chains(f.kernel)


def _chains(kernel: Kernel) -> Iterator[Opts]:
    """Schedules, perhaps illegal ones; none where all loops share an axis."""
    values = tuple(v for v in read_elsewhere(kernel) if not isinstance(kernel.values[v].expr, Node))
    if not values or shared_axes(kernel) or any(isinstance(i, Fold) for i in kernel.body):
        return
    kernels = phased(kernel, values)
    windows = [opt("UNROLL", a.arg.name, extent(a)) for v in kernel.values.values() for a in v.reduce_axes if 1 < extent(a) <= UNROLLED]
    for threads in (128, 256):
        for vector in (1, 2, 4):
            found: dict[tuple[str, str], Opt] = {}
            for o in (o for k in kernels for o in (*points(k, threads, vector), *windows)):
                found.setdefault((o.op, o.on), o)
            yield (*(opt("PHASE", v) for v in values), *found.values())
