"""What the ranks of a run say to each other: over MPI (mpi4py), or over torch's gloo. Arrays are NumPy's, contiguous."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Protocol

import numpy as np

from ..shardings import Collective, Layout

Array = Any


class Ranks(Protocol):
    """A group of ranks. Every rank of a group calls the same things in the same order."""

    rank: int
    size: int
    patience: float
    """Seconds until a failure is taken for this rank's own: where a neighbour's death is an error here, the note of it comes first."""

    def split(self, color: int, key: int) -> Ranks:
        """The ranks that said the same color, in the order of their keys. All ranks of the world call it."""

    def barrier(self) -> None:
        """Wait for all."""

    def all_reduce(self, terms: Array) -> Array:
        """The sum over all ranks."""

    def all_gather(self, piece: Array) -> Array:
        """The pieces of all ranks, flat, one after the other."""

    def reduce_scatter(self, terms: Array) -> Array:
        """This rank's piece of the sum of flat arrays."""

    def send(self, value: Array, to: int, tag: int) -> Any:
        """Begin to send; `wait` of what is returned ends it."""

    def receive(self, value: Array, source: int, tag: int) -> None:
        """Wait for what the source sent with this tag."""

    def gather(self, value: Any) -> list[Any]:
        """What each rank said, on all ranks."""

    def free(self) -> None:
        """The group is no longer needed."""

    def end(self) -> None:
        """End all ranks at once: this one failed."""


def world(backend: str) -> Ranks:
    """All ranks, in a process that the launcher started."""
    if backend == "gloo":
        import torch.distributed as dist

        dist.init_process_group("gloo")
        return _Gloo(None, list(range(dist.get_world_size())))
    from mpi4py import MPI

    return _Mpi(MPI.COMM_WORLD)


class Alone:
    """One rank, in this process."""

    rank, size, patience = 0, 1, 0.0

    def split(self, color: int, key: int) -> Alone:
        return self

    def barrier(self) -> None:
        """There is nobody to wait for."""

    def all_reduce(self, terms: Array) -> Array:
        return terms

    def all_gather(self, piece: Array) -> Array:
        return piece.ravel()

    def reduce_scatter(self, terms: Array) -> Array:
        return terms

    def send(self, value: Array, to: int, tag: int) -> Any:
        raise AssertionError("one rank has nobody to send to")

    def receive(self, value: Array, source: int, tag: int) -> None:
        raise AssertionError("one rank has nobody to receive from")

    def gather(self, value: Any) -> list[Any]:
        return [value]

    def free(self) -> None:
        """There is no group."""

    def end(self) -> None:
        """Its error ends it."""


class _Request:
    """A send that has begun. The value lives until it ends."""

    def __init__(self, request: Any, value: Any, end: str) -> None:
        self._request, self._value, self._end = request, value, end

    def wait(self) -> None:
        getattr(self._request, self._end)()


class _Mpi:
    patience = 0.0

    def __init__(self, group: Any) -> None:
        self._group, self.rank, self.size = group, group.Get_rank(), group.Get_size()

    def split(self, color: int, key: int) -> _Mpi:
        return _Mpi(self._group.Split(color, key))

    def barrier(self) -> None:
        self._group.Barrier()

    def all_reduce(self, terms: Array) -> Array:
        total = np.empty_like(terms)
        self._group.Allreduce(terms, total)
        return total

    def all_gather(self, piece: Array) -> Array:
        whole = np.empty(piece.size * self.size, piece.dtype)
        self._group.Allgather(piece, whole)
        return whole

    def reduce_scatter(self, terms: Array) -> Array:
        piece = np.empty(terms.size // self.size, terms.dtype)
        self._group.Reduce_scatter_block(terms, piece)
        return piece

    def send(self, value: Array, to: int, tag: int) -> _Request:
        return _Request(self._group.Isend(value, to, tag), value, "Wait")

    def receive(self, value: Array, source: int, tag: int) -> None:
        self._group.Recv(value, source, tag)

    def gather(self, value: Any) -> list[Any]:
        found: list[Any] = self._group.allgather(value)
        return found

    def free(self) -> None:
        self._group.Free()

    def end(self) -> None:
        self._group.Abort(1)


class _Gloo:
    patience = 2.0

    def __init__(self, group: Any, members: list[int]) -> None:
        import torch
        import torch.distributed as dist

        self._torch, self._dist, self._group, self._members = torch, dist, group, members
        self.rank, self.size = members.index(dist.get_rank()), len(members)

    def split(self, color: int, key: int) -> _Gloo:
        said = self.gather((color, key, self.rank))
        mine = self
        for each in sorted({c for c, _, _ in said}):  # all ranks make all groups, in one order
            members = [self._members[r] for c, _, r in sorted(said) if c == each]
            group = self._dist.new_group(members, use_local_synchronization=False)
            if each == color:
                mine = _Gloo(group, members)
        return mine

    def barrier(self) -> None:
        self._dist.barrier(self._group)

    def all_reduce(self, terms: Array) -> Array:
        total = self._torch.from_numpy(terms.copy())
        self._dist.all_reduce(total, group=self._group)
        return total.numpy()

    def all_gather(self, piece: Array) -> Array:
        whole = np.empty(piece.size * self.size, piece.dtype)
        self._dist.all_gather_into_tensor(self._torch.from_numpy(whole), self._torch.from_numpy(piece.ravel()), group=self._group)
        return whole

    def reduce_scatter(self, terms: Array) -> Array:
        piece = np.empty(terms.size // self.size, terms.dtype)
        self._dist.reduce_scatter_tensor(self._torch.from_numpy(piece), self._torch.from_numpy(terms.ravel()), group=self._group)
        return piece

    def send(self, value: Array, to: int, tag: int) -> _Request:
        return _Request(self._dist.isend(self._torch.from_numpy(value), self._members[to], self._group, tag), value, "wait")

    def receive(self, value: Array, source: int, tag: int) -> None:
        self._dist.recv(self._torch.from_numpy(value), self._members[source], self._group, tag)

    def gather(self, value: Any) -> list[Any]:
        found = [None] * self.size
        self._dist.all_gather_object(found, value, self._group)
        return found

    def free(self) -> None:
        self._dist.destroy_process_group(self._group)

    def end(self) -> None:
        """Whoever started the ranks ends the others when this one is gone."""


# the ranks of one stage as a mesh, and pieces of arrays on it ---------------------------------------------------------


class MeshRanks:
    """Ranks from `first` on, as a mesh of this shape, and pieces of arrays on it: what a layout gives each rank, and how one layout becomes
    another. Of two axes that split one dimension, the first is the outer one. All ranks of the world make one at once, with `axes` axes each at
    most."""

    def __init__(self, world: Ranks, first: int, shape: Sequence[int], axes: int) -> None:
        self.shape, self.first = tuple(shape), first
        self.at = tuple(int(k) for k in np.unravel_index(world.rank - first, self.shape))
        self.axes: list[Ranks | None] = []
        for m in range(axes):
            n = self.shape[m] if m < len(self.shape) else 1
            mine = self.at[m] * prod(self.shape[m + 1 :]) if n > 1 else 0
            group = world.split(world.rank - mine, world.rank)
            if m < len(self.shape):
                self.axes.append(group if n > 1 else None)
            if n == 1:
                group.free()

    def free(self) -> None:
        for axis in self.axes:
            if axis is not None:
                axis.free()

    def piece(self, whole: Array, layout: Layout, since: Layout | None = None) -> Array:
        """This rank's part of an array that `since` had not split."""
        for m, d in enumerate(layout):
            if d >= 0 and (since is None or since[m] != d):
                n = whole.shape[d] // self.shape[m]
                whole = whole[(slice(None),) * d + (slice(self.at[m] * n, (self.at[m] + 1) * n),)]
        return np.asarray(whole, order="C")

    def moved(self, local: Array, source: Layout, target: Layout) -> Array:
        """The same array in another layout: dimensions that other axes split are gathered, and cut anew."""
        if source == target:
            return local
        changed = {d for d in (*source, *target) if d >= 0 and _splitting(source, d) != _splitting(target, d)}
        now = list(source)
        for m in reversed(range(len(source))):
            if source[m] in changed:
                local, now[m] = self._gathered(local, m, source[m]), -1
        return self.piece(local, target, tuple(now))

    def _gathered(self, local: Array, m: int, dim: int) -> Array:
        axis = self.axes[m]
        if axis is None:
            return local
        pieces = axis.all_gather(np.asarray(local, order="C")).reshape(axis.size, *local.shape)
        return np.concatenate(list(pieces), axis=dim)

    def added(self, local: Array, plain: Layout, collectives: Sequence[Collective], target: Layout) -> Array:
        """The sum of parts, over the axes of the collectives, in the target's layout."""
        now = list(plain)
        for c in collectives:
            axis, dim = self.axes[c.axis], target[c.axis]
            if axis is None:
                continue
            if dim >= 0 and _splitting(target, dim) == [c.axis]:
                front = np.ascontiguousarray(np.moveaxis(local, dim, 0))
                part = axis.reduce_scatter(front.ravel()).reshape(front.shape[0] // axis.size, *front.shape[1:])
                local, now[c.axis] = np.moveaxis(part, 0, dim), dim
            else:
                local = axis.all_reduce(np.asarray(local, order="C"))
        return self.moved(local, tuple(now), target)


def _splitting(layout: Layout, dim: int) -> list[int]:
    """Axes of the mesh that split a dimension."""
    return [m for m, d in enumerate(layout) if d == dim]
