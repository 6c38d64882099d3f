"""The extension for Fourier transforms. They are computed by NumPy's own code on the host."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor
from ..tensor.graph.promotion import default_float, dtype_of
from ..tensor.lift import all_lifted as _all
from ..tensor.ops import fft as _F

fft, ifft, fftn, ifftn = _all(_F.fft, _F.ifft, _F.fftn, _F.ifftn)
rfft, irfft, rfftn, irfftn = _all(_F.rfft, _F.irfft, _F.rfftn, _F.irfftn)
hfft, ihfft, fftshift, ifftshift = _all(_F.hfft, _F.ihfft, _F.fftshift, _F.ifftshift)


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: str | None = None) -> Tensor:
    """The frequencies of `fft` of n samples at distances d."""
    import numpy as np

    return Tensor(np.fft.fftfreq(n, d), dtype_of(dtype) if dtype is not None else default_float(), device or "cpu")


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: str | None = None) -> Tensor:
    """The frequencies of `rfft` of n samples at distances d."""
    import numpy as np

    return Tensor(np.fft.rfftfreq(n, d), dtype_of(dtype) if dtype is not None else default_float(), device or "cpu")


__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft", "rfftfreq", "rfftn",
]  # fmt: skip
