"""What must hold of a finished schedule whatever options made it, and of the block sizes that a kernel's writer decided.

Each failure is an OptError with the reason. What must hold because of one option is that option's own `check`."""

from __future__ import annotations

import weakref
from dataclasses import replace
from itertools import pairwise

from ..ir import index as ix
from ..ir.body import Scan
from ..ir.errors import OptError
from ..ir.kernel import Kernel
from ..ir.node import Node
from .analysis.write_order import kernel_ordered, scatter_ordered
from .nests import FoldItem, Nest
from .opt import Opt, Opts
from .registry import OPTIONS
from .schedule import Scheduled

MAX_STATEMENTS = 512
MAX_ACCUMULATORS = 128


def check_scheduled(s: Scheduled) -> None:
    """Raise OptError unless points whose writes can meet stay with one worker, grid loops are shared, loop order nests, folds and scans are sound, and code stays small."""
    _order(s)
    _grid(s)
    for a, name in kernel_ordered(s.kernel).items():
        if s.plans[a].grid or any(p.kind == "thread" for p in s.plans[a].parts):
            raise OptError(f"{a.arg.name}: writes of {name} can meet along it, so it stays serial")
    for nest in s.nests:
        _nest(s, nest)
    for item in s.items:
        if isinstance(item, FoldItem):
            _fold(s, item)


def _order(s: Scheduled) -> None:
    for plan in s.plans.values():
        names = [p.name for p in plan.parts if p.loop]
        if plan.fold:
            names.insert(0, plan.fold.name)
        for outer, inner in pairwise(names):
            if s.position[outer] > s.position[inner]:
                raise OptError(f"loop {inner} cannot run outside {outer}, which it is a part of")


def _grid(s: Scheduled) -> None:
    symbolic = [p for p in s.grid if isinstance(p.size, Node)]
    if len(symbolic) > 1 or (symbolic and s.grid[0] is not symbolic[0]):
        raise OptError(f"PARALLEL: at most one symbolic axis, and it must come first ({', '.join(p.name for p in s.grid)})")
    for part in s.grid:
        for nest in s.nests:
            if part.axis in nest.reduce_axes:
                raise OptError(f"PARALLEL({part.axis.arg.name}): it is reduced in {nest.name}; use SPLIT")
            if part.axis not in nest.axes and not _in_each_item(s, nest):
                raise OptError(f"PARALLEL({part.axis.arg.name}): {nest.name} does not run over it")
    grid = {p.axis for p in s.grid}
    made = {name: axes for nest in s.nests for name, axes in nest.made.items()}
    for nest in s.nests:
        for n in nest.refs:
            for a, at in zip(made.get(n.arg, ()), n.src):
                if a in grid and at is not a:
                    raise OptError(f"PARALLEL({a.arg.name}): {nest.name} reads {n.arg} at {at!r}, which another item may compute")


def _in_each_item(s: Scheduled, nest: Nest) -> bool:
    """Whether a nest may run in every work item, though it does not depend on which it is: it fills what a value keeps in the item's
    own memory."""
    return nest.kind == "point" and nest.name in s.value_stages and nest.name not in s.held and not s.target.simt


def _nest(s: Scheduled, nest: Nest) -> None:
    copies = 1
    spatial = 1
    for p in s.registers(nest) if nest.name not in s.tensors else ():  # (TC counts its own)
        copies *= p.trips
        spatial *= p.trips if p.kind == "upcast" else 1
    lanes = s.target.lanes(nest.expr.dtype.compute)
    if copies > MAX_STATEMENTS * lanes:
        raise OptError(f"{nest.name}: {copies} register copies are more than the limit of {MAX_STATEMENTS} vectors")
    if spatial > MAX_ACCUMULATORS * lanes:
        raise OptError(f"{nest.name}: {spatial} accumulators are more than the limit of {MAX_ACCUMULATORS} vectors")
    if nest.kind == "scan":
        assert nest.value is not None and isinstance(nest.value.expr, Scan)
        axis = nest.value.expr.axis
        parts = s.plans[axis].parts
        if s.plans[axis].grid or any(p.kind == "thread" for p in parts):
            raise OptError(f"{axis.arg.name} is scanned in order: it cannot be parallel, nor shared by threads")
        loops = [p.axis is axis for p in s.loops(nest)]
        lane = s.lanes(nest).lane
        if s.plans[axis].block > 1 and (s.target.simt or (loops != sorted(loops) and lane is not None and lane.axis is axis)):
            why = "where a thread has one lane" if s.target.simt else "as lanes unless its loops are innermost"
            raise OptError(f"{axis.arg.name} is scanned in order: it cannot be upcast {why}")
    if nest.store is not None:
        if nest.store.own is not None and s.plans[nest.store.own[0]].block > 1:
            raise OptError(f"{nest.store.own[0].arg.name}: an item owns one block; make the blocks of OWN larger instead")
        _scatter(s, nest, scatter_ordered(nest.store))


def _scatter(s: Scheduled, nest: Nest, ordered: set[Node]) -> None:
    """Points whose writes can meet follow each other: copies in registers write in order, one after the other. Where nothing combines them
    the last write counts, and the order is that of the axes."""
    assert nest.store is not None
    last_counts = nest.store.combine is None
    order = [nest.axes.index(p.axis) for p in s.loops(nest) if p.axis in ordered]
    if last_counts and order != sorted(order):
        raise OptError(f"writes of {nest.name} can meet, and the last one counts: its loops stay in the order of its axes")
    for a in ordered:
        plan = s.plans[a]
        if plan.block > 1 and plan.masked and s.group > 1:
            raise OptError(f"{a.arg.name}: threads of a group write in turns of {plan.block} points, which must divide their number")
        within = [p for p in s.loops(nest) if p.axis is not a and p.axis in ordered]
        mine = [s.position[p.name] for p in plan.parts if p.loop]
        place = nest.axes.index(a)
        later = any(nest.axes.index(b) > place for b in ordered)
        inner = any(s.position[p.name] > min(mine) if mine else nest.axes.index(p.axis) > place for p in within)
        if plan.block > 1 and (inner or (later and last_counts)):
            raise OptError(
                f"{a.arg.name}: writes of {nest.name} can meet along it; only the innermost of such axes has copies in registers"
            )


def _fold(s: Scheduled, item: FoldItem) -> None:
    cut = next((s.plans[a].fold for n in item.nests for a in n.all_axes if s.plans[a].fold), None)
    if cut is None:
        return
    kept = {f for n in item.nests for f in n.fills}
    for n in s.nests:
        late = [r.arg for r in n.refs if r.arg in kept and all(n is not m for m in item.nests)]
        if late:
            raise OptError(f"STAGE({late[0]}): it is kept for one tile of the fold over {cut.name}, but {n.name} reads it after the fold")
    if not item.fold.monoid.associative:
        raise OptError(f"TILE({cut.name}): the fold {item.fold.name} is not associative")
    for n in item.nests:
        for p in s.loops(n):
            if s.position[p.name] < s.position[cut.name] and any(p.name not in {q.name for q in s.loops(o)} for o in item.nests):
                raise OptError(f"loop {p.name} runs outside the fold over {cut.name} but not in all of its block")
        for c in item.fold.components:
            v = item.fold.component(c)
            if any(a.arg.family == cut.axis.arg.family for a in v.axes):
                raise OptError(f"component {c} keeps the folded axis")


_PLAIN: weakref.WeakKeyDictionary[Kernel, Kernel] = weakref.WeakKeyDictionary()


def undecided(kernel: Kernel) -> Kernel:
    """The same kernel whose blocks may have any size; the same object for the same kernel."""
    if kernel.blocks is None:
        return kernel
    if kernel not in _PLAIN:
        _PLAIN[kernel] = replace(kernel, blocks=None)
    return _PLAIN[kernel]


def block_sizes(kernel: Kernel, opts: Opts) -> tuple[int, ...]:
    """The sizes of the blocks into which options cut the axes that were decided; the extent of one that is not cut."""
    assert kernel.blocks is not None
    return tuple(
        max((o.amount for o in opts if OPTIONS[o.op].cuts and is_on(kernel, o, a)), default=extent_of(kernel, a))
        for a in kernel.blocks.axes
    )


def allowed_sizes(kernel: Kernel) -> tuple[tuple[int, ...], ...]:
    """The sizes that were decided, none larger than its axis."""
    assert kernel.blocks is not None
    extents = [extent_of(kernel, a) for a in kernel.blocks.axes]
    return tuple(dict.fromkeys(tuple(map(min, s, extents)) for s in kernel.blocks.sizes))


def check_blocks(kernel: Kernel, opts: Opts) -> None:
    """Raise OptError where a schedule's blocks are not as the kernel says. No options at all are a schedule of every kernel."""
    if kernel.blocks is None or not opts:
        return
    found, allowed = block_sizes(kernel, opts), allowed_sizes(kernel)
    if found in allowed:
        return
    for k, a in enumerate(kernel.blocks.axes):
        sizes = sorted({s[k] for s in allowed})
        if found[k] not in sizes:
            whole = extent_of(kernel, a)
            ways = " or ".join("no TILE" if n == whole else f"TILE({a}, {n})" for n in sizes[:8])
            raise OptError(f"{kernel.name} is written in tiles whose blocks of {a} are decided: give {ways}")
    sizes_text = ", ".join(f"{a} {n}" for a, n in zip(kernel.blocks.axes, found, strict=True))
    raise OptError(f"{kernel.name} is written in tiles, and does not allow these block sizes together: {sizes_text}")


def is_on(kernel: Kernel, o: Opt, axis: str) -> bool:
    """Whether an option names an axis, or the one site that its family has."""
    return o.on == axis or (len(kernel.families.get(axis, ())) == 1 and o.on == kernel.families[axis][0].arg.name)


def extent_of(kernel: Kernel, axis: str) -> int:
    """The extent of a family of axes; the largest of a symbolic one."""
    return ix.upper(kernel.families[axis][0].arg.extent)
