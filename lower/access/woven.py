"""Stores of neighbouring components that lie interleaved in memory, where each by itself would be scattered: two to four are woven
into whole vectors, more are turned into rows."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.dtypes import bool_
from ...ir.node import Node
from ...opts.strides import picks, turns
from ...program.builder import Builder
from ...program.program import Mem, Val
from ..storage import Assignment
from .memory_access import MemoryAccess
from .strided import chunk, woven
from .turned import write_rows

Copy = tuple[Assignment, Val]


def write_all(ev: MemoryAccess, mem: Mem, address: Node, copies: Sequence[Copy], conds: Sequence[Node] = ()) -> None:
    """Store every copy at an element index over parts, where every condition holds; the elements that are stored are all different."""
    groups: dict[tuple[Node, int], dict[int, Copy]] = {}
    for asg, v in copies:
        base, c, lane, vec = ev.split(address, asg)
        alone = ev.low.sched.target.kind == "gpu" or ev.lane is None or not (picks(lane) or turns(lane, mem.dtype.size)) or vec is not None
        # (a point that conditions leave out, such as one before a row's begin, may have the index of one in another row)
        if alone or c in groups.get((base, lane), {}):
            ev.write(mem, address, asg, v, conds)
        else:
            groups.setdefault((base, lane), {})[c] = (asg, v)
    for (base, step), found in groups.items():
        while found:
            first = min(found)
            some = [found.pop(c) for c in range(first, first + step) if c in found]
            if len(some) < step or not _write_group(ev, mem, base, first, some, conds):
                for asg, v in some:
                    ev.write(mem, address, asg, v, conds)


def _write_group(ev: MemoryAccess, mem: Mem, base: Node, first: int, copies: Sequence[Copy], conds: Sequence[Node]) -> bool:
    """Store all components of a vector of groups; False, and nothing done, where their masks do not allow it."""
    b, width = ev.b, ev.width
    there = [ev.holding(conds, asg) for asg, _ in copies]
    conditions = {None if t is None else t[0] for t in there}
    masks = _masks(b, [None if t is None else t[1] for t in there], width)
    if any(t is None for t in there) or len(conditions) > 1 or masks is None:
        return False
    (condition,) = conditions
    if not picks(len(copies)):
        return write_rows(ev, mem, base, first, [v for _, v in copies], masks, condition)

    # (a non-temporal store is of a whole vector)
    size = width if mem.nt else chunk(ev.low.sched.target, mem.dtype.size, len(copies), width)

    def store() -> None:
        vectors = woven(b, [b.splat(v, width) for _, v in copies], size)
        for at in range(0, width * len(copies), size):
            there = masks[at : at + size]
            lanes, n = divmod(at // size, len(copies))
            v = vectors[n] if size == width else b.shuffle(vectors[n], vectors[n], tuple(range(lanes * size, (lanes + 1) * size)))
            if any(there):
                mask = None if all(there) else b.const(tuple(there), bool_, size)
                b.store(ev.low.at(mem, base, first + at, size), ev.low.scalar(base), v, mask)

    if condition is None:
        store()
    else:
        with b.when(condition):
            store()
    return True


def _masks(b: Builder, masks: Sequence[Val | None], width: int) -> list[bool] | None:
    """Which of the woven elements are there; None where that is not known before anything runs."""
    known = [True if m is None else b.known(m) for m in masks]
    if any(k is None for k in known):
        return None
    return [bool(k[i] if isinstance(k, tuple) else k) for i in range(width) for k in known]
