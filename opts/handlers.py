"""The options one by one: what each does to the schedule under construction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from ..ir import index as ix
from ..ir.body import Fold, Scan
from ..ir.errors import OptError
from ..ir.kernel import Kernel
from ..ir.node import Node
from ..targets import Target
from . import dots, groups
from .axis_plan import AxisPlan, Part
from .nests import FoldItem, Nest, build
from .opt import Opt


class State:
    """The schedule under construction."""

    def __init__(self, kernel: Kernel, target: Target) -> None:
        self.kernel, self.target = kernel, target
        self.folds = {i.axis: i for i in kernel.body if isinstance(i, Fold)}
        self.fold_of = {a: f.axis for f in self.folds.values() for v in f.block for a in (*v.axes, *v.reduce_axes) if a.arg.family == f.axis.arg.family}
        self.plans: dict[Node, AxisPlan] = {a: AxisPlan(a, folded=a in self.folds) for a in kernel.axes}
        self.value_stages: dict[str, tuple[str, bool]] = {}
        self.input_stages: dict[str, Opt] = {}
        self.held: set[str] = set()
        self.nt: set[str] = set()
        self.fetch: set[str] = set()
        self.swizzle = 1
        self.regs = 0
        self.alone = False
        self.dots: dict[str, dots.DotPlan] = {}
        self.effects: set[str] = set()
        for n in build(kernel, {}):
            for nest in n.nests if isinstance(n, FoldItem) else (n,):
                for a in nest.all_axes:
                    self.plans.setdefault(a, AxisPlan(a))
        self.order = self._initial_order()

    def _initial_order(self) -> list[str]:
        seen: dict[str, None] = {}
        for item in self.kernel.body:
            if isinstance(item, Fold):
                sets = [set(v.axes) for v in item.block]
                for a in item.block[0].axes:
                    if a.arg.family != item.axis.arg.family and all(a in s for s in sets):
                        seen.setdefault(a.arg.name)
                seen.setdefault(item.axis.arg.name)
            for v in item.block if isinstance(item, Fold) else (item,):
                for a in (*v.axes, *v.reduce_axes):
                    seen.setdefault(a.arg.name)
        for a in self.plans:
            seen.setdefault(a.arg.name)
        order = list(seen)
        for n in build(self.kernel, {}):
            if isinstance(n, Nest) and n.kind == "init":  # cleared row by row
                for a, inner in reversed(list(pairwise(n.axes))):
                    if order.index(a.arg.name) > order.index(inner.arg.name):
                        order.remove(a.arg.name)
                        order.insert(order.index(inner.arg.name), a.arg.name)
        return order

    def find(self, on: str, o: Opt) -> list[Node]:
        """The axis nodes an option names: one site, or every site of a family."""
        exact = [a for a in self.plans if a.arg.name == on]
        if exact and exact[0] in self.folds:
            if o.op == "TILE":
                return exact
            return [a for a, f in self.fold_of.items() if f is exact[0]]
        family = [a for a in self.plans if a.arg.family == on and a not in self.folds]
        if family and not ("@" not in on and exact and len(family) == 1):
            return family
        if exact:
            return exact
        names = sorted({a.arg.family for a in self.plans} | {a.arg.name for a in self.plans})
        raise OptError(f"{o}: no axis {on!r} in kernel {self.kernel.name} (axes: {', '.join(names)})")

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


def _tile(s: State, o: Opt) -> None:
    for a in s.find(o.on, o):
        if a in s.folds:
            _cut_fold(s, o, a)
            continue
        before = s.plans[a]
        plan = s.plans[a] = before.with_tile(o.amount)
        name = plan.tiles[-1][0]
        outer = [a.arg.name, *(n for n, b in sorted(plan.tiles, key=lambda t: -t[1]) if b > o.amount)]
        s.order.insert(s.order.index(outer[-1]) + 1, name)


def _cut_fold(s: State, o: Opt, a: Node) -> None:
    extent = a.arg.extent if isinstance(a.arg.extent, int) else ix.bounds(a.arg.extent)[1]
    if any(s.plans[x].fold for x, f in s.fold_of.items() if f is a):
        raise OptError(f"{o}: the fold over {o.on} is already cut; tile one of its sites instead")
    if o.amount >= extent:
        raise OptError(f"{o}: the tile must be smaller than the extent {extent}")
    outer = replace(AxisPlan(a), tiles=((f"{o.on}.tile", o.amount),)).parts[0]
    part = Part(a.arg.name, a, "fold", outer.size, o.amount, False, outer.var)
    for site, f in s.fold_of.items():
        if f is a:
            s.plans[site] = replace(s.plans[site], fold=part).checked(str(o))
    s.effects.add("REASSOC")


def _registers(kind: str) -> Callable[[State, Opt], None]:
    def handler(s: State, o: Opt) -> None:
        reduced = {a for v in s.kernel.values.values() for a in v.reduce_axes}
        scanned = {v.expr.axis for v in s.kernel.values.values() if isinstance(v.expr, Scan)}
        for a in s.find(o.on, o):
            if kind == "unroll" and a not in reduced:
                raise OptError(f"{o}: UNROLL copies a reduce axis into one accumulator; use UPCAST for the spatial axis {a.arg.name}")
            s.plans[a] = s.plans[a].with_registers(kind, o.amount)
            if kind == "upcast" and a in reduced | scanned:
                s.effects.add("REASSOC")

    return handler


def _parallel(s: State, o: Opt) -> None:
    for a in s.find(o.on, o):
        if a in s.folds:
            raise OptError(f"{o}: {o.on} is folded")
        if s.plans[a].grid:
            raise OptError(f"{o}: {a.arg.name} is already parallel")
        s.to_grid(a)


def _move(s: State, o: Opt) -> None:
    before, names = str(o.fields["before"]), s.loop_names()
    for n in (o.on, before):
        if n not in names:
            raise OptError(f"{o}: no loop {n!r} (loops: {', '.join(sorted(names, key=s.order.index))})")
        if names[n].kind == "grid":
            raise OptError(f"{o}: {n} is a grid loop, which is outermost already")
    if o.on == before:
        raise OptError(f"{o}: a loop cannot move before itself")
    s.order.remove(o.on)
    s.order.insert(s.order.index(before), o.on)


def _pad(s: State, o: Opt) -> None:
    for a in s.find(o.on, o):
        if s.plans[a].pad > 1 or s.plans[a].block > 1:
            raise OptError(f"{o}: pad {a.arg.name} once, before it is cut into registers")
        if o.amount < 2:
            raise OptError(f"{o}: pad to a multiple of at least 2")
        s.plans[a] = replace(s.plans[a], pad=o.amount)


def _stage(s: State, o: Opt) -> None:
    f = o.fields
    if f["depth"] != 1:
        raise OptError(f"{o}: depth {f['depth']} needs asynchronous copies, which {s.target.name} has not")
    if f["order"] not in ("panel", "row"):
        raise OptError(f"{o}: order must be panel or row, not {f['order']!r}")
    swizzle = f["swizzle"]
    assert isinstance(swizzle, int)
    if swizzle and (f["pad"] or swizzle not in (2, 4, 8, 16, 32)):
        raise OptError(f"{o}: swizzle is 2, 4, 8, 16 or 32 rows, and without pad")
    if isinstance(f["pad"], int) and not 0 <= f["pad"] <= 256:
        raise OptError(f"{o}: pad must be between 0 and 256 elements")
    if o.on in s.input_stages or o.on in s.value_stages or o.on in s.held:
        raise OptError(f"{o}: {o.on} is staged already")
    buffer = next((b for b in s.kernel.buffers if b.name == o.on), None)
    if buffer is not None and buffer.role == "in":
        s.input_stages[o.on] = o
    elif buffer is not None:
        s.held.add(o.on)
        s.value_stages[o.on] = (str(f["at"]), False)
    elif o.on in s.kernel.values:
        v = s.kernel.values[o.on]
        if not isinstance(v.expr, Node):
            raise OptError(f"{o}: {o.on} is a {type(v.expr).__name__.lower()}, which is always kept; stage pointwise values or buffers")
        s.value_stages[o.on] = (str(f["at"]), True)
    else:
        names = [b.name for b in s.kernel.buffers] + [n for n, v in s.kernel.values.items() if isinstance(v.expr, Node)]
        raise OptError(f"{o}: no buffer or pointwise value {o.on!r} (there are: {', '.join(names)})")


def _nt(s: State, o: Opt) -> None:
    if o.on not in {b.name for b in s.kernel.outputs}:
        raise OptError(f"{o}: NT names an output ({', '.join(b.name for b in s.kernel.outputs)})")
    s.nt.add(o.on)


def _fetch(s: State, o: Opt) -> None:
    if o.on not in {b.name for b in s.kernel.buffers}:
        raise OptError(f"{o}: FETCH names a buffer ({', '.join(b.name for b in s.kernel.buffers)})")
    if s.target.kind == "gpu":
        raise OptError(f"{o}: {s.target.name} has no such request; FETCH is for processors")
    s.fetch.add(o.on)


HANDLERS: dict[str, Callable[[State, Opt], None]] = {
    "TILE": _tile, "UPCAST": _registers("upcast"), "UNROLL": _registers("unroll"), "PARALLEL": _parallel, "MOVE": _move,
    "PADTO": _pad, "STAGE": _stage, "NT": _nt, "FETCH": _fetch, "LOCAL": groups.local, "GROUP": groups.group, "NOLOCAL": groups.nolocal, "TC": dots.tc, "SWIZZLE": groups.swizzle, "LAUNCH": groups.launch,
}  # fmt: skip
