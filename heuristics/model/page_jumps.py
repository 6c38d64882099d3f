"""How often the accesses of a nest jump to another page: what makes short runs at large strides several times slower than streams.

Hardware prefetchers follow some streams of consecutive lines at once, and none across a page's end; each jump past
them waits for a page's translation and for memory. So an access is followed from its innermost loop outward: loops
that lengthen the run, a few loops that interleave runs, and every loop outside of those jumps. What each costs is
`machine.Jumps`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from ...ir import index as ix
from ...ir.node import Node
from ...opts.access import stride as stride_of
from ...opts.axis_plan import Part
from ...opts.memory_limits import buffer_bytes, is_far
from ...opts.nests import Nest
from ...opts.plans import StagePlan
from ...opts.schedule import Scheduled
from ..machine import DEFAULT, MachineModel


def jump_cycles(
    s: Scheduled,
    nest: Nest,
    buffer: tuple[tuple[int | Node, ...], int],
    indices: tuple[Node, ...],
    machine: MachineModel,
    asked: bool = False,
    gone: float = 0.0,
    away: float = 1.0,
) -> float:
    """Cycles that an access which is not staged waits; `buffer`: its shape and the bytes of an element; `asked`: it is a request; `gone`: the
    share of the call's data that the second cache has lost when it begins, and `away` that the last one has of what is taken to be far."""
    shape, size = buffer
    loops = [*reversed(s.registers(nest)), *reversed(s.loops(nest))]
    steps = [(p, stride_of(s, nest, "", indices, shape, p)) for p in loops]
    # register copies come in any order: nearest first
    count = len(s.registers(nest))
    near = sorted(steps[:count], key=lambda e: abs(e[1] or 0))
    costs = machine.jumps
    each = (
        away * costs.far + (1.0 - away) * costs.shared
        if is_far(s.target, shape, size)
        else costs.shared
        if buffer_bytes(shape, size) > s.target.l2
        else gone * costs.shared + (1.0 - gone) * costs.near
    )
    each = min(each, costs.asked) if asked else each
    found = jumps(size, [(abs(k or 0) * size, p.trips) for p, k in (*near, *steps[count:])], machine)
    return found * each / _windows(indices)  # (what windows share is near when the next one comes, and so is its page)


def _windows(indices: tuple[Node, ...]) -> float:
    """How often an access reads an element because windows along its dimensions overlap: those of a stencil or a convolution."""
    often = 1.0
    for i in indices:
        terms, _ = ix.parts(i)
        reach = {t: (abs(k), ix.upper(t.arg.extent)) for t, k in terms.items() if t.op == "axis"}
        if len(reach) > 1 and len(reach) == len(terms):
            steps = prod(n for _, n in reach.values())
            often *= max(1.0, steps / max(1, 1 + sum(k * (n - 1) for k, n in reach.values())))
    return often


def copy_cycles(s: Scheduled, plan: StagePlan, around: Sequence[Part], machine: MachineModel) -> float:
    """Cycles that filling a staged tile waits, over all times it is filled: read with the longest runs first."""
    shape, size = plan.buffer.shape, plan.buffer.dtype.size
    pitches = _pitches(shape)

    def step(p: Part) -> int:
        return abs(sum(ix.parts(i)[0].get(p.var, 0) * st for i, st in zip(plan.index, pitches, strict=True))) * size

    panel = plan.order == "panel"
    inside = sorted((step(p), p.trips) for p, _ in plan.parts) if panel else sorted((pitches[d] * size, n) for d, _, n, _ in plan.box)
    costs = machine.jumps
    found = jumps(size, [*inside, *((step(p), p.trips) for p in reversed(around))], machine)
    return found * (costs.copied if is_far(s.target, shape, size) else costs.near)


def jumps(size: int, levels: Iterable[tuple[int, int]], machine: MachineModel = DEFAULT) -> float:
    """Jumps to another page of an access of `size` bytes; `levels`: (stride in bytes, trips), innermost first."""
    costs, line = machine.jumps, machine.caches.line
    run, streams, count = size, 1, 0.0
    for stride, trips in levels:
        if trips <= 1:
            continue
        if count:
            if 0 < stride < line and count <= costs.kept:
                count *= max(1.0, trips * stride / line) * costs.next_line
            elif stride or count > costs.translations:
                count *= trips
        elif stride <= max(run, line):  # (components of a group share lines)
            run = max(run, stride) + stride * (trips - 1)
        elif streams * trips <= (costs.streams_apart if stride % costs.page else costs.streams):
            streams *= trips
        else:
            count = streams * trips * min(1.0, stride / costs.page)
    return count if count > costs.translations else 0.0


def _pitches(shape: tuple[int | Node, ...]) -> list[int]:
    out, step = [], 1
    for n in reversed(shape):
        out.append(step)
        step *= n if isinstance(n, int) else max(1, ix.bounds(n)[1])
    return out[::-1]
