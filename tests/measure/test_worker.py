"""Devices with memory of their own are measured by a worker that opens them, and that faults replace."""

from __future__ import annotations

import numpy as np
import pytest
from fake_worker import FarDevice, HangingDevice, LateDevice, LostDevice, OddDevice
from measure_fakes import built, double, endless, right, store_at, text
from tilewright.ir import DeviceError, MeasureError
from tilewright.measure import Measurer, Outcome
from tilewright.plan.compiled_kernel import Copying


@pytest.fixture(scope="module")
def m():
    with Measurer(double(), FarDevice(), 1, builders=1, deadline_s=2.0) as measurer:
        yield measurer


@pytest.fixture(scope="module")
def good():
    return built(text(), "good")


@pytest.mark.slow
def test_right_candidates_are_verified_and_timed(m, good):
    first, second = m.measure([good, good])
    assert first.ok and right(second) and first.t_min > 0 and first.error <= 1
    assert m.confirm(good).ok
    assert m.duel(good, good, rounds=3).rounds == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bad", "outcome", "detail"),
    [
        (text("  call void @llvm.trap()"), Outcome.crash, "killed by SIG"),
        (text(value="fadd float %v, 1.0"), Outcome.wrong, ""),
        (text(store_at(5000)), Outcome.wrong, "wrote outside y, past its end"),
    ],
)
def test_a_fault_is_an_outcome_and_the_next_one_is_right(m, good, bad, outcome, detail):
    got, after = m.measure([built(bad, "bad"), good])
    assert got.outcome is outcome and detail in got.detail, got
    assert right(after)


@pytest.mark.slow
def test_a_hang_is_killed_at_its_deadline(m, good):
    hang, after = m.measure([built(text(endless()), "hang"), good])
    assert hang.outcome is Outcome.timeout and right(after)


@pytest.mark.slow
def test_a_device_that_cannot_be_opened_says_so(good):
    with (
        Measurer(double(), LostDevice(), 1, builders=1) as m,
        pytest.raises(MeasureError, match="cannot be used for measuring: the driver is gone"),
    ):
        m.measure([good])


def test_an_unknown_kind_of_isolation_is_refused():
    with pytest.raises(DeviceError, match="isolation 'thread'; it must be 'fork' or 'worker'"):
        Measurer(double(), OddDevice(), 1)


def test_programs_copy_their_arguments(tmp_path):
    from tilewright.cache import open
    from tilewright.plan import Artefacts, best

    with open(tmp_path / "c.db") as cache:
        compiled = best("matmul", {"m": 33, "n": 17, "k": 9}, "float32", FarDevice(), 1, cache, store=Artefacts(tmp_path / "a"))
    assert isinstance(compiled._executable, Copying)
    rng = np.random.default_rng(0)
    for _ in range(2):
        a, b = rng.standard_normal((33, 9), dtype=np.float32), rng.standard_normal((9, 17), dtype=np.float32)
        np.testing.assert_allclose(compiled(a, b), a @ b, rtol=1e-4, atol=1e-4)
        out = np.empty((33, 17), np.float32)
        assert compiled(a, b, out=out) is out
        np.testing.assert_allclose(out, a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_the_first_launch_may_take_longer_where_drivers_compile_then(good):
    # with an incumbent, a candidate has about a second; this one needs two before its first result
    with Measurer(double(), LateDevice(), 1, builders=1, deadline_s=2.0) as m:
        assert m.measure([good], incumbent_s=1e-6)[0].outcome in (Outcome.ok, Outcome.slow)
    with Measurer(double(), LateDevice(0.0), 1, builders=1, deadline_s=2.0) as m:
        assert m.measure([good], incumbent_s=1e-6)[0].outcome is Outcome.timeout


@pytest.mark.slow
def test_a_first_launch_that_hangs_costs_little_once_one_has_been_seen(good):
    with Measurer(double(), HangingDevice(), 1, builders=1, deadline_s=10.0) as m:
        assert m.measure([good])[0].outcome is Outcome.ok
        (hung,) = m.measure([good])
        assert hung.outcome is Outcome.timeout and "within 5 s" in hung.detail
