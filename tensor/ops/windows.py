"""Sliding windows of 1 to 3 dimensions as index maps: what convolutions and pooling read. Nothing is copied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...ir import index as ix
from ...ir.dtypes import int64
from ...ir.errors import UsageError
from ...ir.node import Node
from ...ir.node import const as node_const
from ..graph import maps
from ..graph.maps import Shape
from ..graph.node import TensorNode
from ..graph.primitives import const, elementwise, view
from .creation import along

Sizes = int | Sequence[int]
Padding = int | str | Sequence[int] | Sequence[tuple[int, int]]


@dataclass(frozen=True)
class WindowLayout:
    """Windows over the last dimensions of an array: their extents, steps, distances of taps, and what is padded before and
    after each dimension; `sizes`: the array's extents."""

    sizes: Shape
    kernel: Shape
    stride: Shape
    dilation: Shape
    padding: tuple[tuple[int, int], ...]

    @property
    def out(self) -> Shape:
        """Windows along each dimension."""
        whole = zip(self.sizes, self.padding, self.kernel, self.dilation, self.stride)
        return tuple((n + a + b - d * (k - 1) - 1) // s + 1 for n, (a, b), k, d, s in whole)


def layout(name: str, sizes: Shape, kernel: Shape, stride: Sizes | None, dilation: Sizes, padding: Padding) -> WindowLayout:
    """The windows of an operation's arguments. `padding`: elements on both sides, a number a dimension, (before, after) of
    each, "same" (as many windows as elements, stride 1) or "valid". Raises UsageError."""
    rank = len(sizes)
    d = several(name, dilation, rank, "dilation")
    s = several(name, kernel if stride is None else stride, rank, "stride")
    made = WindowLayout(sizes, kernel, s, d, _paddings(name, padding, kernel, d, s))
    if min((*made.out, 1)) < 1:
        raise UsageError(
            f"{name}: windows of {list(kernel)} (dilation {list(d)}) are larger than {list(sizes)} padded by {list(made.padding)}"
        )
    return made


def several(name: str, given: Sizes, rank: int, what: str, least: int = 1) -> Shape:
    """A number for all dimensions, or one for each."""
    found = (given,) * rank if isinstance(given, int) else tuple(given)
    if len(found) != rank or min(found, default=least) < least:
        raise UsageError(f"{name}: {what} {given!r} must be a number of at least {least}, or {rank} of them")
    return found


def _paddings(name: str, padding: Padding, kernel: Shape, dilation: Shape, stride: Shape) -> tuple[tuple[int, int], ...]:
    if isinstance(padding, str):
        if padding not in ("same", "valid") or (padding == "same" and max(stride, default=1) > 1):
            raise UsageError(f"{name}: padding is numbers, 'valid', or 'same' with stride 1, not {padding!r} with stride {list(stride)}")
        total = [d * (k - 1) if padding == "same" else 0 for k, d in zip(kernel, dilation)]
        return tuple((t // 2, t - t // 2) for t in total)
    if not isinstance(padding, int) and any(not isinstance(p, int) for p in padding):
        pairs = tuple((int(p[0]), int(p[1])) for p in padding)  # type: ignore[index]
        if len(pairs) != len(kernel) or min(min(p) for p in pairs) < 0:
            raise UsageError(f"{name}: padding {padding!r} must have (before, after), at least 0, for each of {len(kernel)} dimensions")
        return pairs
    return tuple((p, p) for p in several(name, padding, len(kernel), "padding", 0))  # type: ignore[arg-type]


def windows(x: TensorNode, w: WindowLayout) -> TensorNode:
    """(…, sizes) → (…, windows, kernel): element (o, k) is x at o·stride + k·dilation − padding, 0 outside."""
    rank = len(w.sizes)
    lead = x.shape[: len(x.shape) - rank]
    shape = (*lead, *w.out, *w.kernel)
    axes = maps.holes(shape)
    at, mask = list(axes[: len(lead)]), node_const(True)
    for d, n in enumerate(w.sizes):
        o, k = axes[len(lead) + d], axes[len(lead) + rank + d]
        place = ix.add(ix.add(ix.mul(o, node_const(w.stride[d])), ix.mul(k, node_const(w.dilation[d]))), node_const(-w.padding[d][0]))
        at.append(place)
        mask = mask & (place >= 0) & (place < n)
    return view(x, maps.IndexMap(shape, x.shape, axes, tuple(at), _mask(mask)))


def inside_windows(shape: Shape, w: WindowLayout) -> TensorNode | None:
    """Where elements of `windows` (of this shape) are not padding; None: everywhere. Comparisons of index ranges."""
    rank = len(w.sizes)
    lead = len(shape) - 2 * rank
    found: TensorNode | None = None
    for d, n in enumerate(w.sizes):
        o, k = along(shape[lead + d], shape, lead + d), along(shape[lead + rank + d], shape, lead + rank + d)
        before = w.padding[d][0]
        last = (w.out[d] - 1) * w.stride[d] + (w.kernel[d] - 1) * w.dilation[d] - before
        steps = elementwise("mul", o, const(w.stride[d], int64, shape))
        place = elementwise("add", steps, elementwise("mul", k, const(w.dilation[d], int64, shape)))
        place = elementwise("sub", place, const(before, int64, shape))
        tests = []
        if before > 0:
            tests.append(elementwise("le", const(0, int64, shape), place))
        if last >= n:
            tests.append(elementwise("lt", place, const(n, int64, shape)))
        for t in tests:
            found = t if found is None else elementwise("and", found, t)
    return found


def spaced(x: TensorNode, rank: int, stride: Shape) -> TensorNode:
    """stride − 1 zeros between neighbours along the last `rank` dimensions."""
    lead = len(x.shape) - rank
    shape = (*x.shape[:lead], *(max(0, (n - 1) * s + 1) for n, s in zip(x.shape[lead:], stride)))
    axes, mask = maps.holes(shape), node_const(True)
    at = list(axes[:lead])
    for i, s in zip(axes[lead:], stride):
        at.append(ix.floordiv(i, s))
        if s > 1:
            mask = mask & ix.mod(i, s).eq(0)
    return view(x, maps.IndexMap(shape, x.shape, axes, tuple(at), _mask(mask)))


def _mask(mask: Node) -> Node | None:
    return None if mask.op == "const" and mask.arg else mask
