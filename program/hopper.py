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

from dataclasses import dataclass

from ..ir.dtypes import DType

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
