"""Which schedules add in the order that a kernel fixes (`ir.fixed_sums`), and where their loops are cut for it.

Partial results are register copies of the last axis from the beginning: UPCAST changes nothing about them. Loops of a sum go through its
elements in the order of its axes, and the end of a chain is the end of an iteration of some loop. What a loop outside a spatial one
leaves in memory is continued, or added to, by the next iteration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from ..ir import index as ix
from ..ir.body import Fold, Reduce, Scan, SumOrder, in_steps
from ..ir.errors import OptError
from ..ir.fixed_sums import TILE, ordered
from ..ir.kernel import Kernel
from ..ir.node import Node
from .loops import Loops
from .nests import Nest

MOST = 1 << 20
"""Elements that an axis is taken to have at most where their number is known at run time only."""


def order_of(nest: Nest) -> SumOrder | None:
    """The fixed order of a nest's sum; None where it has none."""
    made = nest.value.expr if nest.value is not None else None
    return made.order if isinstance(made, Reduce) else None


def partials(kernel: Kernel) -> dict[Node, int]:
    """How many partial results each axis that a fixed sum reduces has: fewer where it has fewer elements, whose others would be 0."""
    found: dict[Node, int] = {}
    for v in kernel.values.values():
        if isinstance(v.expr, Reduce) and v.expr.order is not None:
            found |= dict.fromkeys(v.reduce_axes, 1)
            last = v.reduce_axes[-1]
            extent = last.arg.extent
            whole = 1 << max(0, extent - 1).bit_length() if isinstance(extent, int) else v.expr.order.partials
            found[last] = min(v.expr.order.partials, whole)
    return found


def in_order(kernel: Kernel) -> set[Node]:
    """The axes along which results depend on the order: all that are reduced or scanned along, or (fixed) those of scans of floats. (A
    recurrence has one order, and no option gives it another.)"""
    scans = [(v.expr.axis, v.expr) for v in kernel.values.values() if isinstance(v.expr, Scan) and not in_steps(v)]
    if kernel.fixed:
        return {a for a, e in scans if e.dtype.is_float and e.combine not in ("max", "min")}
    return {a for a, _ in scans} | {a for v in kernel.values.values() for a in v.reduce_axes}


def tile_of(kernel: Kernel, fold: Fold) -> int:
    """The elements of a fold's tile where its sums are fixed, which may be more than there are; 0 where any will do."""
    return TILE if kernel.fixed and any(isinstance(v.expr, Reduce) and ordered(v.expr) for v in fold.block) else 0


@dataclass(frozen=True)
class Cuts:
    """`sizes`: by name of a loop, the blocks of its iterations that are chains, outer to inner. `anew`: what is in memory is what
    chains are added to; else it is a chain that goes on."""

    sizes: Mapping[str, tuple[int, ...]]
    anew: bool


def check_order(s: Loops) -> None:
    """Raise OptError where a schedule adds in another order than its kernel says."""
    if not s.kernel.fixed:
        return
    if s.target.kind == "gpu" or s.target.groups:
        raise OptError(f"{s.kernel.name}: fixed numerics are for processors, and not for {s.target.name}")
    if "REASSOC" in s.effects:
        raise OptError(f"{s.kernel.name}: these options add in another order, which fixed numerics do not allow")
    for n in s.nests:
        made = n.value.expr if n.value is not None else None
        if not isinstance(made, Reduce) or not ordered(made):
            continue
        if made.order is None:
            raise OptError(f"{n.name}: a sum that options make has no fixed order")
        _in_turn(s, n)
        cuts(s, n)
    for names in s.siblings:
        found = [(cuts(s, n), order_of(n)) for n in s.nests if n.name in names and order_of(n) is not None]
        if any(c != found[0] for c in found):
            raise OptError(f"FUSE: the chains of {' and '.join(names)} end at different places, and fixed numerics do not allow others")


def check_kept(kernel: Kernel, made: Iterable[Kernel]) -> None:
    """Raise OptError where options make something else of a fixed sum."""
    left = {(v.name, v.expr.order) for k in made for v in k.values.values() if isinstance(v.expr, Reduce)}
    for v in kernel.values.values():
        if isinstance(v.expr, Reduce) and v.expr.order is not None and (v.name, v.expr.order) not in left:
            raise OptError(f"{v.name}: these options add it up in another way, which fixed numerics do not allow")


def _in_turn(s: Loops, n: Nest) -> None:
    """Raise OptError unless elements come in the order of the axes."""
    place = {a: i for i, a in enumerate(n.reduce_axes)}
    parts = [p for p in (*s.loops(n), *s.registers(n)) if p.axis in place and p.kind != "fold"]
    for outer, inner in pairwise(p for p in parts if p.kind != "upcast"):
        if (place[outer.axis], -outer.stride) > (place[inner.axis], -inner.stride):
            raise OptError(f"{n.name}: {inner.name} inside {outer.name} adds in another order than fixed numerics say")


def cuts(s: Loops, n: Nest) -> Cuts:
    """Where the loops of a fixed sum are cut into chains; OptError where a chain would end inside an iteration."""
    loops = s.loops(n)
    last = max((i for i, p in enumerate(loops) if p.kind != "fold" and p.axis in n.axes), default=-1)
    memory = [p for p in loops[: last + 1] if p.axis in n.reduce_axes and p.kind != "fold"]
    found: dict[str, tuple[int, ...]] = {}
    anew = False
    copies = [p for p in s.registers(n) if p.kind == "upcast" and p.axis in n.reduce_axes]
    if memory and copies:
        raise OptError(
            f"{n.name}: {memory[-1].name} runs outside {loops[last].name}, where partial results would be added up too early for fixed numerics"
        )
    for a, ends in chain_ends(n):
        mine = [p for p in loops if p.axis is a and p.kind != "fold"]
        for end in ends:
            at = next((p for p in mine if p.stride <= end), None)
            if at is None or end % at.stride or any(p.stride % end for p in mine if p.stride > end):
                raise OptError(
                    f"{n.name}: chains of {end} elements of {a.arg.name} do not end with an iteration of a loop, as fixed numerics need"
                )
            if at in memory:
                if at is not memory[-1] or at.stride != end:
                    raise OptError(
                        f"{n.name}: {at.name} runs outside {loops[last].name} in steps of {at.stride}; fixed numerics need chains of {end} there"
                    )
                anew = True
                continue
            found[at.name] = (end // at.stride, *found.get(at.name, ()))
    return Cuts(found, anew)


def chain_ends(n: Nest) -> Iterator[tuple[Node, list[int]]]:
    """For each axis in which chains end, after how many elements they do, from short chains to chains of chains."""
    order = order_of(n)
    assert order is not None
    if order.chain == 0:
        return
    chain = 1
    for a in reversed(n.reduce_axes):
        unit = order.partials if a is n.reduce_axes[-1] else 1
        extent = a.arg.extent if isinstance(a.arg.extent, int) else min(ix.upper(a.arg.extent), MOST)
        steps = -(-extent // unit)
        if chain * steps <= order.chain:
            chain *= max(1, steps)
            continue
        ends = [1 << (max(1, order.chain // chain).bit_length() - 1)]
        while -(-steps // ends[-1]) > order.above:
            ends.append(ends[-1] * order.above)
        chain = -(-steps // ends[-1])
        yield a, [e * unit for e in ends]
