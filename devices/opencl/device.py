"""OpenCL devices of any vendor, by pyopencl: `opencl` is the best that is here, `opencl:INDEX` and `opencl:PART-OF-NAME` choose."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from ...ir.errors import BuildError, DeviceError, MeasureError, UsageError
from ...program import abi
from ...program.program import Signature
from ...targets import Target, machine
from .. import limits as limits_file
from ..base import Device, Executable, Memory, Packed, SourceLike, sealed, unsealed
from ..limits import Limits
from ..registry import register
from .drivers import CHECKS, PYOPENCL, FoundDevice, check_room, choose, chosen, drivers, find, target_of
from .session import ClMemory, ClSession, environment, session

_PROBE_S = 5.0
"""Seconds for measuring the limits of a GPU where nobody says another time."""


class OpenClDevice(Device):
    """One device of one driver. An object is a line of JSON (what it was built for, and a checksum), then the
    driver's binary; with PoCL the source: PoCL compiles for a group's size at the first launch, whatever its binaries
    hold, and keeps the results in a cache of its own."""

    isolation = "worker"
    first_launch_s = 20.0

    def __init__(self, selector: str = "", queue: Any = None) -> None:
        """`queue`: of pyopencl, a user's (`devices.opencl.on`)."""
        self._queue = queue
        self.name = f"opencl:{selector}" if selector else "opencl"
        self._selector = selector

    def __reduce__(self) -> tuple[Any, ...]:
        return OpenClDevice, (self._selector,)  # another process has its own queue

    @cached_property
    def found(self) -> FoundDevice:
        """The driver's device, not opened. Raises DeviceError where there is none."""
        if not self._selector and (context := os.environ.get(PYOPENCL, "")):
            return chosen(find(), context)
        return choose(find(), self._selector, [d.error for d in drivers() if d.error])

    @cached_property
    def _target(self) -> Target:
        return target_of(self.found.about)

    @property
    def target(self) -> Target:
        return self._target

    @property
    def threads(self) -> int:
        # a driver for processors uses the cores it finds, a GPU has no such choice
        return int(self.found.about["units"]) if self._target.kind == "cpu" else 1

    def compiler_id(self) -> str:
        d = self.found.about
        # PoCL's version does not tell which LLVM it was built with
        llvm = re.search(r"LLVM \d[\d.]*", d["platform_version"])
        return " ".join(filter(None, ("opencl", d["platform"], d["driver"], llvm and llvm.group(), "rounded" if d["rounded"] else "")))

    def fingerprint(self) -> dict[str, Any]:
        d = self.found.about
        keep = ("platform", "platform_version", "name", "vendor", "driver", "version", "units", "memory", "clock_mhz")
        return {
            "device": "opencl",
            "cpu": d["name"],
            **{k: d[k] for k in keep},
            "os": platform.system(),
            "os_release": platform.release(),
            "host": platform.node(),
            "python": platform.python_version(),
        }

    def family(self) -> list[tuple[str, str]]:
        asked = drivers()
        failed = [(f"opencl ({d.file})", d.error) for d in asked if d.error]
        try:
            devices, mine = find(), self.found
        except DeviceError as e:
            return [(self.name, str(e)), *(failed if any(d.devices for d in asked) else ())]
        others = [
            (f"opencl:{i}", f"Oclgrind {CHECKS}" if d.checker else "")
            for i, d in enumerate(devices)
            if d is not mine and d.about != mine.about
        ]
        return [(self.name, ""), *others, *failed]

    def check(self) -> None:
        _ = self._target

    def check_timing(self) -> None:
        if self.found.checker:
            raise DeviceError(f"{self.name} is Oclgrind, which {CHECKS}, as it interprets them: choose another device (tune devices)")

    def check_threads(self, threads: int) -> None:
        if threads != self.threads:
            fewer = "; PoCL takes fewer of them with POCL_MAX_PTHREAD_COUNT=N" if self.found.late else ""
            raise DeviceError(f"{self.name} runs with {self.threads} threads, not {threads}: leave the number of threads out{fewer}")

    def open(self) -> ClSession:
        """The device, open in this process (which must not fork after it). Raises DeviceError."""
        found = session(self.found, self._queue)
        _NAMES.setdefault(found.context.int_ptr, self.name)
        if self.found.late:
            check_room()
        return found

    def before_fork(self) -> None:
        with environment(self.found):  # (which opens no driver: none survives a fork)
            import pyopencl  # noqa: F401

    def build(self, source: SourceLike) -> bytes:
        if source.target.lang != "opencl":
            raise BuildError(
                f"the {self.name} device builds OpenCL C, not {source.target.lang}: render for an 'opencl' target such as {self.target.name}"
            )

        refuse(source.signature, self.target)
        s = self.open()
        if self.found.late:
            _compile_ahead(s, source, s.compile(source.text))
            code = source.text.encode()
        else:
            code = s.binary(source.text)
        return sealed("opencl object", {"compiler": self.compiler_id(), "name": self.found.about["name"]}, code)

    def load(self, obj: bytes, signature: Signature, threads: int) -> Executable:
        self.check_threads(threads)
        head, code = unsealed("opencl object", "the opencl device", obj)
        if (head["compiler"], head["name"]) != (self.compiler_id(), self.found.about["name"]):
            raise DeviceError(
                f"this code was built for {head['name']} by {head['compiler']}; build it again for {self.found.about['name']}"
            )

        refuse(signature, self.target)
        s = self.open()
        return ClExecutable(s, s.compile(code.decode()) if self.found.late else s.link(code), signature, self.target)

    def memory(self) -> Memory:
        return ClMemory(self.open())

    def limits(self, probe: bool | float = False) -> Limits | None:
        if self._target.kind == "cpu":
            from ..cpu.device import CpuDevice

            # a driver makes its processor neither faster nor slower
            return CpuDevice(machine()).limits(probe)
        d = self.found.about
        identity = {"device": "opencl", **{k: d[k] for k in ("platform", "name", "driver", "units")}}
        if not probe:
            return limits_file.read(limits_file.path(identity))
        from .probe import probe as measure

        return limits_file.keep(identity, measure(self.spec or self.name, _PROBE_S if probe is True else probe))


def on(queue: Any) -> OpenClDevice:
    """The device of a user's `pyopencl.CommandQueue`: kernels are built in its context and launched on it, and take and return pyopencl's
    arrays there without a copy. Its `name` is one for tensors and `jit`. Raises DeviceError where Tilewright does not know the device."""
    about = queue.device
    names = (about.platform.name.strip(), about.name.strip())
    at = next((i for i, d in enumerate(find()) if (d.about["platform"], d.about["name"]) == names), None)
    if at is None:
        raise DeviceError(f"the queue's device, {' - '.join(names)}, is none that Tilewright found: tune devices lists those")
    made = OpenClDevice(str(at), queue)
    made.spec, made.name = made.name, f"opencl:{at}@{queue.int_ptr:x}"
    register(made.name, lambda: made)
    return made


_NAMES: dict[int, str] = {}
"""Devices whose tensors lie in a context, by its handle: the first that was opened there."""


def device_of(array: Any) -> str:
    """The name of the device of an array of pyopencl's: the first that used its context, else the one of its queue. '' of what has no
    context."""
    context = getattr(getattr(array, "base_data", array), "context", None) or getattr(array, "context", None)
    if context is None:
        return ""
    if context.int_ptr not in _NAMES:
        import pyopencl as cl

        on(getattr(array, "queue", None) or cl.CommandQueue(context)).open()
    return _NAMES[context.int_ptr]


def _compile_ahead(s: ClSession, source: SourceLike, program: Any) -> None:
    """Let a driver that compiles at the first launch do it now, and keep the result for other processes: by launches without any buffers,
    where all kernels of a text return from them at once."""
    signature, target = source.signature, source.target
    if signature.symbols or source.text.count(abi.AHEAD) != len(signature.items):
        return
    with s.using():
        for i, n in enumerate(abi.grids(signature)):
            kernel = s.cl.Kernel(program, abi.entry(signature, i))
            kernel.set_args(*(None for _ in abi.arguments(signature, target)))
            if n:
                s.cl.enqueue_nd_range_kernel(s.queue, kernel, (n,), (1,)).wait()


_BATCH = 64
"""Calls, at most, that are queued before anybody waits."""
_BATCH_S = 0.02


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

    addressed = False

    def __init__(self, s: ClSession, program: Any, signature: Signature, target: Target) -> None:
        self._s, self.signature, self._target, self.threads = s, signature, target, 1
        cl = s.cl
        try:
            with s.using():
                self._kernels = [cl.Kernel(program, abi.entry(signature, i)) for i in range(len(signature.items))]
                sizes = [k.get_work_group_info(cl.kernel_work_group_info.WORK_GROUP_SIZE, s.device) for k in self._kernels]
            for most, threads in zip(sizes, signature.threads, strict=True):
                if threads > most:
                    raise BuildError(
                        f"{signature.name} runs in groups of at most {most} threads on {target.name}, not {threads}: it takes too many registers"
                    )
        except cl.Error as e:
            raise BuildError(f"the OpenCL driver has no kernel {abi.entry(signature, 0)} in this program ({e}): build it again") from None
        self._arguments = abi.arguments(signature, target)
        self._own: dict[str, tuple[int, int]] = {}
        self._set: tuple[Any, ...] = ()
        self._last: Any = None
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

    def _launch(self, pointers: Sequence[int], vars: Sequence[int], wait_for: Sequence[Any] = ()) -> list[Any]:
        self._bind(pointers, vars)
        s, events = self._s, list[Any]()
        for kernel, size, group in self._grids:
            before = [events[-1]] if events and not s.in_order else list(wait_for) if not events else None
            events.append(s.cl.enqueue_nd_range_kernel(s.queue, kernel, (size,), (group,), wait_for=before or None))
        return events

    def launch(self, pointers: Sequence[int], vars: Sequence[int], wait_for: Sequence[Any]) -> Any:
        """Queue a call after these events of pyopencl; the event of its end, None where there is nothing to do."""
        with self._failing():
            if not self._s.in_order and self._own and self._last is not None:
                wait_for = [*wait_for, self._last]  # both calls use the workspace
            self._last = (self._launch(pointers, vars, wait_for) or [self._last])[-1]
            return self._last

    def run(self, pointers: Sequence[int], vars: Sequence[int] = ()) -> None:
        with self._failing():
            await_begin(self, self._s, self._launch(pointers, vars))
            self._s.queue.finish()

    def queue(self, vars: Sequence[int] = (), packed: Packed | None = None) -> Callable[..., None]:
        if packed is not None:
            return super().queue(vars, packed)

        def call(*pointers: int) -> None:
            with self._failing():
                if not self._kernels:
                    raise UsageError(f"{self.signature.name} has been closed")
                self._launch(pointers, vars)

        return call

    def wait(self) -> None:
        with self._failing():
            self._s.queue.finish()

    def time(
        self, pointer_sets: Sequence[Sequence[int]], vars: Sequence[int] = (), repeats: int = 1, limit_s: float = float("inf")
    ) -> list[float]:
        with self._failing():
            return timed(self._s, lambda i: self._launch(pointer_sets[i % len(pointer_sets)], vars), repeats, limit_s, self._together)

    def _together(self, seconds: float) -> int:
        """How many calls of that length are timed as one: so many that a tick of a GPU's clock is no hundredth of them."""
        least = 100 * self._s.about.get("tick_ns", 0) * 1e-9
        return 1 if self._target.kind == "cpu" or seconds >= least else min(_BATCH, int(least / max(seconds, 1e-7)) + 1)

    @contextlib.contextmanager
    def _failing(self) -> Any:
        """The driver is this thread's; MeasureError where it fails."""
        try:
            with self._s.using():
                yield
        except self._s.cl.Error as e:
            self._set = ()
            raise MeasureError(f"{self._s.about['name']} failed over it: {e}") from None

    def poison(self) -> None:
        memory = ClMemory(self._s)
        for handle, size in self._own.values():
            memory.fill(handle, 0xFF, size)

    def close(self) -> None:
        for handle, _ in self._own.values():
            self._s.drop(handle)
        self._own.clear()
        self._kernels, self._grids, self._set = [], [], ()


_ASKED_S = 1e-4
"""How long the driver is left alone before it is asked again, at first."""


def await_begin(exe: Executable, s: ClSession, events: Sequence[Any]) -> None:
    """Where `exe` is to tell: wait until the driver has compiled, and the last of the kernels runs."""
    begun, exe.begun = exe.begun, None
    if begun is None:
        return
    s.queue.flush()
    pause = _ASKED_S
    while events and events[-1].command_execution_status > s.cl.command_execution_status.RUNNING:
        time.sleep(pause)
        pause = min(2 * pause, 0.01)
    begun()


def timed(
    s: ClSession, call: Callable[[int], Sequence[Any]], repeats: int, limit_s: float, together: Callable[[float], int] = lambda seconds: 1
) -> list[float]:
    """Seconds of `repeats` calls, at least one, and none that begins after `limit_s`. `call` queues the one of a number and gives its events;
    `together`: how many of that length are timed as one."""
    out: list[float] = []
    spent, batch, as_one, repeats = 0.0, 1, 1, max(1, repeats)
    while len(out) < repeats and (not out or spent <= limit_s):
        first = len(out)
        calls = [call(i) for i in range(first, min(first + batch, repeats))]
        s.queue.finish()
        out += _spans(calls, as_one)
        spent = sum(out)
        slowest = max(out[first:])
        if as_one == 1 and (as_one := together(slowest)) > 1:
            out.clear()  # a tick or two: too coarse to be told
        batch = max(1, min(_BATCH, int(min(_BATCH_S, max(0.0, limit_s - spent)) / max(slowest, 1e-7))))
    return out


def _spans(calls: Sequence[Sequence[Any]], together: int) -> list[float]:
    """Seconds of each call by the device's clock, from the start of its first phase to the end of its last. With `together`, so many
    calls share the time from the first one's start to the last one's end."""
    out: list[float] = []
    for lo in range(0, len(calls), together):
        group = [e for e in calls[lo : lo + together] if e]
        span = (group[-1][-1].profile.end - group[0][0].profile.start) * 1e-9 if group else 0.0
        count = len(calls[lo : lo + together])
        out += [span / max(1, len(group))] * count
    return out
