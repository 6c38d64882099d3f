"""Helper processes: one thread, gone when their parent is gone; started by exec, or forked by one that was.

They talk over two pipes, ignore Ctrl-C (their parent decides), and are killed by the kernel when the thread that started them ends. Their
environment keeps BLAS and OpenMP at one thread: a process that forks must not have others.

Cores are shared: while the runner times a candidate, the builders stand still (`Slots`). A builder beside a two-thread run on two cores
doubles its time. All builders are in one process group, so stopping them is one system call, takes effect at once however long a
compilation is, and is undone by whoever outlives the holder."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...files.child_process import not_started
from ...ir.errors import MeasureError
from ...log import ENV as LOG
from ...log import logger
from . import forked
from .forked import Helper
from .protocol import Channel, Closed, roomy

log = logger("measure")

_PR_SET_PDEATHSIG = 1
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")

STILL_S = 60.0
"""A helper that computes has had some processor time in this many seconds, however busy the machine."""
_KEEP_FREED = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
"""glibc otherwise hands every large array back when it is freed, and most of the time of a reference in float64 goes
into getting zeroed pages again."""


def start(module: str, setup: Any, group: int | None = 0) -> tuple[Helper, Channel]:
    """A process that runs `python -m module`, or is one that could have, and send it `setup`. `group`: the process group it
    joins, 0 for its own new one. Raises MeasureError where measuring is not supported."""
    if not sys.platform.startswith("linux"):
        raise MeasureError(
            f"measuring needs Linux (this is {sys.platform}); use --mode require with a cache that was tuned on Linux, or show to render"
        )
    env = environment()
    to_child, from_child = os.pipe(), os.pipe()
    roomy(from_child[1])
    said = os.dup(sys.stderr.fileno()) if _has_fileno(sys.stderr) else os.open(os.devnull, os.O_WRONLY)
    fds, folder = (to_child[0], from_child[1], said), _folder()
    try:
        made = forked.fork(module, group, (*fds, 2, folder), env) if folder is not None else None
        process: Helper = made or _execute(module, group, fds, env)
    except OSError as e:
        os.close(from_child[0])
        os.close(to_child[1])
        raise MeasureError(not_started("a process to build or measure in", e) + "; what was tuned before runs without") from e
    finally:
        for fd in (*fds, *([] if folder is None else [folder])):
            os.close(fd)
    log.debug("started %s as process %d", module, process.pid)
    channel = Channel(from_child[0], to_child[1])
    # the path goes first: a plug-in device or a test's module is unpickled by name
    channel.send((list(sys.path), env, pickle.dumps(setup, protocol=pickle.HIGHEST_PROTOCOL)))
    return process, channel


def begin() -> bool:
    """Have the process that forks helpers do its imports from now on: they will be asked for soon. Nothing is waited for. Whether
    it was started only now."""
    try:
        return sys.platform.startswith("linux") and forked.begin(environment())
    except OSError:  # `start` says so
        return False


def environment() -> dict[str, str]:
    """What helpers are started with."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
    env.update(dict.fromkeys(_ONE_THREAD, "1"))
    env.update(_KEEP_FREED)
    return env


def _folder() -> int | None:
    """The folder that this process works in; None where it may be in it and not enter it again, as after `sudo -u`."""
    try:
        return os.open(".", os.O_PATH)
    except OSError as e:
        log.debug("no helper is forked, the working folder cannot be opened: %s", e)
        return None


def _execute(module: str, group: int | None, fds: tuple[int, int, int], env: dict[str, str]) -> Helper:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, str(fds[0]), str(fds[1]), str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stdout=fds[2],
        pass_fds=fds[:2],
        env=env,
        process_group=group,
    )


def _has_fileno(stream: Any) -> bool:
    try:
        stream.fileno()
    except (AttributeError, OSError, ValueError):
        return False
    return True


def stop(process: Helper, channel: Channel) -> None:
    """End a helper and whatever it forked, now."""
    channel.close()
    process.kill()
    process.wait()


def main(argv: list[str], serve: Callable[[Channel, Any], None]) -> None:
    """The body of a helper's `__main__`: tie its life to the parent's, receive the setup, serve until the parent hangs up."""
    die_with_parent(int(argv[3]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = Channel(int(argv[1]), int(argv[2]))
    os.set_inheritable(channel.read_fd, False)
    os.set_inheritable(channel.write_fd, False)
    serve_until_closed(channel, serve)


def serve_until_closed(channel: Channel, serve: Callable[[Channel, Any], None]) -> None:
    """Receive the setup, serve until the parent hangs up."""
    # a faulting candidate is an outcome, not a traceback on the terminal
    faulthandler.disable()
    try:
        path, env, setup = channel.receive()
        sys.path[:] = path
        _take_environment(env)
        serve(channel, pickle.loads(setup))
    except Closed:
        return


def _take_environment(env: dict[str, str]) -> None:
    """A forked helper has the starter's variables, which may have changed since."""
    if os.environ == env:
        return
    for name in os.environ.keys() - env.keys():
        del os.environ[name]
    os.environ.update(env)
    if os.environ.get(LOG):
        from ...log.setup import from_environment

        from_environment()


def die_with_parent(parent: int) -> None:
    """SIGKILL for this process when its parent ends (in a forked child too: the setting is not inherited)."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def reaped(pid: int, limit_s: float) -> int | None:
    """The wait status of a child that was killed; None where it does not end within `limit_s`: it stands still inside a driver."""
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        if (done := os.waitpid(pid, os.WNOHANG))[0]:
            return done[1]
        time.sleep(1e-3)
    log.info("a worker does not end: the device's driver does not answer")
    return None


def how_it_ended(status: int) -> str:
    """A wait status (or a negative/positive return code of subprocess, passed through `os.waitstatus_to_exitcode`) in words."""
    if status < 0:
        try:
            return f"killed by {signal.Signals(-status).name}"
        except ValueError:
            return f"killed by signal {-status}"
    return f"exited with code {status}"


def used_s(pid: int) -> float:
    """Processor seconds of all threads of a process, to hundredths; 0 where it has ended."""
    return max(0, _ticks(pid)) / os.sysconf("SC_CLK_TCK")


def _ticks(pid: int) -> int:
    """Processor time of all threads of a process; -1 where it has ended."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            fields = f.read().rpartition(")")[2].split()
    except OSError:
        return -1
    return int(fields[11]) + int(fields[12])


class Stillness:
    """Notices a helper that neither answers nor works: stopped, or waiting for what will never come."""

    def __init__(self, pid: int, limit_s: float) -> None:
        """`limit_s`: seconds without any processor time that are too many."""
        self.pid, self.limit_s = pid, limit_s
        self._worked, self._since = _ticks(pid), time.monotonic()

    def over(self) -> bool:
        """Whether it has stood still for longer than the limit."""
        worked = _ticks(self.pid)  # its end is told by its channel too
        if worked != self._worked:
            self._worked, self._since = worked, time.monotonic()
        return time.monotonic() - self._since > self.limit_s


def needs_pause(threads: int, builders: int, cores: int) -> bool:
    """Timing on `threads` beside `builders` busy processes does not fit on `cores` usable cores."""
    return threads + builders > cores


def leave_builders() -> None:
    """For a process that prepares while builders work: from now on it does not stand still with them, but may make them do so."""
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)


class Slots:
    """The right to use the cores, as held by the side that times. `group` is the builders' process group; None: nothing to
    pause."""

    def __init__(self, group: int | None) -> None:
        self.group = group

    def hold(self) -> None:
        """Stop the builders."""
        self._signal(signal.SIGSTOP)

    def release(self) -> None:
        """Let the builders go on (harmless when they were not stopped)."""
        self._signal(signal.SIGCONT)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """The builders stand still inside."""
        self.hold()
        try:
            yield
        finally:
            self.release()

    def _signal(self, number: signal.Signals) -> None:
        if self.group is None:
            return
        try:
            os.killpg(self.group, number)
        except ProcessLookupError:
            # every builder has ended: there is nothing to pause
            self.group = None
