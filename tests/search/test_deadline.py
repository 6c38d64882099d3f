"""A budget is kept whatever hangs: in each phase of a search something is planted that does not end."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from synthetic import FakeMeasurer, SerialBuilds
from tilewright import cache as caches
from tilewright import named_kernels
from tilewright.cache.file_check import CacheWarning
from tilewright.ir.errors import MeasureError, OutOfTimeError
from tilewright.search import TuningRun, tune
from tilewright.search import space as spaces
from tilewright.search.budget import Budget
from tilewright.search.interrupts import STRIKE_AGAIN_S, Deadline, OutOfTime, SignalWatch, hold, late_s, margin_s
from tilewright.search.manifest.tune_all import LEFT, tune_all
from tilewright.search.strategies.portfolio import Portfolio

HANGS_S = 300.0
"""How long what is planted goes on."""
BUDGET_S = 1000.0
"""More than any machine takes until it hangs. Then so much has passed on the clock at once."""
SHAPE = {"m": 48, "n": 48, "k": 48}
real, passed = time.monotonic, 0.0


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The clock of searches, on which hours pass in no time. (The limit on tests is off meanwhile: it would be over as well.)"""
    global passed
    monkeypatch.setattr(time, "monotonic", lambda: real() + passed)
    left = signal.setitimer(signal.ITIMER_REAL, 0)
    yield
    signal.setitimer(signal.ITIMER_REAL, *left)
    passed = 0.0


def hang(*_: Any, **__: Any) -> Any:
    global passed
    passed += 2 * BUDGET_S
    Deadline._set()
    wait()


def wait() -> None:
    time.sleep(HANGS_S)


class Measurer(FakeMeasurer):
    """Answers at once, but for the method that hangs. `after`: calls of it that do not."""

    hangs = ""
    after = 0

    def _reached(self, name: str) -> None:
        if self.hangs == name:
            self.after -= 1
            if self.after < 0:
                hang()

    def _builds(self, schedules: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        self._reached("build")
        yield from super()._builds(schedules)

    def measure(self, built: Sequence[Any], incumbent_s: float | None = None) -> list[Any]:
        self._reached("measure")
        return super().measure(built, incumbent_s)

    def confirm(self, built: Any) -> Any:
        self._reached("confirm")
        return super().confirm(built)

    def duel(self, a: Any, b: Any, rounds: int = 8) -> Any:
        self._reached("duel")
        return super().duel(a, b, rounds)


def measuring(hangs: str = "", after: int = 0) -> Any:
    @contextmanager
    def made(task: Any, request: Any, hashed: bool) -> Iterator[Any]:
        m = Measurer(lambda opts: 1e-3 / (1 + len(opts)))
        m.hangs, m.after = hangs, after
        if hangs == "start":
            hang()
        yield m

    return made


def searched(tmp_path: Path, **more: Any) -> Any:
    began = real()
    try:
        return tune("matmul", SHAPE, "float32", cache=tmp_path / "c.db", budget=BUDGET_S, trials=40, **more)
    finally:
        assert real() - began < HANGS_S
        assert signal.getitimer(signal.ITIMER_REAL)[0] < HANGS_S, "the timer is as it was"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "after", "found"),
    [("build", 0, False), ("build", 2, True), ("measure", 0, False), ("measure", 3, True), ("confirm", 0, True), ("duel", 0, True)],
)
def test_what_is_measured_hangs(tmp_path: Path, what: str, after: int, found: bool) -> None:
    r = searched(tmp_path, measuring=measuring(what, after))
    assert (r.exit_code, r.found) == ((0, True) if found else (6, False)), r.message
    assert r.message.startswith("the time budget is spent, while")
    with caches.open(tmp_path / "c.db") as store:
        assert bool([x for x in store.rows() if x.usable and not x.provisional]) is found


@pytest.mark.slow
def test_starting_the_measurer_hangs(tmp_path: Path) -> None:
    with pytest.raises(OutOfTimeError, match="the time budget is spent, while the search was being prepared"):
        searched(tmp_path, measuring=measuring("start"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "name"),
    [(named_kernels, "make"), (spaces.OptEngine, "starts"), (caches, "open"), (caches.Cache, "answers")],
    ids=lambda x: str(x)[-20:],
)
def test_preparing_hangs(tmp_path: Path, where: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as m:
        m.setattr(where, name, hang)
        with pytest.raises(MeasureError, match="the time budget is spent, while the search was being prepared"):
            searched(tmp_path, measuring=measuring())


@pytest.mark.slow
def test_the_strategy_hangs_and_the_start_schedule_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Portfolio, "ask", hang)
    r = searched(tmp_path, measuring=measuring())
    assert r.found and "while the strategy was choosing" in r.message


@pytest.mark.slow
def test_writing_hangs_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that does not answer in the middle of a search: what was measured is written at the end."""
    real, calls = caches.Cache.record, []

    def slow(self: Any, rows: Any, **how: Any) -> Any:
        calls.append(len(rows))
        return hang() if len(calls) == 2 else real(self, rows, **how)

    monkeypatch.setattr(caches.Cache, "record", slow)
    monkeypatch.setattr("tilewright.search.interrupts.STRIKE_AGAIN_S", HANGS_S)  # the search ends by itself, however slow it is
    with pytest.warns(CacheWarning, match="the time budget is spent"):
        r = searched(tmp_path, measuring=measuring())
    assert r.found and len(calls) > 2
    with caches.open(tmp_path / "c.db") as store:
        assert sum(not x.verified for x in store.rows()) == sum(r.counts.values())


@pytest.mark.slow
def test_a_manifest_leaves_what_there_is_no_time_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known_limits: Path) -> None:
    from tilewright.search.manifest import manifest_file as manifests
    from tilewright.search.progress import Silent

    file = tmp_path / "k.toml"
    file.write_text(
        '[targets.here]\ndevice = "cpu"\n' + "".join(f'[[kernel]]\nname = "matmul"\nshapes = ["m={m},n=48,k=48"]\n' for m in (8, 16, 24))
    )
    monkeypatch.setenv("XDG_STATE_HOME", str(known_limits))
    monkeypatch.setattr(TuningRun, "run", hang)

    @contextmanager
    def show(*_: Any) -> Iterator[Any]:
        yield Silent()

    with caches.open(tmp_path / "c.db") as store:
        done = tune_all(manifests.load(file), store, seconds=BUDGET_S, show=show, clock=lambda: time.monotonic())
    assert done[0].status == "failed" and "the time budget is spent" in done[0].message
    assert [d.status for d in done[1:]] == [LEFT, LEFT] and all(d.message for d in done[1:])


# the timer itself -----------------------------------------------------------------------------------------------------
def test_margins() -> None:
    assert (margin_s(1.0), margin_s(20.0), margin_s(300.0)) == (2.0, 2.0, 30.0)
    assert 0 < late_s(1.0) < margin_s(1.0) and late_s(None) == float("inf")


def over(ago: float) -> float:
    """When a budget of one second began that is over since `ago`."""
    return time.monotonic() - 1.0 - late_s(1.0) - ago


def test_it_interrupts_what_waits_and_says_what_that_was() -> None:
    said = r"^the time budget is spent, while a test was waiting; give it more"
    with pytest.raises(OutOfTimeError, match=said), Deadline(1.0, over(-0.05), "a test was waiting"):
        wait()
    assert signal.getitimer(signal.ITIMER_REAL)[0] != pytest.approx(STRIKE_AGAIN_S, abs=1.0)


def test_it_strikes_again_where_that_did_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.search.interrupts.STRIKE_AGAIN_S", 0.05)
    met = []
    with Deadline(1.0, over(0.0)):
        for _ in range(3):
            try:
                wait()
            except OutOfTime:
                met.append(1)
    assert len(met) == 3


def test_of_two_the_first_that_is_over_ends_what_it_is_about() -> None:
    with pytest.raises(OutOfTimeError), Deadline(1.0, over(0.0), "the whole"), Deadline(100.0, time.monotonic()):
        wait()
    ended = False
    with Deadline(100.0, time.monotonic()):
        with pytest.raises(OutOfTimeError), Deadline(1.0, over(0.0)):
            wait()
        ended = True
        assert len(Deadline._open) == 1
    assert ended and not Deadline._open


def test_one_that_is_being_opened_is_not_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would never be closed, and no later one would be obeyed."""
    kept = Deadline._set

    def late() -> None:
        kept()
        time.sleep(0.01)  # the outer one is over meanwhile

    monkeypatch.setattr(Deadline, "_set", staticmethod(late))
    for _ in range(5):
        with pytest.raises(OutOfTimeError), Deadline(1.0, over(0.0)), Deadline(100.0, time.monotonic()):
            wait()
        assert not Deadline._open


def test_saving_is_interrupted_only_the_second_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.search.interrupts.SAVING_S", 0.3)
    slept = 0
    with pytest.raises(OutOfTimeError), SignalWatch((signal.SIGINT,)):
        hold()
        with Deadline(1.0, over(0.0)):
            for _ in range(1000):
                time.sleep(0.01)
                slept += 1
    assert slept > 3


def test_somebody_elses_timer_goes_on() -> None:
    struck = []
    before = signal.signal(signal.SIGALRM, lambda *_: struck.append(1))
    left = signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with Deadline(100.0, time.monotonic()):
            pass
        end = time.monotonic() + 240
        while not struck and time.monotonic() < end:
            time.sleep(0.01)
        assert struck
    finally:
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *left)


def test_other_threads_and_no_limit_have_none() -> None:
    with Deadline(None, 0.0):
        assert not Deadline._open
    seen: list[int] = []

    def there() -> None:
        with Deadline(1.0, over(0.0)):
            seen.append(len(Deadline._open))

    t = threading.Thread(target=there)
    t.start()
    t.join()
    assert seen == [0]


def test_a_first_answer_is_not_waited_for_longer_than_the_margin() -> None:
    from test_tuning_run import Bench, Ticker

    clock = Ticker()
    b = Bench(Budget(3.0), clock=clock)

    def nothing(schedules: Any) -> Iterator[Any]:
        clock.now += 30.0
        return SerialBuilds((), 0)

    b.measurer.build = nothing  # type: ignore[method-assign]
    r = b.run.run()
    assert r.exit_code == 6 and not r.found
