"""The schedule under construction: what options act on, one after another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

from ..ir import index as ix
from ..ir.body import Fold, Value, values_of
from ..ir.errors import OptError
from ..ir.kernel import Kernel
from ..ir.node import Node
from ..targets import Target
from .addition_order import in_order, partials, tile_of
from .axis_plan import AxisPlan, Part
from .nests import Nest, flat, plain
from .opt import Opt
from .plans import DotPlan, LaunchPlan, TensorPlan
from .short_form import meant
from .syntax import SYNTAX, Scalar


class ScheduleBuilder:
    """The schedule under construction.

    `plans`: how each axis is cut. `order`: the names of all loops, outer to inner. `value_stages`: value or output →
    (the loop at which it is kept, whether its first reader fills it); those of `held` are outputs. `input_stages`:
    input → its option. `effects`: what the schedule does beyond changing the order of independent work. `marks`: what
    is only noted for later, option → {what it is on: its argument}. `applied`: the options that have acted. `reduced`:
    the axes that some value reduces over. `partials`, `in_order`: the axes whose copies are fixed, and along which the order shows in
    results (`addition_order`)."""

    def __init__(self, kernel: Kernel, target: Target) -> None:
        self.kernel, self.target = kernel, target
        self.folds, self.fold_of, self.reduced, plans, order = _beginning(kernel)
        self.plans = dict(plans)
        self.value_stages: dict[str, tuple[str, bool]] = {}
        self.input_stages: dict[str, Opt] = {}
        self.held: set[str] = set()
        self.nt: set[str] = set()
        self.prefetched: set[str] = set()
        self.swizzle = 1
        self.launch = LaunchPlan()
        self.dots: dict[str, DotPlan] = {}
        self.tensors: dict[str, TensorPlan] = {}
        self.effects: set[str] = set()
        self.partials = partials(kernel)
        self.in_order = in_order(kernel)
        self.marks: dict[str, dict[str, int | tuple[tuple[str, Scalar], ...] | None]] = {}
        self.applied: list[Opt] = []
        self.order = list(order)

    def has(self, op: str) -> bool:
        """Whether an option of this name has acted."""
        return any(o.op == op for o in self.applied)

    def mark(self, o: Opt) -> None:
        """Note an option for later: `Scheduled.marks` holds it, and two schedules are the same only if their marks are."""
        self.marks.setdefault(o.op, {})[o.on] = o.arg

    def find(self, on: str, o: Opt, *, whole_fold: bool = False) -> list[Node]:
        """The axis nodes an option names: one site, or every site of a family. Of the axis of a fold, its sites, or
        with `whole_fold` the axis itself. OptError where there is none of that name."""
        exact = [a for a in self.plans if a.arg.name == on]
        if exact and exact[0] in self.folds:
            if whole_fold:
                return exact
            return [a for a, f in self.fold_of.items() if f is exact[0]]
        family = [a for a in self.plans if a.arg.family == on and a not in self.folds]
        if family and not ("@" not in on and exact and len(family) == 1):
            return family
        if exact:
            return exact
        names = sorted({a.arg.family for a in self.plans} | {a.arg.name for a in self.plans})
        said = meant(SYNTAX[o.op].letter, on, o.arg, {*names, *self.names}) if on == o.on else ""
        raise OptError(f"{o}: no axis {on!r} in kernel {self.kernel.name} (axes: {', '.join(names)}){said}")

    @property
    def names(self) -> set[str]:
        """The names that options may be on, but for axes."""
        return {*self.kernel.values, *(b.name for b in self.kernel.buffers)}

    def to_grid(self, a: Node) -> None:
        """Make the outer part of an axis a grid loop, inside those that are there."""
        self.plans[a] = replace(self.plans[a], grid=True)
        grid = [p.axis.arg.name for plan in self.plans.values() for p in plan.parts if p.kind == "grid" and p.axis is not a]
        self.order.remove(a.arg.name)
        self.order.insert(max((self.order.index(g) + 1 for g in grid), default=0), a.arg.name)

    def loop_names(self) -> dict[str, Part]:
        """Every loop that exists now, by name."""
        return {p.name: p for plan in self.plans.values() for p in plan.parts if p.loop} | {
            plan.fold.name: plan.fold for plan in self.plans.values() if plan.fold
        }


def fold_loop(a: Node, size: int) -> Part:
    """The loop over tiles of a fold."""
    outer = replace(AxisPlan(a), tiles=((f"{a.arg.name}.tile", size),)).parts[0]
    return Part(a.arg.name, a, "fold", outer.size, size, False, outer.var)


_Beginning = tuple[Mapping[Node, Fold], Mapping[Node, Node], frozenset[Node], Mapping[Node, AxisPlan], tuple[str, ...]]


@lru_cache(maxsize=64)
def _beginning(kernel: Kernel) -> _Beginning:
    """(folds by axis, a fold's sites and its axis, reduced axes, plans, order of loops) before any option has acted."""
    folds = {i.axis: i for i in kernel.body if isinstance(i, Fold)}
    fold_of = {a: f.axis for f in folds.values() for v in f.block for a in (*v.axes, *v.reduce_axes) if a.arg.family == f.axis.arg.family}
    plans = {a: AxisPlan(a, folded=a in folds) for a in kernel.axes}
    for nest in flat(plain(kernel)):
        for a in nest.all_axes:
            plans.setdefault(a, AxisPlan(a))
    for a, copies in partials(kernel).items():
        if copies > 1:
            plans[a] = replace(plans[a], upcast=copies, pad=copies)
    for f in folds.values():
        if 0 < (size := tile_of(kernel, f)) < ix.upper(f.axis.arg.extent):
            for site in (site for site, of in fold_of.items() if of is f.axis):
                plans[site] = replace(plans[site], fold=fold_loop(f.axis, size))
    reduced = frozenset(a for v in kernel.values.values() for a in v.reduce_axes)
    return folds, fold_of, reduced, plans, tuple(_initial_order(kernel, plans))


def _initial_order(kernel: Kernel, axes: Iterable[Node]) -> list[str]:
    seen: dict[str, None] = {}
    reduced = {a for v in kernel.values.values() for a in v.reduce_axes}
    for item in kernel.body:
        if isinstance(item, Value) and isinstance(item.expr, Node) and reduced.intersection(item.axes):
            continue  # an operand of a sum: its loops are in the order of the sum's
        if isinstance(item, Fold):
            sets = [set(v.axes) for v in item.block]
            for a in item.block[0].axes:
                if a.arg.family != item.axis.arg.family and all(a in s for s in sets):
                    seen.setdefault(a.arg.name)
            seen.setdefault(item.axis.arg.name)
        for v in values_of(item):
            for a in (*v.axes, *v.reduce_axes):
                seen.setdefault(a.arg.name)
    for a in axes:
        seen.setdefault(a.arg.name)
    order = list(seen)
    for n in plain(kernel):
        if isinstance(n, Nest) and n.kind == "init":  # cleared row by row
            for a, inner in reversed(list(pairwise(n.axes))):
                if order.index(a.arg.name) > order.index(inner.arg.name):
                    order.remove(a.arg.name)
                    order.insert(order.index(inner.arg.name), a.arg.name)
    return order
