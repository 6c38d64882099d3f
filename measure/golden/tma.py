"""Cases of golden bits (`golden_bits`) of Hopper's copy engine (TMA): a box of a ragged array goes to shared memory in each swizzle; what
lies outside the array is zero. The bytes come out as they lie there."""

from __future__ import annotations

import numpy as np

from ...ir.dtypes import uint16
from ...program import hopper_calls as hc
from ...program.builder import Builder
from ...program.hopper import BoxLoad, MBar
from ...program.maps import SWIZZLES, TensorMap, swizzled
from ...program.program import Mem, Phase
from .cases import BitCase, hold

_ROWS = 16
_ARRAY = (24, 88)
"""Rows and columns of the array: boxes at (8 · group, 24 · group) leave it on both sides. Its rows are a multiple of 16 bytes."""
_STEP = (8, 24)
_GROUPS = 4
_PLAIN = 64
"""Bytes of a row of the box that is not swizzled."""


def cases() -> list[BitCase]:
    """A case of each swizzle."""
    return [_of(s) for s in SWIZZLES]


def _of(swizzle: int) -> BitCase:
    wide = (swizzle or _PLAIN) // uint16.size
    array = np.random.default_rng(swizzle).integers(1, 2**16, _ARRAY, np.uint64).astype(np.uint16)
    padded = np.pad(array, ((0, _GROUPS * _STEP[0] + _ROWS), (0, _GROUPS * _STEP[1] + wide)))
    want = np.zeros((_GROUPS, _ROWS * wide), np.uint16)
    places = np.array([swizzled(uint16.size * i, swizzle) // uint16.size for i in range(_ROWS * wide)])
    for g in range(_GROUPS):
        top, left = g * _STEP[0], g * _STEP[1]
        want[g, places] = padded[top : top + _ROWS, left : left + wide].ravel()
    lanes = _ROWS * wide // 32
    size = uint16.size * _ROWS * wide
    box = TensorMap(0, uint16, (_ARRAY[1], _ARRAY[0]), (_ARRAY[1],), (wide, _ROWS), swizzle)
    bar = MBar(size, 1, 1)

    def write(b: Builder, phase: Phase, first: int, map_: int) -> None:
        assert phase.thread is not None
        zero = b.const(0)
        one = b.op("eq", phase.thread, zero)
        with b.when(one):
            hc.init(b, bar)
        b.barrier()
        with b.when(one):
            hc.expect(b, bar, zero, b.const(size))
            at = [b.op("mul", phase.item, b.const(_STEP[1])), b.op("mul", phase.item, b.const(_STEP[0]))]
            hc.load(b, BoxLoad(map_, 0, bar), zero, zero, at)
        hc.wait(b, bar, zero, zero)
        mine = b.load(Mem("shared", 0, uint16, 0, uint16.size), b.op("mul", phase.thread, b.const(lanes)), lanes)
        hold(b, phase, first + 1, mine)

    name = f"tma box {_ROWS}x{wide} swizzle {swizzle}"
    return BitCase(name, _GROUPS, (uint16, uint16), (array,), want.reshape(-1, lanes), write, shared=size + 8, maps=(box,))
