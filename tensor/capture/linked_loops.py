"""From calls that have places to calls that run, those in loops too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...ir.dtypes import uint8
from ..fusion.call_list import Call, KernelCall, LoopCall
from ..graph.loop_nodes import NEVER
from ..graph.nodes import TensorNode
from ..graph.symbolic_sizes import most
from ..running.buffers import BufferSpec
from .call_sequence import LinkedCall, LinkedLoop, StepLayout
from .loop_memory import PlacedLoop, rooms_for

if TYPE_CHECKING:
    from ...devices import Executable

UNKNOWN_TRIPS = 100
"""How often a loop that only its test ends is thought to go round, where kernels are weighed."""


def kernel_calls(calls: Sequence[Call], loops: Mapping[int, PlacedLoop], times: int = 1) -> Iterator[tuple[KernelCall, int]]:
    """The calls of kernels in order, those in loops too, and how often each is made."""
    for i, c in enumerate(calls):
        if isinstance(c, KernelCall):
            yield c, times
        elif isinstance(c, LoopCall):
            trips = c.body.loop.trips
            yield from kernel_calls(loops[i].calls, loops[i].inner, times * (UNKNOWN_TRIPS if trips == NEVER else max(1, most(trips))))


def linked_calls(
    calls: Sequence[Call], loops: Mapping[int, PlacedLoop], device: str, places: int, executables: Iterator[Executable]
) -> list[LinkedCall]:
    """The calls with their executables, which come in the order of `kernel_calls`. `places`: how many places arrays have; rooms of loops have
    those behind them."""
    rooms = iter(range(places, places + len(loops)))
    out = []
    for i, c in enumerate(calls):
        if isinstance(c, KernelCall):
            out.append(LinkedCall(c.inputs, c.outputs, c.kernel.name, next(executables), None, c.kernel))
        elif isinstance(c, LoopCall):
            loop = _linked(loops[i], device, next(rooms), executables)
            out.append(LinkedCall(c.inputs, c.outputs, c.name, None, None, None, loop))
        else:
            out.append(LinkedCall(c.inputs, c.outputs, c.call.name, None, c.call))
    return out


def _linked(p: PlacedLoop, device: str, room: int, executables: Iterator[Executable]) -> LinkedLoop:
    body, loop = p.call.body, p.call.body.loop
    calls = linked_calls(p.calls, p.inner, device, len(body.made.nodes), executables)
    steps = None
    if not p.native:
        outputs = {(n.arg.kind, n.arg.at): j for j, n in enumerate(p.call.nodes)}
        steps = StepLayout(
            p.plan, tuple(specs_of(body.made.nodes, device, list(rooms_for(p.inner).values()))), device,
            tuple(_spec(n, device) for n in loop.parameters), body.carries,
            {k: body.rows_of(k) for k in range(loop.carries, loop.carries + loop.xs)},
            tuple(outputs.get(("final", k)) for k in body.carries), tuple(outputs["stack", at] for at in body.stacks),
            loop.counter is not None, loop.reverse,
        )  # fmt: skip
    return LinkedLoop(loop.name, tuple(calls), p.frame, room, loop.seconds, steps)


def _spec(n: TensorNode, device: str) -> BufferSpec:
    return BufferSpec(n.shape, n.dtype, device, n.line)


def specs_of(nodes: Sequence[TensorNode], device: str, rooms: Sequence[int]) -> list[BufferSpec]:
    """What buffers are of the arrays of a list, and then of the rooms of its loops, of so many bytes."""
    return [*(_spec(n, device) for n in nodes), *(BufferSpec((n,), uint8, device, ("", 0)) for n in rooms)]


def with_executable(calls: Sequence[LinkedCall], old: Executable, new: Executable) -> list[LinkedCall]:
    """The calls, of which those of one executable run another one."""
    out = []
    for c in calls:
        if c.loop is not None:
            c = replace(c, loop=replace(c.loop, calls=tuple(with_executable(c.loop.calls, old, new))))
        out.append(replace(c, executable=new) if c.executable is old else c)
    return out


def count_kernels(calls: Sequence[LinkedCall]) -> int:
    """Calls of kernels in a list and in the steps of its loops."""
    return sum(count_kernels(c.loop.calls) if c.loop is not None else c.executable is not None for c in calls)
