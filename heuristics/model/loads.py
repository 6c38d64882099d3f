"""What the loads of a nest's body take, with their data in the first cache; also those at places that are numbered by groups of neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import takewhile
from math import gcd, prod

from ...ir import index as ix
from ...ir.buffer import Buffer, load_parts
from ...ir.dtypes import bool_, float32
from ...ir.node import FUNCTIONS, PAIRED, Node, axes_of, walk
from ...ir.node import axis as make_axis
from ...ir.operators import substitute
from ...ir.skipped_tiles import conjuncts
from ...opts.access import deinterleaved_step, grouped, rows, shuffles, transposable
from ...opts.access import stride as stride_of
from ...opts.analysis.ragged import in_runs, regular
from ...opts.analysis.thresholds import holds_inside
from ...opts.axis_plan import Part
from ...opts.memory_limits import buffer_bytes, is_far
from ...opts.nests import Nest
from ...opts.plans import StagePlan
from ...opts.schedule import Scheduled
from ...targets.target import PICKED_VECTORS
from ..machine import DEFAULT, MachineModel
from .loop_bodies import Body


def lanes_in_groups(buffer: Buffer, indices: tuple[Node, ...], axis: Node, width: int) -> int | None:
    """Among how many neighbours in memory the lanes of a vector along `axis` find their elements: 1 where all read the same one. None where
    they may be anywhere."""
    spans = [_span(i, axis, width) if axis in axes_of(i) else 1 for i in indices]
    return spans[-1] if spans and all(s == 1 for s in spans[:-1]) else None


@lru_cache
def _span(i: Node, axis: Node, width: int) -> int | None:
    if all(n.op not in ("div", "mod") for n in walk(i)) or not isinstance(axis.arg.extent, int):
        return None
    block, lane = make_axis("block of lanes", -(-axis.arg.extent // width)), make_axis("lane of a vector", width)
    terms, _ = ix.parts(substitute(i, {axis: ix.linear({block: width, lane: 1}, 0)}))
    within = {t: k for t, k in terms.items() if lane in axes_of(t)}
    if any(axes_of(t) != {lane} for t in within) or any(n.op == "load" for t in within for n in walk(t)):
        return None
    low, high = ix.bounds(ix.linear(within, 0))
    return high - low + 1


def load_work(body: Body, n: Node, k: float, loads: float) -> tuple[float, float]:
    """(arithmetic that a load of `k` vectors takes, `loads` with what it adds)."""
    s, core, lane, arith = body.scheduled, body.core, body.lane, 0.0
    buffer, indices, mask = load_parts(n)
    if mask is not None and all(axes_of(c) <= body.decided() for c in conjuncts(mask)):
        mask = None
    if mask is not None and (
        (holds_inside(s, body.nest, mask) and not _one_vector(body, mask))
        or (lane is not None and lane.axis in body.nest.axes and regular(mask))
    ):
        mask = None  # (of rows about equally long nearly all steps are without)
    stride = body.stride(buffer, indices, lane) if lane is not None else 0
    gathered = stride is None or stride not in (0, 1)
    if gathered and lane is not None and in_runs(indices, lane.axis, body.width):
        arith, gathered = arith + core.followed * k, False
    near = lanes_in_groups(buffer, indices, lane.axis, body.width) if stride is None and lane is not None else None
    if near is not None and near <= core.near_vectors * body.width:
        arith, gathered = arith + (k if near > 1 else 0), False
    step = deinterleaved_step(s, body.nest, n, lane) if lane is not None else None
    if step is not None:
        # what other components of the same groups load as well is loaded once
        more = (rows(step, body.width) - 1, shuffles(step, body.width)) if _from_groups(body, n, lane, step) else (step - 1, step - 1)
        loads, arith, gathered = loads + k * more[0], arith + k * more[1], False
        if mask is not None and buffer.name not in s.stages and _varies(body, mask):
            arith += k * step * core.picked_masked
    if gathered and (vectors := _picked_vectors(body, buffer, indices)):
        arith, gathered = arith + k * vectors, False
    if gathered and any(p is not lane and p.trips % core.transposed_block == 0 and body.stride(buffer, indices, p) == 1 for p in body.regs):
        arith, gathered = arith + core.transposed * k, False  # read along that part, and transposed
    # copies held inside an extent have an address each: if there are more than registers for them, they are computed again
    k *= core.recomputed if addresses(body, buffer, indices) > core.addresses else 1
    each = body.width * (core.gathered if mask is None else core.gathered_masked) if gathered else body.pieces if stride else 1.0
    masked = mask is not None and buffer.name not in s.stages
    branches = s.target.kind == "cpu" and not s.target.gathers and mask is not None and any(m.op == "load" for m in walk(mask))
    mask_cost = core.masked_vector if lane is not None else core.masked_scalar
    mask_cost = body.width * (1 + core.masked_scalar) if branches and lane is not None else mask_cost  # (data decides about each lane)
    return arith, loads + k * each * _aliasing(body, buffer, indices) + (k * mask_cost if masked else 0)


def _picked_vectors(body: Body, buffer: Buffer, indices: Sequence[Node]) -> int:
    """The vectors of a row of an input out of which elements are picked for all lanes; 0 where that is no row as short as that."""
    lane, longest = body.lane, body.scheduled.target.picks(buffer.dtype.size) if buffer.role == "in" and buffer.dtype is not bool_ else 0
    if not longest or lane is None or lane.axis in axes_of(*indices[:-1]):
        return 0
    terms, _ = ix.parts(indices[-1])
    low, high = ix.bounds(ix.linear({t: k for t, k in terms.items() if lane.axis in axes_of(t)}, 0))
    vectors = -(-(high - low + 1) // longest)
    return vectors if vectors <= PICKED_VECTORS else 0


def _one_vector(body: Body, mask: Node) -> bool:
    """Whether all of a row that a mask is about is in one vector, which no cut takes away from its borders."""
    return body.lane is not None and body.lane.axis in axes_of(mask) and ix.upper(body.lane.axis.arg.extent) <= body.width


def _varies(body: Body, mask: Node) -> bool:
    """Whether lanes have another mask in each step of a loop of a sum."""
    steps = {p.axis for p in body.scheduled.loops(body.nest) if p.axis in body.nest.reduce_axes and p.trips > 1}
    return body.lane is not None and any(body.lane.axis in (axes := axes_of(c)) and axes & steps for c in conjuncts(mask))


def placed_by_data(body: Body, n: Node) -> bool:
    """Whether the lanes of a value are where data says, if something of it is."""
    return body.lane is not None and body.lane.axis in axes_of(*n.src)


def _from_groups(body: Body, n: Node, lane: Part | None, step: int) -> bool:
    """Whether a load picks one component of groups whose others are loaded as well, or turns them."""
    buffer = load_parts(n)[0]
    return transposable(step, buffer.dtype.size) or (grouped(buffer.shape, step) and _components(body, n, lane))


def _components(body: Body, n: Node, lane: Part | None) -> bool:
    """Whether a body reads other components of the groups that a load picks one of: by another load, or by copies beside it."""
    buffer, indices, _ = load_parts(n)
    beside = any(p is not lane and p.trips > 1 and body.stride(buffer, indices, p) == 1 for p in body.regs)
    return beside or any(m is not n and load_parts(m)[0] is buffer for m in body.nest.loads)


def addresses(body: Body, buffer: Buffer, indices: tuple[Node, ...]) -> int:
    """How many addresses an access takes where register copies, other than lanes, reach past an extent that is not
    known (whole steps of others are apart), are in rows that data chooses and a loop reads on in, or cross the ends of
    the blocks that a view's dimension was cut into."""
    s = body.scheduled
    chosen = axes_of(*(x for i in indices for x in walk(i) if x.op == "load"))
    read_on = any(p.trips > 1 and p.axis in body.nest.reduce_axes and p.axis not in chosen for p in s.loops(body.nest))

    def apart(p: Part) -> bool:
        symbolic = s.plans[p.axis].masked and (s.target.groups or not isinstance(s.plans[p.axis].extent, int))
        crossing = read_on if p.axis in chosen else body.stride(buffer, indices, p) is None
        return p is not body.lane and (symbolic or crossing)

    return prod(p.trips for p in body.regs if p.axis in axes_of(*indices) and apart(p))


def _aliasing(body: Body, buffer: Buffer, indices: tuple[Node, ...]) -> float:
    """How much dearer loads become when register copies read rows of a pitch that maps them to few sets of the L1."""
    core = body.core
    spare = max((rows / sets - _ways(body) + core.spare_ways for rows, sets in _rows_in_sets(body, buffer, indices)), default=0.0)
    return 1.0 + core.conflict * max(0.0, spare)


def evicted(body: Body) -> float:
    """Cycles of a step in which rows, read an element at a time, are fetched to the L1 again, because more of them meet one set than it
    holds: each element of a line is read after the line has left."""
    found = 0.0
    for n in body.nest.loads:
        buffer, indices, _ = load_parts(n)
        if body.lane is None or body.stride(buffer, indices, body.lane) == 0:
            found += max((rows - sets * _ways(body) for rows, sets in _rows_in_sets(body, buffer, indices)), default=0.0)
    return body.core.refetched * max(0.0, found) * body.count(body.parts("unroll"))


def _ways(body: Body) -> int:
    return max(body.core.ways, body.scheduled.target.l1 // body.core.set_span)


def _rows_in_sets(body: Body, buffer: Buffer, indices: tuple[Node, ...]) -> Iterator[tuple[int, int]]:
    """(rows that register copies read side by side, sets of the L1 in which they are) for each part that copies go along."""
    core = body.core
    for p in body.parts("upcast") if buffer.name not in body.scheduled.stages else ():
        pitch = 0 if p is body.lane else (body.stride(buffer, indices, p) or 0) * buffer.dtype.size
        if pitch >= core.spread:
            yield p.trips, core.set_span // gcd(pitch, core.set_span)


# page jumps -----------------------------------------------------------------------------------------------------------
# How often the accesses of a nest jump to another page: what makes short runs at large strides several times slower than streams.
#
# Hardware prefetchers follow some streams of consecutive lines at once, and none across a page's end; each jump past them waits for a
# page's translation and for memory. So an access is followed from its innermost loop outward: loops that lengthen the run, a few loops
# that interleave runs, and every loop outside of those jumps. What each costs is `machine.Jumps`.


def jump_cycles(
    s: Scheduled,
    nest: Nest,
    buffer: tuple[tuple[int | Node, ...], int],
    indices: tuple[Node, ...],
    machine: MachineModel,
    asked: bool = False,
    gone: float = 0.0,
    away: float = 1.0,
) -> float:
    """Cycles that an access which is not staged waits; `buffer`: its shape and the bytes of an element; `asked`: it is a request; `gone`: the
    share of the call's data that the second cache has lost when it begins, and `away` that the last one has of what is taken to be far."""
    shape, size = buffer
    loops = [*reversed(s.registers(nest)), *reversed(s.loops(nest))]
    steps = [(p, stride_of(s, nest, "", indices, shape, p)) for p in loops]
    # register copies come in any order: nearest first
    count = len(s.registers(nest))
    near = sorted(steps[:count], key=lambda e: abs(e[1] or 0))
    costs = machine.jumps
    found, kept = jumps(size, _walked([*near, *steps[count:]], size), machine)
    # (between elementary functions a processor does not see the next page early enough)
    light = not any(e.op in FUNCTIONS | PAIRED for n in s.nests for e in walk(*n.evaluated))
    shared = costs.shared * (costs.again if kept and light else 1.0)
    each = (
        away * costs.far + (1.0 - away) * shared
        if is_far(s.target, shape, size)
        else shared
        if buffer_bytes(shape, size) > s.target.l2
        else gone * shared + (1.0 - gone) * costs.near
    )
    each = min(each, costs.asked) if asked else each
    waited = found * each / _windows(indices)  # (what windows share is near when the next one comes, and so is its page)
    if away and is_far(s.target, shape, size):
        again = takewhile(lambda e: not e[1], steps[count:])  # loops inside that stay where they are
        lines = _unfollowed([(abs(k or 0) * size, p.trips) for p, k in (*near, *again)], size, machine)
        waited += away * costs.unfollowed * lines * buffer_bytes(shape, size)
    return waited


def _walked(steps: Sequence[tuple[Part, int | None]], size: int) -> list[tuple[int, int]]:
    """(stride in bytes, trips) of each part, innermost first; the steps of a sum that a loop makes at once are steps of that loop: two rows
    of one page are no two jumps."""
    out: list[tuple[int, int]] = []
    inside: Part | None = None
    for p, k in steps:
        stride = abs(k or 0) * size
        if inside is not None and inside.kind == "unroll" and inside.axis is p.axis and stride == out[-1][0] * out[-1][1]:
            out[-1] = out[-1][0], out[-1][1] * p.trips
        else:
            out.append((stride, p.trips))
        inside = p
    return out


def _unfollowed(levels: Sequence[tuple[int, int]], size: int, machine: MachineModel) -> float:
    """Lines a byte that an access to rows side by side reads without a prefetcher that follows them, and whose use takes long: more than one
    sum has each. `levels`: (stride in bytes, trips) of register copies, nearest first, and of loops that stay there."""
    line = machine.caches.line
    run, rows, used = size, 1, 1
    for stride, trips in levels:
        if not stride:
            used *= trips
        elif stride <= max(run, line):
            run = max(run, stride) + stride * (trips - 1)
        else:
            rows *= trips
    lines = rows * max(1.0, run / line)
    return (1.0 - 1.0 / used) * max(0.0, 1.0 - machine.jumps.followed / lines) / line if rows > 1 else 0.0


def _windows(indices: tuple[Node, ...]) -> float:
    """How often an access reads an element because windows along its dimensions overlap: those of a stencil or a convolution."""
    often = 1.0
    for i in indices:
        terms, _ = ix.parts(i)
        reach = {t: (abs(k), ix.upper(t.arg.extent)) for t, k in terms.items() if t.op == "axis"}
        if len(reach) > 1 and len(reach) == len(terms):
            steps = prod(n for _, n in reach.values())
            often *= max(1.0, steps / max(1, 1 + sum(k * (n - 1) for k, n in reach.values())))
    return often


def copy_cycles(s: Scheduled, plan: StagePlan, around: Sequence[Part], machine: MachineModel, away: float = 1.0) -> float:
    """Cycles that filling a staged tile waits, over all times it is filled: read with the longest runs first. `away`: the share that the last
    cache has lost of what is taken to be far."""
    shape, size = plan.buffer.shape, plan.buffer.dtype.size
    pitches = _pitches(shape)

    def step(p: Part) -> int:
        return _step(plan, pitches, p) * size

    panel = plan.order == "panel"
    inside = sorted((step(p), p.trips) for p, _ in plan.parts) if panel else sorted((pitches[d] * size, n) for d, _, n, _ in plan.box)
    costs = machine.jumps
    found, _ = jumps(size, [*inside, *((step(p), p.trips) for p in reversed(around))], machine)
    return found * (away * costs.copied + (1.0 - away) * costs.shared if is_far(s.target, shape, size) else costs.near)


def turned(plan: StagePlan, block: int) -> bool:
    """Whether a panel whose consecutive elements lie apart in memory is filled by vectors along another part of it, which are transposed in
    registers (`lower.staged.panels.fill_across`); `block`: elements of the shortest."""
    if not plan.parts:
        return False
    pitches, (last, _) = _pitches(plan.buffer.shape), plan.parts[-1]
    wide = plan.dtype.size >= float32.size and last.kind == "upcast" and not last.clip and last.trips % block == 0
    return wide and any(_step(plan, pitches, p) == 1 and p.trips % block == 0 and not p.clip for p, _ in plan.parts if p is not last)


def _step(plan: StagePlan, pitches: Sequence[int], p: Part) -> int:
    """Elements of the buffer between iterations of a part of a staged tile."""
    return abs(sum(ix.parts(i)[0].get(p.var, 0) * st for i, st in zip(plan.index, pitches, strict=True)))


def jumps(size: int, levels: Iterable[tuple[int, int]], machine: MachineModel = DEFAULT) -> tuple[float, bool]:
    """Jumps to another page of an access of `size` bytes, and whether they come back to pages whose translations are kept; `levels`: (stride
    in bytes, trips), innermost first."""
    costs, line = machine.jumps, machine.caches.line
    run, streams, count, kept = size, 1, 0.0, False
    for stride, trips in levels:
        if trips <= 1:
            continue
        if count:
            if 0 < stride < line and count <= costs.kept:
                count *= max(1.0, trips * stride / line) * costs.next_line
            elif stride or count > costs.translations:
                kept = kept or (stride < costs.page and count <= costs.translations)
                count *= trips
        elif stride <= max(run, line):  # (components of a group share lines)
            run = max(run, stride) + stride * (trips - 1)
        elif streams * trips <= (costs.streams_apart if stride % costs.page else costs.streams):
            streams *= trips
        else:
            count = streams * trips * min(1.0, stride / costs.page)
    return (count, kept) if count > costs.translations else (0.0, kept)


def _pitches(shape: tuple[int | Node, ...]) -> list[int]:
    out, step = [], 1
    for n in reversed(shape):
        out.append(step)
        step *= n if isinstance(n, int) else max(1, ix.bounds(n)[1])
    return out[::-1]
