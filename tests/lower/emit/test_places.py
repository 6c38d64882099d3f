"""Places of extremes in the loop of the extreme: the first of equals, infinities, NaN, and under several schedules the same."""

from __future__ import annotations

import numpy as np
import pytest
from checks import check_compiled, check_floats, check_twin
from tilewright import interp
from tilewright.heuristics import quick_starts, starts
from tilewright.ir import KernelBuilder, OptError, float32, int32, where
from tilewright.ir.body import Combine
from tilewright.ir.dtypes import DType
from tilewright.ir.kernel import Kernel
from tilewright.ir.operators import cast
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.targets import named

AVX2 = named("avx2")


def best_way(m: int = 5, n: int = 21, p: int = 13, combine: Combine = "max", none: int | None = None, dtype: DType = float32) -> Kernel:
    """The extreme of x + y over p, and where it is."""
    kb = KernelBuilder("best_way")
    i, j = kb.axis("m", m), kb.axis("n", n)
    a, b = kb.axis("p@best", p), kb.axis("p@at", p)
    x, y = kb.input("x", (m, p), dtype), kb.input("y", (p, n), dtype)
    best = kb.reduce(combine, "best", (i, j), a, x[i, a] + y[a, j])
    at = kb.min("at", (i, j), b, where((x[i, b] + y[b, j]).eq(best[i, j]), cast(b, int32), p if none is None else none))
    kb.store("v", dtype, (m, n), (i, j), best[i, j])
    kb.store("w", int32, (m, n), (i, j), at[i, j])
    return kb.build()


@pytest.mark.parametrize(
    "text", ["Jp", "Un8 Jp Um2 Rp2", "Up8 Jp Um2", "Up2 Un8 Jp Pm", "Tp4 Un8 Jp", "Jp Sx@m Um2", "Un8 Tn16 Rp2 Jp Mp@best<n.t"]
)
@pytest.mark.parametrize(("combine", "dtype"), [("max", float32), ("min", int32)])
def test_every_schedule_finds_the_place(text: str, combine: Combine, dtype: DType) -> None:
    kernel = best_way(combine=combine, dtype=dtype)
    opts = parse(text)
    s = apply(kernel, opts, AVX2)
    assert s.siblings == (("best", "at"),) and s.places["at"].extreme == "best"
    check_floats(kernel, opts, AVX2)
    check_twin(kernel, opts, AVX2)
    if text.startswith("U"):
        check_compiled(kernel, opts)


@pytest.mark.parametrize("text", ["Un8 Jp", "Up4 Jp", "Up2 Un4 Jp", "Tp4 Up2 Jp", "Rp3 Jp", "Un4 Jp Mp@best<n", "Un4 Rp3 Jp Mp@best<n"])
def test_what_is_special(text: str) -> None:
    """Ties, nothing but the least number, NaN among others: as the kernel is written."""
    inf, nan = np.inf, np.nan
    rows = [[1, 3, 3, 2, 0, 3, 1, 1, 1, 1, 1], [-inf] * 11, [1, nan, 5] + [0] * 8, [inf] * 11, [-inf] * 10 + [0], [nan] * 11]
    x = np.array(rows, np.float32)
    arrays = {"x": x, "y": np.zeros((11, 8), np.float32), "v": np.zeros((6, 8), np.float32), "w": np.zeros((6, 8), np.int32)}
    for name in ("avx2", "cascadelake", "neon"):  # the larger of indices, one that a mask chooses, and a selection
        interp.run(lower(apply(best_way(6, 8, 11), parse(text), named(name))), arrays)
        assert arrays["w"].T.tolist() == [[1, 0, 11, 0, 10, 11]] * 8


@pytest.mark.parametrize(
    ("kernel", "text", "words"),
    [
        (best_way(none=5), "Jp", "without needing each other"),  # an index may be larger than what stands for none
        (best_way(), "Tn8 Up2 Jp Mp@best<n.t", "keep the loops over p@best innermost, or take UNROLL"),
        (best_way(), "Up@best8 Jp", "cut differently"),
    ],
)
def test_what_cannot_be_joined(kernel: Kernel, text: str, words: str) -> None:
    with pytest.raises(OptError, match=words):
        apply(kernel, parse(text), AVX2)


def test_groups_of_threads_combine_one_by_one() -> None:
    with pytest.raises(OptError, match="without needing each other"):
        apply(best_way(), parse("Jp"), named("opencl-cpu"))


def test_start_schedules_join_them() -> None:
    kernel = best_way(64, 96, 48)
    for found in (starts(kernel, AVX2), quick_starts(kernel, AVX2)):
        assert apply(kernel, found[0], AVX2).places
