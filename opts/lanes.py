"""Which register part of each nest becomes vector lanes, and which axis of a kept value is therefore consecutive in its array.

A fixed rule, not searched: the UPCAST part along which most accesses are consecutive. A value is laid out along the lanes of the
nest that makes it, so that it is written, and mostly read, as whole vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ..ir.body import Scan, Store, in_steps
from ..ir.buffer import load_parts
from ..ir.node import Node, axes_of, walk
from .access import GROUP_ROW, deinterleaved_step, dense, interleaved_step, stride
from .analysis.structure import SAVED, arithmetic
from .analysis.write_order import in_vectors, scatter_ordered
from .axis_plan import Part
from .loop_tree import LoopTree
from .loops import Loops
from .nests import Nest

TAKEN = 2.0
"""Additions that it takes to take one result after the other out of a vector."""
PAIRED = 8
"""Lanes that are better kept as they are than exchanged for lanes over groups of neighbours."""
MUCH = 16.0
"""Additions that outweigh the shuffles of a group of components."""
GATHERED = -0.5
"""What a load at places that data decides counts, where there is an instruction for it."""
Held = Callable[[str], Sequence[int | Node] | Part | None]
"""A value's name → the strides of its array, in elements; for one in registers, the part that its lanes run over, or None."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """The register parts of a nest, and which of them runs over how many lanes."""

    regs: Sequence[Part]
    lane: Part | None = None
    width: int = 1


def choose_lanes(s: Loops, tree: LoopTree) -> tuple[dict[str, Vectors], dict[str, int]]:
    """The lanes of every nest, and for each value that a nest makes the position of its consecutive axis, where lanes decide it
    (else it is the last). Threads of a group keep the last one."""
    lanes: dict[str, Vectors] = {}
    inner: dict[str, int] = {}

    def held(name: str) -> Sequence[int | Node] | Part | None:
        if name in tree.registers:  # (lanes along a reduce axis are summed in the end)
            lane = lanes[name].lane
            return lane if lane is not None and lane.axis in kept[name] else None
        return _unknown_strides(len(kept[name]), inner.get(name)) if name in kept else None

    kept: dict[str, tuple[Node, ...]] = {}
    for nest in s.nests:
        # siblings have the same lanes, so that what they have in common is the same: those of the first store, if there is one
        group = s.together(nest)
        place = s.places.get(nest.name)  # (which reads nothing itself)
        if place is not None:
            found = lanes[place.extreme]
        elif nest is not group[0] and group[-1].store is not None:
            found = lanes[group[0].name]
        else:
            exprs = [e for n in group for e in n.evaluated]
            each = (vectors(s, n, exprs, held) for n in (*(n for n in group if n.store is not None), nest))
            found = next((v for v in each if v.lane is not None), Vectors(s.registers(nest)))
        lanes[nest.name] = found
        kept |= nest.made
        for name, axes in nest.made.items():
            if s.group == 1 and found.lane is not None and found.lane.axis in axes:
                inner[name] = axes.index(found.lane.axis)
    return lanes, inner


def vectors(s: Loops, nest: Nest, exprs: Iterable[Node], held: Held) -> Vectors:
    """The lanes of one nest that evaluates `exprs`; those of a matrix instruction are given."""
    regs = s.registers(nest)
    tensor = s.tensors.get(nest.name)
    if tensor is not None and nest.kind == "reduce":
        lane = next((p for p in regs if p.axis is tensor.n and p.kind == "upcast" and p.stride == 1), None)
        return Vectors(regs, lane, 1 if lane is None else lane.trips)
    dot = s.dots.get(nest.name)
    if dot is not None and nest.kind == "reduce":
        lane = next(p for p in regs if p.axis is dot.n and p.kind == "upcast")
        return Vectors(regs, lane, min(s.width, lane.trips & -lane.trips))
    exprs = list(exprs)
    best, top = Vectors(regs), 0.0
    ordered = nest.value.expr.axis if nest.value is not None and isinstance(nest.value.expr, Scan) and in_steps(nest.value) else None
    wide = [(p, n) for p in regs if p.kind == "upcast" and p.axis is not ordered and (n := min(s.width, p.trips & -p.trips)) >= 2]
    reads = [n for n in walk(*exprs) if n.op in ("load", "ref") and not _once_a_row(nest, n)] if wide else []
    scores = {p: _score(s, nest, p, exprs, reads, held) for p, _ in wide}
    if wide and max(scores.values()) <= 0.0:
        scores = {p: score + _saved(s, nest, p, exprs) + _blocks(s, nest, p, exprs) for p, score in scores.items()}
    for p, width in wide:
        score = scores[p]
        wider = best.lane is not None and (width, p.trips) > (best.width, best.lane.trips)
        if score > top or (score == top and wider):
            best, top = Vectors(regs, p, width), score
    return _across_groups(s, nest, exprs, _lanes_to_store(s, nest, reads, held, best))


def _lanes_to_store(s: Loops, nest: Nest, reads: Sequence[Node], held: Held, best: Vectors) -> Vectors:
    """The lanes along which what a store keeps is held, where the rows of its output are not cut into vectors as long: blocks are turned in
    registers then. `best`: the other lanes, which stay where rows have few elements, or where something else is read along them."""
    if nest.kind != "store" or nest.store is None or nest.store.combine is not None or s.target.kind == "gpu":
        return best
    buffer, regs = nest.store.buffer, s.registers(nest)
    loads = [load_parts(n) for n in reads if n.op == "load"]
    for lane in (h for n in reads if n.op == "ref" and isinstance(h := held(n.arg), Part)):
        width = min(s.width, lane.trips & -lane.trips)
        rows = [
            p for p in regs
            if p is not lane and p.trips >= GROUP_ROW and stride(s, nest, "", nest.indices, buffer.shape, p) == 1
        ]  # fmt: skip
        if not rows or lane not in regs or width <= best.width or width < GROUP_ROW or buffer.dtype.size < 4 or buffer.name in s.nt:
            continue
        across = [(b, at) for b, at, _ in loads if stride(s, nest, b.name, at, b.shape, lane) not in (0, 1)]
        if not across or (best.width < GROUP_ROW and all(stride(s, nest, b.name, at, b.shape, rows[0]) == 1 for b, at in across)):
            return Vectors(regs, lane, width)
    return best


def _once_a_row(nest: Nest, n: Node) -> bool:
    """Whether a load says where a row of a reduction begins or ends, and no more: it is read before the row."""
    return nest.kind == "reduce" and n.op == "load" and n.dtype.is_int and axes_of(n).isdisjoint(nest.reduce_axes)


def _saved(s: Loops, nest: Nest, part: Part, exprs: Sequence[Node]) -> float:
    """What the arithmetic counts that lanes along a part save, however elements are read."""
    if nest.kind not in ("store", "point", "reduce") or (nest.store is not None and _by_points(s, nest.store, part)):
        return 0.0
    return SAVED * arithmetic(part.axis, exprs)


def _blocks(s: Loops, nest: Nest, part: Part, exprs: Sequence[Node]) -> int:
    """The strided loads of a reduction that are of square blocks, which are loaded along other copies and turned in registers: each
    counted as a strided one, and costs a shuffle or two a vector."""
    if nest.kind != "reduce" or s.target.kind == "gpu":
        return 0
    found = 0
    for n in walk(*exprs):
        if n.op == "load" and part.axis in axes_of(*load_parts(n)[1]) and _load(s, nest, part, n) < 0:
            buffer, indices, mask = load_parts(n)
            others = (p for p in s.registers(nest) if p is not part and p.trips & -p.trips >= GROUP_ROW)
            turned = buffer.dtype.size >= 4 and mask is None and buffer.name not in s.stages
            found += turned and any(stride(s, nest, buffer.name, indices, buffer.shape, p) == 1 for p in others)
    return found


def _across_groups(s: Loops, nest: Nest, exprs: Sequence[Node], best: Vectors) -> Vectors:
    """Where lanes would be the two to four components of pairs, pixels or points, or none: lanes over the groups, if every access can
    be of whole vectors then. Components of loads are picked from them, and those of stores are woven into them. Where vectors are as
    short as a group, they are over groups if these share much that is computed."""
    if nest.store is None or (best.width >= min(s.width, PAIRED) and not _components(s, nest, best)):
        return best
    for p in best.regs:
        width = min(s.width, p.trips & -p.trips)
        step = interleaved_step(s, nest, p)
        if p.kind != "upcast" or width < best.width or (width == best.width and not _shares(p, best, exprs)) or step is None:
            continue
        loads = [n for n in walk(*exprs) if n.op == "load"]
        near = (0, 1, -1, -step)  # (backwards, vectors are read and turned round)
        if all(
            stride(s, nest, b.name, at, b.shape, p) in near or deinterleaved_step(s, nest, n, p)
            for n in loads
            for b, at, _ in [load_parts(n)]
        ):
            best = Vectors(best.regs, p, width)
    return best


def _components(s: Loops, nest: Nest, best: Vectors) -> bool:
    """Whether lanes are all components of a group."""
    lane = best.lane  # (of eight lanes a group may be two vectors)
    return lane is not None and any(p is not lane and interleaved_step(s, nest, p) == lane.trips for p in best.regs)


def _shares(part: Part, best: Vectors, exprs: Sequence[Node]) -> bool:
    """Whether what all lanes of `best` would share, computed once for each place along `part`, is much."""
    return best.lane is not None and part is not best.lane and arithmetic(part.axis, exprs) >= arithmetic(best.lane.axis, exprs) + MUCH


def _score(s: Loops, nest: Nest, part: Part, exprs: Sequence[Node], reads: Sequence[Node], held: Held) -> float:
    """The accesses that are consecutive along a part, less those that are strided; a store counts twice. `reads`: what `exprs` load, or
    read of values."""
    if nest.kind == "store" and nest.store is not None and _by_points(s, nest.store, part):
        return _points(s, nest, part, exprs, reads)
    score = 0.0
    for n in reads:
        score += _load(s, nest, part, n) if n.op == "load" else _read(s, part, n, held(n.arg))
    if nest.store is not None:
        return score + 2 * _step(s, part, nest.indices, dense(nest.store.buffer.shape))
    if nest.kind in ("reduce", "point", "scan"):
        # a value kept in registers is free to have any lanes: a small push towards spatial ones
        score += 0.25 if part.axis in nest.axes else 0.125
    return score


def _by_points(s: Loops, store: Store, part: Part) -> bool:
    """Whether the writes of lanes along a part may meet, and follow each other."""
    return part.axis in scatter_ordered(store) and not in_vectors(s.target, store, part.axis)


def _points(s: Loops, nest: Nest, part: Part, exprs: Sequence[Node], reads: Sequence[Node]) -> float:
    """Points of a scatter write one after the other: lanes are for what is computed on the way there, if anything is."""
    if arithmetic(part.axis, exprs) < TAKEN:
        return 0.0
    return max(0.0, 0.5 + sum(_load(s, nest, part, n) for n in reads if n.op == "load"))


def _read(s: Loops, part: Part, ref: Node, held: Sequence[int | Node] | Part | None) -> float:
    """A kept value. In registers it is at hand along the lanes it was made with; along others it has to be put together."""
    if held is None:
        return 0.0
    if isinstance(held, Part):
        return 1.0 if held is part else -1.0 if part.axis in axes_of(*ref.src) else 0.0
    return _step(s, part, ref.src, held)


def _load(s: Loops, nest: Nest, part: Part, load: Node) -> float:
    """Staged panels are laid out for their readers: they count as consecutive along their innermost part. What is picked
    from whole vectors counts as nothing."""
    buffer, indices, _ = load_parts(load)
    staged = s.stages.get(buffer.name)
    mine = staged is not None and any(n is nest for n in staged.nests)
    if staged is not None and mine and staged.order == "panel":
        step = {p.name: stride for p, stride in staged.parts}.get(part.name, 0)
        return 0.0 if step == 0 else 1.0 if step == 1 else -1.0
    if deinterleaved_step(s, nest, load, part) is not None:
        return 0.0
    places = [n for n in walk(*indices) if n.op == "load" and part.axis in axes_of(n)] if s.target.gathers else []
    if places:  # data says where: one element at a time is no better, and rows of which lanes wait for the longest cost more
        return 0.0 if any(load_parts(n)[0].regular for n in places) else GATHERED
    return _step(s, part, indices, dense(buffer.shape))


def _step(s: Loops, part: Part, indices: Sequence[Node], strides: Sequence[int | Node]) -> float:
    """1 where an access is consecutive along `part`, or along each of its vectors, 0 where it does not vary; else -1."""
    total = 0
    for i, step in zip(indices, strides, strict=True):
        if part.axis not in axes_of(i):
            continue
        k = s.coefficient(i, part.var)
        if k is None:
            k = s.lane_coefficient(i, part.var, min(s.width, part.trips & -part.trips))
        if k is None or not isinstance(step, int):
            return -1.0
        total += k * step
    return 1.0 if total == 1 else 0.0 if total == 0 else -1.0


def _unknown_strides(dimensions: int, inner: int | None) -> list[int]:
    """Strides of an array whose sizes are not known yet: 1 along its consecutive axis, and far apart along the others."""
    place = dimensions - 1 if inner is None else inner
    return [1 if d == place else 1 << 20 + 4 * d for d in range(dimensions)]
