"""Measuring on PoCL: what a candidate that hangs, faults or wants too much costs, and that the next one is measured."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from measure_fakes import N, double, right, signature
from opencl_driver import QUICK, needs_pocl
from tilewright import devices
from tilewright.ir.node import const
from tilewright.measure import Measurer, Outcome
from tilewright.plan import Built
from tilewright.program.program import Signature
from tilewright.renderers import Source

pytestmark = needs_pocl


def built(body: str, name: str, threads: int = 8, shared: int = 0) -> Built:
    """`double`, an element a thread; `body` runs first."""
    text = f"""// {name}
__kernel void double_p0(__global const float *x, __global float *y) {{
    const int i = get_global_id(0);
    {body}
    y[i] = x[i] + x[i];
}}"""
    one = signature(N)
    device = devices.get(QUICK)
    source = Source(text, "opencl", device.target, Signature(one.name, one.params, (), (const(N // threads),), 0, 0, (threads,), shared))
    obj = device.build(Source(text, "opencl", device.target, Signature(one.name, one.params, (), (const(1),), 0, 0, (1,))))
    return Built((name,), source, frozenset(), name, 0.0, 0.0, obj, 0.0)


@pytest.fixture(scope="module")
def m() -> Iterator[Measurer]:
    device = devices.get(QUICK)
    with Measurer(double(), QUICK, device.threads, builders=1, deadline_s=2.0) as measurer:
        yield measurer


@pytest.fixture(scope="module")
def good() -> Built:
    return built("", "good")


def test_right_candidates_are_verified_timed_and_compared(m: Measurer, good: Built) -> None:
    first, second = m.measure([good, built("if (i < 0) return;", "other")])
    # calls of a few microseconds: on a busy machine the second can seem three times as slow as the first
    assert (
        first.ok and second.outcome in (Outcome.ok, Outcome.slow) and all(x.t_min is not None and 0 < x.t_min < 1 for x in (first, second))
    )
    m.expect_confirm()
    assert m._second is not None and m._second.process.pid != m._runner.process.pid  # it makes references while candidates are measured
    assert m.confirm(good).checks[:2] == ("whole", "fresh")
    assert m.duel(good, good, rounds=3).rounds == 3


FAULTS = {
    "for (;;) if (i == 1 << 30) break;": (Outcome.timeout, "did not return within"),
    "if (i == 8) for (volatile int k = 1; k; k |= 1);": (Outcome.timeout, "did not return within"),
    "y[(long)i << 34] = 1;": (Outcome.crash, "killed by SIGSEGV"),
    f"if (i == 3) y[{N}] = 1;": (Outcome.wrong, "wrote outside y, past its end"),
    "if (i == 3) y[-1] = 1;": (Outcome.wrong, "wrote outside y, before its start"),
    "if (i == 3) { y[i] = x[-1] + x[i]; return; }": (Outcome.wrong, "y[3] is nan, expected"),
    f"if (i == {N - 1}) {{ y[i] = x[{N}] + x[i]; return; }}": (Outcome.wrong, f"y[{N - 1}] is nan, expected"),
    f"if (i == {N - 1}) return;": (Outcome.wrong, "1 hold the poison they began with"),
    "if (i == 77) { y[i] = 1; return; }": (Outcome.wrong, "y[77] is 1.0, expected"),
}


@pytest.mark.many
@pytest.mark.parametrize("body", FAULTS)
def test_a_fault_is_an_outcome_and_the_next_candidate_is_measured(m: Measurer, good: Built, body: str) -> None:
    outcome, detail = FAULTS[body]
    bad, after = m.measure([built(body, body), good])
    assert bad.outcome is outcome and detail in bad.detail, bad
    assert right(after)


def test_more_group_memory_or_threads_than_there_are_cost_no_worker(m: Measurer, good: Built) -> None:
    target = devices.get(QUICK).target
    memory, threads, after = m.measure(
        [built("", "memory", shared=target.shared + 1), built("", "threads", threads=target.max_threads + 8), good]
    )
    assert memory.outcome is Outcome.build and "bytes of shared memory" in memory.detail
    assert threads.outcome is Outcome.build and "takes at most" in threads.detail
    assert right(after)


@pytest.mark.slow
def test_a_program_on_arrays(tmp_path: object) -> None:
    import numpy as np
    from opencl_driver import POCL
    from tilewright.cache import open
    from tilewright.plan import Artefacts, best

    with open(f"{tmp_path}/c.db") as cache:
        compiled = best("matmul", {"m": 33, "n": 17, "k": 9}, "float32", POCL, None, cache, store=Artefacts(f"{tmp_path}/a"))
    rng = np.random.default_rng(0)
    for _ in range(2):
        a, b = rng.standard_normal((33, 9), dtype=np.float32), rng.standard_normal((9, 17), dtype=np.float32)
        np.testing.assert_allclose(compiled(a, b), a @ b, rtol=1e-4, atol=1e-4)
    assert "__kernel" in compiled.source
