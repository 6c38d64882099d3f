"""Bank conflicts are counted from addresses: of hand-written accesses, and of the tiles that schedules make."""

from __future__ import annotations

import numpy as np
import pytest
from bank_conflicts import bank_uses, worst
from group_programs import program, shared
from tilewright import named_kernels, targets
from tilewright.ir.dtypes import float32
from tilewright.lower import lower
from tilewright.opts import apply, opt
from tilewright.program.program import Instr


def degree(stride: int, lanes: int = 1, mask: int = 0) -> int | None:
    """Of 32 threads that read `lanes` elements, `stride` apart; by XOR with a part of the thread's number where there is a mask."""

    def body(b, p):
        at = b.op("mul", p.thread, b.const(stride))
        if mask:
            at = b.op("xor", at, b.op("imod", p.thread, attr=mask))
        b.load(shared(0, align=4 * lanes), at, lanes)

    (use,) = bank_uses(program(body, [(float32, 1)], [(float32, 1)], 1, 32, shared=1 << 14))
    assert use.instr.op == "load"
    return use.degree


@pytest.mark.parametrize(
    ("stride", "lanes", "passes"),
    [
        (0, 1, 1),
        (1, 1, 1),
        (2, 1, 2),
        (3, 1, 1),
        (8, 1, 8),
        (32, 1, 32),
        (33, 1, 1),
        (4, 4, 1),
        (8, 4, 2),
        (32, 4, 8),
        (36, 4, 1),
        (2, 2, 1),
    ],
)
def test_strides(stride: int, lanes: int, passes: int) -> None:
    words = np.arange(32)[:, None] * stride + np.arange(lanes)
    share = 32 // lanes
    counted = max(np.bincount(np.unique(words[i : i + share]) % 32).max() for i in range(0, 32, share))
    assert degree(stride, lanes) == passes == counted


def test_a_swizzle_spreads_a_column() -> None:
    assert degree(32) == 32 and degree(32, mask=8) == 4 and degree(32, mask=32) == 1


def test_unknown_addresses_are_said_to_be_unknown() -> None:
    def body(b, p):
        v = b.load(shared(0), b.op("cast", b.load(shared(4096), p.thread), dtype=p.thread.dtype))
        b.store(shared(8192), p.thread, v)

    found = bank_uses(program(body, [(float32, 1)], [(float32, 1)], 1, 32, shared=1 << 14))
    assert [u.degree for u in found] == [1, None, 1]


def tiled(dtype: str, block: int, depth: int, **tall: int | str) -> dict[str, int]:
    """The worst degree of each operation in a matmul of 256 threads of 8 × 8 results."""
    kernel = named_kernels.make("matmul", {"m": 256, "n": 256, "k": 256}, dtype)
    cuts = [opt("LOCAL", "m", 16), opt("UPCAST", "m", 8), opt("LOCAL", "n", 16), opt("UPCAST", "n", 8), opt("TILE", "k", block)]
    stages = [opt("STAGE", "a", at="k", depth=depth, **tall), opt("STAGE", "b", at="k", depth=depth)]
    out: dict[str, int] = {}
    p = lower(apply(kernel, [*cuts, opt("UNROLL", "k", 4), *stages], targets.named("sm_90a")))
    for use in bank_uses(p):
        assert isinstance(use.instr, Instr) and use.degree is not None
        out[use.instr.op] = max(out.get(use.instr.op, 1), use.degree)
    assert worst(p) == max(out.values())
    return out


@pytest.mark.parametrize(
    ("dtype", "block", "depth"), [("float32", 16, 1), ("float32", 32, 1), ("float16", 16, 1), ("float16", 32, 2), ("float32", 32, 3)]
)
def test_turned_panels_that_are_swizzled_do_not_conflict(dtype: str, block: int, depth: int) -> None:
    assert set(tiled(dtype, block, depth, swizzle=8).values()) == {1}


def test_matrices_of_short_rows_do_not_conflict() -> None:
    kernel = named_kernels.make("matmul", {"m": 64, "n": 64, "k": 64}, "bfloat16")
    cuts = [opt("LOCAL", "m", 2), opt("LOCAL", "n", 2), opt("UPCAST", "m", 32), opt("UPCAST", "n", 32), opt("TILE", "k", 32)]
    row = opt("TC", "acc", m="m", n="n", k="k", row="mma.m16n8k16.bf16")
    stages = [opt("STAGE", x, at="k", order="row", depth=2, swizzle=w) for x, w in (("a", 4), ("b", 8))]
    p = lower(apply(kernel, [row, *cuts, *stages], targets.named("sm_80")))
    assert {u.instr.op for u in bank_uses(p)} == {"ldmatrix", "ldmatrix_t", "copy_async"}
    assert worst(p) == 1


def test_padding_alone_leaves_conflicts() -> None:
    assert tiled("float32", 32, 1, pad=4)["store"] == 4
    assert tiled("float32", 32, 2, pad=4)["copy_async"] == 1, "single elements are dealt in blocks"
