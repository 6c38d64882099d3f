"""`lower`: a Scheduled becomes a Program. This file walks the items and opens loops; nests are emitted in `lower.emit`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import gcd, prod
from typing import TYPE_CHECKING

from ..ir import index as ix
from ..ir.dtypes import DType, index
from ..ir.errors import OptError
from ..ir.kernel import Buffer, Scan
from ..ir.node import Node, const, walk
from ..opts.apply_options import apply
from ..opts.axis_plan import Part
from ..opts.memory_limits import check_program
from ..opts.nests import FoldItem, Item, Nest
from ..opts.plans import StagePlan
from ..opts.schedule import Scheduled
from ..program.builder import Builder, Loop
from ..program.program import Mem, Param, Phase, Program, Val
from . import empty_extents as empty
from .allocation import Rooms
from .emit import pack_once as once
from .passes import barriers
from .passes.interleave import interleave
from .pieces import ALL, Piece, Pieces
from .scalars import Scalars
from .storage import Arena, Array, Registers, row_major

if TYPE_CHECKING:
    from .emit.fold import Merge


def lower(scheduled: Scheduled, expand: bool = True) -> Program:
    """The Program of a schedule. `expand=False` keeps exp, log, tanh and erf as operations (for the twin). OptError where
    the schedule cannot be expressed."""
    kernel = scheduled.kernel
    params = tuple(Param(b.name, b.dtype, b.shape, b.role) for b in kernel.buffers)
    places = {b.name: i for i, b in enumerate(kernel.buffers)}
    target = scheduled.target
    out = Program(kernel.name, params, kernel.symbols, [], align=target.vector_bytes if target.groups else 1)
    room = Arena("work")
    for sub, gate in empty.parts(scheduled):
        low = Lowering(sub, expand, places, kernel.symbols)
        for s in sub.stages.values():
            if s.once:
                first = Lowering(sub, expand, places, kernel.symbols)
                out.phases.insert(out.once, once.pack(first, s, room))
                out.once += 1
                low.tiles |= first.tiles
                low.active |= first.active
        out.phases.append(low.run(gate))
        out.scratch, out.shared, out.work = max(out.scratch, low.arena.size), max(out.shared, low.shared.size), max(out.work, low.work, room.size)
        out.regs = max(out.regs, sub.regs)
    if out.shared > target.shared and target.groups:
        raise OptError(f"{kernel.name}: the group needs {out.shared} bytes of shared memory; {target.name} has {target.shared}")
    if scheduled.opts:
        check_program(target, kernel.name, out, lambda: lower(apply(kernel, (), target)))
    return out


class Lowering(Rooms, Pieces):
    """State shared by the emitters of one Program."""

    def __init__(self, sched: Scheduled, expand: bool = True, params: dict[str, int] | None = None, symbols: tuple[Node, ...] | None = None) -> None:
        self.sched, self.b = sched, Builder(expand, sched.target.features)
        self.kernel = sched.kernel
        self.symbols = self.kernel.symbols if symbols is None else symbols
        self.params = {b.name: i for i, b in enumerate(self.kernel.buffers)} if params is None else params
        self.work = sum(_bytes(b) for b in self.kernel.buffers if b.name not in self.params)
        self.dtypes = {b.name: b.dtype for b in self.kernel.buffers}
        self.strides = {b.name: row_major(b.shape) for b in self.kernel.buffers}
        self.axis_index: dict[Node, Node] = {a: p.index for a, p in sched.plans.items()}
        self.storage: dict[str, Registers | Array] = {}
        self.scalars = Scalars(self.b, {})
        self.opened: dict[str, Part] = {}
        self.arena, self.shared = Arena(), Arena("shared")
        self.active: dict[str, tuple[StagePlan, Mem]] = {}
        self.tiles: dict[str, Mem] = {}
        self.aliased: set[str] = set()
        self.lent: set[str] = set()
        self.width = max(1, min((sched.target.lanes(d) for d in self._types()), default=1))
        self.branches = not sched.target.groups and "avx512" not in sched.target.features
        self.reads = self._reads()
        self.inner = sched.inner
        self._streaming: str | None = None
        self.current: tuple[Nest, ...] = ()
        self.forced: dict[str, Array] = {}
        self.closing: dict[str, Merge] = {}
        self.holds: frozenset[tuple[Node, Node]] = frozenset()
        self.whole: frozenset[Node] = frozenset()
        self.fixed: dict[Node, Node] = {}
        self.ragged: frozenset[Node] = frozenset()
        self.thread: Val
        # components of cut folds: the merge reads them, though no nest of the kernel does
        self.merged = {
            c for i in sched.items if isinstance(i, FoldItem) and any(sched.plans[a].fold for n in i.nests for a in n.all_axes) for c in i.fold.components
        }

    def _types(self) -> list[DType]:
        found = [n.expr.dtype.compute for n in self.sched.nests] + [b.dtype.compute for b in self.kernel.buffers]
        return [d for d in found if d is not index] or found

    def _reads(self) -> dict[str, list[tuple[Nest, tuple[Node, ...]]]]:
        out: dict[str, list[tuple[Nest, tuple[Node, ...]]]] = {}
        for nest in self.sched.nests:
            for n in walk(*nest.evaluated):
                if n.op == "ref":
                    out.setdefault(n.arg, []).append((nest, n.src))
        return out

    # program ------------------------------------------------------------------------------------------------------
    def run(self, items: Node = const(1)) -> Phase:  # noqa: B008
        """Lower everything into one phase of `items` times the grid's items."""
        for p in self.sched.grid:
            items = ix.mul(items, p.size if isinstance(p.size, Node) else const(p.size))
        # what has no points is left out; the extents that are left are at least 1
        found = [i for i in self.sched.items if not _empty(i)]
        if not found:
            items = const(0)
        with self.b.phase(items, self.symbols, self.sched.group) as phase:
            self.scalars = Scalars(self.b, dict(zip(self.symbols, phase.vars)))
            if not (items.op == "const" and items.arg == 0):
                self._grid(phase.item)
                self._threads(phase.thread)
                self.work_item(self.sched.grid, found)
        if self.sched.group > 1:
            barriers.place(phase, self.sched.target.warp)
        if not self.sched.target.groups:  # compilers for GPUs schedule by themselves
            interleave(phase, self.sched.target.registers)
        return phase

    def _threads(self, thread: Val | None) -> None:
        """Split the number of a thread into its axes, the first varying fastest."""
        if thread is not None:
            self.thread = thread
        for t in self.sched.threads:
            assert thread is not None
            at = thread if t.stride == 1 else self.b.op("idiv", thread, attr=t.stride)
            self.scalars.bound[t.var] = at if t is self.sched.threads[-1] else self.b.op("imod", at, attr=t.count)

    def _grid(self, item: Val) -> None:
        """Split the grid index into its parts, the last varying fastest; in a swizzled grid the last two run in bands of rows."""
        grid = self.sched.grid
        rest = item
        if self.sched.swizzle > 1:
            rows, columns = grid[-2:]
            band = self.sched.swizzle * columns.trips
            first = self.b.op("idiv", rest, attr=band)
            within = self.b.op("imod", rest, attr=band)
            if rows is not grid[0]:
                bands = rows.trips // self.sched.swizzle
                first, rest = self.b.op("imod", first, attr=bands), self.b.op("idiv", first, attr=bands)
            row = self.b.op("imod", within, attr=self.sched.swizzle)
            self.scalars.bound[rows.var] = self.b.op("add", self.b.op("mul", first, self.b.const(self.sched.swizzle)), row)
            self.scalars.bound[columns.var] = self.b.op("idiv", within, attr=self.sched.swizzle)
            self.opened |= {rows.name: rows, columns.name: columns}
            grid = grid[:-2]
        for p in reversed(grid):
            if p is grid[0]:
                self.scalars.bound[p.var] = rest
            else:
                self.scalars.bound[p.var] = self.b.op("imod", rest, attr=p.size)
                rest = self.b.op("idiv", rest, attr=p.size)
            self.opened[p.name] = p

    # items and loops ----------------------------------------------------------------------------------------------
    def emit_items(self, items: list[Item]) -> None:
        """Emit items in order; neighbours that share their next loop run inside one loop."""
        i = 0
        while i < len(items):
            part = self._next(items[i])
            j = i + 1
            if part is not None and self._sharable(items[i], part):
                while j < len(items) and self._joins(items[i:j], items[j], part):
                    j += 1
            if part is None or not self._sharable(items[i], part) or (j == i + 1 and isinstance(items[i], Nest)):
                self._emit(items[i])
                i += 1
                continue
            group = items[i:j]
            self._keep(group)
            self.current = tuple(n for g in group for n in (g.nests if isinstance(g, FoldItem) else (g,)))
            for piece in self.versions(self.pieces(part)):
                with self.open(part, piece=piece):
                    self.emit_items(group)
            i = j

    def _keep(self, group: Sequence[Item]) -> None:
        """Give every value of a group that is read outside it an array out here, before its loop opens."""
        inside = [n for g in group for n in (g.nests if isinstance(g, FoldItem) else (g,))]
        for n in inside:
            for name, axes in n.made.items():
                outside = name in self.merged or any(all(r is not m for m in inside) for r, _ in self.reads.get(name, ()))
                if outside and name not in self.storage and name not in self.forced:
                    self.forced[name] = self.array(n.value if n.value is not None and n.name == name else self.kernel.values[name], axes)

    def _emit(self, item: Item) -> None:
        from .emit import fold
        from .emit import nest as emit

        self.current = item.nests if isinstance(item, FoldItem) else (item,)
        if isinstance(item, FoldItem):
            fold.fold(self, item)
        else:
            emit.nest(self, item)

    def remaining(self, nest: Nest) -> list[Part]:
        """Loops of `nest` that are not open yet."""
        return [p for p in self.sched.loops(nest) if p.name not in self.opened]

    def _next(self, item: Item) -> Part | None:
        if isinstance(item, Nest):
            rest = self.remaining(item)
            return rest[0] if rest else None
        per = [self.remaining(n) for n in item.nests]
        first = per[0][0] if per[0] else None
        same = first is not None and first.kind != "fold" and all(r and r[0].name == first.name for r in per)
        return first if same else None

    def _sharable(self, item: Item, part: Part) -> bool:
        nests = item.nests if isinstance(item, FoldItem) else (item,)
        return all(part.axis in n.axes and not (n.kind == "scan" and _scan_axis(n) is part.axis) for n in nests)

    def _joins(self, group: Sequence[Item], item: Item, part: Part) -> bool:
        nxt = self._next(item)
        if nxt is None or nxt.name != part.name or not self._sharable(item, part):
            return False
        made = {n.name: n for g in group for n in (g.nests if isinstance(g, FoldItem) else (g,))}
        made |= {f: n for n in list(made.values()) for f in n.fills}
        mine = {n.name for n in (item.nests if isinstance(item, FoldItem) else (item,))}
        # a reader may share the loop only if it reads just what this iteration made
        for name, maker in made.items():
            axes = self._value_axes(name, maker)
            for reader, src in self.reads.get(name, ()):
                if reader.name in mine and (self._apart(reader) or any(a is part.axis and s is not a for a, s in zip(axes, src))):
                    return False
        return True

    def _apart(self, store: Nest) -> bool:
        """Whether a staged output is stored by loops of its own from here on: its tile is complete in the loop it is staged at."""
        return store.store is not None and store.name in self.sched.held and self.sched.value_stages[store.name] in self.opened

    def _value_axes(self, name: str, maker: Nest) -> tuple[Node, ...]:
        return maker.fills.get(name, maker.axes)

    @contextmanager
    def open(self, part: Part, init: Sequence[Val] = (), piece: Piece = ALL) -> Iterator[Loop]:
        """Open the loop over `part` (or over a piece of it), bind its variable, and fill what is staged inside it."""
        lo, hi = piece.between or (const(0), self._trips(part))
        with self.iterations(part, lo, hi, init, piece.at) as loop, self.inside(part, piece):
            self.opened[part.name] = part
            kept = dict(self.active)
            with self.scalars.bind(part.var, loop.var):
                for s in self.sched.stages.values():
                    if s.at.name == part.name and self._uses(s):
                        self.stage(s)
                yield loop
            self.active = kept
            del self.opened[part.name]

    def _uses(self, s: StagePlan) -> bool:
        return s.buffer.name not in self.active and any(n is m for n in s.nests for m in self.current)

    def _trips(self, part: Part) -> Node:
        size = part.size if isinstance(part.size, Node) else const(part.size)
        if not part.clip or part.axis in self.whole:
            return size
        plan = self.sched.plans[part.axis]
        base = const(0)
        if plan.fold:
            base = ix.add(base, plan.fold.var, plan.fold.stride)
        for p in plan.parts[: [p.name for p in plan.parts].index(part.name)]:
            base = ix.add(base, p.var, p.stride)
        extent = plan.extent if isinstance(plan.extent, Node) else const(plan.extent)
        return ix.minmax("min", size, ix.ceildiv(ix.add(extent, base, -1), part.stride))

    def stage(self, s: StagePlan) -> None:
        """Copy a staged tile into scratch and redirect its readers."""
        from .staged import copy, tile

        saved, self.current = self.current, ()
        (tile.fill if self.sched.group > 1 else copy.fill)(self, s)
        self.current = saved

    def staged(self, buffer: str, nest: Nest) -> tuple[StagePlan, Mem] | None:
        """The active tile of a buffer for a nest."""
        found = self.active.get(buffer)
        return found if found is not None and any(n is nest for n in found[0].nests) else None

    # memory -------------------------------------------------------------------------------------------------------
    def scalar(self, node: Node) -> Val:
        """An index over open loops and symbols as a scalar."""
        return self.scalars.get(self.known(node))

    def param(self, name: str) -> Mem:
        """The memory of a parameter."""
        dtype = self.dtypes[name]
        if name not in self.params:
            return Mem("work", 0, dtype, align=dtype.size)
        return Mem("param", self.params[name], dtype, align=dtype.size, nt=name == self._streaming)

    @contextmanager
    def streaming(self, name: str | None) -> Iterator[None]:
        """Stores to output `name` are non-temporal, and its address is known to be aligned."""
        self._streaming = name
        yield
        self._streaming = None

    def at(self, mem: Mem, base: Node, offset: int, lanes: int) -> Mem:
        """`mem` with a constant offset, and the alignment its index proves."""
        align = mem.dtype.size
        target = self.sched.target
        if mem.space != "param" or mem.nt or target.groups:
            terms, fixed = ix.parts(base)
            sizes = (v * mem.dtype.size for v in (fixed + offset, *terms.values()))
            align = max(align, gcd(target.vector_bytes if mem.space == "param" else 64, *sizes))
        # a non-temporal store of a whole aligned vector, or an ordinary one
        streams = mem.nt and lanes * mem.dtype.size == target.vector_bytes <= align
        return Mem(mem.space, mem.base, mem.dtype, offset, align if streams or not mem.nt else mem.dtype.size, streams)


def _empty(item: Item) -> bool:
    if isinstance(item, Nest):
        return item.empty
    return all(any(a.arg.extent == 0 for a in item.fold.component(c).axes) for c in item.fold.components)


def _bytes(buffer: Buffer) -> int:
    size = buffer.dtype.size * prod(d if isinstance(d, int) else ix.bounds(d)[1] for d in buffer.shape)
    return (size + 127) // 64 * 64


def _scan_axis(nest: Nest) -> Node:
    assert nest.value is not None and isinstance(nest.value.expr, Scan)
    return nest.value.expr.axis
