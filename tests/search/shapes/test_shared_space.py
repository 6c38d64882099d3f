"""One schedule as shapes of different sizes have it."""

from functools import cache
from pathlib import Path

import pytest
from tilewright import named_kernels, targets, tile
from tilewright.ir import Kernel
from tilewright.opts.opt import Opt, opt
from tilewright.search.shapes import WeightedShape, tune_shapes
from tilewright.search.shapes.shared_schedule import SharedSpace
from tilewright.search.space import OptEngine, Space

AVX2 = targets.named("avx2")
ROWS = (
    "from tilewright import tile\n\n"
    + '''
@tile.kernel
def rows(t, m=40, n=64):
    """y = 2 x, in blocks of rows."""
    x, y = t.input("x", (m, n)), t.output("y", (m, n))
    some, cols = t.grid(m=(m, t.block("bm", (8, 16))), n=(n, t.block("bn", (16, 32))))
    y[some, cols] = x[some, cols] * 2.0
'''
)


@tile.kernel
def blocked(t: tile.TileBuilder, m: int = 40, n: int = 64) -> None:
    x, y = t.input("x", (m, n)), t.output("y", (m, n))
    some, cols = t.grid(m=(m, t.block("bm", (8, 16))), n=(n, t.block("bn", (16, 32))))
    y[some, cols] = x[some, cols] * 2.0


def shared(*made: Kernel) -> SharedSpace:
    return SharedSpace([Space(OptEngine(k, AVX2, 1)) for k in made], made)


@cache
def products() -> SharedSpace:
    return shared(named_kernels.make("matmul", {"m": 7, "n": 300, "k": 64}), named_kernels.make("matmul", {"m": 400, "n": 64, "k": 64}))


def said(*opts: tuple[str, str, int]) -> tuple[Opt, ...]:
    return tuple(opt(*o) for o in opts)


def test_a_block_as_large_as_an_axis_is_left_out_and_copies_become_fewer() -> None:
    wide = said(("UPCAST", "m", 16), ("UPCAST", "n", 16), ("TILE", "m", 64))
    assert products().at(1, wide) == wide and products().legal(wide)
    assert products().at(0, wide) == said(("UPCAST", "m", 4), ("UPCAST", "n", 16))


def test_what_no_size_can_have_is_dropped_and_the_rest_stays() -> None:
    bad = said(("UPCAST", "m", 16), ("UPCAST", "z", 8), ("TILE", "m", 64))
    assert not products().legal(bad)
    assert products().fitted(bad) == said(("UPCAST", "m", 16), ("TILE", "m", 64))


def test_neighbours_serve_every_shape() -> None:
    near = list(products().near(said(("UPCAST", "n", 16))))
    assert len(near) > 5 and all(map(products().legal, near))


def test_decided_blocks_are_said_for_shapes_that_need_them() -> None:
    """Rows of the first shape are one block, columns of the second; the third has no axis of rows at all."""
    space = shared(blocked(m=7, n=300), blocked(m=400, n=16), blocked(m=1, n=64))
    of_first = said(("TILE", "n", 16), ("UPCAST", "n", 8))
    assert not space.legal(of_first)
    ways = space.written_out(0, of_first)
    assert ways == [said(("TILE", "m", size)) + of_first for size in (8, 16)]
    assert all(map(space.legal, ways)) and all(space.fitted(w) == w for w in ways)
    assert space.at(0, ways[0]) == of_first and space.at(1, ways[0]) == said(("TILE", "m", 8), ("UPCAST", "n", 8))
    assert space.at(2, ways[0]) == of_first
    assert space.near(ways[0])


def test_blocks_that_are_legal_together_only_survive() -> None:
    space = shared(blocked(m=40, n=64)).spaces[0]
    state = space.legalise(said(("TILE", "m", 8), ("TILE", "n", 32), ("UPCAST", "z", 4), ("UPCAST", "n", 8)))
    assert state is not None and state.opts == said(("TILE", "m", 8), ("TILE", "n", 32), ("UPCAST", "n", 8))


@pytest.mark.slow
def test_tiles_of_shapes_that_share_no_schedule_as_written(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(ROWS)
    shapes = [WeightedShape({"m": 7, "n": 300}), WeightedShape({"m": 400, "n": 16})]
    result = tune_shapes(f"{tmp_path / 'mine.py'}:rows", shapes, budget=8, threads=1, cache=tmp_path / "c.db")
    assert result.exit_code == 0, result.message
    assert {o.on for o in result.whole if o.op == "TILE"} >= {"m", "n"}
    assert result.loss is not None
