"""A server that stands still: its process is stopped, or its disk hangs. The connection is sound then, so nothing but a clock of
our own notices, and neither driver has one for a statement."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import Any

from ...ir.errors import CacheError


class SilenceWatch:
    """Ends a connection over which nothing came for `limit_s` seconds: whoever waits for it gets an error at once. `fired`: whether it
    did so."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s, self.fired = limit_s, False
        self._until = 0.0
        self._over = threading.Event()

    def over(self, connection: Any) -> None:
        """Watch a driver's connection, from now, and no other any more. Raises CacheError where this process has no more files or
        threads."""
        self.done()
        self._over, self._until = threading.Event(), time.monotonic() + self.limit_s
        try:
            # a descriptor of its own: the driver may close its one, and another connection have the number then
            line = socket.fromfd(connection.fileno(), socket.AF_INET, socket.SOCK_STREAM)
            try:
                threading.Thread(target=self._run, args=(line, self._over), daemon=True, name="watches a server").start()
            except RuntimeError:
                line.close()
                raise
        except (OSError, RuntimeError) as e:
            raise CacheError(
                f"a cache's server cannot be used, for want of a file or a thread to watch it ({e}); raise `ulimit -n` or `-u`"
            ) from None

    def heard(self) -> None:
        """Something came: the clock begins anew."""
        self._until = time.monotonic() + self.limit_s

    def done(self) -> None:
        """Watch no more."""
        self._over.set()

    def _run(self, line: socket.socket, over: threading.Event) -> None:
        with line:
            while (left := self._until - time.monotonic()) > 0:
                if over.wait(left):
                    return
            self.fired = True
            with contextlib.suppress(OSError):  # the driver gave it up just now
                line.shutdown(socket.SHUT_RDWR)
