"""A page that a browser on this machine watches while it changes: the last text that it was given, over HTTP."""

from __future__ import annotations

import errno
import hashlib
import socketserver
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any

from ...ir.errors import UsageError

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
