"""A device with memory of its own: the processor, behind handles. And one that contains faults in no known way."""

from __future__ import annotations

import ctypes
import time

from tilewright.devices import Memory
from tilewright.devices.cpu.device import CpuDevice
from tilewright.ir import MeasureError


class FarMemory(Memory):
    """Handles are numbers of host buffers."""

    def __init__(self):
        self.buffers = {}

    def alloc(self, nbytes):
        if nbytes > 1 << 28:
            raise MeasureError("the far device has no room; measure a smaller shape")
        self.buffers[len(self.buffers) + 1] = ctypes.create_string_buffer(nbytes + 64)
        return len(self.buffers)

    def free(self, handle):
        del self.buffers[handle]

    def address(self, handle):
        return -(-ctypes.addressof(self.buffers[handle]) // 64) * 64

    def write(self, handle, address, nbytes, offset=0):
        ctypes.memmove(self.address(handle) + offset, address, nbytes)

    def read(self, handle, address, nbytes, offset=0):
        ctypes.memmove(address, self.address(handle) + offset, nbytes)

    def fill(self, handle, byte, nbytes, offset=0):
        ctypes.memset(self.address(handle) + offset, byte, nbytes)


class FarDevice(CpuDevice):
    """Kernels of the processor on FarMemory."""

    name = "far"
    isolation = "worker"
    opened = None

    def memory(self):
        self.opened = self.opened or FarMemory()
        return self.opened

    def load(self, obj, signature, threads):
        inner, memory = super().load(obj, signature, threads), self.memory()
        run, time = inner.run, inner.time
        inner.run = lambda pointers, vars=(): run([memory.address(h) for h in pointers], vars)
        inner.time = lambda sets, vars=(), repeats=1, limit_s=float("inf"): time(
            [[memory.address(h) for h in s] for s in sets], vars, repeats, limit_s
        )
        return inner


class LostDevice(FarDevice):
    """Cannot be opened."""

    def memory(self):
        raise MeasureError("the driver is gone")


class LateDevice(FarDevice):
    """Takes two seconds to load."""

    def __init__(self, first_launch_s=5.0):
        self.first_launch_s = first_launch_s

    def load(self, obj, signature, threads):
        time.sleep(2.0)
        return super().load(obj, signature, threads)


class HangingDevice(FarDevice):
    """Compiles at the first launch, and does not come back from the second one."""

    first_launch_s = 20.0
    loads = 0

    def load(self, obj, signature, threads):
        self.loads += 1
        time.sleep(0.1 if self.loads < 2 else 60)
        return super().load(obj, signature, threads)


class BesideOthers(CpuDevice):
    """What is loaded second in a process is wrong, as if the first had damaged its memory."""

    name = "beside"
    loads = 0

    def load(self, obj, signature, threads):
        inner = super().load(obj, signature, threads)
        self.loads += not signature.name.startswith("compare_")
        if self.loads == 2:
            run = inner.run

            def damaged(pointers, vars=()):
                run(pointers, vars)
                ctypes.memset(pointers[-1], 0, 4)

            inner.run = damaged
        return inner


class OddDevice(CpuDevice):
    name = "odd"
    isolation = "thread"
