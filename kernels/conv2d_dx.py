"""The gradient of `conv2d` with respect to its input, as one product: rows are pixels of x, columns are channels of x,
and what is summed over are channels of dy and taps.

dx[n, c, y, x] = Σ_{o, r, t} dy[n, o, (y + pad − r) / stride, (x + pad − t) / stride] · w[o, c, r, t] over the taps for which
the divisions leave no rest. Pixels are parted by the remainder of y + pad by the stride (`phase_h`, `phase_w`): those of one
phase meet the same taps, every stride-th, so that no product is made in vain. With stride 1 there is one phase."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.builder import KernelBuilder
from ..ir.dtypes import DType
from ..ir.errors import KernelError
from ..ir.kernel import Kernel
from ..ir.node import Node
from .common import FLOATS, f64
from .conv2d import output_size
from .definition import Arrays, KernelDef, Shape

if TYPE_CHECKING:
    import numpy as np


def _blocks(size: int, s: Shape) -> int:
    """How many pixels of one phase there are in a dimension: pixel + pad = stride · block + phase."""
    return int((size - 1 + s["pad"]) // s["stride"] - s["pad"] // s["stride"] + 1)


def _along(kb: KernelBuilder, size: int, window: int, s: Shape, names: tuple[str, str, str]) -> tuple[list[Node], Node, Node, Node, Node]:
    """One dimension: (axes of the pixel, axis of the taps, pixel, tap, place in dy)."""
    step, pad = s["stride"], s["pad"]
    block, tap = kb.axis(names[0], _blocks(size, s)), kb.axis(names[2], -(-window // step))
    if step == 1:
        return [block], tap, block, tap, block - tap + pad
    phase = kb.axis(names[1], step)
    return [block, phase], tap, block * step + phase - pad % step, tap * step + phase, block - tap + pad // step


def make(s: Shape, dtype: DType) -> Kernel:
    """dy (n, oc, oh, ow), weight (oc, c / groups, kh, kw) → dx (n, c, h, w)."""
    for name in ("c", "h", "w", "oc", "kh", "kw", "stride", "pad", "groups"):
        if not isinstance(s[name], int):
            raise KernelError(f"conv2d_dx: size {name} must be an int (only n may be symbolic)")
    n, c, h, w, oc, kh, kw, stride, _, groups = (s[k] for k in DEF.shape_names)
    if c % groups or oc % groups:
        raise KernelError(f"conv2d_dx: groups={groups} must divide c={c} and oc={oc}")
    oh, ow = output_size(s)
    kb = KernelBuilder("conv2d_dx")
    b, ci = kb.axis("n", n), kb.axis("c", c // groups)
    rows, r, y, tap_h, p = _along(kb, h, kh, s, ("h", "phase_h", "kh"))
    columns, t, z, tap_w, q = _along(kb, w, kw, s, ("w", "phase_w", "kw"))
    o = kb.axis("oc", oc // groups)
    dy, weight = kb.input("dy", (n, oc, oh, ow), dtype), kb.input("weight", (oc, c // groups, kh, kw), dtype)
    g = kb.axis("g", groups) if groups > 1 else None
    out_channel = o if g is None else g * (oc // groups) + o
    in_channel = ci if g is None else g * (c // groups) + ci
    spatial = (b, *(() if g is None else (g,)), ci, *rows, *columns)
    inside = (p >= 0) & (p < oh) & (q >= 0) & (q < ow)
    there = (tap_h < kh) & (tap_w < kw)
    kernel = weight[out_channel, ci, tap_h, tap_w] if stride == 1 else weight.masked(there, out_channel, ci, tap_h, tap_w)
    acc = kb.sum("acc", spatial, (r, t, o), dy.masked(inside, b, out_channel, p, q) * kernel)
    mask = (y >= 0) & (y < h) & (z >= 0) & (z < w) if stride > 1 else None
    kb.store("dx", dtype, (n, c, h, w), spatial, acc[spatial], indices=(b, in_channel, y, z), mask=mask)
    return kb.build()


def reference(x: Arrays, s: Shape) -> dict[str, np.ndarray[Any, Any]]:
    """Every tap's product is added where the tap was read, a group at a time."""
    import numpy as np

    g, stride, pad = s["groups"], s["stride"], s["pad"]
    oh, ow = output_size(s)
    padded = np.zeros((s["n"], s["c"], s["h"] + 2 * pad, s["w"] + 2 * pad))
    outputs, weights = np.split(f64(x["dy"]), g, axis=1), np.split(f64(x["weight"]), g, axis=0)
    for r in range(s["kh"]):
        for t in range(s["kw"]):
            parts = [np.einsum("nopq,oc->ncpq", a, b[:, :, r, t]) for a, b in zip(outputs, weights)]
            padded[:, :, r : r + oh * stride : stride, t : t + ow * stride : stride] += np.concatenate(parts, axis=1)
    return {"dx": padded[:, :, pad : pad + s["h"], pad : pad + s["w"]]}


def flops(s: Shape) -> int:
    """A multiply and an add for each tap of each pixel (those beyond an edge included)."""
    taps = -(-s["kh"] // s["stride"]) * -(-s["kw"] // s["stride"]) * (s["oc"] // s["groups"])
    return int(2 * s["n"] * s["c"] * _blocks(s["h"], s) * _blocks(s["w"], s) * s["stride"] ** 2 * taps)


def nbytes(s: Shape, dtype: DType) -> int:
    """All of dy, all weights, and the gradient."""
    oh, ow = output_size(s)
    weights = s["oc"] * (s["c"] // s["groups"]) * s["kh"] * s["kw"]
    return int((s["n"] * s["oc"] * oh * ow + weights + s["n"] * s["c"] * s["h"] * s["w"]) * dtype.size)


DEF = KernelDef(
    "conv2d_dx",
    "gradient of conv2d's x from weight and dy",
    ("n", "c", "h", "w", "oc", "kh", "kw", "stride", "pad", "groups"),
    {"n": 1, "c": 64, "h": 56, "w": 56, "oc": 64, "kh": 3, "kw": 3, "stride": 1, "pad": 1, "groups": 1},
    {"n": 2, "c": 4, "h": 5, "w": 7, "oc": 6, "kh": 3, "kw": 3, "stride": 2, "pad": 1, "groups": 2},
    FLOATS,
    make,
    reference,
    flops,
    nbytes,
    {"pad": 0},
)
