"""Loops outside of captured functions: each is linked when it is first computed."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from ...ir.dtypes import uint8
from ..fusion.call_list import LoopCall
from ..running import buffers
from ..running.buffers import TensorBuffer
from ..running.compiled_kernels import compiled_kernel_for
from ..running.observers import timed
from ..running.pools import rooms_of
from .call_sequence import in_python
from .linked_loops import kernel_calls, linked_calls
from .loop_memory import placed_loops


class EagerLoop:
    """A loop that runs on buffers."""

    def __init__(self, call: LoopCall, device: str) -> None:
        from ...plan import Replay

        loops = placed_loops([call], device, rooms_of(device) is not None)
        every = [c.kernel for c, _ in kernel_calls([call], loops)]
        executables = iter([compiled_kernel_for(k, device).executable for k in every])
        (linked,) = linked_calls([call], loops, device, len(call.inputs) + len(call.outputs), executables)
        assert linked.loop is not None
        self.loop, self.device, self.name = linked.loop, device, call.name
        self.room = loops[0].room
        self.shapes = [(n.shape, n.dtype.np) for n in call.nodes]
        count = len(call.inputs) + len(call.outputs) + 1
        self.replay = Replay([self.loop.bound((0,) * count)], [[(0, i)] for i in range(count)]) if self.loop.native else None

    def run(self, inputs: Sequence[TensorBuffer], outputs: Sequence[TensorBuffer]) -> None:
        """The loop, once."""
        if self.replay is None:
            found = in_python(self.loop, (), [b.array for b in inputs], (), self.shapes)
            for b, values in zip(outputs, found, strict=True):
                buffers.fill(b, values)
            return
        room = buffers.new((self.room,), uint8, self.device, ("", 0))
        with timed("kernel", self.name, self.device):
            self.replay.run(*[b.address for b in (*inputs, *outputs, room)])


_runners: WeakKeyDictionary[LoopCall, dict[str, Any]] = WeakKeyDictionary()
_lock = threading.Lock()


def run_loop(call: LoopCall, inputs: Sequence[TensorBuffer], outputs: Sequence[TensorBuffer], device: str) -> None:
    """Compute the outputs of a loop."""
    with _lock:
        known = _runners.setdefault(call, {})
        found = known.get(device)
        if found is None:
            found = known[device] = EagerLoop(call, device)
    found.run(inputs, outputs)
