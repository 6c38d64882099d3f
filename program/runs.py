"""A mask that is known lane by lane, as plain accesses: each run of lanes that are on, cut into powers of two."""

from __future__ import annotations

from collections.abc import Sequence

MOST = 3
"""Plain accesses that are as quick as one under a mask in a vector."""


def pieces(on: Sequence[bool]) -> list[tuple[int, int]]:
    """(first lane, lanes) of each piece, in order, the largest of a run first: seven lanes are 4, 2 and 1."""
    out, lane = [], 0
    while lane < len(on):
        length = 0
        while lane + length < len(on) and on[lane + length]:
            length += 1
        while length:
            size = 1 << length.bit_length() - 1
            out.append((lane, size))
            lane, length = lane + size, length - size
        lane += 1
    return out


def in_pieces(on: Sequence[bool], size: int, features: frozenset[str], store: bool) -> bool:
    """Whether an access of elements of `size` bytes under a known mask is one of pieces. Where masks have no registers of their own,
    a store under a mask is slow on many processors, nothing that follows can take its elements before they are in the cache, and
    elements below 32 bits have no such instruction at all."""
    parts = len(pieces(on))
    if parts <= 1 or "avx512" in features:
        return parts <= 1
    return "avx2" not in features or size < 4 or (store and parts <= MOST)
