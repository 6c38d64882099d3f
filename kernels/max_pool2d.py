"""2-D maximum over windows, NCHW, with stride and padding; what lies outside the image is −∞."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType
from ..ir.errors import KernelError
from ..ir.functions import where
from ..ir.kernel import Kernel
from .common import FLOATS, f64
from .conv2d import output_size
from .definition import Arrays, KernelDef, Shape

if TYPE_CHECKING:
    import numpy as np


def make(s: Shape, dtype: DType) -> Kernel:
    """x (n, c, h, w) → y (n, c, oh, ow)."""
    for name in ("h", "w", "kh", "kw", "stride", "pad"):
        if not isinstance(s[name], int):
            raise KernelError(f"max_pool2d: size {name} must be an int (only n and c may be symbolic)")
    n, c, h, w, kh, kw, stride, pad = (s[k] for k in DEF.shape_names)
    if 2 * pad > min(kh, kw):
        raise KernelError(f"max_pool2d: pad={pad} is more than half of the {kh}x{kw} window, so some windows would be empty")
    oh, ow = output_size(s)
    kb = KernelBuilder("max_pool2d")
    b, ch, p, q = kb.axis("n", n), kb.axis("c", c), kb.axis("oh", oh), kb.axis("ow", ow)
    r, t = kb.axis("kh", kh), kb.axis("kw", kw)
    x = kb.input("x", (n, c, h, w), dtype)
    row, col = p * stride + r - pad, q * stride + t - pad
    inside = (row >= 0) & (row < h) & (col >= 0) & (col < w)
    top = kb.max("top", (b, ch, p, q), (r, t), where(inside, x.masked(inside, b, ch, row, col), float("-inf")))
    kb.store("y", dtype, (n, c, oh, ow), (b, ch, p, q), top[b, ch, p, q])
    return kb.build()


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """Sliding windows."""
    import numpy as np

    pad, stride = s["pad"], s["stride"]
    padded = np.pad(f64(x["x"]), ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (s["kh"], s["kw"]), axis=(2, 3))
    return {"y": windows[:, :, ::stride, ::stride].max(axis=(4, 5))}


def flops(s: Shape) -> int:
    """A comparison for each tap (those on the padding included)."""
    oh, ow = output_size(s)
    return int(s["n"] * s["c"] * oh * ow * s["kh"] * s["kw"])


def nbytes(s: Shape, dtype: DType) -> int:
    """Input pixels some window meets, and the output."""
    oh, ow = output_size(s)
    pixels = min(s["h"], oh * s["kh"]) * min(s["w"], ow * s["kw"])
    return int(s["n"] * s["c"] * (pixels + oh * ow) * dtype.size)


DEF = KernelDef(
    "max_pool2d",
    "y = max_pool2d(x), NCHW, with stride and pad",
    ("n", "c", "h", "w", "kh", "kw", "stride", "pad"),
    {"n": 1, "c": 64, "h": 112, "w": 112, "kh": 3, "kw": 3, "stride": 2, "pad": 1},
    {"n": 2, "c": 3, "h": 7, "w": 11, "kh": 3, "kw": 3, "stride": 2, "pad": 1},
    FLOATS,
    make,
    reference,
    flops,
    nbytes,
    {"pad": 0},
)
