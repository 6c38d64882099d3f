"""What is read was written: a list of calls is accepted only if each array is written once, whole, before it is read.

A kernel proves when it is made that no index leaves the dimensions of its parameters. So where a parameter has as many
elements as the array behind it, and the array was written whole, every element that is read has a value. The kernels of a
list come out of several decisions of the partition, and nothing else compares what one stores with what another one reads.
A list that fails is a fault of this tool: an error, and no result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir import index as ix
from ...ir.checks.written_whole import writes_whole
from ...ir.errors import InternalError
from ...ir.kernel import Kernel
from ...ir.node import Node, as_node, const
from ..graph.lines import at
from ..graph.node import TensorNode
from ..graph.symbols import extents

if TYPE_CHECKING:
    from .calls import CallList


def prove(made: CallList) -> None:
    """Raise InternalError where a call reads, or the list leaves, what no call before has written whole and in that type."""
    written = set(range(made.leaves))
    for call in made.calls:
        kernel = getattr(call, "kernel", None)
        name = call.call.name if kernel is None else kernel.name
        for p in call.inputs:
            if p not in written:
                raise _fault(f"{name} reads", made.nodes[p], "before any kernel has written it")
        for p in call.outputs:
            if p in written:
                raise _fault(f"{name} writes", made.nodes[p], "which has its values already")
        if kernel is not None:
            _prove_kernel(kernel, [made.nodes[p] for p in call.inputs], [made.nodes[p] for p in call.outputs])
        written.update(call.outputs)
    for p in made.outs:
        if p not in written:
            raise _fault("no kernel writes the result", made.nodes[p])


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
