"""The gradient of `conv2d` with respect to its weights, as one product: rows are channels of dy, columns are taps of x,
and what is summed over are images and pixels of dy.

dw[o, c, r, t] = Σ_{n, p, q} dy[n, o, p, q] · x[n, c, p·stride + r − pad, q·stride + t − pad], padding read as 0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType
from ..ir.errors import KernelError
from ..ir.kernel import Kernel
from .common import FLOATS, f64
from .conv2d import flops, output_size
from .definition import Arrays, KernelDef, Shape

if TYPE_CHECKING:
    import numpy as np


def make(s: Shape, dtype: DType) -> Kernel:
    """x (n, c, h, w), dy (n, oc, oh, ow) → dw (oc, c / groups, kh, kw)."""
    for name in ("c", "h", "w", "oc", "kh", "kw", "stride", "pad", "groups"):
        if not isinstance(s[name], int):
            raise KernelError(f"conv2d_dw: size {name} must be an int (only n may be symbolic)")
    n, c, h, w, oc, kh, kw, stride, pad, groups = (s[k] for k in DEF.shape_names)
    if c % groups or oc % groups:
        raise KernelError(f"conv2d_dw: groups={groups} must divide c={c} and oc={oc}")
    oh, ow = output_size(s)
    kb = KernelBuilder("conv2d_dw")
    o, ci, r, t = kb.axis("oc", oc // groups), kb.axis("c", c // groups), kb.axis("kh", kh), kb.axis("kw", kw)
    b, p, q = kb.axis("n", n), kb.axis("oh", oh), kb.axis("ow", ow)
    dy, x = kb.input("dy", (n, oc, oh, ow), dtype), kb.input("x", (n, c, h, w), dtype)
    g = kb.axis("g", groups) if groups > 1 else None
    out_channel = o if g is None else g * (oc // groups) + o
    in_channel = ci if g is None else g * (c // groups) + ci
    spatial = (o, ci, r, t) if g is None else (g, o, ci, r, t)
    row, col = p * stride + r - pad, q * stride + t - pad
    inside = (row >= 0) & (row < h) & (col >= 0) & (col < w)
    acc = kb.sum("acc", spatial, (b, p, q), dy[b, out_channel, p, q] * x.masked(inside, b, in_channel, row, col))
    kb.store("dw", dtype, (oc, c // groups, kh, kw), spatial, acc[spatial], indices=(out_channel, ci, r, t))
    return kb.build()


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """Sliding windows and einsum, a group at a time."""
    import numpy as np

    g, stride, pad = s["groups"], s["stride"], s["pad"]
    padded = np.pad(f64(x["x"]), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (s["kh"], s["kw"]), axis=(2, 3))[:, :, ::stride, ::stride]
    inputs, outputs = np.split(windows, g, axis=1), np.split(f64(x["dy"]), g, axis=1)
    return {"dw": np.concatenate([np.einsum("ncpqrt,nopq->ocrt", a, b) for a, b in zip(inputs, outputs)])}


def nbytes(s: Shape, dtype: DType) -> int:
    """Input pixels some window meets, all of dy, and the gradient."""
    oh, ow = output_size(s)
    pixels = s["n"] * s["c"] * min(s["h"], oh * s["kh"]) * min(s["w"], ow * s["kw"])
    weights = s["oc"] * (s["c"] // s["groups"]) * s["kh"] * s["kw"]
    return int((pixels + weights + s["n"] * s["oc"] * oh * ow) * dtype.size)


DEF = KernelDef(
    "conv2d_dw",
    "gradient of conv2d's weight from x and dy",
    ("n", "c", "h", "w", "oc", "kh", "kw", "stride", "pad", "groups"),
    {"n": 1, "c": 64, "h": 56, "w": 56, "oc": 64, "kh": 3, "kw": 3, "stride": 1, "pad": 1, "groups": 1},
    {"n": 2, "c": 6, "h": 7, "w": 11, "oc": 10, "kh": 3, "kw": 3, "stride": 2, "pad": 1, "groups": 2},
    FLOATS,
    make,
    reference,
    flops,
    nbytes,
    {"pad": 0},
)
