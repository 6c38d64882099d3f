"""Vectors that count with a loop: the places of its elements, as masks, one-hot rows and hashes of places want them.

Each iteration would move the loop's number to a vector register, spread it over the lanes and add what lanes differ by. A vector that is
carried through the loop takes one addition, and what differs from it by constants one more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...ir.dtypes import DType, index
from ...program.program import Block, For, If, Instr, Program, Stmt, Val, bodies, statements

MOST = 4
"""Vectors that a loop carries so at most: each takes a register."""


@dataclass(frozen=True, slots=True)
class Linear:
    """`times` · the loop's number + the sum of `rest` + `plus`."""

    times: int
    rest: tuple[Val, ...]
    plus: int


@dataclass(frozen=True, slots=True)
class Counter:
    """A vector that counts: `instr` makes it of a number that is linear in the loop's, and the vector `lanes` or none is added."""

    instr: Instr
    value: Linear
    lanes: Val | None


def carry(program: Program) -> bool:
    """Carry such vectors. False where there are none."""
    last = max((v.id for phase in program.phases for v in _values(phase.body.stmts)), default=0)
    made = _Carrier(last)
    for phase in program.phases[program.once :]:
        made.block(phase.body)
    return made.touched


class _Carrier:
    """Rewrites loops; `last` is the largest number of a value."""

    def __init__(self, last: int) -> None:
        self.last, self.touched = last, False
        self.known: dict[Val, Instr] = {}

    def block(self, block: Block) -> None:
        """The loops in a block that have none themselves."""
        self.known |= {s.out: s for s in block.stmts if isinstance(s, Instr) and s.out is not None}
        for s in list(block.stmts):
            if isinstance(s, For) and not s.once and not any(isinstance(x, For) for x in statements(s.body)):
                self._loop(block, s)
            elif not isinstance(s, Instr):
                for body in bodies(s):
                    self.block(body)

    def _loop(self, block: Block, loop: For) -> None:
        inside = {s.out: s for s in loop.body.stmts if isinstance(s, Instr) and s.out is not None}
        found = list(self._counters(loop, inside))
        groups: dict[tuple[int, tuple[Val, ...], DType, int, Val | None], list[Counter]] = {}
        for c in found:
            groups.setdefault((c.value.times, c.value.rest, c.instr.result.dtype, c.instr.result.lanes, c.lanes), []).append(c)
        for group in list(groups.values())[:MOST]:
            self._carried(block, loop, group)
        if found:
            self.touched = True
            _sweep(loop)

    def _counters(self, loop: For, inside: dict[Val, Instr]) -> Iterator[Counter]:
        """What counts in a loop: sums of a spread number and a vector from outside; spread numbers that others use."""
        sums: dict[Val, list[Instr]] = {}
        other: set[Val] = set(loop.yields)
        for s in statements(loop.body):
            if isinstance(s, Instr):
                spread = [v for v in s.args if v in inside and inside[v].op == "splat"]
                if s.op == "add" and len(spread) == 1 and s in loop.body.stmts and all(v in spread or v not in inside for v in s.args):
                    sums.setdefault(spread[0], []).append(s)
                else:
                    other |= set(spread)
        for v, made in inside.items():
            if made.op != "splat" or not v.dtype.is_int or v.dtype is index or not (v in sums or v in other):
                continue
            value = self._linear(made.args[0], loop, inside)
            if value is None or not value.times:
                continue
            if v in other:
                yield Counter(made, value, None)
            else:
                yield from (Counter(s, value, next(x for x in s.args if x is not v)) for s in sums[v])

    def _linear(self, v: Val, loop: For, inside: dict[Val, Instr]) -> Linear | None:
        """A scalar as a linear function of the loop's number, in the arithmetic that wraps as its type does."""
        if v is loop.var:
            return Linear(1, (), 0)
        s = inside.get(v)
        if s is None:
            c = _number(self.known.get(v))
            return (Linear(0, (v,), 0) if c is None else Linear(0, (), c)) if v not in loop.carried else None
        if s.op == "const":
            c = _number(s)
            return None if c is None else Linear(0, (), c)
        parts = [self._linear(a, loop, inside) for a in s.args] if s.op in ("add", "sub", "mul", "cast") else [None]
        if any(p is None for p in parts) or not s.args[0].dtype.is_int:
            return None
        x, *more = [p for p in parts if p is not None]
        if s.op == "cast":  # (what wraps in fewer bits is linear still; in more it is not)
            return (
                x if v.dtype.is_int and v.dtype.size <= s.args[0].dtype.size and all(r.dtype is s.args[0].dtype for r in x.rest) else None
            )
        (y,) = more
        if s.op == "add":
            return Linear(x.times + y.times, (*x.rest, *y.rest), x.plus + y.plus)
        if s.op == "sub" and not y.rest:
            return Linear(x.times - y.times, x.rest, x.plus - y.plus)
        if s.op == "mul":
            for one, two in ((x, y), (y, x)):
                if not two.times and not two.rest and not one.rest:
                    return Linear(one.times * two.plus, (), one.plus * two.plus)
        return None

    def _carried(self, block: Block, loop: For, group: Sequence[Counter]) -> None:
        """Carry the first of a group, and make the others of it."""
        first = group[0]
        out, before = first.instr.result, block.stmts.index(loop)
        depth = loop.var.depth - 1
        start: list[Stmt] = []
        total = (
            loop.lo
            if first.value.times == 1
            else self._made(start, "mul", loop.lo, self._const(start, first.value.times, loop.lo, depth), depth)
        )
        for r in first.value.rest:
            total = self._made(start, "add", total, self._cast(start, r, total.dtype, depth), depth)
        total = self._made(start, "add", total, self._const(start, first.value.plus, total, depth), depth)
        scalar = self._cast(start, total, out.dtype, depth)
        vector = self._value(out.dtype, out.lanes, depth)
        start.append(Instr("splat", vector, (scalar,)))
        init = vector if first.lanes is None else self._made(start, "add", vector, first.lanes, depth)
        step = self._const(start, first.value.times * loop.step, out, depth)
        carried, after, result = (self._value(out.dtype, out.lanes, d) for d in (depth + 1, depth + 1, depth))
        differences = [(c, self._const(start, c.value.plus - first.value.plus, out, depth)) for c in group[1:]]
        block.stmts[before:before] = start
        for c, by in differences:
            c.instr.op, c.instr.args, c.instr.attr = "add", (carried, by), None
        loop.body.stmts.remove(first.instr)
        loop.body.stmts.append(Instr("add", after, (carried, step)))
        _replace(loop, out, carried)
        # (new lists: what a loop gives may be the very list of what one around it yields)
        loop.init, loop.carried = [*loop.init, init], [*loop.carried, carried]
        loop.yields, loop.results = [*loop.yields, after], [*loop.results, result]
        self.known |= {s.out: s for s in start if isinstance(s, Instr) and s.out is not None}

    def _value(self, dtype: DType, lanes: int, depth: int) -> Val:
        self.last += 1
        return Val(self.last, dtype, lanes, depth)

    def _made(self, into: list[Stmt], op: str, a: Val, b: Val, depth: int) -> Val:
        out = self._value(a.dtype, a.lanes, depth)
        into.append(Instr(op, out, (a, b)))
        return out

    def _const(self, into: list[Stmt], number: int, like: Val, depth: int) -> Val:
        bits = 8 * like.dtype.size
        wrapped = number % (1 << bits)
        out = self._value(like.dtype, like.lanes, depth)
        signed = wrapped - (1 << bits) if like.dtype.kind != "u" and wrapped >> (bits - 1) else wrapped
        into.append(Instr("const", out, (), signed))
        return out

    def _cast(self, into: list[Stmt], v: Val, dtype: DType, depth: int) -> Val:
        if v.dtype is dtype:
            return v
        out = self._value(dtype, 1, depth)
        into.append(Instr("cast", out, (v,)))
        return out


def _number(s: Instr | None) -> int | None:
    """The number of a constant."""
    if s is None or s.op != "const" or not isinstance(s.attr, int) or isinstance(s.attr, bool):
        return None
    return s.attr


def _replace(loop: For, old: Val, new: Val) -> None:
    """Read one value in place of another, in a loop."""
    for s in statements(loop.body):
        if isinstance(s, Instr):
            s.args = tuple(new if v is old else v for v in s.args)
        elif isinstance(s, If):
            s.cond = new if s.cond is old else s.cond
        elif isinstance(s, For):
            s.init, s.yields = ([new if v is old else v for v in vs] for vs in (s.init, s.yields))
    loop.yields = [new if v is old else v for v in loop.yields]


def _sweep(loop: For) -> None:
    """Leave out what nothing reads any more."""
    while True:
        read = {v for s in statements(loop.body) for v in _read(s)} | set(loop.yields)
        kept = [s for s in loop.body.stmts if not isinstance(s, Instr) or s.out is None or s.out in read]
        if len(kept) == len(loop.body.stmts):
            return
        loop.body.stmts = kept


def _read(s: Stmt) -> Sequence[Val]:
    if isinstance(s, Instr):
        return s.args
    if isinstance(s, If):
        return (s.cond,)
    return (*s.init, *s.yields, s.lo, s.hi) if isinstance(s, For) else ()


def _values(stmts: Sequence[Stmt]) -> Iterator[Val]:
    for s in stmts:
        if isinstance(s, Instr):
            if s.out is not None:
                yield s.out
        else:
            if isinstance(s, For):
                yield from (s.var, *s.carried, *s.results)
            for body in bodies(s):
                yield from _values(body.stmts)
