"""Indices of a Program as sums of multiples of loop variables: what an access touches, and how often, follows from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...program.facts import Facts
from ...program.program import Instr, Val

Terms = Mapping["Variable", float]


@dataclass(eq=False, slots=True)
class Variable:
    """Something that an index moves with: a loop's variable, a digit of one (`i // 8`, `i % 8`), the lanes of a vector, or what a load
    gives. It has `trips` different numbers (infinity where that is not known); `roots` are the loops with which it changes, and
    `random` says that it goes anywhere."""

    trips: float
    roots: frozenset[int]
    random: bool = False
    lanes: int = 1
    """How many places it is at once (a vector of indices that data gives)."""


@dataclass(frozen=True, slots=True)
class LinearForm:
    """The sum of `terms` (variable: its factor) and `const`."""

    terms: Terms
    const: float = 0.0

    @property
    def roots(self) -> frozenset[int]:
        """The loops with which it changes."""
        return frozenset().union(*(v.roots for v in self.terms))

    @property
    def reach(self) -> float:
        """How many numbers lie from its least one to its largest."""
        return 1.0 + sum(abs(k) * (v.trips - 1) for v, k in self.terms.items())


class Forms(Facts[LinearForm]):
    """The forms of a phase's indices: exact for sums and multiples, and the digits of a variable. Of a minimum, maximum or choice it is
    that of the operand that moves most (the others are borders)."""

    def __init__(self) -> None:
        super().__init__()
        self._digits: dict[tuple[Variable, str, float], Variable] = {}

    def unknown(self, v: Val, s: Instr | None) -> LinearForm:
        """Something that moves with all that its operands move with."""
        if s is None:
            return LinearForm({})
        return self.opaque([self.of(a) for a in s.args if a.dtype.is_int], s.op in ("load", "gather"), v.lanes)

    def opaque(self, args: Sequence[LinearForm], random: bool, lanes: int = 1) -> LinearForm:
        """A variable of its own, that changes with the loops of some forms; `random`: data says how."""
        roots = frozenset[int]().union(*(f.roots for f in args))
        trips = 1.0
        for v in {v for f in args for v in f.terms}:
            trips *= v.trips
        random = random or any(v.random for f in args for v in f.terms)
        return LinearForm({Variable(trips, roots, random, lanes if random else 1): 1.0} if roots or random else {})

    def digit(self, f: LinearForm, op: str, d: float) -> LinearForm:
        """A quotient or remainder by `d`: terms that divide go through, or are gone; a single variable has a digit."""
        whole = {v: k for v, k in f.terms.items() if k % d == 0}
        rest = {v: k for v, k in f.terms.items() if k % d != 0}
        if sum(abs(k) * (v.trips - 1) for v, k in rest.items()) + f.const % d < d:
            return LinearForm({v: k / d for v, k in whole.items()}, f.const // d) if op == "idiv" else LinearForm(rest, f.const % d)
        if len(rest) == 1 and not f.const % d:
            ((v, k),) = rest.items()
            if k > 0 and d % k == 0:
                digit = self._variable(v, op, d / k)
                return (
                    LinearForm({w: c / d for w, c in whole.items()} | {digit: 1.0}, f.const // d)
                    if op == "idiv"
                    else LinearForm({digit: k})
                )
        reach = sum(abs(k) * (v.trips - 1) for v, k in rest.items()) + 1
        trips = max(1.0, reach / d) if op == "idiv" else min(d, reach)
        moving = LinearForm(rest)
        unknown = Variable(trips, moving.roots, any(v.random for v in rest), max((v.lanes for v in rest), default=1))
        return LinearForm({v: k / d for v, k in whole.items()} | {unknown: 1.0} if op == "idiv" else {unknown: 1.0})

    def _variable(self, v: Variable, op: str, d: float) -> Variable:
        key = (v, op, d)
        if key not in self._digits:
            self._digits[key] = Variable(max(1.0, v.trips / d) if op == "idiv" else min(d, v.trips), v.roots, v.random, v.lanes)
        return self._digits[key]


def _constant(attr: object) -> LinearForm:
    if isinstance(attr, tuple):
        numbers = [float(x) for x in attr if isinstance(x, (int, float))]
        step = (numbers[-1] - numbers[0]) / max(1, len(numbers) - 1) if numbers else 0.0
        return LinearForm({Variable(len(numbers), frozenset()): step} if step else {}, numbers[0] if numbers else 0.0)
    return LinearForm({}, float(attr) if isinstance(attr, (int, float)) else 0.0)


def _sum(a: LinearForm, b: LinearForm, sign: float = 1.0) -> LinearForm:
    if not b.terms:
        return LinearForm(a.terms, a.const + sign * b.const)
    terms = dict(a.terms)
    for v, k in b.terms.items():
        terms[v] = terms.get(v, 0.0) + sign * k
    return LinearForm({v: k for v, k in terms.items() if k}, a.const + sign * b.const)


def _times(f: LinearForm, k: float) -> LinearForm:
    return LinearForm({v: c * k for v, c in f.terms.items()} if k else {}, f.const * k)


def _product(forms: Forms, s: Instr) -> LinearForm:
    a, b = (forms.of(x) for x in s.args)
    if not b.terms:
        return _times(a, b.const)
    return _times(b, a.const) if not a.terms else forms.opaque([a, b], False)


def _shifted(forms: Forms, s: Instr) -> LinearForm:
    a, b = (forms.of(x) for x in s.args)
    return _times(a, 2.0**b.const) if not b.terms else forms.opaque([a, b], False)


def _moves_most(forms: Forms, s: Instr) -> LinearForm:
    return max((forms.of(a) for a in s.args[-2:]), key=lambda f: (len(f.terms), f.reach))


def _same(forms: Forms, s: Instr) -> LinearForm:
    return forms.of(s.args[0])


def _digit(forms: Forms, s: Instr) -> LinearForm:
    return forms.digit(forms.of(s.args[0]), s.op, float(s.number))


Forms.RULES = {
    "const": lambda forms, s: _constant(s.attr),
    "add": lambda forms, s: _sum(forms.of(s.args[0]), forms.of(s.args[1])),
    "sub": lambda forms, s: _sum(forms.of(s.args[0]), forms.of(s.args[1]), -1.0),
    "neg": lambda forms, s: _times(forms.of(s.args[0]), -1.0),
    "mul": _product,
    "shl": _shifted,
    **dict.fromkeys(("splat", "cast", "bitcast", "extract"), _same),
    **dict.fromkeys(("min", "max", "select"), _moves_most),
    **dict.fromkeys(("idiv", "imod"), _digit),
}
