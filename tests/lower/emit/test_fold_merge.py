"""A tile's largest component is merged out of its accumulators where that is the last thing the block does."""

from __future__ import annotations

from typing import Any

import pytest
from checks import check_twin
from tilewright import kernels, targets
from tilewright.ir.normal_form import normalise
from tilewright.lower import lower
from tilewright.lower.emit.tree import Merge
from tilewright.opts import apply, parse

TARGET = targets.named("cascadelake")
SHAPE = {"b": 1, "h": 2, "s": 70, "d": 16}
ROWS: list[Any] = [["TILE", "key", 16], ["UPCAST", "row", 16], ["STAGE", "q", {"at": "row"}], ["STAGE", "P", {"at": "key"}]]
CLOSED: list[list[Any]] = [
    ROWS,
    [*ROWS, ["UPCAST", "key@dot", 4], ["UPCAST", "d@out", 4], ["UNROLL", "key@out", 2]],
    [*ROWS, ["UPCAST", "key@out", 2]],
    [*ROWS, ["TILE", "d@out", 8], ["UPCAST", "d@out", 4]],
    [["TILE", "key", 8], ["UPCAST", "d@out", 16], ["UPCAST", "row", 2]],
    [["TILE", "key", 8], ["UPCAST", "d@out", 16], ["STAGE", "v", {"at": "key"}]],
    [["TILE", "key", 8]],
]
APART: list[list[Any]] = [
    [*ROWS, ["TILE", "key@out", 4], ["MOVE", "key@out", {"before": "d@out"}]],
    [["TILE", "key", 8], ["TILE", "row", 10], ["UPCAST", "row", 5], ["MOVE", "key", {"before": "row.t"}]],
]


def closings(opts: list[Any], monkeypatch: pytest.MonkeyPatch, name: str = "attention") -> list[bool]:
    """For every reduction that asks: whether its accumulators are merged at once."""
    found: list[bool] = []
    close = Merge.close

    def watched(self: Merge, n: Any) -> Any:
        out = close(self, n)
        found.append(out is not None)
        return out

    with monkeypatch.context() as m:
        m.setattr(Merge, "close", watched)
        lower(apply(normalise(kernels.make(name, SHAPE)), parse(opts), TARGET))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("opts", CLOSED)
def test_accumulators_are_merged_at_once(opts: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    found = closings(opts, monkeypatch)
    assert found and all(found)
    check_twin(kernels.make("attention", SHAPE), parse(opts), TARGET)


@pytest.mark.slow
@pytest.mark.parametrize("opts", APART)
def test_partial_sums_and_shared_loops_are_merged_afterwards(opts: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any(closings(opts, monkeypatch))
    check_twin(kernels.make("attention", SHAPE), parse(opts), TARGET)


@pytest.mark.many
@pytest.mark.parametrize("name", ["attention_full", "attention_window", "attention_grouped"])
def test_every_form_agrees(name: str) -> None:
    more = {"attention_window": {"w": 7}, "attention_grouped": {"h": 4, "hk": 2}}.get(name, {})
    check_twin(kernels.make(name, {**SHAPE, **more}), parse(CLOSED[1]), TARGET)


def test_no_room_is_kept_for_a_tile_of_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduled = apply(normalise(kernels.make("attention", SHAPE)), parse(ROWS), TARGET)
    closed = lower(scheduled).scratch
    monkeypatch.setattr(Merge, "can_close", lambda *_: False)
    assert lower(scheduled).scratch - closed >= 16 * 16 * 4


def test_a_fold_whose_largest_component_is_two_values_is_merged_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """argmax keeps a value and where it was, over the same axes."""
    kernel = kernels.make("argmax", {"m": 5, "n": 64})
    monkeypatch.setattr(Merge, "close", lambda *_: pytest.fail("closed"))
    opts = parse([["TILE", "n", 16]])
    lower(apply(normalise(kernel), opts, TARGET))
    check_twin(kernel, opts, TARGET)
