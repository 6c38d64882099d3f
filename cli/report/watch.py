"""`tune watch`: the report's page, live in a browser, while a run goes on."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from importlib.resources import files

from ...cache.layers import ENV
from ...cache.recover import Busy
from ...ir.errors import UsageError
from . import study
from .live import LivePage
from .rows import ReportEntry, entries

COMMANDS = ("run", "source")
LOOK_S, BACK = 1.0, timedelta(hours=1)
"""Seconds between two looks at the cache; how far back a page begins that is not about one run."""
SHARE = 0.1
"""Of a core, at most, is for drawing the page: the run measures meanwhile."""
LAST_S = 3.0
"""Seconds that a browser has to fetch the last page."""


def run(args: Namespace) -> int:
    """Serve the page until the run ends, or until Ctrl-C where there is none; the run's exit code. Raises UsageError for a port that is
    taken or a command that is no run."""
    asked = _asked(args.words)
    from ... import cache
    from ...search.interrupts import SignalWatch

    location = asked.cache if asked is not None and asked.cache is not None else args.cache
    since = args.since or (datetime.now(UTC) - (BACK if asked is None else timedelta())).isoformat()
    wanted = Namespace(**{**vars(args), "since": since})
    url = args.study or getattr(asked, "study", None)
    plotly = study.library() if url else ""
    with SignalWatch() as signals, cache.open(location) as store, LivePage(args.port, plotly) as live:
        drawer = Drawer(live, lambda: entries(store, wanted, unfinished=True), store.stamp, _studies(url, wanted) if url else None)
        print(f"live at {live.address}{'' if asked is not None else ' (Ctrl-C ends it)'}", file=sys.stderr, flush=True)
        # by the environment, where nobody else can read a password
        env = {**os.environ, ENV: args.cache} if args.cache else None
        child = None if asked is None else subprocess.Popen(_command(args), env=env)
        with contextlib.suppress(OSError, AttributeError):
            os.nice(10)  # the run keeps its own
        try:
            while child is None or child.poll() is None:
                drawer.look()
                _pause(child)
        except KeyboardInterrupt:
            if child is None:
                return 0 if signals.number in (0, signal.SIGINT) else 128 + signals.number
            _end(child, signals.number)
        finally:
            if child is not None:
                child.wait()
        drawer.last()
        return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _asked(words: Sequence[str]) -> Namespace | None:
    """The command to watch, understood; None where there is none."""
    from ..parser import build_parser

    if not words:
        return None
    if words[0] not in COMMANDS:
        raise UsageError(f"tune watch takes what tune {' or tune '.join(COMMANDS)} takes, as in: tune watch run matmul; not {words[0]!r}")
    return build_parser().parse_args(list(words))


def _command(args: Namespace) -> list[str]:
    """The run's own command."""
    return [sys.executable, "-P", "-m", "tilewright", *args.words]


def _studies(url: str, args: Namespace) -> Callable[[], str]:
    """What makes the part of the page about studies; nothing while there is none, or while nobody can read them."""

    def made() -> str:
        try:
            return study.figures_page(url, args)
        except UsageError:  # the run has not made it yet, or is writing
            return ""

    return made


def _pause(child: subprocess.Popen[bytes] | None) -> None:
    """Until the next look, or the run's end."""
    if child is None:
        time.sleep(LOOK_S)
    else:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(LOOK_S)


def _end(child: subprocess.Popen[bytes], number: int) -> None:
    """Let the run save what it has. A terminal's Ctrl-C went to both; another signal only came here. A second one ends it at once."""
    try:
        if number not in (0, signal.SIGINT) or not (sys.stdin and sys.stdin.isatty()):
            child.send_signal(number or signal.SIGINT)
        child.wait()
    except KeyboardInterrupt:
        child.kill()
        child.wait()


class Drawer:
    """Draws the page anew when the cache has changed, somebody is looking, and drawing has not taken more than its share of time."""

    def __init__(
        self,
        live: LivePage,
        found: Callable[[], Sequence[ReportEntry]],
        stamp: Callable[[], str],
        studies: Callable[[], str] | None = None,
    ) -> None:
        """`found`: what the page is about, now; `stamp`: a text that changes with it; `studies`: a part of the page that takes
        seconds to make, so it is made less often."""
        self._live, self._found, self._stamp, self._studies = live, found, stamp, studies
        self._drawn, self._next = "", 0.0
        self._part, self._again = "", 0.0
        self._script = f"<script>{(files(__package__) / 'live.js').read_text(encoding='utf-8')}</script>"
        if studies is not None:
            self._script = f'<script src="/script.js"></script>{study.drawing()}{self._script}'
        self._draw(self._stamp())

    def look(self) -> None:
        """Draw what has changed, where it is time."""
        if not self._live.watched or time.monotonic() < self._next:
            return
        with contextlib.suppress(Busy):  # the run is writing: the next look sees more
            if (now := self._stamp()) != self._drawn:
                self._draw(now)

    def last(self) -> None:
        """Draw the last page, and let a browser that is watching fetch it."""
        if self._live.watched:
            self._draw(self._stamp(), ended=True)
            self._live.wait_sent(LAST_S)

    def _draw(self, stamp: str, ended: bool = False) -> None:
        from .html import page

        start = time.monotonic()
        if self._studies is not None and (ended or start >= self._again):
            self._part = self._studies() or self._part
            self._again = start + (time.monotonic() - start) / SHARE
        start = time.monotonic()
        self._live.show(page(self._found(), studies=self._part, live=self._script), ended)
        took = time.monotonic() - start
        self._drawn, self._next = stamp, start + took / SHARE
