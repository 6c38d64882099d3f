"""Index expressions of a nest, as a scalar, a constant, a multiple of the lane number and whatever else varies along the lanes."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from ..ir import index as ix
from ..ir.dtypes import bool_, index, int32, int64
from ..ir.errors import OptError
from ..ir.node import INTEGER, Node, axes_of, const
from ..ir.node import axis as make_axis
from ..ir.operators import substitute
from ..ir.skipped_tiles import conjuncts
from ..opts.axis_plan import Part
from ..opts.lanes import Vectors
from ..opts.nests import Nest
from ..program.program import Val
from .lowering import Lowering
from .part_index import PartTable, Split, as_node, bounds, narrowed, over_parts, reads_memory
from .storage import Array, Assignment

_HOLDS: dict[str, Callable[[int, int], bool]] = {"lt": operator.lt, "le": operator.le, "eq": operator.eq, "ne": operator.ne}


SHORT = 1 << 31
"""Numbers that int32 does not hold."""


def fits(interval: tuple[int, int]) -> bool:
    """Whether int32 holds all of an interval."""
    return interval[0] >= -SHORT and interval[1] < SHORT


def decided(op: str, lo: int, hi: int) -> bool:
    """Whether 0 OP x is the same for all x from `lo` to `hi`."""
    if op in ("lt", "le"):
        return _HOLDS[op](0, lo) == _HOLDS[op](0, hi)
    return lo > 0 or hi < 0 or lo == hi


def _constant_added(t: Node) -> tuple[Node, int] | None:
    """A computed integer as another and a constant that is added; None where it is none, or the sum may wrap."""
    if t.op not in ("add", "sub") or not t.dtype.is_int or t.dtype is index:
        return None
    for x, k in ((t.src[0], t.src[1]), (t.src[1], t.src[0]))[: 2 if t.op == "add" else 1]:
        if k.op == "const":
            by = k.arg if t.op == "add" else -k.arg
            lo, hi = (v + by for v in bounds(x, {}))
            return (x, by) if fits((lo, hi)) else None
    return None


class Indices(ABC):
    """Indices of a nest at the builder's current position. Its register parts `regs` are copies in the code; `lane`, one of them,
    runs over `width` lanes."""

    def __init__(self, low: Lowering, nest: Nest, vectors: Vectors) -> None:
        self.low, self.nest, self.b = low, nest, low.b
        self.regs, self.lane, self.width = list(vectors.regs), vectors.lane, vectors.width
        self._vars = {p.var: p for p in self.regs}
        self._splits: dict[Node, Split] = {}
        self._terms: dict[tuple[object, ...], tuple[Node, Node | None, int, int]] = {}
        self._moving: dict[Node, tuple[tuple[Node, Part], ...]] = {}
        self._ranges = low.scope.ranges
        self.lanes = make_axis("lanes", max(1, self.width))
        self.blocks: dict[object, list[Val]] = {}
        """Columns of blocks that were transposed in registers, for the copies that come later."""

    @abstractmethod
    def value(self, node: Node, asg: Assignment) -> Val:
        """The value of an expression over axes."""

    def split(self, node: Node, asg: Assignment) -> tuple[Node, int, int, Val | None]:
        """An index over parts as (scalar index, constant, coefficient of the lane number, further vector term)."""
        base, c, lane, special = self.placed(node, asg)
        vec = None
        for t, k in special:
            v = self._term(t, asg)
            if v.lanes == 1 and k == 1 and vec is None:
                vec = v
            else:
                v = self.b.op("mul", v, self.b.const(k))
                vec = v if vec is None else self.b.op("add", vec, v)
        return base, c, lane, vec

    def placed(self, node: Node, asg: Assignment) -> tuple[Node, int, int, list[tuple[Node, int]]]:
        """An index over parts as (scalar index, constant, coefficient of the lane number, terms that it is none of). What is not
        linear may be so for this assignment: a clamp that keeps none of its lanes inside."""
        base, c, lane, copies, special = self.split_of(node)
        for k, name in copies:
            c += k * asg[name]
        left: list[tuple[Node, int]] = []
        for t, k in special:
            _, rest, fixed, step = self._at(t, asg)
            if rest is None:
                left.append((t, k))
            else:
                base, c, lane = ix.add(base, rest, k), c + k * fixed, lane + k * step
        return base, c, lane, left

    def at(self, term: Node, asg: Assignment) -> Node:
        """A term over parts for one assignment: over loops that are open, and the number `lanes` of a lane."""
        return self._at(term, asg)[0]

    def _at(self, term: Node, asg: Assignment) -> tuple[Node, Node | None, int, int]:
        """The same as (term, scalar index or None where the term is not linear, constant, coefficient of the lane number), memoised: the terms
        of a border's rows are those of all its columns."""
        mine = self._moving.get(term)
        if mine is None:
            mine = self._moving[term] = tuple((v, p) for v, p in self._vars.items() if v in axes_of(term))
        key = (term, *(asg[p.name] for _, p in mine))
        found = self._terms.get(key)
        if found is None:
            table = {v: ix.add(const(asg[p.name] * self.width), self.lanes) if p is self.lane else const(asg[p.name]) for v, p in mine}
            node = narrowed(substitute(term, table), self._ranges)
            terms, fixed = ix.parts(node)
            terms = dict(terms)
            step = terms.pop(self.lanes, 0)
            rest = None if any(self.lanes in axes_of(s) or reads_memory(s) for s in terms) else ix.linear(terms, 0)
            found = self._terms[key] = node, rest, fixed, step
        return found

    def split_of(self, node: Node) -> Split:
        """What of an index over parts is the same for every assignment (memoised for as long as the same pieces of loops are open)."""
        if self._ranges is not self.low.scope.ranges:
            self._ranges = self.low.scope.ranges
            self._splits.clear()
            self._terms.clear()
        found = self._splits.get(node)
        if found is None:
            found = self._splits[node] = self._plan_split(narrowed(node, self._ranges))
        return found

    def _plan_split(self, node: Node) -> Split:
        """What of an index is the same for every assignment: only constants are left to add."""
        terms, c = ix.parts(node)
        rest: dict[Node, int] = {}
        copies: list[tuple[int, str]] = []
        special: list[tuple[Node, int]] = []
        lane = 0
        for t, k in terms.items():
            while (apart := _constant_added(t)) is not None:
                t, c = apart[0], c + k * apart[1]
            part = self._vars.get(t)
            if part is not None:
                lane += k if part is self.lane else 0
                copies.append((k * self.width if part is self.lane else k, part.name))
            elif reads_memory(t) or self._vars.keys() & axes_of(t):
                special.append((t, k))
            else:
                rest[t] = k
        return ix.linear(rest, 0), c, lane, copies, special

    def _term(self, t: Node, asg: Assignment) -> Val:
        """A non-linear index term that depends on register parts."""
        b = self.b
        if t.dtype is not index or t.op in ("load", "ref", "arg", "where", "cast") or t.op in INTEGER:
            v = self.value(t, asg)
            return v if v.dtype is index or v.dtype is int64 else b.op("cast", v, dtype=int64)
        short = self.as_int32(t, asg)
        if short is not None:
            return b.op("cast", short, dtype=index)
        args = [self.index(s, asg) for s in t.src]
        if t.op in ("div", "mod"):
            return b.op("idiv" if t.op == "div" else "imod", args[0], attr=t.arg)
        if t.op == "prod":
            out = args[0]
            for a in args[1:]:
                out = b.op("mul", out, a)
            return out
        if t.op in ("min", "max"):
            return b.op(t.op, *args)
        raise OptError(f"cannot lower the index term {t!r}")

    def as_int32(self, node: Node, asg: Assignment) -> Val | None:
        """An index over parts as a vector of int32, which processors divide, compare and convert twice as many of at once, or at all; None
        where it is the same in all lanes, is computed of data, or may not fit."""
        if self.lane is None or self.low.sched.target.kind == "gpu" or not fits(self.span(node)):
            return None
        b = self.b
        base, c, lane, special = self.placed(node, asg)
        terms = [(self._term_as_int32(t, asg), k) for t, k in special]
        if not (lane or terms) or any(v is None for v, _ in terms):
            return None
        # (sums wrap: only what they are in the end has to fit)
        out = b.splat(b.op("cast", self.low.scalar(base, c), dtype=int32), self.width)
        if lane:
            out = b.op("add", out, b.multiples(lane, self.width, int32))
        for v, k in terms:
            assert v is not None
            term = v if k == 1 else b.op("mul", v, b.const(k, int32, v.lanes))
            out = b.op("add", out, b.splat(term, self.width))
        return out

    def _term_as_int32(self, t: Node, asg: Assignment) -> Val | None:
        """A non-linear index term that varies along the lanes as int32; None where that cannot be."""
        if reads_memory(t) or t.op not in ("div", "mod", "min", "max") or not fits(self.span(t)):
            return None
        found = [self.as_int32(s, asg) if s.op != "const" else self.b.const(s.arg, int32, self.width) for s in t.src]
        args = [a for a in found if a is not None]
        if len(args) < len(found) or not all(fits(self.span(s)) for s in t.src):
            return None
        if t.op in ("div", "mod"):
            return self.b.op("idiv" if t.op == "div" else "imod", args[0], attr=t.arg) if t.arg < SHORT else None
        return self.b.op(t.op, *args)

    def span(self, node: Node) -> tuple[int, int]:
        """The least and the largest value of an index over loops that are open."""
        return bounds(self.low.known(node), self.low.scope.ranges)

    def index(self, node: Node, asg: Assignment) -> Val:
        """An index over parts as a Val (a vector where it varies along the lanes)."""
        base, c, lane, vec = self.split(node, asg)
        return self.join(self.low.scalar(base, c), lane, vec)

    def join(self, scalar: Val, lane: int, vec: Val | None) -> Val:
        out = scalar
        if lane:
            out = self.b.op("add", out, self.b.multiples(lane, self.width))
        return out if vec is None else self.b.op("add", out, vec)

    def selected(self, node: Node) -> Node:
        """A selection as what it selects, where its condition is known to hold; any other expression as it is."""
        while node.op == "where" and self.low.scope.holds and all(self.holds(c) for c in conjuncts(node.src[0])):
            node = node.src[1]
        return node

    def mask_holds(self, mask: Node) -> bool:
        """Whether all of a mask is known to hold in the iterations that are open."""
        return bool(self.low.scope.holds) and all(any(c is h for h, _ in self.low.scope.holds) for c in conjuncts(mask))

    def holds(self, cond: Node) -> bool:
        """Whether a condition is known to hold in this range of a fold's tiles, whichever site of the folded axis it is written over."""

        def folded(axis: Node) -> Node:
            return substitute(cond, {a: axis for a in axes_of(cond) if a.arg.family == axis.arg.family})

        plans = self.low.sched.plans
        return any(c is cond or (plans[axis].folded and folded(axis) is c) for c, axis in self.low.scope.holds)

    def truths(self, op: str, x: Node, y: Node, asg: Assignment) -> tuple[bool, ...] | None:
        """A comparison of indices in every lane (or once, where it is the same in all), where it is known before anything runs."""
        base, c, lane, special = self.placed(over_parts(ix.add(y, x, -1), self.low.ctx.axis_index), asg)
        if special:
            return None
        lo, hi = bounds(self.low.known(base), self._ranges)
        out = []
        for i in range(self.width if lane else 1):
            at = c + lane * i
            out.append(_HOLDS[op](0, lo + at))
            if lo != hi and not decided(op, lo + at, hi + at):
                return None
        return tuple(out)

    def _alike(self, op: str, base: Node, c: int, lane: int) -> bool:
        """Whether 0 < (or <=) base + c + lane·i is the same for all lanes i, because the sum for lane 0 steps over whole vectors. Then an
        access under that mask is one of a whole vector, or none."""
        whole, step = abs(lane) * self.width, abs(lane)
        terms, fixed = ix.parts(base)
        if any(k % whole for k in terms.values()):
            return False
        wanted = {("lt", False): 0, ("le", False): -step, ("lt", True): step, ("le", True): 0}.get((op, lane > 0))
        return wanted is not None and (fixed + c - wanted) % whole == 0

    def _compare(self, op: str, x: Node, y: Node, asg: Assignment) -> Val:
        """A comparison of indices; along the lanes it is done in 32 bits against constant lane numbers."""
        b, table = self.b, self.low.ctx.axis_index
        known = self.truths(op, x, y, asg)
        if known is not None:
            return b.const(known[0] if len(set(known)) == 1 else known, bool_, len(known))
        base, c, lane, vec = self.split(over_parts(ix.add(y, x, -1), table), asg)
        short = self.as_int32(over_parts(ix.add(y, x, -1), table), asg) if vec is not None else None
        if short is not None:
            return b.op(op, b.const(0, int32, self.width), short)
        if vec is not None and vec.lanes == 1 and lane and fits(self.span(over_parts(ix.add(y, x, -1), table))):
            scalar = b.op("cast", b.op("add", vec, self.low.scalar(base, c)), dtype=int32)
            return b.op(op, b.multiples(-lane, self.width, int32), b.splat(scalar, self.width))
        if vec is not None:
            return b.op(op, b.const(0), self.join(self.low.scalar(base, c), lane, vec))
        if not lane:
            return b.op(op, b.const(0), self.low.scalar(base, c))
        if self.low.sched.target.kind == "gpu" and self._alike(op, base, c, lane):
            return b.splat(b.op(op, b.const(0), self.low.scalar(base, c)), self.width)
        reach = abs(lane) * self.width + 1
        if not fits((-reach, reach)):
            return b.op(op, b.const(0), self.join(self.low.scalar(base, c), lane, None))
        at = ix.minmax("max", const(-reach), ix.minmax("min", const(reach), ix.mul(ix.add(base, const(c)), const(-1))))
        scalar = b.op("cast", self.low.scalar(at), dtype=int32)
        return b.op(op, b.splat(scalar, self.width), b.multiples(lane, self.width, int32))


def unbounded(src: tuple[Node, ...]) -> bool:
    """Whether two 64-bit integers are data, whose difference (by which places are compared) may not fit 64 bits."""
    lo, hi = ix.bounds(ix.add(src[1], src[0], -1))
    return lo <= -ix.BIG or hi >= ix.BIG


class Bounds(Indices):
    """The part of a NestEval that knows the masks."""

    def __init__(self, low: Lowering, nest: Nest, vectors: Vectors) -> None:
        super().__init__(low, nest, vectors)
        self._bounds()

    def _bounds(self) -> None:
        """How loads keep inside the extents of masked axes, now that the lanes are known."""
        s = self.low.sched
        masked = [a for a in self.nest.all_axes if self.low.masked(a)]
        self.lane_masked = next((a for a in masked if self.lane is not None and a is self.lane.axis), None)
        self.scalar_masked = [a for a in masked if a is not self.lane_masked]
        # loads clamp masked axes to a valid element: what they then compute is never stored
        self._clamp = {a: ix.minmax("min", s.plans[a].index, ix.add(as_node(s.plans[a].extent), const(-1))) for a in self.scalar_masked}
        self._index = PartTable({**self.low.ctx.axis_index, **self._clamp}) if self._clamp else self.low.ctx.axis_index

    def nowhere(self, conds: Sequence[Node], asg: Assignment) -> bool:
        """Whether nothing has to be done for a point, because one of some conditions is known to be false. (What a
        nest fills on its way, others read in whole vectors.)"""
        return not self.nest.fills and any(not any(t) for t in self._known(conds, asg))

    def missing(self, conds: Sequence[Node], asg: Assignment) -> set[int]:
        """The lanes that have no point, because one of some conditions is known to be false there: their places may lie outside."""
        return {i for t in self._known(conds, asg) for i in range(self.width) if not t[i % len(t)]}

    def undecided(self, conds: Sequence[Node], asg: Assignment) -> list[Node]:
        """Those of some conditions of which nobody knows before the code runs where they hold: lanes that are not `missing` have the rest."""
        return [c for c in conds if self._truth(c, asg) is None]

    def _known(self, conds: Sequence[Node], asg: Assignment) -> list[tuple[bool, ...]]:
        """In which lanes conditions hold (or once, where that is the same in all), of those that are known before anything runs."""
        return [t for c in conds if (t := self._truth(c, asg)) is not None]

    def _truth(self, c: Node, asg: Assignment) -> tuple[bool, ...] | None:
        return self.truths(c.op, c.src[0], c.src[1], asg) if c.op == "lt" and c.src[0].dtype is index else None

    def conditions(self, over: tuple[Node, ...] | None = None) -> list[Node]:
        """What must hold for the nest's point over some of its axes (the spatial ones if not given) to exist, where
        register copies or threads reach past an extent, and for this thread to be the one that stores it."""
        over = self.nest.axes if over is None else over
        axes = [a for a in (self.lane_masked, *self.scalar_masked) if a is not None and a in over]
        return [self.low.bound(a) for a in axes] + self.one_thread(over)

    def guards(self, array: Array, axes: tuple[Node, ...]) -> list[Node]:
        """What must hold for this thread to write its points over `axes` to an array."""
        if array.param:
            return self.conditions(axes)
        return self.one_thread(axes) if array.mem.space == "shared" else []

    def one_thread(self, axes: tuple[Node, ...]) -> list[Node]:
        """Threads that differ only along axes which are not among `axes` compute the same points: the first of them acts."""
        mine = self.low.sched.shared_by(axes)
        return [ix.compare("lt", t.var, const(1)) for t in self.low.sched.threads if t not in mine]
