"""Helpers that are forked instead of started by exec: asking the starter process for one, and holding it.

Most of a helper's start is imports, half a second of a core. The starter (`starter.py`) has done them, and a search
that needs a runner and builders, or the next search of this process, has them at once. A forked helper is a child of
this process like any other: it is waited for here, and ends with the thread that asked."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ...log import logger
from ...targets import affinity

log = logger("measure")

MODULE = "tilewright.measure.processes.starter"
FORKED = ("tilewright.measure.processes.runner", "tilewright.measure.processes.builder", "tilewright.sources.source_reference")
"""Modules that the starter forks."""
ANSWER = struct.Struct("<qq")
"""What the starter's side says: the new process, or 0, and the number of the error that kept it from being a helper, or 0."""
DESCRIPTORS = 5
"""What a helper is given: to read, to write, its standard output, its standard error, and the folder it works in."""
_ANSWER_S = 60.0
"""How long the starter may take on a busy machine; the first answer waits for its imports."""
_LATE = ("TILEWRIGHT_", "XDG_", "PYTEST_", "COLUMNS", "LINES", "PWD", "OLDPWD")
"""Variables that are read when they are needed, and not when a process or a library starts."""
_here = threading.local()


class Helper(Protocol):
    """What is needed of a helper process, of which `subprocess.Popen` has more."""

    pid: int

    def kill(self) -> None:
        """SIGKILL, unless it was waited for."""

    def wait(self) -> int:
        """Wait for its end; its exit code, or minus the signal."""


class Forked:
    """A child of this process that the starter made."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def kill(self) -> None:
        """SIGKILL, unless it was waited for."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # this process ignores the end of its children
                os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Wait for its end; its exit code, or minus the signal."""
        if self.returncode is None:
            try:
                self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            except ChildProcessError:  # this process ignores the end of its children
                self.returncode = 0
        return self.returncode


class Starter:
    """The starter process of one thread: it ends with the thread, and so do the helpers that it makes."""

    def __init__(self, env: Mapping[str, str]) -> None:
        """`env`: what it is started with. Nothing is waited for."""
        self._made = _surroundings(env)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", MODULE, str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env=dict(env),
                process_group=0,
            )
        self._socket = ours
        self.close = weakref.finalize(self, _end, self._process, ours)
        """End it. The helpers stay."""
        log.debug("started %s as process %d", MODULE, self._process.pid)

    def fits(self, env: Mapping[str, str]) -> bool:
        """Whether a process that this thread started now would begin as the starter did."""
        return self._process.poll() is None and self._made == _surroundings(env)

    def fork(self, module: str, group: int | None, fds: Sequence[int]) -> Forked:
        """A helper that serves as `module`, in process group `group` (0: its own; None: the starter's), with
        these DESCRIPTORS. Raises OSError where there is none."""
        request = f"{module} {-1 if group is None else group}".encode()
        socket.send_fds(self._socket, [request], list(fds))
        self._socket.settimeout(_ANSWER_S)
        answer = self._socket.recv(ANSWER.size)
        if not answer:
            raise OSError("the starter ended")
        pid, error = ANSWER.unpack(answer)
        made = Forked(pid) if pid else None
        if error:
            if made is not None:  # it ends by itself
                made.wait()
            raise OSError(error, os.strerror(error))
        assert made is not None
        return made


def _end(process: subprocess.Popen[bytes], asked: socket.socket) -> None:
    asked.close()
    process.kill()
    process.wait()


def fork(module: str, group: int | None, fds: Sequence[int], env: Mapping[str, str]) -> Forked | None:
    """A forked helper (`Starter.fork`) by this thread's starter, which is started where there is none that fits; None
    where forking does not work here."""
    if module not in FORKED or getattr(_here, "broken", False):
        return None
    starter = prepare(env)
    try:
        return starter.fork(module, group, fds)
    except OSError as e:
        log.info("helpers are started one by one: %s", e)
        _here.broken = True
        starter.close()
        return None
    except BaseException:  # Ctrl-C: the answer may still come, and would be taken for the next one's
        starter.close()
        raise


def begin(env: Mapping[str, str]) -> bool:
    """Start this thread's starter, if forking works here; whether there was none that fits."""
    if getattr(_here, "broken", False):
        return False
    before = getattr(_here, "starter", None)
    return prepare(env) is not before


def prepare(env: Mapping[str, str]) -> Starter:
    """This thread's starter; nothing is waited for."""
    starter: Starter | None = getattr(_here, "starter", None)
    if starter is not None and not starter.fits(env):
        starter.close()
        starter = None
    if starter is None:
        starter = _here.starter = Starter(env)
    return starter


def _surroundings(env: Mapping[str, str]) -> tuple[Any, ...]:
    """What a new process inherits and cannot be told later."""
    limits = [resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")]
    early = {k: v for k, v in env.items() if not k.startswith(_LATE)}
    who = os.getresuid(), os.getresgid(), sorted(os.getgroups())
    return os.getpid(), who, early, limits, affinity(), os.nice(0), sys.executable
