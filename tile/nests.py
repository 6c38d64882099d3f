"""The nests of a tile kernel, and how blocks and the places inside them become one axis.

A cell's number and the place in its block occur as number · size + place wherever a kernel does not care about the block size. Then the
two are one axis of the whole extent, and the block is a matter of schedules. A nest of which that is not so keeps both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..ir import index as ix
from ..ir.body import Reduce, Scan, Store, Value
from ..ir.buffer import Buffer
from ..ir.dtypes import DType
from ..ir.node import Node, as_node, axes_of, axis, const, ref, walk
from ..ir.normal_form.raw_nests import replaced
from ..ir.operators import cast, logical, substitute, where
from ..ir.skippable import conjuncts
from .trace import LoopTrace, Step, TileStore, Trace
from .vanish import identity_of, vanished


@dataclass(eq=False)
class TileNest:
    """A reduction, a scan or a store. `exprs`: the element, of a store also its indices, and its mask or None. `joined`: of a value,
    the positions of its axes that became one, (outer, inner, elements of the inner), one after the other."""

    name: str
    axes: list[Node]
    over: list[Node]
    exprs: list[Node]
    mask: Node | None = None
    combine: str = ""
    dtype: DType | None = None
    buffer: Buffer | None = None
    scan: Value | None = None
    joined: list[tuple[int, int, int]] = field(default_factory=list)
    steps: dict[Node, Step] = field(default_factory=dict)
    """Whole axes → the blocks that they are made of."""

    @property
    def roots(self) -> list[Node]:
        """All expressions."""
        return self.exprs if self.mask is None else [*self.exprs, self.mask]

    @property
    def along(self) -> Node | None:
        """The axis that a scan runs along."""
        return self.scan.expr.axis if self.scan is not None and isinstance(self.scan.expr, Scan) else None

    def map(self, change: dict[Node, Node]) -> None:
        """Replace nodes in every expression."""
        self.exprs = [substitute(e, change) for e in self.exprs]
        if self.mask is not None:
            self.mask = substitute(self.mask, change)
            if self.mask.op == "const" and self.mask.arg:
                self.mask = None


class TileNests:
    """All nests that the stores of a trace need, values before their readers."""

    def __init__(self, trace: Trace, stores: Iterable[TileStore]) -> None:
        self.trace = trace
        self.nests: list[TileNest] = []
        self.by: dict[str, TileNest] = {}
        self._axes: dict[tuple[Node, Node], Node] = {}
        stores = list(stores)
        written = [s.buffer.name for s in stores]
        made = [self._store(s, written.count(s.buffer.name) == 1) for s in stores]
        for n in made:
            self._need(n.roots)
        self.nests += made
        for n in self.nests:
            self._join(n)
        for n in reversed(self.nests):
            self._cut(n)

    # what there is ----------------------------------------------------------------------------------------------------
    def _store(self, s: TileStore, alone: bool) -> TileNest:
        """The nest of a store. Where it is the only one to its output, and all that meets is combined before, it combines nothing itself."""
        s = self.trace.stepwise.get(s, s)
        full = self.trace.full
        at, value = [full(i) for i in s.indices], full(s.value)
        mask = None if s.mask is None else full(s.mask)
        free = axes_of(value, *at, *([] if mask is None else [mask])) | set(s.lanes)
        # every cell of the grid, and every step of a loop around it, stores
        free |= {a for a, step in self.trace.steps.items() if step.grid} | self._loops_around(s)
        axes = sorted(free, key=self.trace.rank)
        if s.combine is not None and not any(n.op == "load" for n in walk(*at)):
            lost = [a for a in axes if a not in axes_of(*at)]
            if lost:
                value = self._summed(s.combine, value, mask, lost, s.buffer.dtype)
                mask = _without(mask, lost)
                axes = [a for a in axes if a not in lost]
                return TileNest("", axes, [], [value, *at], mask, "" if alone else s.combine, None, s.buffer)
        return TileNest("", axes, [], [value, *at], mask, s.combine or "", None, s.buffer)

    def _loops_around(self, s: TileStore) -> set[Node]:
        found: set[Node] = set()

        def look(items: list[LoopTrace | TileStore], around: tuple[Node, ...]) -> None:
            for item in items:
                if isinstance(item, TileStore):
                    original = self.trace.stepwise.get(item, item)
                    if item is s or original is s:
                        found.update(around)
                else:
                    look(item.items, (*around, item.step.axis))

        look(self.trace.items, ())
        return found

    def _summed(self, combine: str, value: Node, mask: Node | None, lost: list[Node], dtype: DType) -> Node:
        """What cells write to the same place, combined before it is stored."""
        over, element = tuple(lost), value
        while element.op == "ref" and (r := self.trace.solved.get(element.arg)) is not None and r.combine == combine:
            over, element = (*over, *r.over), self.trace.element(element)
        if mask is not None:
            idle = identity_of(combine, element)
            part = _only(mask, lost)
            if part is not None and vanished(element, {part: const(False)}, lambda r: None) is not idle:
                element = where(part, element, idle)
        of = dtype.acc if combine in ("add", "mul") else dtype.compute
        return self.trace.add_solved(combine, cast(element, of), over, of, "acc")

    def _need(self, roots: Iterable[Node]) -> None:
        for n in walk(*roots):
            if n.op != "ref" or n.arg in self.by:
                continue
            r = self.trace.solved.get(n.arg)
            if r is not None:
                nest = TileNest(r.name, list(r.axes), list(r.over), [cast(r.body, r.dtype)], None, r.combine, r.dtype)
            else:
                v = self.trace.scans[n.arg]
                nest = TileNest(v.name, list(v.axes), [], [v.body], None, "", v.dtype, scan=v)
            self.by[n.arg] = nest
            self._need(nest.roots)
            self.nests.append(nest)

    # blocks and places ------------------------------------------------------------------------------------------------
    def _join(self, n: TileNest) -> None:
        """Make (cell, place) one axis wherever that is possible."""
        self._reread(n)
        for group in (n.axes, n.over):
            again = True
            while again:
                again = any(
                    self._joined(n, group, a, lane)
                    for a in list(group)
                    if a in self.trace.steps or a in n.steps
                    for lane in list(group)
                    if lane not in self.trace.steps and lane not in n.steps
                )

    def _joined(self, n: TileNest, group: list[Node], a: Node, lane: Node) -> bool:
        if a not in group or lane not in group or a is n.along:
            return False
        size = lane.arg.extent
        whole = self._axes.setdefault((a, lane), axis(f"\0w{len(self._axes)}", a.arg.extent * size))
        change = {lane: ix.add(whole, a, -size)}
        after = [substitute(e, change) for e in n.roots]
        if a in axes_of(*after):
            return False
        n.map(change)
        if group is n.axes and n.name:
            n.joined.append((group.index(a), group.index(lane), size))
        n.steps[whole] = self.trace.steps.get(a) or n.steps[a]
        group[group.index(a)] = whole
        group.remove(lane)
        return True

    def _reread(self, n: TileNest) -> None:
        """References to values of fewer axes."""

        def again(r: Node, src: tuple[Node, ...]) -> Node:
            at = list(src)
            for outer, inner, size in self.by[r.arg].joined:
                at[outer] = ix.add(ix.mul(at[outer], const(size)), at[inner])
                del at[inner]
            return ref(r.arg, at, r.dtype)

        n.exprs = [replaced(e, {}, again) for e in n.exprs]
        if n.mask is not None:
            n.mask = replaced(n.mask, {}, again)

    # the ends of axes -------------------------------------------------------------------------------------------------
    def _cut(self, n: TileNest) -> None:
        """End axes where nothing exists beyond, so that no masks are needed there."""
        if n.name:
            self._cut_to_readers(n)
        elif n.mask is not None:
            for a in list(n.axes):
                ends = [e for m in ([] if n.mask is None else conjuncts(n.mask)) if (e := _end(m, a)) is not None]
                if ends:
                    self._shorten(n, n.axes, a, min(ends))
        for a in list(n.over):
            for end in sorted({e for m in walk(*n.roots) if (e := _end(m, a)) is not None}):
                if self._nothing_from(n, a, end):
                    self._shorten(n, n.over, a, end)
                    break

    def _cut_to_readers(self, n: TileNest) -> None:
        uses = [r for m in self.nests for r in walk(*m.roots) if r.op == "ref" and r.arg == n.name]
        for k, a in enumerate(list(n.axes)):
            end = max((ix.bounds(r.src[k])[1] + 1 for r in uses), default=a.arg.extent)
            if end < a.arg.extent and a is not n.along:
                self._shorten(n, n.axes, a, end)

    def _shorten(self, n: TileNest, group: list[Node], a: Node, end: int) -> None:
        if end >= a.arg.extent:
            return
        short = axis(f"{a.arg.name}.{end}", end)
        n.map({a: short})
        group[group.index(a)] = short
        if a in n.steps:
            n.steps[short] = n.steps[a]

    def _nothing_from(self, n: TileNest, a: Node, end: int) -> bool:
        """Whether every element from `end` on is neutral."""
        rest = ix.add(axis("\0rest", a.arg.extent - end), as_node(end))
        found = vanished(n.exprs[0], {a: rest}, lambda r: self._constant(r, {}))
        return found is identity_of(n.combine, n.exprs[0])

    def _constant(self, r: Node, table: dict[Node, Node]) -> Node | None:
        """The number that a reference to a reduction is, where all its elements are neutral."""
        m = self.by[r.arg]
        if not m.combine:
            return None
        found = vanished(m.exprs[0], dict(zip(m.axes, r.src, strict=True)) | table, lambda x: self._constant(x, table))
        return found if found is identity_of(m.combine, m.exprs[0]) else None

    # the kernel -------------------------------------------------------------------------------------------------------
    def values(self) -> tuple[Value, ...]:
        """The values of the kernel, in order."""
        out = []
        for n in self.nests:
            if n.name and n.scan is None:
                assert n.dtype is not None
                expr = Reduce(n.combine, tuple(n.over), n.exprs[0], n.dtype)
                out.append(Value(n.name, tuple(n.axes), expr, n.dtype))
            elif n.scan is not None and isinstance(n.scan.expr, Scan):
                s = n.scan.expr
                out.append(Value(n.name, tuple(n.axes), Scan(s.combine, s.axis, n.exprs[0], s.dtype), s.dtype))
        return tuple(out)

    def stores(self) -> tuple[Store, ...]:
        """The stores of the kernel, in order."""
        return tuple(
            Store(n.buffer, tuple(n.exprs[1:]), n.exprs[0], tuple(n.axes), n.combine or None, n.mask)
            for n in self.nests
            if n.buffer is not None
        )


def _end(m: Node, a: Node) -> int | None:
    """The number below which a condition wants an axis to be."""
    if m.op not in ("lt", "le") or m.src[0] is not a or m.src[1].op != "const":
        return None
    return int(m.src[1].arg) + (m.op == "le")


def _only(mask: Node, lost: list[Node]) -> Node | None:
    """The part of a mask that depends on axes."""
    out: Node | None = None
    for m in conjuncts(mask):
        if axes_of(m) & set(lost):
            out = m if out is None else logical("and", out, m)
    return out


def _without(mask: Node | None, lost: list[Node]) -> Node | None:
    """The part of a mask that does not depend on axes."""
    out: Node | None = None
    for m in [] if mask is None else conjuncts(mask):
        if not axes_of(m) & set(lost):
            out = m if out is None else logical("and", out, m)
    return out
