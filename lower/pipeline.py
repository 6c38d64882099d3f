"""`lower`: the way from a Scheduled to a Program, as a list of named steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter

from ..ir import index as ix
from ..ir.errors import InternalError, OptError
from ..ir.kernel import Kernel
from ..ir.node import Node, const
from ..log import logger
from ..opts.apply_options import phases, plain
from ..opts.axis_plan import Part
from ..opts.memory_limits import check_program
from ..opts.opt import Opts
from ..opts.options.grid import clustered, consumers, groups_of, persistent
from ..opts.schedule import Scheduled
from ..program.builder import Builder
from ..program.program import Instr, Param, Phase, Program, Val, statements
from ..program.verify import verify, wanted
from ..targets import Target
from ..targets.tensor_rows import generation
from . import passes, pieces
from .context import Context, workspace_layout
from .emit.tree_walk import EMITTERS, emit_tree
from .lowering import Lowering
from .part_index import as_node
from .pieces import Piece
from .staged.panels import pack_once
from .staged.warp_roles import WARPGROUP, emit_roles
from .storage import Arena

# emission -------------------------------------------------------------------------------------------------------------
#
# The emission of a schedule: a phase for each of its kernels, before any pass. A phase deals the work items of its
# grid to workers or groups of threads, and emits the loop tree for each item.


def emit(scheduled: Scheduled, expand: bool) -> Program:
    """The Program of a schedule as it is emitted. `expand=False` keeps elementary functions as operations."""
    kernel, target = scheduled.kernel, scheduled.target
    params = tuple(Param(b.name, b.dtype, b.shape, b.role, b.alias) for b in kernel.buffers)
    places = {b.name: i for i, b in enumerate(kernel.buffers)}
    out = Program(kernel.name, params, kernel.symbols, [], align=target.vector_bytes if target.groups else 1)
    packed = Arena("work")
    subs = list(phases(scheduled))
    between, out.work = workspace_layout((sub.kernel for sub, _ in subs), places)
    for sub, gate in subs:
        ctx = Context(sub, places, kernel.symbols, between)
        low = Lowering(ctx, Builder(expand, target.features, kernel.fixed, target.float64), EMITTERS)
        for s in sub.stages.values():
            if s.once:
                first = Lowering(ctx, Builder(expand, target.features, kernel.fixed, target.float64), EMITTERS)
                out.phases.insert(out.once, pack_once(first, s, packed))
                out.phases[out.once].shared = first.storage.shared.size
                out.once += 1
                low.storage.panels |= first.storage.panels
                low.scope = replace(low.scope, tiles={**low.scope.tiles, **first.scope.tiles})
        out.phases.append(_phase(low, gate))
        out.phases[-1].shared = low.storage.shared.size
        out.maps += tuple(low.maps)
        out.scratch = max(out.scratch, low.storage.scratch.size)
        out.shared = max(out.shared, low.storage.shared.size)
        out.work = max(out.work, packed.size)
        out.regs = max(out.regs, sub.launch.registers)
    if target.language.tensor_cores and any(
        isinstance(s, Instr) and s.op in ("mma", "wgmma") for p in out.phases for s in statements(p.body)
    ):
        out.generation = generation(target)
    return out


def _phase(low: Lowering, items: Node) -> Phase:
    """One phase of `items` times the grid's items."""
    for p in low.sched.grid:
        items = ix.mul(items, as_node(p.size))
    if not low.sched.tree.items:
        items = const(0)
    groups = groups_of(low.sched, items)
    apart = consumers(low.sched) > 0
    with low.phase(groups, low.sched.group + apart * WARPGROUP, clustered(low.sched)) as phase:
        if not (items.op == "const" and items.arg == 0):
            _split_threads(low, phase.thread)
            work = _Work(phase.item, items, groups)
            if apart:
                emit_roles(low, work)
            else:
                work.through(low, lambda item: _work_item(low, low.sched.grid))
    return phase


class _Work:
    """The work items of a group, and the loop over them."""

    def __init__(self, group: Val, items: Node, groups: Node) -> None:
        self.group, self.items, self.groups = group, items, groups

    def through(self, low: Lowering, each: Callable[[Val], None]) -> None:
        """Emit `each` for every work item."""
        with _items(low, self.group, self.items, self.groups) as item:
            _split_grid(low, item)
            with low.within(opened={p.name: p for p in low.sched.grid}):
                each(item)

    def one(self, low: Lowering) -> None:
        """A work item, where its part of the grid is known."""
        _work_item(low, low.sched.grid)

    def before(self, low: Lowering, item: Val) -> Val:
        """How many items a group has done before this one."""
        if self.groups is self.items:
            return low.b.const(0)
        return low.b.op("idiv", low.b.op("sub", item, self.group), attr=persistent(low.sched))


@contextmanager
def _items(low: Lowering, group: Val, items: Node, groups: Node) -> Iterator[Val]:
    """Each work item of a group: its own, or (GRID's persist) every so many from its own on."""
    if groups is items:
        yield group
        return
    with low.b.loop("item", group, low.scalars.get(items), persistent(low.sched)) as loop:
        yield loop.var


def _split_threads(low: Lowering, thread: Val | None) -> None:
    """Split the number of a thread into its axes, the first varying fastest."""
    if thread is not None:
        low.thread = thread
    for t in low.sched.threads:
        assert thread is not None
        at = thread if t.stride == 1 else low.b.op("idiv", thread, attr=t.stride)
        place = at if t is low.sched.threads[-1] else low.b.op("imod", at, attr=t.count)
        low.scalars.bound |= dict.fromkeys(t.variables, place)


def _split_grid(low: Lowering, item: Val) -> None:
    """Split the grid index into its parts, the last varying fastest; in a swizzled grid the last two run in bands of rows."""
    b, grid, bound = low.b, low.sched.grid, low.scalars.bound
    rest = item
    if low.sched.swizzle > 1:
        rows, columns = grid[-2:]
        band = low.sched.swizzle * columns.trips
        first = b.op("idiv", rest, attr=band)
        within = b.op("imod", rest, attr=band)
        if rows is not grid[0]:
            bands = rows.trips // low.sched.swizzle
            first, rest = b.op("imod", first, attr=bands), b.op("idiv", first, attr=bands)
        row = b.op("imod", within, attr=low.sched.swizzle)
        bound[rows.var] = b.op("add", b.op("mul", first, b.const(low.sched.swizzle)), row)
        bound[columns.var] = b.op("idiv", within, attr=low.sched.swizzle)
        grid = grid[:-2]
    for p in reversed(grid):
        if p is grid[0]:
            bound[p.var] = rest
        else:
            assert isinstance(p.size, int)  # only the outermost part has a size that is a symbol
            bound[p.var] = b.op("imod", rest, attr=p.size)
            rest = b.op("idiv", rest, attr=p.size)


def _work_item(low: Lowering, grid: Sequence[Part]) -> None:
    """The work of an item, in versions for whole blocks of the axes on the grid and for the last ones."""
    if grid:
        part, cuts = grid[0], low.pieces(grid[0])
        for piece in low.versions(cuts):
            inside = pieces.entered(low.sched, low.scope, part, piece)
            with _among(low, part, piece, alone=len(cuts) == 1), low.within(inside):
                _work_item(low, grid[1:])
        return
    low.stage([s for s in low.sched.stages.values() if s.at.kind == "grid"])
    emit_tree(low, low.sched.tree.items)


@contextmanager
def _among(low: Lowering, part: Part, piece: Piece, alone: bool) -> Iterator[None]:
    """Inside runs where the work item is one of a piece's."""
    if alone or piece.between is None:
        yield
        return
    (lo, hi), at, b = (n.arg for n in piece.between), low.scalars.bound[part.var], low.b
    inside = [b.op("le", b.const(lo), at)] if lo else []
    inside += [b.op("lt", at, b.const(hi))] if hi < part.trips else []
    with b.when(inside[0] if len(inside) == 1 else b.op("and", *inside)):
        yield


# pipeline -------------------------------------------------------------------------------------------------------------

Observer = Callable[[str, Program], None]
log = logger("lower")


def lower(scheduled: Scheduled, expand: bool = True, observe: Observer | None = None) -> Program:
    """The Program of a schedule: it is emitted, goes through the passes of the target in the order of `passes.PASSES`, and must fit the
    target's memory. `expand=False` keeps exp, log, tanh and erf as operations (for the twin). `observe` is called with "emit" and the
    Program as it is emitted, then with the name of each pass and what it made (of the same object: an observer that wants to keep a stage
    keeps its text). OptError where the schedule cannot be expressed."""
    kernel, target = scheduled.kernel.name, scheduled.target
    program = _optimised(scheduled, expand, observe)
    if wanted():
        try:
            verify(program, "after all passes")
        except InternalError:  # whose fault it is takes a look after each
            _optimised(scheduled, expand, lambda step, program: verify(program, f"after {step}"))
            raise
    if (
        scheduled.kernel.fixed
        and not {"fma", "neon"} & target.features
        and any(isinstance(s, Instr) and s.op == "fma" for p in program.phases for s in statements(p.body))
    ):
        raise OptError(
            f"{kernel}: fixed numerics need fused multiply-adds (x86-64-v3 or later, AArch64), which this target has none of: use free numerics"
        )
    if program.shared > target.shared and target.groups:
        raise OptError(f"{kernel}: the group needs {program.shared} bytes of shared memory; {target.name} has {target.shared}")
    if scheduled.opts:
        check_program(target, kernel, program, lambda: lower(plain(scheduled)))
    return program


AHEAD = 4
"""Programs that were made to be counted and are kept, the newest: the next thing that is made of one of them is its source."""
_ahead: dict[tuple[Kernel, Opts, Target], Program] = {}


def lower_ahead(scheduled: Scheduled) -> Program:
    """What `lower` makes of a schedule, only to be looked at: `lower_once` may return it next. Raises OptError."""
    key = scheduled.kernel, scheduled.opts, scheduled.target
    program = lower(scheduled)
    _ahead.pop(key, None)
    _ahead[key] = program
    for old in [*_ahead][:-AHEAD]:
        _ahead.pop(old, None)
    return program


def lower_once(scheduled: Scheduled) -> Program:
    """What `lower` makes of a schedule, or what `lower_ahead` made of it lately, which is not kept any longer: it may be changed. Raises
    OptError."""
    return _ahead.pop((scheduled.kernel, scheduled.opts, scheduled.target), None) or lower(scheduled)


def _optimised(scheduled: Scheduled, expand: bool, observe: Observer | None) -> Program:
    """What is emitted, after all passes."""
    kernel, target = scheduled.kernel.name, scheduled.target

    def finished(step: str, begin: float) -> None:
        log.debug("%s for %s: %s took %.3g ms", kernel, target.name, step, 1e3 * (perf_counter() - begin))
        if observe is not None:
            observe(step, program)

    begin = perf_counter()
    program = emit(scheduled, expand)
    finished("emit", begin)
    for p in passes.of(target):
        begin = perf_counter()
        p.run(program, target)
        finished(p.name, begin)
    return program
