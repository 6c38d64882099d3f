"""Kernels whose extents are all 1: their normal form has no axes, and operands without dimensions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tilewright import kernels
from tilewright.ir.kernel import Kernel
from tilewright.ir.normal_form import normalise
from tilewright.measure.checking.verify import expectations
from tilewright.measure.inputs import generate
from tilewright.plan import Artefacts, best
from tilewright.search import tune


def ones(name: str) -> dict[str, int]:
    # a window of one element has no room for padding
    return {n: 0 if n == "pad" else 1 for n in kernels.get(name).shape_names}


def made(name: str) -> Kernel:
    return normalise(kernels.make(name, ones(name)))


@pytest.mark.parametrize("name", kernels.NAMES)
def test_operands_and_references_have_the_kernels_shapes(name: str) -> None:
    kernel = made(name)
    for whole in (False, True):
        values = generate(kernel, {}, 0, whole)
        assert [values[b.name].shape for b in kernel.inputs] == [b.shape for b in kernel.inputs]
        expected = expectations(kernel, values, {}, whole)
        assert [expected[b.name].shape for b in kernel.outputs] == [b.shape for b in kernel.outputs]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["softmax", "matmul", "sum_all", "argmax", "embedding_grad"])
def test_they_are_tuned_and_called(name: str, tmp_path: Path) -> None:
    found = tune(name, ones(name), trials=2, cache=tmp_path / "cache.db", threads=1)
    assert found.found and found.verified
    compiled = best(name, ones(name), cache=tmp_path / "cache.db", store=Artefacts(tmp_path / "store"), threads=1)
    assert compiled.origin == "exact"
    values = [np.zeros(b.shape, b.dtype.np) for b in compiled.kernel.inputs]
    compiled(*values)
