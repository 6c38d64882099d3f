"""Block sizes of tile kernels: what schedules keep to, and what searches may choose."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tile_kernels
from tilewright import named_kernels, targets, tile
from tilewright.heuristics import starts, templates
from tilewright.heuristics.start.adjustments import fitted
from tilewright.ir import OptError
from tilewright.ir.kernel import DecidedBlocks, Kernel
from tilewright.ir.normal_form import canonical, loose, normalise
from tilewright.opts import apply, opt
from tilewright.opts.legality import allowed_sizes, block_sizes, check_blocks, undecided
from tilewright.plan.identity import canonical_of

AVX2 = targets.named("avx2")


def added(m: int = 24, n: int = 32, sizes: Any = (4, 8)) -> Kernel:
    """Two blocked axes which an ordinary kernel would merge."""

    @tile.kernel
    def twice(t: Any) -> None:
        x, y = t.input("x", (m, n)), t.output("y", (m, n))
        rows, cols = t.grid(m=(m, t.block("bm", sizes)), n=(n, 16))
        y[rows, cols] = x[rows, cols] * 2.0

    made: Kernel = twice()
    return made


def test_a_schedule_keeps_to_the_blocks() -> None:
    kernel = normalise(added())
    assert list(kernel.families) == ["m", "n"] and kernel.blocks == DecidedBlocks(("m", "n"), ((4, 16), (8, 16)))
    apply(kernel, (), AVX2)
    apply(kernel, [opt("TILE", "m", 8), opt("TILE", "n", 16), opt("UPCAST", "n", 8), opt("PARALLEL", "m")], AVX2)
    with pytest.raises(OptError, match=r"blocks of m are decided: give TILE\(m, 4\) or TILE\(m, 8\)"):
        apply(kernel, [opt("TILE", "m", 6), opt("TILE", "n", 16)], AVX2)
    with pytest.raises(OptError, match=r"blocks of n are decided: give TILE\(n, 16\)"):
        apply(kernel, [opt("TILE", "m", 4), opt("UPCAST", "n", 8)], AVX2)


def test_a_block_as_large_as_its_axis_is_no_cut() -> None:
    kernel = normalise(added(m=6, sizes=(4, 8)))
    assert allowed_sizes(kernel) == ((4, 16), (6, 16))
    check_blocks(kernel, (opt("TILE", "n", 16),))
    assert block_sizes(kernel, (opt("TILE", "n", 16),)) == (6, 16)


def test_sizes_stand_together() -> None:
    kernel = normalise(tile_kernels.matmul(m=64, n=64, k=64))
    assert kernel.blocks is not None
    fewer = replace(kernel, blocks=DecidedBlocks(("m", "n"), ((16, 8), (32, 16))))
    with pytest.raises(OptError, match="does not allow these block sizes together: m 16, n 16"):
        apply(fewer, [opt("TILE", "m", 16), opt("TILE", "n", 16)], AVX2)


def test_start_schedules_and_templates_have_the_blocks() -> None:
    kernel = normalise(tile_kernels.matmul(m=64, n=64, k=64))
    found = starts(kernel, AVX2, 2)
    assert len(found) > 2 and found[-1] == () and all(block_sizes(kernel, o) in allowed_sizes(kernel) for o in found[:-1])
    (first, *_) = templates(kernel, AVX2, 2)
    assert first.params["block m"] == (16, 32) and first.params["block k"] == (8, 16)
    opts = first.make({name: values[-1] for name, values in first.params.items()})
    assert block_sizes(kernel, opts) == (32, 16, 16)


def test_a_wish_is_fitted() -> None:
    kernel = normalise(added(m=64))
    wish = (opt("TILE", "m", 32), opt("UPCAST", "m", 6), opt("UPCAST", "n", 8), opt("PARALLEL", "m"), opt("TILE", "m", 2))
    want = [
        opt("TILE", "m", 8),
        opt("TILE", "n", 16),
        opt("UPCAST", "m", 8),
        opt("UPCAST", "n", 8),
        opt("PARALLEL", "m"),
        opt("TILE", "m", 2),
    ]
    assert fitted(kernel, wish, (8, 16)) == tuple(want)


def test_the_key_knows_the_blocks() -> None:
    one, other = added(), added(sizes=(4, 12))
    assert canonical(one).hash == canonical(added()).hash != canonical(other).hash
    assert canonical(undecided(one)).hash != canonical(one).hash and loose(one) == loose(other)
    assert canonical_of(normalise(one)).hash == canonical(one).hash


def test_without_blocks_the_key_is_what_it_was() -> None:
    assert "blocks" not in canonical(named_kernels.make("matmul", {"m": 8, "n": 8, "k": 8})).text


@pytest.mark.slow
def test_a_users_file(tmp_path: Path) -> None:
    """The blocks come along from the process in which the file runs."""
    path = tmp_path / "mine.py"
    path.write_text(
        "from tilewright import tile\n@tile.kernel\ndef copy(t, m=8):\n    x, y = t.input('x', (m,)), t.output('y', (m,))\n"
        "    rows = t.grid(m=(m, t.block('bm', (4, 8))))\n    y[rows] = x[rows]\n"
    )
    kernel = named_kernels.make(f"{path}:copy", {"m": 40})
    assert kernel.blocks == DecidedBlocks(("m",), ((4,), (8,))) and kernel.axes[0].arg.extent == 40
