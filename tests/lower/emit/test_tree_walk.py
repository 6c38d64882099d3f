"""A tile's largest component is merged out of its accumulators where that is the last thing the block does."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from checks import check_twin
from plain_attention import plain
from tilewright import named_kernels, targets
from tilewright.interp import run as interpret
from tilewright.ir.body import Fold
from tilewright.ir.evaluation import evaluate, evaluate_kinds
from tilewright.ir.normal_form import normalise
from tilewright.ir.skipped_tiles import skip_conditions
from tilewright.lower import lower
from tilewright.lower.emit.tree_walk import Merge
from tilewright.measure.inputs import generate, generate_special
from tilewright.opts import apply, parse
from tilewright.renderers import render

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
        lower(apply(normalise(named_kernels.make(name, SHAPE)), parse(opts), TARGET))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("opts", CLOSED)
def test_accumulators_are_merged_at_once(opts: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    found = closings(opts, monkeypatch)
    assert found and all(found)
    check_twin(named_kernels.make("attention", SHAPE), parse(opts), TARGET)


@pytest.mark.slow
@pytest.mark.parametrize("opts", APART)
def test_partial_sums_and_shared_loops_are_merged_afterwards(opts: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any(closings(opts, monkeypatch))
    check_twin(named_kernels.make("attention", SHAPE), parse(opts), TARGET)


@pytest.mark.many
@pytest.mark.parametrize("name", ["attention_full", "attention_window", "attention_grouped"])
def test_every_form_agrees(name: str) -> None:
    more = {"attention_window": {"w": 7}, "attention_grouped": {"h": 4, "hk": 2}}.get(name, {})
    check_twin(named_kernels.make(name, {**SHAPE, **more}), parse(CLOSED[1]), TARGET)


def test_no_room_is_kept_for_a_tile_of_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduled = apply(normalise(named_kernels.make("attention", SHAPE)), parse(ROWS), TARGET)
    closed = lower(scheduled).scratch
    monkeypatch.setattr(Merge, "can_close", lambda *_: False)
    assert lower(scheduled).scratch - closed >= 16 * 16 * 4


def test_a_fold_whose_largest_component_is_two_values_is_merged_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """argmax keeps a value and where it was, over the same axes."""
    kernel = named_kernels.make("argmax", {"m": 5, "n": 64})
    monkeypatch.setattr(Merge, "close", lambda *_: pytest.fail("closed"))
    opts = parse([["TILE", "n", 16]])
    lower(apply(normalise(kernel), opts, TARGET))
    check_twin(kernel, opts, TARGET)


# Tiles of a cut fold that do nothing are not run, and the rest means the same.


TARGET_SKIPPED_TILES = targets.named("avx2")
SHAPE_SKIPPED_TILES = {"b": 1, "h": 2, "s": 22, "d": 4}
BLOCKS = [
    [["TILE", "key", 4]],
    [["TILE", "key", 4], ["UPCAST", "row", 8], ["STAGE", "q", {"at": "row"}], ["STAGE", "P", {"at": "key"}]],
    [["TILE", "key", 8], ["UPCAST", "row", 4], ["UPCAST", "key@dot", 4], ["PARALLEL", "h"], ["PARALLEL", "row"]],
    [["TILE", "key", 6], ["TILE", "row", 12], ["UPCAST", "row", 4], ["PARALLEL", "row"], ["MOVE", "key", {"before": "row.t"}]],
    [["TILE", "row", 5], ["MOVE", "row", {"before": "h"}], ["TILE", "key", 3], ["STAGE", "v", {"at": "key"}]],
]


@pytest.mark.many
@pytest.mark.parametrize("opts", BLOCKS)
@pytest.mark.parametrize("name", ["attention", "attention_window", "attention_grouped"])
@pytest.mark.covering
def test_the_twin_agrees(name, opts):
    more = {"attention_window": {"w": 7}, "attention_grouped": {"h": 4, "hk": 2}}.get(name, {})
    check_twin(named_kernels.make(name, {**SHAPE_SKIPPED_TILES, **more}), parse(opts), TARGET_SKIPPED_TILES)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "opts"),
    [
        ("attention_dq", [["TILE", "key", 4], ["UPCAST", "row", 8], ["STAGE", "dS", {"at": "key"}], ["PARALLEL", "row"]]),
        (
            "attention_dq",
            [["TILE", "key", 6], ["TILE", "row", 12], ["UPCAST", "row", 4], ["PARALLEL", "row"], ["MOVE", "key", {"before": "row.t"}]],
        ),
        ("attention_dkv", [["TILE", "row", 4], ["UPCAST", "key", 8], ["STAGE", "P", {"at": "row"}], ["PARALLEL", "key"]]),
        (
            "attention_dkv",
            [
                ["TILE", "row", 8],
                ["UPCAST", "key", 4],
                ["UPCAST", "row@in", 4],
                ["STAGE", "k", {"at": "key"}],
                ["STAGE", "dS", {"at": "row"}],
            ],
        ),
    ],
)
def test_the_twin_of_gradients_agrees(name, opts):
    check_twin(named_kernels.make(name, SHAPE_SKIPPED_TILES), parse(opts), TARGET_SKIPPED_TILES)


def test_tiles_of_queries_before_the_keys_are_not_read():
    kernel = named_kernels.make("attention_dkv", SHAPE_SKIPPED_TILES)
    inputs = generate(kernel, {}, 0)
    want = evaluate(kernel, inputs)
    inputs["dy"][:, :, :8] = np.nan
    got = {b.name: np.zeros(b.shape, np.float32) for b in kernel.outputs}
    opts = [["TILE", "row", 4], ["UPCAST", "key", 4], ["PARALLEL", "key"]]
    interpret(lower(apply(kernel, parse(opts), TARGET_SKIPPED_TILES)), {**inputs, **got})
    for name, y in got.items():
        assert np.isnan(y[:, :, :8]).all()
        np.testing.assert_allclose(y[:, :, 8:], want[name][:, :, 8:], rtol=1e-4, atol=1e-5)


PLAIN = [{}, {"finite": False}, {"filled": True}, {"seen": lambda i, j: (j <= i) & (j > i - 7), "finite": False}]


@pytest.mark.many
@pytest.mark.parametrize("opts", BLOCKS)
@pytest.mark.parametrize("how", PLAIN, ids=["clamped", "bare", "filled", "window"])
@pytest.mark.covering
def test_the_twin_of_one_mask_agrees(how, opts):
    kernel = normalise(plain(**how))
    assert skip_conditions(next(i for i in kernel.body if isinstance(i, Fold)))
    check_twin(kernel, parse(opts), TARGET_SKIPPED_TILES)


def test_the_twin_of_one_mask_agrees_as_it_is_written():
    """Outside the normal form nothing is skipped."""
    check_twin(plain(), parse(BLOCKS[1]), TARGET_SKIPPED_TILES)


@pytest.mark.many
@pytest.mark.parametrize("how", PLAIN[:3], ids=["clamped", "bare", "filled"])
def test_one_mask_reads_no_later_tiles(how):
    kernel = normalise(plain(**how))
    inputs = generate(kernel, {}, 0)
    want = evaluate(kernel, inputs)["y"]
    inputs["v"][:, 8:] = np.nan
    y = np.zeros(want.shape, np.float32)
    interpret(
        lower(apply(kernel, parse([["TILE", "key", 4], ["UPCAST", "row", 4], ["PARALLEL", "row"]]), TARGET_SKIPPED_TILES)),
        {**inputs, "y": y},
    )
    assert np.isnan(y[:, 8:]).all()
    np.testing.assert_allclose(y[:, :8], want[:, :8], rtol=1e-5)


@pytest.mark.many
@pytest.mark.parametrize("how", PLAIN[:3], ids=["clamped", "bare", "filled"])
@pytest.mark.parametrize("opts", [BLOCKS[1], BLOCKS[3]])
@pytest.mark.covering
def test_one_mask_on_special_values(how, opts):
    """Whether tiles are skipped or not, what the reference is certain of comes out."""
    kernel = normalise(plain(**how))
    for seed in range(2):
        inputs = generate_special(kernel, {}, seed)
        value, _, loose, _ = evaluate_kinds(kernel, inputs)["y"]
        y = np.zeros(value.shape, np.float32)
        with np.errstate(all="ignore"):
            interpret(lower(apply(kernel, parse(opts), TARGET_SKIPPED_TILES)), {**inputs, "y": y})
        sure = np.ones(value.shape, bool) if loose is None else ~loose
        assert (np.isnan(y) == np.isnan(value))[sure].all() and (np.isinf(y) == np.isinf(value))[sure].all()
        assert sure.any()


@pytest.mark.slow
@pytest.mark.parametrize("w", [1, 3, 4, 22, 100])
def test_windows_of_every_width(w):
    check_twin(named_kernels.make("attention_window", {**SHAPE_SKIPPED_TILES, "w": w}), parse(BLOCKS[2]), TARGET_SKIPPED_TILES)


def test_a_symbolic_length():
    from tilewright.ir import sym

    kernel = named_kernels.make("attention", {**SHAPE_SKIPPED_TILES, "s": sym("s", 1, 40)})
    opts = parse([["TILE", "key", 8], ["UPCAST", "row", 4], ["UPCAST", "key@dot", 4], ["PARALLEL", "row"]])
    for s in (1, 7, 8, 23):
        check_twin(kernel, opts, TARGET_SKIPPED_TILES, {"s": s})


def ran(name, shape, opts, spoil):
    """y and which of its elements are NaN where `spoil(inputs)` has put some."""
    kernel = named_kernels.make(name, shape)
    inputs = generate(kernel, {}, 0)
    want = evaluate(kernel, inputs)["y"]
    spoil(inputs)
    y = np.zeros(want.shape, np.float32)
    interpret(lower(apply(kernel, parse(opts), TARGET_SKIPPED_TILES)), {**inputs, "y": y})
    return want, y


def test_later_tiles_are_not_read():
    def spoil(x):
        x["v"][:, :, 8:] = np.nan

    want, y = ran("attention", SHAPE_SKIPPED_TILES, [["TILE", "key", 4], ["UPCAST", "row", 4], ["PARALLEL", "row"]], spoil)
    assert np.isnan(y[:, :, 8:]).all()
    np.testing.assert_allclose(y[:, :, :8], want[:, :, :8], rtol=1e-5)


@pytest.mark.slow
def test_tiles_before_the_window_are_not_read():
    def spoil(x):
        x["v"][:, :, :8] = np.nan

    want, y = ran(
        "attention_window", {**SHAPE_SKIPPED_TILES, "w": 4}, [["TILE", "key", 4], ["UPCAST", "row", 4], ["PARALLEL", "row"]], spoil
    )
    np.testing.assert_allclose(y[:, :, 12:], want[:, :, 12:], rtol=1e-5)
    assert np.isnan(y[:, :, :8]).all()


def test_nan_among_the_keys_that_count_is_seen():
    def spoil(x):
        x["q"][:, :, 5] = np.nan
        x["k"][:, :, 9] = np.nan

    want, y = ran("attention", SHAPE_SKIPPED_TILES, BLOCKS[2], spoil)
    expect = np.zeros(want.shape, bool)
    expect[:, :, 5] = expect[:, :, 9:] = True
    assert (np.isnan(y) == expect).all()


def test_whole_tiles_compare_nothing():
    """Where the mask holds throughout a tile it is not computed, whatever site of the folded axis it is written over."""
    kernel = named_kernels.make("attention", {"b": 1, "h": 2, "s": 256, "d": 16}, "float32")
    opts = parse([["TILE", "key", 64], ["UPCAST", "row", 32], ["PARALLEL", "row"], ["STAGE", "P", {"at": "key"}]])
    text = render(lower(apply(kernel, opts, TARGET_SKIPPED_TILES)), TARGET_SKIPPED_TILES).text
    end = re.search(r"icmp slt i64 %i\d+\.next, %v\d+", text)  # of the only loop whose length is not constant: the whole tiles
    assert end is not None and " sle " not in text[: end.start()] and " sle " in text[end.start() :]
