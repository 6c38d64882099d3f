"""Staged tiles in shared memory: the threads of a group share the copy, neighbours reading neighbouring words. All tiles of one place are
loaded before the first is stored, so that memory is waited for once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace

from ...ir import index as ix
from ...ir.node import Node, axes_of, const
from ...ir.node import axis as make_axis
from ...opts import staging as ring
from ...opts.axis_plan import Part
from ...opts.plans import StagePlan
from ...program.program import AsyncCopy, Mem, Val
from ..lowering import Lowering
from ..part_index import as_node, linear_index
from .panels import fill_alone
from .tile_read import swizzled_place

_BLOCK = (8, 4)
"""Elements along the buffer's last dimension (a sector of 32 bytes) and across it that a warp copies where they are transposed."""


@dataclass(frozen=True, slots=True)
class _Bound:
    """0 <= or < an index: what keeps a piece inside its buffer. `each`: its elements may differ, else the first speaks for all."""

    op: str
    index: Node
    each: bool


@dataclass(frozen=True, slots=True)
class TilePiece:
    """A thread's piece of one step: the condition under which there is one (None: always), and by how much the indices and bounds of a
    tile's copy are ahead of what is bound."""

    guard: Val | None
    source: int
    target: int
    bounds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LoadedPiece:
    """A piece on its way: where it goes in its slot (an index and a constant to add), where that begins, and what it holds."""

    guard: Val | None
    at: Val
    offset: int
    slot: Val | None
    value: Val


@dataclass(frozen=True, slots=True)
class CopySteps:
    """Unrolled steps of a copy: pieces from `first` (None: 0) on, each as many further as the group has threads. `any_last`:
    any of them may be one past the tile, not just the last."""

    count: int
    first: Val | None = None
    any_last: bool = False


class TileCopy:
    """Emits the copy of a tile in pieces of `width` elements; the slot, if there are several, is the one that is bound."""

    def __init__(self, low: Lowering, s: StagePlan, mem: Mem, width: int) -> None:
        self.low, self.s, self.mem, self.width = low, s, mem, width
        dims = sorted(s.box)
        self.sizes = [extent for _, _, extent, _ in dims]
        if dims:
            self.sizes[-1] //= width
        self.count = ring.pieces(s, width)
        self.steps = ring.steps(s, width, low.sched.group)
        name = s.buffer.name
        self.axes = [make_axis(f"{name}.box{d}", n) for d, n in enumerate(self.sizes)]
        coords: list[Node] = list(self.axes)
        if coords:
            coords[-1] = ix.mul(coords[-1], const(width))
        self.target = const(0)
        self.stride = dims[-1][3] if dims else 1
        self.bounds: list[_Bound] = []
        whole = ring.uniform(s, width)
        at = list(s.index)
        for (d, base, _, stride), c in zip(dims, coords):
            at[d] = ix.add(base, c)
            self.target = ix.add(self.target, c, stride)
            size = s.buffer.shape[d]
            top = as_node(size)
            # the last of a vector's lanes decides whether a bound can be left out
            end = ix.add(at[d], const(width - 1 if c is coords[-1] else 0))
            each = c is coords[-1] and not whole
            if not _is_true(ix.compare("le", const(0), at[d])):
                self.bounds.append(_Bound("le", at[d], each))
            if not _is_true(ix.compare("lt", end, top)):
                self.bounds.append(_Bound("lt", ix.add(top, at[d], -1), each))
        self.source = linear_index(at, low.ctx.strides[name])

    @property
    def words(self) -> int:
        """Registers that a thread needs to hold its pieces."""
        return self.steps * -(-self.width * self.mem.dtype.size // 4)

    @property
    def all_steps(self) -> CopySteps:
        """The whole tile."""
        return CopySteps(self.steps)

    # through registers ------------------------------------------------------------------------------------------------
    def load(self, steps: CopySteps, more: Val | None = None) -> list[LoadedPiece]:
        """Load this thread's pieces of some steps, where `more` holds."""
        out, low, param = [], self.low, self.low.param(self.s.buffer.name)
        for x in self._pieces(steps):
            mask = self._mask(x, x.guard if more is None else more if x.guard is None else low.b.op("and", x.guard, more))
            mask = None if mask is None else low.b.splat(mask, self.width)
            mem = low.at(param, self.source, x.source, self.width)
            value = low.b.load(mem, low.scalar(self.source), self.width, mask, invariant=True)
            out.append(LoadedPiece(x.guard, low.scalar(self.target), x.target, self._slot(), value))
        return out

    def store(self, loaded: Sequence[LoadedPiece]) -> None:
        """Store what was loaded."""
        for x in loaded:
            with nullcontext() if x.guard is None else self.low.b.when(x.guard):
                self._store(x)

    def _store(self, x: LoadedPiece) -> None:
        b, s, mem = self.low.b, self.s, self.mem
        if self.stride == 1:
            aligned = (s.pitch % self.width == 0 or len(self.sizes) == 1) and all(
                stride % self.width == 0 for _, _, _, stride in s.box[:-1]
            )
            at, offset = self._at(x.at, x.offset, x.slot)
            b.store(Mem(mem.space, mem.base, mem.dtype, offset, mem.dtype.size * (self.width if aligned else 1)), at, x.value)
            return
        same = s.every if s.swizzle else self.width  # rows that are swizzled alike
        for i in range(self.width):
            at, offset = self._at(x.at, x.offset + i // same * same * self.stride, x.slot)
            b.store(replace(mem, offset=offset + i % same * self.stride), at, b.extract(x.value, i))

    # beside the threads -----------------------------------------------------------------------------------------------
    def begin(self, steps: CopySteps) -> None:
        """Begin asynchronous copies of this thread's pieces of some steps; outside the buffer there are zeros."""
        low, mem, param = self.low, self.mem, self.low.param(self.s.buffer.name)
        for x in self._pieces(steps):
            at, offset = self._at(low.scalar(self.target), x.target, self._slot())
            to = Mem(mem.space, mem.base, mem.dtype, offset, self.width * mem.dtype.size)
            copy = AsyncCopy(to, low.at(param, self.source, x.source, self.width), self.width)
            source, mask = low.scalar(self.source), self._mask(x, None)
            with nullcontext() if x.guard is None else low.b.when(x.guard):
                low.b.copy_async(copy, at, source, mask)

    # where ------------------------------------------------------------------------------------------------------------
    def _pieces(self, steps: CopySteps) -> Iterator[TilePiece]:
        """The pieces of this thread, each with its coordinates bound as far as they are not the same constant for all threads: then
        the addresses of all steps are one index and constants."""
        low, b, group = self.low, self.low.b, self.low.sched.group
        number = low.thread if steps.first is None else b.op("add", low.thread, steps.first)
        for i in range(steps.count):
            guard = None
            if (steps.any_last or i == steps.count - 1) and self.count % group:
                guard = b.op("lt", b.op("add", number, b.const(i * group)) if i else number, b.const(self.count))
            found = self._coordinates(number, i * group)
            if not self._linear:
                found = [(b.op("add", v, b.const(c)) if c else v, 0) for v, c in found]
            ahead = dict(zip(self.axes, (c for _, c in found)))
            with ExitStack() as bound:
                for axis, (v, _) in zip(self.axes, found):
                    bound.enter_context(low.scalars.bind(axis, v))
                shifts = (_shift(x.index, ahead) for x in self.bounds)
                yield TilePiece(guard, _shift(self.source, ahead), _shift(self.target, ahead), tuple(shifts))

    @property
    def _linear(self) -> bool:
        """Whether a step along any dimension moves all indices by a constant."""
        every = (self.source, self.target, *(x.index for x in self.bounds))
        return all(t in self.axes or not axes_of(t).intersection(self.axes) for n in every for t in ix.parts(n)[0])

    def _coordinates(self, number: Val, ahead: int) -> list[tuple[Val, int]]:
        """The coordinates of the piece `number + ahead`, each as a value and a constant. Neighbours go along the buffer's last dimension; single elements
        that are transposed go in blocks, so that a warp writes some columns of some rows, which lie in different banks, and still reads
        whole sectors."""
        b, (along, across) = self.low.b, _BLOCK
        block = along * across
        blocked = self.stride != 1 and self.width == 1 and self.sizes[1:] and ahead % block == 0
        if not blocked or self.sizes[-1] % along or self.sizes[-2] % across or self.low.sched.group % block:
            return self._dealt(number, ahead, self.sizes)
        near = b.op("imod", number, attr=along), b.op("imod", b.op("idiv", number, attr=along), attr=across)
        sizes = [*self.sizes[:-2], self.sizes[-2] // across, self.sizes[-1] // along]
        far = self._dealt(b.op("idiv", number, attr=block), ahead // block, sizes)
        for d, n, first in ((-1, along, near[0]), (-2, across, near[1])):
            far[d] = b.op("add", b.op("mul", far[d][0], b.const(n)), first), far[d][1] * n
        return far

    def _dealt(self, rest: Val, ahead: int, sizes: Sequence[int]) -> list[tuple[Val, int]]:
        """Coordinates of the piece `rest + ahead`, the last varying fastest."""
        b, out = self.low.b, list[tuple[Val, int]]()
        for n in reversed(sizes[1:]):
            if n == 1:
                out.append((b.const(0), 0))
                continue
            if ahead % n:
                rest, ahead = b.op("add", rest, b.const(ahead)), 0
            out.append((b.op("imod", rest, attr=n), 0))
            rest, ahead = b.op("idiv", rest, attr=n), ahead // n
        return [(rest, ahead), *reversed(out)] if sizes else []

    def _mask(self, piece: TilePiece, guard: Val | None) -> Val | None:
        low, b, mask = self.low, self.low.b, guard
        wide = any(x.each for x in self.bounds) and self.width > 1
        for x, shift in zip(self.bounds, piece.bounds, strict=True):
            v = low.scalar(ix.add(x.index, const(shift)))
            step = ix.parts(x.index)[0].get(self.axes[-1], 0) // self.width
            if x.each and step and self.width > 1:
                v = b.op("add", v, b.multiples(step, self.width))
            holds = b.op(x.op, b.const(0), v)
            if wide:
                holds, mask = b.splat(holds, self.width), mask if mask is None else b.splat(mask, self.width)
            mask = b.both(mask, holds)
        return mask

    def _slot(self) -> Val | None:
        return self.low.scalar(self.s.offset) if self.s.depth > 1 else None

    def _at(self, at: Val, offset: int, slot: Val | None) -> tuple[Val, int]:
        """Where the element `at + offset` of the tile lies: an index and a constant."""
        b, s = self.low.b, self.s
        if s.swizzle and offset % (s.pitch * s.every * s.swizzle):
            at, offset = b.op("add", at, b.const(offset)), 0
        found = swizzled_place(b, s, at)
        return (found if slot is None else b.op("add", slot, found)), offset


def _is_true(condition: Node) -> bool:
    return condition.op == "const" and bool(condition.arg)


def _shift(index: Node, ahead: Mapping[Node, int]) -> int:
    """By how much an index moves where these axes are so far ahead."""
    terms, _ = ix.parts(index)
    return sum(k * ahead.get(t, 0) for t, k in terms.items())


UNROLLED = ring.IN_REGISTERS
"""Unrolled steps of a copy, all loads before the stores, so that they are under way at once."""
WORDS = 64
"""Registers that hold what is loaded and not yet stored."""


def fill_shared(low: Lowering, plans: Sequence[StagePlan]) -> None:
    """Emit the copies at the current position."""
    copies = [TileCopy(low, s, room(low, s), ring.tile_width(s, low.sched)) for s in plans]
    for some in _load_groups(low, [c for c in copies if c.steps <= UNROLLED]):
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


def _load_groups(low: Lowering, copies: Sequence[TileCopy]) -> list[list[TileCopy]]:
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


# slots filled ahead ---------------------------------------------------------------------------------------------------
# Iteration i of a loop uses slot i % d (STAGE with depth d). With asynchronous copies, d − 1 tiles are begun before
# the loop. Each iteration waits for its own tile, begins that of iteration i + d − 1 in the slot that iteration i − 1
# has read, and commits in any case, so that groups are counted by iterations. The pass *barriers* finds the barrier
# between the wait and both. (As in CUTLASS' multistage pipelines.) Through registers, d is 2: a thread loads its part
# of the next tile before it computes, and stores it afterwards.


class TileSlots:
    """The slots of the tiles of one loop: which of them an iteration uses. What fills and awaits them is another's business."""

    def __init__(self, low: Lowering, part: Part, bounds: tuple[Node, Node], plan: StagePlan) -> None:
        self.low, self.part, self.slot, self.depth = low, part, plan.slot, plan.depth
        self.first, self.end = low.scalar(bounds[0]), low.scalar(bounds[1])
        self._known = [int(n.arg) if n.op == "const" else None for n in bounds]

    def number(self, var: Val, ahead: int = 0) -> Val:
        """The slot of the iteration `ahead` of the one with this loop variable."""
        b = self.low.b
        since = var if self._known[0] == 0 else b.op("sub", var, self.first)
        return b.op("imod", b.op("add", since, b.const(ahead)) if ahead else since, attr=self.depth)

    @contextmanager
    def at(self, var: Val, slot: Val) -> Iterator[None]:
        """Inside, indices are those of an iteration, and addresses in tiles those of a slot."""
        with self.low.scalars.bind(self.part.var, var), self.low.scalars.bind(self.slot, slot):
            yield

    def before(self, fill: Callable[[], None], after: Callable[[], None], count: int) -> None:
        """Fill the slots of the first `count` iterations, as far as the loop has them; `after` each, in any case."""
        b, (lo, hi) = self.low.b, self._known
        for j in range(count):
            var = self.first if not j else b.op("add", self.first, b.const(j)) if lo is None else b.const(lo + j)
            with self.at(var, b.const(j)):
                if j == 0 or (lo is not None and hi is not None and lo + j < hi):  # a loop has at least one iteration
                    fill()
                elif lo is None or hi is None:
                    with b.when(b.op("lt", var, self.end)):
                        fill()
            after()

    def ahead(self, var: Val, by: int, fill: Callable[[], None]) -> None:
        """Fill the slot of a later iteration, if there is one."""
        b = self.low.b
        later = b.op("add", var, b.const(by))
        with b.when(b.op("lt", later, self.end)), self.at(later, self.number(var, by)):
            fill()


class Ring:
    """The tiles that are staged at one loop with slots of one number; made where the loop is about to be opened."""

    def __init__(self, low: Lowering, part: Part, bounds: tuple[Node, Node], plans: Sequence[StagePlan]) -> None:
        self.low, self.slots, self.depth = low, TileSlots(low, part, bounds, plans[0]), plans[0].depth
        self.asynchronous = [TileCopy(low, s, room(low, s), s.chunk) for s in plans if s.chunk]
        self.through_registers = [TileCopy(low, s, room(low, s), ring.tile_width(s, low.sched)) for s in plans if not s.chunk]
        if self.asynchronous:
            self.slots.before(self._begin, low.b.commit, self.depth - 1)
        if self.through_registers:
            self.slots.before(lambda: self._store(self._load(None)), lambda: None, 1)

    @contextmanager
    def iteration(self, var: Val) -> Iterator[None]:
        """Inside an iteration of the loop."""
        b, slots = self.low.b, self.slots
        if self.asynchronous:
            b.wait(self.depth - 2)
            slots.ahead(var, self.depth - 1, self._begin)
            b.commit()
        loaded: list[list[LoadedPiece]] = []
        if self.through_registers:
            later = b.op("add", var, b.const(1))
            with slots.at(later, slots.number(var, 1)):
                loaded = self._load(b.op("lt", later, slots.end))
        with self.low.scalars.bind(slots.slot, slots.number(var)):
            yield
        self._store(loaded)

    def _begin(self) -> None:
        for c in self.asynchronous:
            if c.steps <= UNROLLED:
                c.begin(c.all_steps)
            else:
                b = self.low.b
                with b.loop(f"{c.s.buffer.name}.copy", b.const(0), b.const(c.steps)) as loop:
                    c.begin(CopySteps(1, b.op("mul", loop.var, b.const(self.low.sched.group)), any_last=True))

    def _load(self, more: Val | None) -> list[list[LoadedPiece]]:
        return [c.load(c.all_steps, more) for c in self.through_registers]

    def _store(self, loaded: Sequence[Sequence[LoadedPiece]]) -> None:
        for c, some in zip(self.through_registers, loaded):
            c.store(some)


def fill_tiles(low: Lowering, plans: Sequence[StagePlan]) -> None:
    """Emit the copies of the tiles that are staged at the current position."""
    if low.sched.group > 1:
        fill_shared(low, plans)
    else:
        for s in plans:
            fill_alone(low, s)
