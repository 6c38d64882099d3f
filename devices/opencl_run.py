"""OpenCL kernels and buffers, by pyopencl: one open device a process."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

from ..ir.errors import BuildError, MeasureError
from ..lower import abi
from ..lower.program import Signature
from ..targets import Target
from .base import Executable
from .memory import Memory

OPTIONS = ("-cl-std=CL1.2",)


class Session:
    """Context and queue of one device. Made in the process that uses it; nothing of it survives a fork."""

    def __init__(self, at: tuple[int, int]) -> None:
        import pyopencl as cl

        self.cl = cl
        try:
            self.device = cl.get_platforms()[at[0]].get_devices()[at[1]]
            self.context = cl.Context([self.device])
            self.queue = cl.CommandQueue(self.context, properties=cl.command_queue_properties.PROFILING_ENABLE)
        except (cl.Error, IndexError) as e:
            raise MeasureError(f"cannot open the OpenCL device: {e}; see: tune devices") from e
        self.buffers: dict[int, Any] = {}
        self._next = 1

    def add(self, nbytes: int) -> int:
        """A new buffer's handle."""
        try:
            buffer = self.cl.Buffer(self.context, self.cl.mem_flags.READ_WRITE, max(1, nbytes))
        except self.cl.Error as e:
            raise MeasureError(f"the OpenCL device has no room for {nbytes} bytes ({e}); measure a smaller shape") from e
        handle, self._next = self._next, self._next + 1
        self.buffers[handle] = buffer
        return handle


@functools.lru_cache(maxsize=4)
def _session(at: tuple[int, int], pid: int) -> Session:
    return Session(at)


def session(at: Sequence[int]) -> Session:
    """This process's session of a device."""
    return _session((at[0], at[1]), os.getpid())


def build(at: Sequence[int], text: str) -> bytes:
    """The device's binary of a program. Raises BuildError with the log's first lines."""
    s = session(at)
    try:
        program = s.cl.Program(s.context, text).build(options=list(OPTIONS), cache_dir=False)
        return bytes(program.get_info(s.cl.program_info.BINARIES)[0])
    except s.cl.Error as e:
        lines = [line.strip() for line in str(e).splitlines() if line.strip() and not line.startswith("(options")]
        raise BuildError("the OpenCL compiler refused it: " + " | ".join(lines[:6])) from None


class ClMemory(Memory):
    """Buffers of a session."""

    def __init__(self, s: Session) -> None:
        self._s = s

    def alloc(self, nbytes: int) -> int:
        return self._s.add(nbytes)

    def free(self, handle: int) -> None:
        self._s.buffers.pop(handle).release()

    def write(self, handle: int, address: int, nbytes: int, offset: int = 0) -> None:
        if nbytes:
            self._do(lambda s: s.cl.enqueue_copy(s.queue, s.buffers[handle], _bytes(address, nbytes), dst_offset=offset))

    def read(self, handle: int, address: int, nbytes: int, offset: int = 0) -> None:
        if nbytes:
            self._do(lambda s: s.cl.enqueue_copy(s.queue, _bytes(address, nbytes), s.buffers[handle], src_offset=offset))

    def fill(self, handle: int, byte: int, nbytes: int, offset: int = 0) -> None:
        if nbytes:
            import numpy as np

            self._do(lambda s: s.cl.enqueue_fill_buffer(s.queue, s.buffers[handle], np.uint8(byte), offset, nbytes))

    def _do(self, work: Callable[[Session], Any]) -> None:
        try:
            work(self._s).wait()
        except self._s.cl.Error as e:
            raise MeasureError(f"the OpenCL device failed to move memory: {e}") from e


def _bytes(address: int, nbytes: int) -> Any:
    import numpy as np

    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))


class ClExecutable(Executable):
    """A built program. Pointers are handles of the session's buffers."""

    def __init__(self, s: Session, binary: bytes, signature: Signature, target: Target) -> None:
        self._s, self.signature, self._target, self.threads = s, signature, target, 1
        abi.shared_bytes(signature, target)  # refused here: some drivers abort the process
        over = [n for n in signature.threads if n > target.max_threads]
        if over:
            raise BuildError(f"{signature.name} wants groups of {over[0]} threads and {target.name} takes at most {target.max_threads}")
        try:
            program = s.cl.Program(s.context, [s.device], [binary]).build()
            self._kernels = [s.cl.Kernel(program, abi.entry(signature, i)) for i in range(len(signature.items))]
        except s.cl.Error as e:
            raise BuildError(f"the OpenCL driver does not take its own binary again ({e}): build it again") from None
        self._arguments = abi.arguments(signature, target)
        self._own: dict[str, tuple[int, int]] = {}
        if signature.work:
            self._own["work"] = (s.add(signature.work), signature.work)

    def _launch(self, pointers: Sequence[int], vars: Sequence[int]) -> list[Any]:
        import numpy as np

        s, sig = self._s, self.signature
        need = abi.arena_bytes(sig, self._target, vars)
        if need and self._own.get("arena", (0, 0))[1] < need:
            if "arena" in self._own:
                s.buffers.pop(self._own.pop("arena")[0]).release()
            self._own["arena"] = (s.add(need), need)
        args: list[Any] = []
        for a in self._arguments:
            if a.kind == "symbol":
                args.append(np.int64(vars[a.at]))
            else:
                args.append(s.buffers[pointers[a.at] if a.kind == "param" else self._own[a.kind][0]])
        events = []
        for kernel, groups, threads in zip(self._kernels, abi.grids(sig, vars), sig.threads, strict=True):
            if groups:
                for i, value in enumerate(args):
                    kernel.set_arg(i, value)
                events.append(s.cl.enqueue_nd_range_kernel(s.queue, kernel, (groups * threads,), (threads,)))
        return events

    def run(self, pointers: Sequence[int], vars: Sequence[int] = ()) -> None:
        try:
            self._launch(pointers, vars)
            self._s.queue.finish()
        except self._s.cl.Error as e:
            raise MeasureError(f"the launch failed: {e}") from None

    def time(self, pointer_sets: Sequence[Sequence[int]], vars: Sequence[int] = (), repeats: int = 1, limit_s: float = float("inf")) -> list[float]:
        out: list[float] = []
        spent = 0.0
        try:
            for i in range(max(1, repeats)):
                events = self._launch(pointer_sets[i % len(pointer_sets)], vars)
                self._s.queue.finish()
                # the device's clock, from the start of the first phase to the end of the last
                seconds = (events[-1].profile.end - events[0].profile.start) * 1e-9 if events else 0.0
                out.append(seconds)
                spent += seconds
                if spent > limit_s:
                    break
        except self._s.cl.Error as e:
            raise MeasureError(f"the launch failed: {e}") from None
        return out

    def poison(self) -> None:
        memory = ClMemory(self._s)
        for handle, size in self._own.values():
            memory.fill(handle, 0xFF, size)

    def close(self) -> None:
        for handle, _ in self._own.values():
            self._s.buffers.pop(handle).release()
        self._own.clear()
        self._kernels = []
