"""The loops of a schedule, as data and what is asked of them. `schedule.Scheduled` adds what follows from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from ..ir import index as ix
from ..ir.body import Value
from ..ir.dtypes import index
from ..ir.kernel import Kernel
from ..ir.node import Node, axes_of, walk
from ..ir.node import axis as make_axis
from ..ir.operators import substitute
from ..targets import Target
from .analysis.interior import interior
from .axis_plan import AxisPlan, Part
from .nests import Item, Nest, flat
from .opt import Opts
from .plans import DotPlan, ExtremePlace, LaunchPlan, RollPlan, StagePlan, TensorPlan, ThreadAxis


@dataclass(frozen=True, eq=False)
class Loops:
    """How every axis is cut, in which order loops run, what is kept where, and what is asked of that. `marks`: what
    options noted for later, option → {what it is on: its argument}. `siblings`: the names of reductions that run in one loop, by loop;
    they are neighbours among the items, over the same axes. `places`: of such reductions, each that is the place of an extreme;
    its nest has the index alone."""

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
    prefetched: frozenset[str] = frozenset()
    marks: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    effects: frozenset[str] = frozenset()
    threads: tuple[ThreadAxis, ...] = ()
    swizzle: int = 1
    launch: LaunchPlan = LaunchPlan()  # noqa: RUF009 (frozen)
    dots: dict[str, DotPlan] = field(default_factory=dict)
    tensors: dict[str, TensorPlan] = field(default_factory=dict)
    rings: Mapping[str, RollPlan] = field(default_factory=dict)
    siblings: tuple[tuple[str, ...], ...] = ()
    places: Mapping[str, ExtremePlace] = field(default_factory=dict)

    def marked(self, op: str) -> Mapping[str, object]:
        """What the options of a name noted: what each is on, and its argument."""
        return self.marks.get(op, {})

    @cached_property
    def position(self) -> dict[str, int]:
        """Loop name → place in the loop order."""
        return {n: i for i, n in enumerate(self.order)}

    def parts(self, axis: Node) -> tuple[Part, ...]:
        """The parts of an axis, outer to inner (an uncut fold's own axis has none)."""
        return self.plans[axis].parts

    def loops(self, nest: Nest) -> list[Part]:
        """Grid and serial loops of a nest, outer to inner; the loop of a cut fold included."""
        known = self._loops.get(nest)
        if known is None:
            out: dict[str, Part] = {}
            for a in nest.all_axes:
                plan = self.plans[a]
                if plan.fold:
                    out[plan.fold.name] = plan.fold
                for p in plan.parts:
                    if p.loop:
                        out[p.name] = p
            known = self._loops[nest] = sorted(out.values(), key=lambda p: self.position[p.name])
        return known.copy()

    @cached_property
    def _loops(self) -> dict[Nest, list[Part]]:
        return {}

    def registers(self, nest: Nest) -> list[Part]:
        """Register parts of a nest: unroll parts, then upcast parts, then what one matrix instruction takes."""
        known = self._registers.get(nest)
        if known is None:
            regs = [p for a in nest.all_axes for p in self.plans[a].parts if p.register]
            known = self._registers[nest] = sorted(regs, key=lambda p: ("unroll", "upcast", "dot").index(p.kind))
        return known.copy()

    @cached_property
    def _registers(self) -> dict[Nest, list[Part]]:
        return {}

    def shared(self, nest: Nest) -> list[Part]:
        """Parts of a nest that the threads of a group share."""
        return [p for a in nest.all_axes for p in self.plans[a].parts if p.kind == "thread"]

    def shared_by(self, axes: Sequence[Node]) -> list[ThreadAxis]:
        """The dimensions of the group that share one of `axes`."""
        found = {p.var for a in axes for p in self.plans[a].parts if p.kind == "thread"}
        return [t for t in self.threads if not found.isdisjoint(t.variables)]

    def elsewhere(self, reader: Nest, axis: Node) -> bool:
        """Whether a nest reads what lies along `axis` in other threads than those that have it: as the second operand of a matrix
        instruction."""
        t = self.tensors.get(reader.name)
        return t is not None and axis is t.n

    def together(self, nest: Nest) -> list[Nest]:
        """The reductions that run in one loop with a nest, itself among them."""
        names = next((g for g in self.siblings if nest.name in g), ())
        return [n for n in self.nests if n.name in names] if names else [nest]

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
        return flat(self.items)

    def at_parts(self, node: Node) -> Node:
        """An index expression over axes, rewritten over part variables."""
        found = self._at_parts.get(node)
        if found is None:
            found = self._at_parts[node] = substitute(node, self._axis_index)
        return found

    def inside(self, node: Node) -> Node:
        """An index expression as it is for most points (`interior`), over part variables. Threads of GPUs are not told apart by where
        they are."""
        return self.at_parts(node if self.target.kind == "gpu" else interior(node))

    def terms(self, node: Node) -> Mapping[Node, int]:
        """The coefficient of each term of an index expression `inside`."""
        return self.linear(node)[0]

    def linear(self, node: Node) -> tuple[dict[Node, int], int]:
        """(coefficient by term, constant) of an index expression `inside`."""
        found = self._linear.get(node)
        if found is None:
            found = self._linear[node] = ix.parts(self.inside(node))
        return found

    def coefficient(self, node: Node, var: Node) -> int | None:
        """How much an index expression grows with the number of a part: 0 where it does not depend on it, as a group's number does not on
        the place in the group; None where it is not linear."""
        terms = self.terms(node)
        if var in terms:
            return terms[var]
        depends = var in axes_of(*terms) if var.op == "axis" else any(n is var for n in walk(*terms))
        return None if depends else 0

    def lane_coefficient(self, node: Node, var: Node, width: int) -> int | None:
        """The `coefficient` along the lanes of each vector of `width` of a part, such as 0 for the number of a group that is whole vectors."""
        block, lane = make_axis("block of lanes", -(-var.arg.extent // width)), make_axis("lane of a vector", width)
        terms = ix.parts(substitute(self.inside(node), {var: ix.linear({block: width, lane: 1}, 0)}))[0]
        return terms.get(lane, None if any(lane in axes_of(t) for t in terms) else 0)

    @cached_property
    def _at_parts(self) -> dict[Node, Node]:
        return {}

    @cached_property
    def _linear(self) -> dict[Node, tuple[dict[Node, int], int]]:
        return {}

    @cached_property
    def _axis_index(self) -> dict[Node, Node]:
        return {a: p.index for a, p in self.plans.items()}

    @cached_property
    def width(self) -> int:
        """Lanes of a vector: as many as the widest element type has that is computed with."""
        found = [n.expr.dtype.compute for n in self.nests] + [b.dtype.compute for b in self.kernel.buffers]
        types = [d for d in found if d is not index] or found
        return max(1, min((self.target.lanes(d) for d in types), default=1))
