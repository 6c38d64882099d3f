"""Tensor cores in the interpreter: fragments, arithmetic, `ldmatrix`, and every way to go wrong that it can see."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from group_programs import param, program, shared
from tensor_programs import Tile, matmul, operands, product
from tilewright.interp import run
from tilewright.interp.tensor_core_units import fragments, tiles
from tilewright.ir.dtypes import float32, int32, uint8, uint16
from tilewright.ir.errors import InternalError, VerifyError
from tilewright.lower.passes.barriers import place
from tilewright.program import hopper_calls as hc
from tilewright.program.program import Instr, Program, statements
from tilewright.program.verify import verify
from tilewright.targets import tensor_rows

TILES = [
    Tile("mma.m16n8k16.bf16"), Tile("mma.m16n8k16.bf16", turned=True), Tile("mma.m16n8k16.f16", across=2, down=1, wide=2, swizzle=False),
    Tile("mma.m16n8k16.f16.f16"), Tile("mma.m16n8k8.tf32", turned=True, deep=16), Tile("mma.m16n8k32.s8", turned=True, deep=64),
    Tile("mma.m16n8k32.u8", turned=True, deep=64), Tile("mma.m16n8k32.u8.s8", turned=True), Tile("mma.m16n8k32.e4m3", turned=True, deep=64),
    Tile("mma.m16n8k32.e5m2", turned=True, deep=64, generation="ada"), Tile("mma.m16n8k16.bf16", m=32, n=8, down=1, wide=1, k=16, deep=16),
]  # fmt: skip
EACH = pytest.mark.parametrize("tile", TILES, ids=lambda t: f"{t.row}-{'turned' if t.turned else 'straight'}-{t.k}")


@pytest.mark.many
@EACH
def test_a_matmul_of_small_whole_numbers_is_exact(tile: Tile) -> None:
    p = matmul(tile)
    verify(p)
    arrays = operands(tile, np.random.default_rng(3))
    run(p, arrays)
    assert (np.asarray(arrays[2], np.float64) == product(tile, arrays)).all() and arrays[2].any()


@pytest.mark.many
@pytest.mark.parametrize("generation", ["ampere", "ada", "hopper"])
def test_sums_have_the_bits_of_their_generation(generation: str) -> None:
    tile = Tile("mma.m16n8k16.bf16", generation=generation)
    arrays = operands(tile, np.random.default_rng(4), "near")
    run(matmul(tile), arrays)
    want = np.zeros((tile.m, tile.n), np.float32)
    for k in range(0, tile.k, 16):
        # whole matrices as one tile: each element is a sum of its own
        want = tile.table.step(want, arrays[0][:, k : k + 16], arrays[1][k : k + 16], generation)
    assert arrays[2].tobytes() == want.tobytes()


def test_generations_differ() -> None:
    results = set()
    for generation in ("ampere", "hopper"):
        arrays = operands(tile := Tile("mma.m16n8k16.bf16", generation=generation), np.random.default_rng(4), "near")
        run(matmul(tile), arrays)
        results.add(arrays[2].tobytes())
    assert len(results) == 2


def test_the_twin_adds_products_that_wrap() -> None:
    tile, rng = Tile("mma.m16n8k16.bf16"), np.random.default_rng(5)
    a, b = (rng.integers(0, 2**32, s, np.uint64).astype(np.uint32) for s in ((tile.m, tile.k), (tile.k, tile.n)))
    c = np.zeros((tile.m, tile.n), np.uint32)
    run(matmul(tile), [a, b, c], twin=True)
    assert (c == a @ b).all()


@pytest.mark.many
@pytest.mark.parametrize("row", tensor_rows.ROWS, ids=lambda r: r.name)
def test_fragments_and_tiles_are_the_same_elements(row: Any) -> None:
    for operand in "abc":
        x = np.arange(3 * 32 * row.elements(operand)).reshape(96, -1)
        found = tiles(row, operand, x, 96)
        assert (fragments(row, operand, found) == x).all()
        for thread in (0, 5, 31, 64):
            for i, (r, c) in enumerate(tensor_rows.places(row, operand)[thread % 32]):
                assert found[thread // 32, r, c] == x[thread, i]


# ldmatrix ----------------------------------------------------------------------------------------------------------------
def matrices(words: int, dtype: Any, transposed: bool, spoil: str = "", hopper: bool = False) -> Program:
    """32 rows of 16 bytes go to shared memory; each lane names row 7·lane % 32 of them and stores what it gets. `hopper`: in a phase with
    asynchronous copies, whose memory the interpreter keeps by bytes."""
    chunk = 16 // dtype.size
    lanes = words * 4 // dtype.size

    def body(b: Any, p: Any) -> None:
        mem = shared(0, dtype=dtype, align=16)
        at = b.op("mul", p.thread, b.const(chunk))
        if hopper:
            hc.proxy_fence(b)
        if spoil != "unwritten":
            b.store(mem, at, b.load(param(0, dtype, align=16), at, chunk))
        if spoil != "race":
            b.barrier()
        named = b.op("mul", b.op("imod", b.op("mul", p.thread, b.const(7)), attr=32), b.const(chunk))
        if spoil == "own":
            named = at
        if spoil == "unaligned":
            named = b.op("add", named, b.const(chunk // 2))
        if spoil == "outside":
            named = b.op("add", named, b.const(32 * chunk))
        if spoil == "alone":
            with b.when(b.op("lt", p.thread, b.const(7))):
                b.ldmatrix(mem, named, lanes, transposed)
        got = b.ldmatrix(mem, named, lanes, transposed)
        b.store(param(1, dtype, align=dtype.size), b.op("mul", p.thread, b.const(lanes)), got)

    return program(body, [(dtype, 32 * chunk)], [(dtype, 32 * lanes)], 1, 32, shared=512)


@pytest.mark.many
@pytest.mark.parametrize("hopper", [False, True])
@pytest.mark.parametrize("words", [1, 2, 4])
@pytest.mark.parametrize(("dtype", "transposed"), [(uint16, False), (uint16, True), (uint8, False), (float32, False), (int32, False)])
@pytest.mark.covering(pairs=True)
def test_ldmatrix_deals_out_words(words: int, dtype: Any, transposed: bool, hopper: bool) -> None:
    p = matrices(words, dtype, transposed, hopper=hopper)
    verify(p)
    rows = np.random.default_rng(words).integers(0, 200, (32, 16 // dtype.size)).astype(dtype.np)
    each = 4 // dtype.size
    got = np.zeros((32, words, each), dtype.np)
    run(p, [rows.reshape(-1), got.reshape(-1)])
    for lane in range(32):
        for j in range(words):
            named = [rows[7 * (8 * j + r) % 32] for r in range(8)]
            for e in range(each):
                want = named[lane % 4 * 2 + e][lane // 4] if transposed else named[lane // 4][lane % 4 * each + e]
                assert got[lane, j, e] == want


@pytest.mark.parametrize("hopper", [False, True])
@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        ("unwritten", "is read before it is written"), ("race", "is read with no barrier since"), ("unaligned", "is not aligned to 16 bytes"),
        ("outside", r"is outside (its 256 elements|the 512 bytes)"), ("alone", r"thread 7 does not come to ldmatrix, to which others of its 32 threads come"),
    ],
)  # fmt: skip
@pytest.mark.covering
def test_what_ldmatrix_may_not_do(spoil: str, why: str, hopper: bool) -> None:
    rows, got = np.zeros(256, np.uint16), np.zeros(256, np.uint16)
    with pytest.raises(VerifyError, match=why):
        run(matrices(4, uint16, False, spoil, hopper), [rows, got])


def test_a_row_that_a_lane_wrote_itself_wants_a_barrier_too() -> None:
    """Other lanes get what is in it."""

    def body(b: Any, p: Any) -> None:
        mem, at = shared(0, dtype=uint16, align=16), b.op("mul", p.thread, b.const(8))
        b.store(mem, at, b.load(param(0, uint16, align=16), at, 8))
        b.store(param(1, uint16, align=16), at, b.ldmatrix(mem, at, 8))

    p = program(body, [(uint16, 256)], [(uint16, 256)], 1, 32, shared=512)
    with pytest.raises(VerifyError, match="no barrier since"):
        run(p, [np.zeros(256, np.uint16), np.zeros(256, np.uint16)])
    place(p.phases[0])
    assert sum(isinstance(s, Instr) and s.op == "barrier" for s in statements(p.phases[0].body)) == 1
    run(p, [np.zeros(256, np.uint16), np.zeros(256, np.uint16)])


def test_barriers_of_a_matmul_are_derived() -> None:
    tile = Tile("mma.m16n8k16.bf16", barriers=False)
    p = matmul(tile)
    place(p.phases[0])
    assert sum(isinstance(s, Instr) and s.op == "barrier" for s in statements(p.phases[0].body)) == 2
    arrays = operands(tile, np.random.default_rng(3))
    run(p, arrays)
    assert (arrays[2] == product(tile, arrays)).all()


# mutants -----------------------------------------------------------------------------------------------------------------
MUTANTS = {
    "barrier": "is read with no barrier since",
    "lane": "thread 31 does not come to mma, to which others of its 32 threads come",
    "element": "is not aligned to 16 bytes",
    "transposed": "", "swizzle": "", "stride": "",
}  # fmt: skip
"""What is said of each; '' where the result is wrong and nothing is said."""


@pytest.mark.many
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_is_found(mutant: str) -> None:
    tile = Tile("mma.m16n8k16.bf16", mutant=mutant)
    arrays = operands(tile, np.random.default_rng(6))
    if MUTANTS[mutant]:
        with pytest.raises(VerifyError, match=MUTANTS[mutant]):
            run(matmul(tile), arrays)
        return
    run(matmul(tile), arrays)
    assert (arrays[2] != product(tile, arrays)).mean() > 0.5


# malformed Programs ------------------------------------------------------------------------------------------------------
def test_fragments_of_the_wrong_size_are_refused() -> None:
    def body(b: Any, p: Any) -> None:
        x = b.const(0.0, float32, 4)
        b.mma("mma.m16n8k8.tf32", x, x, x)

    p = program(body, threads=32)
    p.generation = "hopper"
    with pytest.raises(InternalError, match=r"mma.m16n8k8.tf32 does not take float32x4, float32x4, float32x4"):
        verify(p)


def test_a_program_says_whose_arithmetic_it_means() -> None:
    p = matmul(Tile("mma.m16n8k16.bf16"))
    p.generation = ""
    with pytest.raises(InternalError, match="for tensor cores of no generation"):
        verify(p)
    p = matmul(Tile("mma.m16n8k32.e4m3", turned=True, generation="ampere"))
    with pytest.raises(InternalError, match="of ampere generation, which lack it"):
        verify(p)


def test_part_of_a_warp_is_refused() -> None:
    p = program(lambda b, _: b.ldmatrix(shared(0, dtype=uint16, align=16), b.const(0), 8), threads=48, shared=512)
    with pytest.raises(InternalError, match="done by whole warps, and a group has 48 threads"):
        verify(p)


@pytest.mark.parametrize(
    ("mem", "lanes", "transposed", "why"),
    [
        (shared(0, dtype=uint16, align=8), 8, False, "aligned to 16 bytes"),
        (param(0, uint16, align=16), 8, False, "rows of shared memory"),
        (shared(0, dtype=uint8, align=16), 16, True, "ldmatrix_t does not read uint8"),
        (shared(0, dtype=uint16, align=16), 6, False, "gives 4, 8 or 16 bytes, not uint16x6"),
        (shared(512 - 16, offset=1, dtype=uint16, align=16), 8, False, "outside the memory"),
    ],
)
def test_rows_are_16_bytes_of_shared_memory(mem: Any, lanes: int, transposed: bool, why: str) -> None:
    p = program(lambda b, _: b.ldmatrix(mem, b.const(0), lanes, transposed), [(uint16, 64)], threads=32, shared=512)
    with pytest.raises(InternalError, match=why):
        verify(p)
