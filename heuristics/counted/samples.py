"""Numbers that scalars of a Program have at a few points of its loops: how often a condition holds, how long a loop with a border is."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ...program.program import Instr, Val

POINTS = 32
_GOLDEN = 0.6180339887498949
_PICKS, _MOVES = ("min", "max"), ("extract", "shuffle", "splat", "cast")
_TWO: Mapping[str, Callable[[float, float], float]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "max": max,
    "min": min,
    "lt": operator.lt,
    "le": operator.le,
    "eq": operator.eq,
    "ne": operator.ne,
    "and": lambda a, b: bool(a) and bool(b),
    "or": lambda a, b: bool(a) or bool(b),
    "xor": operator.ne,
}


@dataclass(slots=True)
class Samples:
    """`known`: the numbers of what loops and the grid begin with; `made`: the instruction of every value. What data decides, or an
    operation that is not followed, is not known."""

    made: dict[Val, Instr]
    known: dict[Val, list[float] | None] = field(default_factory=dict)
    _count: int = 0

    def spread(self, v: Val, lo: list[float], trips: list[float], step: float) -> None:
        """Let `v` be a loop's variable, anywhere in its range (points of a sequence of low discrepancy)."""
        self._count += 1
        by = (self._count * _GOLDEN + 0.5) % 1.0 or _GOLDEN
        self.known[v] = [lo[i] + step * int(((i + 0.5) * by % 1.0) * trips[i]) for i in range(POINTS)]

    def of(self, v: Val) -> list[float] | None:
        """The numbers of a scalar; None where they are not known."""
        if v not in self.known:
            s = self.made.get(v)
            self.known[v] = None if s is None or v.lanes > 1 else self._made(s)
        return self.known[v]

    def share(self, v: Val) -> float:
        """The share of points where a condition holds; a half where nothing is known of it."""
        found = self.of(v)
        return 0.5 if found is None else sum(bool(x) for x in found) / POINTS

    def _made(self, s: Instr) -> list[float] | None:
        if s.op == "const":
            return [float(s.attr)] * POINTS if isinstance(s.attr, (int, float)) else None
        if s.op in ("aligned", "apart"):
            return [1.0] * POINTS
        args = [self.of(a) for a in s.args]
        if s.op == "and" and any(a is None for a in args):  # what is known may still decide
            return next((a for a in args if a is not None), None)
        if s.op == "min" and s.result.dtype.is_int and sum(a is None for a in args) == 1:
            return self._kept_below(s)
        if any(a is None for a in args):
            return None
        known = [a for a in args if a is not None]
        if s.op in _TWO:
            f = _TWO[s.op]
            return [float(f(a, b)) for a, b in zip(*known, strict=True)]
        if s.op in ("idiv", "imod"):
            g = operator.floordiv if s.op == "idiv" else operator.mod
            return [float(g(a, s.number)) for a in known[0]]
        if s.op == "not":
            return [float(not a) for a in known[0]]
        if s.op == "select":
            return [b if a else c for a, b, c in zip(*known, strict=True)]
        return known[0] if s.op == "cast" else None

    def _kept_below(self, s: Instr) -> list[float] | None:
        """Data that is kept below a bound is anywhere from 0 up to there; of several numbers the largest or the least one is."""
        data, bound = s.args if self.of(s.args[0]) is None else s.args[::-1]
        ends, picked = self.of(bound), self._picked(data)
        if ends is None or min(ends) <= 0:
            return None
        self._count += 1
        by = (self._count * _GOLDEN + 0.5) % 1.0 or _GOLDEN
        shares = [(i + 0.5) * by % 1.0 for i in range(POINTS)]
        each = [1.0 - (1.0 - x) ** (1.0 / picked) if self._least(data) else x ** (1.0 / picked) for x in shares]
        return [float(round(share * end)) for share, end in zip(each, ends, strict=True)]

    def _picked(self, v: Val) -> int:
        """Of how many numbers a value is the largest or the least one, in each lane."""
        s = self.made.get(v)
        if s is None or s.op not in (*_PICKS, *_MOVES):
            return 1
        return sum(self._picked(a) for a in s.args) if s.op in _PICKS else self._picked(s.args[0])

    def _least(self, v: Val) -> bool:
        """Whether a value is the least of some numbers."""
        s = self.made.get(v)
        while s is not None and s.op in _MOVES:
            s = self.made.get(s.args[0])
        return s is not None and s.op == "min"
