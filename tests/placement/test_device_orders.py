"""Slow links: which device takes which place of a plan, and what a slow link costs where it cannot be avoided."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
from tilewright.placement import DevicePlan, Model, PlanError, ShardOp, TransformerSize, plan, transformer
from tilewright.placement.decided import Decided
from tilewright.placement.list_schedule import DevicePlaces, Slow, best_orders, orders
from tilewright.placement.network import uniform


def test_devices_of_a_slow_link_take_places_that_share_no_axis() -> None:
    (square,) = best_orders([(2, 2)], {(0, 1): 9.0}).items()
    assert square[0] == ((1.0, 1.0),) and all({order[0], order[3]} == {0, 1} or {order[1], order[2]} == {0, 1} for order in square[1])
    (row,) = best_orders([(4,)], {(0, 1): 9.0})
    assert row == ((9.0,),), "in a row each device talks to each"
    (alone,) = best_orders([(1,), (2,)], {(2,): 9.0}).items()
    assert alone[0] == ((1.0,), (1.0,)) and all(order[0] == 2 for order in alone[1])
    assert len({*orders(4, {(1,): 2.0, (0, 3): 2.0})}) == 24 and [*orders(4, {})] == [(0, 1, 2, 3)]


def test_a_link_is_used_where_something_is_sent() -> None:
    at, sends = DevicePlaces([(2,), (2,)], (3, 0, 1, 2)), {(0, 1): {(0, 0), (1, 1)}, (1, 0): {(0, 0)}}
    assert sorted(at.sends((1, 3), sends)) == [(0, 1), (1, 0)] and at.sends((0, 2), sends) == [(0, 1)]
    assert at.sends((2, 3), sends) == [] and at.sends((2,), sends) == [(0, 1)] and at.axis((0, 3)) == (0, [0])


def _plan(devices: int, slow: Slow, decided: Decided, times: float = 1.0) -> DevicePlan:
    size = TransformerSize(3, 16, 4, 8)
    model = Model("small", 3, lambda layers, batch: transformer(size, batch, layers))

    def price(op: ShardOp, local: dict[str, int]) -> float:
        share = 1.0
        for axis, extent in local.items():
            share *= extent / op.axes[axis]
        return 1e-9 * op.flops * share

    return plan(model, devices, 4, price, replace(uniform(times * 1e-6, times * 1e-9), slow=slow), decided=decided).best


@pytest.mark.parametrize("decided", [Decided(1, tensor=1), Decided(2, "1f1b", 2), Decided(2, "zb-h1", 4)])
def test_the_only_link_being_slow_is_a_slow_network(decided: Decided) -> None:
    slow = _plan(2, {(0, 1): 50.0}, decided)
    assert slow.step == pytest.approx(_plan(2, {}, decided, 50).step) and slow.step > _plan(2, {}, decided).step and slow.slow[0].where


def test_one_slow_link_is_avoided_and_a_slow_device_comes_last() -> None:
    pipeline = Decided(3, "1f1b", 4)
    free = _plan(3, {}, pipeline)
    for pair in combinations(range(3), 2):
        found = _plan(3, {pair: 50.0}, pipeline)
        assert found.step == free.step and found.slow[0].where == "" and {found.order[0], found.order[2]} == {*pair}
    device = _plan(3, {(1,): 50.0}, pipeline)
    assert device.step > free.step and device.order[1] != 1 and device.slow[0].where.startswith("between stages")
    with pytest.raises(PlanError, match="numbered from 0 to 2"):
        _plan(3, {(3,): 2.0}, pipeline)
    with pytest.raises(PlanError, match="1 or more times as slow"):
        _plan(3, {(0, 1): 0.5}, pipeline)
