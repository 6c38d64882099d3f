"""Python numbers that are parameters of a captured function.

A number that has changed between two calls of a captured function is given to it as a `CapturedNumber`: it has the value of
this call, and its arithmetic is Python's, done in Python at every call. What a captured function computes of its numbers is
a `NumberTape`. Where the value decides something (a comparison that is branched on, a range that is checked), the tape
keeps a guard: a later call for which the answer is another one does not use what was captured, and the function is captured
again. So a check holds at every call as it does at the first one. Beside a tensor, a number is a slot of the type that a
constant would have. Where Python itself needs the value (a size, an index, `math.sin`), the number is a constant."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from math import copysign
from typing import TYPE_CHECKING, Any

from ...ir.dtypes import DType, bool_
from .nodes import Slot, TensorNode, make

if TYPE_CHECKING:
    _Base = float  # for the checker they are numbers: they compute alike
else:
    _Base = object

Step = tuple[Callable[..., Any] | None, Any, int, Any]
"""(function, place of its operand, place of the second one or −1, type of the result); (None, a constant, −1, its type); or
(`_GUARD`, place, −1, the truth that it must have)."""


def _GUARD(x: Any) -> bool:
    return bool(x)


class NumberTape:
    """What a captured function computes of its numbers. `positions`: which numbers of a call it begins with; `read`: those
    whose values were needed as they are; `guarded`: those that guards depend on; `slots`: of the values that kernels get."""

    def __init__(self, numbers: Sequence[int | float], positions: Sequence[int]) -> None:
        self.positions = tuple(positions)
        self.values: list[Any] = [numbers[i] for i in positions]
        self.behind: list[frozenset[int]] = [frozenset((i,)) for i in positions]
        self.steps: list[Step] = []
        self.read: set[int] = set()
        self.guarded: set[int] = set()
        self.slots: dict[tuple[int, DType], TensorNode] = {}
        self._known: dict[Any, int] = {}

    def step(self, function: Callable[..., Any], *operands: int) -> int:
        """The place of `function` of one place or two. Raises whatever the function raises."""
        key = (function, *operands)
        if key not in self._known:
            value = function(*(self.values[p] for p in operands))
            second = operands[1] if len(operands) > 1 else -1
            self._known[key] = self._put((function, operands[0], second, type(value)), value, operands)
        return self._known[key]

    def constant(self, value: Any) -> int:
        """The place of a number that is the same at every call."""
        key = ("constant", *exact_number(value))
        if key not in self._known:
            self._known[key] = self._put((None, value, -1, type(value)), value, ())
        return self._known[key]

    def _put(self, step: Step, value: Any, operands: Sequence[int]) -> int:
        self.steps.append(step)
        self.values.append(value)
        self.behind.append(frozenset().union(*(self.behind[p] for p in operands)))
        return len(self.values) - 1

    def truth(self, place: int) -> bool:
        """Whether the value is not 0, which is so at every call that uses what is captured."""
        found = bool(self.values[place])
        if self.behind[place] and (_GUARD, place) not in self._known:
            self._known[_GUARD, place] = self._put((_GUARD, place, -1, found), None, (place,))
            self.guarded |= self.behind[place]
        return found

    def known(self, place: int) -> Any:
        """The value as it is; the numbers behind it are constants of the function from here on."""
        self.read |= self.behind[place]
        return self.values[place]

    def slot(self, place: int, dtype: DType) -> TensorNode:
        """The node of shape () that has the value at every call."""
        if (place, dtype) not in self.slots:
            self.slots[place, dtype] = make("slot", (), Slot.new(), (), dtype)
        return self.slots[place, dtype]

    def run(self, numbers: Sequence[int | float]) -> list[Any] | None:
        """All values for a call's numbers, or None where a guard does not hold: the function does something else then, or
        raises what Python does."""
        values: list[Any] = [numbers[i] for i in self.positions]
        try:
            for function, at, second, want in self.steps:
                if function is None:
                    values.append(at)
                elif function is _GUARD:
                    if bool(values[at]) is not want:
                        return None
                    values.append(None)
                else:
                    value = function(values[at]) if second < 0 else function(values[at], values[second])
                    if type(value) is not want:
                        return None
                    values.append(value)
        except (ArithmeticError, ValueError, TypeError):
            return None
        return values


_NO_NUMBERS = (str, bytes, list, tuple, dict, type(None))


def exact_number(x: Any) -> tuple[Any, ...]:
    """A key of a number: −0.0 is not 0.0, 1.0 is not 1, and NaN is NaN."""
    return (type(x), x, copysign(1.0, x)) if x == x and abs(x) < 1e300 else (type(x), repr(x))


def _binary(function: Callable[..., Any], swapped: bool = False) -> Any:
    def method(self: CapturedNumber, other: Any) -> Any:
        tape = self.tape
        if type(other) is CapturedNumber and other.tape is tape:
            place = other.place
        elif type(other) in (int, float, bool):
            place = tape.constant(other)
        elif isinstance(other, (*_NO_NUMBERS, TensorNode)) or hasattr(other, "__array_namespace__"):
            return NotImplemented  # a tensor or a node takes numbers as they are
        else:
            known = tape.known(self.place)
            return function(other, known) if swapped else function(known, other)
        pair = (place, self.place) if swapped else (self.place, place)
        return number_at(tape, tape.step(function, *pair))

    return method


def _unary(function: Callable[..., Any]) -> Any:
    return lambda self: number_at(self.tape, self.tape.step(function, self.place))


def _value(function: Callable[..., Any]) -> Any:
    return lambda self, *args: function(self.tape.known(self.place), *args)


class CapturedNumber(_Base):
    """A Python number of a captured function that differs from call to call. To `isinstance` it is of its value's type."""

    __slots__ = ("place", "tape")
    tape: NumberTape
    place: int

    if not TYPE_CHECKING:

        @property
        def __class__(self):
            return type(self.tape.values[self.place])

        __add__, __radd__ = _binary(operator.add), _binary(operator.add, True)
        __sub__, __rsub__ = _binary(operator.sub), _binary(operator.sub, True)
        __mul__, __rmul__ = _binary(operator.mul), _binary(operator.mul, True)
        __truediv__, __rtruediv__ = _binary(operator.truediv), _binary(operator.truediv, True)
        __floordiv__, __rfloordiv__ = _binary(operator.floordiv), _binary(operator.floordiv, True)
        __mod__, __rmod__ = _binary(operator.mod), _binary(operator.mod, True)
        __pow__, __rpow__ = _binary(operator.pow), _binary(operator.pow, True)
        __and__, __rand__ = _binary(operator.and_), _binary(operator.and_, True)
        __or__, __ror__ = _binary(operator.or_), _binary(operator.or_, True)
        __xor__, __rxor__ = _binary(operator.xor), _binary(operator.xor, True)
        __lshift__, __rlshift__ = _binary(operator.lshift), _binary(operator.lshift, True)
        __rshift__, __rrshift__ = _binary(operator.rshift), _binary(operator.rshift, True)
        __lt__, __le__, __gt__ = _binary(operator.lt), _binary(operator.le), _binary(operator.gt)
        __ge__, __eq__, __ne__ = _binary(operator.ge), _binary(operator.eq), _binary(operator.ne)
        __neg__, __pos__ = _unary(operator.neg), _unary(operator.pos)
        __abs__, __invert__ = _unary(operator.abs), _unary(operator.invert)

        def __bool__(self):
            return self.tape.truth(self.place)

        __index__, __int__, __float__ = _value(operator.index), _value(int), _value(float)
        __hash__, __repr__, __str__, __format__ = _value(hash), _value(repr), _value(str), _value(format)
        __round__, __complex__, __divmod__ = _value(round), _value(complex), _value(divmod)

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            getattr(type(self.tape.values[self.place]), name)  # whether there is such a thing needs no value
            return getattr(self.tape.known(self.place), name)

        def __array__(self, dtype=None, copy=None):
            import numpy as np

            return np.asarray(self.tape.known(self.place), dtype)

        def __array_ufunc__(self, ufunc, method, *inputs, **options):
            return getattr(ufunc, method)(*(plain(x) for x in inputs), **options)

        def __copy__(self):
            return self

        def __deepcopy__(self, memo):
            return self


def number_at(tape: NumberTape, place: int) -> Any:
    """The number at a place of a tape."""
    new = CapturedNumber.__new__(CapturedNumber)
    new.tape, new.place = tape, place
    return new


def captured(x: Any) -> bool:
    """Whether `x` is a number that differs from call to call."""
    return type(x) is CapturedNumber


def plain(x: Any) -> Any:
    """A number as Python's own, also inside of lists, tuples and slices: it is a constant of the captured function then."""
    if type(x) is CapturedNumber:
        return x.tape.known(x.place)
    if isinstance(x, (list, tuple)) and any(holds(e) for e in x):
        parts = [plain(e) for e in x]
        return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)
    if isinstance(x, slice) and holds((x.start, x.stop, x.step)):
        return slice(plain(x.start), plain(x.stop), plain(x.step))
    return x


def holds(x: Any) -> bool:
    """Whether a captured number is in `x`, a list, a tuple or a slice."""
    if isinstance(x, (list, tuple)):
        return any(map(holds, x))
    return type(x) is CapturedNumber or (isinstance(x, slice) and holds((x.start, x.stop, x.step)))


def whole(x: Any) -> Any:
    """int(x), of a captured number too."""
    return number_at(x.tape, x.tape.step(int, x.place)) if type(x) is CapturedNumber else int(x)


def parameter(x: Any, dtype: DType) -> TensorNode | None:
    """A captured number as a node of a type and shape (), or None where the type has no such number."""
    kind = bool if dtype is bool_ else int if dtype.is_int else float
    tape: NumberTape = x.tape
    place = x.place if type(tape.values[x.place]) is kind else tape.step(kind, x.place)
    if dtype.is_int:
        lo, hi = dtype.limits
        inside = (tape.step(operator.le, tape.constant(lo), place), tape.step(operator.le, place, tape.constant(hi)))
        if not all(tape.truth(p) for p in inside):
            return None
    return tape.slot(place, dtype)
