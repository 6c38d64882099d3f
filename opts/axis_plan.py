"""How one axis is cut into loops: tiles, register copies, the grid.

An axis is cut by block sizes in elements, so options on it commute: `TILE(n,128)` then `UPCAST(n,32)` equals the
reverse. From outer to inner the parts are: the outer loop (`n`), a loop inside each TILE block (`n.t`, `n.t2` in the
order given), the UNROLL copies (`n.r`), the UPCAST copies (`n.u`), and the elements that a matrix instruction takes
at once (`n.d`). Where threads of a group share the axis, their part (`n.l`) lies inside the copies, so that
neighbouring threads touch neighbouring words, but outside one vector's worth of them: `n.r n.v n.l n.u`.

Where the threads of a unit (a warp) make tiles of an axis together by a matrix instruction, the instruction says how a tile is dealt
out, and those parts are the innermost ones: copies (`m.c`), threads (`m.l`), lanes (`n.u`). LOCAL then counts units (`m.w`), and
UPCAST the elements that a unit has: `m.r m.w m.v m.c m.l m.u`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from math import prod

from ..ir import index as ix
from ..ir.errors import OptError
from ..ir.node import Node, const
from ..ir.node import axis as make_axis
from ..targets.tensor_rows import Parts

Size = int | Node
MAX_EXTRA_WORK = 1.25
MAX_PADDED_WORK = 4.0
MAX_IDLE_THREADS = 2.0


@dataclass(frozen=True, slots=True)
class Part:
    """One loop of an axis. `size` is its nominal trip count, `stride` the elements one step covers; with `clip` the last
    trip count is bounded by the axis' extent. kind: grid, serial, fold, thread, unroll, upcast, dot. `var` is its index variable;
    the sites of a family share that of their threads."""

    name: str
    axis: Node
    kind: str
    size: Size
    stride: int
    clip: bool
    var: Node
    trips: int = field(init=False, compare=False, repr=False)
    """The nominal trip count, the upper bound of a symbolic one."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "trips", ix.upper(self.size))

    @property
    def register(self) -> bool:
        """Whether it is spelled out as copies in the body instead of a loop."""
        return self.kind in ("unroll", "upcast", "dot")

    @property
    def loop(self) -> bool:
        """Whether it is a loop: over the grid, or in the code."""
        return self.kind in ("grid", "serial", "fold")


@dataclass(frozen=True)
class AxisPlan:
    """The cuts of one axis node. `fold` is the loop over tiles of the fold the axis belongs to, if that is cut;
    `folded` marks the axis a fold is defined over, which has no loops of its own. `dot` consecutive elements are one
    step of a matrix instruction. `threads` of a group share the axis, each taking `vector` consecutive elements at a
    time. `unit`: how a matrix instruction deals a tile of the axis out among the threads of a unit, outer to inner; `threads` counts units
    then. `numbers`: what the index of a thread of the unit is, where that is not the family's own variable."""

    axis: Node
    tiles: tuple[tuple[str, int], ...] = ()
    upcast: int = 1
    unroll: int = 1
    grid: bool = False
    pad: int = 1
    fold: Part | None = None
    folded: bool = False
    threads: int = 1
    lanes: int = 1
    dot: int = 1
    unit: Parts = ()
    numbers: Node | None = None

    @property
    def extent(self) -> Size:
        """The real extent."""
        found = self.axis.arg.extent
        return found if isinstance(found, (int, Node)) else int(found)

    @property
    def span(self) -> Size:
        """What the loops of this node cover: the extent, or one tile of a cut fold."""
        return self.fold.stride if self.fold else self.extent

    @property
    def registers(self) -> int:
        """Elements that one thread takes in one step of the innermost loop."""
        return self.copies * self.unroll * self.dot // self.spread

    @property
    def copies(self) -> int:
        """Elements that a thread takes as UPCAST copies; those of a whole unit where there is one, at least a tile."""
        return max(self.upcast, self.tile)

    @property
    def tile(self) -> int:
        """Elements of a matrix instruction's tile along the axis that a unit of threads makes together, 1 without one."""
        return prod(p.count for p in self.unit) if self.unit else 1

    @property
    def spread(self) -> int:
        """How many threads of a unit share a tile of the axis."""
        return prod(p.count for p in self.unit if p.kind == "thread") if self.unit else 1

    @property
    def shared(self) -> bool:
        """Whether threads of a group share the axis."""
        return self.threads * self.spread > 1

    @property
    def dealt(self) -> tuple[object, ...]:
        """Which of an axis' elements a thread has: equal where two plans deal them out in the same way."""
        if self.unit:
            return tuple((p.var, p.size, p.stride) for p in self.parts if p.kind == "thread")
        return self.threads, self.vector

    @property
    def block(self) -> int:
        """Elements in one step of the innermost loop."""
        return self.copies * self.unroll * self.dot * self.threads

    @property
    def vector(self) -> int:
        """Consecutive elements a thread takes: the largest power of two that divides its copies, at most `lanes`."""
        return min(self.lanes, self.upcast & -self.upcast)

    @property
    def masked(self) -> bool:
        """Whether register copies or threads can reach past the extent."""
        e = self.extent
        return self.block > 1 and (not isinstance(e, int) or e % self.block != 0)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Outer to inner; loops of a single trip are left out. Equal plans share their Part objects."""
        return () if self.folded else _parts_of(self)

    @cached_property
    def index(self) -> Node:
        """The axis as an index over its part variables."""
        out = const(0)
        if self.fold:
            out = ix.add(out, self.fold.var, self.fold.stride)
        for p in self.parts:
            out = ix.add(out, p.var, p.stride)
        return out

    @property
    def own(self) -> Node:
        """The axis as an index over one thread's own elements, which leaves out those of the others."""
        out = const(0)
        if self.fold:
            out = ix.add(out, self.fold.var, self.squeezed(self.fold.stride))
        for p in self.parts:
            if p.kind != "thread":
                out = ix.add(out, p.var, self.squeezed(p.stride))
        return out

    def squeezed(self, stride: int) -> int:
        """How many of its own elements a thread has in `stride` elements."""
        if self.unit:
            return stride // prod(p.trips for p in self.parts if p.kind == "thread" and p.stride < stride)
        return stride if stride < self.vector * self.threads else stride // self.threads

    def with_tile(self, block: int) -> AxisPlan:
        """Cut into blocks of `block` elements."""
        if any(b == block for _, b in self.tiles):
            raise OptError(f"TILE({self.axis.arg.name}, {block}): already cut into blocks of {block}")
        if isinstance(self.span, int) and block >= self.span:
            raise OptError(f"TILE({self.axis.arg.name}, {block}): the block must be smaller than the extent {self.span}")
        name = f"{self.axis.arg.name}.t{len(self.tiles) + 1 if self.tiles else ''}"
        return replace(self, tiles=(*self.tiles, (name, block))).checked(f"TILE({self.axis.arg.name}, {block})")

    def with_registers(self, kind: str, count: int) -> AxisPlan:
        """Spell out `count` copies."""
        name = self.axis.arg.name
        what = f"{kind.upper()}({name}, {count})"
        if getattr(self, kind) > 1:
            raise OptError(f"{what}: {name} already has {kind} {getattr(self, kind)}")
        if count < 2:
            raise OptError(f"{what}: the amount must be at least 2")
        return (replace(self, upcast=count) if kind == "upcast" else replace(self, unroll=count)).checked(what)

    def with_dot(self, what: str, count: int) -> AxisPlan:
        """`count` consecutive elements are one step of a matrix instruction."""
        if self.dot > 1:
            raise OptError(f"{what}: {self.axis.arg.name} is in a matrix instruction already")
        return replace(self, dot=count).checked(what)

    def with_unit(self, what: str, unit: Parts) -> AxisPlan:
        """The threads of a unit make tiles of it together, dealt out as `unit` says."""
        if self.unit not in ((), unit):
            raise OptError(f"{what}: another matrix instruction deals {self.axis.arg.name} out among threads in another way")
        return replace(self, unit=unit).checked(what)

    def with_threads(self, what: str, count: int, lanes: int) -> AxisPlan:
        """Shared by `count` threads, which take up to `lanes` consecutive elements each."""
        if self.threads > 1:
            raise OptError(f"{what}: {self.axis.arg.family} is already shared by {self.threads} threads")
        if count < 2:
            raise OptError(f"{what}: the amount must be at least 2")
        return replace(self, threads=count, lanes=lanes).checked(what)

    def checked(self, what: str) -> AxisPlan:
        """Self, if block sizes nest and the extra work stays small."""
        name, inner = self.axis.arg.name, self.block
        if self.unit and self.upcast > 1 and self.upcast % self.tile:
            raise OptError(f"{what}: a unit's {self.upcast} elements of {name} must be a multiple of the instruction's {self.tile}")
        blocks = [*sorted((b for _, b in self.tiles), reverse=True), inner]
        for big, small in pairwise(blocks):
            if big % small:
                raise OptError(f"{what}: block {big} of {name} is not a multiple of the block {small} inside it")
        if self.fold and self.fold.stride % blocks[0]:
            raise OptError(f"{what}: {blocks[0]} does not divide the fold's tile of {self.fold.stride}")
        e = self.extent
        if isinstance(e, int) and inner > 1:
            if e == 0:
                raise OptError(f"{what}: the extent of {name} is 0")
            # an instruction's own group is filled up with zeros at no cost
            whole = self.dot * self.tile
            growth = -(-e // inner) * inner / (-(-e // whole) * whole)
            limit = MAX_PADDED_WORK if self.pad > 1 and self.pad % inner == 0 else MAX_IDLE_THREADS if self.shared else MAX_EXTRA_WORK
            if growth > limit and self.shared:
                raise OptError(
                    f"{what}: {self.threads * self.spread} threads of {self.registers} elements for an extent of {e} would idle; pad it with PADTO or use fewer"
                )
            if growth > limit:
                raise OptError(f"{what}: {inner} copies of extent {e} would do {growth - 1:.0%} extra work; pad it with PADTO or use fewer")
        return self


@lru_cache(maxsize=8192)
def _parts_of(plan: AxisPlan) -> tuple[Part, ...]:
    a, name = plan.axis, plan.axis.arg.name
    inner = plan.block
    blocks = sorted(plan.tiles, key=lambda t: -t[1])
    strides = [b for _, b in blocks] + [inner]
    sizes: list[tuple[str, Size, int, str]] = [(name, _ceil(plan.span, strides[0]), strides[0], "grid" if plan.grid else "serial")]
    sizes += [(n, b // strides[i + 1], strides[i + 1], "serial") for i, (n, b) in enumerate(blocks)]
    out = []
    exact = plan.extent if isinstance(plan.extent, int) else None
    for i, (n, size, stride, kind) in enumerate(sizes):
        if size == 1 and kind == "serial":
            continue
        covers = plan.span if i == 0 else blocks[i - 1][1]
        whole = i == 0 and plan.fold is None
        clip = not whole and (exact is None or not isinstance(covers, int) or exact % covers != 0)
        out.append(Part(n, a, kind, size, stride, clip, make_axis(n, size, name)))
    for kind, count, stride, suffix in _innermost_parts(plan):
        if count > 1:
            # (an instruction for several warps has two parts of one kind)
            suffix += "2" * any(p.name == name + suffix for p in out)
            var = make_axis(a.arg.family + suffix, count, a.arg.family) if kind == "thread" else make_axis(name + suffix, count, name)
            if suffix == ".l" and plan.numbers is not None:
                var = plan.numbers
            out.append(Part(name + suffix, a, kind, count, stride, False, var))
    return tuple(out)


_UNIT = {"copy": ("upcast", ".c"), "thread": ("thread", ".l"), "lane": ("upcast", ".u")}
"""What the parts of a matrix instruction are as parts of an axis, and how those are called."""


def _innermost_parts(plan: AxisPlan) -> Iterator[tuple[str, int, int, str]]:
    """(kind, count, stride, suffix of the name) of the parts inside all loops, outer to inner."""
    if plan.unit:
        yield "unroll", plan.unroll, plan.copies * plan.threads, ".r"
        yield "thread", plan.threads, plan.copies, ".w"
        yield "upcast", plan.copies // plan.tile, plan.tile, ".v"
        yield from ((_UNIT[p.kind][0], p.count, p.stride, _UNIT[p.kind][1]) for p in plan.unit)
        return
    w = plan.vector if plan.threads > 1 else plan.upcast
    yield "unroll", plan.unroll, plan.upcast * plan.threads * plan.dot, ".r"
    yield "upcast", plan.upcast // w, w * plan.threads * plan.dot, ".v"
    yield "thread", plan.threads, w * plan.dot, ".l"
    yield "upcast", w, plan.dot, ".u"
    yield "dot", plan.dot, 1, ".d"


def _ceil(n: Size, d: int) -> Size:
    if isinstance(n, int):
        return -(-n // d)
    out = ix.ceildiv(n, d)
    return int(out.arg) if out.op == "const" else out
