"""Small graphs computed by NumPy, node by node: a kernel of ten elements would take longer to compile than to wait for.

Types are those of the kernels: 16-bit floats are computed in float32 and rounded where a result is stored. Elementary functions and the
order of sums may differ from a kernel's in the last bits, as two schedules of one kernel do. The same code is the reference of the
tests. (It is imported when a small graph is first computed, since NumPy takes long to import.)"""

from __future__ import annotations

import os
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from math import prod
from sys import getrefcount
from typing import Any

import numpy as np

from ...devices import get
from ...devices.once import process_lock
from ...ir.dtypes import DType, bool_
from ...ir.errors import KernelError
from ...ir.evaluation.algebra import BINARY, UFUNC, UNARY
from ...ir.evaluation.array_math import floor_quotient, narrowed
from ...ir.node import Node
from ..graph.index_checks import IndexMark
from ..graph.index_maps import IndexMap
from ..graph.nodes import Loaded, TensorNode, walk
from . import buffers
from .buffers import ACCOUNT
from .observers import NANS

# numpy share ----------------------------------------------------------------------------------------------------------
#
# Which graphs NumPy computes: small ones, and others until a kernel would have been worth its compilation.
#
# A kernel takes as long to compile as NumPy takes for tens of millions of elements. So a graph of at most `MOST_WORK`
# is NumPy's until graphs of its structure have been `ENOUGH_WORK` together: never more than twice the time that the
# better choice takes, known beforehand or not (A. Karlin and others, "Competitive snoopy caching", 1988). Kernels are
# compiled before they are needed, while NumPy answers. Work is counted in elements and not in seconds, so that a
# program gives the same numbers whenever it runs.


SMALL_GRAPH = 1 << 13
"""Work at which a kernel begins to be worth its compilation, however often it runs."""
SMALL_ARRAY = 1 << 21
"""Elements up to which NumPy's operations, one after the other, take less time than graphs of consumers' calls, whose parts are small."""
MOST_WORK = 1 << 22
"""Work of a graph that is a kernel's from its second time on."""
ENOUGH_WORK = 1 << 25
"""Work of all graphs of a structure after which kernels compute it, and of a graph that is a kernel's at once."""
FEW_RUNS = 1 << 10
"""Runs of a small graph after which kernels compute it where a driver compiles for as long as NumPy takes for thousands: operands are copied
there and back, which takes as long as a kernel's call."""
PRODUCT_WORK = 16
"""Products of a contraction that NumPy's BLAS computes in the time of one element of anything else."""

_done: OrderedDict[Hashable, int] = OrderedDict()
_MOST_KEYS = 4096
_lock = process_lock()


SMALL = os.environ.encodekey("TILEWRIGHT_SMALL")
ENVIRONMENT = vars(os.environ)["_data"]
"""(Looked at for every small operation: `os.environ.get` takes ten times as long.)"""


def kernels_only() -> bool:
    """Whether kernels compute everything: TILEWRIGHT_SMALL=0 says so, and whoever looks for NaNs wants whole graphs."""
    return NANS.on or (SMALL in ENVIRONMENT and os.environ["TILEWRIGHT_SMALL"] == "0")


def contraction(n: TensorNode) -> TensorNode | None:
    """The product that a node is the sum of, where NumPy has better ways than to make the product."""
    if n.op != "reduce" or n.arg[0] != "add":
        return None
    (x,) = n.src
    both = x.op == "elementwise" and x.arg == "mul" and x.data is None and not x.dtype.narrow
    return x if both and x.size > sum(s.size // _repeats(s) for s in x.src) else None


def _repeats(n: TensorNode) -> int:
    """How often a broadcast node repeats each element."""
    if n.data is not None or n.op != "view" or n.arg.mask is not None or n.arg.plain is None:
        return 1
    return max(prod(size for d, size in enumerate(n.shape) if d not in n.arg.plain), 1)


def work_of(outs: Sequence[TensorNode], most: int) -> int:
    """Elements that NumPy would compute, or some number above `most`."""
    total = 0
    products: set[int] = set()
    nodes = []
    for n in walk(outs):
        if n.data is not None:
            continue
        if n.op in ("loop", "kernel"):
            return most + 1
        nodes.append(n)
        product = contraction(n)
        if product is not None:
            products.add(id(product))
    for n in nodes:
        repeated = n.op == "view" and n.arg.mask is None and n.arg.plain is not None
        total += n.size // (PRODUCT_WORK if id(n) in products else _repeats(n) if repeated else 1)
        if total > most:
            break
    return total


def is_numpys(outs: Sequence[TensorNode], device: str, key: Callable[[], Hashable], prepare: Callable[[], None]) -> bool:
    """Whether NumPy computes a graph, whose structure is `key`: on the device `cpu`, and a small one where a driver compiles late. `prepare`
    compiles kernels for it meanwhile; it is called once. Captured functions always run kernels, and TILEWRIGHT_SMALL=0 turns this off."""
    if kernels_only() or (device != "cpu" and not get(device).first_launch_s):
        return False
    work = work_of(outs, ENOUGH_WORK if device == "cpu" else SMALL_GRAPH)
    if device != "cpu":
        if work > SMALL_GRAPH:
            return False
        work = ENOUGH_WORK // FEW_RUNS
    elif work <= SMALL_GRAPH:
        return True
    if work > ENOUGH_WORK or (work > MOST_WORK and ACCOUNT.cap is not None):
        return False
    return not worth_a_kernel((device, key()), ENOUGH_WORK if work > MOST_WORK else work, prepare)


def worth_a_kernel(structure: Hashable, work: int, prepare: Callable[[], None]) -> bool:
    """Whether what has a structure was computed so often that its kernels are worth their compilation; `work` is that of this time."""
    with _lock:
        before = _done.pop(structure, 0)
        after = _done[structure] = before if before >= ENOUGH_WORK else before + work
        if len(_done) > _MOST_KEYS:
            _done.popitem(last=False)
    if before < ENOUGH_WORK // 2 <= after:
        prepare()
    return before >= ENOUGH_WORK


# numpy evaluation -----------------------------------------------------------------------------------------------------

Array = np.ndarray[Any, Any]


def compute(outs: Sequence[TensorNode], device: str = "cpu") -> None:
    """Give every node of `outs` memory with its values, and so every node behind them that somebody holds and will ask for."""
    for n, value in zip(outs, evaluate(outs, partial(_keep, device=device)), strict=True):
        buffer = buffers.new(n.shape, n.dtype, device, n.line)
        with np.errstate(all="ignore"):
            buffers.fill(buffer, value.astype(buffer.dtype.np, copy=False))
        n.data = buffer


KEPT = frozenset({"elementwise", "reduce", "scan", "gather", "scatter", "host"})
"""Operations whose results are worth keeping."""


def _keep(n: TensorNode, value: Array, device: str) -> None:
    """Give a node memory that has its values."""
    if not value.flags.owndata or not value.flags.c_contiguous or value.shape != n.shape:
        value = np.array(np.broadcast_to(value, n.shape), order="C")
    n.data = buffers.adopt(value, n.dtype, device, n.line, None)


def evaluate(outs: Sequence[TensorNode], keep: Callable[[TensorNode, Array], None] | None = None) -> list[Array]:
    """The values of nodes whose leaves have memory, each of its node's type. `keep` is told the values of each node behind them that
    is referred to from elsewhere (by a tensor, or another graph), as CPython counts it: without it they would be computed again."""
    done: dict[int, Array] = {}
    order = list(walk(outs))
    products = {id(n): p for n in order if n.data is None and (p := contraction(n)) is not None}
    sources = {id(n): () if n.data is not None else products[id(n)].src if id(n) in products else n.src for n in order}
    readers = Counter(id(s) for n in order for s in sources[id(n)])
    wanted = {id(o) for o in outs}
    idle = {id(p) for p in products.values()} - {id(s) for n in order for s in sources[id(n)]} - wanted
    for p in (n for n in order if id(n) in idle):
        readers.subtract(map(id, p.src))
    held = Counter(id(s) for n in order for s in n.src)
    held.update(id(p) for p in products.values())
    with np.errstate(all="ignore"):
        for n in order:
            if id(n) in idle:
                continue
            given = [done[id(s)] for s in sources[id(n)]]
            if n.data is not None:
                done[id(n)] = converted(n.data.array, n.dtype.compute)
            elif id(n) in products:
                done[id(n)] = contracted(given[0], given[1], n.arg[1])
            else:
                done[id(n)] = EVALUATE[n.op](n, given)
            # (held as well by the list, this loop and the call)
            if (
                keep is not None
                and n.op in KEPT
                and n.data is None
                and getrefcount(n) > held[id(n)] + 3
                and not n.dtype.narrow
                and id(n) not in wanted
            ):
                keep(n, done[id(n)])
            for s in sources[id(n)]:
                readers[id(s)] -= 1
                if not readers[id(s)] and id(s) not in wanted:
                    del done[id(s)]
        return [converted(done[id(o)], o.dtype) for o in outs]


def converted(x: Array, dtype: DType) -> Array:
    """An array in a type."""
    return x if x.dtype == dtype.np else x.astype(dtype.np)


# by operation -----------------------------------------------------------------------------------------------------
def _number(n: TensorNode, src: list[Array]) -> Array:
    return np.asarray(n.arg if n.op == "const" else n.arg[1], n.dtype.compute.np)


def _cast(n: TensorNode, src: list[Array]) -> Array:
    if isinstance(n.arg, IndexMark):
        n.arg.look(src[0], n.line)
    return src[0].astype(n.dtype.compute.np, copy=False)


def _elementwise(n: TensorNode, src: list[Array]) -> Array:
    if n.arg == "rounded":
        return narrowed(np.asarray(src[0], np.float64), n.dtype).astype(n.dtype.compute.np)
    return np.asarray(operator(n.arg)(*src), n.dtype.compute.np)


def _combined(n: TensorNode, src: list[Array]) -> Array:
    """A reduction or a scan."""
    combine, dims = n.arg
    ufunc = UFUNC[combine].reduce if n.op == "reduce" else UFUNC[combine].accumulate
    return np.asarray(ufunc(src[0], axis=dims, dtype=src[0].dtype))


def contracted(a: Array, b: Array, over: Sequence[int]) -> Array:
    """Σ a·b over dimensions, a product of matrices where each factor repeats its elements along some dimensions of the other."""
    here = [[x.strides[d] != 0 or x.shape[d] == 1 for d in range(x.ndim)] for x in (a, b)]
    both: list[int] = []
    left: list[int] = []
    right: list[int] = []
    inner: list[int] = []
    for d in range(a.ndim):
        (both if d not in over and here[0][d] == here[1][d] else inner if d in over else left if here[0][d] else right).append(d)
    if not all(here[0][d] and here[1][d] for d in inner):
        return np.asarray(np.add.reduce(a * b, axis=tuple(over), dtype=a.dtype))
    x = _matrices(a, (both, left, inner), right)
    y = _matrices(b, (both, inner, right), left)
    kept = [*both, *left, *right]
    product = np.matmul(x, y).reshape([a.shape[d] for d in kept])
    out: Array = product.transpose(np.argsort(np.asarray(kept, int)))
    return out


def _matrices(x: Array, groups: Sequence[Sequence[int]], repeated: Sequence[int]) -> Array:
    """Dimensions of an array in three groups, each as one; along `repeated` ones all elements are equal."""
    picked: Array = x[tuple(0 if d in repeated else slice(None) for d in range(x.ndim))]
    left = [d for d in range(x.ndim) if d not in repeated]
    order = [left.index(d) for g in groups for d in g]
    return picked.transpose(order).reshape([prod(x.shape[d] for d in g) for g in groups])


def _gather(n: TensorNode, src: list[Array]) -> Array:
    source, *index = src
    if not n.size or not source.size:
        return np.zeros(n.shape, source.dtype)
    table = _index_grids(n.arg.axes, n.shape)
    at = [
        np.clip(index[i.place].astype(np.int64) if isinstance(i, Loaded) else index_value(i, table), 0, max(size - 1, 0))
        for i, size in zip(n.arg.indices, source.shape)
    ]
    return np.broadcast_to(source[tuple(at)], n.shape)


def _scatter(n: TensorNode, src: list[Array]) -> Array:
    values, *index = src
    out = np.full(n.shape, identity(n.arg.combine, n.dtype), values.dtype)
    if not values.size or not out.size:
        return out
    table, inside, at = _index_grids(n.arg.axes, values.shape), np.ones(values.shape, bool), []
    for i, size in zip(n.arg.indices, n.shape):
        place = index[i.place].astype(np.int64) if isinstance(i, Loaded) else np.broadcast_to(index_value(i, table), values.shape)
        inside &= (place >= 0) & (place < size)
        at.append(np.broadcast_to(place, values.shape))
    if not at:
        inside = np.broadcast_to(inside, values.shape)
    UFUNC[n.arg.combine].at(out, tuple(a[inside] for a in at), values[inside])
    return out


def identity(combine: str, dtype: DType) -> Any:
    """What a combine leaves as it is."""
    if combine in ("add", "mul"):
        return 0 if combine == "add" else 1
    if dtype is bool_:
        return combine == "min"
    lo, hi = (float("-inf"), float("inf")) if dtype.is_float else dtype.limits
    return lo if combine == "max" else hi


def _host(n: TensorNode, src: list[Array]) -> Array:
    given = [converted(s, x.dtype) for s, x in zip(src, n.src)]
    return np.asarray(n.arg.function(*given)).astype(n.dtype.compute.np, copy=False)


EVALUATE: dict[str, Callable[[TensorNode, list[Any]], Any]] = {
    "const": _number,
    "given": _number,
    "iota": lambda n, src: np.arange(n.shape[0], dtype=np.int64),
    "cast": _cast,
    "after": lambda n, src: src[0],
    "elementwise": _elementwise,
    "view": lambda n, src: viewed(src[0], n.arg),
    "reduce": _combined,
    "scan": _combined,
    "gather": _gather,
    "scatter": _scatter,
    "host": _host,
}
"""By operation: what a node and the values of its sources give."""

OPERATORS: dict[str, Callable[..., Any]] = {
    **UNARY, **BINARY, "not": np.invert, "where": np.where, "shl": np.left_shift, "shr": np.right_shift, "floordiv": floor_quotient,
    "remainder": np.remainder, "copysign": np.copysign, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan2": np.arctan2,
    "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
}  # fmt: skip


def operator(op: str) -> Callable[..., Any]:
    """What an elementwise operator is in NumPy. Raises KernelError."""
    if op not in OPERATORS:
        raise KernelError(f"the operator {op} is unknown to NumPy's evaluation")
    return OPERATORS[op]


# index maps -------------------------------------------------------------------------------------------------------
def viewed(x: Array, by: IndexMap) -> Array:
    """`x` through an index map."""
    if by.reshape and by.mask is None:
        return x.reshape(by.shape)
    if prod(by.shape) == 0 or x.size == 0:
        return np.zeros(by.shape, x.dtype)
    sliced = _sliced(x, by) if by.mask is None else None
    if sliced is not None:
        return sliced
    table = _index_grids(by.axes, by.shape)
    places = [index_value(i, table) for i in by.indices]
    if by.mask is None:
        return np.broadcast_to(x[tuple(places)], by.shape)
    inside = np.broadcast_to(index_value(by.mask, table), by.shape)
    safe = tuple(np.clip(p, 0, n - 1) for p, n in zip(places, x.shape))
    return np.where(inside, x[safe], np.zeros((), x.dtype))


def _sliced(x: Array, by: IndexMap) -> Array | None:
    """`x` through a map of which every index is a number or start + step · one axis of its own, as a view; None for other maps."""
    kept: list[int] = []
    at: list[Any] = []
    for i in by.indices:
        (axis,), (step,), start = (i.src, *i.arg) if i.op == "sum" and len(i.src) == 1 else ((i,), (1,), 0)
        if i.op == "const":
            at.append(i.arg)
        elif axis in by.axes and axis.op == "axis":
            d = by.axes.index(axis)
            stop = start + step * by.shape[d]
            at.append(slice(start, None if stop < 0 else stop, step))
            kept.append(d)
        else:
            return None
    if len(set(kept)) < len(kept):
        return None
    rows = x[tuple(at)].transpose(np.argsort(np.asarray(kept, int), kind="stable"))
    return np.broadcast_to(rows.reshape([n if d in kept else 1 for d, n in enumerate(by.shape)]), by.shape)


def _index_grids(axes: Sequence[Node], shape: Sequence[int]) -> dict[Node, Any]:
    """The placeholders as index ranges that broadcast against each other."""
    rank = len(shape)
    table = {}
    for d, (a, n) in enumerate(zip(axes, shape)):
        if a.op == "axis":
            table[a] = np.arange(n).reshape([n if e == d else 1 for e in range(rank)])
    return table


def index_value(i: Node, table: dict[Node, Any]) -> Any:
    """An index expression, or a condition on indices, over placeholders."""
    found = table.get(i)
    if found is not None:
        return found
    if i.op == "const":
        return np.asarray(i.arg)
    src = [index_value(s, table) for s in i.src]
    if i.op == "sum":
        factors, constant = i.arg
        out = sum((c * s for c, s in zip(factors, src, strict=True)), start=np.asarray(constant))
    elif i.op == "prod":
        out = prod(src)
    elif i.op in ("div", "mod"):
        out = operator("floordiv" if i.op == "div" else "remainder")(*src, *([i.arg] if len(src) == 1 else []))
    else:
        out = operator(i.op)(*src)
    table[i] = out
    return out
