"""Functions of tensors as graphs to split, by their kernels' indices."""

from __future__ import annotations

from pathlib import Path

import pytest
from tilewright.cli.functions.tracing import ask
from tilewright.placement import MeshAxis, search_shardings
from tilewright.placement.captured_graph import KernelAxes, captured_graph

FILE = """
import numpy as np
from tilewright import Tensor, nn

def step(x, w1, w2):
    return (nn.gelu(x @ w1) @ w2).softmax(-1)

def attend(x, w, o):
    b, n, c = x.shape
    q, k, v = (t.reshape(b, n, 4, c // 4).permute(0, 2, 1, 3) for t in (x @ w).split(3, -1))
    at = Tensor(np.arange(n))
    scores = (at <= at.reshape(n, 1)).where(q @ k.mT, float("-inf"))
    return x + (scores.softmax(-1) @ v).permute(0, 2, 1, 3).reshape(b, n, c) @ o

def shifted(x):
    return x[1:] - x[:-1]
"""


@pytest.mark.slow
def test_axes_that_split_and_those_that_do_not(tmp_path: Path) -> None:
    file = tmp_path / "f.py"
    file.write_text(FILE)
    found = ask(f"{file}:step", "x=64x96,w1=96x128,w2=128x32", None)
    graph = captured_graph(found.facts, found.kernels)
    ops = {op.name: op for op in graph.ops}
    assert ops["0 matmul+gelu"].whole == {"d2"}, "something is done with the sum"
    assert ops["1 matmul"].whole == set() and ops["1 matmul"].summed == {"d2"}, "a plain sum may be split"
    assert ops["2 softmax"].whole == {"d1"}
    attend = ask(f"{file}:attend", "x=4x32x64,w=64x192,o=64x64", None)
    graph = captured_graph(attend.facts, attend.kernels)
    pytest.importorskip("scipy")
    plan = search_shardings(graph, (MeshAxis(2, 1e-5, 1e-9),))
    assert {way.split for way in plan.ops.values()} == {("d0",)} and plan.communication == 0, "the batch, through attention"
    shifted = ask(f"{file}:shifted", "x=8x4", None)
    assert shifted.kernels[0] is not None
    axes = KernelAxes.of(shifted.kernels[0])
    assert axes.axes[next(iter(axes.whole))] == 7 and len(axes.whole) == 1
