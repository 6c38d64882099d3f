"""The rows of wgmma: fragments cover each tile once, and names lead to rows."""

from __future__ import annotations

import pytest
from tilewright import targets
from tilewright.targets.tensor_rows import WGMMA_TYPES, places, wgmma_named, wgmma_row, wgmma_rows


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


def test_only_hopper_has_them() -> None:
    assert not wgmma_rows(targets.named("sm_80")) and not wgmma_rows(targets.named("sm_89"))
    assert len(wgmma_rows(targets.named("sm_90a"))) > 200
