"""Elements of values under a mask (`Value.masked`), as choices of elements that are there whatever the mask says.

An index is kept inside the value's axes, where it may leave them. That it stays inside where the mask holds was checked before."""

from __future__ import annotations

from .. import index as ix
from ..buffer import Extent
from ..checks.access_bounds import largest
from ..dtypes import bool_, index
from ..functions import maximum, minimum
from ..kernel import Kernel
from ..node import Node, as_node, const, ref, walk
from ..op_names import MASKED
from ..operators import cast, logical, where
from ..rewrite import Rewriter


def with_whole_values(kernel: Kernel) -> Kernel:
    """`kernel` without masked elements of values; `kernel` itself where there are none."""
    return _Clamped(kernel).run() if any(n.op == MASKED for n in walk(*kernel.expressions())) else kernel


class _Clamped(Rewriter):
    """where(mask, v[an index that is inside], 0) for each."""

    def node(self, n: Node) -> Node | None:
        if n.op != MASKED:
            return None
        *indices, mask = (self.go(s) for s in n.src)
        value = self.kernel.values[n.arg]
        extents = [a.arg.extent for a in value.axes]
        if 0 in extents:  # it has no element, and the mask holds nowhere
            return const(0, n.dtype)
        element = ref(n.arg, [_inside(i, size) for i, size in zip(indices, extents, strict=True)], value.dtype)
        return logical("and", mask, element) if n.dtype is bool_ else where(mask, element, 0)


def _inside(i: Node, size: Extent) -> Node:
    """An index, from 0 to the size less 1."""
    i, last = cast(i, index), ix.add(as_node(size), const(-1))
    if largest(ix.add(i, last, -1)) > 0:
        i = minimum(i, last)
    return i if largest(ix.mul(i, const(-1))) <= 0 else maximum(i, 0)
