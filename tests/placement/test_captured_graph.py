"""Functions of tensors as graphs to split, by their kernels' indices."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from tilewright.cli.functions.tracing import ask
from tilewright.placement import MeshAxis, PlanError, ShardOp, generate, search_shardings
from tilewright.placement.captured_graph import KernelAxes, captured_graph
from tilewright.placement.running import PlannedRun, check, run_plans
from tilewright.placement.shard_search import on_one_device

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

def twice(x, w):
    h = x @ w
    return nn.gelu(h), h, (x * x).sum()

def spread(x, b):
    s = x.sum(1, keepdims=True)
    return s * b, s + 1

def shifted(x):
    return x[1:] - x[:-1]
"""


@pytest.mark.slow
def test_axes_that_split_and_those_that_do_not(tmp_path: Path) -> None:
    file = tmp_path / "f.py"
    file.write_text(FILE)
    found = ask(f"{file}:step", "x=64x96,w1=96x128,w2=128x32", None)
    graph, _ = captured_graph(found.facts, found.kernels)
    ops = {op.name: op for op in graph.ops}
    assert ops["0 matmul+gelu"].whole == {"d2"}, "something is done with the sum"
    assert ops["1 matmul"].whole == set() and ops["1 matmul"].summed == {"d2"}, "a plain sum may be split"
    assert ops["2 softmax"].whole == {"d1"}
    attend = ask(f"{file}:attend", "x=4x32x64,w=64x192,o=64x64", None)
    graph, _ = captured_graph(attend.facts, attend.kernels)
    pytest.importorskip("scipy")
    plan = search_shardings(graph, (MeshAxis(2, 1e-5, 1e-9),))
    assert {way.split for way in plan.ops.values()} == {("d0",)} and plan.communication == 0, "the batch, through attention"
    shifted = ask(f"{file}:shifted", "x=8x4", None)
    assert shifted.kernels[0] is not None
    axes = KernelAxes.of(shifted.kernels[0])
    assert axes.axes[next(iter(axes.whole))] == 7 and len(axes.whole) == 1
    twice = ask(f"{file}:twice", "x=8x6,w=6x4", None)
    graph, _ = captured_graph(twice.facts, twice.kernels)
    both = [op for op in graph.ops if {name for name, _ in op.reads} == {"x", "w"}]
    assert len(both) == 2 and all(op.whole == {"d2"} for op in both), "the sum is stored as it is, and something is done with it too"
    spread = ask(f"{file}:spread", "x=8x4,b=6", None)
    graph, _ = captured_graph(spread.facts, spread.kernels)
    assert [op.whole for op in graph.ops] == [{"d2"}, {"d1", "d2"}], "d1 is the other output's: parts of it are no parts of a sum"


@pytest.mark.slow
def test_a_function_s_own_kernels_run_on_parts_of_its_arrays(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    file = tmp_path / "f.py"
    file.write_text(FILE)
    plans = []
    for name, shape, dtype in (
        ("step", "x=8x6,w1=6x4,w2=4x2", "float32"),
        ("twice", "x=8x6,w=6x4", "float32"),
        ("shifted", "x=8x4", "int64"),
    ):
        found = ask(f"{file}:{name}", shape, dtype)
        graph, kernels = captured_graph(found.facts, found.kernels)
        dtypes = dict(zip(graph.arrays, (t.dtype for t in found.facts.tensors), strict=True))

        def split(op: ShardOp, local: Mapping[str, int]) -> float:
            return float(dict(local) == dict(op.axes))

        plan = search_shardings(graph, (MeshAxis(2, 0, 1e-10),), split)
        assert name == "shifted" or any(any(way.split) for way in plan.ops.values())
        whole = on_one_device(graph)
        plans.append(PlannedRun((plan,), whole, generate("1f1b", 1, 1), "float32", 1, kernels=kernels, dtypes=dtypes))
    try:
        check("mpi")
    except PlanError as e:
        pytest.skip(f"no MPI here: {e}")
    assert [r.wrong for r in run_plans(plans)] == [(), (), ()]
