"""Plans on local processes: equal to one process, mistakes are caught, and a rank that dies is named."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from drawn_plans import drawn_plan, faulty
from thorough import amount
from thread_ranks import in_threads
from tilewright.placement import SCHEDULES, PlanError, ShardOp
from tilewright.placement.running import PlannedRun, launcher
from tilewright.placement.running.planned_run import evaluate
from tilewright.placement.transfers import Placed, transfers


@pytest.fixture(scope="module")
def few() -> list[PlannedRun]:
    """Plans over two ranks: a V, a split batch, and stages that hold the model twice."""
    pytest.importorskip("scipy", reason="plans need SciPy (extra plans)")
    draw = random.Random(1)
    return [drawn_plan(2, draw, name, least) for name, least in (("zb-v", 2), ("gpipe", 1), ("dualpipe", 2))]


def _over(backend: str, plans: list[PlannedRun], kill: int | None = None) -> list[launcher.Ran]:
    try:
        launcher.check(backend)
    except PlanError as e:
        pytest.skip(str(e))
    return launcher.run_plans(plans, backend=backend, kill=kill)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_random_plans_have_the_bits_of_one_process_and_planted_mistakes_do_not(ranks: int, request: pytest.FixtureRequest) -> None:
    pytest.importorskip("scipy", reason="plans need SciPy (extra plans)")
    draw = random.Random(ranks)
    names = sorted(SCHEDULES)
    plans = [
        drawn_plan(ranks, draw, names[k % len(names)] if ranks == 4 else "") for k in range(amount(request, 3 if ranks < 4 else 9, 60))
    ]
    assert [(p.name, wrong) for p in plans if (wrong := in_threads(p))] == []
    assert [(p.fault, p.name) for x in plans if (p := faulty(x, draw)) is not None and not in_threads(p)] == []


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["mpi", "gloo"])
def test_ranks_are_processes(backend: str, few: list[PlannedRun], request: pytest.FixtureRequest) -> None:
    if backend == "gloo" and not amount(request, 0, 1):
        pytest.skip("three processes import PyTorch: make test-thorough")
    wrong = replace(few[2], fault="missing-all-reduce")
    assert [bool(r.wrong) for r in _over(backend, [*few, wrong])] == [False, False, False, True]


@pytest.mark.slow
def test_a_rank_that_dies_ends_the_run_and_is_named_with_its_operation(few: list[PlannedRun]) -> None:
    with pytest.raises(PlanError, match=r"rank 1 died in: BW?\d.* of step 1 on stage 1"):
        _over("mpi", few[:1], kill=1)


def test_who_sends_what_between_stages_of_unlike_meshes() -> None:
    """Every element of each target's piece comes once, and from a device that has it."""
    shape = (4, 6)
    ends = [
        Placed((0,), (2,)),
        Placed((-1,), (3,)),
        Placed((1,), (3,)),
        Placed((0, 0), (2, 2)),
        Placed((1, 0), (2, 2)),
        Placed((-1,), (1,)),
    ]
    for source in ends:
        for target in ends:
            came = [np.zeros(shape, int) for _ in target.boxes(shape)]
            for t in transfers(shape, source, target):
                place = tuple(slice(a, b) for a, b in t.box)
                came[t.target][place] += 1
                held = source.boxes(shape)[t.source]
                assert all(a <= c and d <= b for (a, b), (c, d) in zip(held, t.box))
            for box, seen in zip(target.boxes(shape), came):
                wanted = np.zeros(shape, int)
                wanted[tuple(slice(a, b) for a, b in box)] = 1
                assert np.array_equal(seen, wanted), (source, target)


@pytest.mark.slow
def test_floats_are_the_model_s_own_functions_and_their_gradients() -> None:
    draw = np.random.default_rng(0)
    x, dy = (draw.normal(size=(2, 8)) for _ in range(2))
    qkv, dz = draw.normal(size=(1, 4, 3, 2, 4)), draw.normal(size=(1, 4, 2, 4))
    for rule, value, after in (("norm", x, dy), ("attention", qkv, dz)):
        op = ShardOp(rule, {}, (), ("y", ()), rule=rule)
        back = replace(op, rule=f"gradient of {rule}")
        step = 1e-5 * draw.normal(size=value.shape)
        changed = (evaluate(op, [value + step]) - evaluate(op, [value - step])) / 2
        assert np.vdot(changed, after) == pytest.approx(np.vdot(step, evaluate(back, [after, value])), rel=1e-5), rule
    assert evaluate(ShardOp("n", {}, (), ("y", ()), rule="norm"), [x]).mean(-1) == pytest.approx(0, abs=1e-9)


def test_parts_must_fit_the_schedule(few: list[PlannedRun]) -> None:
    with pytest.raises(PlanError, match="has 4 parts of the model, and 3 are planned"):
        replace(few[0], parts=few[0].parts[:3])


def test_the_extra_is_named_where_there_is_no_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "find_spec", lambda _: None)
    with pytest.raises(PlanError, match=r"pip install 'tilewright\[plans\]'"):
        launcher.check("mpi")
