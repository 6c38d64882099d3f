"""Element strides of accesses along a part of a nest: what is consecutive, what is strided, and what is picked from whole vectors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..ir import index as ix
from ..ir.buffer import load_parts
from ..ir.node import Node, axes_of, const
from .axis_plan import Part
from .loops import Loops
from .nests import Nest

TURNED = 4
"""Neighbours that are turned together: 16 bytes or more, which a load brings at once."""
WHOLE = 4
"""Whole steps beside which one with masks is little."""
LONG = 8
"""Lanes from which on picking saves more loads than it takes shuffles."""
LONGEST = 16
"""Components of the longest group that is turned, such as a matrix of four rows."""


def strides(s: Loops, nest: Nest, part: Part) -> list[tuple[int | None, float]]:
    """(element stride along `part`, weight) of every load and store of buffers; None where it is not linear."""
    out: list[tuple[int | None, float]] = []
    for n in nest.all_nodes:
        if n.op == "load":
            buffer, indices, _ = load_parts(n)
            out.append((stride(s, nest, buffer.name, indices, buffer.shape, part), 1.0))
    if nest.store is not None:
        out.append((stride(s, nest, "", nest.indices, nest.store.buffer.shape, part), 2.0))
    return out


def picked(s: Loops, nest: Nest, load: Node, part: Part) -> int | None:
    """The element stride of a load along `part`, where it is done by whole vectors and shuffles that pick from them;
    None where it is not."""
    buffer, indices, mask = load_parts(load)
    plan = s.stages.get(buffer.name)
    mine = plan is not None and any(n is nest for n in plan.nests)
    # a mask, or copies past the extent, of what is not staged: elements that may not exist
    unsafe = not mine and (mask is not None or _mostly_masked(s, part.axis))
    if s.target.kind == "gpu" or (mine and plan is not None and plan.order == "panel"):
        return None
    step = stride(s, nest, buffer.name, indices, buffer.shape, part)
    if step is None:
        return None
    if turns(step, buffer.dtype.size):
        return step if plan is None and mask is None and _turned(s, nest, load, part, step) else None
    return step if picks(step) and not (unsafe and (mask is not None or not grouped(buffer.shape, step))) else None


def _mostly_masked(s: Loops, axis: Node) -> bool:
    """Whether register copies along an axis can reach past its extent elsewhere than in the last of several steps, which has code of
    its own. Where vectors are short, picking from them takes as long as single loads: an end that is ragged decides."""
    plan = s.plans[axis]
    few = not isinstance(plan.extent, int) or plan.extent < WHOLE * plan.block
    return plan.masked and (few or bool(s.target.groups) or s.width < LONG)


def _turned(s: Loops, nest: Nest, load: Node, part: Part, step: int) -> bool:
    """Whether a load along `part` is of one component of each group, which register copies decide, and not transposed with the others."""
    buffer, indices, _ = load_parts(load)
    if not grouped(buffer.shape, step):
        return False
    registers = s.registers(nest)
    if any(p is not part and not p.trips % TURNED and stride(s, nest, buffer.name, indices, buffer.shape, p) == 1 for p in registers):
        return False
    around = [stride(s, nest, buffer.name, indices, buffer.shape, p) for p in s.loops(nest) if all(p is not r for r in registers)]
    return all(k is not None and k % step == 0 for k in around)


def grouped(shape: Sequence[int | Node], step: int) -> bool:
    """Whether a dense buffer is known to consist of whole groups of `step` elements."""
    return bool(shape) and prod(d for d in shape if isinstance(d, int)) % step == 0


def weaves(s: Loops, nest: Nest, part: Part) -> int | None:
    """How many components a store along `part` weaves into whole vectors, or turns into rows: its element stride, where register
    copies of other axes are as many neighbours; None where it does not."""
    if nest.store is None or (nest.kind == "store" and nest.store.combine is not None) or s.target.kind == "gpu":
        return None
    shape = nest.store.buffer.shape
    step = stride(s, nest, "", nest.indices, shape, part)
    if step is None or not (picks(step) or turns(step, nest.store.buffer.dtype.size)):
        return None
    near = [p for p in s.registers(nest) if p.kind == "upcast" and p is not part]
    have = 1
    for k, trips in sorted((k, p.trips) for p in near if (k := stride(s, nest, "", nest.indices, shape, p)) is not None):
        have *= trips if k == have else 1
    return step if have == step else None


def shuffles(step: int, width: int) -> int:
    """Shuffles for each vector of `width` lanes where all components of groups are picked, woven or turned."""
    return {2: 1, 3: 3, 4: 2}[step] if picks(step) else 1 + rows(step, width)


def rows(step: int, width: int) -> int:
    """Accesses to memory for each vector of `width` lanes where all components of groups are picked, woven or turned."""
    return 1 if picks(step) else max(1, width // TURNED)


def picks(step: int) -> bool:
    """Whether every `step`-th element is better picked from whole vectors than gathered."""
    return 2 <= step <= 4


def turns(step: int, nbytes: int) -> bool:
    """Whether the components of longer groups, of elements of so many bytes, are brought to lanes by turning blocks of `TURNED`."""
    return TURNED < step <= LONGEST and nbytes >= 4


def stride(s: Loops, nest: Nest, name: str, indices: tuple[Node, ...], shape: tuple[int | Node, ...], part: Part) -> int | None:
    """The element stride of an access along `part`, in the staged panel where there is one."""
    plan = s.stages.get(name)
    if plan is not None and plan.order == "panel" and any(n is nest for n in plan.nests):
        return next((st for p, st in plan.parts if p.name == part.name), 0)
    total, step = 0, 1
    for i, size in zip(reversed(indices), reversed(shape)):
        if part.axis in axes_of(i):
            k = s.coefficient(i, part.var)
            if k is None:
                return None
            total += k * step
        step *= ix.upper(size)
    return total


def dense(shape: tuple[int | Node, ...]) -> tuple[int | Node, ...]:
    """Strides in elements of a dense row-major buffer."""
    out: list[int | Node] = []
    stride: int | Node = 1
    for size in reversed(shape):
        out.append(stride)
        if isinstance(stride, int) and isinstance(size, int):
            stride = stride * size
        else:
            product = ix.mul(_node(stride), _node(size))
            stride = int(product.arg) if product.op == "const" else product
    return tuple(reversed(out))


def _node(x: int | Node) -> Node:
    return const(x) if isinstance(x, int) else x
