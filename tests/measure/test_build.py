"""The build pool: whatever happens in a builder is an outcome of one candidate."""

import contextlib
import gc
import os
import signal
import sys
import time
from types import SimpleNamespace

import measure_fakes
import pytest
from tilewright import named_kernels
from tilewright.ir import MeasureError
from tilewright.measure import Measurement, Measurer, Outcome
from tilewright.measure.processes import buildpool
from tilewright.measure.processes.buildpool import Builds
from tilewright.opts import parse
from tilewright.plan import Built

MB = 1 << 20


def fake(builders=1, **more):
    return Measurer(measure_fakes.double(), "cpu", 1, builders=builders, compile=measure_fakes.compile_by_name, **more)


FAILURES = {
    "illegal": (Outcome.illegal, "this option is not legal here"),
    "syntax": (Outcome.build, "LLVM rejects the source"),
    "refuse": (Outcome.build, "no code for this"),
    "die": (Outcome.build, "killed by SIGSEGV"),
    "exit": (Outcome.build, "exited with code 7"),
    "bug": (Outcome.build, "internal error: KeyError: 'a bug in the lowering' (measure/measure_fakes.py:"),
}


@pytest.mark.slow
def test_failing_builds_have_their_outcomes_and_the_others_are_built():
    names = [n for name in FAILURES for n in (name, f"after {name}")]
    with fake(builders=2) as m:
        got = {names[i]: r for i, r in m.build([(n,) for n in names])}
    assert set(got) == set(names)
    for name, (outcome, detail) in FAILURES.items():
        r = got[name]
        assert isinstance(r, Measurement) and r.outcome is outcome and detail in r.detail, r
        assert r.opts == (name,) and r.t_min is None
        assert got[f"after {name}"].opts == (f"after {name}",) and got[f"after {name}"].obj


@pytest.mark.slow
def test_a_build_that_hangs_ends_at_its_deadline():
    with fake(builders=2, build_deadline_s=3.0) as m:
        begin = time.monotonic()
        got = dict(m.build([("hang",), ("one",), ("two",), ("three",)]))
    assert got[0].outcome is Outcome.build and "did not end within 3 s" in got[0].detail
    assert all(isinstance(got[i], Built) for i in (1, 2, 3))
    assert time.monotonic() - begin < 60


@pytest.mark.slow
def test_a_build_that_eats_memory_is_stopped():
    with fake(memory_limit=1 << 30) as m:
        got = dict(m.build([("memory",), ("one",)]))
    assert got[0].outcome is Outcome.build and "out of memory" in got[0].detail
    assert isinstance(got[1], Built)


@pytest.mark.slow
def test_a_builder_that_never_starts_is_an_error_and_not_a_loop():
    with fake() as m, pytest.raises(MeasureError, match="builder processes keep dying"):
        list(m.build([("exit",)] * 30))


@pytest.mark.slow
def test_closing_the_iterator_early_drops_the_rest():
    with fake() as m:
        it = m.build([("one",), *[("slow build",)] * 400])
        assert next(it)[0] == 0
        it.close()
        begin = time.monotonic()
        assert [b.opts for _, b in m.build([("two",)])] == [("two",)]
        assert time.monotonic() - begin < 60, "the four hundred take 120 s"


@pytest.mark.slow
def test_what_a_builder_holds_is_dropped_before_it_begins(monkeypatch):
    """At the end of a search: builders that went on would take the cores that the second check needs."""
    heard = []
    finish = buildpool.BuildPool._finish
    monkeypatch.setattr(buildpool.BuildPool, "_finish", lambda self, b, t, r: (heard.append((t, r)), finish(self, b, t, r))[1])
    with fake() as m:
        it = m.build([("slow build",)] * 5)
        (held,) = m._pool._builders
        assert len(held.tasks) == 5, "it was given all of them"
        while not held.ready:
            m._pool.pump(1.0)
        it.close()
        assert [b.opts for _, b in m.build([("two",)])] == [("two",)]
    tickets = {t: r for t, r in heard if t is not None}
    dropped = set().union(*(r for t, r in heard if t is None and r != "ready"))
    assert len(dropped) >= 3 and not dropped & tickets.keys(), "what was dropped was not built"
    assert len(dropped) + len(tickets) == 6, "each is one or the other"


@pytest.mark.slow
def test_builders_begin_before_anyone_asks_for_a_result():
    with fake() as m:
        (first,) = [b for _, b in m.build([("one",)])]
        it = m.build([("two",)])
        until = time.monotonic() + 240
        while not m._pool._done and time.monotonic() < until:
            m._pool.pump(0.05)
        assert m._pool._done
        assert [b.opts for _, b in it] == [("two",)] and list(it) == []
        assert m.measure([first])[0].ok


@pytest.mark.slow
def test_builders_work_while_the_runner_does():
    with fake() as m:
        (first,) = [b for _, b in m.build([("one",)])]
        it = m.build([("a",), ("b",)])
        got = [next(it)]
        assert m.measure([first])[0].ok
        got += it
        assert sorted(i for i, _ in got) == [0, 1]


@pytest.mark.slow
def test_paused_builders_go_on_when_the_runner_is_lost():
    with fake(builders=2) as m:
        assert m._pause
        (first,) = [b for _, b in m.build([("one",)])]
        assert m.measure([first])[0].ok
        # as if it had been killed while it timed
        os.killpg(m._pool.group, signal.SIGSTOP)
        m._runner.process.kill()
        assert m.measure([first])[0].ok
        assert len(list(m.build([("two",)]))) == 1


@pytest.mark.slow
def test_real_schedules_of_a_real_kernel():
    kernel = named_kernels.make("matmul", {"m": 64, "n": 64, "k": 64})
    schedules = [(), parse('[["UPCAST","n",16]]'), parse('[["UPCAST","nothing",16]]'), parse('[["UPCAST","n",16],["UPCAST","m",4]]')]
    with Measurer(kernel, "cpu", 1, builders=2) as m:
        got = dict(m.build(schedules))
        assert got[2].outcome is Outcome.illegal and "nothing" in got[2].detail
        results = m.measure([got[i] for i in (0, 1, 3)])
    assert len(results) == 3 and measure_fakes.right(*results)
    assert [r.opts for r in results] == [tuple(schedules[i]) for i in (0, 1, 3)]
    for r in results:
        assert 0 < r.t_min <= r.t_med and r.n >= 3 and r.error <= 1 and len(r.sha) == 64 and r.build_s > 0 and r.lower_s > 0


@pytest.mark.parametrize("after", [0, 1])
def test_an_interrupt_while_schedules_are_handed_over_drops_those_that_were(after, monkeypatch):
    """And nothing is said on the terminal by an object that was never whole."""

    class Pool:
        def __init__(self):
            self.taken, self.dropped = [], set()

        def submit(self, opts):
            if len(self.taken) == after:
                raise KeyboardInterrupt
            self.taken.append(opts)
            return len(self.taken) - 1

        def cancel(self, tickets):
            self.dropped.update(tickets)

    said: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    pool = Pool()
    with contextlib.suppress(KeyboardInterrupt):  # nothing may hold the object through a traceback
        Builds(pool, [("a",), ("b",)])
    gc.collect()
    assert pool.dropped == set(range(after)) and said == []
    object.__new__(Builds).__del__()
    assert said == []


def test_time_in_which_a_builder_stands_still_is_none_of_its_task(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(buildpool, "time", SimpleNamespace(monotonic=lambda: now[0]))
    builder = object.__new__(buildpool._Builder)
    builder.since = builder._seen = 100.0
    still = False
    monkeypatch.setattr(buildpool._Builder, "stopped", lambda self: still)
    for seconds, still in ((1.0, False), (20.0, True), (20.0, True), (2.0, False)):
        now[0] += seconds
        assert builder.stood() is still
    assert now[0] - builder.since == 3.0
