"""Seeds for folds whose scores have no axis that their keys do not depend on, such as attention of a single query a head: nothing is
read for many rows of results, so each nest has the lanes that lie in memory for it.

The scores are sums along what is consecutive in memory, a few keys side by side; their maximum and the sum of weights have lanes
along the keys; the weighted sum has them along its results. Where several heads share keys (their number is divided in an index),
those that do are in registers together, and what is read is read once for all of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ...ir.kernel import Kernel
from ...ir.node import Node, walk
from ...opts.analysis.structure import contiguous, extent
from ...opts.defaults import fit
from ...opts.nests import FoldItem, Nest
from ...opts.opt import Opt, Opts, opt
from ...targets import Target

SHARING = 4
"""Heads that share keys which are in registers together."""
WIDE = 8
"""Vectors of results of the weighted sum, of all heads together."""
TILES = (64, 256)
"""Keys of a tile, whose rows may be read for the scores and again for the weighted sum."""
SHAPES = ((4, 1), (8, 1), (2, 1), (4, 2))
"""Keys side by side, and vectors along their sums."""


def lone_rows(kernel: Kernel, target: Target, item: FoldItem, shared: Sequence[Node], kept: Sequence[str]) -> Iterator[Opts]:
    """Guesses, perhaps illegal ones. `shared`: the axes of all nests; `kept`: values of the block that are worth keeping."""
    family = item.fold.axis.arg.family
    lanes = target.lanes(item.nests[0].expr.dtype)
    heads = _sharing(item.nests, shared)
    together = math.prod(n for _, n in heads)
    grid = [opt("PARALLEL", a.arg.name) for a in shared]
    for keys, vectors in SHAPES:
        if together * keys * vectors + keys > target.registers:
            continue
        cut: list[Opt] = []
        for n in item.nests:
            cut += _lanes(kernel, n, family, shared, (lanes, vectors, keys, together))
        sites = [a for v in item.fold.block if v.name in kept for a in v.axes if a.arg.family == family]
        cut += [opt("UPCAST", a.arg.name, fit(extent(a), lanes)) for a in sites if fit(extent(a), lanes) > 1]
        cut += [opt("UPCAST", a.arg.name, n) for a, n in heads]  # (last: what is kept lies along the keys)
        for tile in (extent(item.fold.axis), *TILES):
            whole = tile >= extent(item.fold.axis)
            at = family if not whole else str(shared[-1].arg.name) if shared else ""
            tiled = () if whole else (opt("TILE", family, tile),)
            stages = tuple(opt("STAGE", v, at=at) for v in kept if at)
            yield tuple(dict.fromkeys((*tiled, *cut, *grid, *stages)))


def _sharing(nests: Sequence[Nest], shared: Sequence[Node]) -> list[tuple[Node, int]]:
    """Axes of which an index has a quotient, each with how many neighbours have the same that fit registers."""
    found: dict[Node, int] = {}
    for n in nests:
        for x in walk(*n.roots):
            if x.op == "div" and x.src[0] in shared and isinstance(x.arg, int):
                found[x.src[0]] = max(k for k in range(1, SHARING + 1) if x.arg % k == 0)
    return [(a, k) for a, k in found.items() if k > 1]


def _lanes(kernel: Kernel, n: Nest, family: str, shared: Sequence[Node], sizes: tuple[int, int, int, int]) -> Iterator[Opt]:
    """Lanes of a nest, and what lies beside them."""
    lanes, vectors, keys, together = sizes
    own = [a for a in n.axes if a not in shared]
    if n.kind != "reduce":
        choices = own[-1:]
    elif any(a.arg.family == family for a in n.reduce_axes):
        choices = own[-1:] or list(n.reduce_axes[-1:])
    else:
        along = [a for a in contiguous(kernel, n) if a in n.reduce_axes] or list(n.reduce_axes[-1:])
        yield opt("UPCAST", along[0].arg.name, fit(extent(along[0]), vectors * lanes))
        yield from (opt("UPCAST", a.arg.name, keys) for a in own[-1:] if extent(a) >= keys)
        return
    for a in choices:
        room = max(1, WIDE // together) if a in n.axes and a.arg.family != family else 1
        whole = [v for v in range(2, room + 1) if extent(a) % (v * lanes) == 0]
        width = max((fit(extent(a), room * lanes), *(v * lanes for v in whole)))
        if width > 1:
            yield opt("UPCAST", a.arg.name, width)
