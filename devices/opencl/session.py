"""One open OpenCL device a process: its context, its queue, its buffers, and its driver's cache of what was built."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...files import folders, owned
from ...ir.errors import BuildError, DeviceError, MeasureError
from ..base import Memory
from ..once import forked, once, process_lock
from .drivers import FoundDevice, settings

MARGIN = 256


_DAY_S = 86400.0


KEPT_S = 14 * _DAY_S


class ClSession:
    """Context and queue of one device, open in this process; nothing of it survives a fork. `using()` is held around every call of the
    driver: arguments are kept in kernels until they are launched, and PoCL's compiler is not made for several threads."""

    def __init__(self, found: FoundDevice) -> None:
        """Raises DeviceError."""
        self._lock = process_lock()
        self._process = os.getpid()
        with _environment(found):
            import pyopencl as cl

            self.cl: Any = cl
            self.about = about = found.about
            try:
                platforms = [
                    p for p in cl.get_platforms() if (p.name.strip(), p.version.strip()) == (about["platform"], about["platform_version"])
                ]
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
        self._handles = itertools.count(1)

    @contextlib.contextmanager
    def using(self) -> Iterator[None]:
        """The driver is this thread's. Raises DeviceError in a forked child, which would wait for ever for threads of the driver that
        it does not have."""
        self.check_process()
        with self._lock:
            yield

    def check_process(self) -> None:
        """Raise DeviceError in a child of the process that opened the device."""
        if os.getpid() != self._process:
            raise forked(str(self.about["name"]))

    def add(self, nbytes: int) -> int:
        """A new buffer's handle. Raises MeasureError where there is no room."""
        most = self.about["buffer"] - self.margin
        if nbytes > most:
            raise MeasureError(f"{self.about['name']} takes buffers of at most {most} bytes, not {nbytes}; measure a smaller shape")
        size = max(1, nbytes)
        with self.using():
            try:
                whole = self.cl.Buffer(self.context, self.cl.mem_flags.READ_WRITE, self.margin + size)
                buffer = whole.get_sub_region(self.margin, size)
            except self.cl.Error as e:
                raise MeasureError(f"{self.about['name']} has no room for {nbytes} bytes ({e}); measure a smaller shape") from e
        handle = next(self._handles)
        self.buffers[handle], self.whole[handle] = buffer, whole
        return handle

    def drop(self, handle: int) -> None:
        """Release a buffer. In a forked child, where a tensor of its parent's dies, nothing can be released."""
        if os.getpid() == self._process:
            with self.using():
                self.buffers.pop(handle).release()
                self.whole.pop(handle).release()

    def options(self) -> list[str]:
        """What programs are compiled with: no more than the standard lets compilers do, and division and square root
        rounded as IEEE 754 says. Khronos's shuffles of subgroups are functions of OpenCL C 2.0 on."""
        wide = "cl_khr_subgroup_shuffle" in self.about["extensions"] and self.about["kind"] != "cpu" and " 1." not in self.about["version"]
        return [f"-cl-std=CL{'2.0' if wide else '1.2'}", *(["-cl-fp32-correctly-rounded-divide-sqrt"] if self.about["rounded"] else [])]

    def compile(self, text: str, options: Sequence[str] | None = None) -> Any:
        """A program, with these options or else `options()`. Raises BuildError with the log's first lines."""
        options = self.options() if options is None else list(options)
        try:
            return self._built(self.cl.Program(self.context, text), options=options, cache_dir=False)
        except self.cl.Error as e:
            lines = [line.strip() for line in str(e).splitlines() if line.strip() and not line.startswith("(options")]
            raise BuildError("the OpenCL compiler refused it: " + " | ".join(lines[:6])) from None

    def _built(self, program: Any, **how: Any) -> Any:
        with self.using(), warnings.catch_warnings():
            # drivers chatter about their own doings ("1 warning generated")
            warnings.simplefilter("ignore", self.cl.CompilerWarning)
            return program.build(**how)

    def binary(self, text: str, options: Sequence[str] | None = None) -> bytes:
        """The driver's binary of a program. Raises BuildError."""
        return bytes(self.compile(text, options).get_info(self.cl.program_info.BINARIES)[0])

    def link(self, binary: bytes) -> Any:
        """A program from its binary. Raises BuildError."""
        try:
            return self._built(self.cl.Program(self.context, [self.device], [binary]))
        except self.cl.Error as e:
            raise BuildError(f"the OpenCL driver does not take its own binary again ({e}): build it again") from None


@contextlib.contextmanager
def _environment(found: FoundDevice) -> Any:
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
    """Where PoCL keeps what it compiled: beside our artefacts, or where that cannot be or somebody else could write
    there, in a folder that ends with the process."""
    if "POCL_CACHE_DIR" in os.environ:
        return {}
    folder = os.path.join(folders.made(), "pocl")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if owned.why_not(folder) is not None or not os.access(folder, os.W_OK):
            raise PermissionError(folder)
    except OSError:
        return {"POCL_CACHE_DIR": _temporary()}
    prune(folder)
    return {"POCL_CACHE_DIR": folder}


def prune(folder: str, now: float | None = None) -> None:
    """Delete what PoCL keeps in a folder of ours and nobody used for KEPT_S seconds: it never does so itself, and a
    search leaves thousands of programs there. At most once a day. What cannot be deleted stays."""
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


@once
def _temporary() -> str:
    import atexit
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix="tilewright-pocl-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


_OPENING = process_lock()
_SESSIONS: dict[tuple[str, str, int], ClSession] = {}


def session(found: FoundDevice) -> ClSession:
    """This process's session of a device."""
    key = (found.about["platform"], found.about["name"], found.about["at"])
    with _OPENING:
        for s in _SESSIONS.values():
            s.check_process()
        if key not in _SESSIONS:
            _SESSIONS[key] = ClSession(found)
        return _SESSIONS[key]


class ClMemory(Memory):
    """Buffers of a session."""

    def __init__(self, s: ClSession) -> None:
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

    def _do(self, work: Callable[[ClSession], Any]) -> None:
        try:
            with self._s.using():
                work(self._s).wait()
        except self._s.cl.Error as e:
            raise MeasureError(f"{self._s.about['name']} failed to move memory: {e}") from e


def _bytes(address: int, nbytes: int) -> Any:
    import numpy as np

    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))
