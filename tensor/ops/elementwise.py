"""Elementwise functions with NumPy's broadcasting, the array API's promotion and NumPy's results for special values.

Kernels know all operators here (`ir.functions`), so these functions fuse with what is around them; `power` of integer tensors is
NumPy's code. Functions that only name an operator are rows: their name, what they compute, the operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import log as ln
from typing import TYPE_CHECKING, Any, TypeVar

from ...ir.dtypes import DType, DTypeLike, bool_, float64, int8
from ...ir.errors import DTypeError, NumberRangeError, UsageError
from ..graph.captured_numbers import whole
from ..graph.index_maps import Shape
from ..graph.nodes import HostCall, TensorNode, constant_of
from ..graph.primitives import as_typed, cast, const, elementwise, expand, host, number, rounded, with_gradient
from ..graph.promotion import Scalar, default_of, dtype_of, of_scalar, promote, to_float

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

Operand = TensorNode | bool | int | float
Function = TypeVar("Function", bound=Callable[..., TensorNode])


# operands ---------------------------------------------------------------------------------------------------------
def broadcast_shape(name: str, *shapes: Shape) -> Shape:
    """The shape NumPy broadcasts `shapes` to. Raises UsageError naming the operation and the shapes."""
    rank = max(map(len, shapes))
    out = []
    for d in range(rank):
        sizes = {s[len(s) - rank + d] for s in shapes if len(s) - rank + d >= 0} - {1}
        if len(sizes) > 1:
            raise UsageError(f"{name} of shapes {' and '.join(map(str, map(list, shapes)))}: dimension {d - rank} cannot be broadcast")
        out.append(sizes.pop() if sizes else 1)
    return tuple(out)


def together(name: str, *operands: Operand, dtype: DType | None = None) -> list[TensorNode]:
    """Operands of one shape and one type. A Python number takes the type of the arrays, and is rounded to it."""
    nodes = [o for o in operands if isinstance(o, TensorNode)]
    dtype = common_type(name, operands, dtype)
    shape = broadcast_shape(name, *(n.shape for n in nodes)) if nodes else ()
    return [expand(cast(o, dtype), shape) if isinstance(o, TensorNode) else const(o, dtype, shape) for o in operands]


def common_type(name: str, operands: Sequence[Operand], dtype: DType | None = None) -> DType:
    """The type of an operation (`dtype`, where that is known): that of the arrays, then of the numbers, if need be. Raises UsageError for a
    number that does not fit."""
    nodes = [o for o in operands if isinstance(o, TensorNode)]
    numbers: list[Scalar] = [o for o in operands if not isinstance(o, TensorNode)]
    if dtype is None:
        dtype = nodes[0].dtype if nodes else default_of(numbers[0])
        for n in nodes[1:]:
            dtype = promote(dtype, n.dtype)
        for v in numbers:
            dtype = of_scalar(v, dtype) if nodes else promote(dtype, default_of(v))
    for v in numbers:
        _fits(name, v, dtype)
    return dtype


def _fits(name: str, value: Scalar, dtype: DType) -> None:
    if dtype.is_int and isinstance(value, int) and not isinstance(value, bool):
        lo, hi = dtype.limits
        if not lo <= value <= hi:
            raise NumberRangeError(f"{name}: {value} is no {dtype} ({lo} to {hi}): cast the tensor to a wider type")


def binary(op: str, a: Operand, b: Operand) -> TensorNode:
    """An operator after broadcasting and promotion."""
    x, y = together(op, a, b)
    return elementwise(op, x, y)


def to_floats(x: TensorNode) -> TensorNode:
    """The elements as floats: integers become the default float."""
    return cast(x, to_float(x.dtype))


def floating(op: str, x: TensorNode) -> TensorNode:
    """A unary function whose results are floats."""
    return elementwise(op, to_floats(x))


def floats(name: str, *operands: Operand) -> list[TensorNode]:
    """Operands of one shape and one float type: integers become the default float."""
    nodes = [o for o in operands if isinstance(o, TensorNode)]
    # (whole numbers beside integers need not fit these: -1 / x of unsigned ones)
    whole = nodes and all(isinstance(o, (TensorNode, int)) for o in operands)
    kind = to_float(common_type(name, nodes if whole else operands))
    return together(name, *[cast(o, kind) if isinstance(o, TensorNode) else o for o in operands], dtype=kind)


def like(x: TensorNode, value: Scalar) -> TensorNode:
    """A number of a function's definition, in the shape and type of `x`."""
    return number(value, x.dtype, x.shape)


def truth(x: TensorNode) -> TensorNode:
    """Whether elements are not 0."""
    return x if x.dtype is bool_ else as_typed(x).ne(0)


def astype(x: TensorNode, dtype: DTypeLike) -> TensorNode:
    """Converted to another type."""
    to = dtype_of(dtype)
    return truth(x) if to.kind == "b" else rounded(x, to)


def choose(cond: TensorNode, a: TensorNode | Scalar, b: TensorNode | Scalar) -> TensorNode:
    """`where` of operands of one shape and type; numbers become them."""
    return elementwise("where", cond, a, b)


def _numbers(name: str, *operands: Operand) -> list[TensorNode]:
    """Operands of one shape and type as numbers: bools are 0 and 1."""
    return [cast(n, int8) if n.dtype is bool_ else as_typed(n) for n in together(name, *operands)]


def _typed(name: str, *operands: Operand) -> list[TensorNode]:
    """Operands of one shape and type, as numbers of it: they compare as they are seen, however a kernel has them."""
    return [as_typed(n) for n in together(name, *operands)]


def _truths(name: str, a: Operand, b: Operand) -> list[TensorNode]:
    nodes = [o if isinstance(o, TensorNode) else together(name, o)[0] for o in (a, b)]
    shape = broadcast_shape(name, *(n.shape for n in nodes))
    return [expand(truth(n), shape) for n in nodes]


def _integers(name: str, *operands: Operand, bools: bool = True) -> list[TensorNode]:
    nodes = together(name, *operands)
    if not (nodes[0].dtype.is_int or (bools and nodes[0].dtype is bool_)):
        raise DTypeError(f"{name} of {nodes[0].dtype}: cast it to an integer type")
    return nodes


# rows -------------------------------------------------------------------------------------------------------------
def _unary(op: str, text: str) -> Callable[[TensorNode], TensorNode]:
    """The function that is the operator `op` on floats: integers become the default float."""

    def function(x: TensorNode, /) -> TensorNode:
        return floating(op, x)

    return _named(function, op, text)


def _binary(
    name: str, text: str, op: str, operands: Callable[..., list[TensorNode]] = together
) -> Callable[[Operand, Operand], TensorNode]:
    """The function that is the operator `op` on two operands; `operands` brings them to one shape and type."""

    def function(x1: Operand, x2: Operand, /) -> TensorNode:
        return elementwise(op, *operands(name, x1, x2))

    return _named(function, name, text)


def _ordered(name: str, text: str, op: str, swapped: bool = False) -> Callable[[Operand, Operand], TensorNode]:
    """The comparison `op`; of bools, False is less than True."""

    def function(x1: Operand, x2: Operand, /) -> TensorNode:
        first, second = (x2, x1) if swapped else (x1, x2)
        above = _beyond(first, second) or -_beyond(second, first)
        if above:
            return _everywhere(above > 0, first, second)
        x, y = _typed(name, first, second)
        if x.dtype is bool_:
            return elementwise("and" if op == "lt" else "or", ~x, y)
        return elementwise(op, x, y)

    return _named(function, name, text)


def _equality(name: str, text: str, op: str) -> Callable[[Operand, Operand], TensorNode]:
    """Whether operands are equal ("eq") or not ("ne")."""

    def function(x1: Operand, x2: Operand, /) -> TensorNode:
        if _beyond(x1, x2) or _beyond(x2, x1):
            return _everywhere(op == "ne", x1, x2)
        return elementwise(op, *_typed(name, x1, x2))

    return _named(function, name, text)


def _beyond(x: Operand, number: Operand) -> int:
    """1 where a Python integer is above all numbers of an integer tensor's type, -1 where it is below all of them, else 0."""
    if not isinstance(x, TensorNode) or not x.dtype.is_int or type(number) is not int:
        return 0
    low, high = x.dtype.limits
    return (number > high) - (number < low)


def _everywhere(value: bool, *operands: Operand) -> TensorNode:
    """A truth value in the shape of the operand that is a tensor."""
    (shape,) = (o.shape for o in operands if isinstance(o, TensorNode))
    return const(value, bool_, shape)


def _rounding(op: str, text: str) -> Callable[[TensorNode], TensorNode]:
    """A function to whole numbers, which integers are already."""

    def function(x: TensorNode, /) -> TensorNode:
        return elementwise(op, as_typed(x)) if x.dtype.is_float else x

    return _named(function, op, text)


def _named(function: Function, name: str, text: str) -> Function:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return function


def _bits(name: str, *operands: Operand) -> list[TensorNode]:
    return _integers(name, *operands, bools=False)


exp = _unary("exp", "e to the power of x.")
expm1 = _unary("expm1", "eˣ − 1, exact near 0.")
log = _unary("log", "The natural logarithm.")
log1p = _unary("log1p", "ln(1 + x), exact near 0.")
sqrt = _unary("sqrt", "The square root.")
erf = _unary("erf", "The error function.")
sin = _unary("sin", "The sine of an angle in radians.")
cos = _unary("cos", "The cosine of an angle in radians.")
tan = _unary("tan", "The tangent of an angle in radians.")
asin = _unary("asin", "The angle in [−π/2, π/2] whose sine is x.")
acos = _unary("acos", "The angle in [0, π] whose cosine is x.")
atan = _unary("atan", "The angle in [−π/2, π/2] whose tangent is x.")
sinh = _unary("sinh", "(eˣ − e⁻ˣ) / 2.")
cosh = _unary("cosh", "(eˣ + e⁻ˣ) / 2.")
tanh = _unary("tanh", "The hyperbolic tangent.")
asinh = _unary("asinh", "The number whose sinh is x.")
acosh = _unary("acosh", "The number above 0 whose cosh is x; NaN below 1.")
atanh = _unary("atanh", "The number whose tanh is x; NaN outside of [−1, 1].")

floor = _rounding("floor", "The next whole number below or at x.")
trunc = _rounding("trunc", "The next whole number towards 0.")
round = _rounding("round", "The nearest whole number, halves to the even one.")

add = _binary("add", "x1 + x2; of bools it is their `or`.", "add")
multiply = _binary("multiply", "x1 · x2; of bools it is their `and`.", "mul")
divide = _binary("divide", "True division: integers become the default float.", "div", floats)
floor_divide = _binary("floor_divide", "⌊x1 / x2⌋; integers by 0 give 0, as in NumPy.", "floordiv", _numbers)
remainder = _binary("remainder", "x1 − x2·⌊x1 / x2⌋, with the sign of x2; integers by 0 give 0, as in NumPy.", "remainder", _numbers)
maximum = _binary("maximum", "The larger of both; NaN where either is.", "max")
minimum = _binary("minimum", "The smaller of both; NaN where either is.", "min")
copysign = _binary("copysign", "|x1| with the sign of x2 (NaN counts as positive).", "copysign", floats)
atan2 = _binary("atan2", "The angle of the point (x2, x1), in [−π, π].", "atan2", floats)
equal = _equality("equal", "x1 = x2.", "eq")
not_equal = _equality("not_equal", "x1 ≠ x2.", "ne")
less = _ordered("less", "x1 < x2.", "lt")
less_equal = _ordered("less_equal", "x1 ≤ x2.", "le")
greater = _ordered("greater", "x1 > x2.", "lt", swapped=True)
greater_equal = _ordered("greater_equal", "x1 ≥ x2.", "le", swapped=True)
logical_and = _binary("logical_and", "Whether both are true.", "and", _truths)
logical_or = _binary("logical_or", "Whether either is true.", "or", _truths)
logical_xor = _binary("logical_xor", "Whether exactly one is true.", "ne", _truths)
bitwise_and = _binary("bitwise_and", "Bits that both have.", "and", _integers)
bitwise_or = _binary("bitwise_or", "Bits that either has.", "or", _integers)
bitwise_left_shift = _binary("bitwise_left_shift", "Bits moved up; 0 where all leave.", "shl", _bits)
bitwise_right_shift = _binary("bitwise_right_shift", "Bits moved down, the sign kept.", "shr", _bits)


# arithmetic -------------------------------------------------------------------------------------------------------
def subtract(x1: Operand, x2: Operand, /) -> TensorNode:
    """x1 − x2. Raises DTypeError for bools (use logical_xor)."""
    x, y = together("subtract", x1, x2)
    if x.dtype is bool_:
        raise DTypeError("subtract of bools: use logical_xor, or cast them to an integer type")
    return x - y


def negative(x: TensorNode, /) -> TensorNode:
    """−x."""
    if x.dtype is bool_:
        raise DTypeError("negative of bools: use logical_not, or cast them to an integer type")
    return -x


def positive(x: TensorNode, /) -> TensorNode:
    """x itself."""
    return x


def absolute(x: TensorNode, /) -> TensorNode:
    """|x|."""
    return x if x.dtype.kind in "bu" else abs(x)


def square(x: TensorNode, /) -> TensorNode:
    """x²."""
    return x * x


def reciprocal(x: TensorNode, /) -> TensorNode:
    """1 / x."""
    return divide(1.0, x)


def sign(x: TensorNode, /) -> TensorNode:
    """−1, 0 or 1; NaN of NaN."""
    if x.dtype is bool_:
        return x
    x = as_typed(x)
    if x.dtype.kind == "u":
        return choose(x.ne(0), like(x, 1), 0)
    out = choose(x > 0, 1, choose(x < 0, -1, like(x, 0)))
    return choose(x.ne(x), x, out) if x.dtype.is_float else out


def clip(x: TensorNode, /, min: Operand | None = None, max: Operand | None = None) -> TensorNode:
    """`x` kept in [min, max], in the type that `x` has together with bounds that are tensors; numbers take it. Where min > max it is max, as
    in NumPy. Raises UsageError for bools between numbers."""
    x = cast(x, reduce(promote, (b.dtype for b in (min, max) if isinstance(b, TensorNode)), x.dtype))
    if x.dtype is bool_ and any(type(b) in (int, float) for b in (min, max)):
        raise UsageError("clip of bools between numbers: cast them to a type of numbers")
    limits = [rounded(b, x.dtype) if isinstance(b, TensorNode) else None if b is None else _bound(x, b) for b in (min, max)]
    x, *given = together("clip", x, *(b for b in limits if b is not None), dtype=x.dtype)
    low, high = (given.pop(0) if b is not None else None for b in limits)
    out = x
    for op, limit in (("max", low), ("min", high)):
        if limit is not None:
            out = elementwise(op, out, limit)
    if low is None and high is None:
        return x
    rule = _clip_gradient if low is not None and high is not None else _floor_gradient if low is not None else _roof_gradient
    return with_gradient(out, (x, *(b for b in (low, high) if b is not None)), rule)


def _clip_gradient(dy: TensorNode, y: TensorNode, x: TensorNode, low: TensorNode, high: TensorNode) -> tuple[TensorNode, ...]:
    over = high < elementwise("max", x, low)
    inside = (low <= x) & (x <= high)
    under = (x < low) & (low <= high)
    return choose(inside, dy, 0.0), choose(under, dy, 0.0), choose(over, dy, 0.0)


def _floor_gradient(dy: TensorNode, y: TensorNode, x: TensorNode, low: TensorNode) -> tuple[TensorNode, ...]:
    return choose(low <= x, dy, 0.0), choose(x < low, dy, 0.0)


def _roof_gradient(dy: TensorNode, y: TensorNode, x: TensorNode, high: TensorNode) -> tuple[TensorNode, ...]:
    return choose(x <= high, dy, 0.0), choose(high < x, dy, 0.0)


def _bound(x: TensorNode, bound: Scalar) -> Scalar:
    """A Python number as a bound, brought into the range of an integer type."""
    if not x.dtype.is_int:
        return bound
    lo, hi = x.dtype.limits
    if isinstance(bound, float):
        if bound != bound:
            raise UsageError(f"clip of {x.dtype}: the bound is NaN")
        near = max(min(bound, 2.0**70), -(2.0**70))
        if near % 1 != 0:
            raise UsageError(f"clip of {x.dtype}: the bound {bound} is no whole number")
        found: int = whole(near)
        bound = found
    kept: int = max(lo, min(bound, hi))
    return kept


def ceil(x: TensorNode, /) -> TensorNode:
    """The next whole number above or at x."""
    return negative(floor(negative(x))) if x.dtype.is_float else x


def signbit(x: TensorNode, /) -> TensorNode:
    """Whether x is negative or −0.0. A NaN counts as positive whatever its sign bit is."""
    x = as_typed(x)
    below = less(x, 0)
    if not x.dtype.is_float:
        return below
    inverse = 1.0 / x < 0
    return below | (x.eq(0) & inverse)


def hypot(x1: Operand, x2: Operand, /) -> TensorNode:
    """√(x1² + x2²), without overflow on the way."""
    a, b = floats("hypot", x1, x2)
    x, y = abs(a), abs(b)
    large, small = elementwise("max", x, y), elementwise("min", x, y)
    ratio = choose(large.eq(0), 0.0, small / large)
    out = large * sqrt(1.0 + ratio * ratio)
    infinite = x.eq(float("inf")) | y.eq(float("inf"))
    return with_gradient(choose(infinite, float("inf"), out), (a, b), _hypot_gradient)


def _hypot_gradient(dy: TensorNode, y: TensorNode, a: TensorNode, b: TensorNode) -> tuple[TensorNode, TensorNode]:
    return dy * (a / y), dy * (b / y)


# exponentials and powers ------------------------------------------------------------------------------------------
def exp2(x: TensorNode, /) -> TensorNode:
    """2 to the power of x."""
    return exp(to_floats(x) * ln(2.0))


def log2(x: TensorNode, /) -> TensorNode:
    """The logarithm to base 2."""
    return log(x) * (1 / ln(2.0))


def log10(x: TensorNode, /) -> TensorNode:
    """The logarithm to base 10."""
    return log(x) * (1 / ln(10.0))


def logaddexp(x1: Operand, x2: Operand, /) -> TensorNode:
    """ln(eˣ¹ + eˣ²), without overflow on the way."""
    x, y = floats("logaddexp", x1, x2)
    large = elementwise("max", x, y)
    away = -abs(x - y)
    out = large + log1p(exp(away))
    same = x.eq(y) & abs(x).eq(float("inf"))
    return with_gradient(choose(same, x, out), (x, y), _logaddexp_gradient)


def _logaddexp_gradient(dy: TensorNode, z: TensorNode, x: TensorNode, y: TensorNode) -> tuple[TensorNode, TensorNode]:
    return dy * sigmoid(x - y), dy * sigmoid(y - x)


def sigmoid(x: TensorNode, /) -> TensorNode:
    """1 / (1 + e⁻ˣ)."""
    x = to_floats(x)
    return with_gradient(1.0 / (1.0 + exp(-x)), (x,), _sigmoid_gradient)


def _sigmoid_gradient(dy: TensorNode, y: TensorNode, x: TensorNode) -> tuple[TensorNode]:
    return (dy * (y * (1.0 - y)),)


def rsqrt(x: TensorNode, /) -> TensorNode:
    """1 / √x."""
    return 1.0 / sqrt(x)


def length(squares: TensorNode) -> TensorNode:
    """The square root of a sum of squares: where that is 0, so is the gradient."""
    return with_gradient(sqrt(squares), (squares,), _length_gradient)


def _length_gradient(dy: TensorNode, y: TensorNode, squares: TensorNode) -> tuple[TensorNode]:
    return (choose(y.eq(0.0), 0.0, dy * 0.5 / y),)


SQUARED = 64
"""Whole exponents up to which products are used."""


def power(x1: Operand, x2: Operand, /) -> TensorNode:
    """x1 to the power of x2. Whole exponents of floats that are Python numbers are products. Integers need exponents of at
    least 0."""
    if isinstance(x1, TensorNode) and isinstance(x2, float) and x1.dtype.is_float:
        if abs(x2) <= SQUARED and x2 % 1 == 0:
            x2 = whole(x2)
        elif x2 == 0.5:
            return _root(x1)
    if isinstance(x1, TensorNode) and x1.dtype is not bool_ and isinstance(x2, int) and not isinstance(x2, bool) and abs(x2) <= SQUARED:
        return _whole(x1, x2)
    x, y = together("pow", x1, x2)
    if x.dtype is bool_:
        x, y = cast(x, int8), cast(y, int8)
    return _integer_powers(x, y) if x.dtype.is_int else elementwise("pow", x, y)


def _root(x: TensorNode) -> TensorNode:
    """x^0.5, which differs from √x at −∞ (∞) and −0.0 (0.0)."""
    root = sqrt(x)
    infinite = x.eq(float("-inf"))
    out = choose(infinite, float("inf"), choose(x.eq(0), 0.0, root))
    return with_gradient(out, (x,), _root_gradient)


def _root_gradient(dy: TensorNode, y: TensorNode, x: TensorNode) -> tuple[TensorNode]:
    return (dy * 0.5 / y,)


def _whole(x: TensorNode, n: int) -> TensorNode:
    if n < 0 and x.dtype.is_int:
        raise UsageError(f"pow of {x.dtype} by {n}: integers have no negative powers; cast to a float type")
    out: TensorNode = whole_power(x, n, like(x, 1))
    # (one through the reciprocal would be 0 · ∞ at 0, and too large for the type next to it)
    return out if n >= -1 else with_gradient(out, (x,), lambda dy, y, x: (dy * (_whole(x, n - 1) * n),))


def whole_power(x: Any, n: int, one: Any) -> Any:
    """xⁿ by squaring, of nodes or arrays; `one`: x⁰."""
    if n < 0:
        return 1.0 / whole_power(x, -n, one)
    out, base = None, x
    while n:
        if n & 1:
            out = base if out is None else out * base
        n >>= 1
        if n:
            base = base * base
    return one if out is None else out


def _integer_powers(x: TensorNode, y: TensorNode) -> TensorNode:
    known = constant_of(y)
    if known is not None and 0 <= known <= SQUARED:
        return _whole(x, int(known))
    return host(HostCall("pow", _integer_power), (x, y), x.shape, x.dtype)


def _integer_power(x: Array, y: Array) -> Array:
    """x^y of integers, wrapping. Raises UsageError for a negative exponent."""
    import numpy as np

    if y.size and y.dtype.kind == "i" and int(y.min()) < 0:
        raise UsageError(f"pow of {x.dtype} by {int(y.min())}: integers have no negative powers; cast to a float type")
    out: Array = np.power(x, y)
    return out


# comparison, logic, bits ------------------------------------------------------------------------------------------
def logical_not(x: TensorNode, /) -> TensorNode:
    """Whether x is false."""
    return ~truth(x)


def bitwise_xor(x1: Operand, x2: Operand, /) -> TensorNode:
    """Bits that exactly one has."""
    x, y = _integers("bitwise_xor", x1, x2)
    return elementwise("ne" if x.dtype is bool_ else "xor", x, y)


def bitwise_invert(x: TensorNode, /) -> TensorNode:
    """All bits changed; of bools the negation."""
    return elementwise("not", *_integers("bitwise_invert", x))


def isnan(x: TensorNode, /) -> TensorNode:
    """Whether an element is NaN."""
    return x.ne(x)


def isinf(x: TensorNode, /) -> TensorNode:
    """Whether an element is infinite."""
    if not x.dtype.is_float:
        return x.ne(x)
    return abs(as_typed(x)).eq(float("inf"))


def isfinite(x: TensorNode, /) -> TensorNode:
    """Whether an element is neither infinite nor NaN."""
    if not x.dtype.is_float:
        return x.eq(x)
    return abs(as_typed(x)) < float("inf")


def isclose(x1: Operand, x2: Operand, /, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> TensorNode:
    """|x1 − x2| ≤ atol + rtol·|x2|, or equal infinities; NaNs are close to NaNs if `equal_nan`."""
    x, y = _typed("isclose", x1, x2)
    if x.dtype is bool_ or x.dtype.is_int:
        x, y = together("isclose", x, y, dtype=float64)
    near = atol + rtol * abs(y)
    within = abs(x - y) <= near
    out = within & isfinite(y) | x.eq(y)
    return out | isnan(x) & isnan(y) if equal_nan else out


# selection --------------------------------------------------------------------------------------------------------
def where(condition: Operand, x1: Operand, x2: Operand, /) -> TensorNode:
    """`x1` where `condition` holds, else `x2`."""
    x, y = together("where", x1, x2)
    c = truth(condition) if isinstance(condition, TensorNode) else const(condition, bool_)
    shape = broadcast_shape("where", c.shape, x.shape)
    return elementwise("where", expand(c, shape), expand(x, shape), expand(y, shape))
