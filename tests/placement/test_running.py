"""Plans on local processes: equal to one process, mistakes are caught, and a rank that dies is named."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from drawn_plans import drawn_plan, faulty
from thorough import amount
from tilewright.placement import PlanError, ShardOp
from tilewright.placement.running import FAULTS, RunSpec, drawn, launcher
from tilewright.placement.running.op_meanings import evaluate


@pytest.fixture(scope="module")
def mpi() -> None:
    """Skips where no MPI can start two processes."""
    try:
        launcher.check_mpi()
        launcher.run([RunSpec(data=2)], deadline=60)
    except PlanError as e:
        pytest.skip(f"no MPI here: {e}")


@pytest.mark.slow
@pytest.mark.usefixtures("mpi")
@pytest.mark.parametrize("ranks", [2, 4])
def test_random_plans_have_the_bits_of_one_process(ranks: int, request: pytest.FixtureRequest) -> None:
    draw = random.Random(ranks)
    specs = [drawn(ranks, draw) for _ in range(amount(request, 24, 100))]
    assert {s.zero for s in specs} == {0, 1, 2, 3} and len({s.schedule for s in specs}) > 3
    assert [(r.spec.name, r.wrong) for r in launcher.run(specs) if r.wrong] == []


@pytest.mark.slow
@pytest.mark.usefixtures("mpi")
def test_the_model_s_operations_have_the_bits_of_one_process_however_they_are_split() -> None:
    pytest.importorskip("scipy", reason="plans need SciPy (extra plans)")
    draw = random.Random(0)
    plans = [drawn_plan(4, draw) for _ in range(4)]
    assert {c.kind for p in plans for s in p.stages for c in s.collectives} == {"all-reduce", "all-gather", "reduce-scatter", "all-to-all"}
    wrong = [x for p in plans if (x := faulty(p, draw)) is not None]
    found = launcher.run_plans([*plans, *wrong])
    assert [r.wrong for r in found[: len(plans)] if r.wrong] == [] and len(wrong) > 2
    assert [r.spec.fault for r in found[len(plans) :] if not r.wrong] == []


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


@pytest.mark.slow
@pytest.mark.usefixtures("mpi")
def test_planted_mistakes_are_caught_and_floats_are_within_the_bound() -> None:
    v = RunSpec(stages=2, schedule="zb-v", microbatches=6, layers=5)
    faulty = [replace(v, fault="swapped-chunk"), replace(v, schedule="dualpipe", fault="missing-all-reduce")]
    faulty += [RunSpec(data=2, zero=zero, fault=fault) for zero in (1, 2, 3) for fault in FAULTS[2:]]
    faulty += [RunSpec(tensor=2, fault="missing-all-reduce")]
    right = [replace(s, fault="", dtype=dtype) for s in faulty for dtype in ("float32", "float64")]
    found = launcher.run([*faulty, *right])
    assert [r.spec.name for r in found[: len(faulty)] if not r.wrong] == []
    assert [(r.spec.name, r.wrong) for r in found[len(faulty) :] if r.wrong] == []


@pytest.mark.slow
@pytest.mark.usefixtures("mpi")
def test_a_rank_that_dies_ends_the_run_and_is_named_with_its_operation() -> None:
    with pytest.raises(PlanError, match=r"rank 1 died in: BW0 of step 1 on stage 1"):
        launcher.run([RunSpec(stages=2)], kill=(0, 1))


@pytest.mark.slow
def test_ranks_that_talk_over_gloo_have_the_same_bits(request: pytest.FixtureRequest) -> None:
    if not amount(request, 0, 1):
        pytest.skip("three processes import PyTorch: make test-thorough")
    torch = pytest.importorskip("torch")
    if not torch.distributed.is_available():
        pytest.skip("this PyTorch has no torch.distributed")
    specs = [RunSpec(stages=2, schedule="zb-v", microbatches=6, layers=5), RunSpec(data=2, zero=3), RunSpec(tensor=2)]
    found = launcher.run([*specs, replace(specs[2], fault="missing-all-reduce")], backend="gloo")
    assert [bool(r.wrong) for r in found] == [False, False, False, True]


@pytest.mark.parametrize(
    "fields, says",
    [
        ({"tensor": 3, "inner": 16}, "16 columns cannot be split over 3"),
        ({"stages": 4, "layers": 3}, "4 layers at least, or fewer stages"),
        ({"zero": 4}, "stages 0 to 3"),
        ({"fault": "none"}, "and the faults swapped-chunk"),
        ({"stages": 4, "schedule": "interleaved", "microbatches": 6, "layers": 8}, "use 8"),
        ({"microbatches": 0}, "one of everything"),
    ],
)
def test_what_cannot_be_run_is_said(fields: dict[str, int], says: str) -> None:
    with pytest.raises(PlanError, match=says):
        RunSpec(**fields)


def test_the_extra_is_named_where_there_is_no_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "find_spec", lambda _: None)
    with pytest.raises(PlanError, match=r"pip install 'tilewright\[plans\]'"):
        launcher.run([RunSpec()])


def test_ranks_have_places() -> None:
    spec = RunSpec(stages=2, tensor=2, data=3, layers=4)
    assert sorted(spec.rank(*spec.place(r)) for r in range(12)) == [*range(12)]
    assert [len(RunSpec(stages=2, layers=5, schedule="zb-v", microbatches=4).layers_of(k)) for k in range(4)] == [2, 1, 1, 1]
