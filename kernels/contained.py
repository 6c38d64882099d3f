"""A process of its own for a user's kernel file: asked, listened to until a deadline, and ended with all that it started."""

from __future__ import annotations

import contextlib
import os
import pickle
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from ..ir.errors import KernelError
from . import sent

DEADLINE_S = 120.0
"""How long a file and its function may take: imports of large libraries on a busy machine, not computations."""
_MOST_SAID = 1 << 16
"""Bytes of what a file prints that are passed on, to standard error."""


def ask(path: str, question: tuple[Any, ...], module: str = f"{__package__}.inside") -> bytes:
    """The answer (see `sent`) of a fresh process to a question; when this returns, neither it nor what it started in
    its session's process group is left. `module` calls `inside.serve`. `path` is what messages call the file. Raises
    KernelError where there is no answer."""
    request = pickle.dumps((list(sys.path), *question))
    command = [sys.executable, "-P", "-m", module, str(os.getpid())]
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    except OSError as e:
        raise KernelError(f"{path}: no process can be started to run it in ({e.strerror}); free some memory or processes") from None
    assert process.stdin and process.stdout and process.stderr
    answer, said = bytearray(), bytearray()
    try:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(request)
            process.stdin.flush()
        late = _listen(process, answer, said)
        if not late and sent.unframed(answer) is None:
            with contextlib.suppress(subprocess.TimeoutExpired):  # how it ends is what the message says
                process.wait(1.0)
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        status = process.wait()
        for stream in (process.stdout, process.stderr):
            stream.close()
        with contextlib.suppress(OSError):
            process.stdin.close()
    if said and sys.stderr is not None:
        sys.stderr.write(said[:_MOST_SAID].decode(errors="backslashreplace"))
    if late:
        raise KernelError(f"{path} did not return within {DEADLINE_S:g} s; a kernel's file should import and describe, not compute")
    whole = sent.unframed(answer)
    if whole is None:
        raise KernelError(f"{path} ended the process that ran it ({_ending(status)}) and handed back no Kernel")
    return whole


def _listen(process: subprocess.Popen[bytes], answer: bytearray, said: bytearray) -> bool:
    """Gather both streams until the answer is whole or the process has ended; whether the deadline passed before that."""
    assert process.stdout and process.stderr
    until = time.monotonic() + DEADLINE_S
    with selectors.DefaultSelector() as ready:
        ready.register(process.stdout, selectors.EVENT_READ, answer)
        ready.register(process.stderr, selectors.EVENT_READ, said)
        while process.stdout in ready.get_map():
            left = until - time.monotonic()
            # a process that it forked may hold the streams open for ever
            gone = process.poll() is not None
            if left <= 0:
                return True
            if not any(_drain(ready, 0.0 if gone else min(left, 0.5))) and gone:
                return False
            if sent.unframed(answer) is not None or len(answer) > sent.MOST:
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
        elif len(key.data) <= sent.MOST:
            key.data.extend(data)
        yield True


def _ending(status: int) -> str:
    if status >= 0:
        return f"exit code {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
