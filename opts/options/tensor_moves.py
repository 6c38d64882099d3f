"""What a search may append to use tensor cores: an instruction alone, or with the blocks that make it pay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

from ...ir import index as ix
from ...ir.buffer import load_parts
from ...ir.node import Node, axes_of
from ...targets import Target, tensor_rows
from ...targets.tensor_rows import TensorRow
from ..analysis.structure import extent, lane_axis
from ..neighbourhood import Neighbourhood
from ..nests import Nest
from ..opt import Opt, Opts, opt
from ..tensor_cores import products, sides, source, takes

BLOCKS = ((64, 64, 2, 2), (64, 32, 2, 2), (32, 64, 2, 2), (32, 32, 2, 2), (64, 64, 2, 1), (16, 64, 1, 2), (16, 32, 1, 2), (16, 16, 1, 1))
"""(elements of m, elements of n that a unit of threads makes; units along m, along n) of a group."""
STEPS = (2, 4, 1, 8)
"""Steps of the instruction for which operands are staged at once."""
DEPTHS = (3, 1)
"""Slots of staged operands."""
CHUNK = 16
"""Bytes that are moved at once, and so by what rows in shared memory are shifted to lie on different banks."""


def fitting_rows(target: Target, nest: Nest, m: Node) -> list[TensorRow]:
    """The rows of `target` that could make a sum of products with `m` along its axis m: those of the operands' own types, or else those
    that keep all their digits, or else any."""
    operands = sides(products(nest.expr)[0], m)
    found = [(r, takes(r, nest.expr.dtype, operands, target)) for r in tensor_rows.available(target)] if target.lang == "cuda" else []
    own = [r for r, exact in found if exact and [r.a, r.b] == [source(x) for x in operands] and r.operands != "tf32"]
    return own or [r for r, exact in found if exact] or [r for r, exact in found if exact is False]


def places(nest: Nest) -> Iterator[tuple[Node, Node, Node]]:
    """(m, n, k) that a sum of products could be made along, the longest k first."""
    product, _ = products(nest.expr)
    if nest.kind != "reduce" or nest.value is None or getattr(nest.value.expr, "combine", "") != "add" or product.op != "mul":
        return
    for m, n in permutations(nest.axes, 2):
        a, b = (axes_of(x) for x in sides(product, m))
        if m in a and m not in b and n in b and n not in a and m.arg.family != n.arg.family:
            both = [k for k in nest.reduce_axes if k in a and k in b]
            yield from ((m, n, k) for k in sorted(both, key=lambda k: -extent(k)))


def propose(near: Neighbourhood) -> Iterator[Opts]:
    """Matrix instructions for sums of products that have none yet, alone and with blocks; and blocks for those that have one."""
    s = near.schedule
    for nest in s.nests if s.launch.threads != 1 else ():
        have = s.tensors.get(nest.name)
        if have is not None:
            yield from _blocks(near, nest, (have.m, have.n, have.k), have.row, ())
            continue
        lane = lane_axis(near.kernel, nest)
        for m, n, k in places(nest):
            if lane in (m, n) and n is not lane:
                continue  # neighbouring threads store neighbours along n
            for row in fitting_rows(s.target, nest, m):
                one = opt("TC", nest.name, m=m.arg.name, n=n.arg.name, k=k.arg.name, row=row.name)
                yield (one,)
                yield from _blocks(near, nest, (m, n, k), row, (one,))


def _blocks(near: Neighbourhood, nest: Nest, axes: tuple[Node, Node, Node], row: TensorRow, first: Opts) -> Iterator[Opts]:
    """Tiles for units of threads, and operands staged for some steps of the sum, where nothing of that is there yet."""
    s = near.schedule
    m, n, k = axes
    plans = s.plans[m], s.plans[n], s.plans[k]
    if any(p.upcast > 1 or p.threads > 1 or p.tiles for p in plans):
        return
    for high, wide, down, across in BLOCKS:
        if high % row.m or wide % row.n or high * down > max(row.m, 2 * extent(m)) or wide * across > max(row.n, 2 * extent(n)):
            continue
        tile = [opt("UPCAST", m.arg.name, high)] * (high > row.m) + [opt("UPCAST", n.arg.name, wide)] * (wide > row.n)
        tile += [opt("LOCAL", _family(near, a), x) for a, x in ((m, down), (n, across)) if x > 1]
        for steps in STEPS:
            block = steps * row.k
            if block >= extent(k):
                continue
            for depth in DEPTHS:
                staged = _staged(near, nest, {m: high * down, n: wide * across, k: block}, k, depth)
                if staged:
                    yield (*first, *tile, opt("TILE", k.arg.name, block), *staged)
            break


def _family(near: Neighbourhood, a: Node) -> str:
    several = len(near.kernel.families.get(a.arg.family, (a,))) > 1
    return str(a.arg.family if several else a.arg.name)


def _staged(near: Neighbourhood, nest: Nest, blocks: dict[Node, int], k: Node, depth: int) -> Sequence[Opt]:
    """The inputs that both operands read along k, in shared memory: with swizzled rows of at least 128 bytes, else with padded ones."""
    found: dict[str, Opt] = {}
    for n in nest.loads:
        buffer, indices, _ = load_parts(n)
        if k not in axes_of(*indices) or ("STAGE", buffer.name) in near.taken or not buffer.shape:
            continue
        terms, _ = ix.parts(indices[-1])
        pitch = blocks.get(next((a for a, c in terms.items() if c == 1), k), 1)
        plain = len(terms) == 1 and pitch & (pitch - 1) == 0 and pitch * buffer.dtype.size >= 8 * CHUNK
        layout: dict[str, int] = {"swizzle": 8} if plain else {"pad": CHUNK // buffer.dtype.size}
        found[buffer.name] = opt("STAGE", buffer.name, at=k.arg.name, order="row", depth=depth, **layout)
    return tuple(found.values())
