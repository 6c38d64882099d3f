"""What operations of Hopper's asynchronous units are told: mbarriers, boxes that TMA copies, operands of wgmma in shared memory.

All places are byte offsets in the group's shared memory, which starts at a multiple of 1024; what an operation takes as an index beside
them counts elements. `hopper_calls` has a function for each operation:

    mbar_init   (), attr = MBar: sets up its barriers and makes them known to TMA; one thread does it, then a barrier follows
    mbar_arrive (slot[, rank]), attr = MBar: this thread arrives at one of them; at that of group `rank` of the cluster
    mbar_expect (slot, bytes), attr = MBar: arrives, and announces bytes that TMA brings before the phase is over
    mbar_wait   (slot, parity), attr = MBar: goes on once the latest phase of this parity is over
    box_load    (slot, at, coordinates…), attr = BoxLoad: TMA copies a box to shared memory; one thread does it
    box_store   (at, coordinates…), attr = BoxStore: TMA writes a box from shared memory; one thread does it
    box_commit  (): this thread's box_stores so far are a group;   box_wait  (), attr = n: all but its n newest groups have read their boxes
    proxy_fence (): what this thread wrote to shared memory by stores is seen by TMA and wgmma (after a barrier, by those that others start)
    wgmma       (acc, a, b[, add]), attr = WarpgroupProduct: acc + A · B, by the 128 threads of a warpgroup; a is an index or a fragment
    wgmma_fence (): before the first wgmma, and after registers of accumulators or fragments changed
    wgmma_commit(): the products so far are a group;   wgmma_wait  (), attr = n: all but the n newest groups are done
    wgmma_result(acc): the accumulator of a product that has been waited for. The result of a wgmma goes into other products, through
                loops, and through this, and an accumulator is used once: it has one place in registers
    meet        (), attr = n: a barrier of each n consecutive threads of a role (128, or all of it)
    cluster_barrier (): every thread of every group of the cluster

`Roles` gives parts of a group bodies of their own. Inside, there is no `barrier`.

Sources of the rules: PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate", "mbarrier", "cp.async.bulk.tensor" and
"setmaxnreg"; CUTLASS `mma_traits_sm90_gmma.hpp` for what a descriptor's fields mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..ir.dtypes import DType
from ..ir.errors import BuildError
from ..ir.index import evaluate
from ..ir.node import Node, walk

# tensor maps ----------------------------------------------------------------------------------------------------------
# Tensor maps: how the copy engine of a GPU (TMA) sees an array, as data. A driver makes 128 bytes of each before a
# launch.
#
# A map describes an array of up to five dimensions in one parameter's memory. A copy takes one *box* of it, a
# rectangle of elements, to or from shared memory. What lies outside the array is zero when it is read, and is left
# out when it is written. (CUDA driver API, `cuTensorMapEncodeTiled`; PTX ISA, "Tensor Data Movement".)


BYTES = 128
"""Size of an encoded map. As a kernel's parameter it is aligned to 64."""
MOST_IN_BOX = 256
"""Elements that a box has along one dimension at most."""
SWIZZLES = (0, 32, 64, 128)
"""Rows of so many bytes whose 16-byte chunks change places; 0: none do."""


@dataclass(frozen=True, slots=True)
class TensorMap:
    """One map. `param`: the position of the parameter; `dtype`: its elements. `dims`: elements along each dimension, innermost
    first, and `strides`: elements from one to the next along each dimension but the innermost; numbers, or expressions over the symbols.
    `box`: elements of a box along each dimension. `swizzle`: a row of the box is so many bytes, and its 16-byte chunks are exchanged
    in shared memory (see `swizzled`); 0: no exchange. `offset`: the array's first element in the parameter."""

    param: int
    dtype: DType
    dims: tuple[int | Node, ...]
    strides: tuple[int | Node, ...]
    box: tuple[int, ...]
    swizzle: int = 128
    offset: int | Node = 0

    @property
    def bytes(self) -> int:
        """Bytes of a box in shared memory, which is also what a copy counts at its mbarrier."""
        n = self.dtype.size
        for b in self.box:
            n *= b
        return n

    def check(self) -> str | None:
        """What makes the map impossible whatever the symbols are, as a text; None: nothing."""
        rank, unit = len(self.dims), self.dtype.size
        if not 1 <= rank <= 5 or len(self.strides) != rank - 1 or len(self.box) != rank:
            return f"a map of {rank} dimensions has {len(self.strides)} strides and a box of {len(self.box)}"
        if not all(1 <= b <= MOST_IN_BOX for b in self.box):
            return f"a box of {_times(self.box)} elements has more than {MOST_IN_BOX} along a dimension, or none"
        row = self.box[0] * unit
        if row % 16:
            return f"the rows of a box are {row} bytes, no multiple of 16"
        if self.swizzle not in SWIZZLES or 0 < self.swizzle != row:
            return f"rows of {row} bytes are not those of the swizzle of {self.swizzle} bytes"
        for s in self.strides:
            if isinstance(s, int) and s * unit % 16:
                return f"a pitch of {s * unit} bytes is no multiple of 16"
        if isinstance(self.offset, int) and self.offset * unit % 16:
            return f"it begins at byte {self.offset * unit}, no multiple of 16"
        return None


@dataclass(frozen=True, slots=True)
class MapNumbers:
    """A map for known symbols, as `cuTensorMapEncodeTiled` wants it: `dims` in elements, `pitches` of all dimensions but the innermost
    and the `offset` from the parameter's address in bytes."""

    map: TensorMap
    dims: tuple[int, ...]
    pitches: tuple[int, ...]
    offset: int


def numbers(m: TensorMap, name: str, symbols: Mapping[str, int]) -> MapNumbers:
    """The numbers of a map of parameter `name`, given the values of the symbols by name. Raises BuildError that says why TMA cannot
    address such an array; its memory must begin at a multiple of 16 bytes besides."""

    def value(d: int | Node) -> int:
        return d if isinstance(d, int) else evaluate(d, {n: symbols[n.arg.name] for n in walk(d) if n.op == "sym"})

    unit = m.dtype.size
    out = MapNumbers(m, tuple(map(value, m.dims)), tuple(value(s) * unit for s in m.strides), value(m.offset) * unit)
    wrong = m.check()
    if wrong is None and not all(0 < d <= 1 << 32 for d in out.dims):
        wrong = f"{_times(out.dims)} elements"
    if wrong is None and not all(0 < p < 1 << 40 and p % 16 == 0 for p in out.pitches):
        wrong = f"pitches of {', '.join(map(str, out.pitches))} bytes, which must be multiples of 16 below 2^40"
    if wrong is None and (out.offset % 16 or out.offset < 0):
        wrong = f"it begins at byte {out.offset}, no multiple of 16"
    if wrong is not None:
        raise BuildError(f"TMA cannot address {name}: {wrong}; leave out the options that copy it by TMA")
    return out


def swizzled(address: int, swizzle: int) -> int:
    """Where the byte goes that would lie at `address` of shared memory in plain order: bits 4 and up are exchanged with those from 7
    on, as many as 16-byte chunks are in a row (CUTLASS, `cute/swizzle.hpp`: Swizzle<3, 4, 3> for 128 bytes)."""
    chunks = max(1, swizzle // 16)
    return address ^ (address >> 3 & (chunks - 1) << 4)


def _times(xs: Sequence[int]) -> str:
    return " × ".join(map(str, xs))


WARPGROUP = 128
"""Threads that issue a wgmma together."""
REGISTERS = 65536
"""32-bit registers of a multiprocessor."""


@dataclass(frozen=True, slots=True)
class MBar:
    """`count` mbarriers of 8 bytes in a row from byte `base` on. A phase of one is over when `arrivals` threads have arrived and all
    bytes that they announced have landed. Phases are counted from 0; a wait names the parity of a phase, and goes on once the latest
    phase of that parity is over (right after `mbar_init` the one with parity 1 counts as over)."""

    base: int
    count: int
    arrivals: int

    def __str__(self) -> str:
        return f"mbar@{self.base} × {self.count} of {self.arrivals}"


@dataclass(frozen=True, slots=True)
class BoxLoad:
    """A box of `map` (a position in `Program.maps`) goes to byte `to` and on; its bytes count at a barrier of `bar`. `multicast`: a
    mask of the groups of the cluster that get it, each at the same place and barrier of its own (0: this group alone)."""

    map: int
    to: int
    bar: MBar
    multicast: int = 0

    def __str__(self) -> str:
        return f"map{self.map} → shared@{self.to}, {self.bar}" + (f", multicast {self.multicast:#b}" if self.multicast else "")


@dataclass(frozen=True, slots=True)
class BoxStore:
    """A box of `map` is written from byte `source` and on."""

    map: int
    source: int

    def __str__(self) -> str:
        return f"shared@{self.source} → map{self.map}"


@dataclass(frozen=True, slots=True)
class SharedOperand:
    """An operand of a product as it lies in shared memory, in rows of 128 bytes with TMA's swizzle.

    `across` false: rows are those of A (columns of B), k goes along them; eight rows are 1024 bytes, and the next eight lie `stride`
    bytes on (SBO). `across` true (16-bit types alone): k counts rows, and 64 elements of m or n go along them; the next eight of k
    lie `stride` bytes on, the next 64 of m or n `lead` bytes on (LBO)."""

    base: int
    dtype: DType
    stride: int = 1024
    lead: int = 16
    across: bool = False

    def __str__(self) -> str:
        how = f" across, lead {self.lead}" if self.across else ""
        return f"shared@{self.base}:{self.dtype}{how}, stride {self.stride}"

    def address(self, x: int, k: int) -> int:
        """Bytes from the start of the operand to element k of row x, before the swizzle."""
        size = self.dtype.size
        if not self.across:
            return x // 8 * self.stride + x % 8 * 128 + k * size
        row = 128 // size
        return x // row * self.lead + k // 8 * self.stride + k % 8 * 128 + x % row * size


@dataclass(frozen=True, slots=True)
class WarpgroupProduct:
    """`row`: a row of `targets.tensor_rows`. `a` is None where A comes in registers."""

    row: str
    b: SharedOperand
    a: SharedOperand | None = None

    def __str__(self) -> str:
        return f"{self.row} {f'A {self.a}' if self.a else 'A in registers'}; B {self.b}"


HopperAttr = MBar | BoxLoad | BoxStore | WarpgroupProduct


def launch_registers(threads: int) -> int:
    """The registers that a thread of a kernel with `__launch_bounds__(threads, 1)` starts with, where roles set their own: NVRTC gives
    the share of a thread, and no more than setmaxnreg can name."""
    return min(240, REGISTERS // threads // 8 * 8)
