"""ROLL: blocks of HALO keep what they have of a value for the next block, so that nothing is computed twice.

Blocks that overlap compute their halos again. Where they run one after the other, a block may find most of its halo where the block
before left it: in a ring of rows, of which each block computes just the new ones. (Halide's sliding windows and circular buffers.)"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...ir.errors import OptError
from ...ir.node import Node
from ..analysis.rolling import rings
from ..analysis.structure import extent, read_elsewhere
from ..builder import ScheduleBuilder
from ..loop_tree import Chain, Shared, Single, Together, Tree
from ..neighbourhood import Neighbourhood
from ..nests import Nest
from ..opt import Opt, Opts, opt
from ..plans import RollPlan
from ..registry import Doc, Option
from ..schedule import Scheduled

STEPS = (1, 2, 4, 8)
"""Rows of a block that keeps others for the next."""
STRIPS = (32, 64, 128, 256)
"""Rows of a work item that goes through such blocks."""


def act(b: ScheduleBuilder, o: Opt) -> None:
    """Note the axis of the blocks."""
    if len(b.find(o.on, o)) > 1:
        raise OptError(f"{o}: name one axis, of blocks that HALO made")
    if b.target.groups:
        raise OptError(f"{o}: {b.target.name} runs blocks in any order; ROLL is for processors' own loops")
    b.mark(o)


def finish(s: Scheduled, b: ScheduleBuilder) -> Scheduled:
    """The rings of all values that roll."""
    found: dict[str, RollPlan] = {}
    for name in s.marked("ROLL"):
        blocks = next(a for a in s.plans if name in (a.arg.name, a.arg.family))
        found |= {v: r for v, r in rings(s, blocks).items() if v not in found}
    return replace(s, rings=found)


def check(s: Scheduled) -> None:
    """Raise OptError where blocks do not come one after the other, or a value's new rows are no whole steps of its loops."""
    for name in s.marked("ROLL"):
        blocks = next(a for a in s.plans if name in (a.arg.name, a.arg.family))
        mine = {v: r for v, r in s.rings.items() if r.blocks is blocks}
        if not mine:
            raise OptError(
                f"ROLL({name}): no value has the same elements in two blocks; cut the inside of a block by HALO, and keep values by STAGE"
            )
        plan = s.plans[blocks]
        if plan.grid or plan.block > 1 or plan.tiles or plan.fold:
            raise OptError(f"ROLL({name}): blocks are to come one after the other, so {name} stays a serial loop that is not cut")
        for v, ring in mine.items():
            _value(s, f"ROLL({name})", v, ring)


def _value(s: Scheduled, what: str, name: str, ring: RollPlan) -> None:
    plan, along = s.plans[ring.along], ring.along.arg.name
    nest = next(n for n in s.nests if n.name == name)
    if plan.grid or plan.tiles or plan.fold or any(ring.along in n.all_axes for n in s.nests if n is not nest):
        raise OptError(f"{what}: the loop over {along} computes what is new of {name}; leave it uncut, serial and to itself")
    if ring.extent % plan.block or ring.kept % plan.block:
        raise OptError(f"{what}: of {along}, {ring.kept} of {ring.extent} places are kept; steps of {plan.block} do not divide both")
    loops = s.loops(nest)
    at = next((i for i, p in enumerate(loops) if p.axis is ring.along), None)
    first = next((i for i, p in enumerate(loops) if p.axis in nest.reduce_axes), len(loops))
    outer = next(i for i, p in enumerate(loops) if p.axis is ring.blocks)
    if at is None or not outer < at < first:
        raise OptError(f"{what}: the loop over {along} runs inside {ring.blocks.arg.name}, and outside what {name} reduces over")
    loop = _loop(s.tree.items, ring.blocks, nest)
    together = [] if loop is None else loop.nests
    readers = [r for r, _ in s.tree.reads.get(name, ())]
    if any(all(m is not n for m in together) for n in (nest, *readers)):
        raise OptError(f"{what}: {name} and what reads it do not run in one loop over {ring.blocks.arg.name}")
    assert loop is not None
    if not any(isinstance(i, Single) and i.nest is nest for i in loop.body):
        raise OptError(f"{what}: another loop runs between {ring.blocks.arg.name} and {along}, and would use one ring for all; MOVE it out")
    if any(src[ring.block_at] is not ring.blocks for _, src in s.tree.reads.get(name, ())):
        raise OptError(f"{what}: {name} is read in another block than the one that computes it")


def _loop(items: tuple[Tree, ...], blocks: Node, nest: Nest) -> Shared | None:
    """The loop over `blocks` that several nests share, `nest` among them."""
    for item in items:
        if isinstance(item, Shared) and item.part.axis is blocks and any(n is nest for n in item.nests):
            return item
        found = None if isinstance(item, Single | Together | Chain) else _loop(item.body, blocks, nest)
        if found is not None:
            return found
    return None


def propose(near: Neighbourhood) -> Iterator[Opts]:
    """Strips of an axis of the outputs in parallel, each in blocks that keep what they share."""
    values = read_elsewhere(near.kernel)
    if not values or not near.cpu or near.target.groups or "ROLL" in near.ops:
        return
    kept = [v for v in values if isinstance(near.kernel.values[v].expr, Node) and ("STAGE", v) not in near.taken]
    for a in near.kernel.stores[0].axes:
        name = a.arg.name
        for step in STEPS:
            rolled = (opt("HALO", name, step), opt("ROLL", f"{name}.h2"), *(opt("STAGE", v, at=f"{name}.h2") for v in kept))
            if ("HALO", name) in near.taken:
                yield rolled
                continue
            for strip in STRIPS:
                if strip < extent(a):
                    yield (opt("HALO", name, strip), opt("PARALLEL", f"{name}.h"), *rolled)


ROLL = Option(
    name="ROLL",
    letter="RO",
    on="axis",
    arg=None,
    kind="serial",
    legend="rolling blocks",
    docs=(
        Doc(
            "ROLL(blocks)",
            "Let blocks of `HALO` that run one after the other keep what they have of values for the next block, in rings: each "
            "block computes just what is new ([below](#chains-of-stencils)).",
        ),
    ),
    act=act,
    finish=finish,
    check=check,
    propose=propose,
)
