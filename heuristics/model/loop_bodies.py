"""The innermost body of a nest, how often loops run, and which nests are one body in the code that is made: stores one after the other in the
same innermost loop, reductions in one, or scans. What these share is read and computed once, and is in the caches together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import prod

from ...ir.buffer import Buffer, load_parts
from ...ir.node import Node, axes_of
from ...ir.skipped_tiles import conjuncts, kept_share
from ...opts.access import stride as stride_of
from ...opts.analysis.ragged import left_out
from ...opts.axis_plan import Part
from ...opts.loop_tree import Chain, Shared, Single, Tree
from ...opts.nests import Nest
from ...opts.plans import DotPlan
from ...opts.schedule import Scheduled
from ..machine import Core, MachineModel


@dataclass(frozen=True, slots=True)
class Body:
    """The innermost body of a nest: its register parts, how many copies each makes (of whole vectors along the lanes), and the lanes."""

    scheduled: Scheduled
    nest: Nest
    machine: MachineModel
    regs: tuple[Part, ...]
    lane: Part | None
    width: int
    copies: Mapping[str, int]
    dot: DotPlan | None

    @property
    def core(self) -> Core:
        """What instructions cost."""
        return self.machine.core

    @property
    def pieces(self) -> float:
        """Turns that a vector of a sum of products takes of the units that load, multiply and shuffle."""
        e = self.nest.expr
        products = self.lane is not None and self.nest.kind == "reduce" and e.op == "mul" and e.src[0] is not e.src[1]
        size = min(self.scheduled.target.vector_bytes, self.width * e.dtype.size)
        return max(1.0, size / self.core.whole) if products else 1.0

    def times(self, node: Node) -> int:
        """How often `node` is computed: once for each assignment of the register parts it varies with."""
        axes = axes_of(node)
        return prod(self.copies[p.name] for p in self.regs if p.axis in axes)

    def decided(self) -> frozenset[Node]:
        """The axes whose places are numbers in each register copy."""
        s, lane = self.scheduled, self.lane
        whole = (a for a in self.nest.all_axes if isinstance(a.arg.extent, int) and not any(p.loop for p in s.plans[a].parts))
        return frozenset(a for a in whole if lane is None or a is not lane.axis)

    def kept(self) -> float:
        """The share of the products of a sum's body that are not 0 because of a mask that is known of each register copy."""
        found = (mask for _, _, mask in map(load_parts, self.nest.loads) if mask is not None)
        masks = {c for mask in found for c in conjuncts(mask)}
        return kept_share(frozenset(masks), self.decided()) if masks and self.nest.kind == "reduce" and self.nest.expr.op == "mul" else 1.0

    def parts(self, kind: str) -> list[Part]:
        """The register parts of one kind."""
        return [p for p in self.regs if p.kind == kind]

    def count(self, parts: Sequence[Part]) -> int:
        """The copies that some register parts make together."""
        return prod(self.copies[p.name] for p in parts)

    def stride(self, buffer: Buffer, indices: tuple[Node, ...], part: Part) -> int | None:
        """The element stride of a load along `part`."""
        return stride_of(self.scheduled, self.nest, buffer.name, indices, buffer.shape, part)


@dataclass(frozen=True, slots=True)
class BodyWork:
    """Instructions of a body. `shuffles`: those of the arithmetic that put what was loaded into its lanes."""

    arith: float
    loads: float
    latency: float
    shuffles: float


def trips(parts: Iterable[Part]) -> float:
    """Iterations of nested loops, 1 at least; a block loop that stops at the axis's end counts with its mean length."""
    out = 1.0
    for p in parts:
        extent = p.axis.arg.extent
        if p.clip and isinstance(p.size, int) and isinstance(extent, int) and extent:
            blocks = extent / (p.stride * p.size)
            out *= p.size * blocks / max(1.0, -(-extent // (p.stride * p.size)))
        else:
            out *= p.trips
    return max(out, 1.0)


def unforeseen(s: Scheduled, nest: Nest, core: Core) -> float:
    """Cycles a step that are lost by guessing wrongly whether data leaves it out."""
    return core.mispredicted * core.unforeseen if left_out(s, nest) else 0.0


def one_body(s: Scheduled, nest: Nest) -> tuple[Nest, ...]:
    """The nests of the body of which `nest` is one, in order: reductions or scans, and stores in their loop; the nest alone where there are
    no others."""
    found = s.bodies.get(nest)
    if found is None:
        found = s.bodies[nest] = _body_of(s, nest)
    return found


def _body_of(s: Scheduled, nest: Nest) -> tuple[Nest, ...]:
    joined = s.together(nest)
    if len(joined) > 1:
        return tuple(joined)
    chain = next((c for c in _chains(s.tree.items) if any(n is nest for n in c)), None)
    if chain is not None:
        return chain
    if not _plain(nest):
        return (nest,)
    opened = frozenset(p.name for p in s.grid)
    return next((group for group in _groups(s, s.tree.items, opened) if any(n is nest for n in group)), (nest,))


def _plain(nest: Nest) -> bool:
    return nest.kind == "store" and nest.store is not None and nest.store.combine is None


def _chains(items: Sequence[Tree]) -> Iterator[tuple[Nest, ...]]:
    """Scans and what runs in their loops."""
    for item in items:
        if isinstance(item, Chain):
            yield item.nests
        elif isinstance(item, Shared):
            yield from _chains(item.body)


def _groups(s: Scheduled, items: Sequence[Tree], opened: frozenset[str]) -> Iterator[tuple[Nest, ...]]:
    """The groups of stores whose loops are all open."""
    singles: list[Nest | None] = []
    for item in items:
        inside = isinstance(item, Single) and _plain(item.nest) and all(p.name in opened for p in s.loops(item.nest))
        singles.append(item.nest if inside and isinstance(item, Single) else None)
        if isinstance(item, Shared):
            yield from _groups(s, item.body, opened | {item.part.name})
    for _, group in groupby(singles, lambda n: n and [p.name for p in s.registers(n)]):
        found = tuple(n for n in group if n is not None)
        if len(found) > 1:
            yield found
