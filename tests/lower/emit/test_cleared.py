"""Arrays of partial sums that are cleared before the first of many blocks: nothing that the sums read is copied for that."""

from __future__ import annotations

import pytest
from checks import check_compiled, check_twin
from tilewright import kernels, targets
from tilewright.opts import parse

SHAPE = {"m": 12, "n": 20, "k": 40}
CASES = ["Mk<m Sa@m", "Tk20 Mk<m Sa@m Mk.t<n", "Mk<m Sa@n", "Un4 Mk<n Sb@n", "Um4 Un8 Pn Tk2 Mk<m Sa@m", "Um4 Un8 Mk<m Sa@m Sb@k"]


@pytest.mark.parametrize("text", CASES)
def test_a_tile_of_the_summed_axis_is_filled_in_the_sums_only(text: str) -> None:
    kernel = kernels.make("matmul", SHAPE)
    check_twin(kernel, parse(text), targets.named("avx2"))
    check_compiled(kernel, parse(text), targets.named("avx2"))
