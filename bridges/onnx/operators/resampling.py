"""Images of another size, and images read at given places."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from .... import xp
from ....ir.errors import UsageError
from ....tensor import Tensor
from ..element_types import Array, as_tensor
from .table import Call, along, channels_behind, channels_first, operator, type_of, whole_numbers, wide

Curve = Callable[[Array], Array]
ROUNDINGS: dict[str, Curve] = {
    "round_prefer_floor": lambda v: np.ceil(v - 0.5),
    "round_prefer_ceil": lambda v: np.floor(v + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _curve(mode: str, a: float) -> tuple[int, Curve]:
    """The reach of an interpolation, and the weight of a distance. The cubic one is Keys' of 1981, with its parameter a."""
    if mode == "linear":
        return 1, lambda t: np.clip(1 - np.abs(t), 0, 1)

    def cubic(t: Array) -> Array:
        t = np.abs(t)
        near, far = ((a + 2) * t - (a + 3)) * t * t + 1, (((t - 5) * t + 8) * t - 4) * a
        return np.where(t <= 1, near, np.where(t < 2, far, 0))

    return 2, cubic


def _ratio(scale: float) -> Fraction:
    """What a scale in float32 stands for: 2/3 for 0.6666667. Else its rounding would move places that lie between two elements."""
    simple = Fraction(scale).limit_denominator(4096)
    return simple if np.float32(float(simple)) == np.float32(scale) else Fraction(scale)


def _sources(n: int, m: int, scale: Fraction, mode: str, window: tuple[float, float]) -> Array:
    """Where each of m places lies among n, rounded once: a place between two elements is there exactly."""
    y, (p, q) = np.arange(m, dtype=np.float64), map(float, scale.as_integer_ratio())
    if mode == "align_corners":
        return y * 0 if p * n == q or m == 1 else y * ((n - 1) * q) / (p * n - q)
    if mode == "asymmetric":
        return y * q / p
    if mode == "tf_crop_and_resize":
        low, high = window
        return low * (n - 1) + (y * (high - low) * (n - 1) / (m - 1) if m > 1 else y * 0 + (high - low) * (n - 1) / 2)
    if mode == "pytorch_half_pixel" and m == 1:
        return y - 0.5
    if mode not in ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric"):
        raise UsageError(f"Resize: the coordinates {mode!r} are not known")
    return ((2 * y + 1) * q - p + (n * p - m * q if mode == "half_pixel_symmetric" else 0)) / (2 * p)


def _matrix(at: Array, n: int, mode: str, a: float, shrink: float, exclude: bool) -> Array:
    """The weights of n elements at each place."""
    reach, weight = _curve(mode, a)
    far = math.ceil(reach / shrink)
    taps = np.floor(at)[:, None] + np.arange(-far, far + 1)
    w = weight((taps - at[:, None]) * shrink)
    if exclude:
        w = np.where((taps < 0) | (taps >= n), 0, w)
    if shrink < 1 or exclude:
        w = w / w.sum(1, keepdims=True)
    made = np.zeros((len(at), n))
    np.add.at(made, (np.arange(len(at))[:, None], np.clip(taps, 0, n - 1).astype(int)), w)
    return made


def _weighted(x: Any, w: Array, axis: int) -> Any:
    """x with sums over an axis, weighted by the rows of a matrix. Few weights are taken one by one, where whole vectors are read so."""
    taps = int((w != 0).sum(1).max())
    if axis == x.ndim - 1 or 2 * taps > w.shape[1]:
        return (x.moveaxis(axis, -1) @ as_tensor(np.ascontiguousarray(w.T)).astype(type_of(x))).moveaxis(-1, axis)
    at = np.argsort(w == 0, axis=1, kind="stable")[:, :taps]
    weights = np.take_along_axis(w, at, axis=1)
    shape = (-1, *(1,) * (x.ndim - 1 - axis))
    parts = [_taken(x, at[:, i], axis) * as_tensor(weights[:, i].reshape(shape)).astype(type_of(x)) for i in range(taps)]
    return sum(parts[1:], parts[0])


def _taken(x: Any, at: Array, axis: int) -> Any:
    """Elements at known places, which need no check at each call."""
    return x.take(Tensor(at.astype(np.int64)).clip(0, x.shape[axis] - 1), axis=axis)


def _sizes(x: Any, axes: Sequence[int], scales: Any, sizes: Any, policy: str) -> tuple[list[Fraction], list[int]]:
    """The scale and the new size of each axis."""
    if sizes is None or not len(sizes):
        factors = [_ratio(float(s)) for s in scales]
        return factors, [x.shape[a] if s == 1 else math.floor(x.shape[a] * s) for s, a in zip(factors, axes)]
    factors = [Fraction(int(s), int(x.shape[a])) for s, a in zip(sizes, axes)]
    if policy == "stretch":
        return factors, whole_numbers(sizes) or []
    one = (min if policy == "not_larger" else max)(factors)
    return [one] * len(axes), [math.floor(one * x.shape[a] + Fraction(1, 2)) for a in axes]


@operator("Resize", "Upsample", known=(1, 2, 3))
def resize(
    call: Call, x: Any, roi: Array | None = None, scales: Array | None = None, sizes: Array | None = None, axes: Any = None,
    channels_last: int = 0, **how: Any,
) -> Any:  # fmt: skip
    """x with axes of other sizes. `channels_last`: how the result lies in memory."""
    if not channels_last:
        return _resized(call, x, roi, scales, sizes, axes, **how)
    behind = (0, x.ndim - 1, *range(1, x.ndim - 1))
    over = [behind[a] for a in (range(x.ndim) if axes is None else axes)]
    return channels_first(_resized(call, channels_behind(x), roi, scales, sizes, over, **how))


def _resized(
    call: Call, x: Any, roi: Array | None, scales: Array | None, sizes: Array | None, axes: Any, antialias: int = 0,
    coordinate_transformation_mode: str | None = None, cubic_coeff_a: float = -0.75, exclude_outside: int = 0, extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch", mode: str = "nearest", nearest_mode: str = "round_prefer_floor",
) -> Any:  # fmt: skip
    places = coordinate_transformation_mode or "half_pixel"
    if call.version < 11:
        roi, scales, places, nearest_mode = None, roi if scales is None else scales, "asymmetric", "floor"
    over = [a % x.ndim for a in axes] if axes is not None else list(range(x.ndim))
    factors, outs = _sizes(x, over, scales, sizes, keep_aspect_ratio_policy)
    window: Any = roi if roi is not None and len(roi) else None
    kind, y, outside = type_of(x), x, None
    for i, axis, factor, m in reversed([*zip(range(len(over)), over, factors, outs)]):  # (the last axis first: its product has few rows)
        n = x.shape[axis]
        crop = places == "tf_crop_and_resize"
        if n == m and factor == 1 and not crop:
            continue
        at = _sources(n, m, factor, places, (float(window[i]), float(window[i + len(over)])) if window is not None else (0.0, 1.0))
        if crop:
            beyond = as_tensor(((at < 0) | (at > n - 1)).reshape(tuple(m if d == axis else 1 for d in range(x.ndim))))
            outside = beyond if outside is None else outside | beyond
        if mode == "nearest":
            y = _taken(y, np.clip(ROUNDINGS[nearest_mode](at), 0, n - 1), axis)
        else:
            w = _matrix(
                at,
                n,
                "linear" if mode == "linear" else "cubic",
                cubic_coeff_a,
                min(float(factor), 1.0) if antialias else 1.0,
                bool(exclude_outside),
            )
            y = _weighted(wide(y) if y.dtype.is_float else y.astype("float32"), w, axis)
    if not x.dtype.is_float and mode != "nearest":
        info = xp.iinfo(kind)
        y = y.round().clip(info.min, info.max)
    y = y.astype(kind)
    return y if outside is None else xp.where(outside, extrapolation_value, y)


@operator("GridSample")
def grid_sample(call: Call, x: Any, grid: Any, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros") -> Any:
    """x at places from −1 to 1."""
    rank, sizes = x.ndim - 2, x.shape[2:]
    cubic = mode in ("cubic", "bicubic")
    at = [((g + 1) / 2 * (n - 1) if align_corners else ((g + 1) * n - 1) / 2) for g, n in zip(reversed(grid.unstack(axis=-1)), sizes)]
    if not cubic:
        at = [_kept(p, n, padding_mode, bool(align_corners)) for p, n in zip(at, sizes)]
    low = [p.round() if mode == "nearest" else p.floor() for p in at]
    taps = (0,) if mode == "nearest" else (-1, 0, 1, 2) if cubic else (0, 1)
    total: Any = 0
    for corner in itertools.product(taps, repeat=rank):
        weight, key, inside = None, [along(x.shape[0], rank + 1, 0), slice(None)], None
        for d, p, base, n in zip(corner, at, low, sizes):
            if mode != "nearest":
                w = _weight(p - base, d, cubic)
                weight = w if weight is None else weight * w
            place = _kept(base + d, n, padding_mode, bool(align_corners)) if cubic else base + d
            ok = (place >= 0) & (place <= n - 1)
            inside = ok if inside is None else inside & ok
            key.append(place.clip(0, n - 1).astype("int64"))
        found = x[tuple(key)].moveaxis(-1, 1)
        assert inside is not None
        total = total + xp.where(inside.unsqueeze(1), found if weight is None else found * weight.unsqueeze(1), 0)
    return total.astype(type_of(x))


def _kept(p: Any, n: int, mode: str, corners: bool) -> Any:
    """Places beyond the border, by the padding."""
    if mode == "zeros":
        return p
    if mode == "border":
        return p.clip(0, n - 1)
    low, reach = (0.0, n - 1) if corners else (-0.5, n)
    if not reach:
        return p * 0
    return (low + reach - xp.abs((p - low) % (2 * reach) - reach)).clip(0, n - 1)


def _weight(t: Any, d: int, cubic: bool) -> Any:
    """The weight of a neighbour, d from the place below."""
    u = xp.abs(t - d)
    if not cubic:
        return 1 - u
    a = -0.75
    return ((a + 2) * u - (a + 3)) * u * u + 1 if d in (0, 1) else (((u - 5) * u + 8) * u - 4) * a


@operator("AffineGrid", known=(1,))
def affine_grid(call: Call, theta: Any, size: Array, align_corners: int = 0) -> Any:
    """The places of an image under affine maps."""
    sizes = (whole_numbers(size) or [])[2:]
    rank = len(sizes)
    steps = [np.linspace(-1, 1, n) if align_corners and n > 1 else (np.arange(n) * 2 + 1) / n - 1 for n in sizes]
    if align_corners:
        steps = [np.array([-1.0]) if n == 1 else s for n, s in zip(sizes, steps)]
    mesh = np.meshgrid(*steps, indexing="ij")
    points = np.stack([*reversed(mesh), np.ones(sizes)], -1).reshape(-1, rank + 1)
    made = as_tensor(points.astype(np.float64)).astype(type_of(theta)) @ theta.mT
    return made.reshape((theta.shape[0], *sizes, rank))


@operator("RoiAlign")
def roi_align(
    call: Call, x: Any, rois: Any, batches: Any, coordinate_transformation_mode: str | None = None, mode: str = "avg", output_height: int = 1,
    output_width: int = 1, sampling_ratio: int = 0, spatial_scale: float = 1.0,
) -> Any:  # fmt: skip
    """Means or maxima of regions, read between places."""
    half = (coordinate_transformation_mode or ("half_pixel" if call.version >= 16 else "output_half_pixel")) == "half_pixel"
    if sampling_ratio < 1:
        raise UsageError("RoiAlign with sampling_ratio 0: how many places are read would hang on data")
    sizes, outs = x.shape[2:], (output_height, output_width)
    shift = 0.5 if half else 0.0
    corners = rois * spatial_scale - shift  # x1, y1, x2, y2
    low, high = (corners[:, 1], corners[:, 0]), (corners[:, 3], corners[:, 2])
    at = []
    for d in range(2):
        extent = high[d] - low[d] if half else xp.maximum(high[d] - low[d], 1.0)
        part = (extent / outs[d]).reshape((-1, 1, 1))
        inner = ((along(sampling_ratio, 3, 2) + 0.5) / sampling_ratio).astype(type_of(x))
        at.append(low[d].reshape((-1, 1, 1)) + (along(outs[d], 3, 1) + inner) * part)
    p = [at[0].unsqueeze(2).unsqueeze(4), at[1].unsqueeze(1).unsqueeze(3)]  # (regions, out, out, samples, samples)
    valid = (p[0] >= -1) & (p[0] <= sizes[0]) & (p[1] >= -1) & (p[1] <= sizes[1])
    p = [q.clip(0, n - 1) for q, n in zip(p, sizes)]
    image = x.permute((0, 2, 3, 1))
    batch = batches.reshape((-1, 1, 1, 1, 1)).astype("int64")
    found = []
    for corner in ((0, 0), (0, 1), (1, 0), (1, 1)):
        key, weight = [batch], None
        for d in range(2):
            base = p[d].floor()
            share = p[d] - base
            w = share if corner[d] else 1 - share
            weight = w if weight is None else weight * w
            key.append((base + corner[d]).clip(0, sizes[d] - 1).astype("int64"))
        assert weight is not None
        found.append(xp.where(valid, weight, 0).unsqueeze(-1) * image[tuple(key)])
    if mode == "max":
        best = xp.maximum(xp.maximum(found[0], found[1]), xp.maximum(found[2], found[3]))
        y = best.max(axis=(3, 4))
    else:
        y = (found[0] + found[1] + found[2] + found[3]).mean(axis=(3, 4))
    return y.permute((0, 3, 1, 2))
