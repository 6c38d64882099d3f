"""Staged tiles in shared memory: the threads of a group share the copy, neighbours reading neighbouring words. All tiles of one place are
loaded before the first is stored, so that memory is waited for once."""

from __future__ import annotations

from collections.abc import Sequence

from ...opts import ring
from ...opts.plans import StagePlan
from ...program.program import Mem
from ..lowering import Lowering
from .tile_copy import CopySteps, TileCopy

UNROLLED = ring.IN_REGISTERS
"""Steps of a copy that are spelled out, all loads before the stores, so that they are under way at once."""
WORDS = 64
"""Registers that hold what is loaded and not yet stored."""


def fill(low: Lowering, plans: Sequence[StagePlan]) -> None:
    """Emit the copies at the current position."""
    copies = [TileCopy(low, s, room(low, s), ring.tile_width(s, low.sched)) for s in plans]
    for some in _together(low, [c for c in copies if c.steps <= UNROLLED]):
        found = [(c, c.load(c.all_steps)) for c in some]
        for c, loaded in found:
            c.store(loaded)
    for c in copies:
        if c.steps > UNROLLED:
            _loop(low, c)


def room(low: Lowering, s: StagePlan) -> Mem:
    """The shared memory of a tile, all slots of it."""
    mem = low.storage.panels.get(s.buffer.name)
    if mem is None:
        elements = s.elements if s.depth == 1 else s.depth * s.slot_elements
        mem = low.storage.panels[s.buffer.name] = low.storage.shared.take(s.dtype, elements)
    return mem


def _together(low: Lowering, copies: Sequence[TileCopy]) -> list[list[TileCopy]]:
    """Copies whose loads go before their stores. (Processors keep few vectors, and do not wait so long.)"""
    out: list[list[TileCopy]] = []
    held = 0
    for c in copies:
        held += c.words
        if not out or held > WORDS or low.sched.target.kind != "gpu":
            out.append([])
            held = c.words
        out[-1].append(c)
    return out


def _loop(low: Lowering, c: TileCopy) -> None:
    """A copy of many steps, several of them in each iteration on GPUs."""
    several = max((n for n in range(1, UNROLLED + 1) if c.steps % n == 0), default=1) if low.sched.target.kind == "gpu" else 1
    b = low.b
    with b.loop(f"{c.s.buffer.name}.copy", b.const(0), b.const(c.steps // several)) as loop:
        first = b.op("mul", loop.var, b.const(several * low.sched.group))
        c.store(c.load(CopySteps(several, first, any_last=True)))
