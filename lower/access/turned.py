"""Components of groups of five or more neighbours (small matrices, points of many fields): rows of four neighbours are loaded, and
turned into a vector for each component; vectors of components are turned into rows that are stored.

Where the length of a group is no multiple of four, its last row overlaps the one before, so that nothing beside the groups is
touched."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

from ...ir.node import Node
from ...opts.strides import TURNED, turns
from ...program.program import Mem, Val
from ..indices import Indices
from .strided import component_of
from .transpose import rows_of, transposed


def turned_read(ev: Indices, mem: Mem, base: Node, offset: int, step: int, invariant: bool, mask: Val | None) -> Val | None:
    """A vector of the elements `step` apart from base + offset on, from rows of the groups that they are in; None where memory is not
    known to consist of such groups, or where it is not known which lanes exist (`mask`)."""
    b, width = ev.b, ev.width
    if not turns(step, mem.dtype.size) or width < TURNED or ev.low.sched.target.kind == "gpu" or not invariant:
        return None
    component = component_of(ev, mem, base, offset, step)
    there = (True,) * width if mask is None else b.known(mask)
    if component is None or not isinstance(there, tuple):
        return None
    start = min(component // TURNED * TURNED, step - TURNED)
    first = offset - component + start
    rows = []
    for i in range(width):
        at = ev.low.at(mem, base, first + i * step, TURNED)
        rows.append(b.load(at, ev.low.scalar(base), TURNED, None, True) if there[i] else b.const(0, mem.dtype, TURNED))
    return transposed(b, rows)[component - start]


def write_rows(
    ev: Indices, mem: Mem, base: Node, first: int, components: Sequence[Val], there: Sequence[bool], condition: Val | None
) -> bool:
    """Store the components of a vector of groups from element base + first on, where a condition holds; `there`: which elements exist,
    group by group. False, and nothing done, where a part of a group exists."""
    b, width, step = ev.b, ev.width, len(components)
    groups = [set(there[i * step : (i + 1) * step]) for i in range(width)]
    if any(len(g) > 1 for g in groups) or width < TURNED:
        return False
    plain = replace(mem, nt=False)  # (a non-temporal store is of a whole vector)
    with nullcontext() if condition is None else b.when(condition):
        for start in _starts(step):
            rows = rows_of(b, [b.splat(v, width) for v in components[start : start + TURNED]])
            for i, row in enumerate(rows):
                if True in groups[i]:
                    b.store(ev.low.at(plain, base, first + i * step + start, TURNED), ev.low.scalar(base), row, None)
    return True


def _starts(step: int) -> list[int]:
    """Where the rows of a group begin."""
    return sorted({min(start, step - TURNED) for start in range(0, step, TURNED)})
