"""How models are split: Alpa's own tests, ZeRO's figures, limits of memory, and shapes that do not divide."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import pytest

pytest.importorskip("scipy", reason="plans need SciPy (extra plans)")

from tilewright.placement import (
    MeshAxis,
    Model,
    PlanError,
    ShardArray,
    ShardGraph,
    ShardOp,
    TransformerSize,
    perceptron,
    plan,
    search_shardings,
    transformer,
    zero_stage,
)
from tilewright.placement.decided import Decided
from tilewright.placement.model_graphs import GraphMaker
from tilewright.placement.network import uniform
from tilewright.placement.planner import cut, placement_name

ALPA = (0.01, 0.1, 0.001)


def test_alpa_splits_the_batch_where_parameters_are_few() -> None:
    mesh = (MeshAxis(4, 1, 1, ALPA),)
    found = search_shardings(perceptron(6, 256, 32), mesh)
    assert found.optimal and found.communication == pytest.approx(6 * mesh[0].seconds("all-reduce", 32 * 32 * 4), rel=1e-6)
    assert {found.ops[f"y{k}"].split for k in range(6)} == {("b",)}


def test_alpa_splits_weights_by_columns_and_rows_where_they_are_many() -> None:
    mesh = (MeshAxis(4, 1, 1, ALPA),)
    found = search_shardings(perceptron(6, 32, 256), mesh)
    assert found.communication == pytest.approx(5 * mesh[0].seconds("all-reduce", 32 * 256 * 4), rel=1e-6)
    assert [found.ops[f"y{k}"].split for k in range(6)] == [("o",), ("i",)] * 3


def test_alpa_does_both_on_two_axes_and_more_ways_are_cheaper() -> None:
    mesh = (MeshAxis(2, 1, 1, ALPA), MeshAxis(2, 1, 0.1, ALPA))
    theirs = 6 * mesh[0].seconds("all-reduce", 32 * 32 * 4 / 2) + 5 * mesh[1].seconds("all-reduce", 256 * 32 * 4 / 2)
    found = search_shardings(perceptron(6, 256, 32), mesh, as_alpa=True)
    assert found.communication == pytest.approx(theirs, rel=0.01)
    assert [found.ops[f"y{k}"].split for k in range(6)] == [("b", "o"), ("b", "i")] * 3


@pytest.mark.slow
def test_more_ways_than_alpa_s_are_no_dearer() -> None:
    mesh = (MeshAxis(2, 1, 1, ALPA), MeshAxis(2, 1, 0.1, ALPA))
    graph = perceptron(6, 256, 32)
    assert search_shardings(graph, mesh).communication < search_shardings(graph, mesh, as_alpa=True).communication


def test_alpa_s_bert() -> None:
    mesh = (MeshAxis(4, 1, 1, ALPA),)
    found = search_shardings(transformer(TransformerSize(2, 128, 8, 8), 8), mesh)
    assert found.communication == pytest.approx((4 * 2 - 1) * mesh[0].seconds("all-reduce", 64 * 128 * 4), rel=1e-6)
    assert found.ops["attention 0"].split == ("h",)


def test_zero_stages() -> None:
    """7.5 G parameters in 16 bits, 12 bytes of optimiser state each, 64 devices: 120, 31.4, 16.6 and 1.9 GB."""
    n, psi = 64, 7.5e9
    found = [zero_stage(k).memory(n, 2 * psi, 2 * psi, 12 * psi) / 1e9 for k in range(4)]
    assert [round(x, 1) for x in found] == [120.0, 31.4, 16.6, 1.9]
    assert [zero_stage(k).sent(psi) / psi for k in range(4)] == [2, 2, 2, 3]
    with pytest.raises(PlanError, match="stages 0 to 3"):
        zero_stage(4)


def test_the_search_splits_state_gradients_and_parameters_as_memory_asks() -> None:
    """The same figures from the program: nothing in it knows of ZeRO."""
    g = GraphMaker(itemsize=2, state=12.0)
    rows, columns, batch = 75_000_000, 100, 64
    x, w = g.array("x", (batch, rows), "input"), g.array("w", (rows, columns), "parameter")
    graph = g.graph(g.product("y", x, ("b", "i"), w, ("i", "o"), ("b", "o"), {"b": batch, "i": rows, "o": columns}))
    mesh = (MeshAxis(64, 0, 1),)

    def by_batch(op: ShardOp, local: dict[str, int]) -> float:
        return 1e12 * local.get("b", 0)  # everything but a split batch is dear

    whole = search_shardings(graph, mesh, by_batch, allowed=lambda a, at: at == (-1,) or isinstance(a, ShardOp) or a.role != "parameter")
    split = search_shardings(graph, mesh, by_batch, memory=2e9)
    psi = rows * columns
    assert whole.memory == pytest.approx(16.6e9, rel=0.01) and split.memory == pytest.approx(1.9e9, rel=0.02)
    assert whole.sent() == pytest.approx(2 * 2 * psi * 63 / 64, rel=1e-3)
    with pytest.raises(PlanError, match="no plan fits into 1800000000 bytes a device: 1875000200 bytes is the least, on 64 devices"):
        search_shardings(graph, mesh, by_batch, memory=1.8e9)


def test_equal_layers_are_split_equally_and_cost_no_more() -> None:
    graph, mesh = transformer(TransformerSize(5, 16, 2, 8), 4, state=8.0), (MeshAxis(2, 1e-6, 1e-9),)

    def price(op: ShardOp, local: Mapping[str, int]) -> float:
        return 1e-9 * math.prod(local.values())

    free, equal = search_shardings(graph, mesh, price), search_shardings(graph, mesh, price, equal_layers=True)
    assert equal.step == pytest.approx(free.step) and free.optimal and equal.optimal
    between = [[(w.split, w.writes) for op in graph.ops if op.layer == k for w in [equal.ops[op.name]]] for k in (1, 2, 3)]
    assert between[0] == between[1] == between[2]
    with pytest.raises(PlanError, match="is the least") as e:
        search_shardings(graph, mesh, price, 1.0, equal_layers=True)
    least = float(re.findall(r"(\S+) bytes is the least", str(e.value))[0])
    assert 0.999 * least < search_shardings(graph, mesh, price, 1.001 * least, equal_layers=True).memory <= 1.001 * least


def test_prime_extents_are_not_split_and_arrays_must_fit() -> None:
    found = search_shardings(perceptron(2, 7, 13), (MeshAxis(4, 1, 1),))
    assert found.communication == 0 and {s.split for s in found.ops.values()} == {("",)}
    with pytest.raises(PlanError, match="y takes x as b, i, and its shape"):
        ShardGraph(
            {"x": ShardArray("x", (2, 3), role="input"), "z": ShardArray("z", (2,))},
            (ShardOp("y", {"b": 2, "i": 4}, (("x", ("b", "i")),), ("z", ("b",))),),
        )
    with pytest.raises(PlanError, match="one device at least"):
        MeshAxis(0)


def _model(layers: int = 3) -> Model:
    size = TransformerSize(layers, 16, 4, 8)
    return Model("small", layers, lambda which, batch: transformer(size, batch, which, state=8.0))


def _price(op: ShardOp, local: dict[str, int]) -> float:
    share = 1.0
    for axis, extent in local.items():
        share *= extent / op.axes[axis]
    return 1e-9 * op.flops * share


@pytest.mark.slow
def test_a_plan_adds_up_and_changes_with_links_and_memory() -> None:
    found = plan(_model(), 2, 8, _price, uniform(1e-6, 1e-10))
    best = found.best
    assert sum(best.shares().values()) == pytest.approx(best.step) and best.binding == "compute"
    assert all(p.step >= best.step for p in found.others)
    assert "data parallel" in placement_name(best.parts[0])
    slow = plan(_model(), 2, 8, _price, uniform(1e-3, 1e-5))
    assert slow.best.step > best.step and placement_name(slow.best.parts[0]) == "every device does the same"
    some = plan(_model(), 2, 8, _price, uniform(1e-6, 1e-8)).best
    assert best.step < some.step < slow.best.step and some.shares()["gradients and parameters between devices"] > 0
    least = min(p.memory for p in (best, *found.others))
    assert plan(_model(), 2, 8, _price, uniform(1e-6, 1e-10), memory=1.01 * least).best.memory <= 1.01 * least
    with pytest.raises(PlanError, match="bytes is the least") as e:
        plan(_model(), 2, 8, _price, uniform(1e-6, 1e-10), memory=0.2 * least)
    named = float(re.findall(r"(\S+) bytes is the least", str(e.value))[0])
    assert 0.99 * named < plan(_model(), 2, 8, _price, uniform(1e-6, 1e-10), memory=1.01 * named).best.memory <= 1.01 * named


def test_more_stages_than_layers_are_no_plan_and_layers_are_cut_evenly() -> None:
    found = plan(_model(1), 2, 2, _price, uniform(1e-6, 1e-10))
    assert ("2 stages", "small has 1 layers") in found.rejected
    one = (MeshAxis(1),)
    found = cut(7, 3, [(1, one)], 3, lambda n, last, _: n + 2.0 * last, 8)
    assert [c.layers for c in found] == [range(0, 3), range(3, 6), range(6, 7)]


def test_stages_may_have_unlike_meshes() -> None:
    """A last layer that is as heavy as four others gets more devices, and a plan's name says how many."""
    having = [(n, (MeshAxis(n),)) for n in (1, 2)]
    found = cut(4, 2, having, 3, lambda n, last, mesh: (n + 3.0 * last) / mesh[0].n, 8)
    assert [(len(c.layers), c.mesh[0].n) for c in found] == [(2, 1), (2, 2)]
    assert cut(4, 2, having[:1], 3, lambda n, last, mesh: 1.0, 8) == [], "three devices cannot be dealt out so"

    def price(op: ShardOp, local: dict[str, int]) -> float:
        return _price(op, local) * (5 if op.layer == 2 else 1)

    best = plan(_model(), 3, 12, price, uniform(1e-3, 1e-6), decided=Decided(stages=2)).best
    assert best.devices == 3 and sorted(map(math.prod, best.meshes)) == [1, 2] and best.name.endswith("of 1 and 2 devices")


@pytest.mark.parametrize("zero", range(4))
def test_what_is_wanted_is_what_is_planned(zero: int) -> None:
    decided = Decided(2, "zb-v", 4, None, 2, zero)
    found = plan(_model(4), 8, 16, _price, uniform(1e-6, 1e-9), decided=decided)
    best = found.best
    assert (best.schedule.name, best.microbatches, best.meshes) == ("zb-v", 4, ((2, 2), (2, 2))) and not found.others
    for part in best.parts:
        graph, ways = part.plan.graph, part.plan.ops
        assert all(ways[op.name].split[0] == "b" for op in graph.ops if "b" in op.axes)
        assert all(ways[op.name].split[1] in ("h", "o") for op in graph.ops if {"h", "o"} & {*op.axes} and "b" in op.axes)
        assert {(part.plan.arrays[op.writes[0]][0] >= 0, ways[op.name].writes[0] >= 0) for op in graph.updates()} == {(zero > 2, zero > 0)}
    with pytest.raises(PlanError, match="4 devices cannot be dealt out to 5 stages"):
        plan(_model(8), 4, 8, _price, uniform(1e-6, 1e-9), decided=Decided(5))
    with pytest.raises(PlanError, match="cannot be split as asked"):
        plan(_model(4), 3, 3, _price, uniform(1e-6, 1e-9), decided=Decided(1, tensor=3))
