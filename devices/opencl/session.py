"""One open OpenCL device a process: its context, its queue, its buffers, and its driver's cache of what was built."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import re
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...ir.errors import BuildError, DeviceError, MeasureError, UsageError
from ...log import logger
from ..base import DeviceArrays, Executable, HugePages, Memory
from ..once import forked, process_lock
from .declarations import KNOWN, declarations
from .drivers import FoundDevice, settings

log = logger("devices")

MARGIN = 256
HUGE = 2 << 20
"""Bytes of a huge page."""
ALIGNED = 64
"""Bytes that the longest vectors are loaded from multiples of."""


class ClSession:
    """Context and queue of one device, open in this process; nothing of it survives a fork. `using()` is held around every call of the
    driver: arguments are kept in kernels until they are launched, and PoCL's compiler is not made for several threads."""

    def __init__(self, found: FoundDevice, queue: Any = None) -> None:
        """`queue`: a user's, with its context; else both are made. Raises DeviceError."""
        self._lock = process_lock()
        self._process = os.getpid()
        with environment(found):
            import pyopencl as cl

            self.cl: Any = cl
            self.about = about = found.about
            self.late = found.late
            self.in_order = queue is None or not queue.properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
            try:
                if queue is not None:
                    self.queue, self.context, self.device = queue, queue.context, queue.device
                    self._begin()
                    return
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
        self._begin()

    def _begin(self) -> None:
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
                whole = self._made(self.margin + size)
                buffer = whole.get_sub_region(self.margin, size)
            except (self.cl.Error, DeviceError) as e:
                raise MeasureError(f"{self.about['name']} has no room for {nbytes} bytes ({e}); measure a smaller shape") from e
        handle = self.keep(buffer)
        self.whole[handle] = whole
        return handle

    def _made(self, nbytes: int) -> Any:
        """A buffer. Drivers for processors get the memory of large ones, in huge pages: what they allocate is in small ones."""
        flags = self.cl.mem_flags
        if self.about["kind"] != "cpu" or nbytes < HUGE:
            return self.cl.Buffer(self.context, flags.READ_WRITE, nbytes)
        room = HugePages(nbytes)
        host = _bytes(room.address, nbytes)
        # the buffer keeps the array, and the array its pages; a queued call may use them
        weakref.finalize(host, lambda queue, room: queue.finish(), self.queue, room).atexit = False
        return self.cl.Buffer(self.context, flags.READ_WRITE | flags.USE_HOST_PTR, hostbuf=host)

    def keep(self, buffer: Any) -> int:
        """A handle of a buffer."""
        handle = next(self._handles)
        self.buffers[handle] = buffer
        return handle

    def drop(self, handle: int) -> None:
        """Forget a buffer, which is released where nobody else has it. In a forked child, where a tensor of its parent's dies, nothing can
        be released."""
        if os.getpid() == self._process:
            with self.using():
                del self.buffers[handle]
                self.whole.pop(handle, None)

    @contextlib.contextmanager
    def lent(self, buffers: Sequence[Any]) -> Iterator[list[int]]:
        """Handles of memory that somebody else keeps, which kernels may be launched with here."""
        handles = [next(self._handles) for _ in buffers]
        self.buffers.update(zip(handles, buffers, strict=True))
        try:
            yield handles
        finally:
            for handle in handles:
                del self.buffers[handle]

    def options(self) -> list[str]:
        """What programs are compiled with: no more than the standard lets compilers do, and division and square root
        rounded as IEEE 754 says. Khronos's shuffles of subgroups are functions of OpenCL C 2.0 on."""
        wide = "cl_khr_subgroup_shuffle" in self.about["extensions"] and self.about["kind"] != "cpu" and " 1." not in self.about["version"]
        return [f"-cl-std=CL{'2.0' if wide else '1.2'}", *(["-cl-fp32-correctly-rounded-divide-sqrt"] if self.about["rounded"] else [])]

    def compile(self, text: str, options: Sequence[str] | None = None) -> Any:
        """A program, with these options or else `options()`. Raises BuildError with the first lines of the compiler's log, errors first."""
        options = self.options() if options is None else list(options)
        head = declarations(text) if self.late else None
        if head is not None:
            try:
                return self._built(self.cl.Program(self.context, head + text), options=[*options, KNOWN], cache_dir=False)
            except self.cl.Error as e:
                log.debug("compiled with all declarations: %s", e)
        try:
            return self._built(self.cl.Program(self.context, text), options=options, cache_dir=False)
        except self.cl.Error as e:
            raise BuildError(f"the OpenCL compiler refused it: {_complaints(str(e))}") from None

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


def _complaints(said: str) -> str:
    """The lines of a build's log that say what is wrong: errors, with what follows them, before anything else. pyopencl's own lines, and what
    drivers say of how many errors there were, are left out."""
    said = re.sub(r"\S*/tempfile_\w+\.cl:", "line ", said)  # PoCL's name for the text
    lines = [line.strip() for line in said.splitlines() if line.strip() and not _CHATTER.match(line.strip())]
    first = next((i for i, line in enumerate(lines) if re.search(r"\berror\b", line, re.IGNORECASE)), 0)
    return " | ".join(lines[first : first + 6]) or "it does not say why"


_CHATTER = re.compile(
    r"\(options|\(source saved|clBuildProgram failed|Build on <|Device .* failed to build|\d+ (warning|error)s? |CompilerWarning"
)


@contextlib.contextmanager
def environment(found: FoundDevice) -> Any:
    """While the first call makes the loader open the driver: it, and no other. What PoCL reads later stays set."""
    for name, value in settings().items():
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


_OPENING = process_lock()
_SESSIONS: dict[tuple[str, str, int, int], ClSession] = {}


def session(found: FoundDevice, queue: Any = None) -> ClSession:
    """This process's session of a device, or of a queue of pyopencl's that a user made there."""
    key = (found.about["platform"], found.about["name"], found.about["at"], 0 if queue is None else queue.int_ptr)
    with _OPENING:
        for s in _SESSIONS.values():
            s.check_process()
        if key not in _SESSIONS:
            _SESSIONS[key] = ClSession(found, queue)
        return _SESSIONS[key]


class ClMemory(Memory):
    """Buffers of a session."""

    def __init__(self, s: ClSession) -> None:
        self._s, self.margin = s, s.margin

    def alloc(self, nbytes: int) -> int:
        return self._s.add(nbytes)

    def free(self, handle: int) -> None:
        self._s.drop(handle)

    def _at(self, handle: int, offset: int) -> tuple[Any, int]:
        """The buffer of a handle with its margin, where it has one, and a place in it."""
        whole = self._s.whole.get(handle)
        return (self._s.buffers[handle], offset) if whole is None else (whole, self.margin + offset)

    def write(self, handle: int, address: int, nbytes: int, offset: int = 0) -> None:
        if nbytes:
            buffer, at = self._at(handle, offset)
            self._do(lambda s: s.cl.enqueue_copy(s.queue, buffer, _bytes(address, nbytes), dst_offset=at))

    def read(self, handle: int, address: int, nbytes: int, offset: int = 0) -> None:
        if nbytes:
            buffer, at = self._at(handle, offset)
            self._do(lambda s: s.cl.enqueue_copy(s.queue, _bytes(address, nbytes), buffer, src_offset=at))

    def fill(self, handle: int, byte: int, nbytes: int, offset: int = 0) -> None:
        if nbytes:
            import numpy as np

            buffer, at = self._at(handle, offset)
            self._do(lambda s: s.cl.enqueue_fill_buffer(s.queue, buffer, np.uint8(byte), at, nbytes))

    def shared(self, address: int, nbytes: int) -> int:
        # a driver for processors computes where an array lies; vectors are loaded from multiples of their size
        if self._s.about["kind"] != "cpu" or address % ALIGNED or not nbytes:
            return 0
        cl = self._s.cl
        with self._s.using():
            flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
            return self._s.keep(cl.Buffer(self._s.context, flags, hostbuf=_bytes(address, nbytes)))

    def unshare(self, handle: int, nbytes: int, written: bool) -> None:
        s = self._s
        with s.using():
            buffer = s.buffers.pop(handle)
            if written:
                # by the standard the host sees what kernels wrote once the buffer is mapped
                import numpy as np

                flags = s.cl.map_flags.READ
                mapped, event = s.cl.enqueue_map_buffer(s.queue, buffer, flags, 0, (nbytes,), np.uint8, is_blocking=False)
                mapped.base.release(s.queue, [event]).wait()
            buffer.release()

    def arrays(self, given: Sequence[Any]) -> DeviceArrays | None:
        return UserArrays.of(self._s, given)

    def forget(self, handle: int) -> None:
        self._s.buffers.pop(handle, None)

    def exported(self, handle: int, shape: tuple[int, ...], dtype: Any) -> Any:
        import pyopencl.array

        buffer, at = self._at(handle, 0)
        return pyopencl.array.Array(self._s.queue, shape, dtype, data=buffer, offset=at)

    def _do(self, work: Callable[[ClSession], Any]) -> None:
        try:
            with self._s.using():
                work(self._s).wait()
        except self._s.cl.Error as e:
            raise MeasureError(f"{self._s.about['name']} failed to move memory: {e}") from e


def _bytes(address: int, nbytes: int) -> Any:
    import numpy as np

    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))


# user arrays ----------------------------------------------------------------------------------------------------------
# Arrays, buffers and shared virtual memory of pyopencl as a kernel's arguments, where they lie: in the user's context, on the user's
# queue.


class UserArrays(DeviceArrays):
    """`pyopencl.array.Array`, `pyopencl.Buffer`, and `pyopencl.SVM` of a NumPy array. A call waits for the events of its arrays, and adds its
    own to those of its outputs, as pyopencl's operations do; it returns before it is done. `session` is a ClSession."""

    def __init__(self, session: Any, given: Sequence[Any]) -> None:
        self._s, self._given = session, list(given)
        self._memory = [self._part(a) for a in given]
        self.looks = [_look(a) for a in given]

    @classmethod
    def of(cls, session: Any, given: Sequence[Any]) -> UserArrays | None:
        """None where none of them is pyopencl's. Raises UsageError."""
        given = [a.pyopencl() if hasattr(a, "pyopencl") else a for a in given]
        pyopencls = list(map(is_pyopencls, given))
        if not any(pyopencls):
            return None
        if not all(pyopencls):
            raise UsageError(
                "some arguments are pyopencl's and some are not: copy the others to the device, pyopencl.array.to_device(queue, x)"
            )
        return cls(session, given)

    def _part(self, a: Any) -> Any:
        """What a kernel's argument is set to."""
        cl = self._s.cl
        base, offset = getattr(a, "base_data", a), getattr(a, "offset", 0) if hasattr(a, "base_data") else 0
        if base is None:
            raise UsageError("an array of pyopencl has no elements, so it has no memory that a kernel could be given")
        held = isinstance(base, cl.MemoryObjectHolder) and not isinstance(base, cl.Image)  # (buffers, and those of pools)
        if not held and not isinstance(base, cl.SVM) and not hasattr(base, "svm_ptr"):
            raise UsageError(f"{type(a).__name__} is no array: pass pyopencl.array.Array, pyopencl.Buffer or pyopencl.SVM")
        if held and base.context != self._s.context:
            raise UsageError(
                "an array lies in another OpenCL context: ask for the kernel with device=tilewright.devices.opencl.on(queue), a queue of its context"
            )
        if hasattr(a, "base_data") and not a.flags.c_contiguous:
            raise UsageError("an array of pyopencl is not contiguous in row-major order: pass a copy, x.copy()")
        if not offset:
            return base
        try:
            return base.get_sub_region(offset, a.nbytes)
        except (cl.Error, AttributeError) as e:
            raise UsageError(f"an array of pyopencl begins where kernels cannot: pass a copy, x.copy() ({e})") from None

    def add(self, shape: Sequence[int], dtype: Any) -> Any:
        import pyopencl.array

        made = pyopencl.array.empty(self._s.queue, tuple(shape), dtype)
        self._given.append(made)
        self._memory.append(made.base_data)
        self.looks = [*self.looks, _look(made)]
        return made

    def overlap(self, i: int, j: int, same: bool) -> bool:
        a, b = self._span(i), self._span(j)
        return a[0] == b[0] and a[1] < b[2] and b[1] < a[2] and not (same and a == b)

    def _span(self, i: int) -> tuple[int, int, int]:
        a = self._given[i]
        base = getattr(a, "base_data", a)
        pointer = int(getattr(base, "int_ptr", 0) or getattr(base, "svm_ptr", 0))
        begin = getattr(a, "offset", 0) if base is not a else 0
        return pointer, begin, begin + self.looks[i][2]

    def handles(self) -> list[int]:
        if not all(isinstance(m, self._s.cl.MemoryObjectHolder) for m in self._memory):
            raise UsageError("tensors do not lie in shared virtual memory: copy it to a buffer, pyopencl.array.to_device(queue, x.get())")
        with self._s.using():
            for a in self._given:
                for e in getattr(a, "events", ()):
                    e.wait()
        return [self._s.keep(m) for m in self._memory]

    def launch(self, executable: Executable, vars: Sequence[int], outputs: int) -> None:
        inner: Any = executable  # a ClExecutable: this memory's
        events = [e for a in self._given for e in getattr(a, "events", ())]
        try:
            with self._s.lent(self._memory) as handles:
                done = inner.launch(handles, vars, events)
        except self._s.cl.Error as e:
            raise MeasureError(f"{self._s.about['name']} failed over it: {e}") from None
        for a in self._given[-outputs:] if done is not None else ():
            if hasattr(a, "add_event"):
                a.add_event(done)


def is_pyopencls(a: Any) -> bool:
    """Whether pyopencl made it."""
    return type(a).__module__.partition(".")[0] == "pyopencl"


def _look(a: Any) -> tuple[tuple[int, ...] | None, Any, int]:
    if hasattr(a, "base_data"):
        return tuple(a.shape), a.dtype, int(a.nbytes)
    memory = getattr(a, "mem", None)  # SVM of an array
    if memory is not None and hasattr(memory, "dtype"):
        return tuple(memory.shape), memory.dtype, int(memory.nbytes)
    return None, None, int(a.size)
