"""Loads whose lanes are known, at borders: whole vectors and a shuffle."""

import numpy as np
import pytest
from tilewright import interp
from tilewright.ir import Kernel, KernelBuilder, float32, maximum, minimum
from tilewright.ir.evaluation import evaluate
from tilewright.lower import lower
from tilewright.lower.access.memory_access import _at_lanes
from tilewright.measure.inputs import generate
from tilewright.opts import apply
from tilewright.program.program import Instr, statements
from tilewright.targets import named


def two_phases(n: int = 16) -> Kernel:
    """Four inputs that the first phase reads alone, and one with a border that the second does."""
    kb = KernelBuilder("two_phases")
    i, j = kb.axis("x", n), kb.axis("x@2", n)
    first = [kb.input(f"a{c}", (4 * n,), float32) for c in range(4)]
    z = kb.input("z", (n,), float32)
    v = kb.value("v", (i,), first[0][i] + first[1][i + n] + first[2][i] + first[3][i])
    kb.store("y", float32, (n,), (j,), v[j] + z[minimum(j + 1, n - 1)])
    return kb.build()


def test_a_phase_has_numbers_of_its_own_for_parameters() -> None:
    """The extent that bounds a load is that of the buffer that is loaded, not of another with its number."""
    kernel = two_phases()
    inputs = generate(kernel, {}, 3, whole=True)
    for opts in ([["PHASE", "v"], ["UPCAST", "x", 8]], [["UPCAST", "x", 8]]):
        y = np.zeros(16, np.float32)
        interp.run(lower(apply(kernel, opts, named("avx2"))), inputs | {"y": y})
        assert y.tolist() == evaluate(kernel, inputs)["y"].tolist()


def test_rows_of_a_border_share_the_places_of_their_lanes() -> None:
    """They are found out once for all rows and copies that ask."""
    rows = 8
    kb = KernelBuilder("wrapped")
    i, j = kb.axis("m", 64), kb.axis("n", 64)
    x = kb.input("x", (64, 64), float32)
    kb.store("y", float32, (64, 64), (i, j), x[i, (j + 63) % 64] + x[i, (j + 1) % 64])
    _at_lanes.cache_clear()
    lower(apply(kb.build(), [["UPCAST", "n", 8], ["UPCAST", "m", rows]], named("avx2")))
    found = _at_lanes.cache_info()
    assert found.misses <= 4 and found.hits >= (rows - 1) * found.misses > 0


def ring_of_rows(rows: int, k: int, by: int, wraps: bool) -> Kernel:
    """A kept value whose short rows are read at a neighbour's place, round the end or clamped there."""
    kb = KernelBuilder("ring_of_rows")
    i, j, i2, j2 = kb.axis("n", rows), kb.axis("k", k), kb.axis("n@2", rows), kb.axis("k@2", k)
    x = kb.input("x", (rows, k), float32)
    mid = kb.value("mid", (i, j), x[i, j] * x[i, j] + 1)
    at = (j2 + by % k) % k if wraps else maximum(minimum(j2 + by, k - 1), 0)
    kb.store("y", float32, (rows, k), (i2, j2), mid[i2, j2] - mid[i2, at])
    return kb.build()


@pytest.mark.parametrize("target", ["avx2", "x86-64-v4"])
@pytest.mark.parametrize(
    ("k", "by", "wraps"), [(16, 1, True), (16, -3, True), (16, 2, False), (24, -1, True), (14, 1, True), (20, -2, False)]
)
def test_lanes_round_the_end_of_a_kept_row(target: str, k: int, by: int, wraps: bool) -> None:
    """Whole rows that are written are read in vectors, and nothing that is not written (which the interpreter refuses)."""
    kernel = ring_of_rows(13, k, by, wraps)
    inputs = generate(kernel, {}, 3, whole=True)
    wide = [["PADTO", "k", -(-k // 16) * 16], ["UPCAST", "k", 16]] if k % 16 else [["UPCAST", "k", 16]]
    kept = [["HALO", "n", 4], ["STAGE", "mid", {"at": "n.h"}]], [["PHASE", "mid"]]
    for opts in ([*kept[0], ["UPCAST", "k", 8]], [*kept[1], ["UPCAST", "k", 8]], [*kept[0], *wide], wide):
        y = np.zeros((13, k), np.float32)
        program = lower(apply(kernel, opts, named(target)))
        interp.run(program, inputs | {"y": y})
        assert y.tolist() == evaluate(kernel, inputs)["y"].tolist()
        if k == 16:
            assert not any(isinstance(s, Instr) and s.op == "gather" for p in program.phases for s in statements(p.body))
