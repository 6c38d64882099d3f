"""What each option does to the loops of a kernel, and which lists are the same schedule."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tilewright import named_kernels, targets
from tilewright.ir import index as ix
from tilewright.ir.node import axis, const
from tilewright.ir.normal_form import normalise
from tilewright.opts import Opt, apply, dumps, nest_lines, opt, parse, short
from tilewright.opts.loop_tree import _counted
from tilewright.opts.nests import build, flat
from tilewright.opts.schedule import Scheduled

TARGET = targets.named("znver5")


def scheduled(opts: list[Any], name: str = "matmul", shape: dict[str, int] | None = None) -> Scheduled:
    return apply(named_kernels.make(name, shape or {"m": 64, "n": 96, "k": 128}, "float32"), parse(opts), TARGET)


def loops(s: Scheduled, nest: str) -> list[tuple[str, object, int, str]]:
    n = next(n for n in s.nests if n.name == nest)
    return [(p.name, p.size, p.stride, p.kind) for p in (*s.loops(n), *s.registers(n))]


def test_the_empty_schedule_is_the_kernel() -> None:
    assert loops(scheduled([]), "acc") == [("m", 64, 1, "serial"), ("n", 96, 1, "serial"), ("k", 128, 1, "serial")]


def test_tile_upcast_unroll_parallel_and_move() -> None:
    s = scheduled(
        [["UPCAST", "m", 8], ["UPCAST", "n", 32], ["TILE", "k", 32], ["UNROLL", "k", 4], ["PARALLEL", "n"], ["MOVE", "k", {"before": "m"}]]
    )
    assert loops(s, "acc") == [
        ("n", 3, 32, "grid"), ("k", 4, 32, "serial"), ("m", 8, 8, "serial"), ("k.t", 8, 4, "serial"),
        ("k.r", 4, 1, "unroll"), ("m.u", 8, 1, "upcast"), ("n.u", 32, 1, "upcast"),
    ]  # fmt: skip
    assert loops(s, "c") == [("n", 3, 32, "grid"), ("m", 8, 8, "serial"), ("m.u", 8, 1, "upcast"), ("n.u", 32, 1, "upcast")]
    assert s.effects == frozenset()


def test_partial_results_reassociate() -> None:
    s = scheduled([["UPCAST", "k", 16]])
    assert ("k.u", 16, 1, "upcast") in loops(s, "acc")
    assert s.effects == {"REASSOC"}


def test_a_ragged_block_clips_its_loop() -> None:
    s = scheduled([["UPCAST", "n", 16], ["TILE", "n", 64]])
    assert loops(s, "acc")[1:3] == [("n", 2, 64, "serial"), ("n.t", 4, 16, "serial")]
    n = next(a for a in s.plans if a.arg.name == "n")
    assert [p.clip for p in s.parts(n)] == [False, True, False]
    assert not s.plans[n].masked


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([["TILE", "n", 48], ["UPCAST", "n", 16]], [["UPCAST", "n", 16], ["TILE", "n", 48]]),
        ([["TILE", "k", 64], ["TILE", "k", 16]], [["TILE", "k", 16], ["TILE", "k", 64]]),
        ([["UPCAST", "m", 4], ["STAGE", "b", {"at": "n"}]], [["STAGE", "b", {"at": "n"}], ["UPCAST", "m", 4]]),
        ([["STAGE", "b", {"at": "n", "order": "panel"}]], [["STAGE", "b", {"at": "n"}]]),
    ],
)
def test_the_same_schedule_written_twice_hashes_alike(a: list[Any], b: list[Any]) -> None:
    assert scheduled(a).hash == scheduled(b).hash


def test_different_schedules_hash_apart() -> None:
    lists: list[list[Any]] = [
        [], [["UPCAST", "m", 8]], [["UPCAST", "m", 4]], [["TILE", "m", 8]], [["PARALLEL", "m"]], [["PARALLEL", "n"]], [["UPCAST", "k", 8]], [["UNROLL", "k", 8]],
        [["STAGE", "b", {"at": "n"}]], [["STAGE", "b", {"at": "m"}]], [["STAGE", "b", {"at": "n", "order": "row"}]], [["CACHE", "c", {"policy": "stream"}]],
        [["STAGE", "c", {"at": "m"}]], [["SPLIT", "k", 4]], [["SPLIT", "k", 8]], [["MOVE", "k", {"before": "n"}]], [["MOVE", "k", {"before": "m"}]],
    ]  # fmt: skip
    assert len({scheduled(o).hash for o in lists}) == len(lists)


def test_a_panel_is_laid_out_in_the_order_it_is_read() -> None:
    s = scheduled([["UPCAST", "m", 8], ["UPCAST", "n", 32], ["TILE", "n", 64], ["PARALLEL", "n"], ["STAGE", "b", {"at": "n"}]])
    plan = s.stages["b"]
    assert [(p.name, stride) for p, stride in plan.parts] == [("n.t", 128 * 32), ("k", 32), ("n.u", 1)]
    assert plan.bytes == 64 * 128 * 4


def test_a_staged_value_is_filled_by_its_first_reader() -> None:
    s = scheduled([["STAGE", "e", {"at": "m"}]], "softmax", {"m": 8, "n": 96})
    assert [n.name for n in s.nests if n.fills] == ["total"]


@pytest.mark.parametrize(("copies", "alone"), [(1, True), (4, True), (8, False)])
def test_a_staged_value_is_computed_once_for_loops_it_does_not_depend_on(copies: int, alone: bool) -> None:
    """The first reader of dS runs over d as well: dS has a nest of its own, unless all of d is in registers."""
    more = [["UPCAST", "d@out", copies]] if copies > 1 else []
    s = scheduled([["TILE", "key", 16], *more, ["STAGE", "dS", {"at": "key"}]], "attention_dq", {"b": 1, "h": 1, "s": 32, "d": 8})
    assert [n.kind for n in s.nests if n.name == "dS"] == ["point"] * alone
    assert [n.name for n in s.nests if n.fills] == ([] if alone else ["total"])


def test_a_family_is_cut_at_every_site_and_a_site_alone() -> None:
    both = scheduled([["UPCAST", "n", 16]], "softmax", {"m": 8, "n": 96})
    one = scheduled([["UPCAST", "n@sum", 16]], "softmax", {"m": 8, "n": 96})
    assert sum(p.kind == "upcast" for n in both.nests for p in both.registers(n)) == 3
    assert [n.name for n in one.nests if one.registers(n)] == ["total"]


def test_splitk_makes_two_phases() -> None:
    s = scheduled([["SPLIT", "k", 4], ["UPCAST", "n", 16]])
    assert [p.kernel.name for p in s.phases] == ["matmul_part", "matmul"]
    assert s.phases[0].grid[0].name == "k.s"
    assert s.phases[0].grid[0].size == 4
    assert s.effects == {"REASSOC"}


def test_padding_allows_more_copies_than_a_quarter_of_extra_work() -> None:
    s = scheduled([["PADTO", "m", 48], ["UPCAST", "m", 48]])
    assert ("m", 2, 48, "serial") in loops(s, "acc")


def test_every_schedule_prints_as_a_nest() -> None:
    for opts in (
        [],
        [["SPLIT", "k", 4]],
        [["UPCAST", "n", 16], ["UPCAST", "k", 8], ["UNROLL", "k", 2], ["STAGE", "b", {"at": "n"}], ["PARALLEL", "m"]],
    ):
        lines = nest_lines(scheduled(opts))
        assert {line.kind for line in lines} <= {"grid", "serial", "reduce", "upcast", "lanes", "unroll", "partial", "stage", "store"}
        assert any("acc" in line.label for line in lines)


names = st.sampled_from(["m", "n", "k", "n@out", "k.t", "b"])
ints = st.builds(
    lambda op, on, n: Opt(op, on, n), st.sampled_from(["TILE", "UPCAST", "UNROLL", "SPLIT", "PADTO"]), names, st.integers(1, 4096)
)
plain = st.builds(lambda op, on: Opt(op, on), st.sampled_from(["PARALLEL", "EARLY_EXIT"]), names)
moves = st.builds(lambda on, before: opt("MOVE", on, before=before), names, names)
stages = st.builds(
    lambda on, at, order, pad: opt("STAGE", on, at=at, order=order, pad=pad),
    names,
    names,
    st.sampled_from(["panel", "row"]),
    st.integers(0, 64),
)


@given(st.lists(st.one_of(ints, plain, moves, stages), max_size=6))
def test_json_round_trips(opts: list[Opt]) -> None:
    again = parse(dumps(opts))
    assert again == tuple(opts)
    assert hash(again) == hash(tuple(opts))
    assert short(again) == short(opts)


def test_nests_are_made_once_for_the_same_answers() -> None:
    kernel = normalise(named_kernels.make("softmax", {"m": 4, "n": 8}))
    first, again = build(kernel, {"e": True}), build(kernel, {"e": True})
    assert first == again and first is not again  # the list is the caller's own
    apart = build(kernel, {"e": True}, again=lambda v, nest, by: True)
    assert [n.name for n in flat(apart)] != [n.name for n in flat(first)]
    assert build(kernel, {"e": True}, again=lambda v, nest, by: True) == apart
    assert build(kernel, {"e": True}) == first


def test_what_a_nest_says_of_its_nodes_covers_what_it_fills() -> None:
    filling = next(n for n in flat(build(normalise(named_kernels.make("softmax", {"m": 4, "n": 8})), {"e": True})) if n.fills)
    assert set(filling.nodes) < set(filling.all_nodes)
    assert {n.op for n in filling.loads} == {"load"} and {n.op for n in filling.refs} == {"ref"}


def test_tiles_are_counted_as_bounds_are_evaluated() -> None:
    i, j = axis("i", 5), axis("j", 7)
    low = ix.minmax("max", const(0), ix.floordiv(ix.add(i, const(-3)), 2))
    high = ix.minmax("min", const(6), ix.add(ix.mod(ix.add(j, const(1)), 4), i, 2))
    want = 0
    for a, b in product(range(5), range(7)):
        at = {i: a, j: b}
        want += max(0, ix.evaluate(high, at) - ix.evaluate(low, at))
    assert _counted(((low, high),), ((i, 5), (j, 7))) == want
    assert _counted(((const(1), const(4)),), ()) == 3
