"""The starter: a process that has imported what helpers need, and forks a helper whenever it is asked for one.

`python -m tilewright.measure.processes.starter SOCKET_FD PARENT_PID`. A helper has to be the child of the process that asked: that
one waits for it, learns how it ended, and takes it along when it ends. So it is made by clone with CLONE_PARENT
(clone(2)), which `os.fork` has no room for."""

from __future__ import annotations

import ctypes
import errno
import gc
import importlib
import os
import platform
import signal
import socket
import sys
import traceback

from . import process
from .forked import ANSWER, DESCRIPTORS, FORKED
from .protocol import Channel

_CLONE = {"x86_64": 56, "aarch64": 220, "riscv64": 220}
"""The number of the system call; its flags come first on all of these."""
_CLONE_PARENT = 0x8000
_PR_SET_NAME = 15
NAMES = {module: f"tw-{module.rpartition('.')[2]}".encode() for module in FORKED}
"""What /proc and ps call a helper: its command line is the starter's."""
_NEEDED = (
    "numpy", "numpy.random", "llvmlite.binding", "tilewright.lower", "tilewright.renderers", "tilewright.plan.artefacts",
    "tilewright.devices.cpu.device", "tilewright.devices.cpu.executable", "tilewright.measure.bench",
    "tilewright.measure.checking.compare", "tilewright.measure.operands", "tilewright.measure.checking.exact_sums", "tilewright.measure.roofline",
    "tilewright.measure.checking.compiled_references", "tilewright.measure.checking.verify", *FORKED[:2],
)  # fmt: skip
"""What helpers import later, when they serve."""


def clone() -> int:
    """Do what `os.fork` does, but the new process is a child of this one's parent. Raises OSError. For a process of one thread."""
    python = ctypes.PyDLL(None, use_errno=True)  # which keeps the interpreter's lock
    python.syscall.restype = ctypes.c_long
    python.PyOS_BeforeFork()
    zero = ctypes.c_long(0)
    pid = int(
        python.syscall(ctypes.c_long(_CLONE[platform.machine()]), ctypes.c_long(_CLONE_PARENT | signal.SIGCHLD), zero, zero, zero, zero)
    )
    if pid == 0:
        python.PyOS_AfterFork_Child()
        return 0
    error = ctypes.get_errno()
    python.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(error, os.strerror(error))
    return pid


def serve(asked: socket.socket, parent: int) -> None:
    """Make helpers until nobody can ask any more."""
    while True:
        request, fds, _, _ = socket.recv_fds(asked, 1 << 12, DESCRIPTORS)
        if not request:
            return
        module, _, group = request.decode().partition(" ")
        try:
            if clone() == 0:
                _become(asked, module, int(group), fds, parent)
        except OSError as e:
            asked.send(ANSWER.pack(0, e.errno or errno.EIO))
        for fd in fds:
            os.close(fd)


def _become(asked: socket.socket, module: str, group: int, fds: list[int], parent: int) -> None:
    """Be a helper, to the end of this process."""
    code = 1
    try:
        process.die_with_parent(parent)
        try:
            if group >= 0:
                os.setpgid(0, group)  # before the answer: the next one may join this group
            os.fchdir(fds[4])
        except OSError as e:  # whoever asked is waiting, and can tell why
            asked.send(ANSWER.pack(os.getpid(), e.errno or errno.EIO))
            return
        ctypes.CDLL(None).prctl(_PR_SET_NAME, NAMES[module])
        asked.send(ANSWER.pack(os.getpid(), 0))
        asked.close()
        os.dup2(fds[2], 1)
        os.dup2(fds[3], 2)
        for fd in fds[2:]:
            os.close(fd)
        for fd in fds[:2]:  # received ones are inherited by what is executed
            os.set_inheritable(fd, False)
        importlib.invalidate_caches()
        process.serve_until_closed(Channel(fds[0], fds[1]), importlib.import_module(module).serve)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def main(argv: list[str]) -> None:
    """The body of the process."""
    parent = int(argv[2])
    process.die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asked = socket.socket(fileno=int(argv[1]))
    asked.set_inheritable(False)
    if platform.machine() not in _CLONE:
        return
    for name in _NEEDED:
        importlib.import_module(name.replace("tilewright", __package__.partition(".")[0], 1))
    gc.collect()
    gc.freeze()
    serve(asked, parent)


if __name__ == "__main__":
    main(sys.argv)
