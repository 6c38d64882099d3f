"""A phase in roles (WARPSPEC): the first warpgroups do what the group would do, the last one copies for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from ..ir.errors import OptError
from ..ir.node import const
from ..opts.options.cluster import clustered, shared
from ..opts.options.warpspec import REGISTERS, boxes, consumers
from ..program import hopper_calls as hc
from ..program.builder import Builder
from ..program.ops import ACCESSES
from ..program.program import Block, Instr, Val, statements
from . import pieces
from .box_room import DONE
from .lowering import Lowering
from .staged.boxes import WARPGROUP, Consumed, make_room, produce


class Work(Protocol):
    """The work items of a group, whose number is `group`."""

    group: Val

    def through(self, low: Lowering, each: Callable[[Val], None]) -> None:
        """Emit `each` for every work item."""

    def one(self, low: Lowering) -> None:
        """A work item, where its part of the grid is known."""

    def before(self, low: Lowering, item: Val) -> Val:
        """How many items a group has done before this one."""
        ...


def emit(low: Lowering, work: Work) -> None:
    """Emit both roles. OptError where the consumers would need barriers of their own."""
    b, count = low.b, consumers(low.sched)
    plans = boxes(low.sched)
    groups = clustered(low.sched)
    low.boxes = make_room(low, plans, count, groups, shared(low.sched))
    with b.when(b.op("eq", low.thread, b.const(0))):
        hc.init(b, low.boxes.full)
        hc.init(b, low.boxes.empty)
    together = hc.cluster_barrier if groups > 1 else Builder.barrier
    together(b)
    part = next(iter(plans.values())).stage.at
    trips = pieces.trips(low.sched, low.scope, part)
    if trips.op != "const":
        raise OptError(f"WARPSPEC(grid, {count}): how often loop {part.name} runs is not known here")
    few, many = REGISTERS[count]
    low.emitters = replace(low.emitters, ring=Consumed)
    other = low.beside()

    def counted(one: Lowering, item: Val) -> None:
        one.scalars.bound[DONE] = b.op("mul", work.before(one, item), b.const(int(trips.arg)))

    def consume(item: Val) -> None:
        counted(low, item)
        work.one(low)

    def fill(item: Val) -> None:
        counted(other, item)
        produce(other, part, (const(0), trips), b.op("imod", work.group, attr=groups))

    with b.roles() as roles:
        with b.role(roles, "consumers", 0, count * WARPGROUP, many):
            work.through(low, consume)
        with (
            b.role(roles, "producer", count * WARPGROUP, WARPGROUP, few),
            b.when(b.op("eq", low.thread, b.const(count * WARPGROUP))),
        ):
            work.through(other, fill)
    if groups > 1:  # nobody ends while another group may still reach its memory
        hc.cluster_barrier(b)
    _check(roles.roles[0].body)


def _check(body: Block) -> None:
    """Threads of a role cannot meet at a barrier of the group, so they keep nothing in shared memory for one another."""
    for s in statements(body):
        if isinstance(s, Instr) and s.op in ACCESSES and s.mem.space == "shared":
            raise OptError(
                "WARPSPEC(grid): what is kept in shared memory, or summed over warps, needs barriers that warpgroups beside a producer have not"
            )
