"""What loads and stores touch, in elements: strides by axis in a kernel, strides by part in a schedule, and components of groups, which are
taken from whole vectors by shuffles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from ..ir import index as ix
from ..ir.buffer import Buffer, load_parts
from ..ir.kernel import Kernel
from ..ir.node import Node, axes_of, const, ordered_axes
from .analysis.interior import interior, likely
from .axis_plan import Part
from .loops import Loops
from .nests import Nest


# of a kernel ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class AccessPattern:
    """One load or store of a nest, with the element stride of every axis (None where it is not linear)."""

    buffer: Buffer
    strides: dict[Node, int | None]
    store: bool

    def stride(self, axis: Node) -> int | None:
        """0 where the access does not depend on the axis."""
        return self.strides.get(axis, 0)


@lru_cache(maxsize=512)
def accesses(kernel: Kernel, nest: Nest) -> Sequence[AccessPattern]:
    """Every load and store of a nest."""
    out = [AccessPattern(b, strides_of(b, i), False) for n in nest.nodes if n.op == "load" for b, i, _ in (load_parts(n),)]
    if nest.store is not None:
        out.append(AccessPattern(nest.store.buffer, strides_of(nest.store.buffer, nest.indices), True))
    return out


def strides_of(buffer: Buffer, indices: tuple[Node, ...]) -> dict[Node, int | None]:
    """Element stride by axis of an access."""
    out: dict[Node, int | None] = {}
    stride = 1
    for size, i in zip(reversed(buffer.shape), reversed(indices)):
        i = interior(i)
        terms, _ = ix.parts(i)
        for a in ordered_axes(i):
            k = terms.get(a)
            previous = out.get(a, 0)
            out[a] = None if k is None or previous is None or any(a in axes_of(t) for t in terms if t is not a) else previous + k * stride
        stride *= size if isinstance(size, int) else max(1, ix.bounds(size)[1])
    return out


# of a schedule --------------------------------------------------------------------------------------------------------
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


def element_terms(s: Loops, buffer: Buffer, indices: tuple[Node, ...]) -> dict[Node, int]:
    """How many elements an access moves by a step of each index variable."""
    total: dict[Node, int] = {}
    stride = 1
    for i, d in zip(reversed(indices), reversed(buffer.shape), strict=True):
        for t, k in s.terms(i).items():
            total[t] = total.get(t, 0) + k * stride
        stride *= max(1, ix.upper(d))
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


# of components of groups -----------------------------------------------------------------------------------------------
GROUP_ROW = 4
"""Neighbours that are turned together: 16 bytes or more, which a load brings at once."""
WHOLE = 4
"""Whole steps beside which one with masks is little."""
LONG = 8
"""Lanes from which on picking saves more loads than it takes shuffles."""
LONGEST_GROUP = 16
"""Components of the longest group that is turned, such as a matrix of four rows."""


def deinterleaved_step(s: Loops, nest: Nest, load: Node, part: Part) -> int | None:
    """The element stride of a load along `part`, where it is done by whole vectors and shuffles that pick from them;
    None where it is not."""
    buffer, indices, mask = load_parts(load)
    plan = s.stages.get(buffer.name)
    mine = plan is not None and any(n is nest for n in plan.nests)
    # a mask, or copies past the extent, of what is not staged: elements that may not exist
    if mask is not None and likely(mask) and s.target.kind == "cpu" and s.group == 1:
        mask = None  # (a border, at which loops are cut)
    unsafe = not mine and (mask is not None or _mostly_masked(s, part.axis))
    if s.target.kind == "gpu" or (mine and plan is not None and plan.order == "panel"):
        return None
    step = stride(s, nest, buffer.name, indices, buffer.shape, part)
    if step is None:
        return None
    if transposable(step, buffer.dtype.size):
        return step if plan is None and mask is None and _is_deinterleaved(s, nest, load, part, step) else None
    return step if deinterleavable(step) and not (unsafe and (mask is not None or not grouped(buffer.shape, step))) else None


def _mostly_masked(s: Loops, axis: Node) -> bool:
    """Whether register copies along an axis can reach past its extent elsewhere than in the last of several steps, which has code of
    its own. Where vectors are short, picking from them takes as long as single loads: an end that is ragged decides."""
    plan = s.plans[axis]
    few = not isinstance(plan.extent, int) or plan.extent < WHOLE * plan.block
    return plan.masked and (few or bool(s.target.groups) or s.width < LONG)


def _is_deinterleaved(s: Loops, nest: Nest, load: Node, part: Part, step: int) -> bool:
    """Whether a load along `part` is of one component of each group, which register copies decide, and not transposed with the others."""
    buffer, indices, _ = load_parts(load)
    if not grouped(buffer.shape, step):
        return False
    registers = s.registers(nest)
    if any(p is not part and not p.trips % GROUP_ROW and stride(s, nest, buffer.name, indices, buffer.shape, p) == 1 for p in registers):
        return False
    around = [stride(s, nest, buffer.name, indices, buffer.shape, p) for p in s.loops(nest) if all(p is not r for r in registers)]
    return all(k is not None and k % step == 0 for k in around)


def grouped(shape: Sequence[int | Node], step: int) -> bool:
    """Whether a dense buffer is known to consist of whole groups of `step` elements."""
    return bool(shape) and prod(d for d in shape if isinstance(d, int)) % step == 0


def interleaved_step(s: Loops, nest: Nest, part: Part) -> int | None:
    """How many components a store along `part` weaves into whole vectors, or turns into rows: its element stride, where register
    copies of other axes are as many neighbours; None where it does not."""
    if nest.store is None or (nest.kind == "store" and nest.store.combine is not None) or s.target.kind == "gpu":
        return None
    shape = nest.store.buffer.shape
    step = stride(s, nest, "", nest.indices, shape, part)
    if step is None or not (deinterleavable(step) or transposable(step, nest.store.buffer.dtype.size)):
        return None
    near = [p for p in s.registers(nest) if p.kind == "upcast" and p is not part]
    have = 1
    for k, trips in sorted((k, p.trips) for p in near if (k := stride(s, nest, "", nest.indices, shape, p)) is not None):
        have *= trips if k == have else 1
    return step if have == step else None


def shuffles(step: int, width: int) -> int:
    """Shuffles for each vector of `width` lanes where all components of groups are picked, woven or turned."""
    return {2: 1, 3: 3, 4: 2}[step] if deinterleavable(step) else 1 + rows(step, width)


def rows(step: int, width: int) -> int:
    """Accesses to memory for each vector of `width` lanes where all components of groups are picked, woven or turned."""
    return 1 if deinterleavable(step) else max(1, width // GROUP_ROW)


def deinterleavable(step: int) -> bool:
    """Whether every `step`-th element is better picked from whole vectors than gathered."""
    return 2 <= step <= 4


def transposable(step: int, nbytes: int) -> bool:
    """Whether the components of longer groups, of elements of so many bytes, are brought to lanes by turning blocks of `TURNED`."""
    return GROUP_ROW < step <= LONGEST_GROUP and nbytes >= 4
