"""Loads whose lanes are known, at borders: whole vectors and a shuffle."""

import numpy as np
from tilewright import interp
from tilewright.ir import Kernel, KernelBuilder, float32, minimum
from tilewright.ir.evaluation.reference import evaluate
from tilewright.lower import lower
from tilewright.lower.access.known_lanes import _at_lanes
from tilewright.measure.inputs import generate
from tilewright.opts import apply
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
