"""A sum over several axes of a product is summed over one of them first (distributivity).

Σⱼ Σₖ a·b·c is Σⱼ a·(Σₖ b·c) where a does not depend on k: what was work for each point of all axes is a product of two
arrays, and another one. The inner sum is a value of its own, and has a phase of its own. Taking axes out one after another
is what variable elimination is in graphical models (Dechter, "Bucket elimination", 1999); for einsum it gives the order
of contraction (`heuristics/contraction_order.py` chooses one)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from ...ir.body import Reduce, Value
from ...ir.buffer import load_parts
from ...ir.errors import OptError
from ...ir.kernel import Kernel
from ...ir.node import Node, axes_of, ref, walk
from ...ir.node import axis as make_axis
from ...ir.operators import substitute
from ..access import strides_of
from ..analysis.contractions import SumOfProducts, on, product, products
from ..analysis.structure import extent
from ..rewrites.kernel_parts import loaded, needed, store_roots
from .rule import Named, RewriteRule

WIDE = 16
"""Elements along an axis that are enough for lanes of any width."""


@lru_cache(maxsize=256)
def factored(kernel: Kernel, axis: str, number: int = 1) -> Kernel:
    """`kernel` with the sum over `axis` taken first. Of the sum `acc` this is the value `acc.f1` where `number` is 1, and its axes are
    those of `acc` with `.f1` behind their names. Where nothing but such a value depends on the axis, that one is summed over the
    axis too. OptError where that cannot be."""
    p, a = _product(kernel, axis)
    inside, outside = on(p.factors, a)
    if len(p.sum.axes) < 2:
        raise OptError(f"REWRITE({axis}, rule=factor): {p.value.name} has no other axis to sum over; there is no order to choose")
    if not inside:
        raise OptError(
            f"REWRITE({axis}, rule=factor): no factor of {p.value.name} depends on {axis}; there is no sum over it to take first"
        )
    if not outside:
        raise OptError(
            f"REWRITE({axis}, rule=factor): every factor of {p.value.name} depends on {axis}; nothing can be taken out of the sum over it"
        )
    made = inside[0].arg if len(inside) == 1 and inside[0].op == "ref" else ""
    if made.startswith(f"{p.value.name}.f"):
        first = _summed(kernel.values[made], inside[0].src.index(a))
        new = {kernel.values[made]: (first,)}
        kept = tuple(x for x in inside[0].src if x is not a)
    else:
        first, kept = _taken_out(p, a, inside, number)
        new = {}
    left = tuple(x for x in p.sum.axes if x is not a)
    rest = product((*outside, ref(first.name, kept, first.dtype)))
    new[p.value] = (*(() if new else (first,)), replace(p.value, expr=Reduce("add", left, rest, p.sum.dtype)))
    whole = [x for item in kernel.body for x in (new.get(item, (item,)) if isinstance(item, Value) else (item,))]
    values = needed(whole, (r for s in kernel.stores for r in store_roots(s)))
    return Kernel(kernel.name, values, kernel.stores, (*loaded(kernel.inputs, values, kernel.stores), *kernel.outputs))


def _taken_out(p: SumOfProducts, a: Node, inside: tuple[Node, ...], number: int) -> tuple[Value, tuple[Node, ...]]:
    """(the sum over `a` of the factors `inside`, the axes of the whole sum at which it is read)."""
    every, end = (*p.value.axes, *p.sum.axes), f".f{number}"
    within = axes_of(*inside)
    kept = _laid_out(p, inside, [x for x in every if x in within and x is not a])
    apart = {x: make_axis(f"{x.arg.name}{end}", x.arg.extent, f"{x.arg.name}{end}") for x in (*kept, a)}
    body = substitute(product(inside), apart)
    dtype = p.sum.dtype
    return Value(f"{p.value.name}{end}", tuple(apart[x] for x in kept), Reduce("add", (apart[a],), body, dtype), dtype), kept


def _laid_out(p: SumOfProducts, inside: tuple[Node, ...], axes: list[Node]) -> tuple[Node, ...]:
    """The axes of a sum that is taken out, the one last along which its lanes should lie: the last axis of the whole sum, else one
    along which a factor is consecutive in memory."""
    along = {a for f in inside for a in axes if any(_stride(n, a) == 1 for n in walk(f))}
    choices = [a for a in dict.fromkeys((*reversed(p.value.axes), *reversed(axes))) if a in along and a in axes]
    last = next((a for a in choices if extent(a) >= WIDE), max(choices, key=extent, default=None))
    return tuple(a for a in axes if a is not last) + (() if last is None else (last,))


def _stride(n: Node, axis: Node) -> int | None:
    """The distance in elements between places along an axis where `n` reads memory or a value; None where it does not."""
    if n.op == "load":
        buffer, indices, _ = load_parts(n)
        return strides_of(buffer, indices).get(axis)
    return 1 if n.op == "ref" and n.src and n.src[-1] is axis else None


def _summed(v: Value, place: int) -> Value:
    """A sum that is taken over one of its axes too."""
    assert isinstance(v.expr, Reduce)
    axes = tuple(x for i, x in enumerate(v.axes) if i != place)
    return replace(v, axes=axes, expr=replace(v.expr, axes=(*v.expr.axes, v.axes[place])))


def ordered(kernel: Kernel, axes: Iterable[str]) -> Kernel:
    """`kernel` with the sums over some axes taken out one after another, numbered from 1. OptError where one cannot be."""
    for i, axis in enumerate(axes):
        kernel = factored(kernel, axis, i + 1)
    return kernel


def sums_of(kernel: Kernel, before: Kernel) -> tuple[str, ...]:
    """The values of `kernel` that `before` does not have, in order: the sums that were taken out."""
    return tuple(name for name in kernel.values if name not in before.values)


def _product(kernel: Kernel, axis: str) -> tuple[SumOfProducts, Node]:
    """The sum over an axis of that name, and the axis."""
    for p in products(kernel):
        for a in p.sum.axes:
            if a.arg.name == axis:
                return p, a
    names = [a.arg.name for p in products(kernel) if len(p.sum.axes) > 1 for a in p.sum.axes]
    raise OptError(f"REWRITE({axis}, rule=factor): name an axis of a sum over several ({', '.join(names) or f'{kernel.name} has none'})")


def _kernels(kernel: Kernel, named: tuple[Named, ...]) -> tuple[Kernel, ...]:
    return (ordered(kernel, (axis for axis, _ in named)),)


def _proposals(kernel: Kernel, taken: Sequence[str]) -> Iterator[tuple[Named, ...]]:
    """Each axis of a sum that some factor depends on, and some does not."""
    for p in products(ordered(kernel, taken)):
        for a in p.sum.axes if len(p.sum.axes) > 1 else ():
            if extent(a) > 1 and all(on(p.factors, a)) and a in kernel.axes:
                yield ((str(a.arg.name), ""),)


def _reorders(kernel: Kernel, named: tuple[Named, ...]) -> bool:
    (new,) = _kernels(kernel, named)
    return any(new.values[name].dtype.is_float for name in sums_of(new, kernel))


FACTOR = RewriteRule(
    name="factor",
    kernels=_kernels,
    proposals=_proposals,
    on="axis",
    phased=True,
    reorders=_reorders,
    regroups=True,
    written="REWRITE(axis, rule=factor)",
    meaning="Of a sum over several axes of a product, sum over this one first: only the factors that depend on it are in "
    "that sum. It is a value of its own, computed by a phase of its own (`REASSOC`). Several of them are "
    "an order of contraction ([below](#order-of-contraction)).",
)
