"""What one change after the other makes of a start schedule, where both models say that it is far better."""

from __future__ import annotations

import pytest
from tilewright import heuristics, named_kernels, targets
from tilewright.heuristics.start import adjustments, trials
from tilewright.ir import Kernel, KernelBuilder, float32, maximum, minimum
from tilewright.ir.normal_form import normalise
from tilewright.opts import Opts, parse

AVX512, AVX2 = targets.named("znver4"), targets.named("avx2")


def overlaps(m: int = 300, n: int = 1200) -> Kernel:
    """How much of each of m intervals lies in each of n."""
    kb = KernelBuilder("overlaps")
    i, j = kb.axis("m", m), kb.axis("n", n)
    a, b = kb.input("a", (4, m), float32), kb.input("b", (4, n), float32)
    width, height = (maximum(minimum(a[d + 2, i], b[d + 2, j]) - maximum(a[d, i], b[d, j]), 0.0) for d in (0, 1))
    kb.store("y", float32, (m, n), (i, j), width * height / (a[0, i] * a[1, i] + b[0, j] * b[1, j] - width * height))
    return normalise(kb.build())


def by(of: trials.Trials, opts: Opts) -> tuple[float, float]:
    return of.seconds(opts), of.counted(opts)


@pytest.mark.parametrize("written", ['[["UPCAST", "n", 2]]', '[["UPCAST", "m", 2], ["UPCAST", "n", 2]]'])
def test_steps_lead_from_a_poor_schedule_to_one_that_both_models_call_better(written: str) -> None:
    of = trials.Trials(overlaps(), AVX512)
    poor = parse(written)
    found = adjustments.changed(of, poor, 12)
    assert found is not None
    assert all(1.25 * new <= old for new, old in zip(by(of, found), by(of, poor), strict=True))
    assert any(o.op == "UPCAST" and o.on == "n" and o.arg >= 16 for o in found)


def test_nothing_is_changed_where_a_step_does_not_pay() -> None:
    of = trials.Trials(overlaps(), AVX512)
    best = heuristics.starts(overlaps(), AVX512, 1)[0]
    assert adjustments.changed(of, best, 12) is None
    assert adjustments.changed(of, parse('[["UPCAST", "n", 2]]'), 0) is None


def test_the_counted_model_may_say_no(monkeypatch: pytest.MonkeyPatch) -> None:
    of = trials.Trials(overlaps(), AVX512)
    monkeypatch.setattr(of, "counted", lambda opts: 1.0)
    assert adjustments.changed(of, parse('[["UPCAST", "n", 2]]'), 12) is None


def test_both_choices_begin_with_what_changes_lead_to() -> None:
    kernel = overlaps()
    for found in (heuristics.quick_starts(kernel, AVX512, 1), heuristics.starts(kernel, AVX512, 1)):
        assert adjustments.changed(trials.Trials(kernel, AVX512), found[0], 6) is None and found[-1] == ()


def test_sums_that_have_no_register_are_not_reached() -> None:
    kernel = named_kernels.make("sum_cols", {"m": 1310, "n": 1467})
    for found in (heuristics.quick_starts(kernel, AVX2, 1), heuristics.starts(kernel, AVX2, 1)):
        (copies,) = (o.arg for o in found[0] if o.op == "UPCAST")
        assert isinstance(copies, int) and copies <= AVX2.registers * AVX2.lanes(float32)
