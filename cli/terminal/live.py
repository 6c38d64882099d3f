"""What a person sees while a search runs: a live board on a terminal, plain lines elsewhere, nothing with --quiet.

The board is redrawn when the search reports, which is between measurements: whatever runs beside a candidate is timed with it. Only after
two seconds without a report does a thread redraw it (about 2 ms), so that the clock goes on while something slow is measured. Log
messages wait in a file meanwhile, where helper processes put theirs too, and are printed above the board when it is drawn."""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ...cache.objective_types import TIME
from ...ir.units import counted
from ...measure.roofline import share
from ...search.outlook import Outlook
from ...search.result import value_text
from .style import MOST_TEXT, OUTCOMES, bytes_text, clock, console, duration, factor, flops, opts_text, rate, soft_wrapped

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import Console, RenderableType

    from ...measure import Measurement
    from ...search import Result


class LogAbove:
    """`begin`, `show` as often as the display is drawn, `end`. Does nothing where TILEWRIGHT_LOG is not set or names
    a file."""

    def __init__(self, show: Callable[[str], None]) -> None:
        """`show(text)` prints lines (ending with a newline) above the display."""
        self._print = show
        self._file: str | None = None
        self._at = 0
        self._one = threading.Lock()  # a display may be drawn by a thread of its own

    def begin(self) -> None:
        """Messages go to the file from now on, those of helpers that are started later too."""
        if not os.environ.get("TILEWRIGHT_LOG"):
            return
        from ...log import setup

        setting = setup.current()
        if setting is None or setting.file is not None:
            return
        fd, path = tempfile.mkstemp(prefix="tilewright-log-")
        os.close(fd)
        self._file = path
        try:
            setup.divert(path)
        except setup.BadSetting:
            self._remove()

    def show(self) -> None:
        """Print the whole lines that came since the last time."""
        with self._one:
            if self._file is None:
                return
            try:
                with open(self._file, "rb") as f:
                    f.seek(self._at)
                    text = f.read()
            except OSError:
                return
            lines = text[: text.rfind(b"\n") + 1]
            if lines:
                self._at += len(lines)
                self._print(lines.decode(errors="replace"))

    def end(self) -> None:
        """Print the rest; messages go where they went before."""
        if self._file is None:
            return
        from ...log import setup

        setup.divert(None)
        self.show()
        self._remove()

    def _remove(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._file)
        self._file = None


REDRAW_S = 0.12
STALE_S = 2.0
LINE_S = 5.0


class Rated(Protocol):
    """A time in seconds and the rates that follow from it (None where they mean nothing)."""

    @property
    def t_min(self) -> float | None: ...
    @property
    def gflops(self) -> float | None: ...
    @property
    def gbytes_s(self) -> float | None: ...
    @property
    def roofline_pct(self) -> float | None: ...


def rates(best: Rated) -> str:
    """`1.234 ms  1740 GFLOP/s  10.2 GB/s  87 % of roofline`, leaving out what the kernel does not have."""
    parts = [duration(best.t_min) if best.t_min else "-"]
    if best.gflops:
        parts.append(flops(best.gflops))
    if best.gbytes_s:
        parts.append(rate(best.gbytes_s, "GB/s"))
    if best.roofline_pct:
        parts.append(f"{share(best.roofline_pct)} of roofline")
    return "  ".join(parts)


def reached(best: Result) -> str:
    """The rates of the best so far, and what else a search makes small."""
    used = [f"{best.energy['joules']:.3g} J"] if best.objective != TIME and best.energy else []
    used += [f"{bytes_text(best.scratch) if best.scratch else 'no'} scratch"] if "scratch" in best.objective else []
    used += [value_text(best.objective, best.value)] if best.value is not None else []
    return "  ".join([rates(best), *used])


def outcomes(counts: Mapping[str, int]) -> str:
    """`ok 150, slow 40, wrong 1`: only what happened, in the order of OUTCOMES."""
    return ", ".join(f"{name} {counts[name]}" for name in OUTCOMES if counts.get(name))


def candidate_line(m: Measurement, quickest: float) -> str:
    """`    4.42 µs  1.00x  ok       Um8 Un32 Pn`, and why, where it failed. The factor is over the quickest so far."""
    time = duration(m.t_min) if m.t_min is not None else "-"
    beside = factor(m.t_min / quickest) if m.t_min is not None and math.isfinite(quickest) else "-"
    why = f"  ({m.detail[:MOST_TEXT]})" if m.detail else ""
    return f"{time:>10}  {beside:>6}  {m.outcome.value:<7}  {opts_text(m.opts).plain}{why}"


class Quiet:
    """No output. Also the base: it keeps what the others draw. Implements the search's Progress protocol."""

    def __init__(
        self,
        title: str,
        budget: float | None,
        trials: int | None,
        now: Callable[[], float] = time.monotonic,
        overall: Callable[[], str] | None = None,
    ) -> None:
        """`budget` in seconds; `overall` gives a line about the run that this search is a part of."""
        self.say: Callable[[str], None] | None = None  # a line for each candidate, where that was asked for
        self.title, self.budget, self.trials, self.now, self.overall = title, budget, trials, now, overall
        self.start = now()
        self.name = "starting"
        self.counts: Counter[str] = Counter()
        self.top: Result | None = None
        self.clocks: Mapping[str, Any] = {}
        self.failures: dict[str, str] = {}
        self._quickest = math.inf
        self._outlook = Outlook()
        self._first: float | None = None

    def __enter__(self) -> Quiet:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def restart(self) -> None:
        """The budget counts from now."""
        self.start = self.now()

    def phase(self, name: str) -> None:
        """The search enters another phase."""
        self.name = name
        self.draw(True)

    def candidate(self, measurement: Measurement) -> None:
        """One candidate has an outcome."""
        self.counts[str(measurement.outcome.value)] += 1
        if measurement.outcome != "illegal":
            self._first = self.now() if self._first is None else self._first
            self._outlook.tell(math.inf if measurement.t_min is None else measurement.t_min)
        if measurement.t_min is not None and measurement.t_min < self._quickest:
            self._quickest, self.clocks = measurement.t_min, measurement.clocks
        outcome = str(measurement.outcome.value)
        if outcome not in ("ok", "slow") and measurement.detail and outcome not in self.failures:
            self.failures[outcome] = f"{opts_text(measurement.opts).plain}: {measurement.detail}"[:MOST_TEXT]
            self.failed(outcome)
        if self.say is not None:
            self.say(candidate_line(measurement, self._quickest))
        self.draw(False)

    def best(self, best: Result) -> None:
        """There is a new best."""
        self.top = best
        self.improved()

    def done(self, result: Result) -> None:
        """The search is over; the caller prints the summary."""

    def left(self) -> str:
        """What remains of the budget: time, trials, or both."""
        parts = []
        if self.budget is not None:
            parts.append(f"{clock(self.start + self.budget - self.now())} left")
        if self.trials is not None:
            more = max(0, self.trials - self.counts.total())
            parts.append(f"{counted(more, 'trial')} left")
        return ", ".join(parts)

    def worth(self) -> str:
        """What another minute is expected to gain, in words; '' while too little is known."""
        gain = None if self._first is None else self._outlook.gain_in(60.0, self.now() - self._first)
        return "" if gain is None else f"another minute: about {100 * gain:.2g} % faster"

    def used(self) -> float:
        """Share of the budget that is used up, 0 to 1."""
        shares = [0.0]
        if self.budget is not None:
            shares.append((self.now() - self.start) / self.budget)
        if self.trials is not None:
            shares.append(self.counts.total() / self.trials)
        return min(1.0, max(shares))

    def draw(self, must: bool) -> None:
        """Show the state; `must`: now, however short ago the last time was."""

    def improved(self) -> None:
        """Show that there is a new best."""

    def failed(self, outcome: str) -> None:
        """Show why the first candidate of this outcome failed."""

    def close(self) -> None:
        """Take the display down."""


class OnConsole(Quiet):
    """The base of what is drawn on a console. `last`: when that was."""

    def __init__(
        self,
        title: str,
        budget: float | None,
        trials: int | None,
        out: Console,
        now: Callable[[], float] = time.monotonic,
        overall: Callable[[], str] | None = None,
    ) -> None:
        super().__init__(title, budget, trials, now, overall)
        self.out = out
        self.last = self.start
        self.begin()

    def begin(self) -> None:
        """Make what the display needs."""


class Plain(OnConsole):
    """One line for each phase, each new best, and every few seconds."""

    def begin(self) -> None:
        self.line(f"tuning {self.title}" + (f"  ({self.overall()})" if self.overall else ""))

    def line(self, text: str) -> None:
        self.last = self.now()
        self.out.print(text, soft_wrap=soft_wrapped(self.out))
        self.out.file.flush()

    def draw(self, must: bool) -> None:
        if must:
            self.line(f"{self.left():>12}  {self.name}")
        elif self.now() - self.last >= LINE_S:
            tried = f"{counted(self.counts.total(), 'candidate')}: {outcomes(self.counts)}"
            self.line(f"{self.left():>12}  {', '.join(filter(None, (tried, self.worth())))}")

    def improved(self) -> None:
        assert self.top is not None
        self.line(f"{self.left():>12}  best {reached(self.top)}  {opts_text(self.top.opts).plain}")

    def failed(self, outcome: str) -> None:
        self.line(f"{self.left():>12}  first {outcome}: {self.failures[outcome]}")


class Board(OnConsole):
    """A live board: phase and time left, candidates by outcome, the best so far."""

    def begin(self) -> None:
        from rich.live import Live

        self.live = Live(self.render(), console=self.out, auto_refresh=False, transient=True)
        plain: dict[str, Any] = {"end": "", "soft_wrap": soft_wrapped(self.out), "style": "dim"}
        self.log = LogAbove(lambda text: self.out.print(text, **plain))
        self.closed = threading.Event()
        self.ticker = threading.Thread(target=self._tick, name="tilewright-board", daemon=True)

    def __enter__(self) -> Board:
        try:
            self.live.start(refresh=True)
            self.log.begin()
            self.ticker.start()
        except BaseException:  # Ctrl-C just now: nobody else would take the display down
            self.close()
            raise
        return self

    def render(self) -> RenderableType:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        counts = Text(f"{self.counts.total()}")
        for name, style in OUTCOMES.items():
            if self.counts[name]:
                counts.append(f"  {name} {self.counts[name]}", style=style)
        phase = Table.grid(padding=(0, 2))
        phase.add_row(Text(self.name, style="bold"), ProgressBar(total=1.0, completed=self.used(), width=24), self.left())
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim")
        grid.add_column(overflow="fold")
        if self.overall is not None:
            grid.add_row("manifest", self.overall())
        grid.add_row("tuning", Text(self.title, style="bold"))
        grid.add_row("phase", phase)
        grid.add_row("candidates", counts)
        grid.add_row("best", Text(reached(self.top), style="bold green") if self.top else "nothing valid yet")
        if worth := self.worth():
            grid.add_row("outlook", worth)
        if self.top:
            grid.add_row("", opts_text(self.top.opts))
        for outcome, text in self.failures.items():
            grid.add_row(f"first {outcome}", Text(text, style=OUTCOMES.get(outcome, "")))
        return grid

    def draw(self, must: bool) -> None:
        if must or self.now() - self.last >= REDRAW_S:
            self.last = self.now()
            self.log.show()
            self.live.update(self.render(), refresh=True)

    def improved(self) -> None:
        self.draw(True)

    def close(self) -> None:
        self.closed.set()
        self.log.end()
        self.live.stop()

    def _tick(self) -> None:
        while not self.closed.wait(STALE_S / 2):
            if self.now() - self.last >= STALE_S:
                self.draw(True)


def display(
    title: str,
    budget: float | None,
    trials: int | None,
    quiet: bool,
    out: Console | None = None,
    overall: Callable[[], str] | None = None,
    verbose: bool = False,
) -> Quiet:
    """The display that fits: none when quiet, a board on a terminal, lines elsewhere (a dumb terminal cannot redraw). A
    context manager and a Progress. `verbose`: a line for each candidate as well."""
    to = out or console()
    if quiet:
        return Quiet(title, budget, trials, overall=overall)
    board = to.is_terminal and not to.is_dumb_terminal
    made = Board(title, budget, trials, to, overall=overall) if board else Plain(title, budget, trials, to, overall=overall)
    if verbose:
        made.say = lambda text: to.print(text, soft_wrap=soft_wrapped(to))
    return made
