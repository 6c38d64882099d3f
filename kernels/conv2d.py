"""2-D convolution (cross-correlation), NCHW, with stride, zero padding and groups.

y[n, o, p, q] = Σ_{c, r, t} x[n, c, p·stride + r − pad, q·stride + t − pad] · w[o, c, r, t]; a group of outputs sees its own group of
channels. Padding is a masked load: it reads as 0 and touches no memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType
from ..ir.errors import KernelError
from ..ir.kernel import Kernel
from ..ir.operators import cast
from .common import FLOATS, f64, span, sum_type
from .definition import Arrays, KernelDef, Shape

if TYPE_CHECKING:
    import numpy as np


def output_size(s: Shape) -> tuple[int, int]:
    """(height, width) of the output; KernelError where the window does not fit."""
    out = tuple((s[d] + 2 * s["pad"] - s[k]) // s["stride"] + 1 for d, k in (("h", "kh"), ("w", "kw")))
    if min(s["h"] + 2 * s["pad"] - s["kh"], s["w"] + 2 * s["pad"] - s["kw"]) < 0:
        raise KernelError(f"a {s['kh']}x{s['kw']} window does not fit a {s['h']}x{s['w']} input with pad={s['pad']}")
    return out[0], out[1]


def make(s: Shape, dtype: DType) -> Kernel:
    """x (n, c, h, w), weight (oc, c / groups, kh, kw) → y (n, oc, oh, ow)."""
    for name in ("c", "h", "w", "oc", "kh", "kw", "stride", "pad", "groups"):
        if not isinstance(s[name], int):
            raise KernelError(f"conv2d: size {name} must be an int (only n may be symbolic)")
    n, c, h, w, oc, kh, kw, stride, pad, groups = (s[k] for k in DEF.shape_names)
    if c % groups or oc % groups:
        raise KernelError(f"conv2d: groups={groups} must divide c={c} and oc={oc}")
    oh, ow = output_size(s)
    kb = KernelBuilder("conv2d")
    b, o, p, q = kb.axis("n", n), kb.axis("oc", oc // groups), kb.axis("oh", oh), kb.axis("ow", ow)
    ci, r, t = kb.axis("c", c // groups), kb.axis("kh", kh), kb.axis("kw", kw)
    x = kb.input("x", (n, c, h, w), dtype, range=span(dtype))
    weight = kb.input("weight", (oc, c // groups, kh, kw), dtype, range=span(dtype))
    # one group has no group axis, so that its schedule reads like any other
    g = kb.axis("g", groups) if groups > 1 else None
    out_channel = o if g is None else g * (oc // groups) + o
    in_channel = ci if g is None else g * (c // groups) + ci
    spatial = (b, o, p, q) if g is None else (b, g, o, p, q)
    row, col = p * stride + r - pad, q * stride + t - pad
    inside = (row >= 0) & (row < h) & (col >= 0) & (col < w)
    pixel = cast(x.masked(inside, b, in_channel, row, col), dtype.acc)
    acc = kb.sum("acc", spatial, (ci, r, t), pixel * cast(weight[out_channel, ci, r, t], dtype.acc))
    kb.store("y", sum_type(dtype), (n, oc, oh, ow), spatial, acc[spatial], indices=(b, out_channel, p, q))
    return kb.build()


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """Sliding windows and einsum, a group at a time."""
    import numpy as np

    g, stride, pad = s["groups"], s["stride"], s["pad"]
    padded = np.pad(f64(x["x"]), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (s["kh"], s["kw"]), axis=(2, 3))[:, :, ::stride, ::stride]
    inputs, weights = np.split(windows, g, axis=1), np.split(f64(x["weight"]), g, axis=0)
    return {"y": np.concatenate([np.einsum("ncpqrt,ocrt->nopq", a, b) for a, b in zip(inputs, weights)], axis=1)}


def flops(s: Shape) -> int:
    """A multiply and an add for each tap (those on the padding included)."""
    oh, ow = output_size(s)
    return int(2 * s["n"] * s["oc"] * oh * ow * (s["c"] // s["groups"]) * s["kh"] * s["kw"])


def nbytes(s: Shape, dtype: DType) -> int:
    """Input pixels some window meets, all weights, and the output."""
    oh, ow = output_size(s)
    pixels = s["n"] * s["c"] * min(s["h"], oh * s["kh"]) * min(s["w"], ow * s["kw"])
    weights = s["oc"] * (s["c"] // s["groups"]) * s["kh"] * s["kw"]
    return int((pixels + weights) * dtype.size + s["n"] * s["oc"] * oh * ow * sum_type(dtype).size)


DEF = KernelDef(
    "conv2d",
    "y = conv2d(x, weight), NCHW, with stride, pad and groups",
    ("n", "c", "h", "w", "oc", "kh", "kw", "stride", "pad", "groups"),
    {"n": 1, "c": 64, "h": 56, "w": 56, "oc": 64, "kh": 3, "kw": 3, "stride": 1, "pad": 1, "groups": 1},
    {"n": 2, "c": 6, "h": 7, "w": 11, "oc": 10, "kh": 3, "kw": 3, "stride": 2, "pad": 1, "groups": 2},
    (*FLOATS, "int8"),
    make,
    reference,
    flops,
    nbytes,
    {"pad": 0},
)
