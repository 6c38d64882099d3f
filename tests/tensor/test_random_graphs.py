"""Random graphs as kernels, against NumPy; what holds of every partition; and the same kernels every time.

`pytest tests/tensor/test_random_graphs.py --examples 200` draws anew and longer."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from graph_items import Item, agree
from random_graphs import Graphs, identity
from tilewright.devices import get
from tilewright.ir.errors import DeviceError
from tilewright.tensor.fusion.call_list import CallList, KernelCall, call_list
from tilewright.tensor.graph.nodes import walk
from tilewright.tensor.partition.heads import is_contraction
from tilewright.tensor.running import buffers
from tilewright.tensor.running import numpy_evaluation as small
from tilewright.tensor.running.realise import realise

FEW, STEPS = 5, 8
PARAMETERS, EXPRESSIONS = 64, 400


def seeds(request: pytest.FixtureRequest, few: int) -> Iterator[int]:
    asked = int(request.config.getoption("--examples"))
    yield from range(few) if not asked else np.random.default_rng().integers(1 << 31, size=asked).tolist()


def shortest(seed: int, device: str) -> str:
    """The smallest beginning of a graph that fails, for the message."""
    for steps in range(1, STEPS + 1):
        try:
            check(Graphs(seed, steps, device), device)
        except Exception as e:
            made = [f"{i.how} {i.name}{list(i.v.shape)}" for i in Graphs(seed, steps, device).items]
            return f"Graphs({seed}, {steps}): {', '.join(made)}: {type(e).__name__}: {e}"
    return f"Graphs({seed}, {STEPS})"


def check(g: Graphs, device: str) -> None:
    """By NumPy's evaluation, then by kernels; every partition's rules."""
    outs = g.outputs()
    nodes = [o.t.node for o in outs]
    for o, found in zip(outs, small.evaluate(nodes)):
        agree(o, found, f"{o.how} (small)")
    partition_holds(outs, call_list(nodes))
    realise(nodes, device)
    for o in outs:
        agree(o, o.t.numpy(), o.how)


def partition_holds(outs: list[Item], made: CallList) -> None:
    """Every array is computed once and before it is read; limits are kept; no contraction is computed in two kernels,
    unless both fold it."""
    there = set(range(made.leaves))
    heads: set[int] = set()
    stored = {id(n) for n in made.nodes}
    for call in made.calls:
        assert set(call.inputs) <= there, "read before it is computed"
        assert not there & set(call.outputs) and len(set(call.outputs)) == len(call.outputs), "computed twice"
        there |= set(call.outputs)
        if not isinstance(call, KernelCall):
            continue
        assert len(call.inputs) + len(call.outputs) <= PARAMETERS
        assert len(call.kernel.values) + len(call.kernel.stores) <= EXPRESSIONS
        if not call.folded:
            own = {id(n) for n in call.nodes}
            inside = {id(n) for n in walk(call.nodes, lambda n, own=own: id(n) in stored and id(n) not in own) if is_contraction(n)}
            inside -= stored - own
            assert not inside & heads, "a contraction is computed in two kernels"
            heads |= inside
    assert set(made.outs) <= there and len(made.outs) == len(outs)


def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """New memory holds what no result has: an element that is never written shows."""
    new = buffers.new

    def filled(*args: Any, **kwargs: Any) -> buffers.TensorBuffer:
        made = new(*args, **kwargs)
        np.frombuffer(memoryview(made.array.reshape(-1).view(np.uint8)), np.uint8)[...] = 0xA5
        return made

    monkeypatch.setattr(buffers, "new", filled)
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "cpu:c"])
def test_random_graphs_are_what_numpy_computes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    try:
        get(device).check()
    except DeviceError as e:
        pytest.skip(str(e))
    poisoned(monkeypatch)
    for seed in seeds(request, FEW if device == "cpu" else 1):
        try:
            check(Graphs(seed, STEPS, device), device)
        except Exception as e:
            raise AssertionError(shortest(seed, device)) from e


@pytest.mark.slow
def test_the_same_graph_makes_the_same_kernels_in_another_process() -> None:
    here = [identity(s) for s in range(12)]
    assert here == [identity(s) for s in range(12)]
    code = "from random_graphs import identity; print(*(identity(s) for s in range(12)))"
    path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support")
    env = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join([path, *filter(None, sys.path)])}
    found = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert found.stdout.split() == here
