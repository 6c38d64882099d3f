"""OpenCL kernels and buffers, by pyopencl: one open device a process."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ...files import owned
from ...ir.errors import BuildError, DeviceError, MeasureError
from ...program import abi
from ...program.program import Signature
from ...targets import Target
from ..base import Executable
from ..memory import Memory
from .drivers import settings
from .find import Found

_BATCH = 64
"""Calls, at most, that are queued before anybody waits."""
_BATCH_S = 0.02
MARGIN = 256
_DAY_S = 86400.0
KEPT_S = 14 * _DAY_S


class Session:
    """Context and queue of one device, open in this process; nothing of it survives a fork."""

    def __init__(self, found: Found) -> None:
        """Raises DeviceError."""
        with _environment(found):
            import pyopencl as cl

            self.cl: Any = cl
            self.about = about = found.about
            try:
                platforms = [p for p in cl.get_platforms() if (p.name.strip(), p.version.strip()) == (about["platform"], about["platform_version"])]
                if not platforms:
                    raise DeviceError(
                        f"{found.label} cannot be opened: this process uses another OpenCL driver already, and can use one only; start a new process"
                    )
                self.device = platforms[0].get_devices()[about["at"]]
                self.context = cl.Context([self.device])
                self.queue = cl.CommandQueue(self.context, properties=cl.command_queue_properties.PROFILING_ENABLE)
            except (cl.Error, IndexError) as e:
                raise DeviceError(f"cannot open {found.label}: {e}; see whether it is still there: tune devices") from e
        self.margin = max(MARGIN, self.device.mem_base_addr_align // 8)
        self.buffers: dict[int, Any] = {}
        """What kernels get, by handle."""
        self.whole: dict[int, Any] = {}
        """The same with `margin` bytes in front."""
        self._next = 1

    def add(self, nbytes: int) -> int:
        """A new buffer's handle. Raises MeasureError where there is no room."""
        most = self.about["buffer"] - self.margin
        if nbytes > most:
            raise MeasureError(f"{self.about['name']} takes buffers of at most {most} bytes, not {nbytes}; measure a smaller shape")
        size = max(1, nbytes)
        try:
            whole = self.cl.Buffer(self.context, self.cl.mem_flags.READ_WRITE, self.margin + size)
            buffer = whole.get_sub_region(self.margin, size)
        except self.cl.Error as e:
            raise MeasureError(f"{self.about['name']} has no room for {nbytes} bytes ({e}); measure a smaller shape") from e
        handle, self._next = self._next, self._next + 1
        self.buffers[handle], self.whole[handle] = buffer, whole
        return handle

    def drop(self, handle: int) -> None:
        """Release a buffer."""
        self.buffers.pop(handle).release()
        self.whole.pop(handle).release()

    def options(self) -> list[str]:
        """What programs are compiled with: no more than the standard lets compilers do, and division and square root rounded as IEEE 754 says."""
        return ["-cl-std=CL1.2", *(["-cl-fp32-correctly-rounded-divide-sqrt"] if self.about["rounded"] else [])]

    def compile(self, text: str) -> Any:
        """A program. Raises BuildError with the log's first lines."""
        try:
            return self._built(self.cl.Program(self.context, text), options=self.options(), cache_dir=False)
        except self.cl.Error as e:
            lines = [line.strip() for line in str(e).splitlines() if line.strip() and not line.startswith("(options")]
            raise BuildError("the OpenCL compiler refused it: " + " | ".join(lines[:6])) from None

    def _built(self, program: Any, **how: Any) -> Any:
        with warnings.catch_warnings():
            # drivers chatter about their own doings ("1 warning generated")
            warnings.simplefilter("ignore", self.cl.CompilerWarning)
            return program.build(**how)

    def binary(self, text: str) -> bytes:
        """The driver's binary of a program. Raises BuildError."""
        return bytes(self.compile(text).get_info(self.cl.program_info.BINARIES)[0])

    def link(self, binary: bytes) -> Any:
        """A program from its binary. Raises BuildError."""
        try:
            return self._built(self.cl.Program(self.context, [self.device], [binary]))
        except self.cl.Error as e:
            raise BuildError(f"the OpenCL driver does not take its own binary again ({e}): build it again") from None


@contextlib.contextmanager
def _environment(found: Found) -> Any:
    """While the first call makes the loader open the driver: it, and no other. What PoCL reads later stays set."""
    for name, value in {**settings(), **_caches()}.items():
        os.environ.setdefault(name, value)
    before = {name: os.environ.get(name) for name in found.environment}
    os.environ.update(found.environment)
    try:
        yield
    finally:
        for name, old in before.items():
            os.environ.pop(name, None)
            if old is not None:
                os.environ[name] = old


def _caches() -> dict[str, str]:
    """Where PoCL keeps what it compiled: beside our artefacts, or where that cannot be or somebody else could write there, in a folder that ends with the process."""
    if "POCL_CACHE_DIR" in os.environ:
        return {}
    import platformdirs

    folder = os.path.join(platformdirs.user_cache_dir("tilewright", appauthor=False), "pocl")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if owned.why_not(folder) is not None or not os.access(folder, os.W_OK):
            raise PermissionError(folder)
    except OSError:
        return {"POCL_CACHE_DIR": _temporary()}
    prune(folder)
    return {"POCL_CACHE_DIR": folder}


def prune(folder: str, now: float | None = None) -> None:
    """Delete what PoCL keeps in a folder of ours and nobody used for KEPT_S seconds: it never does so itself, and a search leaves thousands of
    programs there. At most once a day. What cannot be deleted stays."""
    import pathlib
    import shutil

    now, stamp = time.time() if now is None else now, pathlib.Path(folder) / "pruned"
    try:
        if stamp.exists() and now - stamp.stat().st_mtime < _DAY_S:
            return
        stamp.touch()
    except OSError:
        return  # tidying can wait
    # two letters, then a folder a program, with a file that PoCL touches at every use
    for used in pathlib.Path(folder).glob("??/*/last_accessed"):
        with contextlib.suppress(OSError):  # another process is at it too
            if now - used.stat().st_mtime > KEPT_S:
                shutil.rmtree(used.parent, ignore_errors=True)


@functools.cache
def _temporary() -> str:
    import atexit
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix="tilewright-pocl-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


_SESSIONS: dict[tuple[int, str, str, int], Session] = {}


def session(found: Found) -> Session:
    """This process's session of a device."""
    key = (os.getpid(), found.about["platform"], found.about["name"], found.about["at"])
    if key not in _SESSIONS:
        _SESSIONS[key] = Session(found)
    return _SESSIONS[key]


class ClMemory(Memory):
    """Buffers of a session."""

    def __init__(self, s: Session) -> None:
        self._s, self.margin = s, s.margin

    def alloc(self, nbytes: int) -> int:
        return self._s.add(nbytes)

    def free(self, handle: int) -> None:
        self._s.drop(handle)

    def write(self, handle: int, address: int, nbytes: int, offset: int = 0) -> None:
        if nbytes:
            self._do(lambda s: s.cl.enqueue_copy(s.queue, s.whole[handle], _bytes(address, nbytes), dst_offset=self.margin + offset))

    def read(self, handle: int, address: int, nbytes: int, offset: int = 0) -> None:
        if nbytes:
            self._do(lambda s: s.cl.enqueue_copy(s.queue, _bytes(address, nbytes), s.whole[handle], src_offset=self.margin + offset))

    def fill(self, handle: int, byte: int, nbytes: int, offset: int = 0) -> None:
        if nbytes:
            import numpy as np

            self._do(lambda s: s.cl.enqueue_fill_buffer(s.queue, s.whole[handle], np.uint8(byte), self.margin + offset, nbytes))

    def _do(self, work: Callable[[Session], Any]) -> None:
        try:
            work(self._s).wait()
        except self._s.cl.Error as e:
            raise MeasureError(f"{self._s.about['name']} failed to move memory: {e}") from e


def _bytes(address: int, nbytes: int) -> Any:
    import numpy as np

    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))


def refuse(signature: Signature, target: Target) -> None:
    """BuildError for what is over the device's limits: some drivers abort the process over it."""
    abi.shared_bytes(signature, target)
    over = max((n for n in signature.threads if n > target.max_threads), default=0)
    if over:
        raise BuildError(
            f"{signature.name} wants groups of {over} threads and {target.name} takes at most {target.max_threads}: use smaller LOCAL or GROUP options"
        )


class ClExecutable(Executable):
    """A built program. Pointers are handles of the session's buffers."""

    def __init__(self, s: Session, program: Any, signature: Signature, target: Target) -> None:
        self._s, self.signature, self._target, self.threads = s, signature, target, 1
        cl = s.cl
        try:
            self._kernels = [cl.Kernel(program, abi.entry(signature, i)) for i in range(len(signature.items))]
            for kernel, threads in zip(self._kernels, signature.threads, strict=True):
                most = kernel.get_work_group_info(cl.kernel_work_group_info.WORK_GROUP_SIZE, s.device)
                if threads > most:
                    raise BuildError(f"{signature.name} runs in groups of at most {most} threads on {target.name}, not {threads}: it takes too many registers")
        except cl.Error as e:
            raise BuildError(f"the OpenCL driver has no kernel {abi.entry(signature, 0)} in this program ({e}): build it again") from None
        self._arguments = abi.arguments(signature, target)
        self._own: dict[str, tuple[int, int]] = {}
        self._lock = threading.Lock()
        self._set: tuple[Any, ...] = ()
        self._grids: list[tuple[Any, int, int]] = []
        if signature.work:
            self._own["work"] = (s.add(signature.work), signature.work)

    def _bind(self, pointers: Sequence[int], vars: Sequence[int]) -> None:
        """Set every kernel's arguments, unless they are set."""
        now = (*pointers, *vars)
        if now == self._set:
            return
        import numpy as np

        s, sig = self._s, self.signature
        need = abi.arena_bytes(sig, self._target, vars)
        if need and self._own.get("arena", (0, 0))[1] < need:
            if "arena" in self._own:
                s.drop(self._own.pop("arena")[0])
            self._own["arena"] = (s.add(need), need)
        args: list[Any] = []
        for a in self._arguments:
            if a.kind == "symbol":
                args.append(np.int64(vars[a.at]))
            else:
                args.append(s.buffers[pointers[a.at] if a.kind == "param" else self._own[a.kind][0]])
        for kernel in self._kernels:
            kernel.set_args(*args)
        grids = abi.grids(sig, vars)
        self._grids = [(k, n * t, t) for k, n, t in zip(self._kernels, grids, sig.threads, strict=True) if n]
        self._set = now

    def _launch(self, pointers: Sequence[int], vars: Sequence[int]) -> list[Any]:
        self._bind(pointers, vars)
        s = self._s
        return [s.cl.enqueue_nd_range_kernel(s.queue, kernel, (size,), (group,)) for kernel, size, group in self._grids]

    def run(self, pointers: Sequence[int], vars: Sequence[int] = ()) -> None:
        with self._lock, self._failing():
            self._launch(pointers, vars)
            self._s.queue.finish()

    def time(self, pointer_sets: Sequence[Sequence[int]], vars: Sequence[int] = (), repeats: int = 1, limit_s: float = float("inf")) -> list[float]:
        out: list[float] = []
        spent, batch = 0.0, 1
        with self._lock, self._failing():
            while len(out) < max(1, repeats) and (not out or spent <= limit_s):
                first = len(out)
                calls = [self._launch(pointer_sets[i % len(pointer_sets)], vars) for i in range(first, min(first + batch, max(1, repeats)))]
                self._s.queue.finish()
                # the device's clock, from the start of a call's first phase to the end of its last
                out += [(events[-1].profile.end - events[0].profile.start) * 1e-9 if events else 0.0 for events in calls]
                spent = sum(out)
                slowest = max(out[first:])
                batch = max(1, min(_BATCH, int(min(_BATCH_S, max(0.0, limit_s - spent)) / max(slowest, 1e-7))))
        return out

    @contextlib.contextmanager
    def _failing(self) -> Any:
        try:
            yield
        except self._s.cl.Error as e:
            self._set = ()
            raise MeasureError(f"{self._s.about['name']} failed over it: {e}") from None

    def poison(self) -> None:
        memory = ClMemory(self._s)
        for handle, size in self._own.values():
            memory.fill(handle, 0xFF, size)

    def close(self) -> None:
        with self._lock:
            for handle, _ in self._own.values():
                self._s.drop(handle)
            self._own.clear()
            self._kernels, self._grids, self._set = [], [], ()
