"""Which buffers are taken to be in memory, and not in a cache."""

from __future__ import annotations

from math import prod

from ...ir import index as ix
from ...ir.node import Node
from ...targets import Target

FAR_CACHES = 4
"""Buffers of more than so many second-level caches are taken to be in memory: the last cache is shared, and seldom all ours."""


def buffer_bytes(shape: tuple[int | Node, ...], size: int) -> int:
    """The bytes of a buffer of elements of `size` bytes; symbolic extents count with their upper bounds, and with 1 at least."""
    return size * prod(n if isinstance(n, int) else max(1, ix.bounds(n)[1]) for n in shape)


def is_far(target: Target, shape: tuple[int | Node, ...], size: int) -> bool:
    """Whether a buffer of elements of `size` bytes is taken to be in memory."""
    return buffer_bytes(shape, size) > FAR_CACHES * target.l2
