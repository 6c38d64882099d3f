"""2-D convolution, its gradients, and the maximum over windows, NCHW, with stride and padding.

Padding is a masked load: it reads as 0 and touches no memory. With groups, a group of outputs sees its own group of channels. One group has
no group axis, so that its schedule reads like any other."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType
from ..ir.errors import KernelError
from ..ir.functions import where
from ..ir.kernel import Kernel
from ..ir.node import Node
from ..ir.operators import cast
from .definition import FLOATS, Shape, definition, span, sum_type

DEFAULT = {"n": 1, "c": 64, "h": 56, "w": 56, "oc": 64, "kh": 3, "kw": 3, "stride": 1, "pad": 1, "groups": 1}
ODD = {"n": 2, "c": 6, "h": 7, "w": 11, "oc": 10, "kh": 3, "kw": 3, "stride": 2, "pad": 1, "groups": 2}


def output_size(s: Shape) -> tuple[int, int]:
    """(height, width) of the output; KernelError where the window does not fit."""
    out = tuple((s[d] + 2 * s["pad"] - s[k]) // s["stride"] + 1 for d, k in (("h", "kh"), ("w", "kw")))
    if min(s["h"] + 2 * s["pad"] - s["kh"], s["w"] + 2 * s["pad"] - s["kw"]) < 0:
        raise KernelError(f"a {s['kh']}x{s['kw']} window does not fit a {s['h']}x{s['w']} input with pad={s['pad']}")
    return out[0], out[1]


def _check(kernel: str, s: Shape) -> None:
    """Raise KernelError unless all sizes but n are ints and the groups divide the channels."""
    for name in ("c", "h", "w", "oc", "kh", "kw", "stride", "pad", "groups"):
        if not isinstance(s[name], int):
            raise KernelError(f"{kernel}: size {name} must be an int (only n may be symbolic)")
    if s["c"] % s["groups"] or s["oc"] % s["groups"]:
        raise KernelError(f"{kernel}: groups={s['groups']} must divide c={s['c']} and oc={s['oc']}")


@dataclass(frozen=True)
class _Channels:
    """The axes of channels: `group` (none of one group), `out` and `into` of a group, and the channels they mean."""

    group: tuple[Node, ...]
    out: Node
    into: Node
    out_channel: Node
    in_channel: Node

    @classmethod
    def of(cls, kb: KernelBuilder, s: Shape) -> _Channels:
        """For the sizes of a kernel."""
        each_out, each_in = s["oc"] // s["groups"], s["c"] // s["groups"]
        o, c = kb.axis("oc", each_out), kb.axis("c", each_in)
        if s["groups"] == 1:
            return cls((), o, c, o, c)
        g = kb.axis("g", s["groups"])
        return cls((g,), o, c, g * each_out + o, g * each_in + c)


def _pixel(s: Shape, p: Node, q: Node, r: Node, t: Node) -> tuple[Node, Node, Node]:
    """(row, column, whether it is inside of the input) of what tap (r, t) of the window at (p, q) reads."""
    row, col = p * s["stride"] + r - s["pad"], q * s["stride"] + t - s["pad"]
    return row, col, (row >= 0) & (row < s["h"]) & (col >= 0) & (col < s["w"])


@definition("y = conv2d(x, weight), NCHW, with stride, pad and groups", DEFAULT, ODD, (*FLOATS, "int8"), {"pad": 0})
def conv2d(s: Shape, dtype: DType) -> Kernel:
    """x (n, c, h, w), weight (oc, c / groups, kh, kw) → y (n, oc, oh, ow), a cross-correlation.

    y[n, o, p, q] = Σ_{c, r, t} x[n, c, p·stride + r − pad, q·stride + t − pad] · w[o, c, r, t]."""
    _check("conv2d", s)
    n, c, oc, kh, kw, groups = (s[k] for k in ("n", "c", "oc", "kh", "kw", "groups"))
    oh, ow = output_size(s)
    kb = KernelBuilder("conv2d")
    b, ch, p, q = kb.axis("n", n), _Channels.of(kb, s), kb.axis("oh", oh), kb.axis("ow", ow)
    r, t = kb.axis("kh", kh), kb.axis("kw", kw)
    x = kb.input("x", (n, c, s["h"], s["w"]), dtype, range=span(dtype))
    weight = kb.input("weight", (oc, c // groups, kh, kw), dtype, range=span(dtype))
    row, col, inside = _pixel(s, p, q, r, t)
    pixel = cast(x.masked(inside, b, ch.in_channel, row, col), dtype.acc)
    spatial = (b, *ch.group, ch.out, p, q)
    acc = kb.sum("acc", spatial, (ch.into, r, t), pixel * cast(weight[ch.out_channel, ch.into, r, t], dtype.acc))
    kb.store("y", sum_type(dtype), (n, oc, oh, ow), spatial, acc[spatial], indices=(b, ch.out_channel, p, q))
    return kb.build()


@definition("gradient of conv2d's weight from x and dy", DEFAULT, ODD, FLOATS, {"pad": 0})
def conv2d_dw(s: Shape, dtype: DType) -> Kernel:
    """x (n, c, h, w), dy (n, oc, oh, ow) → dw (oc, c / groups, kh, kw), as one product: rows are channels of dy, columns are taps of x,
    and what is summed over are images and pixels of dy.

    dw[o, c, r, t] = Σ_{n, p, q} dy[n, o, p, q] · x[n, c, p·stride + r − pad, q·stride + t − pad]."""
    _check("conv2d_dw", s)
    n, c, oc, kh, kw, groups = (s[k] for k in ("n", "c", "oc", "kh", "kw", "groups"))
    oh, ow = output_size(s)
    kb = KernelBuilder("conv2d_dw")
    ch, r, t = _Channels.of(kb, s), kb.axis("kh", kh), kb.axis("kw", kw)
    b, p, q = kb.axis("n", n), kb.axis("oh", oh), kb.axis("ow", ow)
    dy, x = kb.input("dy", (n, oc, oh, ow), dtype), kb.input("x", (n, c, s["h"], s["w"]), dtype)
    row, col, inside = _pixel(s, p, q, r, t)
    spatial = (*ch.group, ch.out, ch.into, r, t)
    acc = kb.sum("acc", spatial, (b, p, q), dy[b, ch.out_channel, p, q] * x.masked(inside, b, ch.in_channel, row, col))
    kb.store("dw", dtype, (oc, c // groups, kh, kw), spatial, acc[spatial], indices=(ch.out_channel, ch.into, r, t))
    return kb.build()


@definition(
    "gradient of conv2d's x from weight and dy",
    DEFAULT,
    {"n": 2, "c": 4, "h": 5, "w": 7, "oc": 6, "kh": 3, "kw": 3, "stride": 2, "pad": 1, "groups": 2},
    FLOATS,
    {"pad": 0},
)
def conv2d_dx(s: Shape, dtype: DType) -> Kernel:
    """dy (n, oc, oh, ow), weight (oc, c / groups, kh, kw) → dx (n, c, h, w), as one product: rows are pixels of x, columns are channels of
    x, and what is summed over are channels of dy and taps.

    dx[n, c, y, x] = Σ_{o, r, t} dy[n, o, (y + pad − r) / stride, (x + pad − t) / stride] · w[o, c, r, t] over the taps for which the
    divisions leave no rest. The remainder of y + pad by the stride (`phase_h`, `phase_w`) splits the pixels: those of one phase meet the
    same taps, every stride-th, so that no product is made in vain. With stride 1 there is one phase."""
    _check("conv2d_dx", s)
    n, c, h, w, oc, kh, kw, stride, groups = (s[k] for k in ("n", "c", "h", "w", "oc", "kh", "kw", "stride", "groups"))
    oh, ow = output_size(s)
    kb = KernelBuilder("conv2d_dx")
    b, ch = kb.axis("n", n), _Channels.of(kb, s)
    rows, r, y, tap_h, p = _phases(kb, h, kh, s, ("h", "phase_h", "kh"))
    columns, t, z, tap_w, q = _phases(kb, w, kw, s, ("w", "phase_w", "kw"))
    dy, weight = kb.input("dy", (n, oc, oh, ow), dtype), kb.input("weight", (oc, c // groups, kh, kw), dtype)
    spatial = (b, *ch.group, ch.into, *rows, *columns)
    inside = (p >= 0) & (p < oh) & (q >= 0) & (q < ow)
    there = (tap_h < kh) & (tap_w < kw)
    at = (ch.out_channel, ch.into, tap_h, tap_w)
    kernel = weight[at] if stride == 1 else weight.masked(there, *at)
    acc = kb.sum("acc", spatial, (ch.out, r, t), dy.masked(inside, b, ch.out_channel, p, q) * kernel)
    mask = (y >= 0) & (y < h) & (z >= 0) & (z < w) if stride > 1 else None
    kb.store("dx", dtype, (n, c, h, w), spatial, acc[spatial], indices=(b, ch.in_channel, y, z), mask=mask)
    return kb.build()


def phase_blocks(size: int, s: Shape) -> int:
    """How many pixels of one phase there are in a dimension: pixel + pad = stride · block + phase."""
    return int((size - 1 + s["pad"]) // s["stride"] - s["pad"] // s["stride"] + 1)


def _phases(kb: KernelBuilder, size: int, window: int, s: Shape, names: tuple[str, str, str]) -> tuple[list[Node], Node, Node, Node, Node]:
    """One dimension: (axes of the pixel, axis of the taps, pixel, tap, index of dy)."""
    step, pad = s["stride"], s["pad"]
    block, tap = kb.axis(names[0], phase_blocks(size, s)), kb.axis(names[2], -(-window // step))
    if step == 1:
        return [block], tap, block, tap, block - tap + pad
    phase = kb.axis(names[1], step)
    return [block, phase], tap, block * step + phase - pad % step, tap * step + phase, block - tap + pad // step


@definition(
    "y = max_pool2d(x), NCHW, with stride and pad",
    {"n": 1, "c": 64, "h": 112, "w": 112, "kh": 3, "kw": 3, "stride": 2, "pad": 1},
    {"n": 2, "c": 3, "h": 7, "w": 11, "kh": 3, "kw": 3, "stride": 2, "pad": 1},
    FLOATS,
    {"pad": 0},
)
def max_pool2d(s: Shape, dtype: DType) -> Kernel:
    """x (n, c, h, w) → y (n, c, oh, ow); what lies outside the image is −∞."""
    for name in ("h", "w", "kh", "kw", "stride", "pad"):
        if not isinstance(s[name], int):
            raise KernelError(f"max_pool2d: size {name} must be an int (only n and c may be symbolic)")
    n, c, kh, kw, pad = (s[k] for k in ("n", "c", "kh", "kw", "pad"))
    if 2 * pad > min(kh, kw):
        raise KernelError(f"max_pool2d: pad={pad} is more than half of the {kh}x{kw} window, so some windows would be empty")
    oh, ow = output_size(s)
    kb = KernelBuilder("max_pool2d")
    b, ch, p, q = kb.axis("n", n), kb.axis("c", c), kb.axis("oh", oh), kb.axis("ow", ow)
    r, t = kb.axis("kh", kh), kb.axis("kw", kw)
    x = kb.input("x", (n, c, s["h"], s["w"]), dtype)
    row, col, inside = _pixel(s, p, q, r, t)
    top = kb.max("top", (b, ch, p, q), (r, t), where(inside, x.masked(inside, b, ch, row, col), float("-inf")))
    kb.store("y", dtype, (n, c, oh, ow), (b, ch, p, q), top[b, ch, p, q])
    return kb.build()
