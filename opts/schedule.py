"""`apply`: a kernel and a list of options become a `Scheduled`, or an OptError that says why not."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from ..ir import index as ix
from ..ir.errors import OptError
from ..ir.kernel import Fold, Kernel, Value
from ..ir.node import Node, substitute
from ..targets import Target
from .legality import check_scheduled
from .nests import FoldItem, Item, Nest, build
from .opt import Opt, Opts, opt
from .plan_axis import AxisPlan, Part
from .show import NestLine, nest_lines
from .splitk import split
from .staging import StagePlan, plan_stage


@dataclass(frozen=True, eq=False)
class Scheduled:
    """A kernel with every loop decided. Read by lowering, the analytic model and `tune show`. SPLITK makes two `phases`,
    each a schedule of its own; this one then only names the whole."""

    kernel: Kernel
    opts: Opts
    target: Target
    plans: dict[Node, AxisPlan]
    order: tuple[str, ...]
    items: tuple[Item, ...]
    kept: dict[str, Value]
    value_stages: dict[str, str]
    stages: dict[str, StagePlan] = field(default_factory=dict)
    held: frozenset[str] = frozenset()
    nt: frozenset[str] = frozenset()
    effects: frozenset[str] = frozenset()
    phases: tuple[Scheduled, ...] = ()

    def nest(self) -> list[NestLine]:
        """The loop nest as lines for people."""
        return nest_lines(self)

    @cached_property
    def position(self) -> dict[str, int]:
        """Loop name → place in the loop order."""
        return {n: i for i, n in enumerate(self.order)}

    def parts(self, axis: Node) -> tuple[Part, ...]:
        """The parts of an axis, outer to inner (an uncut fold's own axis has none)."""
        return self.plans[axis].parts

    def loops(self, nest: Nest) -> list[Part]:
        """Grid and serial loops of a nest, outer to inner; the loop of a cut fold included."""
        out: dict[str, Part] = {}
        for a in nest.all_axes:
            plan = self.plans[a]
            if plan.fold:
                out[plan.fold.name] = plan.fold
            for p in plan.parts:
                if not p.register:
                    out[p.name] = p
        return sorted(out.values(), key=lambda p: self.position[p.name])

    def registers(self, nest: Nest) -> list[Part]:
        """Register parts of a nest: unroll parts, then upcast parts."""
        regs = [p for a in nest.all_axes for p in self.plans[a].parts if p.register]
        return sorted(regs, key=lambda p: p.kind == "upcast")

    @cached_property
    def grid(self) -> list[Part]:
        """Grid loops, outer to inner."""
        found = {p.name: p for plan in self.plans.values() for p in plan.parts if p.kind == "grid"}
        return sorted(found.values(), key=lambda p: self.position[p.name])

    @cached_property
    def nests(self) -> list[Nest]:
        """Every nest, folds opened."""
        return [n for i in self.items for n in (i.nests if isinstance(i, FoldItem) else (i,))]

    def at_parts(self, node: Node) -> Node:
        """An index expression over axes, rewritten over part variables."""
        return substitute(node, self._axis_index)

    @cached_property
    def _axis_index(self) -> dict[Node, Node]:
        return {a: p.index for a, p in self.plans.items()}

    @cached_property
    def hash(self) -> str:
        """Structural: equal for option lists that give the same loops."""
        if self.phases:
            return hashlib.sha256("/".join(p.hash for p in self.phases).encode()).hexdigest()[:24]
        lines = [repr(sorted(self.nt)), repr(sorted(self.held)), repr(sorted(self.value_stages.items()))]
        for n in self.nests:
            lines.append(f"{n.kind} {n.name}")
            for p in (*self.loops(n), *self.registers(n)):
                lines.append(f"  {p.axis.arg.name} {p.kind} {p.size!r} {p.stride} {p.clip}")
        lines += [f"stage {s.describe}" for _, s in sorted(self.stages.items())]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:24]


class _State:
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
        return list(seen)

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

    def loop_names(self) -> dict[str, Part]:
        """Every loop that exists now, by name."""
        return {p.name: p for plan in self.plans.values() for p in plan.parts if not p.register} | {
            plan.fold.name: plan.fold for plan in self.plans.values() if plan.fold
        }


def _tile(s: _State, o: Opt) -> None:
    for a in s.find(o.on, o):
        if a in s.folds:
            _cut_fold(s, o, a)
            continue
        before = s.plans[a]
        plan = s.plans[a] = before.with_tile(o.amount)
        name = plan.tiles[-1][0]
        outer = [a.arg.name, *(n for n, b in sorted(plan.tiles, key=lambda t: -t[1]) if b > o.amount)]
        s.order.insert(s.order.index(outer[-1]) + 1, name)


def _cut_fold(s: _State, o: Opt, a: Node) -> None:
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


def _registers(kind: str) -> object:
    def apply(s: _State, o: Opt) -> None:
        reduced = {a for v in s.kernel.values.values() for a in v.reduce_axes}
        for a in s.find(o.on, o):
            if kind == "unroll" and a not in reduced:
                raise OptError(f"{o}: UNROLL copies a reduce axis into one accumulator; use UPCAST for the spatial axis {a.arg.name}")
            s.plans[a] = s.plans[a].with_registers(kind, o.amount)
            if kind == "upcast" and a in reduced:
                s.effects.add("REASSOC")

    return apply


def _parallel(s: _State, o: Opt) -> None:
    for a in s.find(o.on, o):
        if a in s.folds:
            raise OptError(f"{o}: {o.on} is folded")
        if s.plans[a].grid:
            raise OptError(f"{o}: {a.arg.name} is already parallel")
        s.plans[a] = replace(s.plans[a], grid=True)
        grid = [p.axis.arg.name for plan in s.plans.values() for p in plan.parts if p.kind == "grid" and p.axis is not a]
        s.order.remove(a.arg.name)
        s.order.insert(max((s.order.index(g) + 1 for g in grid), default=0), a.arg.name)


def _move(s: _State, o: Opt) -> None:
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


def _pad(s: _State, o: Opt) -> None:
    for a in s.find(o.on, o):
        if s.plans[a].pad > 1 or s.plans[a].registers > 1:
            raise OptError(f"{o}: pad {a.arg.name} once, before it is cut into registers")
        if o.amount < 2:
            raise OptError(f"{o}: pad to a multiple of at least 2")
        s.plans[a] = replace(s.plans[a], pad=o.amount)


def _stage(s: _State, o: Opt) -> None:
    f = o.fields
    if f["depth"] != 1:
        raise OptError(f"{o}: depth {f['depth']} needs asynchronous copies, which {s.target.name} has not")
    if f["order"] not in ("panel", "row"):
        raise OptError(f"{o}: order must be panel or row, not {f['order']!r}")
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


def _nt(s: _State, o: Opt) -> None:
    if o.on not in {b.name for b in s.kernel.outputs}:
        raise OptError(f"{o}: NT names an output ({', '.join(b.name for b in s.kernel.outputs)})")
    s.nt.add(o.on)


_APPLY = {
    "TILE": _tile, "UPCAST": _registers("upcast"), "UNROLL": _registers("unroll"), "PARALLEL": _parallel, "MOVE": _move,
    "PADTO": _pad, "STAGE": _stage, "NT": _nt,
}  # fmt: skip


def apply(kernel: Kernel, opts: Iterable[Opt] | Sequence[object], target: Target) -> Scheduled:
    """The schedule that `opts` describe; OptError where an option is illegal. Pure: equal arguments, equal result."""
    from .opt import parse

    listed = parse(tuple(opts))
    cuts = [o for o in listed if o.op == "SPLITK"]
    if cuts:
        return _phases(kernel, listed, cuts, target)
    s = _State(kernel, target)
    for o in listed:
        handler = _APPLY.get(o.op)
        if handler is None:
            raise OptError(f"{o}: {o.op} is not available on {target.lang} targets")
        handler(s, o)  # type: ignore[operator]
    staged = {n: fill for n, (_, fill) in s.value_stages.items() if n not in s.held}
    items = tuple(build(kernel, staged, s.held))
    kept = {n: kernel.values[n] for n in staged}
    out = Scheduled(
        kernel, listed, target, s.plans, tuple(s.order), items, kept, {n: at for n, (at, _) in s.value_stages.items()},
        {}, frozenset(s.held), frozenset(s.nt), frozenset(s.effects),
    )  # fmt: skip
    # in the order of the buffers, not of the options: equal schedules are laid out alike
    stages = {b.name: plan_stage(out, s.input_stages[b.name]) for b in kernel.inputs if b.name in s.input_stages}
    out = replace(out, stages=stages)
    check_scheduled(out)
    return out


def _phases(kernel: Kernel, listed: Opts, cuts: list[Opt], target: Target) -> Scheduled:
    if len(cuts) > 1:
        raise OptError(f"{cuts[1]}: only one reduction can be split")
    first, second = split(kernel, cuts[0])
    chunks = opt("PARALLEL", first.body[0].axes[0].arg.name)  # type: ignore[union-attr]
    # the outputs belong to the second phase; the first one's workspace is read again at once
    outputs = tuple(o for o in listed if o.op == "NT")
    a = apply(first, (chunks, *(o for o in listed if o is not cuts[0] and o not in outputs)), target)
    b = apply(second, (*_second(second, target), *outputs), target)
    whole = _State(kernel, target)
    return Scheduled(
        kernel, listed, target, whole.plans, tuple(whole.order), tuple(build(kernel, {})), {}, {},
        effects=a.effects | {"REASSOC"}, phases=(a, b),
    )  # fmt: skip


def _second(kernel: Kernel, target: Target) -> Opts:
    """The fixed schedule of the phase that sums the chunks: lanes along what is consecutive, rows in parallel."""
    from .seeds import legal_prefix, rows

    return legal_prefix(kernel, rows(kernel, target, 2, 2 * max(1, target.lanes(kernel.outputs[0].dtype.compute)), False), target) or ()
