"""Cases of golden bits (`golden_bits`) of Hopper's wgmma: one instruction, with A in registers or in shared memory, and B along k or, of
16-bit types, across it. Tiles come to shared memory by ordinary stores, swizzled as TMA would have them."""

from __future__ import annotations

import numpy as np

from ...interp.collective import fragments, tiles
from ...ir.dtypes import DType
from ...program import hopper_calls as hc
from ...program.builder import Builder
from ...program.hopper import WARPGROUP, SharedOperand, WarpgroupProduct
from ...program.program import Mem, Phase, Val
from ...targets import wgmma_rows
from ...targets.tensor_rows import TensorRow
from .cases import KINDS, BitCase, held, hold, numbers

_N, _EACH = 16, 1
"""Columns, and tiles of each kind of numbers."""
_LINE, _CHUNK = 128, 16
_A_BYTES = wgmma_rows.ROWS_OF_M * _LINE
_SHARED = 49 << 10
"""More than may be declared: so it is given at launch, and starts at a multiple of 1024, as descriptors want it."""


def cases() -> list[BitCase]:
    """A case of each kind of wgmma, and of each way in which its operands lie."""
    out = []
    for suffix in wgmma_rows.SUFFIXES:
        row = wgmma_rows.row(suffix, _N)
        out += [_of(row, registers, False) for registers in (False, True)]
        out += [_of(row, False, True)] if row.a.size == 2 else []
    return out


def _of(row: TensorRow, registers: bool, across: bool) -> BitCase:
    rng, count = np.random.default_rng(len(row.name)), _EACH * len(KINDS)
    shapes = {"a": (row.m, row.k), "b": (row.n, row.k)}
    a, b = (np.concatenate([numbers(rng, t, kind, (_EACH, *shapes[x])) for kind in KINDS]) for x, t in (("a", row.a), ("b", row.b)))
    start = np.concatenate([numbers(rng, row.c, kind, (_EACH * WARPGROUP, row.elements("c"))) for kind in KINDS])
    turned = np.swapaxes(b, 1, 2)
    want = fragments(row, "c", row.step(tiles(row, "c", start, count * WARPGROUP), a, turned, "hopper"))
    given = (fragments(row, "a", a) if registers else a, np.ascontiguousarray(turned) if across else b, start)
    product = WarpgroupProduct(
        row.name, SharedOperand(_A_BYTES, row.b, 1024, 1024 if across else 16, across), None if registers else SharedOperand(0, row.a)
    )

    def write(builder: Builder, phase: Phase, first: int, map_: int) -> None:
        zero = builder.const(0)
        if not registers:
            _fill(builder, phase, first, 0, row.a, (row.m, row.k))
        _fill(builder, phase, first + 1, _A_BYTES, row.b, (row.k, row.n) if across else (row.n, row.k))
        hc.proxy_fence(builder)
        builder.barrier()
        acc = held(builder, phase, first + 2, row.c, row.elements("c"))
        mine = held(builder, phase, first, row.a, row.elements("a")) if registers else zero
        hc.fence(builder)
        out = hc.product(builder, product, acc, mine, zero)
        hc.commit(builder)
        hc.finish(builder)
        hold(builder, phase, first + 3, hc.result(builder, out))

    name = f"{row.name} A in {'registers' if registers else 'shared'}, B {'across' if across else 'along'} k"
    return BitCase(name, count, (row.a, row.b, row.c, row.c), given, want, write, WARPGROUP, _SHARED)


def _fill(b: Builder, phase: Phase, param: int, base: int, t: DType, shape: tuple[int, int]) -> None:
    """The group's tile of a parameter, rows of `shape`, goes to rows of 128 bytes: chunk c of row r lies at c XOR r % 8."""
    rows, width = shape
    chunk, chunks = _CHUNK // t.size, width * t.size // _CHUNK
    assert phase.thread is not None and rows * chunks <= WARPGROUP
    row, at = b.op("idiv", phase.thread, attr=chunks), b.op("imod", phase.thread, attr=chunks)
    with b.when(b.op("lt", phase.thread, b.const(rows * chunks))):
        source = b.op("mul", b.op("add", b.op("mul", phase.item, b.const(rows * chunks)), phase.thread), b.const(chunk))
        value = b.load(Mem("param", param, t, 0, _CHUNK), source, chunk)
        place: Val = b.op("xor", at, b.op("imod", row, attr=8))
        to = b.op("add", b.op("mul", row, b.const(_LINE // t.size)), b.op("mul", place, b.const(chunk)))
        b.store(Mem("shared", base, t, 0, _CHUNK), to, value)
