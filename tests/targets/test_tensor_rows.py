"""The table of tensor-core instructions: fragments cover their tiles, features, rates."""

from __future__ import annotations

import pytest
from tilewright import targets
from tilewright.targets import tensor_rows
from tilewright.targets.tensor_rows import GENERATIONS, WGMMA_TYPES, generation, places, wgmma_named, wgmma_row

ROWS = pytest.mark.parametrize("row", tensor_rows.ROWS, ids=lambda r: r.name)


@ROWS
@pytest.mark.parametrize("operand", ["a", "b", "c"])
def test_a_fragment_covers_each_element_of_its_tile_once(row: tensor_rows.TensorRow, operand: str) -> None:
    found = [place for thread in tensor_rows.places(row, operand) for place in thread]
    rows, columns = (row.extent(axis) for axis in row.axes(operand))
    assert sorted(found) == [(i, j) for i in range(rows) for j in range(columns)]
    assert row.elements(operand) * row.unit == rows * columns


def test_fragments_lie_as_the_ptx_manual_says() -> None:
    """PTX ISA 9.7.14, the formulas under the pictures; lane l is in group l / 4, at place l % 4."""
    row = tensor_rows.BY_NAME["mma.m16n8k16.bf16"]
    for lane in range(32):
        g, q = lane // 4, lane % 4
        assert tensor_rows.places(row, "a")[lane] == [(g + 8 * (i // 2 % 2), 2 * q + i % 2 + 8 * (i // 4)) for i in range(8)]
        assert tensor_rows.places(row, "b")[lane] == [(2 * q + i % 2 + 8 * (i // 2), g) for i in range(4)]
        assert tensor_rows.places(row, "c")[lane] == [(g + 8 * (i // 2), 2 * q + i % 2) for i in range(4)]
    row = tensor_rows.BY_NAME["mma.m16n8k8.tf32"]
    for lane in range(32):
        g, q = lane // 4, lane % 4
        assert tensor_rows.places(row, "a")[lane] == [(g + 8 * (i % 2), q + 4 * (i // 2)) for i in range(4)]
        assert tensor_rows.places(row, "b")[lane] == [(q + 4 * i, g) for i in range(2)]
    row = tensor_rows.BY_NAME["mma.m16n8k32.s8"]
    for lane in range(32):
        g, q = lane // 4, lane % 4
        assert tensor_rows.places(row, "a")[lane] == [(g + 8 * (i // 4 % 2), 4 * q + i % 4 + 16 * (i // 8)) for i in range(16)]
        assert tensor_rows.places(row, "b")[lane] == [(4 * q + i % 4 + 16 * (i // 4), g) for i in range(8)]


def test_a_target_has_the_rows_of_its_features() -> None:
    named = {n: targets.named(n) for n in ("sm_80", "sm_86", "sm_89", "sm_90a")}
    assert {n: t.features & {"sm80", "sm89", "sm90a"} for n, t in named.items()} == {
        "sm_80": {"sm80"}, "sm_86": {"sm80"}, "sm_89": {"sm80", "sm89"}, "sm_90a": {"sm80", "sm89", "sm90a"},
    }  # fmt: skip
    assert [generation(t) for t in named.values()] == ["ampere", "ampere", "ada", "hopper"]
    for t in named.values():
        assert [r.name for r in tensor_rows.available(t)] == [r.name for r in tensor_rows.ROWS if r.flag in t.features]
    assert not tensor_rows.available(targets.named("znver5"))


@ROWS
def test_every_row_says_how_it_adds(row: tensor_rows.TensorRow) -> None:
    assert bool(row.rules) == row.c.is_float
    assert all(g in GENERATIONS and 0 < rule.terms <= row.k for g, rule in row.rules.items())
    assert row.elements("a") * row.a.size % 4 == row.elements("b") * row.b.size % 4 == 0


def test_fp8_keeps_few_bits_on_ada_alone() -> None:
    row = tensor_rows.BY_NAME["mma.m16n8k32.e4m3"]
    assert tensor_rows.kept_bits(row, targets.named("sm_89")) == 13 and tensor_rows.kept_bits(row, targets.named("sm_90a")) == 23
    assert tensor_rows.kept_bits(tensor_rows.BY_NAME["mma.m16n8k32.s8"], targets.named("sm_80")) == 0


@pytest.mark.parametrize("suffix", WGMMA_TYPES)
@pytest.mark.parametrize("n", [8, 64, 256])
def test_fragments_cover_a_tile_once(suffix: str, n: int) -> None:
    row = wgmma_row(suffix, n)
    for operand in ("a", "c"):
        found = [at for thread in places(row, operand) for at in thread]
        size = row.m * (row.k if operand == "a" else row.n)
        assert len(found) == len(set(found)) == size
    assert row.elements("c") == n // 2 and row.elements("a") * row.a.size == 16


def test_an_accumulator_lies_as_the_manual_says() -> None:
    """PTX ISA, wgmma, fragment D: row 16·warp + lane/4 + 8·(i/2 mod 2), column 8·(i/4) + 2·(lane mod 4) + i mod 2."""
    found = places(wgmma_row("bf16", 128), "c")
    for thread in (0, 37, 127):
        warp, lane = divmod(thread, 32)
        want = [(16 * warp + lane // 4 + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * (lane % 4) + i % 2) for i in range(64)]
        assert found[thread] == want


def test_names_lead_to_rows() -> None:
    row = wgmma_row("bf16", 128)
    assert row.name == "wgmma.m64n128k16.bf16" and wgmma_named(row.name) is row
    for wrong in ("wgmma.m64n128k8.bf16", "wgmma.m64n12k16.bf16", "wgmma.m64nk16.bf16", "mma.m16n8k16.bf16", "wgmma.m64n40k32.s8"):
        assert wgmma_named(wrong) is None
    with pytest.raises(KeyError, match="no 12 columns"):
        wgmma_row("bf16", 12)
