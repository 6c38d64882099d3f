"""Fourier transforms and windows of signals. Complex numbers are pairs along the last axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....tensor import Tensor
from ..element_types import NUMPY, Array
from .table import Call, number, on_host, operator, type_of, wide


def _transformed(x: Any, n: int, axis: int, inverse: bool, onesided: bool) -> Any:
    """A transform of length n along an axis, by NumPy."""
    paired = x.shape[-1] == 2
    columns = n // 2 + 1 if onesided and not inverse else n
    shape = [columns if d == axis % x.ndim else m for d, m in enumerate(x.shape[:-1])]
    parts = 1 if inverse and onesided else 2

    def transform(a: Array) -> Array:
        values = a[..., 0] + 1j * a[..., 1] if paired else a[..., 0]
        if inverse:
            found: Any = np.fft.irfft(values, n, axis) if onesided else np.fft.ifft(values, n, axis)
        else:
            found = np.fft.rfft(values.real, n, axis) if onesided else np.fft.fft(values, n, axis)
        return np.stack([found] if parts == 1 else [found.real, found.imag], -1)

    options = (n, axis, inverse, onesided, paired)
    return on_host("fft", transform, [wide(x)], (*shape, parts), type_of(wide(x)), *options).astype(type_of(x))


@operator("DFT", known=(1, 2))
def dft(
    call: Call, x: Any, length: Array | None = None, given: Array | None = None, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Any:
    """A discrete Fourier transform along an axis."""
    at = int(number(given)) if given is not None else axis if call.version < 20 else -2
    at = at % x.ndim
    n = int(number(length)) if length is not None else 2 * (x.shape[at] - 1) if inverse and onesided else x.shape[at]
    return _transformed(x, n, at, bool(inverse), bool(onesided))


@operator("STFT", known=(1, 3))
def stft(call: Call, x: Any, step: Array, window: Any = None, length: Array | None = None, onesided: int = 1) -> Any:
    """Transforms of windows that lie a step apart."""
    n = int(number(length)) if length is not None else window.shape[0]
    places = np.arange(0, x.shape[1] - n + 1, int(number(step)))[:, None] + np.arange(n)
    frames = (x if x.ndim == 3 else x.unsqueeze(-1)).take(Tensor(places), axis=1)
    return _transformed(frames if window is None else frames * window.reshape((n, 1)), n, 2, False, bool(onesided))


def _cosines(size: int, periodic: int, terms: tuple[float, ...]) -> Array:
    n = size if periodic else size - 1
    angle = 2 * np.pi * np.arange(size) / max(n, 1)
    return np.asarray(sum(a * np.cos(k * angle) for k, a in enumerate(terms)))


WINDOWS = {
    "HannWindow": (0.5, -0.5),
    "HammingWindow": (25 / 46, -21 / 46),
    "BlackmanWindow": (0.42, -0.5, 0.08),
}


@operator(*WINDOWS, known=(0,))
def window(call: Call, size: Array, output_datatype: int = 1, periodic: int = 1) -> Any:
    """A window of cosines."""
    return _cosines(int(number(size)), periodic, WINDOWS[call.kind]).astype(NUMPY[output_datatype])


@operator("MelWeightMatrix", known=(0, 1, 2, 3, 4))
def mel_weights(call: Call, bins: Array, length: Array, rate: Array, low: Array, high: Array, output_datatype: int = 1) -> Any:
    """Triangles that are evenly spaced on the mel scale."""
    count, spectrum = int(number(bins)), int(number(length)) // 2 + 1
    first, last = (2595 * np.log10(1 + float(number(f)) / 700) for f in (low, high))
    edges = first + (last - first) / (count + 2) * np.arange(count + 2)
    places = np.floor((int(number(length)) + 1) * 700 * (10 ** (edges / 2595) - 1) / int(number(rate))).astype(int)
    made = np.zeros((spectrum, count))
    for i in range(count):
        left, middle, right = places[i : i + 3]
        if middle == left:
            made[middle, i] = 1
        for j in range(left, middle + 1):
            if middle != left:
                made[j, i] = (j - left) / (middle - left)
        for j in range(middle, right):
            made[j, i] = (right - j) / (right - middle)
    return made.astype(NUMPY[output_datatype])
