"""The table of operators: for each of ONNX's a function of tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Protocol

import numpy as np

from .... import xp
from ....ir.dtypes import dtype as dtype_of
from ....ir.errors import UsageError
from ....tensor import Tensor
from ....tensor.graph.nodes import HostCall
from ....tensor.graph.primitives import host
from ....tensor.graph.symbolic_sizes import SymbolicSize
from ..element_types import Array, storage


class DataDependentError(UsageError):
    """A size, or which way to go, hangs on data: the node is run by itself."""


class Call(Protocol):
    """A node that is run: `node` of the graph. `version`: of the set of operators; `wanted`: how many results the node names; `kind`: the operator's name."""

    node: Any
    version: int
    wanted: int
    kind: str

    def code(self, index: int) -> int:
        """The ONNX type of an input."""

    def constant(self, index: int) -> float | None:
        """The only element of an input that is known without axes; None for others."""

    def run(self, graph: str, inputs: Sequence[Any]) -> list[Any]:
        """The results of an inner graph."""

    def key(self, seed: float | None) -> Any:
        """The key of the node's random numbers at this run."""


Operator = Callable[..., Any]
"""`operator(call, *inputs, **attributes)`: tensors, None for those that are not given, and arrays for those whose place is in `known`.
Returns a tensor, or a sequence of them."""

OPERATORS: dict[tuple[str, str], Operator] = {}
KNOWN: dict[tuple[str, str], tuple[int, ...]] = {}
"""The inputs that an operator takes as arrays: the form of the program hangs on them."""


def operator(*names: str, known: tuple[int, ...] = (), domain: str = "") -> Callable[[Operator], Operator]:
    """Put a function into the table under these names."""

    def put(function: Operator) -> Operator:
        for name in names:
            OPERATORS[domain, name] = function
            if known:
                KNOWN[domain, name] = known
        return function

    return put


def operators(expressions: Mapping[str, Operator], domain: str = "") -> None:
    """Put functions of one expression into the table by their names."""
    OPERATORS.update({(domain, name): function for name, function in expressions.items()})


# arguments ----------------------------------------------------------------------------------------------------------
def whole_numbers(a: Array | Sequence[int] | None) -> list[int] | None:
    """An array of sizes or axes as numbers."""
    return None if a is None else [i if isinstance(i, SymbolicSize) else int(i) for i in np.asarray(a).reshape(-1)]


def number(a: Array | None) -> Any:
    """The only element of an array."""
    if a is None or not np.size(a):
        return None
    found = np.asarray(a).reshape(-1)[0]
    return found if isinstance(found, SymbolicSize) else found.item()


def element_type(code: int | None) -> str:
    """The name of our type that stores an ONNX type."""
    return storage(int(code or 1))


def type_of(x: Any) -> str:
    """The name of a tensor's type."""
    return str(x.dtype.name)


def limits(name: str) -> tuple[int, int]:
    """The least and the largest number of an integer type."""
    info = xp.iinfo(name)
    return int(info.min), int(info.max)


# pieces -------------------------------------------------------------------------------------------------------------
def of_sizes(sizes: Sequence[Any]) -> Array:
    """Sizes as an array: of whole numbers where all are known."""
    if not any(isinstance(n, SymbolicSize) for n in sizes):
        return np.array(sizes, np.int64)
    found = np.empty(len(sizes), object)
    found[:] = sizes
    return found


def broadcast(a: Sequence[Any], b: Sequence[Any]) -> tuple[Any, ...]:
    """The shape that two shapes have in common; sizes may be symbolic."""
    rank = max(len(a), len(b))
    pairs = zip((1,) * (rank - len(a)) + tuple(a), (1,) * (rank - len(b)) + tuple(b))
    return tuple(m if isinstance(n, int) and n == 1 else n for n, m in pairs)


def along(n: int, rank: int, axis: int) -> Any:
    """0 to n − 1 along one of `rank` axes."""
    return xp.arange(n).reshape(tuple(n if d == axis % rank else 1 for d in range(rank)))


def cut(x: Any, axis: int, piece: Any) -> Any:
    """`x[…, piece, …]` at an axis."""
    return x[(slice(None),) * (axis % x.ndim) + (piece,)]


def like(x: Any, value: float) -> Any:
    """A number of the kind that x's elements are."""
    return value if x.dtype.is_float else int(value)


def channels_behind(x: Any) -> Any:
    """(batch, channels, space …) as (batch, space …, channels)."""
    return x.permute((0, *range(2, x.ndim), 1))


def channels_first(x: Any) -> Any:
    """(batch, space …, channels) as (batch, channels, space …)."""
    return x.permute((0, x.ndim - 1, *range(1, x.ndim - 1)))


def by_channel(v: Any, rank: int) -> Any:
    """A vector along axis 1 of `rank`."""
    return v.reshape((-1, *(1,) * (rank - 2)))


def wide(x: Any) -> Any:
    """Floats of 16 and 8 bits in float32; others as they are."""
    return x.astype("float32") if x.dtype.narrow else x


def on_host(name: str, function: Callable[..., Array], inputs: Sequence[Any], shape: Sequence[int], dtype: str, *options: Any) -> Any:
    """What a function of NumPy arrays makes of tensors, computed when it is asked for. `options`: what else the result hangs on."""
    call = HostCall(f"onnx.{name}", function, tuple(options))
    return Tensor.of(host(call, tuple(x.node for x in inputs), tuple(shape), dtype_of(dtype)))


def elements(shape: Sequence[int]) -> int:
    """How many elements a shape has."""
    return prod(shape)
