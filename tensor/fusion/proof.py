"""What is read was written: a list of calls is accepted only if each array is written once, whole, before it is read.

A kernel proves when it is made that no index leaves the dimensions of its parameters. So where a parameter has as many
elements as the array behind it, and the array was written whole, every element that is read has a value. The kernels of a
list come out of several decisions of the partition, and nothing else compares what one stores with what another one reads.
A list that fails is a fault of this tool: an error, and no result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...ir import index as ix
from ...ir.checks.written_whole import writes_whole
from ...ir.errors import InternalError
from ...ir.kernel import Kernel
from ...ir.node import Node, as_node, const
from ..graph.lines import at
from ..graph.node import TensorNode
from ..graph.symbols import extents


class ListedStep(NamedTuple):
    """A call of a list: its name, its kernel (None: NumPy's code, which writes whole arrays), and the places of its arrays."""

    name: str
    kernel: Kernel | None
    inputs: Sequence[int]
    outputs: Sequence[int]


def prove(steps: Sequence[ListedStep], leaves: int, nodes: Sequence[TensorNode], outs: Sequence[int]) -> None:
    """Raise InternalError where a step reads, or the list leaves, what no step before has written whole and in that type.
    `leaves`: how many arrays come from outside; `nodes`: by place, a node of the array's shape and type; `outs`: results."""
    written = set(range(leaves))
    for name, kernel, inputs, outputs in steps:
        for p in inputs:
            if p not in written:
                raise _fault(f"{name} reads", nodes[p], "before any kernel has written it")
        for p in outputs:
            if p in written:
                raise _fault(f"{name} writes", nodes[p], "which has its values already")
        if kernel is not None:
            _prove_kernel(kernel, [nodes[p] for p in inputs], [nodes[p] for p in outputs])
        written.update(outputs)
    for p in outs:
        if p not in written:
            raise _fault("no kernel writes the result", nodes[p])


def _prove_kernel(kernel: Kernel, reads: list[TensorNode], writes: list[TensorNode]) -> None:
    """Whether a kernel's parameters are the arrays that it is called with, and it writes all of those that it stores."""
    for b, n in (*zip(kernel.inputs, reads, strict=True), *zip(kernel.outputs, writes, strict=True)):
        if b.dtype is not n.dtype or _count(b.shape) is not _count(extents(n.shape)):
            raise _fault(f"{kernel.name} takes {b.dtype}{list(b.shape)} for", n)
    for b, n in zip(kernel.outputs, writes, strict=True):
        if not any(s.buffer is b and writes_whole(s) for s in kernel.stores):
            raise _fault(f"{kernel.name} does not write every element of", n)


def _count(shape: tuple[int | Node, ...]) -> Node:
    """How many elements a shape has: equal counts are one node."""
    out = const(1)
    for n in shape:
        out = ix.mul(out, as_node(n))
    return out


def _fault(what: str, n: TensorNode, more: str = "") -> InternalError:
    return InternalError(
        f"internal error: {what} {n.dtype}{list(n.shape)}{at(n.line)}{f', {more}' if more else ''}; "
        "no result is given, since it could be wrong: please report the function"
    )
