"""Messages between the main process, the builders and the runner: pickled objects in length-prefixed frames over pipes.

Both ends are this program, started by this program on this machine, so pickle is safe here; nothing from a file or a network
is ever read this way. Long ones, which are mostly text (a candidate's source), are compressed: a pipe holds little, and who writes more than
it holds waits until the other end has time to read.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pickle
import select
import struct
import time
import zlib
from collections import deque
from typing import Any

_HEADER = struct.Struct("<Q")
_CHUNK = 1 << 20
_LONG = 1 << 15
"""Bytes of a message from which it is compressed."""
_COMPRESSED = 1 << 63
"""Added to the length of such a message."""
_ROOM = 1 << 20
"""Bytes that a roomy pipe holds: what a system allows everyone."""


class Closed(Exception):
    """The other end is gone."""


class Channel:
    """One end of a two-way connection, over two file descriptors it owns. Not for use by two threads at once."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self.read_fd, self.write_fd = read_fd, write_fd
        self._have = bytearray()
        self._ready: deque[Any] = deque()
        self._eof = False

    def fileno(self) -> int:
        """The descriptor to wait for reading on."""
        return self.read_fd

    def send(self, message: Any) -> None:
        """Write one message, blocking until it is out. Raises Closed."""
        self.send_bytes(pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL))

    def send_bytes(self, payload: bytes) -> None:
        """Write one already pickled message. Raises Closed."""
        how = 0
        if len(payload) >= _LONG:
            payload, how = zlib.compress(payload, 1), _COMPRESSED
        view = memoryview(_HEADER.pack(len(payload) | how) + payload)
        try:
            while view:
                view = view[os.write(self.write_fd, view) :]
        except (BrokenPipeError, OSError) as e:
            raise Closed(str(e)) from e

    def receive(self, timeout: float | None = None) -> Any:
        """The next message. Raises Closed at the end of the stream and TimeoutError after `timeout` seconds."""
        until = None if timeout is None else time.monotonic() + timeout
        while not self._ready:
            left = None if until is None else max(0.0, until - time.monotonic())
            if not select.select([self.read_fd], [], [], left)[0]:
                raise TimeoutError
            self.pump()
        return self._ready.popleft()

    def pump(self) -> None:
        """Read what is there (call when `fileno()` is readable). Raises Closed once nothing is left to hand out."""
        if not self._eof:
            try:
                data = os.read(self.read_fd, _CHUNK)
            except OSError:
                data = b""
            self._eof = not data
            self._have += data
        while len(self._have) >= _HEADER.size:
            (said,) = _HEADER.unpack_from(self._have)
            size = said & ~_COMPRESSED
            if len(self._have) < _HEADER.size + size:
                break
            # bytes() first: unpickling must not hold a view into the buffer that is about to shrink
            payload = bytes(memoryview(self._have)[_HEADER.size : _HEADER.size + size])
            del self._have[: _HEADER.size + size]
            self._ready.append(pickle.loads(zlib.decompress(payload) if said & _COMPRESSED else payload))
        if self._eof and not self._ready:
            raise Closed("end of stream")

    def pending(self) -> bool:
        """A whole message is already here."""
        return bool(self._ready)

    def close(self) -> None:
        """Close both descriptors; the other end sees the end of the stream."""
        for fd in {self.read_fd, self.write_fd}:
            if fd >= 0:
                os.close(fd)
        self.read_fd = self.write_fd = -1


def roomy(fd: int) -> None:
    """Let a pipe hold more, where the system has room for that: its writer goes on while the reader is busy with something else."""
    with contextlib.suppress(OSError):  # this user's pipes hold much already
        fcntl.fcntl(fd, getattr(fcntl, "F_SETPIPE_SZ", 1031), _ROOM)


def pair() -> tuple[Channel, Channel]:
    """Two connected ends (all descriptors close on exec)."""
    a_read, b_write = os.pipe()
    b_read, a_write = os.pipe()
    return Channel(a_read, a_write), Channel(b_read, b_write)
