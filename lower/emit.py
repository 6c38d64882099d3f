"""Emits one nest: its remaining loops, then its body once for every register assignment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..ir import index as ix
from ..ir.errors import OptError
from ..ir.kernel import Scan, Value
from ..ir.node import Node, axes_of, const, placeholder, ref, substitute, walk
from ..opts.nests import FoldItem, Nest, identity
from ..opts.plan_axis import Part
from .expr import NestEval
from .program import Val
from .storage import Array, Assignment, Key, Registers

if TYPE_CHECKING:
    from .lowering import Lowering


def nest(low: Lowering, n: Nest) -> None:
    """Emit a nest under the loops that are open."""
    for name, by in n.fills.items():
        if name not in low.storage:
            low.storage[name] = low.forced.get(name) or low.array(_kept(low, name), by)
    if n.kind in ("store", "init"):
        if n.name not in low.aliased or n.kind == "init":
            through(low, low.remaining(n), lambda: _store(low, n))
    elif n.kind == "reduce":
        _reduce(low, n)
    elif n.kind == "scan":
        _scan(low, n)
    else:
        _point(low, n)


def _kept(low: Lowering, name: str) -> Value:
    return low.sched.kept[name]


def through(low: Lowering, loops: Sequence[Part], body: Callable[[], None]) -> None:
    """Run `body` inside loops over `loops`."""
    if not loops:
        body()
        return
    with low.open(loops[0]):
        through(low, loops[1:], body)


# stores -----------------------------------------------------------------------------------------------------------
def _store(low: Lowering, n: Nest) -> None:
    assert n.store is not None
    ev = NestEval(low, n)
    conds = ev.conditions() + ([] if n.mask is None else [n.mask])
    address = _address(low, n.store.buffer.name, n.indices)
    mem = low.param(n.store.buffer.name)
    values = [(a, None if n.store.combine and n.kind == "store" else ev.value(n.expr, a)) for a in ev.assignments(ev.regs)]
    for asg, v in values:
        if v is None:  # scatter: read, combine, write, in order
            old = ev.read(mem, address, asg, _guard(ev, conds, asg))
            new = low.b.op(n.store.combine or "add", low.b.op("cast", old, dtype=n.expr.dtype) if old.dtype is not n.expr.dtype else old, ev.value(n.expr, asg))
            ev.write(mem, address, asg, new, conds)
        else:
            ev.write(mem, address, asg, v, conds)


def _guard(ev: NestEval, conds: Sequence[Node], asg: Assignment) -> Val | None:
    out: Val | None = None
    for c in conds:
        v = ev.value(c, asg)
        out = v if out is None else ev.b.op("and", out, v)
    return out


def _address(low: Lowering, buffer: str, indices: tuple[Node, ...]) -> Node:
    address = const(0)
    for i, stride in zip(indices, low.strides[buffer]):
        at = substitute(i, low.axis_index)
        address = ix.add(address, at, stride) if isinstance(stride, int) else ix.add(address, ix.mul(at, stride))
    return address


# values -----------------------------------------------------------------------------------------------------------
def _point(low: Lowering, n: Nest) -> None:
    assert n.value is not None
    loops = low.remaining(n)
    if not loops and _identity_reads(low, n):
        ev = NestEval(low, n)
        store = Registers([p for p in ev.regs], ev.lane, ev.width)
        for asg in ev.assignments(ev.regs):
            store.vals[store.key(asg)] = _wide(ev, ev.value(n.expr, asg))
        low.storage[n.name] = store
        return
    array = low.forced.get(n.name) or low.array(n.value, n.axes)
    through(low, loops, lambda: point_body(low, n, [(n.expr, array)]))
    low.storage[n.name] = array


def point_body(low: Lowering, n: Nest, writes: Sequence[tuple[Node, Array]]) -> None:
    """Evaluate every expression, then write every array (so that all read the old state)."""
    ev = NestEval(low, n, [e for e, _ in writes])
    indices = tuple(low.axis_index[a] for a in n.axes)
    done: list[tuple[Array, Assignment, Val]] = []
    for asg in ev.assignments(ev.regs):
        done += [(array, asg, ev.value(e, asg)) for e, array in writes]
    for array, asg, v in done:
        ev.write(array.mem, array.address(indices), asg, v)


def _wide(ev: NestEval, v: Val) -> Val:
    return ev.b.splat(v, ev.width) if ev.lane is not None else v


def _identity_reads(low: Lowering, n: Nest) -> bool:
    """Whether every reader uses the value at exactly its own axes (so it can stay in registers)."""
    if n.name in low.forced:
        return False
    return all(src == n.axes for _, src in low.reads.get(n.name, ()))


def _reduce(low: Lowering, n: Nest) -> None:
    assert n.value is not None and not isinstance(n.value.expr, (Node, Scan))
    combine = n.value.expr.combine
    loops = low.remaining(n)
    empty = any(p.trips == 0 for a in n.reduce_axes for p in low.sched.plans[a].parts) or any(a.arg.extent == 0 for a in n.reduce_axes)
    if empty:
        loops = [p for p in loops if p.axis in n.axes]
    reducing = [p.kind == "fold" or p.axis in n.reduce_axes for p in loops]
    last_spatial = max((i for i, r in enumerate(reducing) if not r), default=-1)
    outer, inner = loops[: last_spatial + 1], loops[last_spatial + 1 :]
    straddled = [p for p, r in zip(outer, reducing) if r]
    in_registers = not outer and _identity_reads(low, n)
    array = None if in_registers else low.forced.get(n.name) or _alias(low, n) or low.array(n.value, n.axes)

    def body() -> None:
        ev = NestEval(low, n)
        acc = _Accumulators(low, n, ev, combine)
        start = [acc.identity() for _ in acc.keys]
        if straddled and not acc.partial:
            assert array is not None
            start = [acc.old(array, k, straddled) for k in acc.spatial]
        final = acc.run(inner, start, empty)
        results = acc.finish(final)
        if straddled and acc.partial:
            assert array is not None
            results = {k: low.b.op(combine, acc.old(array, k, straddled, lane=False), v) for k, v in results.items()}
        if array is None:
            store = Registers([p for p in ev.regs if p.axis in n.axes], acc.lane, ev.width if acc.lane else 1, results)
            low.storage[n.name] = store
        else:
            acc.write(array, results)

    through(low, outer, body)
    if array is not None:
        low.storage[n.name] = array


class _Accumulators:
    """The accumulators of a reduce nest: one for each spatial assignment and each independent partial."""

    def __init__(self, low: Lowering, n: Nest, ev: NestEval, combine: str) -> None:
        self.low, self.n, self.ev, self.combine = low, n, ev, combine
        self.space = [p for p in ev.regs if p.axis in n.axes]
        self.copies = [p for p in ev.regs if p.axis not in n.axes and p.kind == "upcast"]
        self.unrolled = [p for p in ev.regs if p.axis not in n.axes and p.kind == "unroll"]
        self.lane = ev.lane if ev.lane in self.space else None
        self.spatial = ev.assignments(self.space)
        self.partials = ev.assignments(self.copies)
        self.partial = bool(self.copies)
        self.keys = [(s, p) for s in self.spatial for p in self.partials]
        self.dtype = n.expr.dtype
        masked = [a for a in n.reduce_axes if low.sched.plans[a].masked]
        self.masks = [ev.bound(a) for a in masked]

    def identity(self) -> Val:
        """The starting value of an accumulator."""
        start = identity(self.combine, self.dtype)
        return self.low.b.const(start.arg, self.dtype, self.ev.width if self.ev.lane is not None else 1)

    def run(self, loops: Sequence[Part], accs: list[Val], empty: bool) -> list[Val]:
        """Accumulate through the reduce loops."""
        if empty:
            return accs
        if loops:
            with self.low.open(loops[0], accs) as loop:
                loop.yields = self.run(loops[1:], loop.carried, False)
            return loop.results
        self.ev.reset()
        accs = list(accs)
        for u in self.ev.assignments(self.unrolled):
            for i, (s, p) in enumerate(self.keys):
                accs[i] = self._step(accs[i], {**s, **p, **u})
        return accs

    def _step(self, acc: Val, asg: Assignment) -> Val:
        ev, b, expr = self.ev, self.low.b, self.n.expr
        if self.combine == "add" and expr.op == "mul" and expr.dtype.is_float and not self.masks:
            return b.op("fma", ev.value(expr.src[0], asg), ev.value(expr.src[1], asg), acc)
        x = ev.value(expr, asg)
        for m in self.masks:
            x = b.op("select", ev.value(m, asg), x, b.const(identity(self.combine, self.dtype).arg, self.dtype), dtype=self.dtype)
        return b.op(self.combine, acc, x)

    def finish(self, accs: list[Val]) -> dict[Key, Val]:
        """Partials combined pairwise, then lanes along a reduce axis folded."""
        b = self.low.b
        out: dict[Key, Val] = {}
        n = len(self.partials)
        for i, s in enumerate(self.spatial):
            vals = accs[i * n : (i + 1) * n]
            while len(vals) > 1:
                half = (len(vals) + 1) // 2
                vals = [b.op(self.combine, vals[j], vals[j + half]) if j + half < len(vals) else vals[j] for j in range(half)]
            v = vals[0]
            if self.ev.lane is not None and self.lane is None:
                v = _across(low=self.low, v=v, combine=self.combine)
            out[tuple((p.name, s[p.name]) for p in self.space)] = v
        return out

    def old(self, array: Array, key: object, straddled: Sequence[Part], lane: bool = True) -> Val:
        """The accumulator kept in memory, or the identity in the first block."""
        b, ev = self.low.b, self.ev
        asg: Assignment = dict(key) if not isinstance(key, dict) else key
        later: Val | None = None
        for p in straddled:
            c = b.op("ne", self.low.scalar(p.var), b.const(0))
            later = c if later is None else b.op("or", later, c)
        assert later is not None
        conds = ev.conditions() if array.param else []
        mask: Val = later
        for c in conds:
            mask = b.op("and", mask, ev.value(c, asg))
        wide = self.lane is not None
        if wide:
            mask = b.splat(mask, ev.width)
        old = ev.read(array.mem, array.address(self._point()), asg, mask)
        start = b.const(identity(self.combine, self.dtype).arg, self.dtype)
        return b.op("select", b.splat(later, ev.width) if wide else later, old, start, dtype=self.dtype)

    def write(self, array: Array, results: dict[Key, Val]) -> None:
        """Store finished (or partly summed) accumulators."""
        ev = self.ev
        conds = ev.conditions() if array.param else []
        for key, v in results.items():
            ev.write(array.mem, array.address(self._point()), dict(key), v, conds)

    def _point(self) -> tuple[Node, ...]:
        return tuple(self.low.axis_index[a] for a in self.n.axes)


def _across(low: Lowering, v: Val, combine: str) -> Val:
    """One value from all lanes, halving the vector each step."""
    b = low.b
    while v.lanes > 1:
        half = v.lanes // 2
        a = b.shuffle(v, v, tuple(range(half)))
        c = b.shuffle(v, v, tuple(range(half, 2 * half)))
        if half == 1:
            a, c = b.extract(v, 0), b.extract(v, 1)
        v = b.op(combine, a, c)
    return v


def _alias(low: Lowering, n: Nest) -> Array | None:
    """The output itself as the accumulator, when it stores exactly this value and its type needs no rounding."""
    readers = low.reads.get(n.name, [])
    if len(readers) != 1 or n.name in low.merged:
        return None
    store = readers[0][0]
    if store.store is None or store.name in low.sched.held or store.store.combine or store.mask is not None:
        return None
    if store.expr.op != "ref" or store.expr.dtype is not store.store.buffer.dtype or store.expr.src != n.axes:
        return None
    if set(store.indices) != set(n.axes) or len(store.indices) != len(n.axes):
        return None
    low.aliased.add(store.name)
    strides = dict(zip(store.indices, low.strides[store.store.buffer.name]))
    return Array(low.param(store.store.buffer.name), tuple(const(0) for _ in n.axes), tuple(strides[a] for a in n.axes), param=True)


def _scan(low: Lowering, n: Nest) -> None:
    assert n.value is not None and isinstance(n.value.expr, Scan)
    axis, combine, dtype = n.value.expr.axis, n.value.expr.combine, n.expr.dtype
    loops = low.remaining(n)
    array = low.forced.get(n.name) or low.array(n.value, n.axes)
    low.storage[n.name] = array
    first = next((i for i, p in enumerate(loops) if p.axis is axis), len(loops))
    carried = all(p.axis is axis for p in loops[first:])
    start = identity(combine, dtype).arg

    def step(accs: list[Val] | None) -> list[Val]:
        ev = NestEval(low, n)
        point = tuple(low.axis_index[a] for a in n.axes)
        out = []
        for i, asg in enumerate(ev.assignments(ev.regs)):
            if accs is not None:
                old = accs[i]
            else:
                lanes = ev.width if ev.lane is not None else 1
                inside = low.b.op("lt", low.b.const(0), low.scalar(low.axis_index[axis]))
                before = tuple(ix.add(p, const(-1)) if a is axis else p for a, p in zip(n.axes, point))
                old = ev.read(array.mem, array.address(before), asg, low.b.splat(inside, lanes))
                old = low.b.op("select", inside, old, low.b.const(start, dtype), dtype=dtype)
            new = low.b.op(combine, old, ev.value(n.expr, asg))
            out.append(_wide(ev, new))
            ev.write(array.mem, array.address(point), asg, new)
        return out

    def carry(rest: Sequence[Part], accs: list[Val]) -> list[Val]:
        if not rest:
            return step(accs)
        with low.open(rest[0], accs) as loop:
            loop.yields = carry(rest[1:], loop.carried)
        return loop.results

    if carried:

        def body() -> None:
            ev = NestEval(low, n)
            lanes = ev.width if ev.lane is not None else 1
            carry(loops[first:], [low.b.const(start, dtype, lanes) for _ in ev.assignments(ev.regs)])

        through(low, loops[:first], body)
    else:
        through(low, loops, lambda: step(None) and None)


# folds ------------------------------------------------------------------------------------------------------------
def fold(low: Lowering, item: FoldItem) -> None:
    """A fold: its block once, or for each tile with the states merged."""
    f = item.fold
    cut = next((low.sched.plans[a].fold for n in item.nests for a in n.all_axes if low.sched.plans[a].fold), None)
    if cut is None:
        low.emit_items(list(item.nests))
        return
    parts = {c: f.component(c) for c in f.components}
    state: dict[str, Array] = {}
    for c, v in parts.items():
        state[c] = low.array(v, v.axes)
    by_axes: dict[tuple[Node, ...], list[str]] = {}
    for c, v in parts.items():
        by_axes.setdefault(v.axes, []).append(c)
    groups = sorted(by_axes.items(), key=lambda g: -len(g[0]))
    for axes, names in groups:
        start = [(f.monoid.identity[f.components.index(c)], state[c]) for c in names]
        n = Nest(f"{f.name}.start", "point", axes, (), start[0][0])
        through(low, low.remaining(n), lambda n=n, start=start: point_body(low, n, start))  # type: ignore[misc]
    table: dict[Node, Node] = {}
    for c, v in parts.items():
        low.storage[f"{f.name}.{c}"] = state[c]
        table[placeholder(f"a.{c}", v.dtype)] = ref(f"{f.name}.{c}", v.axes, v.dtype)
        table[placeholder(f"b.{c}", v.dtype)] = ref(c, v.axes, v.dtype)
    with low.open(cut):
        inside = dict(low.storage)
        low.emit_items(list(item.nests))
        for axes, names in groups:
            writes = [(substitute(f.monoid.merge[f.components.index(c)], table), state[c]) for c in names]
            n = Nest(f"{f.name}.merge", "point", axes, (), writes[0][0])
            _check_ranks(f.name, axes, writes)
            through(low, low.remaining(n), lambda n=n, writes=writes: point_body(low, n, writes))  # type: ignore[misc]
        low.storage = inside
    for c in parts:
        low.storage[c] = state[c]


def _check_ranks(name: str, axes: tuple[Node, ...], writes: Sequence[tuple[Node, Array]]) -> None:
    for e, _ in writes:
        if axes_of(*(s for w in walk(e) for s in w.src)) - set(axes):
            raise OptError(f"fold {name}: a merge uses a component with more axes than its own")
