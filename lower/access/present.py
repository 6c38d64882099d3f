"""Loads under a mask of elements that exist whatever the mask says: inside a picture's border, say, where data tells how many
neighbours count. They are plain loads and a choice where masked loads are slow, or one branch an element."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.buffer import load_parts
from ...ir.dtypes import bool_
from ...ir.node import Node, const
from ...ir.skippable import conjuncts
from ...program.program import Mem, Val
from ..storage import Assignment
from .bounds import size

if TYPE_CHECKING:
    from .memory_access import MemoryAccess


def read_masked(
    ev: MemoryAccess, node: Node, mem: Mem, address: Node, asg: Assignment, mask: tuple[Node | None, Val | None], invariant: bool
) -> Val:
    """A load at an element index over parts, 0 where a mask (over axes, and its value here) does not hold."""
    cond, held = mask
    if held is None or held.lanes == 1 or not _plain(ev, node, mem, address, asg):
        alone = None if cond is None or held is None or held.lanes == 1 else _for_all_lanes(ev, cond, asg)
        return ev.read(mem, address, asg, held, invariant, alone=alone)
    b = ev.b
    # (the mask True: a load of this copy alone; not read-only, since it must stay where its bounds are known)
    x = b.splat(ev.read(mem, address, asg, b.const(True, bool_)), held.lanes)
    return b.op("select", held, x, b.splat(b.const(0, mem.dtype), held.lanes), dtype=mem.dtype)


def _for_all_lanes(ev: MemoryAccess, cond: Node, asg: Assignment) -> Val | None:
    """What of a mask is one for all lanes: where that does not hold, no lane is on."""
    out: Val | None = None
    for v in (ev.value(c, asg) for c in conjuncts(cond)):
        if v.lanes == 1 and ev.b.truth(v) is None:
            out = v if out is None else ev.b.op("and", out, v)
    return out


def _plain(ev: MemoryAccess, node: Node, mem: Mem, address: Node, asg: Assignment) -> bool:
    """Whether a load is of an input's elements side by side, or of one, all of which exist; with registers of masks it can stay masked."""
    target = ev.low.sched.target
    if target.groups or "avx512" in target.features or mem.space != "param":
        return False
    buffer, indices, _ = load_parts(node)
    _, _, lane, special = ev.placed(address, asg)
    if buffer.role != "in" or special or lane not in (0, 1):
        return False
    return all(_within(ev, i, extent, asg) for i, extent in zip(indices, buffer.shape, strict=True))


def _within(ev: MemoryAccess, index: Node, extent: int | Node, asg: Assignment) -> bool:
    """Whether an index is known to be one of a dimension, in every lane."""
    low, high = ev.truths("le", const(0), index, asg), ev.truths("lt", index, size(extent), asg)
    return low is not None and high is not None and all(low) and all(high)
