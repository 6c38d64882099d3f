"""Random numbers by counter: the bits of element i of draw n are a function of (seed, n, i) alone, so they are the same under
every schedule and device, they fuse with what uses them, and a backward pass makes them again.

Threefry-2×32 with 20 rounds, of J. Salmon, M. Moraes, R. Dror and D. Shaw, "Parallel random numbers: as easy as 1, 2, 3"
(SC 2011); the key is (seed, draw), the counter (element, 0)."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2, pi
from typing import TypeAlias

from ...ir.dtypes import DTypeLike, float32, float64, int64, uint32, uint64
from ...ir.errors import UsageError
from ..graph.index_maps import Shape
from ..graph.nodes import TensorNode, constant_of, make
from ..graph.primitives import cast, const, expand, iota, reshape, rounded
from ..graph.promotion import dtype_of
from ..graph.symbolic_sizes import SymbolicSize
from ..running.current_capture import current
from .creation import shape_of
from .elementwise import choose, cos, like, log, sqrt
from .movement import part
from .sorting import argsort

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
"""Skein's key-schedule constant for 32-bit words."""

Key: TypeAlias = "Sequence[int | TensorNode] | TensorNode"
"""(seed, number of the draw), each a whole number or an integer tensor of one element, taken modulo 2³²; or both in a tensor."""


def threefry(key: tuple[TensorNode, TensorNode], counter: tuple[TensorNode, TensorNode], rounds: int = 20) -> tuple[TensorNode, TensorNode]:
    """Two uint32 words of random bits for each counter (nodes of uint32, all of one shape)."""
    k0, k1 = key
    schedule = (k0, k1, _parity(k0, k1))
    x0, x1 = counter[0] + k0, counter[1] + k1
    for i in range(rounds):
        r = ROTATIONS[(i // 4) % 2][i % 4]
        x0 = x0 + x1
        x1 = _rotated(x1, r) ^ x0
        if i % 4 == 3:
            n = i // 4 + 1
            x0 = x0 + schedule[n % 3]
            x1 = x1 + schedule[(n + 1) % 3] + n
    return x0, x1


def _parity(k0: TensorNode, k1: TensorNode) -> TensorNode:
    """The third word of the key schedule; of a key that is known, a number."""
    a, b = constant_of(k0), constant_of(k1)
    if a is not None and b is not None:
        return like(k0, int(a) ^ int(b) ^ PARITY)
    return k0 ^ k1 ^ PARITY


def _rotated(x: TensorNode, by: int) -> TensorNode:
    return x << by | x >> 32 - by


def bits(shape: int | Sequence[int], key: Key) -> tuple[TensorNode, TensorNode]:
    """Two uint32 words for each element of a shape."""
    to = shape_of(shape, "random")
    size = const(1, int64, to).count
    at = reshape(iota(size), to)
    low = cast(at % (1 << 32), uint32) if size > 1 << 32 else cast(at, uint32)
    high = cast(at // (1 << 32), uint32) if size > 1 << 32 else const(0, uint32, to)
    return threefry(_words(key, to), (low, high))


def _words(key: Key, shape: Shape) -> tuple[TensorNode, TensorNode]:
    """The words of a key, of a shape. Raises UsageError for what is no key."""
    if isinstance(key, TensorNode):
        if key.shape != (2,):
            raise UsageError(f"a random key of shape {list(key.shape)}: a key is a seed and the number of a draw")
        key = [part(key, 0, i, 1) for i in (0, 1)]
    if not isinstance(key, (tuple, list)) or len(key) != 2:
        raise UsageError(f"a random key {key!r}: a key is a seed and the number of a draw")
    return _word(key[0], 0, shape), _word(key[1], 1, shape)


def _word(k: int | TensorNode, place: int, shape: Shape) -> TensorNode:
    """A whole number modulo 2³². Outside of captured functions, which see for themselves what changes from call to call, kernels
    get it as a parameter: they are the same for all keys."""
    if isinstance(k, TensorNode):
        if not k.dtype.is_int or k.count != 1:
            raise UsageError(f"a random key of {k.dtype}{list(k.shape)}: give whole numbers, or integer tensors of one element")
        return expand(cast(reshape(k, ()), uint32), shape)
    if isinstance(k, bool) or not isinstance(k, (int, SymbolicSize)):
        raise UsageError(f"a random key of {k!r}: give whole numbers, or integer tensors of one element")
    word = k % (1 << 32)
    return const(word, uint32, shape) if current() is not None else expand(make("given", (), (place, word), (), uint32), shape)


def uniform(shape: int | Sequence[int], key: Key, *, low: float = 0.0, high: float = 1.0, dtype: DTypeLike = float32) -> TensorNode:
    """Uniformly distributed numbers of [low, high): of 53 random bits for float64, of 24 for float32, and of as many as a narrower type has
    digits. What rounding would make `high` is `low`. Raises UsageError for an integer type."""
    kind = dtype_of(dtype)
    if not kind.is_float:
        raise UsageError(f"uniform numbers of {kind}: use a float type, or randint")
    x0, x1 = bits(shape, key)
    out = unit(x0, x1) if kind is float64 else unit_single(x0, round(1 - log2(kind.eps)))
    if (low, high) != (0.0, 1.0):
        out = rounded(out * (high - low) + low, kind)
        out = choose(out.ne(high), out, low)
    return rounded(out, kind)


def unit_single(word: TensorNode, digits: int = 24) -> TensorNode:
    """A word as a float32 of [0, 1), of as many random bits."""
    return cast(word >> 32 - digits, float32) * 2.0 ** (-digits)


def unit(x0: TensorNode, x1: TensorNode) -> TensorNode:
    """Two words as a float64 of [0, 1)."""
    high = cast(x0 >> 5, float64)
    low = cast(x1 >> 6, float64)
    return (high * 2.0**26 + low) * 2.0 ** (-53)


def normal(shape: int | Sequence[int], key: Key, *, mean: float = 0.0, std: float = 1.0, dtype: DTypeLike = float32) -> TensorNode:
    """Normally distributed numbers of a float type, by G. Box and M. Muller, "A note on the generation of random normal deviates" (1958)."""
    kind = dtype_of(dtype)
    if not kind.is_float:
        raise UsageError(f"normal numbers of {kind}: use a float type")
    x0, x1 = bits(shape, key)
    if kind is float64:
        radius_of, angle_of, least = unit(x0, x1), unit(*_again(x0, x1)), 2.0**-54
    else:
        radius_of, angle_of, least = unit_single(x0), unit_single(x1), 2.0**-25
    # (0, 1), so that the logarithm is finite
    radius_of = radius_of + least
    radius = sqrt(log(radius_of) * -2.0)
    out = radius * cos(angle_of * (2 * pi))
    if std != 1.0:
        out = out * std
    if mean != 0.0:
        out = out + mean
    return rounded(out, kind)


def _again(x0: TensorNode, x1: TensorNode) -> tuple[TensorNode, TensorNode]:
    """Two more words."""
    return threefry((x0, x1), (like(x0, 1), like(x0, 0)))


def randint(shape: int | Sequence[int], low: int, high: int, key: Key, *, dtype: DTypeLike = int64) -> TensorNode:
    """Integers of [low, high): 64 random bits modulo the range, so the bias is below range / 2⁶⁴. Raises UsageError."""
    kind = dtype_of(dtype)
    if not kind.is_int or not low < high or low < kind.limits[0] or high - 1 > kind.limits[1]:
        raise UsageError(f"randint of [{low}, {high}) as {kind}: an integer type that has these numbers and low < high are needed")
    x0, x1 = bits(shape, key)
    wide = cast(x0, uint64) << const(32, uint64, x0.shape) | cast(x1, uint64)
    rest = wide % (high - low) if high - low < 1 << 64 else wide
    # sums of unsigned numbers wrap, so a negative `low` is right as well
    return cast(rest + low % (1 << 64), kind)


def bernoulli(shape: int | Sequence[int], p: float, key: Key) -> TensorNode:
    """Bools of a shape, each true with probability p."""
    x = unit_single(bits(shape, key)[0])
    return x < p


def permutation(n: int, key: Key) -> TensorNode:
    """0 … n − 1 in random order: the order of n random words (sorted by NumPy)."""

    x0, x1 = bits((n,), key)
    wide = cast(x0, uint64) << const(32, uint64, x0.shape) | cast(x1, uint64)
    return argsort(wide)


def dropout(x: TensorNode, p: float, key: Key) -> TensorNode:
    """`x` with each element 0 with probability p, and divided by 1 − p otherwise. Raises UsageError for p outside of [0, 1]."""
    if not 0 <= p <= 1:
        raise UsageError(f"dropout with probability {p}: it lies in [0, 1]")
    if p in (0, 1):
        return x if p == 0 else like(x, 0.0)
    return choose(bernoulli(x.shape, 1 - p, key), x * (1 / (1 - p)), 0.0)
