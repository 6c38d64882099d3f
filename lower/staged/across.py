"""Fills a panel whose lanes lie across what is consecutive in the buffer: whole vectors of every lane's run are read,
turned in registers, and stored."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import index as ix
from ...ir.buffer import load_parts
from ...ir.node import Node, axis, const
from ...opts.axis_plan import Part
from ...opts.plans import StagePlan
from ...program.program import Mem
from ..access.transpose import LEAST, transposed
from ..emit.loops import through
from ..lowering import Lowering


def fill_across(low: Lowering, s: StagePlan, mem: Mem, value: Node, loops: Sequence[Part]) -> bool:
    """Emit the copy of a panel, read by `value` inside `loops`; False where it does not lie so, or has bounds to keep."""
    found = _run(low, s, value)
    if found is None:
        return False
    lanes, step, run = found
    width = min(low.ctx.width, lanes.trips & -lanes.trips)
    trips = 1
    for p in run:
        trips *= p.trips
    long = min(width, trips & -trips)
    if width < LEAST or long < LEAST or long * s.dtype.size < 16:
        return False
    gone = {p.name for p in (lanes, *run)}
    others = [p for p, _ in s.parts if p.register and p.name not in gone]
    flat = axis(f"{s.buffer.name}.run", trips // long)
    # element 0 of the run, in the buffer and in the panel
    source = const(0)
    for i, stride in zip(s.index, low.ctx.strides[s.buffer.name], strict=True):
        terms, c = ix.parts(i)
        rest = ix.linear({t: k for t, k in terms.items() if t not in {lanes.var, *(p.var for p in run)}}, c)
        source = ix.add(source, rest, stride) if isinstance(stride, int) else ix.add(source, ix.mul(rest, stride))
    source, place = ix.add(source, flat, long), ix.mul(flat, const(long * dict(s.parts)[run[0]]))
    for p, stride in s.parts:
        if p.name not in gone:
            place = ix.add(place, p.var, stride)
    b, param, pitch = low.b, low.param(s.buffer.name), dict(s.parts)[run[0]]

    def block(rest: Sequence[Part]) -> None:
        if rest:
            for i in range(rest[0].trips):
                with low.scalars.bind(rest[0].var, b.const(i)):
                    block(rest[1:])
            return
        for first in range(0, lanes.trips, width):
            rows = [b.load(low.at(param, source, (first + i) * step, long), low.scalar(source), long, None, True) for i in range(width)]
            for j, column in enumerate(transposed(b, rows)):
                b.store(low.at(mem, place, j * pitch + first, width), low.scalar(place), column)

    def body() -> None:
        with b.loop(flat.arg.name, b.const(0), b.const(trips // long)) as loop, low.scalars.bind(flat, loop.var):
            block(others)

    through(low, [p for p in loops if p.name not in gone], body)
    return True


def buffer_steps(low: Lowering, s: StagePlan, parts: Sequence[Part]) -> dict[str, int] | None:
    """How many elements of the buffer a step of each part moves by; None where a stride is not known."""
    steps: dict[str, int] = {}
    for p in parts:
        step = 0
        for i, stride in zip(s.index, low.ctx.strides[s.buffer.name], strict=True):
            k = ix.parts(i)[0].get(p.var, 0)
            if k and not isinstance(stride, int):
                return None
            step += k * stride if isinstance(stride, int) else 0
        steps[p.name] = step
    return steps


def _run(low: Lowering, s: StagePlan, value: Node) -> tuple[Part, int, list[Part]] | None:
    """(the lanes' part, its step in the buffer, the parts that are one run in the buffer and evenly spaced in the
    panel, innermost first)."""
    if load_parts(value)[2] is not None or s.kept is not None or s.dtype.size < 4 or low.sched.target.kind == "gpu" or not s.parts:
        return None
    steps = buffer_steps(low, s, [p for p, _ in s.parts])
    if steps is None:
        return None
    lanes, unit = s.parts[-1]
    if unit != 1 or lanes.kind != "upcast" or steps[lanes.name] in (0, 1) or lanes.clip:
        return None
    run: list[Part] = []
    reach, pitch = 1, 0
    while True:
        after = next((e for e in s.parts if steps[e[0].name] == reach and _whole(low, e[0]) and e[0] is not lanes), None)
        if after is None or (run and after[1] != pitch):
            break
        run.append(after[0])
        reach, pitch = reach * after[0].trips, after[1] * after[0].trips
    return (lanes, steps[lanes.name], run) if run else None


def _whole(low: Lowering, part: Part) -> bool:
    """Whether all of a part is copied here, and its length is known."""
    return not part.clip and isinstance(part.size, int) and part.name not in low.scope.opened
