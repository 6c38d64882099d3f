"""The displays, fed by a scripted search: what lines and what board a person sees."""

from __future__ import annotations

import io
from dataclasses import dataclass

import pytest
from rich.console import Console
from tilewright.cli.terminal.live import Board, Plain, Quiet, display
from tilewright.measure.outcome import Measurement, Outcome
from tilewright.opts.opt import Opt, opt


@dataclass
class Best:
    opts: tuple[Opt, ...] = (opt("UPCAST", "m", 8), opt("PARALLEL", "n"))
    objective: str = "time"
    t_min: float | None = 1.234e-3
    gflops: float | None = 1740.4
    gbytes_s: float | None = 10.2
    roofline_pct: float | None = 87.4
    value: float | None = None


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def search(progress: Quiet, clock: Clock) -> None:
    """Two start schedules, a best, then 40 candidates in eight seconds."""
    progress.phase("start schedules")
    progress.candidate(Measurement((), Outcome.ok, 1e-3, 1e-3, 10))
    progress.candidate(Measurement((), Outcome.wrong))
    progress.best(Best())
    progress.phase("beam")
    for _ in range(40):
        clock.now += 0.2
        progress.candidate(Measurement((), Outcome.slow))


def test_plain_lines_for_phases_bests_and_every_few_seconds() -> None:
    clock, text = Clock(), io.StringIO()
    with Plain("matmul on cpu", 30.0, None, Console(file=text, width=40), clock) as progress:
        search(progress, clock)
    assert text.getvalue().splitlines() == [
        "tuning matmul on cpu",
        "   0:30 left  start schedules",
        "   0:30 left  best 1.234 ms  1740 GFLOP/s  10.2 GB/s  87 % of roofline  Um8 Pn",
        "   0:30 left  beam",
        "   0:25 left  27 candidates: ok 1, slow 25, wrong 1",
    ]
    assert "\x1b" not in text.getvalue()


def test_the_first_failure_of_each_kind_is_told_at_once() -> None:
    clock, text = Clock(), io.StringIO()
    out = Console(file=io.StringIO(), force_terminal=True, width=120)
    with Plain("k on cpu", 30.0, None, Console(file=text, width=40), clock) as progress, Board("k", 30.0, None, out, clock) as board:
        for detail in ("y[0] is nan, expected 1.0", "y[1] is 2.0, expected 1.0"):
            progress.candidate(Measurement((opt("UPCAST", "n", 8),), Outcome.wrong, detail=detail))
            board.candidate(Measurement((), Outcome.wrong, detail=detail))
        shot = Console(file=io.StringIO(), width=120)
        shot.print(board.render())
    assert text.getvalue().splitlines()[1:] == ["   0:30 left  first wrong: Un8: y[0] is nan, expected 1.0"]
    assert "first wrong" in shot.file.getvalue() and "y[0] is nan" in shot.file.getvalue()  # type: ignore[attr-defined]


def test_board_shows_phase_counts_best_and_time_left() -> None:
    clock, text = Clock(), io.StringIO()
    out = Console(file=text, force_terminal=True, width=100, color_system="standard", legacy_windows=False)
    with Board("matmul on cpu", 30.0, None, out, clock) as progress:
        search(progress, clock)
        shot = Console(file=io.StringIO(), width=100)
        shot.print(progress.render())
    seen = shot.file.getvalue()  # type: ignore[attr-defined]
    assert "matmul on cpu" in seen and "beam" in seen and "0:22 left" in seen
    assert "42  ok 1  slow 40  wrong 1" in seen
    assert "1.234 ms  1740 GFLOP/s  10.2 GB/s  87 % of roofline" in seen and "Um8 Pn" in seen
    assert text.getvalue().endswith("\x1b[?25h") or "\x1b[?25h" in text.getvalue().rsplit("\x1b[?25l", 1)[1], "the cursor must come back"


def test_an_interrupt_while_the_board_comes_up_takes_it_down(monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.StringIO()
    board = Board("x", 30.0, None, Console(file=text, force_terminal=True, width=80, legacy_windows=False))

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(board.ticker, "start", interrupted)
    with pytest.raises(KeyboardInterrupt), board:
        pass
    assert not board.live.is_started and text.getvalue().rindex("\x1b[?25h") > text.getvalue().rindex("\x1b[?25l"), (
        "the cursor must come back"
    )


def test_trials_are_a_budget_too() -> None:
    clock = Clock()
    progress = Quiet("x", None, 10, clock)
    progress.candidate(Measurement((), Outcome.ok, 1e-3, 1e-3, 10))
    assert progress.left() == "9 trials left" and progress.used() == 0.1
    assert Quiet("x", None, 1, clock).left() == "1 trial left"


def test_the_display_fits_the_stream() -> None:
    assert type(display("x", 1.0, None, False, Console(file=io.StringIO()))) is Plain
    assert type(display("x", 1.0, None, True, Console(file=io.StringIO(), force_terminal=True))) is Quiet
    assert type(display("x", 1.0, None, False, Console(file=io.StringIO(), force_terminal=True))) is Board
