"""Tiles in several slots of shared memory (STAGE with depth > 1): while the threads compute with one, the next are on their way.

Where the target copies into shared memory beside its threads (cp.async), depth − 1 tiles are. Elsewhere, and where a tile's pieces cannot
be copied so, a thread holds its part of the next tile in registers, which is depth 2."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..ir import index as ix
from ..ir.errors import OptError
from ..ir.node import Node, const
from .access import dense
from .opt import Opt
from .plans import ONCE, StagePlan
from .schedule import Scheduled

MOST = 8
"""Slots of one tile at most."""
IN_REGISTERS = 8
"""Pieces of a tile that a thread holds at most while it computes."""
BANKS = 128
"""Bytes of shared memory that lie in different banks."""
_PIECES = (16, 8, 4)
"""Bytes that one asynchronous copy moves (PTX ISA, cp.async)."""


def in_slots(o: Opt, plan: StagePlan, sched: Scheduled) -> StagePlan:
    """`plan`, a tile of a group, in as many slots as `o` asks for. OptError where its loop does not come round again, or where nothing can
    copy ahead."""
    depth = o.fields["depth"]
    assert isinstance(depth, int)
    out = plan if depth == 1 else _ahead(o, plan, sched, depth)
    last = sorted(out.box)[-1] if out.box else None
    if not out.swizzle or last is None:
        return out
    if last[3] == 1:  # rows that lie in other banks anyway change places alike
        return replace(out, every=max(1, BANKS // (out.pitch * out.dtype.size)))
    # a piece of the buffer is turned into so many rows of one column; pieces beside it go to other chunks
    return replace(out, every=max(1, min(out.chunk or tile_width(out, sched), last[2] // out.swizzle)))


def _ahead(o: Opt, plan: StagePlan, sched: Scheduled, depth: int) -> StagePlan:
    if plan.at.kind in ("grid", ONCE):
        raise OptError(f"{o}: depth is for a tile that is filled again and again; stage at a loop inside the group, not at {plan.at.name}")
    target = sched.target
    able = target.language.async_copies and "sm80" in target.features
    chunk = async_chunk(plan) if able and plan.kept is None else 0
    if not chunk:
        why = "its elements are not in pieces of 4, 8 or 16 bytes that are known to be aligned"
        if not able:
            why = f"{target.name} has no asynchronous copies"
        if depth > 2:
            raise OptError(f"{o}: a depth of {depth} needs asynchronous copies, and {why}: use depth=2")
        if steps(plan, tile_width(plan, sched), sched.group) > IN_REGISTERS:
            raise OptError(f"{o}: {why}, and the next tile is too much for the threads' registers: use a smaller tile, or depth=1")
    return replace(plan, depth=depth, chunk=chunk)


def check_depths(stages: Mapping[str, StagePlan]) -> None:
    """Raise OptError where tiles of one loop have slots of different numbers: they are waited for together."""
    found: dict[str, StagePlan] = {}
    for s in stages.values():
        if s.depth > 1:
            other = found.setdefault(s.at.name, s)
            if other.depth != s.depth:
                raise OptError(
                    f"STAGE({s.buffer.name}): depth {s.depth} at {s.at.name}, where {other.buffer.name} has {other.depth}: tiles of one loop "
                    f"are waited for together; give them the same depth, or 1"
                )


def tile_width(plan: StagePlan, sched: Scheduled) -> int:
    """Elements of one piece of a tile that goes through a thread's registers: 16 bytes of what is stored on a GPU, else a vector of the
    schedule's; rows are whole numbers of pieces."""
    widest = max(1, sched.target.vector_bytes // plan.dtype.size) if sched.target.kind == "gpu" else sched.width
    dims = sorted(plan.box)
    last = dims[-1][2] if dims else 1
    return min(widest, last & -last, plan.vector if plan.swizzle else last)


def steps(plan: StagePlan, width: int, group: int) -> int:
    """Pieces of `width` elements that each thread of a group copies."""
    return -(-pieces(plan, width) // group)


def pieces(plan: StagePlan, width: int) -> int:
    """Pieces of `width` elements of a tile."""
    count = 1
    for _, _, extent, _ in plan.box:
        count *= extent
    return count // width


def async_chunk(plan: StagePlan) -> int:
    """Elements of the largest piece of a tile that one asynchronous copy can move: 16, 8 or 4 bytes, consecutive in both places, at
    addresses that are known to be aligned to them, and inside the buffer as a whole or not at all. 0 where there is none."""
    size = plan.dtype.size
    return next((n // size for n in _PIECES if n % size == 0 and _fits(plan, n // size)), 0)


def _fits(plan: StagePlan, width: int) -> bool:
    """Whether pieces of `width` elements are as `async_chunk` wants them."""
    if width == 1:
        return True
    dims = sorted(plan.box)
    if not dims:
        return False
    last, base, extent, stride = dims[-1]
    if last != len(plan.buffer.shape) - 1 or extent % width or stride != 1:
        return False
    if any(s % width for d, _, e, s in plan.box if d != last and e > 1) or plan.elements % width:
        return False
    if not (_multiple(base, width) and uniform(plan, width)):
        return False
    at = list(plan.index)
    boxed = {d: b for d, b, _, _ in dims}
    for d, step in enumerate(dense(plan.buffer.shape)[:-1]):
        if isinstance(step, Node):
            return False
        moves = d in boxed and any(e > 1 for x, _, e, _ in dims if x == d)
        if step % width and (moves or not _multiple(ix.mul(boxed.get(d, at[d]), const(step)), width)):
            return False
    return True


def uniform(plan: StagePlan, width: int) -> bool:
    """Whether pieces of `width` consecutive elements of the buffer are inside it as a whole or not at all."""
    dims = sorted(plan.box)
    if width == 1 or not dims or dims[-1][0] != len(plan.buffer.shape) - 1:
        return width == 1
    size = plan.buffer.shape[-1]
    return _multiple(dims[-1][1], width) and isinstance(size, int) and size % width == 0


def _multiple(index: Node, n: int) -> bool:
    terms, c = ix.parts(index)
    return c % n == 0 and all(k % n == 0 for k in terms.values())
