"""`tune watch`: the report's page, live in a browser, while a run goes on."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import signal
import socketserver
import subprocess
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from importlib.resources import files
from types import TracebackType
from typing import Any

from ... import cache
from ...cache.file_check import Busy
from ...cache.layers import ENV
from ...ir.errors import UsageError
from ...search.interrupts import SignalWatch
from . import study
from .entries import ReportEntry, entries

# live -------------------------------------------------------------------------------------------------------
# A page that a browser on this machine watches while it changes: the last text that it was given, over HTTP.


HERE = "127.0.0.1"
"""Only this machine can look."""
ASKED_S = 5.0
"""Seconds after which a browser that has not asked again has gone; one asks every second."""


class LivePage:
    """Serves one page on 127.0.0.1 from a thread; a context manager. A browser asks with the tag of what it has, and gets the page only
    where that is another. `X-Tune-State` says whether anything is still to come (`running`, `ended`)."""

    def __init__(self, port: int, script: str = "") -> None:
        """`port`: 0 takes a free one. `script`: what `/script.js` is, which a browser fetches once. Raises UsageError where the port is
        taken."""
        self._script = script.encode()
        self._page, self._tag, self._state = b"", '""', "running"
        self._lock = threading.Lock()
        self._asked, self._last_sent = -ASKED_S, threading.Event()
        live = self

        class Answer(BaseHTTPRequestHandler):
            timeout = 10

            def do_GET(self) -> None:
                live._answer(self)

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing: the terminal is the run's."""

        try:
            # not HTTPServer, which asks the name service for this machine's name first
            self._server = _Server((HERE, port), Answer)
        except OSError as e:
            if e.errno in (errno.EADDRINUSE, errno.EACCES):
                why = "is in use" if e.errno == errno.EADDRINUSE else "is not for everybody"
                raise UsageError(f"port {port} {why}: name another with --port, or --port 0 for a free one") from None
            raise
        self.port = int(self._server.server_address[1])
        self.address = f"http://{HERE}:{self.port}/"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)

    def __enter__(self) -> LivePage:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def watched(self) -> bool:
        """Whether a browser asked in the last seconds."""
        return time.monotonic() - self._asked < ASKED_S

    def show(self, text: str, ended: bool = False) -> None:
        """From now on this is the page; `ended`: the last one."""
        page = text.encode()
        with self._lock:
            self._page, self._tag = page, f'"{hashlib.sha256(page).hexdigest()[:16]}"'
            self._state = "ended" if ended else "running"

    def wait_sent(self, limit_s: float) -> None:
        """Wait until a browser has the last page, where one is watching."""
        if self.watched:
            self._last_sent.wait(limit_s)

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        # a page of elsewhere whose name was made to lead here must not read this one
        if request.headers.get("Host") not in (f"{HERE}:{self.port}", f"localhost:{self.port}"):
            return request.send_error(HTTPStatus.FORBIDDEN)
        if request.path == "/script.js" and self._script:
            return self._send_script(request)
        if request.path != "/":
            return request.send_error(HTTPStatus.NOT_FOUND)
        with self._lock:
            page, tag, state = self._page, self._tag, self._state
        self._asked = time.monotonic()
        known = request.headers.get("If-None-Match") == tag
        request.send_response(HTTPStatus.NOT_MODIFIED if known else HTTPStatus.OK)
        for name, value in (("ETag", tag), ("Cache-Control", "no-store"), ("X-Tune-State", state)):
            request.send_header(name, value)
        if not known:
            request.send_header("Content-Type", "text/html; charset=utf-8")
            request.send_header("Content-Length", str(len(page)))
        request.end_headers()
        if not known:
            request.wfile.write(page)
        if state == "ended":
            self._last_sent.set()
        return None

    def _send_script(self, request: BaseHTTPRequestHandler) -> None:
        request.send_response(HTTPStatus.OK)
        request.send_header("Content-Type", "text/javascript; charset=utf-8")
        request.send_header("Content-Length", str(len(self._script)))
        request.end_headers()
        request.wfile.write(self._script)


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that went away in the middle of an answer is no error of the run."""


# watch ------------------------------------------------------------------------------------------------------
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
    from ..commands import build_parser

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
