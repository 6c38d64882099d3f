"""What the examples must compute, for `tune source --check`."""

from __future__ import annotations

from typing import Any

import numpy as np


def vector_add(a: Any, b: Any) -> Any:
    """The sum of two vectors."""
    return a + b


def convolution(image: Any, taps: Any) -> Any:
    """A correlation of an image of 258 x 516 with 3 x 5 taps, in float64."""
    windows = np.lib.stride_tricks.sliding_window_view(image.astype(np.float64).reshape(258, 516), (3, 5))
    return (windows * taps.reshape(3, 5)).sum((2, 3)).ravel()


def matmul(a: Any, b: Any) -> Any:
    """A product of two matrices of 256 x 256, in float64."""
    x, y = (m.astype(np.float64).reshape(256, 256) for m in (a, b))
    return (x @ y).ravel()


def stencil(x: Any) -> Any:
    """The means of 3 x 3 neighbours in 512 x 1024 elements, in float64; the border stays."""
    of = x.astype(np.float64).reshape(512, 1024)
    out = of.copy()
    out[1:-1, 1:-1] = np.lib.stride_tricks.sliding_window_view(of, (3, 3)).mean((2, 3))
    return out.ravel()
