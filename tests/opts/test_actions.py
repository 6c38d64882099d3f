"""What a search may append: all of it legal, enough of it, not too much."""

from __future__ import annotations

import pytest
from tilewright import named_kernels, targets
from tilewright.heuristics import starts
from tilewright.ir import OptError, sym
from tilewright.opts import Opts, actions, apply, apply_cached, dumps, opt
from tilewright.opts.actions import proposals

TARGET = targets.named("znver5")
MOST = 130


@pytest.mark.many
@pytest.mark.parametrize("name", named_kernels.NAMES)
@pytest.mark.covering(each=2)
def test_every_action_applies_and_changes_the_schedule(name: str) -> None:
    kernel = named_kernels.get(name).kernel(named_kernels.get(name).odd_shape)
    start = apply(kernel, (), TARGET)
    found = actions(start)
    assert found
    for more in found:
        assert apply(kernel, more, TARGET).hash != start.hash, dumps(more)


@pytest.mark.many
@pytest.mark.parametrize("name", named_kernels.NAMES)
@pytest.mark.covering(each=2)
def test_about_sixty_actions_a_step(name: str) -> None:
    kernel = named_kernels.make(name)
    for opts in ((), starts(kernel, TARGET, 2)[0]):
        found = actions(apply(kernel, opts, TARGET))
        assert 8 <= len(found) <= MOST, dumps(opts)
        assert len(set(found)) == len(found)


def test_actions_are_the_same_every_time() -> None:
    make = named_kernels.get("softmax").kernel
    first, again = (actions(apply(make(), (), TARGET)) for _ in range(2))
    assert [dumps(o) for o in first] == [dumps(o) for o in again]


def ops(found: list[Opts]) -> set[str]:
    return {o.op for more in found for o in more}


def test_every_option_of_the_device_can_be_reached() -> None:
    seen: set[str] = set()
    for name, opts in (("matmul", ()), ("matmul", (opt("TILE", "k", 128),)), ("sum_all", ()), ("softmax", ())):
        seen |= ops(actions(apply(named_kernels.make(name), opts, TARGET)))
    assert {"TILE", "MOVE", "UPCAST", "UNROLL", "PARALLEL", "SPLIT", "STAGE", "CACHE"} <= seen


@pytest.mark.slow
def test_a_search_can_go_on_from_any_action() -> None:
    kernel = named_kernels.make("matmul")
    for more in actions(apply(kernel, (), TARGET))[::9]:
        assert actions(apply(kernel, more, TARGET))


def test_proposals_hold_more_than_is_legal() -> None:
    start = apply(named_kernels.make("matmul", {"m": 100, "n": 100, "k": 100}), (), TARGET)
    assert {*actions(start)} < {*proposals(start)}


def test_split_reductions_and_symbols_have_actions() -> None:
    split = apply(named_kernels.make("sum_all"), (opt("SPLIT", "n", 8),), TARGET)
    assert not any(o.op == "SPLIT" for more in actions(split) for o in more)
    symbolic = named_kernels.make("matmul", {"m": sym("m", 1, 4096)})
    assert {"UPCAST", "TILE", "PARALLEL"} <= ops(actions(apply(symbolic, (), TARGET)))


def test_applying_is_remembered() -> None:
    kernel = named_kernels.make("matmul")
    assert apply_cached(kernel, (opt("UPCAST", "m", 8),), TARGET) is apply_cached(kernel, (opt("UPCAST", "m", 8),), TARGET)
    for _ in range(2):  # a refusal is said again
        with pytest.raises(OptError, match="already has upcast 8"):
            apply_cached(kernel, (opt("UPCAST", "m", 8), opt("UPCAST", "m", 4)), TARGET)
