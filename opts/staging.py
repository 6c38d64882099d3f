"""Which tile of an input is copied, in which layout, and in how many slots: how the plan of a STAGE is made.

At `once`, the panel holds the whole of a constant input: it is filled before the first call with these contents, and later calls read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ..ir import index as ix
from ..ir.buffer import Buffer, load_parts
from ..ir.errors import OptError
from ..ir.node import Node, axes_of, axis, const, walk
from ..ir.skipped_tiles import conjuncts
from .access import dense
from .axis_plan import Part
from .nests import Nest
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
    out = plan if depth == 1 else _buffered(o, plan, sched, depth)
    last = sorted(out.box)[-1] if out.box else None
    if not out.swizzle or last is None:
        return out
    if last[3] == 1:  # rows that lie in other banks anyway change places alike
        return replace(out, every=max(1, BANKS // (out.pitch * out.dtype.size)))
    # a piece of the buffer is turned into so many rows of one column; pieces beside it go to other chunks
    return replace(out, every=max(1, min(out.chunk or tile_width(out, sched), last[2] // out.swizzle)))


def _buffered(o: Opt, plan: StagePlan, sched: Scheduled, depth: int) -> StagePlan:
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
    return next((n // size for n in _PIECES if n % size == 0 and _fits_async_copy(plan, n // size)), 0)


def _fits_async_copy(plan: StagePlan, width: int) -> bool:
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


MAX_STAGE_BYTES = 1 << 26
MAX_ONCE_BYTES = 1 << 30
ROW = 16
"""Elements of which a row of a tile has room for a multiple, at least."""
_ONCE = Part(ONCE, axis(ONCE, 1), ONCE, 1, 1, False, axis(ONCE, 1))


@dataclass(frozen=True, eq=False)
class _Read:
    """One read of the staged buffer: its indices and its mask over part variables."""

    nest: Nest
    index: tuple[Node, ...]
    mask: Node | None


@dataclass(frozen=True, eq=False)
class _Tile:
    """What is asked for: the tile of `buffer` that one iteration of loop `at` reads, in `reads`."""

    o: Opt
    sched: Scheduled
    buffer: Buffer
    at: Part
    reads: list[_Read]

    @property
    def pad(self) -> int:
        """Elements added to a row."""
        return int(self.o.fields["pad"])


def inner_parts(sched: Scheduled, nest: Nest, at: Part) -> list[Part]:
    """The parts of `nest` inside loop `at`: later loops, then register copies (lanes last)."""
    loops, regs = sched.loops(nest), sched.shared(nest) + sched.registers(nest)
    if at.kind == ONCE:
        return loops + regs
    if at.kind == "grid":
        return [p for p in loops if p.kind != "grid"] + regs
    names = [p.name for p in loops]
    return loops[names.index(at.name) + 1 :] + regs


def plan_stage(sched: Scheduled, o: Opt) -> StagePlan:
    """Where and how the input `o.on` is staged; OptError if its tile is not affine, too large, or ambiguous."""
    t = _tile_of(sched, o)
    nothing = [a.arg.name for r in t.reads for a in r.nest.all_axes if a.arg.extent == 0]
    if nothing:
        raise OptError(f"{o}: there is nothing to stage, {nothing[0]} has extent 0")
    if t.at.kind == ONCE:
        _check_once(o, sched, t)
    first = t.reads[0]
    inner = inner_parts(sched, first.nest, t.at)
    for i in first.index:
        _affine(o, i, {p.var for p in inner})
    if sched.group > 1:
        return in_slots(o, _kept_type(sched, _shared(o, _row(t), sched)), sched)
    if o.fields["depth"] != 1:
        raise OptError(f"{o}: depth is for tiles that the threads of a group share; use LOCAL or GROUP")
    if o.fields["swizzle"]:
        raise OptError(f"{o}: swizzle is for tiles that the threads of a group share; use LOCAL or GROUP")
    if o.fields["order"] == "panel":
        if len({(sched.together(r.nest)[0].name, r.index, r.mask) for r in t.reads}) > 1:
            raise OptError(f"{o}: {o.on} is read in more than one way inside {t.at.name}; use order=row")
        return _kept_type(sched, _panel(t, inner))
    return _kept_type(sched, _row(t))


def _tile_of(sched: Scheduled, o: Opt) -> _Tile:
    buffer = next(b for b in sched.kernel.buffers if b.name == o.on)
    reads: list[_Read] = []
    place: Part | None = None
    loop_names: set[str] = set()
    for nest in sched.nests:
        around = {p.name: p for p in sched.loops(nest)}
        for b, index, mask in map(load_parts, nest.loads):
            if b == buffer:
                loop_names |= set(around)
                here = around.get(str(o.fields["at"]), _ONCE if o.fields["at"] == ONCE else None)
                if here is not None:
                    place = place or here
                    reads.append(_Read(nest, tuple(sched.at_parts(i) for i in index), mask))
    if place is None:
        raise OptError(f"{o}: no loop {o.fields['at']!r} around a use of {o.on} (loops: {', '.join(sorted(loop_names)) or 'none'})")
    return _Tile(o, sched, buffer, place, reads)


def _kept_type(sched: Scheduled, plan: StagePlan) -> StagePlan:
    """`plan`, kept in the type that a matrix instruction wants."""
    for d in sched.dots.values():
        if d.shift and load_parts(d.a)[0] == plan.buffer:
            others = [n.name for n in plan.nests if n.name != d.value]
            if others:
                raise OptError(f"STAGE({plan.buffer.name}): {others[0]} reads the tile too, which {d.row.name} wants as {d.row.a}")
            return replace(plan, kept=d.row.a)
    return plan


def _check_once(o: Opt, sched: Scheduled, t: _Tile) -> None:
    buffer = t.buffer
    read = {v for r in t.reads for i in r.index for v in axes_of(i)}
    through = (a.arg.extent for a, plan in sched.plans.items() if any(p.var in read for p in plan.parts))
    if any(not isinstance(n, int) for n in (*buffer.shape, *through)):
        raise OptError(f"{o}: a size of {buffer.name} is a symbol, which every call may set anew; stage at a loop")
    if not buffer.constant:
        raise OptError(
            f"{o}: {buffer.name} may change from call to call; name the kernel {sched.kernel.name}:constant={buffer.name} where it does not, or stage at a loop"
        )
    if sched.target.lang not in ("llvm", "c"):
        raise OptError(f"{o}: only processors keep what is packed once, not {sched.target.name}; stage at a loop")
    if o.fields["order"] != "panel":
        raise OptError(f"{o}: rows of the whole of {buffer.name} are what memory holds already; use order=panel")


def _affine(o: Opt, index: Node, variables: set[Node]) -> None:
    """Raise OptError where `index` is no sum of loops inside the tile, of functions of these alone (half an index, of packed numbers; the
    step of a window that a residue begins with), and of what is fixed outside."""
    terms, _ = ix.parts(index)
    for t in terms:
        if t not in variables and axes_of(t) & variables and not axes_of(t) <= variables:
            raise OptError(f"{o}: the index {index!r} is not linear in the loops inside the tile")
        if t.op == "load" or any(n.op == "load" for n in walk(t)):
            raise OptError(f"{o}: the index of {o.on} is read from memory")


def _panel(t: _Tile, inner: list[Part]) -> StagePlan:
    read = t.reads[0]
    ordered = _panel_order(read.index, [p for p in inner if any(p.var in axes_of(i) for i in read.index)], _dot_lanes(t.sched, read.nest))
    if t.at.kind == ONCE:
        strange = [p.name for p in ordered if isinstance(p.size, Node)]
        if strange:
            raise OptError(f"{t.o}: loop {strange[0]} has a symbolic extent")
        if read.mask is not None and axes_of(t.sched.at_parts(read.mask)) - {p.var for p in ordered}:
            raise OptError(f"{t.o}: what is read of {t.buffer.name} depends on loops that do not index it")
    padded = int(any(p.kind == "dot" for p in ordered))  # the innermost part whose rows are padded
    stride, strides = 1, []
    for n, p in enumerate(reversed(ordered)):
        strides.append(stride)
        stride *= p.trips
        if n == padded:
            stride += t.pad
    _size(t.o, stride * t.buffer.dtype.size, MAX_ONCE_BYTES if t.at.kind == ONCE else MAX_STAGE_BYTES)
    return StagePlan(t.buffer, t.at, "panel", (read.nest,), read.index, read.mask, tuple(zip(ordered, reversed(strides))), (), stride)


def _dot_lanes(sched: Scheduled, nest: Nest) -> set[Node]:
    return {d.n for d in sched.dots.values() if d.value == nest.name}


def _panel_order(index: tuple[Node, ...], used: Iterable[Part], dot_lanes: set[Node]) -> list[Part]:
    """The parts of a panel, outer to inner. The part that is contiguous in memory goes last, so that lanes read
    consecutive words; a matrix instruction wants its lanes last, and inside each the elements it takes at once."""
    used = list(used)
    last, linear = ix.parts(index[-1])[0], {v for i in index for v in ix.parts(i)[0]}
    regs = [p for p in used if p.register]
    lanes = dot_lanes if any(p.kind == "dot" for p in regs) else set()
    regs.sort(
        key=lambda p: (
            p.kind == "dot",
            p.kind == "upcast",
            p.axis in lanes,
            p.var in linear,
            p.kind == "upcast" and last.get(p.var, 0) == 1,
        )
    )
    return [p for p in used if not p.register] + regs


def _row(t: _Tile) -> StagePlan:
    boxes = [_box(t, r) for r in t.reads]
    if len({tuple(start for start, _ in box) for box in boxes}) > 1:
        raise OptError(f"{t.o}: the uses of {t.buffer.name} inside {t.at.name} start at different places")
    extents = [max(box[d][1] for box in boxes) for d in range(len(t.buffer.shape))]
    order = list(range(len(t.buffer.shape)))
    shared = t.sched.group > 1
    if shared and t.o.fields["order"] == "panel":
        reduced = {p.var for r in t.reads for p in inner_parts(t.sched, r.nest, t.at) if p.axis in r.nest.reduce_axes}
        order.sort(key=lambda d: not any(v in reduced for r in t.reads for v in ix.parts(r.index[d])[0]))
    dims: list[tuple[int, Node, int, int]] = []
    stride = 1
    for d in reversed(order):
        dims.append((d, boxes[0][d][0], extents[d], stride))
        stride *= extents[d]
        if len(dims) == 1:
            whole = max(ROW, t.sched.width)  # (copies are of whole vectors)
            stride = (stride if shared else -(-stride // whole) * whole) + t.pad
    _size(t.o, stride * t.buffer.dtype.size)
    nests = tuple(dict.fromkeys(r.nest for r in t.reads))
    return StagePlan(t.buffer, t.at, "row", nests, t.reads[0].index, t.reads[0].mask, (), tuple(reversed(dims)), stride)


def _box(t: _Tile, read: _Read) -> list[tuple[Node, int]]:
    """By dimension, (first index, extent) of what one read touches."""
    variables = {p.var: p for p in inner_parts(t.sched, read.nest, t.at)}
    if t.sched.group > 1 and beyond_bounds(t.sched, t.buffer, read.index, read.mask) is not None:
        raise OptError(f"{t.o}: {t.buffer.name} is masked by more than its bounds; use order=panel")
    box = []
    for i in read.index:
        _affine(t.o, i, set(variables))
        terms, c = ix.parts(i)
        rest = {v: k for v, k in terms.items() if not axes_of(v) & variables.keys()}
        extent = 1
        for v, k in terms.items():
            if v not in rest:
                least, most = (0, variables[v].trips - 1) if v in variables else ix.bounds(v)
                assert least is not None and most is not None
                extent += abs(k) * (most - least)
                c += min(k * least, k * most)
        box.append((ix.linear(rest, c), extent))
    return box


def _shared(o: Opt, plan: StagePlan, sched: Scheduled) -> StagePlan:
    """A tile in shared memory: it has to fit, and its rows to suit the swizzle."""
    vector = max(1, sched.target.vector_bytes // plan.dtype.size) if sched.target.kind == "gpu" else 4
    pitch = plan.box[-1][2] + int(o.fields["pad"]) if plan.box else 1
    swizzle = int(o.fields["swizzle"])
    if swizzle and (pitch & (pitch - 1) or pitch < swizzle * vector):
        raise OptError(
            f"{o}: rows of {pitch} elements cannot be swizzled by {swizzle} chunks of {vector}: it takes a power of two of at least {swizzle * vector}"
        )
    return replace(plan, swizzle=swizzle, pitch=pitch, vector=vector)


def beyond_bounds(sched: Scheduled, buffer: Buffer, index: tuple[Node, ...], mask: Node | None) -> Node | None:
    """What a load's mask says besides that `index`, over part variables, lies inside the buffer, which the box's own bounds imply."""
    allowed = set()
    for i, size in zip(index, buffer.shape):
        top = size if isinstance(size, Node) else const(size)
        allowed |= {
            ix.compare("le", const(0), i),
            ix.compare("lt", i, top),
            ix.compare("lt", const(-1), i),
            ix.compare("le", i, ix.add(top, const(-1))),
        }
    left = None
    for c in () if mask is None else conjuncts(mask):
        if sched.at_parts(c) not in allowed:
            left = c if left is None else left & c
    return left


def _size(o: Opt, size: int, most: int = MAX_STAGE_BYTES) -> None:
    if size > most:
        raise OptError(f"{o}: the tile would take {size >> 20} MiB; at most {most >> 20} MiB are allowed")
