"""Vectors that count with a loop, as masks, one-hot rows and hashes of indices want them, are carried through it.

Each iteration would move the loop's number to a vector register, spread it over the lanes and add what lanes differ by. A carried
vector takes one addition, and what differs from it by constants one more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ...ir.dtypes import DType, index
from ...program.facts import DefUse, Facts, Rule, lifted
from ...program.program import Block, For, Instr, Program, Stmt, Val, bodies, statements
from .scheduling import drop_unread, replace_value

MOST = 4
"""Vectors that a loop carries so at most: each takes a register."""


@dataclass(frozen=True, slots=True)
class Linear:
    """`times` · the loop's number + the sum of `rest` + `plus`."""

    times: int
    rest: tuple[Val, ...]
    plus: int


class LoopNumbers(Facts["Linear | None"]):
    """Scalars as linear functions of a loop's number, in the arithmetic that wraps as their type does. None: they are not."""

    def __init__(self, loop: For, uses: DefUse) -> None:
        super().__init__({s.out: s for s in loop.body.stmts if isinstance(s, Instr) and s.out is not None})
        self.uses = uses
        self.known |= {loop.var: Linear(1, (), 0), **dict.fromkeys(loop.carried)}

    def unknown(self, v: Val, s: Instr | None) -> Linear | None:
        """What was computed before the loop stays the same in it."""
        if s is not None:
            return None
        number = self.uses.number(v)
        return Linear(0, (v,), 0) if number is None else Linear(0, (), number)


def _constant(numbers: LoopNumbers, s: Instr) -> Linear | None:
    number = numbers.uses.number(s.result)
    return None if number is None else Linear(0, (), number)


def _difference(x: Linear, y: Linear) -> Linear | None:
    return None if y.rest else Linear(x.times - y.times, x.rest, x.plus - y.plus)


def _product(x: Linear, y: Linear) -> Linear | None:
    for one, two in ((x, y), (y, x)):
        if not two.times and not two.rest and not one.rest:
            return Linear(one.times * two.plus, (), one.plus * two.plus)
    return None


def _cast(numbers: LoopNumbers, s: Instr) -> Linear | None:
    """What wraps in fewer bits is linear still; in more it is not."""
    a, x = s.args[0], numbers.of(s.args[0])
    narrows = a.dtype.is_int and s.result.dtype.is_int and s.result.dtype.size <= a.dtype.size
    return x if x is not None and narrows and all(r.dtype is a.dtype for r in x.rest) else None


def _of_integers(f: Callable[[Linear, Linear], Linear | None]) -> Rule:
    rule = lifted(f)
    return lambda numbers, s: rule(numbers, s) if s.result.dtype.is_int else None


LoopNumbers.RULES = {
    "const": _constant,
    "cast": _cast,
    "add": _of_integers(lambda x, y: Linear(x.times + y.times, (*x.rest, *y.rest), x.plus + y.plus)),
    "sub": _of_integers(_difference),
    "mul": _of_integers(_product),
}


@dataclass(frozen=True, slots=True)
class Counter:
    """A vector that counts: `instr` makes it of a number that is linear in the loop's, and the vector `lanes` or none is added."""

    instr: Instr
    value: Linear
    lanes: Val | None


def carry(program: Program) -> None:
    """Carry such vectors."""
    made = _Carrier(DefUse(program))
    for phase in program.phases[program.once :]:
        made.block(phase.body)


class _Carrier:
    """Rewrites loops."""

    def __init__(self, uses: DefUse) -> None:
        self.uses = uses

    def block(self, block: Block) -> None:
        """The loops in a block that have none themselves."""
        for s in list(block.stmts):
            if isinstance(s, For) and not s.once and not any(isinstance(x, For) for x in statements(s.body)):
                self._loop(block, s)
            elif not isinstance(s, Instr):
                for body in bodies(s):
                    self.block(body)

    def _loop(self, block: Block, loop: For) -> None:
        found = list(_counters(loop, LoopNumbers(loop, self.uses)))
        groups: dict[tuple[int, tuple[Val, ...], DType, int, Val | None], list[Counter]] = {}
        for c in found:
            groups.setdefault((c.value.times, c.value.rest, c.instr.result.dtype, c.instr.result.lanes, c.lanes), []).append(c)
        for group in list(groups.values())[:MOST]:
            self._carried(block, loop, group)
        if found:
            drop_unread(loop)

    def _carried(self, block: Block, loop: For, group: Sequence[Counter]) -> None:
        """Carry the first of a group, and make the others of it."""
        first, fresh = group[0], self.uses.fresh
        out, before = first.instr.result, block.stmts.index(loop)
        depth = loop.var.depth - 1
        start: list[Stmt] = []

        def op(name: str, a: Val, b: Val) -> Val:
            return self.uses.emit(start, name, a.dtype, a.lanes, depth, (a, b))

        def const(number: int, like: Val) -> Val:
            return self.uses.emit(start, "const", like.dtype, like.lanes, depth, (), _wrapped(number, like.dtype))

        def cast(v: Val, dtype: DType) -> Val:
            return v if v.dtype is dtype else self.uses.emit(start, "cast", dtype, 1, depth, (v,))

        total = loop.lo if first.value.times == 1 else op("mul", loop.lo, const(first.value.times, loop.lo))
        for r in first.value.rest:
            total = op("add", total, cast(r, total.dtype))
        total = op("add", total, const(first.value.plus, total))
        init = self.uses.emit(start, "splat", out.dtype, out.lanes, depth, (cast(total, out.dtype),))
        if first.lanes is not None:
            init = op("add", init, first.lanes)
        step = const(first.value.times * loop.step, out)
        carried, after, result = (fresh(out.dtype, out.lanes, d) for d in (depth + 1, depth + 1, depth))
        differences = [(c, const(c.value.plus - first.value.plus, out)) for c in group[1:]]
        block.stmts[before:before] = start
        for c, by in differences:
            c.instr.op, c.instr.args, c.instr.attr = "add", (carried, by), None
        loop.body.stmts.remove(first.instr)
        loop.body.stmts.append(Instr("add", after, (carried, step)))
        replace_value([loop], out, carried)
        # (new lists: what a loop gives may be the very list of what one around it yields)
        loop.init, loop.carried = [*loop.init, init], [*loop.carried, carried]
        loop.yields, loop.results = [*loop.yields, after], [*loop.results, result]


def _counters(loop: For, numbers: LoopNumbers) -> Iterator[Counter]:
    """What counts in a loop: sums of a spread number and a vector from outside; spread numbers that others use."""
    inside = numbers.made
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
        value = numbers.of(made.args[0])
        if value is None or not value.times:
            continue
        if v in other:
            yield Counter(made, value, None)
        else:
            yield from (Counter(s, value, next(x for x in s.args if x is not v)) for s in sums[v])


def _wrapped(number: int, dtype: DType) -> int:
    """A number as a type of integers holds it."""
    bits = 8 * dtype.size
    number %= 1 << bits
    return number - (1 << bits) if dtype.kind != "u" and number >> (bits - 1) else number
