"""OPERANDS: a sum of a product of several factors becomes one of two operands, that with the lanes and the other.

A matrix product multiplies two numbers at each step. Where more are written (a weight of 8 bits, its scale, an activation), this
groups them by what they depend on, so that each group is computed once for all who use it: in a step of the register tile, or
kept by STAGE, or in a phase of its own by PHASE."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from ...ir.body import Value
from ...ir.errors import OptError
from ...ir.kernel import Kernel
from ...ir.node import Node, axes_of, ref
from ..analysis.products import SumOfProducts, on, product, products
from ..analysis.structure import extent
from ..kernel_parts import needed, store_roots
from ..neighbourhood import Neighbourhood
from ..opt import Opts, opt
from ..registry import Doc, Option, always
from ..rewriting import Rewriting
from ..schedule import Scheduled

PLAIN = frozenset({"load", "ref", "const"})
"""Operands that are not computed, but read."""


@lru_cache(maxsize=128)
def operands(kernel: Kernel, name: str, lane: str) -> Kernel:
    """`kernel` with the sum `name` of a product of two operands: the factors that depend on the axis `lane`, and the others. Where an
    operand is computed it is a pointwise value: of the sum `acc` these are `acc.n` and `acc.m`. OptError where that cannot be."""
    p = next((p for p in products(kernel) if p.value.name == name), None)
    if p is None:
        known = ", ".join(p.value.name for p in products(kernel) if len(p.factors) > 1)
        raise OptError(f"OPERANDS({name}): name a sum of products ({known or f'{kernel.name} has none'})")
    axis = next((a for a in p.value.axes if a.arg.name == lane), None)
    if axis is None:
        raise OptError(f"OPERANDS({name}, n={lane}): {lane} is no axis of {name} ({', '.join(a.arg.name for a in p.value.axes)})")
    wide, tall = on(p.factors, axis)
    if not wide or not tall:
        raise OptError(
            f"OPERANDS({name}, n={lane}): {'no' if not wide else 'every'} factor of {name} depends on {lane}; there are no two operands"
        )
    made: list[Value] = []
    if regrouped(kernel, name):
        raise OptError(f"OPERANDS({name}): {name} has two operands already")
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


def rewrite(r: Rewriting) -> Scheduled:
    """The kernel with two operands; the other options are for that."""
    kernel, before = r.kernel, set[str]()
    for o in r.mine:
        if o.on in before:
            raise OptError(f"{o}: {o.on} has two operands already")
        before.add(o.on)
        kernel = operands(kernel, o.on, str(o.fields["n"]))
    a = r.apply(kernel, r.others, r.target)
    exact = not any(p.sum.dtype.is_float for p in products(r.kernel) if p.value.name in before)
    return r.schedule((a,), a.effects if exact else a.effects | {"REASSOC"})


def propose(near: Neighbourhood) -> Iterator[Opts]:
    """Sums of products with a computed operand, with the lanes along any of their axes."""
    for p in products(near.kernel):
        taken = ("OPERANDS", p.value.name) in near.taken or regrouped(near.kernel, p.value.name)
        open_still = len(p.factors) > 1 and not taken
        for a in p.value.axes if open_still else ():
            if extent(a) > 1 and has_computed(p, a):
                yield (opt("OPERANDS", p.value.name, n=str(a.arg.name)),)


def has_computed(p: SumOfProducts, lane: Node) -> bool:
    """Whether a product has two operands, with the lanes along an axis, of which one is more than what is read."""
    sides = on(p.factors, lane)
    return all(sides) and any(len(s) > 1 or (s[0].src[0] if s[0].op == "cast" else s[0]).op not in PLAIN for s in sides)


OPERANDS = Option(
    name="OPERANDS",
    letter="O",
    on="tensor",
    arg={"n": str},
    short=(("|", "n"),),
    axis_fields=("n",),
    kind="stage",
    regroups=always,
    legend="two operands",
    docs=(
        Doc(
            "OPERANDS(sum, n=axis)",
            "Multiply the factors of a sum in two groups: those that depend on the axis n, and the others (`REASSOC`). What "
            "is computed of them are the values `sum.n` and `sum.m`, for `STAGE` and `PHASE` "
            "([below](#computed-operands)).",
        ),
    ),
    rewrite=rewrite,
    by_phase=lambda kernel, o: True,
    proposes_whole=True,
    propose=propose,
)
