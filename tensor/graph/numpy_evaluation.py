"""Small graphs computed by NumPy, node by node: a kernel of ten elements would take longer to compile than to wait for.

The policy: on the device `cpu`, a graph whose nodes have fewer than `LIMIT` elements together is evaluated here. Captured
functions always run kernels, and TILEWRIGHT_SMALL=0 turns this off. Types are those of the kernels: 16-bit floats are
computed in float32 and rounded where a result is stored. Elementary functions and the order of sums may differ from a
kernel's in the last bits, as two schedules of one kernel do. The same code is the reference of the tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any

from ...ir.dtypes import DType, bool_
from ...ir.errors import KernelError
from ...ir.node import Node
from ..memory import buffers
from .index_checks import IndexMark
from .index_maps import IndexMap
from .node import Loaded, TensorNode, walk

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

LIMIT = 1 << 13
"""Elements of all nodes of a graph, at which a kernel begins to be worth its compilation."""


def fits(outs: Sequence[TensorNode], device: str) -> bool:
    """Whether a graph is small, and small graphs are NumPy's."""
    if device != "cpu" or os.environ.get("TILEWRIGHT_SMALL", "1") == "0":
        return False
    total = 0
    for n in walk(outs):
        total += n.size if n.data is None else 0
        if total > LIMIT:
            return False
    return True


def compute(outs: Sequence[TensorNode], device: str = "cpu") -> None:
    """Give every node of `outs` memory with its values."""
    import numpy as np

    found = evaluate(outs)
    for n, value in zip(outs, found, strict=True):
        buffer = buffers.new(n.shape, n.dtype, device, n.line)
        with np.errstate(all="ignore"):
            np.copyto(buffer.array, value, casting="unsafe")
        n.data = buffer


def evaluate(outs: Sequence[TensorNode]) -> list[Array]:
    """The values of nodes whose leaves have memory; 16-bit floats as float32."""
    import numpy as np

    done: dict[int, Array] = {}
    with np.errstate(all="ignore"):
        for n in walk(outs):
            done[id(n)] = _stored(n) if n.data is not None else _EVALUATE[n.op](n, [done[id(s)] for s in n.src])
        return [_rounded(done[id(o)], o.dtype) for o in outs]


def _stored(n: TensorNode) -> Array:
    array: Array = n.data.array
    return array if n.dtype.compute is n.dtype else array.astype(n.dtype.compute.np)


def _rounded(x: Array, dtype: DType) -> Array:
    return x if x.dtype == dtype.np else x.astype(dtype.np)


# by operation -----------------------------------------------------------------------------------------------------
def _const(n: TensorNode, src: list[Array]) -> Array:
    import numpy as np

    return np.asarray(n.arg, n.dtype.compute.np)


def _given(n: TensorNode, src: list[Array]) -> Array:
    import numpy as np

    return np.asarray(n.arg[1], n.dtype.compute.np)


def _iota(n: TensorNode, src: list[Array]) -> Array:
    import numpy as np

    return np.arange(n.shape[0], dtype=np.int64)


def _cast(n: TensorNode, src: list[Array]) -> Array:
    if isinstance(n.arg, IndexMark):
        n.arg.look(src[0], n.line)
    return src[0].astype(n.dtype.compute.np, copy=False)


def _elementwise(n: TensorNode, src: list[Array]) -> Array:
    import numpy as np

    from ...ir.evaluation.npmath import narrowed

    if n.arg == "rounded":
        return narrowed(np.asarray(src[0], np.float64), n.dtype).astype(n.dtype.compute.np)
    return np.asarray(operator(n.arg)(*src), n.dtype.compute.np)


def _view(n: TensorNode, src: list[Array]) -> Array:
    return viewed(src[0], n.arg)


def _reduce(n: TensorNode, src: list[Array]) -> Array:
    import numpy as np

    combine, dims = n.arg
    ufunc = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[combine]
    return np.asarray(ufunc.reduce(src[0], axis=dims, dtype=src[0].dtype))


def _scan(n: TensorNode, src: list[Array]) -> Array:
    import numpy as np

    combine, dim = n.arg
    ufunc = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[combine]
    return np.asarray(ufunc.accumulate(src[0], axis=dim, dtype=src[0].dtype))


def _gather(n: TensorNode, src: list[Array]) -> Array:
    import numpy as np

    source, *index = src
    if not n.size:
        return np.empty(n.shape, source.dtype)
    if not source.size:
        return np.zeros(n.shape, source.dtype)
    table = _places(n.arg.axes, n.shape)
    at = [
        np.clip(index[i.place].astype(np.int64) if isinstance(i, Loaded) else index_value(i, table), 0, max(size - 1, 0))
        for i, size in zip(n.arg.indices, source.shape)
    ]
    return np.broadcast_to(source[tuple(at)], n.shape)


def _scatter(n: TensorNode, src: list[Array]) -> Array:
    import numpy as np

    values, *index = src
    combine = n.arg.combine
    ufunc = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[combine]
    out = np.full(n.shape, identity(combine, n.dtype), values.dtype)
    if not values.size or not out.size:
        return out
    table, inside, at = _places(n.arg.axes, values.shape), np.ones(values.shape, bool), []
    for i, size in zip(n.arg.indices, n.shape):
        place = index[i.place].astype(np.int64) if isinstance(i, Loaded) else np.broadcast_to(index_value(i, table), values.shape)
        inside &= (place >= 0) & (place < size)
        at.append(np.broadcast_to(place, values.shape))
    if not at:
        inside = np.broadcast_to(inside, values.shape)
    ufunc.at(out, tuple(a[inside] for a in at), values[inside])
    return out


def identity(combine: str, dtype: DType) -> Any:
    """What a combine leaves as it is."""
    if combine in ("add", "mul"):
        return 0 if combine == "add" else 1
    if dtype is bool_:
        return combine == "min"
    if dtype.is_float:
        return float("-inf") if combine == "max" else float("inf")
    lo, hi = dtype.limits
    return lo if combine == "max" else hi


def _host(n: TensorNode, src: list[Array]) -> Array:
    import numpy as np

    given = [_rounded(s, x.dtype) for s, x in zip(src, n.src)]
    return np.asarray(n.arg.function(*given)).astype(n.dtype.compute.np, copy=False)


_EVALUATE: dict[str, Callable[[TensorNode, list[Any]], Any]] = {
    "const": _const,
    "given": _given,
    "iota": _iota,
    "cast": _cast,
    "after": lambda n, src: src[0],
    "elementwise": _elementwise,
    "view": _view,
    "reduce": _reduce,
    "scan": _scan,
    "gather": _gather,
    "scatter": _scatter,
    "host": _host,
}


# operators --------------------------------------------------------------------------------------------------------
@cache
def operator(op: str) -> Callable[..., Any]:
    """What an elementwise operator is in NumPy."""
    import numpy as np

    from ...ir.evaluation.npmath import erf, floor_quotient

    table: dict[str, Callable[..., Any]] = {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide, "max": np.maximum, "min": np.minimum,
        "lt": np.less, "le": np.less_equal, "eq": np.equal, "ne": np.not_equal, "and": np.bitwise_and, "or": np.bitwise_or,
        "xor": np.bitwise_xor, "not": np.invert, "neg": np.negative, "abs": np.abs, "where": np.where, "exp": np.exp,
        "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tanh": np.tanh,
        "erf": erf, "floor": np.floor, "trunc": np.trunc, "round": np.rint, "shl": np.left_shift, "shr": np.right_shift,
        "floordiv": floor_quotient, "remainder": np.remainder, "pow": np.power, "copysign": np.copysign, "tan": np.tan,
        "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2, "sinh": np.sinh, "cosh": np.cosh,
        "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    }  # fmt: skip
    if op not in table:
        raise KernelError(f"the operator {op} is unknown to NumPy's evaluation")
    return table[op]


# index maps -------------------------------------------------------------------------------------------------------
def viewed(x: Array, by: IndexMap) -> Array:
    """`x` through an index map."""
    import numpy as np

    if by.reshape and by.mask is None:
        return x.reshape(by.shape)
    if prod(by.shape) == 0 or x.size == 0:
        return np.zeros(by.shape, x.dtype)
    if by.plain is not None:
        at = [0 if p is None else slice(by.shape[p]) for p in by.plain]
        kept = [p for p in by.plain if p is not None]
        if len(set(kept)) == len(kept):
            order = np.argsort(kept, kind="stable")
            rows = x[tuple(at)].transpose(order)
            shape = tuple(by.shape[d] if d in kept else 1 for d in range(len(by.shape)))
            return np.broadcast_to(rows.reshape(shape), by.shape)
    table = _places(by.axes, by.shape)
    places = [index_value(i, table) for i in by.indices]
    if by.mask is None:
        return np.broadcast_to(x[tuple(places)], by.shape)
    inside = np.broadcast_to(index_value(by.mask, table), by.shape)
    safe = tuple(np.clip(p, 0, n - 1) for p, n in zip(places, x.shape))
    return np.where(inside, x[safe], np.zeros((), x.dtype))


def _places(axes: Sequence[Node], shape: Sequence[int]) -> dict[Node, Any]:
    """The placeholders as index ranges that broadcast against each other."""
    import numpy as np

    rank = len(shape)
    table = {}
    for d, (a, n) in enumerate(zip(axes, shape)):
        if a.op == "axis":
            table[a] = np.arange(n).reshape([n if e == d else 1 for e in range(rank)])
    return table


def index_value(i: Node, table: dict[Node, Any]) -> Any:
    """An index expression, or a condition on indices, over placeholders."""
    import numpy as np

    found = table.get(i)
    if found is not None:
        return found
    if i.op == "const":
        return np.asarray(i.arg)
    src = [index_value(s, table) for s in i.src]
    if i.op == "sum":
        factors, constant = i.arg
        out = np.asarray(constant)
        for c, s in zip(factors, src, strict=True):
            out = out + c * s
    elif i.op == "prod":
        out = src[0]
        for s in src[1:]:
            out = out * s
    else:
        out = _INDEX[i.op](*src, *_divisor(i))
    table[i] = out
    return out


def _divisor(i: Node) -> tuple[int, ...]:
    return (i.arg,) if i.op in ("div", "mod") and len(i.src) == 1 else ()


def _index_operators() -> dict[str, Callable[..., Any]]:
    names = ("lt", "le", "eq", "ne", "and", "or", "not", "max", "min")
    table = {name: (lambda *a, name=name: operator(name)(*a)) for name in names}
    return table | {"div": lambda *a: operator("floordiv")(*a), "mod": lambda *a: operator("remainder")(*a)}


_INDEX = _index_operators()
