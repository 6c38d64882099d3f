"""Operators that read or write at places which data says, and operators that make arrays."""

from __future__ import annotations

from typing import Any

from .... import xp
from ....tensor import Tensor, nn
from ....tensor.graph.nodes import Scattered, walk
from ....tensor.graph.primitives import scatter as scattered
from ....tensor.graph.symbolic_sizes import symbolic
from ....tensor.ops.indexing import within
from ....tensor.running.numpy_evaluation import evaluate
from .elementwise import as_tensor
from .movement import key, steps
from .table import as_result, of_one_type, operator, operators, refuse, wanted, wide


def _places(x: Tensor, indices: Any) -> tuple[Any, ...]:
    """ATen's list of indices, None for a whole axis. Truth values say how many elements there are, so PyTorch does those."""
    if any(i is not None and i.dtype.name == "bool" for i in indices):
        refuse("indices that are truth values")
    return tuple(slice(None) if i is None else i for i in indices)


def strict(index: Tensor, x: Tensor, dim: int) -> Any:
    """Places along an axis of `x` that may not be counted from its end: a negative one is outside, which is an error."""
    return Tensor.of(within("place", "an operator of PyTorch's", index.node, dim % x.ndim, x.shape[dim]))


@operator("index.Tensor", "_unsafe_index.Tensor")
def index(out: Any, /, x: Tensor, indices: Any) -> Any:
    """Elements at places."""
    return x[_places(x, indices)]


@operator("gather")
def gather(out: Any, /, x: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Any:
    """Elements at places along one axis, of as much of the others as the index has."""
    if not x.ndim or any(a != b for i, (a, b) in enumerate(zip(x.shape, index.shape, strict=True)) if i != dim % x.ndim):
        refuse("gather from a part")
    return x.take_along_axis(strict(index, x, dim), axis=dim)


@operator("index_select")
def index_select(out: Any, /, x: Tensor, dim: int, index: Tensor) -> Any:
    """Rows at places."""
    return x.take(strict(index, x, dim), axis=dim) if x.ndim and index.ndim else refuse("index_select without dimensions")


@operator("embedding")
def embedding(out: Any, /, weight: Tensor, indices: Tensor, padding_idx: int = -1, scale: bool = False, sparse: bool = False) -> Any:
    """Rows of a table."""
    return nn.embedding(weight, strict(indices, weight, 0))


@operator("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    out: Any, /, weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False, mode: int = 0, sparse: bool = False,
    per_sample_weights: Tensor | None = None, include_last_offset: bool = False, padding_idx: int = -1,
) -> Any:  # fmt: skip
    """Sums (mode 0) or means (mode 1) of bags of rows of a table that are equally long, as those of a matrix of places are."""
    begins = offsets.node
    if mode == 2 or padding_idx >= 0 or not indices.shape[0] or any(n.op == "slot" or symbolic(n.shape) for n in walk([begins])):
        refuse("embedding_bag of largest rows, with padding, or of bags whose ends are data")
    ends = [*evaluate([begins])[0].tolist(), *([] if include_last_offset else [indices.shape[0]])]
    size = ends[1]
    if ends != list(range(0, indices.shape[0] + 1, size or 1)):
        refuse("embedding_bag of bags that are not equally long")
    rows = wide(nn.embedding(weight, strict(indices, weight, 0).reshape((len(ends) - 1, size))))
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape((len(ends) - 1, size, 1))
    bags = xp.arange(out[1].shape[0], dtype="int64") // size
    total, lengths = rows.sum(axis=1), xp.full((len(ends) - 1,), size if mode else 0, dtype="int64")
    return total / size if mode else total, bags, lengths, lengths


def _changed(x: Tensor, at: Any, values: Any) -> Tensor:
    copy: Tensor = x.__copy__()
    copy[at] = values
    return copy


@operator("index_put", "_unsafe_index_put")
def index_put(out: Any, /, x: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Any:
    """New elements at places, or added there."""
    of_one_type(x, values)
    at = _places(x, indices)
    return x.index_put(at, values) if accumulate else _changed(x, at, values)


@operator("scatter_add")
def scatter_add(out: Any, /, x: Tensor, dim: int, index: Tensor, src: Tensor) -> Any:
    """Elements added at places along one axis."""
    if (
        not x.ndim
        or index.shape != src.shape
        or any(a != b for i, (a, b) in enumerate(zip(x.shape, index.shape, strict=True)) if i != dim % x.ndim)
    ):
        refuse("scatter_add of a part")
    return x.scatter_add(strict(index, x, dim), src, axis=dim)


@operator("scatter_reduce.two")
def scatter_reduce(out: Any, /, x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True) -> Any:
    """Elements combined at places along one axis, with what was there or (not `include_self`) instead of it."""
    of_one_type(x, src)
    if not x.ndim or index.shape != src.shape or any(a != b for i, (a, b) in enumerate(zip(x.shape, index.shape)) if i != dim % x.ndim):
        refuse("scatter_reduce of a part")
    if reduce == "mean" and not x.dtype.is_float:
        refuse("means of integers")
    place = Tensor.of(strict(index, x, dim).node)

    def put(combine: str, values: Tensor) -> Tensor:
        return Tensor.of(scattered(values.node, Scattered.along(combine, index.shape, dim % x.ndim), (place.node,), x.shape))

    combine = {"sum": "add", "mean": "add", "prod": "mul", "amax": "max", "amin": "min"}[reduce]
    found = put(combine, wide(src))
    if include_self:
        found = {"add": xp.add, "mul": xp.multiply, "max": xp.maximum, "min": xp.minimum}[combine](x, found)
    if include_self and reduce != "mean":
        return found
    count = put("add", xp.ones(src.shape, dtype="int32"))
    if reduce == "mean":
        found = found / (count + 1 if include_self else count.maximum(1)).astype(found.dtype)
    return found if include_self else xp.where(count > 0, found, x)


@operator("index_reduce")
def index_reduce(out: Any, /, x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True) -> Any:
    """Slices combined at places of one axis."""
    if not x.ndim or index.ndim != 1:
        refuse("index_reduce without dimensions")
    along = [1] * x.ndim
    along[dim] = index.shape[0]
    everywhere = index.reshape(tuple(along)).expand(tuple(source.shape))
    return scatter_reduce(out, x, dim, everywhere, source, reduce, include_self=include_self)


@operator("scatter.value", "scatter.src")
def scatter(out: Any, /, x: Tensor, dim: int, index: Tensor, src: Any) -> Any:
    """Elements put at places along one axis, the last where several have one place."""
    if not x.ndim or (isinstance(src, Tensor) and src.shape != index.shape):
        refuse("scatter of a part of the elements")
    dim %= x.ndim
    if any(a != b for i, (a, b) in enumerate(zip(x.shape, index.shape, strict=True)) if i != dim):
        refuse("scatter of a part")
    place = strict(index, x, dim)
    own = [1] * x.ndim
    if index.shape[dim] == 1:
        own[dim] = x.shape[dim]
        return xp.where(xp.arange(x.shape[dim]).reshape(tuple(own)) == place, as_tensor(src, out), x)
    own[dim] = index.shape[dim]
    ordinal = xp.arange(1, index.shape[dim] + 1, dtype="int32").reshape(tuple(own)).expand(tuple(index.shape))
    last = Tensor.of(scattered(ordinal.node, Scattered.along("max", index.shape, dim), (Tensor.of(place.node).node,), x.shape))
    taken = src.take_along_axis((last - 1).clip(0, index.shape[dim] - 1), axis=dim) if isinstance(src, Tensor) else as_tensor(src, out)
    return xp.where(last > 0, taken, x)


operators(
    {
        "slice_scatter": lambda out, /, x, src, dim=0, start=None, end=None, step=1: _changed(x, key(x, dim, steps(start, end, step)), src),
        "select_scatter": lambda out, /, x, src, dim, index: _changed(x, key(x, dim, index), src),
        "scalar_tensor": lambda out, /, number, **how: xp.full((), number, dtype=wanted(out)),
    }
)


@operator("copy")
def copy(out: Any, /, x: Tensor, src: Tensor, non_blocking: bool = False) -> Any:
    """Other values in the same shape and type."""
    return as_result(src, out).expand(tuple(out.shape))


@operator("arange", "arange.start", "arange.start_step")
def arange(out: Any, /, *bounds: Any, **how: Any) -> Any:
    """Numbers in steps."""
    start, stop, step = ((0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1))[:3]
    return xp.arange(start, stop, step, dtype=wanted(out))


@operator("full", "full_like", "fill.Scalar", "new_full")
def full(out: Any, /, like: Any, *rest: Any, **how: Any) -> Any:
    """One number everywhere."""
    return xp.full(tuple(out.shape), rest[-1], dtype=wanted(out))


@operator(
    "zeros", "zeros_like", "new_zeros", "empty.memory_format", "empty_like", "new_empty", "empty_strided", "new_empty_strided",
    "_efficientzerotensor",
)  # fmt: skip
def zeros(out: Any, /, *shape: Any, **how: Any) -> Any:
    """Zeros."""
    return xp.zeros(tuple(out.shape), dtype=wanted(out))


@operator("ones", "ones_like", "new_ones")
def ones(out: Any, /, *shape: Any, **how: Any) -> Any:
    """Ones."""
    return xp.ones(tuple(out.shape), dtype=wanted(out))
