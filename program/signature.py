"""How compiled Programs are called: buffers, grids, and what a device must give."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.dtypes import DType
from ..ir.node import Node
from .maps import TensorMap


@dataclass(frozen=True, slots=True)
class Param:
    """One buffer argument, element-aligned only. It is distinct from every other (noalias), but for an output with an
    `alias`, which may be the memory of the input of that name: each element is read before it is written."""

    name: str
    dtype: DType
    shape: tuple[int | Node, ...]
    role: str
    alias: str = ""


@dataclass(frozen=True, slots=True)
class Signature:
    """How to call a compiled Program: phase i is the symbol `{name}_p{i}` with
    `void (void **bufs, int64 *vars, void *scratch, int64 lo, int64 hi)` running grid items [lo, hi). `bufs` holds the
    parameters, then the workspace pointer. Phases run in order, each complete before the next. `threads` and `clusters` (a phase),
    `shared`, `align`, `once` and `maps` are as in Program (`clusters` is empty where all are 1).
    `phase_shared` is the group memory of each phase (empty: `shared` for all); languages with thread groups say in their renderer how arguments are passed."""

    name: str
    params: tuple[Param, ...]
    symbols: tuple[str, ...]
    items: tuple[Node, ...]
    scratch: int
    work: int
    threads: tuple[int, ...] = ()
    shared: int = 0
    align: int = 1
    once: int = 0
    maps: tuple[TensorMap, ...] = ()
    clusters: tuple[int, ...] = ()
    phase_shared: tuple[int, ...] = ()

    def shared_in(self, phase: int) -> int:
        """Bytes of group memory that a phase takes."""
        return self.phase_shared[phase] if self.phase_shared else self.shared

    def bytes_beside(self, workers: int) -> int:
        """Bytes that a call takes beside its arguments: memory between phases (packed constants included), each worker's scratch, and
        the memory that a thread group shares."""
        return self.work + self.scratch * workers + self.shared

    def entry(self, phase: int) -> str:
        """The function name of a phase: what is not ASCII becomes an underscore."""
        return f"{''.join(c if c.isascii() else '_' for c in self.name)}_p{phase}"
