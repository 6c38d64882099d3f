"""Buffers, the parameters of a kernel, and loads from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Union

from .checks.misuse import NotIndexed, index_of, mask_of
from .dtypes import DType
from .errors import KernelError
from .node import Expr, Node, as_node, const, make, walk

Extent = Union[int, Node]
PATTERNS = {"": 0, "diagonals": 0, "runs of 4": 4, "runs of 8": 8}
"""By which patterns the columns of a sparse matrix may follow each other, and how many of a row do."""


@dataclass(frozen=True, slots=True)
class Buffer(NotIndexed):
    """A parameter in row-major order. `role` is 'in' or 'out'; `constant` inputs may be packed once; inputs may state
    the inclusive `range` their elements lie in (input generation and, of integers, bounds analysis use it), and that the elements of each
    row are `ascending` (none is less than the one before), that they are `regular`: most steps between neighbours are as long as
    those beside them, and by which `pattern` most columns of a sparse matrix follow each other (a key of `PATTERNS`). An output with an `alias` may lie in the memory of the input of that
    name (`ir.rewriter`)."""

    name: str
    dtype: DType
    shape: tuple[Extent, ...]
    role: str = "in"
    constant: bool = False
    range: tuple[int, int] | tuple[float, float] | None = None
    alias: str = ""
    ascending: bool = False
    regular: bool = False
    pattern: str = ""

    @property
    def whole_range(self) -> tuple[int, int] | None:
        """The range of an integer input's elements, if one is stated."""
        return None if self.range is None or self.dtype.is_float else (int(self.range[0]), int(self.range[1]))

    def __getitem__(self, indices: Expr | tuple[Expr, ...]) -> Node:
        return load(self, indices if isinstance(indices, tuple) else (indices,))

    def masked(self, mask: Node, *indices: Expr) -> Node:
        """The element where `mask` holds, else 0 without touching memory."""
        return load(self, indices, mask)


def load(buffer: Buffer, indices: Iterable[Expr], mask: Node | None = None) -> Node:
    """An element of `buffer`; 0 where `mask` is false, and memory is not touched there."""
    src = tuple(as_node(i) for i in indices)
    if len(src) != len(buffer.shape):
        raise KernelError(f"{buffer.name} has {len(buffer.shape)} dimensions and was indexed with {len(src)}")
    for i in src:
        index_of(buffer.name, i)
    if mask is not None:
        mask_of(buffer.name, mask)
    if mask is not None and mask.op == "const":
        if not mask.arg:
            return const(0, buffer.dtype)
        mask = None
    return make("load", buffer.dtype, src if mask is None else (*src, mask), (buffer, mask is not None))


def load_parts(node: Node) -> tuple[Buffer, tuple[Node, ...], Node | None]:
    """(buffer, indices, mask) of a load node."""
    buffer, masked = node.arg
    return (buffer, node.src[:-1], node.src[-1]) if masked else (buffer, node.src, None)


def loads(*roots: Node) -> Iterator[tuple[Buffer, tuple[Node, ...], Node | None]]:
    """(buffer, indices, mask) of every load below `roots`."""
    for n in walk(*roots):
        if n.op == "load":
            yield load_parts(n)
