"""OpenCL kernels and buffers, by pyopencl: one open device a process."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

from ...ir.errors import BuildError, MeasureError, UsageError
from ...program import abi
from ...program.program import Signature
from ...targets import Target
from ..base import Executable
from ..packed import Packed
from .memory import ClMemory
from .session import ClSession

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
            self._kernels = [cl.Kernel(program, abi.entry(signature, i)) for i in range(len(signature.items))]
            for kernel, threads in zip(self._kernels, signature.threads, strict=True):
                most = kernel.get_work_group_info(cl.kernel_work_group_info.WORK_GROUP_SIZE, s.device)
                if threads > most:
                    raise BuildError(
                        f"{signature.name} runs in groups of at most {most} threads on {target.name}, not {threads}: it takes too many registers"
                    )
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

    def queue(self, vars: Sequence[int] = (), packed: Packed | None = None) -> Callable[..., None]:
        if packed is not None:
            return super().queue(vars, packed)

        def call(*pointers: int) -> None:
            with self._lock, self._failing():
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
        out: list[float] = []
        spent, batch, together = 0.0, 1, 1
        with self._lock, self._failing():
            while len(out) < max(1, repeats) and (not out or spent <= limit_s):
                first = len(out)
                calls = [self._launch(pointer_sets[i % len(pointer_sets)], vars) for i in range(first, min(first + batch, max(1, repeats)))]
                self._s.queue.finish()
                out += _spans(calls, together)
                spent = sum(out)
                slowest = max(out[first:])
                if together == 1 and (together := self._together(slowest)) > 1:
                    out.clear()  # a tick or two: too coarse to be told
                batch = max(1, min(_BATCH, int(min(_BATCH_S, max(0.0, limit_s - spent)) / max(slowest, 1e-7))))
        return out

    def _together(self, seconds: float) -> int:
        """How many calls of that length are timed as one: so many that a tick of a GPU's clock is no hundredth of them."""
        least = 100 * self._s.about.get("tick_ns", 0) * 1e-9
        return 1 if self._target.kind == "cpu" or seconds >= least else min(_BATCH, int(least / max(seconds, 1e-7)) + 1)

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
