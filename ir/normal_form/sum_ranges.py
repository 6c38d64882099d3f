"""The intervals of a kernel's values: of a sum, of as many elements as it has at most."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from .. import index as ix
from ..body import Reduce, Value
from ..dtypes import index
from ..integer_ranges import KernelRanges, inside, value_range
from ..intervals import Interval
from ..kernel import Kernel
from ..node import Node


def ranges_of(kernel: Kernel) -> Mapping[str, Interval]:
    """The interval of each integer value of which more is known than its type, by name."""
    found: dict[str, Interval] = {}
    for item in kernel.body:
        if isinstance(item, Value) and item.dtype.is_int and item.dtype is not index:
            known = interval(item, KernelRanges(dict(found)))
            if known is not None and inside(known, item.dtype):
                found[item.name] = known
    return found


def interval(v: Value, of: KernelRanges) -> Interval | None:
    """The interval of what a value sums up or computes, whether its type has it or not; None of what is no such value."""
    if isinstance(v.expr, Node):
        return of(v.expr)
    if not isinstance(v.expr, Reduce):
        return None
    low, high = of(v.expr.expr)
    extents = [value_range_of(a) for a in v.expr.axes]
    if v.expr.combine == "add":
        most = prod(max(0, high) for _, high in extents)
        return min(0, low * most), max(0, high * most)
    if v.expr.combine in ("max", "min") and all(least > 0 for least, _ in extents):  # (of none it is an end of the type)
        return low, high
    return None


def value_range_of(a: Node) -> Interval:
    """How many elements an axis may have."""
    extent = a.arg.extent
    return (extent, extent) if isinstance(extent, int) else ix.bounds(extent) if extent.dtype is index else value_range(extent)
