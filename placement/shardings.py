"""How an operation can be split over a mesh, and what it costs to lay an array out anew."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from .collectives import Mesh, MeshAxis
from .shard_graph import Dims, ShardArray, ShardOp

Layout = tuple[int, ...]
"""For each axis of a mesh the dimension of the array that is split over it; -1: every device there has all."""
Price = Callable[[ShardOp, dict[str, int]], float]
"""Seconds of an operation, when its axes have these extents."""


@dataclass(frozen=True)
class Collective:
    """`why`: the operation or array. `axis`: of the mesh. `nbytes` as `MeshAxis.seconds` takes them."""

    kind: str
    axis: int
    nbytes: float
    why: str


@dataclass(frozen=True)
class Sharding:
    """A way to run an operation, or to store an array. `split`: for each axis of the mesh the operation's axis that is
    split over it, '' for none. `reads`: the layouts that it needs, `writes` the one that it makes, after its
    `collectives`. `local`: extents on a device. `made`: bytes that its output takes on a device."""

    split: tuple[str, ...]
    reads: tuple[Layout, ...]
    writes: Layout
    collectives: tuple[Collective, ...]
    local: dict[str, int]
    made: float = 0.0

    def adding(self, op: ShardOp) -> list[Collective]:
        """The collectives, of this operation: operations that are alike share a sharding."""
        return [replace(c, why=op.name) for c in self.collectives]


def local_bytes(nbytes: float, layout: Layout, mesh: Mesh) -> float:
    """The bytes of an array that are on a device."""
    return nbytes / prod(axis.n for axis, dim in zip(mesh, layout) if dim >= 0)


def local_shape(shape: Sequence[int], layout: Layout, mesh: Mesh) -> tuple[int, ...]:
    """The shape of an array's piece on a device."""
    return tuple(size // prod(axis.n for axis, at in zip(mesh, layout) if at == d) for d, size in enumerate(shape))


def fits(layout: Layout, shape: Sequence[int], mesh: Mesh) -> bool:
    """Whether every split dimension has equal pieces."""
    return all(size % prod(axis.n for axis, at in zip(mesh, layout) if at == d) == 0 for d, size in enumerate(shape))


def layouts(shape: Sequence[int], mesh: Mesh) -> list[Layout]:
    """Every layout of an array."""
    found = itertools.product(range(-1, len(shape)), repeat=len(mesh))
    return [x for x in found if fits(x, shape, mesh) and not _pointless(x, mesh)]


def _pointless(split: Sequence[int | str], mesh: Mesh) -> bool:
    """Something is split over one device."""
    return any(axis.n == 1 and at not in (-1, "") for axis, at in zip(mesh, split))


def _where(dims: Dims, split: Sequence[str]) -> Layout:
    return tuple(dims.index(axis) if axis and axis in dims else -1 for axis in split)


def shardings(op: ShardOp, out: ShardArray, mesh: Mesh, as_alpa: bool = False) -> tuple[Sharding, ...]:
    """Every way to split an operation: each axis of the mesh splits one of its axes, or none. What is a part of a sum
    then is added up, into every device (all-reduce) or a piece into each (reduce-scatter). `as_alpa`: only what Alpa
    takes by default: no reduce-scatter, and no axis that is split over two axes of the mesh."""
    axes, reads, devices = tuple(op.axes.items()), tuple(dims for _, dims in op.reads), tuple(axis.n for axis in mesh)
    return _shardings(axes, reads, op.writes[1], op.whole, out.shape, out.itemsize, devices, as_alpa)


@functools.lru_cache(4096)
def _shardings(
    axes: tuple[tuple[str, int], ...],
    reads: tuple[Dims, ...],
    writes: Dims,
    whole: frozenset[str],
    shape: tuple[int, ...],
    itemsize: int,
    devices: tuple[int, ...],
    as_alpa: bool,
) -> tuple[Sharding, ...]:
    mesh, nbytes, found = tuple(map(MeshAxis, devices)), prod(shape) * itemsize, []
    for split in itertools.product(("", *(name for name, _ in axes if name not in whole)), repeat=len(mesh)):
        if _pointless(split, mesh) or (as_alpa and len({*split} - {""}) < sum(map(bool, split))):
            continue
        pieces = {name: prod(n for n, at in zip(devices, split) if at == name) for name, _ in axes}
        if any(extent % pieces[name] for name, extent in axes):
            continue
        local = {name: extent // pieces[name] for name, extent in axes}
        plain = _where(writes, split)
        partial = [m for m, at in enumerate(split) if at and at not in writes]
        for to in itertools.product(range(-1, 0 if as_alpa else len(shape)), repeat=len(partial)):
            now, collectives = plain, []
            for m, dim in zip(partial, to):
                part = local_bytes(nbytes, now, mesh)
                now = (*now[:m], dim, *now[m + 1 :])
                collectives.append(Collective("all-reduce" if dim < 0 else "reduce-scatter", m, part, ""))
            if fits(now, shape, mesh):
                needs = tuple(_where(dims, split) for dims in reads)
                found.append(Sharding(split, needs, now, tuple(collectives), local, local_bytes(nbytes, now, mesh)))
    return tuple(found)


def relayout(nbytes: float, source: Layout, target: Layout, mesh: Mesh, why: str = "") -> list[Collective]:
    """The collectives from one layout of an array to another. A piece of what every device has costs nothing."""
    found, now = [], source
    for m, (a, b) in enumerate(zip(source, target)):
        if a >= 0 and b != a:
            if b < 0:
                now = (*now[:m], -1, *now[m + 1 :])
                found.append(Collective("all-gather", m, local_bytes(nbytes, now, mesh), why))
            else:
                found.append(Collective("all-to-all", m, local_bytes(nbytes, now, mesh), why))
                now = (*now[:m], b, *now[m + 1 :])
    return found


def seconds(collectives: Sequence[Collective], mesh: Mesh) -> float:
    """Seconds of all of them, one after the other."""
    return sum(mesh[c.axis].seconds(c.kind, c.nbytes) for c in collectives)
