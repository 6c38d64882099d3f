"""How index values differ between the threads of a group: which are the same in all of them, and exactly what each thread holds.

A value is known as a sum of multiples of *atoms* (values that all threads agree on, but whose number is not known: the grid index, a
symbol, a loop's variable) and an array with one number for every thread, and for every iteration of the short loops that had to be
spelled out. That is exact for addresses as lowering makes them, XOR swizzles included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import lcm
from typing import Any

import numpy as np

from ...ir.dtypes import bool_
from ...program.ops import COMPARISONS, MATRIX_LOADS
from ...program.program import Block, For, If, Instr, Mem, Phase, Roles, Val

Array = np.ndarray[Any, Any]
SLOTS = 16
"""The largest divisor of a remainder that may be the number of a slot."""
SHORT = 8
"""Iterations of a loop that is always spelled out."""
LIMIT = 1 << 15
"""Numbers in one array at most; what would need more is not spelled out."""
_EXACT: dict[str, Callable[..., Any]] = {
    "lt": np.less, "le": np.less_equal, "eq": np.equal, "ne": np.not_equal, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "max": np.maximum, "min": np.minimum, "shl": np.left_shift, "shr": np.right_shift, "mul": np.multiply, "select": lambda c, a, b: np.where(c != 0, a, b),
    "not": np.logical_not,
}  # fmt: skip
_KNOWN = {*_EXACT, "add", "sub", "neg", "cast", "idiv", "imod"}


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


class Spread:
    """The index values of one phase."""

    def __init__(self, phase: Phase) -> None:
        self.threads, self.thread = phase.threads, phase.thread
        self.around: dict[Val, tuple[Val, ...]] = {}
        """The variables of the loops that a value is defined in, outermost first."""
        self.loops: dict[Val, For] = {}
        self._made: dict[Val, Instr] = {}
        self._sources: dict[Val, tuple[Val, ...]] = {}  # of what loops carry and give
        self._kept: dict[int, set[Val]] = {}  # scratch piece -> what its content depends on
        self._forms: dict[Val, Form | None] = {}
        self._uniform: dict[Val, bool] = {}
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
                    self._made[s.out], self.around[s.out] = s, around
                elif isinstance(s.attr, Mem) and s.attr.space == "scratch":
                    self._kept.setdefault(s.attr.base, set()).update(s.args, control)
            elif isinstance(s, If):
                self._scan(s.body, around, (*control, s.cond))
            elif isinstance(s, Roles):
                for role in s.roles:
                    self._scan(role.body, around, control)
            else:
                inside = (*around, s.var)
                self.deepest = max(self.deepest, len(inside))
                self.loops[s.var] = s
                self.around[s.var] = inside
                self._sources[s.var] = (s.lo, s.hi)
                for c, r, start, end in zip(s.carried, s.results, s.init, s.yields, strict=True):
                    self.around[c], self.around[r] = inside, around
                    self._sources[c], self._sources[r] = (start, end), (start, end, s.lo, s.hi)
                self._scan(s.body, inside, (*control, s.lo, s.hi))

    def _find_periods(self) -> None:
        found: dict[Val, int] = {}
        for s in self._made.values():
            if s.op == "imod" and 1 < s.number <= SLOTS and self._agreed(s.args[0]):
                form = self.of(s.args[0])
                for u, c in form.terms.items() if form is not None else ():
                    if u in self.loops and c % s.number and (self.trips(u) or SHORT + 1) > SHORT:
                        found[u] = lcm(found.get(u, 1), s.number)
        self.periods = {u: n for u, n in found.items() if n <= 4 * SLOTS}
        if self.periods:
            self._forms.clear()

    # the same in all threads? ---------------------------------------------------------------------------------------
    def varies(self, v: Val) -> bool:
        """Whether threads may hold different values of `v`."""
        form = self.of(v)
        return not self._agreed(v) if form is None else form.varies

    def _agreed(self, v: Val) -> bool:
        """Whether nothing that `v` is computed from depends on the thread."""
        known = self._uniform.get(v)
        if known is None:
            seen, todo = {v}, [v]
            while todo:
                u = todo.pop()
                if u is self.thread or self._uniform.get(u) is False:
                    self._uniform[v] = False
                    return False
                for w in self._depends(u):
                    if w not in seen:
                        seen.add(w)
                        todo.append(w)
            self._uniform.update(dict.fromkeys(seen, True))
            known = True
        return known

    def _depends(self, v: Val) -> Sequence[Val]:
        s = self._made.get(v)
        if s is None:
            return self._sources.get(v, ())
        if s.op in MATRIX_LOADS and self.thread is not None:  # lanes get parts of it
            return [self.thread]
        if isinstance(s.attr, Mem) and s.attr.space == "scratch":  # its own memory: what this thread wrote there
            return [*s.args, *self._kept.get(s.attr.base, ())]
        return s.args

    # what each thread holds -----------------------------------------------------------------------------------------
    def of(self, v: Val) -> Form | None:
        """The form of a scalar; None where threads differ in a way that is not known."""
        if v not in self._forms:
            self._forms[v] = self._find(v)
        return self._forms[v]

    def _find(self, v: Val) -> Form | None:
        if v is self.thread:
            return Form({}, np.arange(self.threads))
        found = None
        if v in self.loops:
            start = self.of(self.loops[v].lo)
            found = start and Form(start.terms | {v: self.loops[v].step}, start.known)
        elif v in self._made and v.lanes == 1:
            s = self._made[v]
            if s.op == "const" or all(a.lanes == 1 and (a.dtype.is_int or a.dtype is bool_) for a in s.args):
                found = self._operation(s)
        if found is None and self._agreed(v):
            return Form({v: 1}, np.zeros(1, np.int64))
        return found

    def _operation(self, s: Instr) -> Form | None:
        if s.op == "const":
            return Form({}, np.array([int(s.attr)], np.int64)) if isinstance(s.attr, (bool, int)) else None
        if s.out is None or isinstance(s.attr, Mem) or s.op not in _KNOWN or (s.op == "not" and s.out.dtype is not bool_):
            return None
        forms = [self.of(a) for a in s.args]
        if any(f is None for f in forms):
            return None
        args = [f for f in forms if f is not None]
        if s.op in ("add", "sub"):
            return _sum(args[0], args[1], 1 if s.op == "add" else -1)
        if s.op == "neg":
            return _sum(Form({}, np.zeros(1, np.int64)), args[0], -1)
        if s.op == "cast":
            return args[0] if s.out.dtype.is_int and s.out.dtype.size >= s.args[0].dtype.size else None
        if s.op == "mul":
            for a, b in (args, reversed(args)):
                if not a.terms and a.known.size == 1:
                    k = int(a.known.flat[0])
                    return Form({u: c * k for u, c in b.terms.items() if k}, b.known * k)
        if s.op in ("idiv", "imod"):
            return self._divided(args[0], s.op, s.number)
        if s.op in COMPARISONS:
            args = [_sum(args[0], args[1], -1), Form({}, np.zeros(1, np.int64))]
        arrays = [self.spelled(f) for f in args]
        if any(a is None for a in arrays):
            return None
        result = _EXACT[s.op](*arrays)
        return Form({}, np.asarray(result).astype(np.int64)) if result.size <= LIMIT else None

    def _divided(self, f: Form, op: str, n: int) -> Form | None:
        """Multiples of n pass through a division; the rest must be known."""
        whole = {u: c // n for u, c in f.terms.items() if c % n == 0}
        left, known = {u: c for u, c in f.terms.items() if c % n}, f.known
        for u in [u for u in left if op == "imod" and u in self.periods and self.periods[u] % n == 0]:
            known = known + self._along(u, left.pop(u) * np.arange(self.periods[u]))
        rest = self.spelled(Form(left, known))
        if rest is None:
            return None
        return Form(whole, rest // n) if op == "idiv" else Form({}, rest % n)

    def trips(self, var: Val) -> int | None:
        """How often a loop runs at most, where that is known."""
        if var not in self._trips:
            loop = self.loops[var]
            self._trips[var] = None
            lo, most = self.of(loop.lo), self._made.get(loop.hi)
            ends = most.args if most is not None and most.op == "min" else (loop.hi,)
            spans = [_sum(hi, lo, -1) for hi in map(self.of, ends) if hi is not None and lo is not None]
            found = [-(-int(d.known.max()) // loop.step) for d in spans if not any(d.terms.values())]
            self._trips[var] = min(found, default=None)
        return self._trips[var]

    def spelled(self, f: Form, atoms: Sequence[Val] | None = None) -> Array | None:
        """The known part with these atoms (all of them) counted through; None where one is no short loop."""
        out = f.known
        for u in f.terms if atoms is None else atoms:
            trips = self.trips(u) if u in self.loops and u not in self.periods else None
            if trips is None or out.size * trips > LIMIT:
                return None
            out = out + self._along(u, f.terms.get(u, 0) * np.arange(max(1, trips)))
        return out if out.size <= LIMIT else None

    def _along(self, loop: Val, numbers: Array) -> Array:
        """Numbers for the iterations of a loop, along its axis."""
        return numbers.reshape((-1,) + (1,) * len(self.around[loop]))


def _sum(a: Form, b: Form, sign: int) -> Form:
    terms = dict(a.terms)
    for u, c in b.terms.items():
        terms[u] = terms.get(u, 0) + sign * c
    return Form({u: c for u, c in terms.items() if c}, a.known + sign * b.known)
