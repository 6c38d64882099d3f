"""Pooling: reductions over sliding windows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod

from ...ir.dtypes import int32
from ...ir.errors import UsageError
from ..graph.node import TensorNode
from ..graph.primitives import as_typed, cast, const, elementwise, expand, reduce, with_gradient
from ..graph.promotion import to_float
from .creation import along
from .elementwise import choose, like
from .movement import kept
from .reduction import mean
from .windows import Padding, Sizes, inside_windows, layout, several, windows


def max_pool(x: TensorNode, kernel: Sizes, /, *, stride: Sizes | None = None, padding: Padding = 0, dilation: Sizes = 1) -> TensorNode:
    """The largest of each window over the last dimensions (as many as `kernel` has; a number means two). `stride` is the
    window's extent if not given. Padding is smaller than anything."""
    size = _kernel("max_pool", x, kernel)
    w = layout("max_pool", x.shape[len(x.shape) - len(size) :], size, stride, dilation, padding)
    lowest = float("-inf") if x.dtype.is_float else -(2 ** (8 * x.dtype.size - 1)) if x.dtype.kind == "i" else 0
    seen = windows(as_typed(x), w)
    inside = inside_windows(seen.shape, w)
    if inside is not None and lowest != 0:
        seen = choose(inside, seen, lowest)
    largest = reduce("max", seen, range(len(seen.shape) - len(size), len(seen.shape)))
    if prod(size) == 1:  # a view of what was seen, whose gradient is a view's: `seen` may be no node behind it
        return largest
    return with_gradient(largest, (seen,), _FIRST.setdefault(len(size), partial(_first_gradient, len(size))))


_FIRST: dict[int, Callable[..., tuple[TensorNode]]] = {}


def _first_gradient(rank: int, dy: TensorNode, y: TensorNode, seen: TensorNode) -> tuple[TensorNode]:
    """The first of a window's largest elements has all of the gradient."""
    over = range(len(seen.shape) - rank, len(seen.shape))
    place = const(0, int32, seen.shape)
    for d in over:
        n = seen.shape[d]
        place = elementwise("add", elementwise("mul", place, like(place, n)), cast(along(n, seen.shape, d), int32))
    largest = expand(kept(reduce("max", seen, over), seen.shape, over), seen.shape)
    first = reduce("min", choose(elementwise("eq", seen, largest), place, 2**31 - 1), over)
    hit = elementwise("eq", place, expand(kept(first, seen.shape, over), seen.shape))
    return (choose(hit, expand(kept(dy, seen.shape, over), seen.shape), 0.0),)


def avg_pool(
    x: TensorNode, kernel: Sizes, /, *, stride: Sizes | None = None, padding: Padding = 0, count_padding: bool = True
) -> TensorNode:
    """The average of each window over the last dimensions; padding counts as zeros, or not at all."""
    size = _kernel("avg_pool", x, kernel)
    x = cast(x, to_float(x.dtype))
    w = layout("avg_pool", x.shape[len(x.shape) - len(size) :], size, stride, 1, padding)
    seen = windows(x, w)
    over = range(len(seen.shape) - len(size), len(seen.shape))
    total = reduce("add", seen, over)
    if count_padding or not any(a + b for a, b in w.padding):
        return elementwise("mul", total, like(total, 1.0 / prod(size)))
    ones = windows(like(x, 1.0), w)
    return elementwise("div", total, reduce("add", ones, over))


def _kernel(name: str, x: TensorNode, kernel: Sizes) -> tuple[int, ...]:
    size = (kernel, kernel) if isinstance(kernel, int) else tuple(kernel)
    if len(size) > len(x.shape):
        raise UsageError(f"{name} of {list(x.shape)}: windows of {list(size)} have more dimensions")
    return several(name, size, len(size), "kernel")


def global_avg_pool(x: TensorNode, /) -> TensorNode:
    """The average over all dimensions behind the first two."""
    return mean(x, tuple(range(2, len(x.shape))))
