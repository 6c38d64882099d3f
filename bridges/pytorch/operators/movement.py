"""Operators that move elements: views, joins, slices and padding."""

from __future__ import annotations

from typing import Any

from .... import xp
from ....tensor import Tensor
from ....tensor.ops.convolution import WindowLayout, fold, layout, windows
from .table import as_result, operator, operators, wanted

END = 1 << 60
"""A slice's end above this means the end of the axis."""


@operator("clone", "alias", "alias_copy", "detach_copy", "detach", "contiguous", "lift_fresh_copy", "lift_fresh", "positive")
def same(out: Any, /, x: Tensor, memory_format: Any = None) -> Any:
    """The same values."""
    return x


@operator("_to_copy", "to.dtype", "prims.convert_element_type")
def convert(
    out: Any, /, x: Tensor, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None,
    non_blocking: bool = False, copy: bool = False, memory_format: Any = None,
) -> Any:  # fmt: skip
    """The same values in another type."""
    return x.astype(wanted(out))


@operator(
    "view",
    "reshape",
    "_unsafe_view",
    "squeeze",
    "squeeze.dim",
    "squeeze.dims",
    "unsqueeze",
    "view_copy",
    "squeeze_copy",
    "squeeze_copy.dim",
    "squeeze_copy.dims",
    "unsqueeze_copy",
    "flatten.using_ints",
    "prims.collapse_view",
)
def reshape(out: Any, /, x: Tensor, *shape: Any, **named: Any) -> Any:
    """Another shape of the same elements."""
    return x.reshape(tuple(out.shape))


@operator("permute", "permute_copy")
def permute(out: Any, /, x: Tensor, dims: Any) -> Any:
    """The axes in another order."""
    return x.permute(tuple(dims))


@operator("t", "t_copy")
def t(out: Any, /, x: Tensor) -> Any:
    """A matrix transposed; a vector as it is."""
    return x.T if x.ndim == 2 else x


@operator("transpose.int", "transpose_copy.int")
def transpose(out: Any, /, x: Tensor, a: int, b: int) -> Any:
    """Two axes exchanged."""
    return x.swapaxes(a, b) if x.ndim else x


@operator("expand", "expand_copy")
def expand(out: Any, /, x: Tensor, size: Any, implicit: bool = False) -> Any:
    """Repeated along axes of one element."""
    return x.expand(tuple(out.shape))


operators(
    {
        "flip": lambda out, /, x, dims: x.flip(axis=tuple(dims)) if dims else x,
        "repeat": lambda out, /, x, repeats: x.tile(tuple(repeats)),
        "stack": lambda out, /, tensors, dim=0: xp.stack([as_result(x, out) for x in tensors], axis=dim),
        "tril": lambda out, /, x, diagonal=0: x.tril(k=diagonal),
        "triu": lambda out, /, x, diagonal=0: x.triu(k=diagonal),
        "constant_pad_nd": lambda out, /, x, pad, value=0: bordered(x, pad, value),
    }
)


@operator("roll")
def roll(out: Any, /, x: Tensor, shifts: Any, dims: Any = ()) -> Any:
    """Shifted around the ends."""
    return x.roll(tuple(shifts), axis=tuple(dims)) if dims else x.flatten().roll(shifts[0]).reshape(x.shape)


@operator("cat")
def cat(out: Any, /, tensors: Any, dim: int = 0) -> Any:
    """Joined along an axis. (Empty vectors of one dimension join anything.)"""
    parts = [as_result(x, out) for x in tensors if x.shape != (0,) or out.shape == (0,)]
    return parts[0] if len(parts) == 1 else xp.concat(parts, axis=dim)


@operator("diagonal")
def diagonal(out: Any, /, x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """A diagonal of two axes, as the last axis."""
    return x.moveaxis((dim1, dim2), (-2, -1)).diagonal(offset=offset)


def key(x: Any, dim: int, at: Any) -> tuple[Any, ...]:
    """What indexes one axis and leaves the others whole."""
    return (*(slice(None),) * (dim % x.ndim), at)


def steps(start: int | None, end: int | None, step: int) -> slice:
    """ATen's start, end and step as a slice."""
    return slice(start, None if end is None or end > END else end, step)


@operator("select.int", "select_copy.int")
def select(out: Any, /, x: Tensor, dim: int, index: int) -> Any:
    """One place of an axis."""
    return x[key(x, dim, index)]


@operator("slice.Tensor", "slice_copy.Tensor")
def slice_(out: Any, /, x: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    """Some places of an axis."""
    return x[key(x, dim, steps(start, end, step))]


@operator("split.Tensor", "split_copy.Tensor", "split_with_sizes", "split_with_sizes_copy")
def split(out: Any, /, x: Tensor, sizes: Any, dim: int = 0) -> Any:
    """Pieces along an axis."""
    return x.split([piece.shape[dim] for piece in out], dim)


@operator("unbind.int", "unbind_copy.int")
def unbind(out: Any, /, x: Tensor, dim: int = 0) -> Any:
    """Every place of an axis by itself."""
    return list(x.unstack(axis=dim))


@operator("unfold")
def unfold(out: Any, /, x: Tensor, dim: int, size: int, step: int) -> Any:
    """Windows of an axis, their elements as a new last axis."""
    if not x.ndim:
        return x.reshape((1,))
    last = x.moveaxis(dim, -1)
    return Tensor.of(windows(last.node, layout("unfold", last.shape[-1:], (size,), (step,), 1, 0))).moveaxis(-2, dim % x.ndim)


@operator("unfold_backward")
def unfold_backward(out: Any, /, grad: Tensor, sizes: Any, dim: int, size: int, step: int) -> Any:
    """Each element's gradients in all of its windows, added."""
    if not out.shape:
        return grad.reshape(())
    w = layout("unfold", (out.shape[dim],), (size,), (step,), 1, 0)
    return Tensor.of(fold(grad.moveaxis(dim % len(out.shape), -1).node, w)).moveaxis(-1, dim)


def image_windows(sizes: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> WindowLayout:
    """The windows of `im2col` and `col2im` over the last two axes."""
    return layout("unfold", tuple(sizes), tuple(kernel), tuple(stride), tuple(dilation), tuple(padding))


@operator("im2col")
def im2col(out: Any, /, x: Tensor, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    """Windows of images as columns: (…, channels · taps, windows)."""
    made = Tensor.of(windows(x.node, image_windows(x.shape[-2:], kernel, dilation, padding, stride)))
    return made.moveaxis((-2, -1), (-4, -3)).reshape(tuple(out.shape))


@operator("col2im")
def col2im(out: Any, /, x: Tensor, sizes: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    """Images from columns, the sum of all windows where they overlap."""
    w = image_windows(sizes, kernel, dilation, padding, stride)
    return Tensor.of(fold(x.reshape((*out.shape[:-2], *w.kernel, *w.out)).node, w))


def widths(x: Tensor, padding: Any) -> list[tuple[int, int]]:
    """ATen's padding, which begins with the last axis, as (before, after) of each axis."""
    found = [(0, 0)] * x.ndim
    for i in range(len(padding) // 2):
        found[-1 - i] = (padding[2 * i], padding[2 * i + 1])
    return found


def bordered(x: Tensor, padding: Any, value: Any = 0, mode: str = "constant") -> Any:
    """A border of one number or of the array's own elements; a negative width cuts."""
    wide = widths(x, padding)
    found = x.pad([(max(a, 0), max(b, 0)) for a, b in wide], value, mode)
    if min(padding, default=0) >= 0:
        return found
    return found[tuple(slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(wide, found.shape, strict=True))]


@operator("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def reflection_pad(out: Any, /, x: Tensor, padding: Any) -> Any:
    """A border that mirrors what is inside of the last element."""
    return bordered(x, padding, mode="reflect")


@operator("replication_pad1d", "replication_pad2d", "replication_pad3d")
def replication_pad(out: Any, /, x: Tensor, padding: Any) -> Any:
    """A border of the last elements."""
    return bordered(x, padding, mode="edge")
