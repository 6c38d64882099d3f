"""A schedule as shapes of other sizes have it."""

from tilewright import named_kernels, targets, tile
from tilewright.ir import Kernel
from tilewright.opts.fitted import fits, fitted
from tilewright.opts.opt import Opt, opt

AVX2 = targets.named("avx2")


@tile.kernel
def blocked(t: tile.TileBuilder, m: int = 40, n: int = 64) -> None:
    x, y = t.input("x", (m, n)), t.output("y", (m, n))
    some, cols = t.grid(m=(m, t.block("bm", (8, 16))), n=(n, t.block("bn", (16, 32))))
    y[some, cols] = x[some, cols] * 2.0


def product(m: int, n: int) -> Kernel:
    return named_kernels.make("matmul", {"m": m, "n": n, "k": 64})


def said(*opts: tuple[str, str, int]) -> tuple[Opt, ...]:
    return tuple(opt(*o) for o in opts)


def test_a_block_as_large_as_an_axis_is_left_out_and_copies_become_fewer() -> None:
    wide = said(("UPCAST", "m", 16), ("UPCAST", "n", 16), ("TILE", "m", 64))
    assert fitted(product(400, 64), wide, AVX2) == wide
    assert fitted(product(7, 300), wide, AVX2) == said(("UPCAST", "m", 4), ("UPCAST", "n", 16))


def test_what_no_size_can_have_is_dropped_and_the_rest_stays() -> None:
    bad = said(("UPCAST", "m", 16), ("UPCAST", "z", 8), ("TILE", "m", 64))
    assert fitted(product(400, 64), bad, AVX2) == said(("UPCAST", "m", 16), ("TILE", "m", 64))


def test_blocks_that_are_legal_together_only_survive() -> None:
    opts = said(("TILE", "m", 8), ("TILE", "n", 32), ("UPCAST", "z", 4), ("UPCAST", "n", 8))
    assert fitted(blocked(m=40, n=64), opts, AVX2) == said(("TILE", "m", 8), ("TILE", "n", 32), ("UPCAST", "n", 8))


def test_copies_share_an_axis_evenly() -> None:
    opts = said(("UPCAST", "m", 8), ("UPCAST", "n", 32), ("TILE", "n", 64), ("UNROLL", "k", 4))
    found = fits(product(9, 40), opts, AVX2)
    assert found == [
        said(("UNROLL", "k", 4)),  # 8 of 9 rows, and 32 of 40 columns, would be too much work for nothing
        said(("UPCAST", "m", 5), ("UNROLL", "k", 4)),
        said(("UPCAST", "m", 5), ("UPCAST", "n", 24), ("UNROLL", "k", 4)),
    ]
    few = {o.amount for s in fits(product(8, 33), said(("UPCAST", "n", 16)), AVX2) for o in s}
    assert few and 16 not in few, "16 of 33 would be too much work for nothing"
    assert fits(product(16, 64), opts, AVX2) == [fitted(product(16, 64), opts, AVX2)], "nothing is uneven"
    sums = said(("UPCAST", "k", 24))
    assert fits(product(16, 64), sums, AVX2) == [sums], "which numbers are added first is the schedule's own"
