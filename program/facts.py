"""Facts about the values of a Program: who makes and reads them, and what is known of their numbers.

`DefUse` is for passes that rewrite a Program. A *domain* of facts is a subclass of `Facts`: its table `RULES` says for each operation of
`program.ops` that it follows what the result's fact is, and everything else is unknown. Two domains are here, for several rooms use
them: `Intervals` of int64 values, and `Spread`, how values differ between the threads of a group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import lcm
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from ..ir.dtypes import DType, bool_, index
from ..ir.index import BIG, INTERVALS, bounds, product, union
from ..ir.node import Node
from .ops import MATRIX_LOADS
from .program import Attr, Block, For, If, Instr, Mem, Phase, Program, Roles, Stmt, Val, bodies, defined, operands, statements

F = TypeVar("F")
Rule = Callable[[Any, Instr], Any]
"""What an operation's result is, by the domain and the instruction; it asks the domain about the operands."""


class DefUse:
    """The values of a Program, each question answered by one walk when it is first asked. After a change, `look` asks again."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._last = 0

    def look(self) -> None:
        """Forget what was found: the Program was changed."""
        for name in ("made", "count", "reader"):
            self.__dict__.pop(name, None)

    def _statements(self) -> Iterator[Stmt]:
        return chain.from_iterable(statements(phase.body) for phase in self.program.phases)

    @cached_property
    def made(self) -> dict[Val, Instr]:
        """The instruction that makes each value."""
        return {s.out: s for s in self._statements() if isinstance(s, Instr) and s.out is not None}

    @cached_property
    def count(self) -> Counter[Val]:
        """How often each value is read."""
        return Counter(chain.from_iterable(map(operands, self._statements())))

    @cached_property
    def reader(self) -> dict[Val, Instr]:
        """The last instruction that reads each value."""
        return {v: s for s in self._statements() if isinstance(s, Instr) for v in s.args}

    def fresh(self, dtype: DType, lanes: int, depth: int) -> Val:
        """A new value."""
        if not self._last:
            self._last = max((v.id for s in self._statements() for v in defined(s)), default=0)
        self._last += 1
        return Val(self._last, dtype, lanes, depth)

    def emit(self, into: list[Stmt], op: str, dtype: DType, lanes: int, depth: int, args: tuple[Val, ...] = (), attr: Attr = None) -> Val:
        """Append an operation to some statements; its result."""
        out = self.fresh(dtype, lanes, depth)
        made = self.made[out] = Instr(op, out, args, attr)
        into.append(made)
        return out

    def number(self, v: Val) -> int | None:
        """The integer that a scalar or a splat is known to be."""
        s = self.made.get(v)
        if s is not None and s.op == "splat":
            s = self.made.get(s.args[0])
        return s.attr if s is not None and s.op == "const" and type(s.attr) is int else None


_NOT_ASKED: Any = object()


class Facts(Generic[F]):
    """One domain. `known` holds what is known from the beginning (of what a phase, a loop or memory gives), and what was asked;
    `made` the instruction behind every value."""

    RULES: ClassVar[Mapping[str, Rule]] = {}

    def __init__(self, made: dict[Val, Instr] | None = None) -> None:
        self.made: dict[Val, Instr] = {} if made is None else made
        self.known: dict[Val, F] = {}

    def of(self, v: Val) -> F:
        """The fact of a value."""
        found: F = self.known.get(v, _NOT_ASKED)
        if found is _NOT_ASKED:
            found = self.known[v] = self.derive(v)
        return found

    def derive(self, v: Val) -> F:
        """The fact of a value that was not asked before."""
        s = self.made.get(v)
        rule = None if s is None else self.RULES.get(s.op)
        found: F = self.unknown(v, s) if rule is None else rule(self, s)  # type: ignore[arg-type]
        return found

    def unknown(self, v: Val, s: Instr | None) -> F:
        """The fact of what no rule is for; `s`: the instruction behind it, where there is one."""
        raise NotImplementedError

    def operands(self, s: Instr) -> list[F] | None:
        """The facts of all operands, where each of them is known."""
        found = []
        for a in s.args:
            fact = self.of(a)
            if fact is None:
                return None
            found.append(fact)
        return found


def lifted(f: Callable[..., F | None]) -> Rule:
    """The rule of an operation whose result follows from the facts of all its operands; None where one of these is not known."""

    def rule(facts: Facts[F | None], s: Instr) -> F | None:
        args = facts.operands(s)
        return None if args is None else f(*args)

    return rule


Range = tuple[int, int]
INT32: Range = (-(1 << 31), (1 << 31) - 1)
INT64: Range = (-(1 << 63), (1 << 63) - 1)


def inside(a: Range | None, b: Range) -> bool:
    """Whether every number of `a` is one of `b`; an unknown range is inside nothing."""
    return a is not None and b[0] <= a[0] and a[1] <= b[1]


class Intervals(Facts["Range | None"]):
    """Intervals of the int64 values of a phase: which of them fit 32 bits, and which cannot wrap. None: it may be any int64, or it is none.

    Vectors have one interval for all lanes. The intervals are of exact integers: an operation whose result may leave int64 gives none, and
    must wrap. What a loop carries is unknown; its variable includes the value that ends the loop."""

    def __init__(self, phase: Phase, symbols: Sequence[Node]) -> None:
        super().__init__()
        begin = {phase.item: (0, max(0, bounds(phase.items)[1] - 1))}
        begin |= {v: bounds(s) for v, s in zip(phase.vars, symbols, strict=True)}
        if phase.thread is not None:
            begin[phase.thread] = (0, phase.threads - 1)
        self.known |= {v: r for v, r in begin.items() if inside(r, (-BIG, BIG - 1))}
        for s in statements(phase.body):  # in order, so that operands are known: chains are long, and recursion is not deep
            if isinstance(s, Instr) and s.out is not None and s.out.dtype is index:
                self.made[s.out] = s
                self.of(s.out)
            elif isinstance(s, For):
                self._loop(s)

    def _loop(self, s: For) -> None:
        lo, hi = self.of(s.lo), self.of(s.hi)
        if lo is not None and hi is not None:
            # the last value tested is below the bound by at most nothing and above it by less than a step
            r = lo[0], max(lo[1], hi[1]) + s.step - 1
            self.known[s.var] = r if inside(r, INT64) else None

    def derive(self, v: Val) -> Range | None:
        """Nothing, where the exact result may not be an int64."""
        found = super().derive(v)
        return found if inside(found, INT64) else None

    def unknown(self, v: Val, s: Instr | None) -> Range | None:
        """No interval."""
        return None

    def ends(self, v: Val) -> Range:
        """The least and the largest number that an int64 may be."""
        return self.of(v) or INT64


def _interval(f: Callable[..., Range | None]) -> Rule:
    """The rule of an operation on the intervals of its int64 operands (a condition is none), and on the number that it names."""

    def rule(facts: Intervals, s: Instr) -> Range | None:
        args = [facts.ends(a) for a in s.args if a.dtype is index]
        return f(*args, s.number) if s.op in ("idiv", "imod") else f(*args)

    return rule


def _const_interval(facts: Intervals, s: Instr) -> Range:
    values = s.picks if isinstance(s.attr, tuple) else (s.number,)
    return int(min(values)), int(max(values))


def _cast_interval(facts: Intervals, s: Instr) -> Range | None:
    a = s.args[0]
    if a.dtype.kind == "b":
        return 0, 1
    if a.dtype is index:
        return facts.ends(a)
    if a.dtype.kind == "u":
        return 0, (1 << 8 * a.dtype.size) - 1
    half = 1 << (8 * a.dtype.size - 1)
    return (-half, half - 1) if a.dtype.kind == "i" else None


_INTERVALS: dict[str, Callable[..., Range | None]] = {
    **{op: INTERVALS[op] for op in ("add", "sub", "mul", "neg", "abs", "max", "min", "and", "or", "xor", "shr")},
    "fma": lambda a, b, c: INTERVALS["add"](product(a, b), c),
    "idiv": lambda a, n: INTERVALS["floordiv"](a, (n, n)),
    "imod": lambda a, n: INTERVALS["remainder"](a, (n, n)),
    **dict.fromkeys(("select", "insert", "shuffle"), union),
    **dict.fromkeys(("splat", "extract", "shfl_xor"), lambda a: a),
}
Intervals.RULES = {"const": _const_interval, "cast": _cast_interval} | {op: _interval(f) for op, f in _INTERVALS.items()}


Array = np.ndarray[Any, Any]
SLOTS = 16
"""The largest divisor of a remainder that may be the number of a slot."""
SHORT = 8
"""Iterations of a loop that is always unrolled into an array."""
LIMIT = 1 << 15
"""Numbers in one array at most; what would need more is unknown."""
ZERO = np.zeros(1, np.int64)


@dataclass(slots=True, eq=False)
class Form:
    """Σ terms[atom]·atom + known. `known` has the threads as its last axis and the loop at depth d as axis −2−d, each of length 1
    where it does not matter. A loop's variable as an atom counts its iterations."""

    terms: dict[Val, int]
    known: Array

    @property
    def varies(self) -> bool:
        """Whether threads hold different numbers."""
        k = self.known
        return k.ndim > 0 and k.shape[-1] > 1 and bool((k != k[..., :1]).any())

    def plus(self, other: Form, sign: int = 1) -> Form:
        """The sum, or the difference."""
        terms = dict(self.terms)
        for u, c in other.terms.items():
            terms[u] = terms.get(u, 0) + sign * c
        return Form({u: c for u, c in terms.items() if c}, self.known + sign * other.known)


class Spread(Facts["Form | None"]):
    """How the scalars of one phase differ between the threads of a group: which are the same in all of them, and exactly what each thread
    holds. None: threads differ in a way that is not known.

    A value is a sum of multiples of *atoms* (values that all threads agree on, but whose number is not known: the grid index, a
    symbol, a loop's variable) and an array with one number for every thread, and for every iteration of the short loops that matter.
    That is exact for addresses as lowering makes them, XOR swizzles included."""

    def __init__(self, phase: Phase) -> None:
        super().__init__()
        self.threads, self.thread = phase.threads, phase.thread
        self.around: dict[Val, tuple[Val, ...]] = {}
        """The variables of the loops that a value is defined in, outermost first."""
        self.loops: dict[Val, For] = {}
        self._sources: dict[Val, tuple[Val, ...]] = {}  # of what loops carry and give
        self._scratch: dict[int, set[Val]] = {}  # scratch piece -> what its content depends on
        self._agrees: dict[Val, bool] = {}
        self._trips: dict[Val, int | None] = {}
        self.deepest = 0
        self.periods: dict[Val, int] = {}
        """Loops of many iterations of which remainders matter, as of those that go through slots in turn: what those repeat after. The
        axis of such a loop in `Form.known` counts remainders, not iterations."""
        self._scan(phase.body, (), ())
        self._find_periods()

    def _scan(self, block: Block, around: tuple[Val, ...], control: tuple[Val, ...]) -> None:
        for s in block.stmts:
            if isinstance(s, Instr):
                if s.out is not None:
                    self.made[s.out], self.around[s.out] = s, around
                elif isinstance(s.attr, Mem) and s.attr.space == "scratch":
                    self._scratch.setdefault(s.attr.base, set()).update(s.args, control)
            elif isinstance(s, If):
                self._scan(s.body, around, (*control, s.cond))
            elif isinstance(s, Roles):
                for body in bodies(s):
                    self._scan(body, around, control)
            else:
                inner = (*around, s.var)
                self.deepest = max(self.deepest, len(inner))
                self.loops[s.var] = s
                self.around[s.var] = inner
                self._sources[s.var] = (s.lo, s.hi)
                for c, r, start, end in zip(s.carried, s.results, s.init, s.yields, strict=True):
                    self.around[c], self.around[r] = inner, around
                    self._sources[c], self._sources[r] = (start, end), (start, end, s.lo, s.hi)
                self._scan(s.body, inner, (*control, s.lo, s.hi))

    def _find_periods(self) -> None:
        found: dict[Val, int] = {}
        for s in self.made.values():
            if s.op == "imod" and 1 < s.number <= SLOTS and self.agreed(s.args[0]):
                form = self.of(s.args[0])
                for u, c in form.terms.items() if form is not None else ():
                    if u in self.loops and c % s.number and (self.trips(u) or SHORT + 1) > SHORT:
                        found[u] = lcm(found.get(u, 1), s.number)
        self.periods = {u: n for u, n in found.items() if n <= 4 * SLOTS}
        if self.periods:
            self.known.clear()

    # the same in all threads? ---------------------------------------------------------------------------------------
    def varies(self, v: Val) -> bool:
        """Whether threads may hold different values of `v`."""
        form = self.of(v)
        return not self.agreed(v) if form is None else form.varies

    def agreed(self, v: Val) -> bool:
        """Whether nothing that `v` is computed from depends on the thread."""
        known = self._agrees.get(v)
        if known is None:
            seen, todo = {v}, [v]
            while todo:
                u = todo.pop()
                if u is self.thread or self._agrees.get(u) is False:
                    self._agrees[v] = False
                    return False
                for w in self._depends(u):
                    if w not in seen:
                        seen.add(w)
                        todo.append(w)
            self._agrees.update(dict.fromkeys(seen, True))
            known = True
        return known

    def _depends(self, v: Val) -> Sequence[Val]:
        s = self.made.get(v)
        if s is None:
            return self._sources.get(v, ())
        if s.op in MATRIX_LOADS and self.thread is not None:  # lanes get parts of it
            return [self.thread]
        if isinstance(s.attr, Mem) and s.attr.space == "scratch":  # its own memory: what this thread wrote there
            return [*s.args, *self._scratch.get(s.attr.base, ())]
        return s.args

    # what each thread holds -----------------------------------------------------------------------------------------
    def derive(self, v: Val) -> Form | None:
        """An atom, where all threads agree on what is not known."""
        found = None
        if v is self.thread:
            return Form({}, np.arange(self.threads))
        if v in self.loops:
            start = self.of(self.loops[v].lo)
            found = start and Form(start.terms | {v: self.loops[v].step}, start.known)
        elif v in self.made and v.lanes == 1 and all(a.lanes == 1 and (a.dtype.is_int or a.dtype is bool_) for a in self.made[v].args):
            found = super().derive(v)
        return Form({v: 1}, ZERO) if found is None and self.agreed(v) else found

    def unknown(self, v: Val, s: Instr | None) -> Form | None:
        """Nothing."""
        return None

    def trips(self, var: Val) -> int | None:
        """How often a loop runs at most, where that is known."""
        if var not in self._trips:
            loop = self.loops[var]
            self._trips[var] = None
            lo, most = self.of(loop.lo), self.made.get(loop.hi)
            ends = most.args if most is not None and most.op == "min" else (loop.hi,)
            spans = [hi.plus(lo, -1) for hi in map(self.of, ends) if hi is not None and lo is not None]
            found = [-(-int(d.known.max()) // loop.step) for d in spans if not any(d.terms.values())]
            self._trips[var] = min(found, default=None)
        return self._trips[var]

    def counted(self, f: Form, atoms: Sequence[Val] | None = None) -> Array | None:
        """The known part with these atoms (all of them) counted through; None where one is no short loop."""
        out = f.known
        for u in f.terms if atoms is None else atoms:
            trips = self.trips(u) if u in self.loops and u not in self.periods else None
            if trips is None or out.size * trips > LIMIT:
                return None
            out = out + self.along(u, f.terms.get(u, 0) * np.arange(max(1, trips)))
        return out if out.size <= LIMIT else None

    def along(self, loop: Val, numbers: Array) -> Array:
        """Numbers for the iterations of a loop, along its axis."""
        return numbers.reshape((-1,) + (1,) * len(self.around[loop]))


def _const_form(spread: Spread, s: Instr) -> Form | None:
    return Form({}, np.array([int(s.attr)], np.int64)) if isinstance(s.attr, (bool, int)) else None


def _cast_form(spread: Spread, s: Instr) -> Form | None:
    return spread.of(s.args[0]) if s.result.dtype.is_int and s.result.dtype.size >= s.args[0].dtype.size else None


def _multiple(spread: Spread, s: Instr) -> Form | None:
    args = spread.operands(s)
    for a, b in (args, args[::-1]) if args is not None else ():
        if a is not None and b is not None and not a.terms and a.known.size == 1:
            k = int(a.known.flat[0])
            return Form({u: c * k for u, c in b.terms.items() if k}, b.known * k)
    found: Form | None = _by_number(np.multiply)(spread, s)
    return found


def _divided(spread: Spread, s: Instr) -> Form | None:
    """Multiples of n pass through a division; the rest must be known."""
    f, n = spread.of(s.args[0]), s.number
    if f is None:
        return None
    whole = {u: c // n for u, c in f.terms.items() if c % n == 0}
    left, known = {u: c for u, c in f.terms.items() if c % n}, f.known
    for u in [u for u in left if s.op == "imod" and u in spread.periods and spread.periods[u] % n == 0]:
        known = known + spread.along(u, left.pop(u) * np.arange(spread.periods[u]))
    rest = spread.counted(Form(left, known))
    if rest is None:
        return None
    return Form(whole, rest // n) if s.op == "idiv" else Form({}, rest % n)


def _by_number(f: Callable[..., Any]) -> Rule:
    """The rule of an operation that is done on each number, all of which must be known."""

    def rule(spread: Spread, s: Instr) -> Form | None:
        args = spread.operands(s)
        arrays = [None if a is None else spread.counted(a) for a in args] if args is not None else [None]
        return None if any(a is None for a in arrays) else _array_form(f(*arrays))

    return rule


def _compared(f: Callable[..., Any]) -> Rule:
    """The rule of a comparison: of the difference, in which atoms may cancel."""

    def rule(spread: Spread, s: Instr) -> Form | None:
        args = spread.operands(s)
        a, b = args if args is not None else (None, None)
        difference = None if a is None or b is None else spread.counted(a.plus(b, -1))
        return None if difference is None else _array_form(f(difference, ZERO))

    return rule


def _array_form(result: Any) -> Form | None:
    return Form({}, np.asarray(result).astype(np.int64)) if result.size <= LIMIT else None


def _not(spread: Spread, s: Instr) -> Form | None:
    found: Form | None = _by_number(np.logical_not)(spread, s) if s.result.dtype is bool_ else None
    return found


Spread.RULES = {
    "const": _const_form,
    "add": lifted(Form.plus),
    "sub": lifted(lambda a, b: a.plus(b, -1)),
    "neg": lifted(lambda a: Form({}, ZERO).plus(a, -1)),
    "cast": _cast_form,
    "mul": _multiple,
    "idiv": _divided,
    "imod": _divided,
    "not": _not,
    **{op: _compared(f) for op, f in {"lt": np.less, "le": np.less_equal, "eq": np.equal, "ne": np.not_equal}.items()},
    "and": _by_number(np.bitwise_and),
    "or": _by_number(np.bitwise_or),
    "xor": _by_number(np.bitwise_xor),
    "max": _by_number(np.maximum),
    "min": _by_number(np.minimum),
    "shl": _by_number(np.left_shift),
    "shr": _by_number(np.right_shift),
    "select": _by_number(lambda c, a, b: np.where(c != 0, a, b)),
}


MOST_PIECES = 3
"""Plain accesses that are as quick as one under a mask in a vector."""


def mask_pieces(on: Sequence[bool]) -> list[tuple[int, int]]:
    """(first lane, lanes) of each piece, in order, the largest of a run first: seven lanes are 4, 2 and 1."""
    out, lane = [], 0
    while lane < len(on):
        length = 0
        while lane + length < len(on) and on[lane + length]:
            length += 1
        while length:
            size = 1 << length.bit_length() - 1
            out.append((lane, size))
            lane, length = lane + size, length - size
        lane += 1
    return out


def masked_in_pieces(on: Sequence[bool], size: int, features: frozenset[str], store: bool) -> bool:
    """Whether an access of elements of `size` bytes under a known mask is one of pieces. Where masks have no registers of their own,
    a store under a mask is slow on many processors, nothing that follows can take its elements before they are in the cache, and
    elements below 32 bits have no such instruction at all."""
    parts = len(mask_pieces(on))
    if parts <= 1 or "avx512" in features:
        return parts <= 1
    return "avx2" not in features or size < 4 or (store and parts <= MOST_PIECES)
