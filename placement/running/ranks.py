"""What the ranks of a run say to each other: over MPI (mpi4py), or over torch's gloo. Arrays are NumPy's, contiguous."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

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
