"""Operators that move elements."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from .... import xp
from ....ir.errors import UsageError
from ....tensor.graph.symbolic_sizes import symbolic
from ..element_types import Array
from .table import Call, broadcast, channels_behind, channels_first, cut, elements, number, of_sizes, operator, operators, whole_numbers


@operator("Shape")
def shape(call: Call, x: Any, start: int = 0, end: int | None = None) -> Any:
    """The sizes of x."""
    return of_sizes(x.shape[slice(start, end)])


operators(
    {
        "Size": lambda call, x: of_sizes([elements(x.shape)]).reshape(()),
        "Transpose": lambda call, x, perm=None: x.permute(tuple(perm if perm is not None else reversed(range(x.ndim)))),
    }
)


@operator("Reshape", known=(1,))
def reshape(call: Call, x: Any, sizes: Array | None = None, shape: Any = None, allowzero: int = 0, consumed_inputs: Any = None) -> Any:
    """x with other sizes; 0 keeps one, −1 is what is left."""
    wanted = whole_numbers(sizes if sizes is not None else shape) or []
    return x.reshape(tuple(x.shape[i] if n == 0 and not allowzero else n for i, n in enumerate(wanted)))


@operator("Flatten")
def flatten(call: Call, x: Any, axis: int = 1) -> Any:
    """A matrix of the axes before `axis` and those from there on."""
    at = axis + x.ndim if axis < 0 else axis
    return x.reshape((elements(x.shape[:at]), elements(x.shape[at:])))


@operator("Squeeze", known=(1,))
def squeeze(call: Call, x: Any, given: Array | None = None, axes: Any = None) -> Any:
    """Without axes of size 1."""
    over = whole_numbers(given if given is not None else axes)
    return x.squeeze(axis=None if over is None else tuple(over))


@operator("Unsqueeze", known=(1,))
def unsqueeze(call: Call, x: Any, given: Array | None = None, axes: Any = None) -> Any:
    """With axes of size 1."""
    return xp.expand_dims(x, axis=tuple(whole_numbers(given if given is not None else axes) or ()))


@operator("Concat")
def concat(call: Call, *xs: Any, axis: int = 1, channels_last: int = 0) -> Any:
    """One behind the other. `channels_last`: how channels that are joined lie in memory."""
    if channels_last:
        return channels_first(xp.concat([channels_behind(x) for x in xs], axis=-1))
    return xp.concat(list(xs), axis=axis)


@operator("Expand", known=(1,))
def expand(call: Call, x: Any, sizes: Array) -> Any:
    """Repeated, as both shapes broadcast."""
    return x.expand(broadcast(x.shape, whole_numbers(sizes) or ()))


@operator("Tile", known=(1, 2))
def tile(call: Call, x: Any, repeats: Array, axis: Array | None = None) -> Any:
    """Repeated so often along each axis. (Before opset 6: along one.)"""
    if axis is not None:
        at = int(number(axis))
        return x.tile(tuple(int(number(repeats)) if d == at else 1 for d in range(x.ndim)))
    return x.tile(tuple(whole_numbers(repeats) or ()))


@operator("Split", known=(1,))
def split(call: Call, x: Any, given: Array | None = None, axis: int = 0, num_outputs: int | None = None, split: Any = None) -> Any:
    """Cut into parts along an axis; the last one may be smaller."""
    parts, n = whole_numbers(given if given is not None else split), x.shape[axis]
    if parts is None:
        count = num_outputs or call.wanted
        each = -(-n // count)
        parts = [max(0, min(each, n - each * i)) for i in range(count)]
    ends = np.cumsum([0, *parts])
    return [cut(x, axis, slice(int(a), int(b))) for a, b in pairwise(ends)]


@operator("Slice", known=(1, 2, 3, 4))
def slice_(
    call: Call,
    x: Any,
    starts: Array | None = None,
    ends: Array | None = None,
    axes: Array | None = None,
    steps: Array | None = None,
    **how: Any,
) -> Any:
    """Parts of axes. (Before opset 10 the places are attributes.)"""
    first = whole_numbers(starts if starts is not None else how.get("starts")) or []
    last = whole_numbers(ends if ends is not None else how.get("ends")) or []
    over = whole_numbers(axes if axes is not None else how.get("axes")) or list(range(len(first)))
    for start, end, axis, step in zip(first, last, over, whole_numbers(steps) or [1] * len(first), strict=True):
        if step == 0:
            raise UsageError("Slice: a step of 0")
        if symbolic((start, end, x.shape[axis])):  # NumPy's meaning is ONNX's where the step is forward
            if step < 1:
                raise UsageError("Slice: backwards along a size that calls give")
            open_end = isinstance(end, int) and end >= 2**31
            x = cut(x, axis, slice(start, None if open_end else end, step))
            continue
        found = range(*_bounded(start, end, step, x.shape[axis]))
        stop = found.stop if step > 0 or found.stop >= 0 else None
        x = cut(x, axis, slice(found.start, stop, step) if len(found) else slice(0, 0))
    return x


def _bounded(start: int, end: int, step: int, n: int) -> tuple[int, int, int]:
    """Places within an axis, as ONNX clamps them."""
    low, high = (0, n) if step > 0 else (-1, n - 1)

    def place(at: int) -> int:
        return min(max(at + n if at < 0 else at, low), high)

    return max(place(start), 0), place(end), step


@operator("Pad", known=(1, 2, 3))
def pad(call: Call, x: Any, given: Array | None = None, value: Array | None = None, axes: Array | None = None, **how: Any) -> Any:
    """More elements at both ends of axes; fewer where a number is negative."""
    mode = how.get("mode", "constant")
    widths = whole_numbers(given if given is not None else how.get("pads", how.get("paddings"))) or []
    over = whole_numbers(axes) or list(range(x.ndim))
    found = [(0, 0)] * x.ndim
    for i, axis in enumerate(over):
        before, after = widths[i], widths[i + len(over)]
        if before < 0 or after < 0:
            x = cut(x, axis, slice(max(-before, 0), x.shape[axis] + min(after, 0)))
        found[axis] = (max(before, 0), max(after, 0))
    fill = how.get("value", 0) if value is None or not np.size(value) else number(value)
    if mode == "wrap":
        for axis, (before, after) in enumerate(found):
            x = _wrapped(x, axis, before, after)
        return x
    return x.pad(found, fill, {"edge": "edge", "reflect": "reflect"}.get(mode, "constant"))


def _wrapped(x: Any, axis: int, before: int, after: int) -> Any:
    """The other end of an axis, at each end."""
    n = x.shape[axis]
    if not before and not after:
        return x
    copies, lead = -(-before // n), -(-before // n) * n - before
    repeated = x.tile(tuple(copies + 1 + -(-after // n) if d == axis % x.ndim else 1 for d in range(x.ndim)))
    return cut(repeated, axis, slice(lead, lead + before + n + after))


@operator("Trilu", known=(1,))
def trilu(call: Call, x: Any, k: Array | None = None, upper: int = 1) -> Any:
    """A triangle of each matrix."""
    return (x.triu if upper else x.tril)(k=int(number(k) or 0))


@operator("DepthToSpace")
def depth_to_space(call: Call, x: Any, blocksize: int, mode: str = "DCR") -> Any:
    """Channels as blocks of places."""
    b, (n, channels, h, w) = blocksize, x.shape
    inner = channels // b**2
    if mode == "DCR":
        y = x.reshape((n, b, b, inner, h, w)).permute((0, 3, 4, 1, 5, 2))
    else:
        y = x.reshape((n, inner, b, b, h, w)).permute((0, 1, 4, 2, 5, 3))
    return y.reshape((n, inner, h * b, w * b))


@operator("SpaceToDepth")
def space_to_depth(call: Call, x: Any, blocksize: int, mode: str = "DCR") -> Any:
    """Blocks of places as channels."""
    b, (n, channels, h, w) = blocksize, x.shape
    y = x.reshape((n, channels, h // b, b, w // b, b))
    y = y.permute((0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4))
    return y.reshape((n, channels * b * b, h // b, w // b))


@operator("ReverseSequence")
def reverse_sequence(call: Call, x: Any, lengths: Any, batch_axis: int = 1, time_axis: int = 0) -> Any:
    """Each sequence turned around, as far as it goes."""
    steps = xp.arange(x.shape[time_axis]).reshape(tuple(-1 if d == time_axis else 1 for d in range(x.ndim)))
    ends = lengths.reshape(tuple(-1 if d == batch_axis else 1 for d in range(x.ndim)))
    return x.take_along_axis(xp.where(steps < ends, ends - 1 - steps, steps), axis=time_axis)
