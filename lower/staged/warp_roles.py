"""Phases in roles (GRID's warpspec): one warpgroup copies operands by TMA into slots, others multiply them. mbarriers tell which slots are full, and
which are empty.

The producer waits until slot i % d is empty, announces the bytes of all boxes of iteration i at the slot's `full` barrier, and has them
copied. A consumer waits for `full`, multiplies, and one thread of each of its warpgroups arrives at `empty` when the products are done.
Iterations are counted through all work items of a group, so that slots and parities go on where the last item left them. (As in CUTLASS'
warp-specialised kernels and DeepGEMM.)"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from ...ir import index as ix
from ...ir.errors import OptError
from ...ir.node import Node, const
from ...opts.access import dense
from ...opts.analysis.boxes import ALIGN, ROW, BoxPlan
from ...opts.axis_plan import Part
from ...opts.loop_tree import Folded, loaded_limits, ranges
from ...opts.options.grid import REGISTERS, boxes, clustered, consumers, persistent, shared
from ...opts.plans import StagePlan
from ...program import hopper_calls as hc
from ...program.builder import Builder
from ...program.hopper import BoxLoad, MBar, SharedOperand, TensorMap
from ...program.ops import ACCESSES
from ...program.program import Block, Instr, Mem, Val, statements
from .. import pieces
from ..lowering import Lowering
from ..storage import DONE, BoxRoom

WARPGROUP = 128


def tensor_map(plan: BoxPlan, param: int, parts: int = 1) -> TensorMap:
    """The map of an operand that is a parameter's, a box of which is brought in so many parts."""
    shape = plan.stage.buffer.shape
    box = tuple(n // parts if d == plan.dim and not plan.across else n for d, n in enumerate(plan.box))
    return TensorMap(param, plan.dtype, tuple(reversed(shape)), tuple(reversed(dense(shape)[:-1])), tuple(reversed(box)), ROW)


def operand(plan: BoxPlan, base: int) -> SharedOperand:
    """An operand whose first slot begins at byte `base`, as products read it."""
    return SharedOperand(base, plan.dtype, ALIGN, plan.rows * ROW if plan.across else 16, plan.across)


def make_room(low: Lowering, boxes: Mapping[str, BoxPlan], consumers: int, groups: int, shared_by: tuple[str, ...]) -> BoxRoom:
    """Take shared memory for every slot and barrier, and give each operand a map."""
    shared, maps = low.storage.shared, {}
    depth = next(iter(boxes.values())).stage.depth
    for name, plan in boxes.items():
        base = shared.exactly(depth * plan.bytes, ALIGN)
        low.storage.panels[name] = Mem("shared", base, plan.dtype, align=ALIGN)
        maps[name] = low.add_map(tensor_map(plan, low.ctx.params[name], groups if name in shared_by else 1))
    bars = [shared.exactly(8 * depth, 8) for _ in range(2)]
    full, empty = MBar(bars[0], depth, 1), MBar(bars[1], depth, consumers * groups)
    return BoxRoom(boxes, maps, full, empty, groups, shared_by)


class BoxSlots:
    """Which slot an iteration uses, and the parity of its phase: so many iterations went before the loop's one with number 0."""

    def __init__(self, low: Lowering, room: BoxRoom, done: Val) -> None:
        self.low, self.room, self.done = low, room, done

    def at(self, var: Val) -> tuple[Val, Val]:
        """(slot, parity) of the iteration with this loop variable."""
        b = self.low.b
        count = b.op("add", var, self.done)
        return b.op("imod", count, attr=self.room.depth), b.op("imod", b.op("idiv", count, attr=self.room.depth), attr=2)


class Consumed:
    """The consumers' side of a loop; stands for `ring.Ring` there."""

    def __init__(self, low: Lowering, part: Part, bounds: tuple[Node, Node], plans: Sequence[StagePlan]) -> None:
        assert low.boxes is not None
        self.low, self.plan, self.room = low, plans[0], low.boxes
        self.slots = BoxSlots(low, low.boxes, low.scalars.bound[DONE])

    @contextmanager
    def iteration(self, var: Val) -> Iterator[None]:
        """Inside an iteration of the loop: its slot is full, and given back afterwards."""
        low, b = self.low, self.low.b
        slot, parity = self.slots.at(var)
        hc.wait(b, self.room.full, slot, parity)
        with low.scalars.bind(self.plan.slot, slot):
            yield
        with b.when(b.op("eq", b.op("imod", low.thread, attr=WARPGROUP), b.const(0))):
            for rank in range(self.room.groups):
                hc.arrive(b, self.room.empty, slot, b.const(rank) if self.room.groups > 1 else None)


def produce(low: Lowering, part: Part, bounds: tuple[Node, Node], rank: Val) -> None:
    """The producer's loop, which one thread runs. `rank`: which group of its cluster this is."""
    assert low.boxes is not None
    b, room = low.b, low.boxes
    slots = BoxSlots(low, room, low.scalars.bound[DONE])
    total = sum(p.bytes for p in room.boxes.values())
    with b.loop(part.name, low.scalar(bounds[0]), low.scalar(bounds[1])) as loop, low.scalars.bind(part.var, loop.var):
        slot, parity = slots.at(loop.var)
        hc.wait(b, room.empty, slot, b.op("sub", b.const(1), parity))
        hc.expect(b, room.full, slot, b.const(total))
        for name in room.boxes:
            _bring(low, name, slot, rank)


def _bring(low: Lowering, name: str, slot: Val, rank: Val) -> None:
    """Begin to copy this group's part of an operand's tile."""
    assert low.boxes is not None
    b, room = low.b, low.boxes
    plan, size = room.boxes[name], room.boxes[name].elements
    first = b.op("mul", slot, b.const(len(plan.starts) * size))
    groups = room.groups if name in room.shared else 1
    to = BoxLoad(room.maps[name], low.storage.panels[name].base, room.full, (1 << groups) - 1 if groups > 1 else 0)
    # a part is every so many of the boxes, or so many rows of the only one
    each, rows = (size, plan.box[plan.dim]) if plan.across else (size // groups, plan.box[plan.dim] // groups)
    for i in range(0, len(plan.starts), groups if plan.across else 1):
        at = b.op("add", first, b.const(i * size)) if i else first
        coordinates = [low.scalar(n) for n in plan.starts[i]]
        if groups > 1:
            at = b.op("add", at, b.op("mul", rank, b.const(each)))
            coordinates[plan.dim] = b.op("add", coordinates[plan.dim], b.op("mul", rank, b.const(rows)))
        hc.load(b, to, slot, at, coordinates[::-1])


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


def emit_roles(low: Lowering, work: Work) -> None:
    """Emit a phase in roles: the first warpgroups do what the group would do, the last one copies for them. OptError where the consumers would need barriers of their own."""
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
    first, last = _iterations(low, part)
    trips = ix.add(last, first, -1)
    if trips.op != "const" and persistent(low.sched):
        raise OptError(
            f"GRID(warpspec={count}, persist={low.sched.launch.persist}): how often loop {part.name} runs differs among work items"
        )
    if groups > 1 and not first.op == last.op == "const":  # each brings half of what both read in the same iteration
        raise OptError(f"GRID(cluster={groups}): which iterations of loop {part.name} run differs among the groups of a cluster")
    few, many = REGISTERS[count]
    low.emitters = replace(low.emitters, ring=Consumed)
    other = low.for_other_threads()

    def counted(one: Lowering, item: Val) -> None:
        done = b.op("mul", work.before(one, item), b.const(int(trips.arg))) if trips.op == "const" else b.const(0)
        one.scalars.bound[DONE] = b.op("sub", done, one.scalar(first))

    def consume(item: Val) -> None:
        counted(low, item)
        work.one(low)

    def fill(item: Val) -> None:
        counted(other, item)
        produce(other, part, (first, last), b.op("imod", work.group, attr=groups))

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
    _check_shared(roles.roles[0].body)


def _iterations(low: Lowering, part: Part) -> tuple[Node, Node]:
    """The first iteration of the loop where operands are staged, and the one after its last."""
    folded = next((x for x in low.sched.tree.items if isinstance(x, Folded) and x.cut is part), None)
    if folded is None:
        return const(0), pieces.trips(low.sched, low.scope, part)
    found = ranges(low.sched, folded.item.fold, part, {p.var for p in low.sched.grid})
    if loaded_limits(found):
        raise OptError(f"GRID(warpspec): how often loop {part.name} runs is read from memory")
    return (found[0].lo, found[-1].hi) if found else (const(0), const(0))


def _check_shared(body: Block) -> None:
    """Threads of a role cannot meet at a barrier of the group, so they keep nothing in shared memory for one another."""
    for s in statements(body):
        if isinstance(s, Instr) and s.op in ACCESSES and s.mem.space == "shared":
            raise OptError(
                "GRID(warpspec): what is kept in shared memory, or summed over warps, needs barriers that warpgroups beside a producer have not"
            )
