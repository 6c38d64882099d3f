"""What lowering knows of a schedule and never changes: where parameters lie, who reads what, and how wide vectors are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import gcd, prod

from ..ir import index as ix
from ..ir.buffer import Buffer
from ..ir.dtypes import DType
from ..ir.integer_ranges import KernelRanges, ranges_of
from ..ir.kernel import Kernel
from ..ir.node import Node
from ..opts.access import dense, grouped
from ..opts.loop_tree import Reads
from ..opts.schedule import Scheduled
from ..program.program import Mem
from .part_index import PartTable, linear_index, over_parts


@dataclass(frozen=True, eq=False)
class Context:
    """One schedule on its way to a phase of a Program. `params` gives a buffer's position in the Program's parameter list; buffers
    without one lie in the workspace between phases, from the byte on that `work` says."""

    sched: Scheduled
    params: Mapping[str, int]
    symbols: tuple[Node, ...]
    work: Mapping[str, int]

    @property
    def kernel(self) -> Kernel:
        """The kernel that is lowered."""
        return self.sched.kernel

    @cached_property
    def dtypes(self) -> dict[str, DType]:
        """The element type of each buffer."""
        return {b.name: b.dtype for b in self.kernel.buffers}

    @cached_property
    def range(self) -> KernelRanges:
        """The values that an integer expression of the kernel can have."""
        return KernelRanges(ranges_of(self.kernel))

    @cached_property
    def strides(self) -> dict[str, tuple[int | Node, ...]]:
        """The strides of each buffer, in elements."""
        return {b.name: dense(b.shape) for b in self.kernel.buffers}

    @cached_property
    def axis_index(self) -> PartTable:
        """Each axis as an index over the parts that it is cut into."""
        return PartTable({a: p.index for a, p in self.sched.plans.items()})

    def grouped(self, position: int, step: int) -> bool:
        """Whether the parameter at a position is known to hold whole groups of `step` elements, which nobody writes to."""
        written = {b.alias for b in self.kernel.outputs}
        found = [b for b in self.kernel.inputs if self.params.get(b.name) == position and b.name not in written]
        return any(grouped(b.shape, step) for b in found)

    @property
    def width(self) -> int:
        """Lanes of a vector: as many as the widest element type of the phase has."""
        return self.sched.width

    @cached_property
    def branches(self) -> bool:
        """Whether a branch is better than a masked store: where there are neither mask registers nor groups of threads."""
        return not self.sched.target.groups and "avx512" not in self.sched.target.features

    @property
    def reads(self) -> Reads:
        """For each value the nests that read it, with the indices they read it at."""
        return self.sched.tree.reads

    @property
    def merged(self) -> frozenset[str]:
        """Components of folds that are cut: the merge reads them, though no nest of the kernel does."""
        return self.sched.tree.merged

    def param(self, name: str, nt: bool = False) -> Mem:
        """The memory of a buffer; `nt`: stores to it are non-temporal."""
        dtype = self.dtypes[name]
        if name not in self.params:
            return Mem("work", self.work[name], dtype, align=dtype.size)
        return Mem("param", self.params[name], dtype, align=dtype.size, nt=nt)

    def buffer(self, mem: Mem) -> Buffer | None:
        """The parameter or workspace that memory belongs to; None for scratch. (A phase's kernel has some of the Program's parameters, so their
        numbers are not its own.)"""
        bases = {"param": self.params, "work": self.work}.get(mem.space, {})
        return next((b for b in self.kernel.buffers if bases.get(b.name) == mem.base), None)

    def at(self, mem: Mem, base: Node, offset: int, lanes: int) -> Mem:
        """`mem` with a constant offset in elements, and the alignment in bytes that the index `base` proves."""
        align = mem.dtype.size
        target = self.sched.target
        if mem.space != "param" or mem.nt or target.groups:
            terms, fixed = ix.parts(base)
            sizes = (v * mem.dtype.size for v in (fixed + offset, *terms.values()))
            align = max(align, gcd(target.vector_bytes if mem.space == "param" else 64, *sizes))
        # a non-temporal store of a whole aligned vector, or an ordinary one
        streams = mem.nt and lanes * mem.dtype.size == target.vector_bytes <= align
        return Mem(mem.space, mem.base, mem.dtype, offset, align if streams or not mem.nt else mem.dtype.size, streams)

    def address(self, buffer: str, indices: Iterable[Node], table: PartTable | None = None) -> Node:
        """The element of a buffer at indices over axes, rewritten over parts by `table` (`axis_index` if not given)."""
        over = self.axis_index if table is None else table
        return linear_index((over_parts(i, over) for i in indices), self.strides[buffer])


def workspace_layout(kernels: Iterable[Kernel], params: Mapping[str, int]) -> tuple[dict[str, int], int]:
    """Where each buffer that is no parameter lies in the workspace between phases, in bytes, and the bytes of it all. Buffers of one
    name have one place."""
    sizes: dict[str, int] = {}
    for b in (b for k in kernels for b in k.buffers if b.name not in params):
        sizes[b.name] = max(sizes.get(b.name, 0), _bytes(b))
    places, top = {}, 0
    for name, size in sizes.items():
        places[name], top = top, top + size
    return places, top


def _bytes(buffer: Buffer) -> int:
    size = buffer.dtype.size * prod(ix.upper(d) for d in buffer.shape)
    return (size + 127) // 64 * 64
