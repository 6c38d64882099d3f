"""A module of Python run in a process of its own: asked one question, listened to until a deadline, and ended with all that it started.

A driver, or a user's file, may abort, hang or fork in the process that runs it. It costs an answer there, and nothing here."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

MOST_BYTES = 1 << 28
"""Bytes of output that are kept."""


def not_started(what: str, error: OSError) -> str:
    """The message where a process, which is `what`, cannot be started although its program is there."""
    return f"cannot start {what}: {error}; let this process start others (a container may forbid it), or free some memory or processes"


@dataclass(frozen=True, slots=True)
class ChildAnswer:
    """What a process wrote to standard output and standard error, and how it ended: `status` is its exit code, or minus a signal's number;
    `late`: the deadline ended it."""

    out: bytes
    err: bytes
    status: int
    late: bool

    @property
    def last_line(self) -> str:
        """The last line of its output, '' where there is none."""
        return (self.out.decode(errors="replace").strip().splitlines() or [""])[-1]

    @property
    def complaint(self) -> str:
        """The last line that it wrote to standard error, else how it ended."""
        lines = [line.strip() for line in self.err.decode(errors="replace").splitlines() if line.strip()]
        return lines[-1] if lines else self.ending

    @property
    def why(self) -> str:
        """How it ended, and the last line that it wrote to standard error: `SIGABRT: assertion failed`."""
        return self.ending if self.complaint == self.ending else f"{self.ending}: {self.complaint[:200]}"

    @property
    def ending(self) -> str:
        """How it ended, in words: `exit code 3`, `SIGSEGV`."""
        if self.status >= 0:
            return f"exit code {self.status}"
        try:
            return signal.Signals(-self.status).name
        except ValueError:
            return f"signal {-self.status}"


class ChildProcess:
    """`python -m MODULE ARGUMENTS`, started when this is made."""

    def __init__(self, module: str, *arguments: str, env: Mapping[str, str] | None = None, question: bytes | None = None) -> None:
        """`question` goes to its standard input, which stays open until the end. Raises OSError where no process can be started."""
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, *arguments],
            stdin=subprocess.DEVNULL if question is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=None if env is None else dict(env),
            start_new_session=True,
        )
        self._question = question

    def answer(self, limit_s: float, whole: Callable[[bytearray], bool] = lambda out: False) -> ChildAnswer:
        """Wait until it has ended, or until what it has written is `whole`; after `limit_s` seconds it is ended. When this returns, neither
        it nor what it started in its session's process group is left."""
        process = self._process
        out, err = bytearray(), bytearray()
        assert process.stdout and process.stderr
        try:
            if process.stdin is not None:
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.write(self._question or b"")
                    process.stdin.flush()
            late = self._listen(out, err, time.monotonic() + limit_s, whole)
            if not late and not whole(out):
                with contextlib.suppress(subprocess.TimeoutExpired):  # how it ends is what the message says
                    process.wait(1.0)
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            status = process.wait()
            for stream in (process.stdout, process.stderr, process.stdin):
                with contextlib.suppress(OSError):
                    if stream is not None:
                        stream.close()
        return ChildAnswer(bytes(out), bytes(err), status, late)

    def _listen(self, out: bytearray, err: bytearray, until: float, whole: Callable[[bytearray], bool]) -> bool:
        """Gather both streams; whether the deadline passed before the end."""
        process = self._process
        assert process.stdout and process.stderr
        with selectors.DefaultSelector() as ready:
            ready.register(process.stdout, selectors.EVENT_READ, out)
            ready.register(process.stderr, selectors.EVENT_READ, err)
            while process.stdout in ready.get_map():
                left = until - time.monotonic()
                # a process that it forked may hold the streams open for ever
                gone = process.poll() is not None
                if left <= 0:
                    return True
                if not any(_drain(ready, 0.0 if gone else min(left, 0.5))) and gone:
                    return False
                if whole(out) or len(out) > MOST_BYTES:
                    break
            for _ in range(16):  # what was printed before the answer is in the pipe
                if not any(_drain(ready, 0.0)):
                    break
        return False


def _drain(ready: selectors.BaseSelector, wait_s: float) -> Iterator[bool]:
    for key, _ in ready.select(wait_s):
        data = os.read(key.fd, 1 << 16)
        if not data:
            ready.unregister(key.fileobj)
        elif len(key.data) <= MOST_BYTES:
            key.data.extend(data)
        yield True
