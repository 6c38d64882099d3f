"""Which register part of a nest is likely to get the lanes, and which axis of a kept value is therefore consecutive in its array.

A value is laid out along the lanes of the nest that makes it, so that it is written, and mostly read, as whole vectors. The exact choice of lanes is lowering's
(`lower.lanes`), which knows what ended up in registers."""

from __future__ import annotations

from ..ir import index as ix
from ..ir.node import Node, axes_of, load_parts, walk
from .axis_plan import Part
from .nests import Nest
from .schedule import Scheduled


def inner_dimensions(s: Scheduled) -> dict[str, int]:
    """For each value that a nest makes, the position of its consecutive axis, where lanes decide it (else it is the last)."""
    found: dict[str, int] = {}
    for nest in s.nests:
        lane, _ = _likely(s, nest, found)
        for name, axes in nest.made.items():
            if lane is not None and lane.axis in axes:
                found[name] = axes.index(lane.axis)
    return found


def likely_lane(s: Scheduled, nest: Nest) -> tuple[Part | None, int]:
    """The likely lane part of a nest and its width."""
    return _likely(s, nest, s.inner)


def _likely(s: Scheduled, nest: Nest, inner: dict[str, int]) -> tuple[Part | None, int]:
    width = max(1, s.target.lanes(nest.expr.dtype.compute))
    best, score = None, 0.0
    dot = s.dots.get(nest.name)
    for p in s.registers(nest):
        if dot is not None and p.kind == "upcast" and p.axis is dot.n:
            return p, dot.row.n
        lanes = min(width, p.trips & -p.trips)
        if p.kind != "upcast" or lanes < 2:
            continue
        v = 0.25 if p.axis in nest.axes else 0.125
        for step, weight in strides(s, nest, p):
            v += weight * (1 if step == 1 else 0 if step == 0 else -1)
        v += sum(picked(s, nest, n, p) is not None for n in walk(*nest.evaluated) if n.op == "load")
        for n in walk(*nest.evaluated):
            if n.op == "ref" and n.arg not in nest.fills:
                v += _ref(s, p, n, inner)
        if v > score or (v == score and best is not None and (lanes, p.trips) > (min(width, best.trips & -best.trips), best.trips)):
            best, score = p, v
    return best, min(width, best.trips & -best.trips) if best is not None else 1


def _ref(s: Scheduled, part: Part, node: Node, inner: dict[str, int]) -> float:
    """As for a load: 1 where the value is read consecutively along `part`, 0 where it does not vary, else -1."""
    near = inner.get(node.arg, len(node.src) - 1)
    out = 0.0
    for d, i in enumerate(node.src):
        if part.axis in axes_of(i):
            out = 1.0 if d == near and out == 0.0 and ix.parts(s.at_parts(i))[0].get(part.var) == 1 else -1.0
    return out


def strides(s: Scheduled, nest: Nest, part: Part) -> list[tuple[int | None, float]]:
    """(element stride along `part`, weight) of every load and store of buffers; None where it is not linear."""
    out: list[tuple[int | None, float]] = []
    for n in walk(*nest.evaluated):
        if n.op == "load":
            buffer, indices, _ = load_parts(n)
            out.append((stride(s, nest, buffer.name, indices, buffer.shape, part), 1.0))
    if nest.store is not None:
        out.append((stride(s, nest, "", nest.indices, nest.store.buffer.shape, part), 2.0))
    return out


def picked(s: Scheduled, nest: Nest, load: Node, part: Part) -> int | None:
    """The element stride of a load along `part`, where it is done by whole vectors and shuffles that pick from them; None where it is not."""
    buffer, indices, mask = load_parts(load)
    plan = s.stages.get(buffer.name)
    mine = plan is not None and any(n is nest for n in plan.nests)
    # a mask, or copies past the extent, of what is not staged: elements that may not exist
    unsafe = not mine and (mask is not None or s.plans[part.axis].masked)
    if s.target.kind == "gpu" or unsafe or (mine and plan is not None and plan.order == "panel"):
        return None
    step = stride(s, nest, buffer.name, indices, buffer.shape, part)
    return step if step is not None and picks(step) else None


def picks(step: int) -> bool:
    """Whether every `step`-th element is better picked from whole vectors than gathered."""
    return 2 <= step <= 4


def stride(s: Scheduled, nest: Nest, name: str, indices: tuple[Node, ...], shape: tuple[int | Node, ...], part: Part) -> int | None:
    """The element stride of an access along `part`, in the staged panel where there is one."""
    plan = s.stages.get(name)
    if plan is not None and plan.order == "panel" and any(n is nest for n in plan.nests):
        return next((st for p, st in plan.parts if p.name == part.name), 0)
    total, step = 0, 1
    for i, size in zip(reversed(indices), reversed(shape)):
        if part.axis in axes_of(i):
            k = ix.parts(s.at_parts(i))[0].get(part.var)
            if k is None:
                return None
            total += k * step
        step *= size if isinstance(size, int) else ix.bounds(size)[1]
    return total
