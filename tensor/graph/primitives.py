"""The primitives (`node` lists them): checked as little as possible, simplified as they are made. Users' functions are in `ops`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from math import copysign

from ...ir.dtypes import DType, bool_, int64, uint8
from ...ir.dtypes import rounded as nearest
from ...ir.errors import KernelError, NumberRangeError, UsageError
from . import index_maps as maps
from .captured_numbers import captured, parameter, plain
from .index_maps import IndexMap, Shape
from .nodes import STOP, Gathered, HostCall, Mark, OwnGradient, Scattered, TensorNode, constant_of, install, make
from .symbolic_sizes import SymbolicSize, symbolic

# simplify ---------------------------------------------------------------------------------------------------
# Rewrites of elementwise nodes as they are made: constants, identities that hold for every value, NaN included.


_NEUTRAL = {"mul": 1, "div": 1, "pow": 1}
_NEUTRAL_INTS = {"add": 0, "sub": 0, "or": 0, "xor": 0, "shl": 0, "shr": 0}
_COMMUTE = frozenset({"add", "mul", "or", "xor", "and"})


def simplified(op: str, src: tuple[TensorNode, ...]) -> TensorNode | None:
    """A node that is already there and equal to `op` of `src`, or None."""
    if op == "where":
        cond, a, b = src
        known = constant_of(cond)
        if known is None and a.dtype is bool_ and constant_of(a) is True and constant_of(b) is False:
            return cond
        return (a if known else b) if known is not None else a if a is b else None
    if len(src) != 2:
        x = src[0]
        return x.src[0] if op in ("not", "neg") and x.op == "elementwise" and x.arg == op else None
    a, b = src
    if op in ("and", "or") and a is b:
        return a
    return _neutral(op, a, b, constant_of(b)) or (_neutral(op, b, a, constant_of(a)) if op in _COMMUTE else None)


def _neutral(op: str, x: TensorNode, other: TensorNode, value: bool | int | float | None) -> TensorNode | None:
    """`x op value` where that is `x` or `value` whatever `x` is. (x + 0.0 is not x: −0.0 + 0.0 is 0.0.)"""
    if value is None:
        return None
    if x.dtype.is_float and value == 0 and op in ("add", "sub"):
        negative = copysign(1.0, value) < 0
        if negative is (op == "add") or (op == "add" and _sum_from_zero(x)):  # x + −0.0 and x − 0.0 are x, −0.0 included
            return x
    if x.dtype is bool_:
        if op in ("and", "or"):
            return (x if value else other) if op == "and" else (other if value else x)
        return None
    neutral = _NEUTRAL.get(op)
    if neutral is None and x.dtype.is_int:
        neutral = _NEUTRAL_INTS.get(op)
    return x if neutral is not None and value == neutral and (op != "and") else None


def _sum_from_zero(x: TensorNode) -> bool:
    """Whether a node was added up from 0.0, so that it is never −0.0."""
    return x.op == "scatter" and x.arg.combine == "add"


# primitives -------------------------------------------------------------------------------------------------
COMPARISONS = frozenset({"lt", "le", "eq", "ne"})
PREDICATES = frozenset({"not"})


# leaves -----------------------------------------------------------------------------------------------------------
def const(value: bool | int | float, dtype: DType, shape: Shape = ()) -> TensorNode:
    """A constant as its type holds it, of any shape by broadcasting; of a symbolic size or a captured number, its value at each call."""
    if isinstance(value, SymbolicSize):
        return expand(rounded(make("extent", (), value, (), int64), dtype), shape)
    return number(nearest(value, dtype) if dtype.narrow and not captured(value) else value, dtype, shape)


def number(value: bool | int | float, dtype: DType, shape: Shape = ()) -> TensorNode:
    """A constant that a function's definition holds: of a narrow float it has the digits of the type that this is computed in."""
    if isinstance(value, SymbolicSize):
        return expand(cast(make("extent", (), value, (), int64), dtype), shape)
    if captured(value):
        found = parameter(value, dtype)
        if found is not None:
            return expand(found, shape)
        value = plain(value)
    return expand(make("const", (), number_of(value, dtype), (), dtype), shape)


def number_of(value: bool | int | float, dtype: DType) -> bool | int | float:
    """A number as one of a type. Raises NumberRangeError where an integer type has no such number."""
    if not dtype.is_int:
        return bool(value) if dtype is bool_ else float(value)
    lo, hi = dtype.limits
    if value != value or not lo <= (found := int(max(min(value, 2.0**70), -(2.0**70)))) <= hi:
        raise NumberRangeError(f"{value} is no {dtype} ({lo} to {hi})")
    return found


def iota(n: int) -> TensorNode:
    """0, 1, … n − 1 of int64."""
    return make("iota", (), None, (n,), int64)


# marks ------------------------------------------------------------------------------------------------------------
def marked(x: TensorNode, mark: Mark) -> TensorNode:
    """The values of `x` as a node of its own (`node.Mark`); a kernel computes nothing for it."""
    return make("cast", (x,), mark, x.shape, x.dtype)


def stop_gradient(x: TensorNode) -> TensorNode:
    """The values of `x`, of which no gradient is taken."""
    return marked(x, STOP) if x.dtype.is_float else x


def with_gradient(y: TensorNode, of: tuple[TensorNode, ...], rule: Callable[..., tuple[TensorNode | None, ...]]) -> TensorNode:
    """The values of `y`, whose gradient is a rule of its own (`node.OwnGradient`)."""
    return marked(y, OwnGradient(getattr(rule, "__name__", "gradient"), of, rule)) if y.dtype.is_float else y


def after(x: TensorNode, token: TensorNode) -> TensorNode:
    """The values of `x`; what is computed from them runs when `token` is known, and is never one with what is computed
    from `x` itself. (XLA's optimization barrier: what a backward pass computes again is not kept from the forward pass.)"""
    return make("after", (x, token), None, x.shape, x.dtype)


# elementwise ------------------------------------------------------------------------------------------------------
def cast(x: TensorNode, to: DType) -> TensorNode:
    """Conversion; nothing where the type is right already."""
    if x.dtype is to:
        return x
    if x.op == "cast" and x.arg is None and x.src[0].dtype is to and _holds(x.dtype, to):
        return x.src[0]
    base = constant_of(x)
    known = None if base is None else _converted(nearest(base, x.dtype) if x.dtype.is_float else base, to)
    if known is not None:
        return const(known, to, x.shape)
    return make("cast", (x,), None, x.shape, to)


def _converted(value: bool | int | float, to: DType) -> bool | int | float | None:
    """A number after a cast: integers wrap. None for floats that the type does not have, which are left to the hardware."""
    if not to.is_int:
        return value
    lo, hi = to.limits
    if isinstance(value, float):
        return int(value) if lo <= value <= hi and lo <= int(value) <= hi else None
    return (int(value) - lo) % (hi - lo + 1) + lo


def rounded(x: TensorNode, to: DType) -> TensorNode:
    """Conversion as a user writes it: what leaves it is a number of type `to`, also inside a kernel (`cast` to a narrow float only says
    in what type a result is stored)."""
    if to.is_int and x.dtype.narrow:
        x = as_typed(x)  # what is next to a whole number may be one
    if not to.narrow or constant_of(x) is not None or _exact(x, to):
        return cast(x, to)
    return make("elementwise", (x,), "rounded", x.shape, to)


def as_typed(x: TensorNode) -> TensorNode:
    """The elements as numbers of their type, which is what a comparison, a condition or a place is decided by: a kernel may have them in
    a wider type than memory, and what is stored elsewhere is rounded."""
    return rounded(x, x.dtype)


def _exact(x: TensorNode, to: DType, depth: int = 8) -> bool:
    """Whether all elements are numbers of a narrow float type, as far as conversions show, movement, and choices between such numbers."""
    while x.data is None and (x.op in _MOVES or (x.op == "cast" and x.arg is None and _holds(x.dtype, x.src[0].dtype))):
        x = x.src[0]
    if (
        x.data is None
        and depth
        and ((x.op == "elementwise" and x.arg in _CHOICES) or (x.op in ("reduce", "scan") and x.arg[0] in _CHOICES))
    ):
        return all(_exact(s, to, depth - 1) for s in x.src[x.arg == "where" :])
    known = x.data is not None or x.op in ("slot", "host") or (x.op == "elementwise" and x.arg == "rounded")
    if x.op == "const" and x.data is None:
        return x.dtype is to and nearest(x.arg, to) == x.arg
    return x.dtype is bool_ or (known and (x.dtype is to or (x.dtype.is_int and x.dtype.size == 1 and to.size == 2)))


_MOVES = frozenset({"view", "gather"})
_CHOICES = frozenset({"max", "min", "neg", "abs", "where"})


def _holds(wide: DType, narrow: DType) -> bool:
    """Whether a type has every value of another of its kind, so that converting there and back changes nothing."""
    return wide.kind == narrow.kind and wide.size > narrow.size and wide.kind in "iuf"


def elementwise(op: str, *operands: TensorNode | bool | int | float) -> TensorNode:
    """An operator on nodes of one shape, and of one type but for the condition of `where`. Numbers become constants of that shape and
    type, with the digits of the type that it is computed in (`number`)."""
    values = operands[1:] if op == "where" else operands
    first = next(s for s in values if isinstance(s, TensorNode))
    src = tuple(s if isinstance(s, TensorNode) else number(s, first.dtype, first.shape) for s in operands)
    if any(s.shape != first.shape for s in src) or any(s.dtype is not first.dtype for s in (src[1:] if op == "where" else src)):
        raise KernelError(f"{op} of {', '.join(f'{s.dtype}{list(s.shape)}' for s in src)}: shapes and types must be equal here")
    found = simplified(op, src)
    if found is not None:
        return found
    dtype = bool_ if op in COMPARISONS or (op in PREDICATES and first.dtype is bool_) or op in ("isnan", "isinf") else first.dtype
    return make("elementwise", src, op, first.shape, dtype)


install(elementwise)


# movement ---------------------------------------------------------------------------------------------------------
def view(x: TensorNode, by: IndexMap) -> TensorNode:
    """`x` seen through an index map. Chains of maps become one, but reshapes are not merged with other maps."""
    if by.identity:
        return x
    if x.op == "view" and (x.arg.reshape == by.reshape or x.arg.units or by.units):
        return view(x.src[0], maps.compose(by, x.arg))
    return make("view", (x,), by, by.shape, x.dtype)


def expand(x: TensorNode, shape: Shape) -> TensorNode:
    """Broadcasting, checked by the caller."""
    return x if x.shape == shape else view(x, maps.broadcast(x.shape, shape))


def reshape(x: TensorNode, shape: Shape) -> TensorNode:
    """Row-major reshape to as many elements."""
    return x if x.shape == shape else view(x, maps.reshape(x.shape, shape))


# reductions -------------------------------------------------------------------------------------------------------
def reduce(combine: str, x: TensorNode, dims: Iterable[int]) -> TensorNode:
    """`combine` (add, mul, max, min) over dimensions, which leave the shape; over none it is `x`."""
    over = tuple(sorted(dims))
    if not over:
        return x
    if x.op == "view" and x.arg.permutes and len(x.arg.shape) == len(x.arg.source):
        return _unmoved(combine, x, over)
    shape = tuple(n for d, n in enumerate(x.shape) if d not in over)
    if all(x.shape[d] == 1 for d in over):
        return reshape(x, shape)
    if x.dtype is bool_:  # a sum is whether any holds, a product whether all do
        every = _OF_TRUTHS[combine] == "min"
        some = elementwise("ne", reduce("add", cast(elementwise("not", x) if every else x, int64), over), 0)
        return elementwise("not", some) if every else some
    return make("reduce", (x,), (combine, over), shape, x.dtype)


_OF_TRUTHS = {"add": "max", "max": "max", "mul": "min", "min": "min"}
"""Combines of bools as those of 0 and 1."""


def _unmoved(combine: str, x: TensorNode, over: tuple[int, ...]) -> TensorNode:
    """A reduction of a permutation as a permutation of a reduction: siblings over one array look alike then."""
    back = [d for d in range(len(x.shape)) if x.shape[d] != 1]
    plain = dict(zip([p for p in x.arg.plain if p is not None], [d for d, p in enumerate(x.arg.plain) if p is not None]))
    units = iter(d for d, p in enumerate(x.arg.plain) if p is None)
    source = [plain[d] if d in back else next(units) for d in range(len(x.shape))]
    kept = [source[d] for d in range(len(x.shape)) if d not in over]
    out = reduce(combine, x.src[0], [source[d] for d in over])
    order = [sorted(kept).index(d) for d in kept]
    return out if order == sorted(order) else view(out, maps.permute(out.shape, order))


def scan(combine: str, x: TensorNode, dim: int) -> TensorNode:
    """Inclusive prefixes along a dimension."""
    return x if x.shape[dim] == 1 else make("scan", (x,), (combine, dim), x.shape, x.dtype)


# indexed ----------------------------------------------------------------------------------------------------------
def gather(x: TensorNode, by: Gathered, index: tuple[TensorNode, ...], shape: Shape) -> TensorNode:
    """Elements of `x` at computed and loaded places; `index` are integer nodes of the result's shape. A place outside of the
    source reads its nearest element."""
    return make("gather", (x, *index), by, shape, x.dtype)


def scatter(values: TensorNode, to: Scattered, index: tuple[TensorNode, ...], shape: Shape) -> TensorNode:
    """An array of `shape` of the combine's identity, into which every value is combined in order; 16-bit floats are combined
    in float32 and rounded once."""
    wide = values.dtype.compute
    if to.combine in _CHOICES:
        values = as_typed(values)
    if values.dtype is bool_:
        return elementwise("ne", scatter(cast(values, uint8), replace(to, combine=_OF_TRUTHS[to.combine]), index, shape), 0)
    if wide is not values.dtype:
        return cast(scatter(cast(values, wide), to, index, shape), values.dtype)
    return make("scatter", (values, *index), to, shape, values.dtype)


def host(call: HostCall, src: tuple[TensorNode, ...], shape: Shape, dtype: DType) -> TensorNode:
    """What NumPy computes of whole arrays. Raises UsageError for symbolic sizes, but of what works on arrays of any shape."""
    if call.name not in ("copy", "debug.print", "sort", "argsort") and (symbolic(shape) or any(symbolic(s.shape) for s in src)):
        shapes = " and ".join(str(list(s.shape)) for s in src)
        raise UsageError(
            f"{call.name} of {shapes}: NumPy's own code does not work with symbolic sizes; capture it in a function of its own"
        )
    return make("host", src, call, shape, dtype)
