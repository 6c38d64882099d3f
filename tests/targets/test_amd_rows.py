"""The table of AMD's matrix instructions: fragments cover their tiles, and lie as AMD's articles say."""

from __future__ import annotations

from itertools import product

import amd_rows
import pytest
from amd_rows import WaveRow
from tilewright import targets

ROWS = pytest.mark.parametrize("row", amd_rows.ROWS, ids=lambda r: r.builtin)


def places(row: WaveRow, operand: str, axes: str) -> list[list[tuple[int, int]]]:
    """The elements of every thread, in the order of its registers."""
    parts = {"a": row.a_parts, "b": row.b_parts, "c": row.c_parts}[operand]
    own = [p for p in parts if p.kind != "thread"]
    out = []
    for thread in range(row.wave):
        mine = []
        for at in product(*(range(p.count) for p in own)):
            place = dict.fromkeys("mnk", 0)
            for p, x in [*zip(own, at), *((p, thread // p.bits % p.count) for p in parts if p.kind == "thread")]:
                place[p.axis] += p.stride * x
            mine.append((place[axes[0]], place[axes[1]]))
        out.append(mine)
    return out


@ROWS
@pytest.mark.parametrize(("operand", "axes"), [("a", "mk"), ("b", "kn"), ("c", "mn")])
def test_a_fragment_covers_each_element_of_its_tile(row: WaveRow, operand: str, axes: str) -> None:
    size = {"m": row.m, "n": row.n, "k": row.k}
    times = 2 if row.twice and operand != "c" else 1
    found = sorted(x for mine in places(row, operand, axes) for x in mine)
    assert found == sorted([(i, j) for i in range(size[axes[0]]) for j in range(size[axes[1]])] * times)


def test_fragments_lie_as_the_articles_say() -> None:
    by_name = {r.builtin: r for r in amd_rows.ROWS}
    small, large = by_name["mfma_f32_16x16x16f16"], by_name["mfma_f32_32x32x8f16"]
    for t in range(64):
        assert places(small, "a", "mk")[t] == [(t % 16, 4 * (t // 16) + i) for i in range(4)]
        assert places(small, "c", "mn")[t] == [(4 * (t // 16) + i, t % 16) for i in range(4)]
        assert places(large, "b", "kn")[t] == [(4 * (t // 32) + i, t % 32) for i in range(4)]
        assert places(large, "c", "mn")[t] == [(8 * (i // 4) + 4 * (t // 32) + i % 4, t % 32) for i in range(16)]
    wmma = by_name["wmma_f32_16x16x16_f16_w32"]
    for t in range(32):
        assert places(wmma, "a", "mk")[t] == [(t % 16, i) for i in range(16)]
        assert places(wmma, "c", "mn")[t] == [(2 * i + t // 16, t % 16) for i in range(8)]


def test_rows_are_those_of_known_gpus() -> None:
    for r in amd_rows.ROWS:
        assert len(r.gpus) == len(r.rate) and all(targets.named(g).warp == r.wave for g in r.gpus)
    assert {r.k for r in amd_rows.rows("gfx942") if r.a.name == "int8"} == {32} and not amd_rows.rows("sm_90a")
