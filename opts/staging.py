"""STAGE of an input: which tile is copied, where, and in which layout. At `once`, the panel holds the whole of a constant input: it is filled before the first
call with these contents, and later calls read it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..ir import index as ix
from ..ir.buffer import Buffer, loads
from ..ir.dtypes import DType
from ..ir.errors import OptError
from ..ir.node import Node, axes_of, axis, const, walk
from .axis_plan import Part
from .opt import Opt

if TYPE_CHECKING:
    from .dots import DotPlan
    from .nests import Nest
    from .schedule import Scheduled

MAX_STAGE_BYTES = 1 << 26
MAX_ONCE_BYTES = 1 << 30
ONCE = "once"
_ONCE = Part(ONCE, axis(ONCE, 1), ONCE, 1, 1, False, axis(ONCE, 1))


@dataclass(frozen=True, eq=False)
class StagePlan:
    """A staged tile. panel: one element for each combination of the inner `parts` (with strides in elements), in loop order,
    register copies innermost, so that it is read consecutively. row: the box of the buffer that is touched, as
    (dimension, first index, extent, stride). `kept`: the type in scratch where it is not the buffer's (signed bytes moved into the
    unsigned range). Groups of threads keep boxes only: with order panel, dimensions that are reduced
    over come first. `swizzle` > 0: in row r of `pitch` elements, chunks of `vector` elements change places by XOR with r % swizzle."""

    buffer: Buffer
    at: Part
    order: str
    nests: tuple[Nest, ...]
    index: tuple[Node, ...]
    mask: Node | None
    parts: tuple[tuple[Part, int], ...]
    box: tuple[tuple[int, Node, int, int], ...]
    elements: int
    swizzle: int = 0
    pitch: int = 0
    vector: int = 1
    kept: DType | None = None

    @property
    def once(self) -> bool:
        """Whether it is filled before the first call, and kept."""
        return self.at.kind == ONCE

    @property
    def bytes(self) -> int:
        """Scratch it needs."""
        return self.elements * self.buffer.dtype.size

    @property
    def dtype(self) -> DType:
        """The type kept in scratch."""
        return self.kept or self.buffer.dtype

    @property
    def describe(self) -> str:
        """Deterministic text for hashing."""
        return f"{self.buffer.name} at {self.at.axis.arg.name}/{self.at.stride} {self.order} {[(p.axis.arg.name, p.stride, s) for p, s in self.parts]} {[(d, e, s) for d, _, e, s in self.box]} {self.swizzle}{self.kept or ''}"


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
    fields = o.fields
    found: list[tuple[Nest, tuple[Node, ...], Node | None, Part]] = []
    buffer = next(b for b in sched.kernel.buffers if b.name == o.on)
    loop_names: set[str] = set()
    for nest in sched.nests:
        at = {p.name: p for p in sched.loops(nest)}
        for b, index, mask in loads(*nest.evaluated):
            if b == buffer:
                loop_names |= set(at)
                place = at.get(str(fields["at"]), _ONCE if fields["at"] == ONCE else None)
                if place is not None:
                    found.append((nest, tuple(sched.at_parts(i) for i in index), mask, place))
    if not found:
        raise OptError(f"{o}: no loop {fields['at']!r} around a use of {o.on} (loops: {', '.join(sorted(loop_names)) or 'none'})")
    nothing = [a.arg.name for n, *_ in found for a in n.all_axes if a.arg.extent == 0]
    if nothing:
        raise OptError(f"{o}: there is nothing to stage, {nothing[0]} has extent 0")
    nest, index, mask, at_part = found[0]
    if at_part.kind == ONCE:
        _check_once(o, sched, buffer)
    inner = inner_parts(sched, nest, at_part)
    for i in index:
        _affine(o, i, {p.var for p in inner})
    if sched.group > 1:
        return _shared(o, _row(o, sched, buffer, at_part, found), sched)
    if fields["swizzle"]:
        raise OptError(f"{o}: swizzle is for tiles that the threads of a group share; use LOCAL or GROUP")
    if fields["order"] == "panel":
        if len({(n.name, i, m) for n, i, m, _ in found}) > 1:
            raise OptError(f"{o}: {o.on} is read in more than one way inside {at_part.name}; use order=row")
        return _panel(o, sched, buffer, at_part, nest, index, mask, inner, [d for d in sched.dots.values() if d.value == nest.name])
    return _row(o, sched, buffer, at_part, found)


def _check_once(o: Opt, sched: Scheduled, buffer: Buffer) -> None:
    if not buffer.constant:
        raise OptError(
            f"{o}: {buffer.name} may change from call to call; name the kernel {sched.kernel.name}:constant={buffer.name} where it does not, or stage at a loop"
        )
    if sched.target.lang not in ("llvm", "c"):
        raise OptError(f"{o}: only processors keep what is packed once, not {sched.target.name}; stage at a loop")
    if o.fields["order"] != "panel":
        raise OptError(f"{o}: rows of the whole of {buffer.name} are what memory holds already; use order=panel")


def _affine(o: Opt, index: Node, variables: set[Node]) -> None:
    terms, _ = ix.parts(index)
    for t in terms:
        if t not in variables and axes_of(t) & variables:
            raise OptError(f"{o}: the index {index!r} is not linear in the loops inside the tile")
        if t.op == "load" or any(n.op == "load" for n in walk(t)):
            raise OptError(f"{o}: the index of {o.on} is read from memory")


def _panel(
    o: Opt, sched: Scheduled, buffer: Buffer, at: Part, nest: Nest, index: tuple[Node, ...], mask: Node | None, inner: list[Part], dots: list[DotPlan]
) -> StagePlan:
    used = [p for p in inner if any(p.var in ix.parts(i)[0] for i in index)]
    # the part that is contiguous in memory goes last, so that lanes read consecutive words; a matrix instruction wants its lanes
    # last, and inside each the elements it takes at once
    last = index[-1]
    regs = [p for p in used if p.register]
    dot = any(p.kind == "dot" for p in regs)
    lanes = {d.n for d in dots if dot}
    regs.sort(key=lambda p: (p.kind == "dot", p.kind == "upcast", p.axis in lanes, p.kind == "upcast" and ix.parts(last)[0].get(p.var, 0) == 1))
    ordered = [p for p in used if not p.register] + regs
    if at.kind == ONCE:
        strange = [p.name for p in ordered if isinstance(p.size, Node)]
        if strange:
            raise OptError(f"{o}: loop {strange[0]} has a symbolic extent")
        if mask is not None and axes_of(sched.at_parts(mask)) - {p.var for p in ordered}:
            raise OptError(f"{o}: what is read of {buffer.name} depends on loops that do not index it")
    stride, strides = 1, []
    for n, p in enumerate(reversed(ordered)):
        strides.append(stride)
        stride *= p.trips
        if n == int(dot) and o.fields["pad"]:
            stride += int(o.fields["pad"])
    _size(o, stride * buffer.dtype.size, MAX_ONCE_BYTES if at.kind == ONCE else MAX_STAGE_BYTES)
    return StagePlan(buffer, at, "panel", (nest,), index, mask, tuple(zip(ordered, reversed(strides))), (), stride)


def _row(o: Opt, sched: Scheduled, buffer: Buffer, at: Part, found: list[tuple[Nest, tuple[Node, ...], Node | None, Part]]) -> StagePlan:
    boxes = []
    for nest, index, mask, _ in found:
        variables = {p.var: p for p in inner_parts(sched, nest, at)}
        if mask is not None and not _only_bounds(mask, buffer, sched, index):
            raise OptError(f"{o}: {buffer.name} is masked by more than its bounds; use order=panel")
        box = []
        for i in index:
            _affine(o, i, set(variables))
            terms, c = ix.parts(i)
            rest = {t: k for t, k in terms.items() if t not in variables}
            extent = 1
            for t, k in terms.items():
                if t in variables:
                    reach = k * (variables[t].trips - 1)
                    extent += abs(reach)
                    c += min(reach, 0)
            box.append((ix.linear(rest, c), extent))
        boxes.append(box)
    if len({tuple(b for b, _ in box) for box in boxes}) > 1:
        raise OptError(f"{o}: the uses of {buffer.name} inside {at.name} start at different places")
    extents = [max(box[d][1] for box in boxes) for d in range(len(buffer.shape))]
    order = list(range(len(buffer.shape)))
    shared = sched.group > 1
    if shared and o.fields["order"] == "panel":
        reduced = {p.var for n, *_ in found for p in inner_parts(sched, n, at) if p.axis in n.reduce_axes}
        order.sort(key=lambda d: not any(t in reduced for _, index, _, _ in found for t in ix.parts(index[d])[0]))
    dims: list[tuple[int, Node, int, int]] = []
    stride = 1
    for d in reversed(order):
        dims.append((d, boxes[0][d][0], extents[d], stride))
        stride *= extents[d]
        if len(dims) == 1:
            stride = (stride if shared else -(-stride // 16) * 16) + int(o.fields["pad"])
    _size(o, stride * buffer.dtype.size)
    nests = tuple(dict.fromkeys(n for n, *_ in found))
    return StagePlan(buffer, at, "row", nests, found[0][1], found[0][2], (), tuple(reversed(dims)), stride)


def _shared(o: Opt, plan: StagePlan, sched: Scheduled) -> StagePlan:
    """A tile in shared memory: it has to fit, and its rows to suit the swizzle."""
    vector = max(1, sched.target.vector_bytes // plan.dtype.size) if sched.target.kind == "gpu" else 4
    pitch = plan.box[-1][2] + int(o.fields["pad"]) if plan.box else 1
    swizzle = int(o.fields["swizzle"])
    if swizzle and (pitch & (pitch - 1) or pitch < swizzle * vector):
        raise OptError(
            f"{o}: rows of {pitch} elements cannot be swizzled by {swizzle} chunks of {vector}: it takes a power of two of at least {swizzle * vector}"
        )
    if plan.bytes > sched.target.shared:
        raise OptError(f"{o}: the tile takes {plan.bytes} bytes of shared memory; {sched.target.name} has {sched.target.shared}")
    return replace(plan, swizzle=swizzle, pitch=pitch, vector=vector)


def _only_bounds(mask: Node, buffer: Buffer, sched: Scheduled, index: tuple[Node, ...]) -> bool:
    """Whether a load's mask only keeps its index inside the buffer (such a mask is implied by the box's own bounds)."""
    conjuncts, stack = [], [sched.at_parts(mask)]
    while stack:
        n = stack.pop()
        if n.op == "and":
            stack.extend(n.src)
        else:
            conjuncts.append(n)
    allowed = set()
    for i, size in zip(index, buffer.shape):
        top = size if isinstance(size, Node) else const(size)
        allowed |= {ix.compare("le", const(0), i), ix.compare("lt", i, top), ix.compare("lt", const(-1), i), ix.compare("le", i, ix.add(top, const(-1)))}
    return all(c in allowed for c in conjuncts)


def _size(o: Opt, size: int, most: int = MAX_STAGE_BYTES) -> None:
    if size > most:
        raise OptError(f"{o}: the tile would take {size >> 20} MiB; at most {most >> 20} MiB are allowed")
