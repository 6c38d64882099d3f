"""Fourier transforms, by NumPy's pocketfft on the host, in the precision of their argument."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...ir.errors import DTypeError, UsageError
from ..graph.nodes import TensorNode
from ..graph.primitives import cast
from ..graph.promotion import default_float
from .complex_numbers import COMPLEX, RULES, ComplexParts, computed
from .joining import roll
from .movement import dims

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def _operand(name: str, x: Any) -> Any:
    """The argument in a type that transforms have. Raises DTypeError for complex numbers where a transform is of real ones."""
    if isinstance(x, ComplexParts):
        if name.startswith(("rfft", "ihfft")):
            raise DTypeError(f"{name} of complex numbers: it transforms real ones; use fft or ifft")
        return x
    return x if x.dtype in COMPLEX else cast(x, default_float())


def _made(name: str, x: Any, axes: Sequence[int], sizes: Sequence[int | None], norm: str) -> Any:
    """A transform along `axes`, to `sizes` (None: those that follow from the argument's)."""
    import numpy as np

    x = _operand(name, x)
    if norm not in ("backward", "ortho", "forward"):
        raise UsageError(f"{name}: norm is 'backward', 'ortho' or 'forward', not {norm!r}")
    shape = list(x.shape)
    halved, doubled = name.startswith(("rfft", "ihfft")), name.startswith(("irfft", "hfft"))
    for i, (axis, n) in enumerate(zip(axes, sizes, strict=True)):
        last = i == len(axes) - 1
        length = n if n is not None else 2 * (shape[axis] - 1) if last and doubled else shape[axis]
        if length < 1 or shape[axis] < 1:
            raise UsageError(f"{name} of {list(x.shape)} to {length} elements along axis {axis}: at least one is needed")
        shape[axis] = length // 2 + 1 if last and halved else length
    function = getattr(np.fft, name)

    def call(array: Array) -> Any:
        if name.endswith("n"):
            given = (
                None if all(n is None for n in sizes) else [array.shape[a] if n is None else n for a, n in zip(axes, sizes, strict=True)]
            )
            return function(array, given, tuple(axes), norm)
        return function(array, sizes[0], axes[0], norm)

    kind = "r" if doubled else "c"
    return computed(name, call, [x], [tuple(shape)], kind, (tuple(axes), tuple(sizes), norm))[0]


def _along_one(name: str, words: str) -> Callable[..., Any]:
    def transform(x: TensorNode, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
        (d,) = dims(x, axis, name)
        return _made(name, x, [d], [n], norm)

    return _named(transform, name, words)


def _along_several(name: str, words: str) -> Callable[..., Any]:
    def transform(x: TensorNode, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward") -> Any:
        if axes is None:
            axes = range(len(x.shape)) if s is None else range(len(x.shape) - len(s), len(x.shape))
        over = [dims(x, a, name)[0] for a in axes]
        if s is not None and len(s) != len(over):
            raise UsageError(f"{name}: {len(s)} sizes for {len(over)} axes")
        return _made(name, x, over, list(s) if s is not None else [None] * len(over), norm)

    return _named(transform, name, words)


def _named(transform: Callable[..., Any], name: str, words: str) -> Callable[..., Any]:
    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = f"{words} `norm`: which way is divided by the number of elements, or both by its root."
    RULES[transform] = transform
    return transform


fft = _along_one("fft", "The Fourier transform along a dimension, cut or padded with zeros to `n` elements.")
ifft = _along_one("ifft", "The inverse of `fft`.")
rfft = _along_one("rfft", "The first n // 2 + 1 elements of the transform of real numbers.")
irfft = _along_one("irfft", "The inverse of `rfft`: `n` real numbers (2(m − 1) of m without n).")
hfft = _along_one("hfft", "The real transform of numbers with Hermitian symmetry.")
ihfft = _along_one("ihfft", "The inverse of `hfft`.")
fftn = _along_several("fftn", "The Fourier transform along several dimensions, to the sizes `s`.")
ifftn = _along_several("ifftn", "The inverse of `fftn`.")
rfftn = _along_several("rfftn", "`rfft` along the last of several dimensions, `fft` along the others.")
irfftn = _along_several("irfftn", "The inverse of `rfftn`.")


def fftshift(x: TensorNode, /, *, axes: int | Sequence[int] | None = None) -> Any:
    """The element of frequency 0 in the middle."""
    over = dims(x, axes, "fftshift")
    return roll(x, [x.shape[d] // 2 for d in over], axis=over)


def ifftshift(x: TensorNode, /, *, axes: int | Sequence[int] | None = None) -> Any:
    """The inverse of `fftshift`."""
    over = dims(x, axes, "ifftshift")
    return roll(x, [-(x.shape[d] // 2) for d in over], axis=over)


def _shifted(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda z, **options: ComplexParts(function(z.re, **options), function(z.im, **options))


RULES[fftshift], RULES[ifftshift] = _shifted(fftshift), _shifted(ifftshift)
