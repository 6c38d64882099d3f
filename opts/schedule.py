"""`apply`: a kernel and a list of options become a `Scheduled`, or an OptError that says why not."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

from ..ir.body import Value
from ..ir.dtypes import index
from ..ir.errors import OptError
from ..ir.kernel import Kernel
from ..ir.node import Node
from ..ir.operators import substitute
from ..targets import Target
from . import groups
from .axis_plan import AxisPlan, Part
from .defaults import legal_prefix, points, rows
from .dots import DotPlan, check_dots, kept_types
from .fetch import Fetch, fetching
from .groups import ThreadAxis
from .handlers import HANDLERS, State
from .lanes import Vectors, choose_lanes
from .legality import check_scheduled
from .loop_tree import LoopTree, loop_tree
from .memory_limits import check_stages
from .nests import FoldItem, Item, Nest, build
from .opt import Opt, Opts, opt
from .own import owned
from .show import NestLine, nest_lines
from .splitk import split
from .staging import ONCE, StagePlan, plan_stage


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
    fetch: frozenset[str] = frozenset()
    effects: frozenset[str] = frozenset()
    phases: tuple[Scheduled, ...] = ()
    threads: tuple[ThreadAxis, ...] = ()
    swizzle: int = 1
    regs: int = 0
    dots: dict[str, DotPlan] = field(default_factory=dict)

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
                if p.loop:
                    out[p.name] = p
        return sorted(out.values(), key=lambda p: self.position[p.name])

    def registers(self, nest: Nest) -> list[Part]:
        """Register parts of a nest: unroll parts, then upcast parts, then what one matrix instruction takes."""
        regs = [p for a in nest.all_axes for p in self.plans[a].parts if p.register]
        return sorted(regs, key=lambda p: ("unroll", "upcast", "dot").index(p.kind))

    def shared(self, nest: Nest) -> list[Part]:
        """Parts of a nest that the threads of a group share."""
        return [p for a in nest.all_axes for p in self.plans[a].parts if p.kind == "thread"]

    def shared_by(self, axes: Sequence[Node]) -> list[ThreadAxis]:
        """The dimensions of the group that share one of `axes`."""
        families = {a.arg.family for a in axes}
        return [t for t in self.threads if t.family in families]

    @property
    def group(self) -> int:
        """Threads in a group."""
        return prod(t.count for t in self.threads)

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
    def fetches(self) -> dict[str, list[Fetch]]:
        """The name of a reduction → what it asks for."""
        out: dict[str, list[Fetch]] = {}
        for b in self.kernel.buffers:
            found = fetching(self.items, b) if b.name in self.fetch else None
            if found is not None:
                out.setdefault(found.nest.name, []).append(found)
        return out

    @cached_property
    def tree(self) -> LoopTree:
        """The loops inside the grid, what runs in each, and which values stay in registers."""
        return loop_tree(self)

    @cached_property
    def width(self) -> int:
        """Lanes of a vector: as many as the widest element type has that is computed with."""
        found = [n.expr.dtype.compute for n in self.nests] + [b.dtype.compute for b in self.kernel.buffers]
        types = [d for d in found if d is not index] or found
        return max(1, min((self.target.lanes(d) for d in types), default=1))

    def lanes(self, nest: Nest) -> Vectors:
        """The register parts of a nest, and which of them runs over vector lanes."""
        return self._lanes[0][nest.name]

    @property
    def inner(self) -> dict[str, int]:
        """The position of the consecutive axis of kept values, where lanes decide it; else it is the last."""
        return self._lanes[1]

    @cached_property
    def _lanes(self) -> tuple[dict[str, Vectors], dict[str, int]]:
        return choose_lanes(self)

    @cached_property
    def hash(self) -> str:
        """Structural: equal for option lists that give the same loops."""
        if self.phases:
            return hashlib.sha256("/".join(p.hash for p in self.phases).encode()).hexdigest()[:24]
        lines = [
            f"{self.swizzle} {self.regs} {[(t.family, t.count) for t in self.threads]}",
            repr(sorted(self.nt)) + (f" {sorted(self.fetch)}" if self.fetch else ""),
            repr(sorted(self.held)),
            repr(sorted(self.value_stages.items())),
        ]
        for n in self.nests:
            lines.append(f"{n.kind} {n.name}")
            for p in (*self.loops(n), *self.shared(n), *self.registers(n)):
                lines.append(f"  {p.axis.arg.name} {p.kind} {p.size!r} {p.stride} {p.clip}")
        lines += [f"stage {s.describe}" for _, s in sorted(self.stages.items())]
        lines += [f"dot {d.describe}" for _, d in sorted(self.dots.items())]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:24]


def apply(kernel: Kernel, opts: Iterable[Opt] | Sequence[object], target: Target) -> Scheduled:
    """The schedule that `opts` describe; OptError where an option is illegal. Pure: equal arguments, equal result."""
    from .opt import parse

    listed = parse(tuple(opts))
    cuts = [o for o in listed if o.op == "SPLITK"]
    if cuts:
        return _phases(kernel, listed, cuts, target)
    owns = [o for o in listed if o.op == "OWN"]
    if owns:
        return _own(kernel, listed, owns, target)
    s = State(kernel, target)
    for o in listed:
        HANDLERS[o.op](s, o)
    if target.kind == "gpu":
        groups.default_grid(s)
    staged = {n: fill for n, (_, fill) in s.value_stages.items() if n not in s.held}
    items = tuple(build(kernel, staged, s.held, lambda v, nest, by: _again(s, v, nest, by)))
    kept = {n: kernel.values[n] for n in staged}
    out = Scheduled(
        kernel, listed, target, s.plans, tuple(s.order), items, kept, {n: at for n, (at, _) in s.value_stages.items()},
        {}, frozenset(s.held), frozenset(s.nt), frozenset(s.fetch), frozenset(s.effects),
        (), groups.thread_axes(s, items), s.swizzle, s.regs, s.dots,
    )  # fmt: skip
    # in the order of the buffers, not of the options: equal schedules are laid out alike
    stages = {b.name: kept_types(out, plan_stage(out, s.input_stages[b.name])) for b in kernel.inputs if b.name in s.input_stages}
    out = replace(out, stages=stages)
    check_stages(out)
    check_scheduled(out)
    check_dots(out)
    return out


def _again(s: State, v: Value, nest: Nest, by: tuple[Node, ...]) -> bool:
    """Whether loops of `nest` that `v` does not depend on run inside the loop where `v` is kept (and none around it), so that `v` is better computed by a nest
    of its own. (Axes of the grid and of threads are every nest's, so `v` stays with its reader under those.)"""
    at = s.value_stages[v.name][0]
    others = [p for a in nest.all_axes if a not in by for p in s.plans[a].parts]
    mine = {p.name for a in v.axes for p in (s.plans[a].fold, *s.plans[a].parts) if p is not None and p.loop}
    if at != "grid" and (at not in mine or at not in s.order):
        return False
    place = -1 if at == "grid" else s.order.index(at)
    inside = [p for p in others if p.loop]
    return bool(inside) and all(p.kind == "serial" for p in others if not p.register) and all(s.order.index(p.name) > place for p in inside)


def _phases(kernel: Kernel, listed: Opts, cuts: list[Opt], target: Target) -> Scheduled:
    if len(cuts) > 1:
        raise OptError(f"{cuts[1]}: only one reduction can be split")
    kept = next((o for o in listed if o.op == "STAGE" and o.fields["at"] == ONCE), None)
    if kept is not None:
        raise OptError(f"{kept}: the workspace between the phases of {cuts[0]} is made anew by each call; use one of them")
    first, second = split(kernel, cuts[0])
    chunks = opt("PARALLEL", first.body[0].axes[0].arg.name)  # type: ignore[union-attr]
    # the outputs belong to the second phase; the first one's workspace is read again at once
    names = {b.name for b in kernel.outputs}
    outputs = tuple(o for o in listed if o.op == "NT" or (o.op == "FETCH" and o.on in names))
    a = apply(first, (chunks, *(o for o in listed if o is not cuts[0] and o not in outputs)), target)
    b = apply(second, (*_second(second, target), *outputs), target)
    whole = State(kernel, target)
    return Scheduled(
        kernel, listed, target, whole.plans, tuple(whole.order), tuple(build(kernel, {})), {}, {},
        effects=a.effects | {"REASSOC"}, phases=(a, b),
    )  # fmt: skip


def _own(kernel: Kernel, listed: Opts, owns: list[Opt], target: Target) -> Scheduled:
    if len(owns) > 1:
        raise OptError(f"{owns[1]}: the output has owners already")
    inner, blocks = owned(kernel, owns[0], target)
    a = apply(inner, (opt("PARALLEL", blocks), *(o for o in listed if o is not owns[0])), target)
    whole = State(kernel, target)
    return Scheduled(kernel, listed, target, whole.plans, tuple(whole.order), tuple(build(kernel, {})), {}, {}, effects=a.effects, phases=(a,))


def _second(kernel: Kernel, target: Target) -> Opts:
    """The fixed schedule of the phase that sums the chunks: lanes along what is consecutive, rows in parallel."""

    def legal(o: Opts) -> Scheduled:
        return apply(kernel, o, target)

    if target.kind == "gpu":
        return legal_prefix(points(kernel, 128, 1), legal) or ()
    return legal_prefix(rows(kernel, target, 2, 2 * max(1, target.lanes(kernel.outputs[0].dtype.compute)), False), legal) or ()
