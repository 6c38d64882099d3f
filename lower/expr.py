"""Evaluates the expressions of one nest: each once for every assignment of its register parts, with one part as lanes.

Memoising on (node, the assignments it depends on) makes equal loads and subexpressions collapse by themselves."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from math import floor
from operator import and_
from typing import Any

from ..ir import index as ix
from ..ir.buffer import load_parts
from ..ir.dtypes import DType, bool_, float32, index, int32, rounded
from ..ir.dtypes import dtype as named
from ..ir.index import Interval
from ..ir.integer_ranges import float_range, value_range
from ..ir.node import FUNCTIONS, INTEGER, PAIRED, Node, axes_of, pending, walk
from ..ir.operators import depth
from ..ir.skipped_tiles import conjuncts
from ..opts.axis_plan import Part
from ..opts.lanes import Vectors, vectors
from ..opts.nests import Nest
from ..opts.staging import beyond_bounds
from ..program.builder import Builder
from ..program.program import Mem, Val
from ..targets import Target
from .access.memory_access import MemoryAccess, read_masked
from .access.transpose import LEAST, rows_of, transposed_read
from .arithmetic import elementary, shortcuts
from .arithmetic.binary_functions import expand_binary
from .indices import unbounded
from .lowering import Lowering
from .part_index import over_parts, parts_index, reads_memory
from .staged import tile_read
from .storage import Array, Assignment, Registers

# integers -------------------------------------------------------------------------------------------------------------
#
# Shifts and divisions of integers by a value, as `ir.operators.integer` defines them, built from operations that
# Programs have.


NAMES = frozenset({"shl", "shr", "floordiv", "remainder"})
VECTORS = frozenset({"sse41", "neon"})
"""Processors that turn vectors of 32-bit integers into floats and back, one instruction each way."""
EXACT = 1 << 21
"""Up to here the product with an inverse in float32, of twice 2**-24 of its size too much or too little (three times without fused
products), is nearer to the quotient of x + 1/2 than a whole number can be."""


def expand(b: Builder, op: str, x: Val, y: Val, by: Node, dividend: Interval) -> Val:
    """`op` (one of NAMES) of `x` and `y`, scalars or vectors of one integer type; `by` is the expression that `y` is made of, and
    `dividend` has all values of `x`."""
    lanes = max(x.lanes, y.lanes)
    x, y = b.splat(x, lanes), b.splat(y, lanes)
    if op in ("shl", "shr"):
        return _shift(b, op, x, y, value_range(by))
    known = rounded(by.arg, x.dtype) if by.op == "const" else None
    if known is not None and known > 0:
        return _by_constant(b, op, x, known, dividend)
    return _divide(b, op, x, y)


def _by_constant(b: Builder, op: str, x: Val, by: int, dividend: Interval) -> Val:
    """A quotient or rest of a division by a positive constant: in floats where few values make that exact, since vectors of 32 bits have no
    instruction for the upper half of a product; else without a sign where none is needed, which saves corrections."""
    low, high = dividend
    up = max(0, -(low // by))  # so many times `by` more, and no dividend is negative
    dtype, whole = x.dtype, high + up * by
    plain = not b.expand or by & (by - 1) == 0
    if not plain and b.features & VECTORS and dtype.size == 4 and x.lanes > 1 and max(-low, whole, by) <= EXACT:
        inverse = _single(1.0 / by)
        floats = b.op("cast", b.op("cast", x, dtype=int32), dtype=float32)
        near = b.op("fma", floats, _float(b, inverse, x), _float(b, _single((up * by + 0.5) * inverse), x))
        quotient = b.op("cast", near, dtype=int32)
        quotient = b.op("cast", b.op("sub", quotient, _number(b, up, quotient)) if up else quotient, dtype=dtype)
        return quotient if op == "floordiv" else b.op("sub", x, b.op("mul", quotient, _number(b, by, x)))
    if not plain and dtype.kind == "i" and dtype.size >= 2 and (not up or x.lanes > 1) and whole < 1 << 8 * dtype.size:
        unsigned = named(f"uint{8 * dtype.size}")
        found = b.op("cast", b.op("add", x, _number(b, up * by, x)) if up else x, dtype=unsigned)
        found = b.op("cast", b.op("idiv" if op == "floordiv" else "imod", found, attr=by), dtype=dtype)
        return b.op("sub", found, _number(b, up, found)) if up and op == "floordiv" else found
    return b.op("idiv" if op == "floordiv" else "imod", x, attr=by)


def _single(value: float) -> float:
    """A number as float32 holds it."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def _float(b: Builder, value: float, like: Val) -> Val:
    return b.const(value, float32, like.lanes)


def _shift(b: Builder, op: str, x: Val, y: Val, amounts: Interval) -> Val:
    bits, dtype = 8 * x.dtype.size, x.dtype
    if amounts[0] >= 0 and amounts[1] < bits:
        return b.op(op, x, y)
    inside = b.op("lt", y, _number(b, bits, x))
    if dtype.kind == "i":
        inside = b.op("and", inside, b.op("le", _number(b, 0, x), y))
    if op == "shr" and dtype.kind == "i":
        return b.op("shr", x, b.op("select", inside, y, _number(b, bits - 1, x)))
    zero = _number(b, 0, x)
    return b.op("select", inside, b.op(op, x, b.op("select", inside, y, zero)), zero)


def _divide(b: Builder, op: str, x: Val, y: Val) -> Val:
    zero = _number(b, 0, x)
    none = b.op("eq", y, zero)
    # a divisor that is never 0, so that the corrections below need not look
    by = b.op("select", none, _number(b, 1, x), y)
    quotient = b.op("quot", x, by)
    if x.dtype.kind == "u":
        out = quotient if op == "floordiv" else b.op("sub", x, b.op("mul", quotient, by))
        return b.op("select", none, zero, out)
    rest = b.op("sub", x, b.op("mul", quotient, by))
    # rounded towards 0: one too large where the remainder has not the divisor's sign
    wrong = b.op("and", b.op("ne", rest, zero), b.op("lt", b.op("xor", rest, by), zero))
    if op == "floordiv":
        out = b.op("sub", quotient, b.op("select", wrong, _number(b, 1, x), zero))
    else:
        out = b.op("add", rest, b.op("select", wrong, by, zero))
    return b.op("select", none, zero, out)


def _number(b: Builder, value: int, like: Val) -> Val:
    dtype: DType = like.dtype
    return b.const(value, dtype, like.lanes)


NEAR = float(1 << 30)
"""Places that int32 holds, with room for what rounding adds."""


def float_places(b: Builder, node: Node, x: Val, target: Target) -> Val | None:
    """The cast `node` of a vector of floats `x` to places, by way of int32, of which processors convert a vector at a time; None where they may
    not fit, or it is something else. (What is no number becomes the least int32, and is brought inside.)"""
    if node.dtype is not index or not x.dtype.is_float or x.lanes == 1 or not b.expand or target.kind == "gpu":
        return None
    low, high = float_range(node.src[0])
    if not -NEAR <= low <= high <= NEAR:
        return None
    return b.op("cast", b.op("max", b.op("cast", x, dtype=int32), b.const(floor(low), int32, x.lanes)), dtype=index)


# expr -----------------------------------------------------------------------------------------------------------------


def lanes_of(low: Lowering, nest: Nest, extra: Sequence[Node] = ()) -> Vectors:
    """The register parts of a nest that are not open as loops, and its lanes; `extra`: further expressions that are evaluated in it."""
    if any(n is nest for n in low.sched.nests):
        found = low.sched.lanes(nest)
        return replace(found, regs=[p for p in found.regs if p.name not in low.scope.opened])

    def held(name: str) -> Sequence[int | Node] | Part | None:
        found = low.storage.values.get(name)
        return found.strides if isinstance(found, Array) else found.lane if found is not None else None

    return vectors(low.sched, nest, [*nest.evaluated, *extra], held)


def terms(rule: Sequence[Node]) -> frozenset[Node]:
    """The products of floats in the rule of a scan that are a term of one sum or difference and of nothing else, the other term being none:
    what a state was times a factor, and what is added to it."""
    uses = Counter(rule)
    for n in walk(*rule):
        uses.update(n.src)
    found = set()
    for n in walk(*rule):
        if n.op in ("add", "sub") and n.dtype.is_float:
            products = [s for s in n.src if s.op == "mul"]
            found |= {p for p in products if len(products) == 1 and uses[p] == 1}
    return frozenset(found)


EXPANDED = FUNCTIONS | {"trunc"}
"""What is written out as simpler operations, but in the twin."""
DEEP = 32
"""Expressions of more than twice as many operators one inside the other are evaluated by parts of so many."""


class NestEval(MemoryAccess):
    """Expression emitter for `nest` at the builder's current position. `extra`: further expressions that are evaluated, which count
    when the lanes are chosen; `vectors`: the lanes, where they are given."""

    def __init__(self, low: Lowering, nest: Nest, extra: Sequence[Node] = (), vectors: Vectors | None = None) -> None:
        super().__init__(low, nest, lanes_of(low, nest, extra) if vectors is None else vectors)
        self._memo: dict[Any, Val] = {}
        self._climbing = False
        self._deps: dict[Node, tuple[str, ...]] = {}
        self._address: dict[Node, tuple[Mem, Node, Node | None, bool]] = {}
        self._joined: frozenset[Node] = frozenset()

    def reset(self) -> None:
        """Forget emitted values (the enclosing blocks changed), and which points exist."""
        self._memo.clear()
        self.blocks.clear()
        self._address.clear()
        self._bounds()

    def assignments(self, parts: Sequence[Part]) -> list[Assignment]:
        """Every assignment of `parts`, the last varying fastest; the lane part counts vectors."""
        out: list[Assignment] = [{}]
        for p in parts:
            n = p.trips // self.width if p is self.lane else p.trips
            out = [{**a, p.name: i} for a in out for i in range(n)]
        return out

    # values -------------------------------------------------------------------------------------------------------
    def value(self, node: Node, asg: Assignment) -> Val:
        """The value of an expression over axes; a vector where it varies along the lanes."""
        key = (node, *(asg[n] for n in self.depends(node)))
        found = self._memo.get(key)
        if found is None:
            deep = not self._climbing and depth(node) > 2 * DEEP
            found = self._memo[key] = self._climb(node, asg) if deep else self._value(node, asg)
        return found

    def with_given(self, given: Mapping[Node, Val], nodes: Sequence[Node]) -> list[Val]:
        """Expressions over placeholders that have these values, and over nothing else: the rule of a scan, which accumulates."""
        known, self._memo = self._memo, {(n,): v for n, v in given.items()}
        self._joined = terms(nodes)
        found = [self.value(n, {}) for n in nodes]
        self._memo, self._joined = known, frozenset()
        return found

    def _climb(self, root: Node, asg: Assignment) -> Val:
        """The value of a deep expression: what is below it is evaluated first, at intervals of DEEP from the bottom up, so that no
        recursion is deep. All of it is walked through once, here, and not again for each part that is not at such an interval."""
        self._climbing = True
        seen: set[Node] = set()
        try:
            for n in pending(root, lambda n: n in seen or n.dtype is index or n.op in ("load", "ref")):
                seen.add(n)
                for s in n.src:
                    if s in seen and DEEP < depth(s) // DEEP * DEEP < depth(n) // DEEP * DEEP:
                        self.value(s, asg)
            return self._value(root, asg)
        finally:
            self._climbing = False

    def _value_of_load(self, node: Node, asg: Assignment) -> Val:
        """The value of an expression that is no operand, but belongs to a load: no climb has walked through it."""
        before, self._climbing = self._climbing, False
        found = self.value(node, asg)
        self._climbing = before
        return found

    def depends(self, node: Node) -> tuple[str, ...]:
        """The register parts that an expression varies with."""
        found = self._deps.get(node)
        if found is None:
            axes = axes_of(node)
            found = self._deps[node] = tuple(p.name for p in self.regs if p.axis in axes or p.var in axes)
        return found

    def _value(self, node: Node, asg: Assignment) -> Val:
        op, b = node.op, self.b
        if op == "const":
            return b.const(node.arg, node.dtype)
        if op == "load":
            return self._load(node, asg)
        if op == "ref":
            return self._ref(node, asg)
        if node.dtype is index and op not in ("where", "cast") and op not in INTEGER:
            return self.index(over_parts(node, self.low.ctx.axis_index), asg)
        if op in ("lt", "le", "eq", "ne") and node.src[0].dtype is index and not unbounded(node.src):
            out = self._compare(op, node.src[0], node.src[1], asg)
            if node in self.low.scope.begun and not any(asg.get(p.name) for p in self.regs if p.axis in self.nest.reduce_axes):
                b.begun.add(out)
            return out
        if op == "add" and not self._joined.isdisjoint(node.src):
            x, y = node.src if node.src[1] in self._joined else node.src[::-1]
            return b.op("fma", *(self.value(s, asg) for s in y.src), self.value(x, asg))
        if op == "sub" and not self._joined.isdisjoint(node.src):
            x, y = node.src
            if y in self._joined:
                p, q = (self.value(s, asg) for s in y.src)
                return b.op("fma", b.op("neg", p), q, self.value(x, asg))
            return b.op("fma", *(self.value(s, asg) for s in x.src), b.op("neg", self.value(y, asg)))
        if op in shortcuts.KINDS and b.expand:
            found = shortcuts.KINDS[op](b, node, lambda n: self.value(n, asg))
            if found is not None:
                return found
        if op == "where" and self.selected(node) is not node:
            return self.value(self.selected(node), asg)
        if op == "where" and not self.fills_in(node):
            known = b.truth(self.value(node.src[0], asg))
            if known is not None:  # such as which component of a pair this is
                return self.value(node.src[1 if known else 2], asg)
            usual = shortcuts.ordinary_case(b, node, lambda n: self.value(n, asg))
            if usual is not None:
                return usual
        if op == "cast" and node.src[0].dtype is index and not reads_memory(node.src[0]):
            short = self.as_int32(over_parts(node.src[0], self.low.ctx.axis_index), asg)
            if short is not None:
                return b.op("cast", short, dtype=node.dtype)
        args = [self.value(s, asg) for s in node.src]
        if op == "cast":
            return float_places(b, node, args[0], self.low.sched.target) or b.op("cast", args[0], dtype=node.dtype)
        if op == "where":
            return b.op("select", *args, dtype=node.dtype)
        if op in NAMES:
            return expand(b, op, args[0], args[1], node.src[1], self.low.ctx.range(node.src[0]))
        if op in EXPANDED and b.expand:
            return elementary.expand(b, op, args[0])
        if op in PAIRED:
            return expand_binary(b, op, args[0], args[1])
        return b.op(op, *args, dtype=node.dtype)

    def fills_in(self, node: Node) -> bool:
        """Whether what is kept on the way would be left out with a part of `node` (others read it in whole vectors)."""
        return bool(self.nest.fills) and any(n.op == "ref" and n.arg in self.nest.fills for n in walk(*node.src[1:]))

    # memory -------------------------------------------------------------------------------------------------------
    def _load(self, node: Node, asg: Assignment) -> Val:
        found = self._address.get(node)
        if found is None:
            found = self._address[node] = self.locate(node)
        mem, address, mask, invariant = found
        buffer, indices, bounds = load_parts(node)
        staged = self.low.staged(buffer.name, self.nest)
        if staged is None and bounds is None:
            past = [a for a in (self.lane_masked, *self.scalar_masked) if a is not None and a in axes_of(*indices)]
            columns = transposed_read(self, mem, self.low.ctx.address(buffer.name, indices), asg, invariant, past) if past else None
            if columns is not None:
                return columns
        held = mask is not None and staged is None and self.mask_holds(mask)
        if held:  # (read where it stands: nothing else says that there is an element)
            invariant = False
        m = None if mask is None else self.b.const(True, bool_) if held else self._value_of_load(mask, asg)
        if staged is None or m is not None or mem.space != "shared":
            return read_masked(self, node, mem, address, asg, (mask, m), invariant)
        part = tile_read.neighbours(self, staged[0], mem, address, asg)
        if part is None:
            return tile_read.read(self, staged[0], mem, address, asg)
        # copies that are neighbours in the tile are read as one vector
        first = {**asg, part.name: 0}
        key = ("tile", node, *(first[n] for n in self.depends(node)))
        if key not in self._memo:
            self._memo[key] = tile_read.read(self, staged[0], mem, address, first, part.trips)
        return self.b.extract(self._memo[key], asg[part.name])

    def locate(self, node: Node) -> tuple[Mem, Node, Node | None, bool]:
        """(memory, element index over parts, mask over axes, whether read-only) of a load."""
        buffer, indices, mask = load_parts(node)
        staged = self.low.staged(buffer.name, self.nest)
        if staged is not None:
            plan, mem = staged
            if not plan.box:
                return mem, parts_index(plan.parts), self._told_apart(mask), False
            at = [over_parts(i, self.low.ctx.axis_index) for i in indices]
            address = plan.offset
            for d, base, _, stride in plan.box:
                address = ix.add(address, ix.add(at[d], base, -1), stride)
            sched = self.low.sched
            left = beyond_bounds(sched, buffer, tuple(sched.at_parts(i) for i in indices), mask)
            told = self._told_apart(mask)
            return mem, address, left if told is None else told if left is None else left & told, False
        address = self.low.ctx.address(buffer.name, indices, self._index)
        # the address is of the clamped point, the mask of the other one: it must not hold past the extent
        for a in self.scalar_masked:
            if mask is not None and a in axes_of(mask):
                mask = mask & self.low.bound(a)
        if self.lane_masked is not None and self.lane_masked in axes_of(*indices):
            mask = self.low.bound(self.lane_masked) if mask is None else mask & self.low.bound(self.lane_masked)
        return self.low.param(buffer.name), address, mask, True

    def _told_apart(self, mask: Node | None) -> Node | None:
        """What of a mask is known of each register copy: a tile holds zeros there, but products with them are left out."""
        if mask is None or self.low.sched.group > 1:
            return None
        plans, lane = self.low.sched.plans, self.lane
        told = [
            c
            for c in conjuncts(mask)
            if axes_of(c) and all((lane is None or a is not lane.axis) and not any(p.loop for p in plans[a].parts) for a in axes_of(c))
        ]
        return reduce(and_, told) if told else None

    def _ref(self, node: Node, asg: Assignment) -> Val:
        name = node.arg
        if name in self.nest.fills:
            return self._fill(name, asg)
        store = self.low.storage.values[name]
        if not isinstance(store, Array):
            return self.registers(store, asg)
        found = self._address.get(node)
        if found is None or found[0] is not store.mem:
            found = self._address[node] = self._kept_at(store, node)
        mem, address, mask, _ = found
        return self.read(mem, address, asg, None if mask is None else self.value(mask, asg), kept=store)

    def _kept_at(self, store: Array, node: Node) -> tuple[Mem, Node, Node | None, bool]:
        """As `locate`, of a value that is kept in an array."""
        plans = self.low.sched.plans
        mine = [store.own and plans[a].shared for a in store.axes]
        padded = not store.param and all(own or self._padded(a, i) for own, a, i in zip(mine, store.axes, node.src))
        table = self.low.ctx.axis_index if padded else self._index
        indices = tuple(plans[i].own if own else over_parts(i, table) for own, i in zip(mine, node.src))
        past = None if padded or self.lane_masked not in axes_of(*node.src) else self.lane_masked
        return store.mem, store.address(indices), None if past is None else self.low.bound(past), False

    def _padded(self, axis: Node, index: Node) -> bool:
        """Whether the array's register copies along `axis` filled whatever ours read at `index` past the extent."""
        plans = self.low.sched.plans
        mine = [a for a in axes_of(index) if self.low.masked(a)]
        if not mine or index is axis:
            return True
        if index.op != "axis":
            return False
        ours, theirs, extent = plans[index].block, plans[axis].block, plans[axis].extent
        return theirs % ours == 0 or (isinstance(extent, int) and -(-extent // ours) * ours <= -(-extent // theirs) * theirs)

    def registers(self, store: Registers, asg: Assignment) -> Val:
        """A register value under this nest's assignment and lanes."""
        b, lane, held = self.b, self.lane, store.lane

        def single(at: Assignment) -> Val:
            if held is None:
                return store.vals[store.key(at)]
            vector, element = divmod(at[held.name], store.width)
            return b.extract(store.vals[store.key({**at, held.name: vector})], element)

        if lane is None or all(p.name != lane.name for p in store.regs):
            return single(asg)
        if held is lane:
            return store.vals[store.key(asg)]
        first = asg[lane.name] * self.width  # held as scalars, or along other lanes: collect one vector along ours
        if held is not None and min(self.width, store.width) >= LEAST and self.low.sched.target.kind == "cpu":
            vector, row = divmod(asg[held.name], store.width)
            keys = [store.key({**asg, held.name: vector, lane.name: first + i}) for i in range(self.width)]
            if store.vals[keys[0]].dtype.size >= 4:
                rows = self.blocks.setdefault((id(store), *keys), [])
                rows += [] if rows else rows_of(b, [store.vals[k] for k in keys])
                return rows[row]
        out = b.splat(single({**asg, lane.name: first}), self.width)
        for i in range(1, self.width):
            out = b.insert(out, single({**asg, lane.name: first + i}), i)
        return out

    def _fill(self, name: str, asg: Assignment) -> Val:
        """A staged value computed by its first reader: kept in its array on the way. (What is loaded under a mask has equal lanes.)"""
        by = self.nest.fills[name]
        key = ("fill", name, *(asg[p.name] for p in self.regs if p.axis in by))
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = self.value(self.nest.filled[name], asg)
            array = self.low.storage.values[name]
            assert isinstance(array, Array)
            lanes = self.lane is not None and self.lane.axis in by
            kept = found if lanes or found.lanes == 1 else self.b.extract(found, 0)
            self.write(array.mem, array.address(self.low.point(array, by)), asg, kept, self.guards(array, by))
        return found
