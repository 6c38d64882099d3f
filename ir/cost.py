"""What a kernel must do at least: arithmetic counted from its body, and the bytes that have to move.

An expression is counted once for each point of the axes it depends on (hoisted as far as it goes), a named value once for each of its own points, however
often it is read. Work on masked-off elements counts; merging a fold's tiles does not (uncut, there is none).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

from . import index as ix
from .dtypes import index
from .errors import KernelError
from .kernel import Buffer, Extent, Kernel, Reduce, Scan, loads
from .node import Node, as_node, axes_of, substitute, walk

FLOP = frozenset({"add", "sub", "mul", "div", "max", "min", "neg", "abs", "sqrt", "floor"})
"""Operators of one flop; comparisons, selections, conversions and index arithmetic are free."""

ELEMENTARY = frozenset({"exp", "log", "tanh", "erf"})

POLYNOMIAL: dict[str, dict[int, int]] = {
    "exp": {4: 22, 8: 32},
    "log": {4: 30, 8: 32},
    "tanh": {4: 25, 8: 35},
    "erf": {4: 49, 8: 91},
}
"""Flops of the vector polynomial of each function (`lower.elementary`; a test keeps the two together), by operand size in bytes."""


@dataclass(frozen=True, slots=True)
class Cost:
    """`flops`: floating or integer operations on elements (fma = 2, a reduction of K = K; without elementary functions). `elementary`: evaluations of
    exp, log, tanh, erf; `poly_flops`: about the flops of their polynomials. `reads`, `writes`: compulsory bytes."""

    flops: int
    elementary: int
    poly_flops: int
    reads: int
    writes: int

    @property
    def bytes(self) -> int:
        """Compulsory traffic: every used input element read once, every output element written once."""
        return self.reads + self.writes


def cost(kernel: Kernel, vars: Mapping[str, int] | None = None) -> Cost:
    """The cost of `kernel`; `vars` gives symbols their values (KernelError names a missing one)."""
    size = _Sizes(kernel, vars or {})
    flops = elementary = poly = 0

    def body(*roots: Node) -> None:
        nonlocal flops, elementary, poly
        for n in walk(*roots):
            if n.dtype is index or (n.src and n.src[0].dtype is index):
                continue
            if n.op in FLOP:
                flops += size.points(axes_of(n))
            elif n.op in ELEMENTARY:
                times = size.points(axes_of(n))
                elementary += times
                poly += times * POLYNOMIAL[n.op][8 if n.dtype.size == 8 else 4]

    for v in kernel.values.values():
        body(v.body)
        if isinstance(v.expr, (Reduce, Scan)):
            flops += size.points((*v.axes, *v.reduce_axes))
    for s in kernel.stores:
        body(s.expr)
        if s.combine is not None:
            flops += size.points(s.axes)
    return Cost(flops, elementary, poly, _reads(kernel, size), _writes(kernel, size))


class _Sizes:
    """Extents as ints."""

    def __init__(self, kernel: Kernel, values: Mapping[str, int]) -> None:
        self.env: dict[Node, int] = {}
        for s in kernel.symbols:
            if s.arg.name not in values:
                raise KernelError(f"the cost of {kernel.name} depends on {s.arg.name}: give its value in vars")
            self.env[s] = values[s.arg.name]

    def of(self, extent: Extent) -> int:
        return extent if isinstance(extent, int) else ix.evaluate(as_node(extent), self.env)

    def points(self, axes: Iterable[Node]) -> int:
        return prod(self.of(a.arg.extent) for a in axes)

    def elements(self, shape: tuple[Extent, ...]) -> int:
        return prod(self.of(d) for d in shape)

    def touched(self, buffer: Buffer, indices: tuple[Node, ...]) -> int:
        """At most how many elements of `buffer` one access reaches: in each dimension no more than its extent, and no more than there are points."""
        each = [min(self.of(d), self.points(axes_of(i))) for i, d in zip(indices, buffer.shape, strict=True)]
        return min(prod(each), self.points(axes_of(*indices)))


def _reads(kernel: Kernel, size: _Sizes) -> int:
    used: dict[Buffer, int] = {}
    # two sites of a family read the same elements: they count once
    first = {a: axes[0] for axes in kernel.families.values() for a in axes}
    seen: set[tuple[Buffer, tuple[Node, ...]]] = set()
    for buffer, indices, _ in loads(*kernel.expressions()):
        access = (buffer, tuple(substitute(i, first) for i in indices))
        if access not in seen:
            seen.add(access)
            used[buffer] = min(used.get(buffer, 0) + size.touched(buffer, indices), size.elements(buffer.shape))
    return sum(n * b.dtype.size for b, n in used.items())


def _writes(kernel: Kernel, size: _Sizes) -> int:
    total = 0
    for s in kernel.stores:
        count = size.elements(s.buffer.shape)
        total += (count if s.combine is not None else min(count, size.touched(s.buffer, s.indices))) * s.buffer.dtype.size
    return total
