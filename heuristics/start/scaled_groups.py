"""Start schedules of sums along which something is the same for a group of neighbours: weights with a scale and a zero point for each 64."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from ...ir.buffer import loads
from ...ir.dtypes import index
from ...ir.kernel import Kernel
from ...ir.node import Node, walk
from ...opts.analysis.structure import extent, nests, shared_axes
from ...opts.nests import Nest
from ...opts.opt import Opts, opt
from ...opts.options.fuse import with_rows
from ...targets import Target

MOST = 8
"""Vectors of a group at most: more are cut."""


def scaled_groups(kernel: Kernel, target: Target, threads: int, lanes: int) -> Iterator[Opts]:
    """Lanes over the elements of a group, so that what is read once a group is read once, in one of the vectors that a group has; two rows
    at once, or one, the outer rows in parallel."""
    shared = shared_axes(kernel)
    for n in nests(kernel):
        found = _group(n) if n.kind == "reduce" else None
        if found is None:
            continue
        axis, size = found
        while size > MOST * lanes and size % 2 == 0:
            size //= 2
        size = max(size, lanes)  # (of narrower groups a vector has several, whose scales are loaded together and spread)
        if extent(axis) < size or (extent(axis) % size and size > lanes):
            continue
        rows = [a for a in shared if a in n.axes]
        parallel = [opt("PARALLEL", a.arg.name) for a in rows[:1] if extent(a) >= threads]
        for copies in (2, 1, 4):
            at_once = [opt("UPCAST", a.arg.name, copies) for a in rows[-1:] if copies > 1 and extent(a) % copies == 0]
            yield (opt("UPCAST", axis.arg.name, size), *at_once, *parallel, *with_rows(kernel, target))


def _group(n: Nest) -> tuple[Node, int] | None:
    """A reduced axis, and how many neighbours along it have one place in some array: the common divisor of all that its number is
    divided by; None where there is no such axis."""
    for axis in n.reduce_axes:
        sizes = [
            int(x.arg)
            for _, indices, _ in loads(*n.roots)
            for i in indices
            for x in walk(i)
            if x.op == "div" and x.dtype is index and x.src[0] is axis
        ]
        if sizes and (common := gcd(*sizes)) > 1:
            return axis, common
    return None
