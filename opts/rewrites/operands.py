"""A sum of a product of several factors becomes one of two operands, that with the lanes and the other.

A matrix product multiplies two numbers at each step. Where more are written (a weight of 8 bits, its scale, an activation), this
groups them by what they depend on, so that each group is computed once for all who use it: in a step of the register tile, or
kept by STAGE, or in a phase of its own by PHASE."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from ...ir.body import Value
from ...ir.errors import OptError
from ...ir.kernel import Kernel
from ...ir.node import Node, axes_of, ref
from ..analysis.contractions import SumOfProducts, on, product, products
from ..analysis.structure import extent
from .kernel_parts import needed, store_roots
from .rule import Named, RewriteRule

PLAIN = frozenset({"load", "ref", "const"})
"""Operands that are not computed, but read."""


@lru_cache(maxsize=128)
def operands(kernel: Kernel, name: str, lane: str) -> Kernel:
    """`kernel` with the sum `name` of a product of two operands: the factors that depend on the axis `lane`, and the others. Where an
    operand is computed it is a pointwise value: of the sum `acc` these are `acc.n` and `acc.m`. OptError where that cannot be."""
    p = next((p for p in products(kernel) if p.value.name == name), None)
    if p is None:
        known = ", ".join(p.value.name for p in products(kernel) if len(p.factors) > 1)
        raise OptError(f"REWRITE({name}, rule=operands): name a sum of products ({known or f'{kernel.name} has none'})")
    axis = next((a for a in p.value.axes if a.arg.name == lane), None)
    if axis is None:
        raise OptError(
            f"REWRITE({name}, rule=operands, along={lane}): {lane} is no axis of {name} ({', '.join(a.arg.name for a in p.value.axes)})"
        )
    wide, tall = on(p.factors, axis)
    if not wide or not tall:
        raise OptError(
            f"REWRITE({name}, rule=operands, along={lane}): {'no' if not wide else 'every'} factor of {name} depends on {lane}; there are no two operands"
        )
    made: list[Value] = []
    if regrouped(kernel, name):
        raise OptError(f"REWRITE({name}, rule=operands): {name} has two operands already")
    sides = [_side(p, f, f"{name}.{end}", axis, made) for f, end in ((tall, "m"), (wide, "n"))]
    new = replace(p.value, expr=replace(p.sum, expr=product(sides)))
    body = [x for item in kernel.body for x in ((*made, new) if item is p.value else (item,))]
    return replace(kernel, body=needed(body, (r for s in kernel.stores for r in store_roots(s))))


def regrouped(kernel: Kernel, name: str) -> bool:
    """Whether a sum has the operands that OPERANDS makes, as in a phase of a kernel where it did."""
    return any(v in kernel.values for v in (f"{name}.m", f"{name}.n"))


def _side(p: SumOfProducts, factors: tuple[Node, ...], name: str, lane: Node, made: list[Value]) -> Node:
    """An operand: what is read is read, what is computed is a value, which is added to `made`."""
    whole = product(factors)
    if whole.op in PLAIN:
        return whole
    inside = whole.src[0] if whole.op == "cast" else whole
    if inside.op in PLAIN:
        return whole
    own = axes_of(whole)
    axes = [a for a in (*p.value.axes, *p.sum.axes) if a in own and a is not lane]
    v = Value(name, (*axes, *([lane] if lane in own else [])), whole, whole.dtype)
    made.append(v)
    return ref(name, v.axes, v.dtype)


def _kernels(kernel: Kernel, named: tuple[Named, ...]) -> tuple[Kernel, ...]:
    for name, lane in named:
        kernel = operands(kernel, name, lane)
    return (kernel,)


def _proposals(kernel: Kernel, taken: Sequence[str]) -> Iterator[tuple[Named, ...]]:
    """Sums of products with a computed operand, with the lanes along any of their axes."""
    for p in products(kernel):
        name = p.value.name
        for a in p.value.axes if len(p.factors) > 1 and name not in taken and not regrouped(kernel, name) else ():
            if extent(a) > 1 and has_computed(p, a):
                yield ((name, str(a.arg.name)),)


def _reorders(kernel: Kernel, named: tuple[Named, ...]) -> bool:
    names = {name for name, _ in named}
    return any(p.sum.dtype.is_float for p in products(kernel) if p.value.name in names)


def has_computed(p: SumOfProducts, lane: Node) -> bool:
    """Whether a product has two operands, with the lanes along an axis, of which one is more than what is read."""
    sides = on(p.factors, lane)
    return all(sides) and any(len(s) > 1 or (s[0].src[0] if s[0].op == "cast" else s[0]).op not in PLAIN for s in sides)


OPERANDS = RewriteRule(
    name="operands",
    kernels=_kernels,
    proposals=_proposals,
    along=True,
    reorders=_reorders,
    regroups=True,
    written="REWRITE(sum, rule=operands, along=axis)",
    meaning="Multiply the factors of a sum in two groups: those that depend on the axis, along which lanes lie, and the others (`REASSOC`). "
    "What is computed of them are the values `sum.n` and `sum.m`, for `STAGE` and `PHASE` ([below](#computed-operands)).",
)
