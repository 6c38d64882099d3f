"""What Python and NumPy would do with parts of a kernel that have no value yet: errors that say what to write."""

from __future__ import annotations

import numbers
from typing import Any, NoReturn

from ..errors import KernelError

_BOOL = (
    "is a Python bool, not a condition: == and != (and `in`, `not`) compare the expressions themselves. Write x[i].eq(0) or x[i].ne(0), "
    "and &, | and ~ between conditions; where a flag of your own decides, use Python's if"
)


class NoValue:
    """Operations of Python and NumPy that need a number, which an expression is not."""

    __slots__ = ()
    _functions = "tilewright.ir"
    """Where its functions are."""

    def _refuse(self, what: str) -> NoReturn:
        raise KernelError(
            f"{what} needs a number, and {self!r} has none yet: use the functions of {self._functions} (exp, sqrt, where, ...)"
        )

    def __bool__(self) -> bool:
        raise KernelError(f"{self!r} has no truth value: use where(), &, | and eq(); maximum() and minimum() for max() and min()")

    def __float__(self) -> float:
        self._refuse("float()")

    def __int__(self) -> int:
        self._refuse("int()")

    def __index__(self) -> int:
        raise KernelError(
            f"an index or a range of Python needs a number, and {self!r} has none yet: go through places by an axis, and make a list or "
            "an array of numbers an input of the kernel"
        )

    def __round__(self, digits: int | None = None) -> NoReturn:
        raise KernelError(f"round() of {self!r}: use round_even() of {self._functions}")

    def __iter__(self) -> NoReturn:
        raise KernelError(f"{self!r} is one element and cannot be gone through: make an axis for that")

    def __array_ufunc__(self, ufunc: Any, method: str, *operands: Any, **more: Any) -> Any:
        """Arithmetic of NumPy's numbers with an expression is the expression's own."""
        operators = {
            "add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "floor_divide": "floordiv", "remainder": "mod",
            "less": "gt", "less_equal": "ge", "greater": "lt", "greater_equal": "le",
            "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "left_shift": "lshift", "right_shift": "rshift", "power": "pow",
        }  # fmt: skip
        name = operators.get(ufunc.__name__)
        if name is None or method != "__call__" or len(operands) != 2 or operands[1] is not self:
            raise KernelError(
                f"np.{ufunc.__name__} is for arrays, and {self!r} has no value yet: use {ufunc.__name__} of {self._functions}"
            )
        reflected = name if name in ("lt", "le", "gt", "ge") else f"r{name}"
        return getattr(self, f"__{reflected}__")(number(operands[0]))


class NotIndexed:
    """Arithmetic of a whole buffer or value: its elements are meant."""

    __slots__ = ()

    def _whole(self, *_: Any) -> NoReturn:
        raise KernelError(f"{whole(self)}")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = _whole
    __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __abs__ = __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _whole
    __lt__ = __le__ = __gt__ = __ge__ = __invert__ = __lshift__ = __rshift__ = __iter__ = __array_ufunc__ = _whole

    def __setitem__(self, at: Any, value: Any) -> NoReturn:
        raise KernelError("a kernel is not written by assignments: kb.store(name, dtype, shape, axes, expression) writes an output")


def whole(thing: Any) -> str:
    """That a buffer or value stands where one of its elements must."""
    name = getattr(thing, "name", "it")
    return f"{name} is a whole {'value' if hasattr(thing, 'axes') else 'array'}; index it with axes, as in {name}[i, j]"


def number(value: Any) -> int | float | bool:
    """A number of Python's, also from one of NumPy's. Raises KernelError for what is none."""
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, NotIndexed):
        raise KernelError(whole(value))
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, (bool, float)):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    if isinstance(value, NoValue):
        raise KernelError(f"{value!r} is no single element: use the functions of {value._functions}")
    if hasattr(value, "shape"):
        raise KernelError(
            f"an array of shape {tuple(value.shape)} is no part of an expression: make it an input of the kernel, and index that"
        )
    if isinstance(value, str):
        raise KernelError(f"{value!r} is a text; axes are what kb.axis({value!r}, ...) returned, not their names")
    if isinstance(value, slice):
        raise KernelError("a kernel reads element by element: index with an axis, not with a slice")
    raise KernelError(f"{value!r} ({type(value).__name__}) is no part of an expression: use axes, inputs[...], values[...] and numbers")


def condition(value: Any, what: str) -> None:
    """Raise KernelError where a condition is a Python bool."""
    if not hasattr(value, "dtype") or not hasattr(value, "op"):
        raise KernelError(
            f"{what}: {value!r} {_BOOL if isinstance(value, bool) or type(value).__name__ in ('bool_', 'bool') else 'is no condition'}"
        )


def mask_of(name: str, mask: Any) -> None:
    """Raise KernelError where what masks elements of `name` is no condition."""
    condition(mask, f"the mask of {name}")
    if mask.dtype.kind != "b":
        raise KernelError(f"the mask of {name} is {mask!r}, which is {mask.dtype} and not a condition; write x.ne(0), x > 0 or the like")


def index_of(name: str, i: Any) -> None:
    """Raise KernelError where a node that indexes `name` is no integer."""
    if not i.dtype.is_int:
        raise KernelError(f"{name} is indexed with {i!r}, which is {i.dtype}; an index is an integer (cast it to int64)")


def types_differ(what: str, a: Any, b: Any) -> NoReturn:
    """Raise the KernelError for two operands (nodes) whose types differ: which cast is missing, and why it is one."""
    types = (a.dtype.name, b.dtype.name)
    why = ""
    if "bool" in types:
        why = "; where(condition, x, 0) selects by a condition"
    elif "int64" in types:
        node, other = (a, b) if a.dtype.name == "int64" else (b, a)
        text = repr(node) if len(repr(node)) <= 40 else "..."
        why = f", as in cast({text}, {other.dtype}): axes, and whole numbers that meet no other type, are int64"
    raise KernelError(f"{what} of {a.dtype} and {b.dtype}: cast one of them{why}")
