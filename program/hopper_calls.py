"""A function for each operation of Hopper's asynchronous units: what builds Programs calls these.

from tilewright.program import hopper_calls as hc
full = MBar(base=65536, count=3, arrivals=1)
hc.wait(b, full, slot, parity)
"""

from __future__ import annotations

from collections.abc import Sequence

from .builder import Builder
from .hopper import BoxLoad, BoxStore, MBar, WarpgroupProduct
from .program import Val


def init(b: Builder, bar: MBar) -> None:
    """Set up all barriers of `bar`: one thread does it, then comes a barrier of the group (of the cluster, if there is one)."""
    b.emit("mbar_init", attr=bar)


def arrive(b: Builder, bar: MBar, slot: Val, rank: Val | None = None) -> None:
    """This thread arrives at barrier `slot`, or at the one of the group `rank` of the cluster."""
    b.emit("mbar_arrive", slot, *(() if rank is None else (rank,)), attr=bar)


def expect(b: Builder, bar: MBar, slot: Val, nbytes: Val) -> None:
    """This thread arrives and announces bytes."""
    b.emit("mbar_expect", slot, nbytes, attr=bar)


def wait(b: Builder, bar: MBar, slot: Val, parity: Val) -> None:
    """This thread waits for the phase of that parity."""
    b.emit("mbar_wait", slot, parity, attr=bar)


def load(b: Builder, box: BoxLoad, slot: Val, at: Val, coordinates: Sequence[Val]) -> None:
    """A box to element `at` behind `box.to`, from these elements of the array, innermost first."""
    b.emit("box_load", slot, at, *coordinates, attr=box)


def store(b: Builder, box: BoxStore, at: Val, coordinates: Sequence[Val]) -> None:
    """A box from element `at` behind `box.source`."""
    b.emit("box_store", at, *coordinates, attr=box)


def product(b: Builder, what: WarpgroupProduct, acc: Val, a: Val, at: Val, add: Val | None = None) -> Val:
    """acc + A · B by a warpgroup: `a` is a fragment, or the element at which A starts behind its base, `at` that of B. Where the bool
    `add` is false, acc counts as zero."""
    return b.here("wgmma", acc, acc, a, at, *(() if add is None else (add,)), attr=what)


def result(b: Builder, acc: Val) -> Val:
    """The accumulator of a product that has been waited for."""
    return b.here("wgmma_result", acc, acc)


def commit(b: Builder) -> None:
    """The products so far are a group."""
    b.emit("wgmma_commit")


def finish(b: Builder, left: int = 0) -> None:
    """All but the `left` newest groups of products are done."""
    b.emit("wgmma_wait", attr=left)


def fence(b: Builder) -> None:
    """A fence: before the first product, and after registers of accumulators or fragments changed."""
    b.emit("wgmma_fence")


def stored(b: Builder, left: int = 0) -> None:
    """This thread's stores of boxes so far are a group, and all but the `left` newest groups have been read."""
    b.emit("box_commit")
    b.emit("box_wait", attr=left)


def proxy_fence(b: Builder) -> None:
    """What this thread stored to shared memory is seen by TMA and wgmma, once those who start them know of it."""
    b.emit("proxy_fence")


def meet(b: Builder, threads: int = 128) -> None:
    """A barrier of each so many consecutive threads of a role."""
    b.emit("meet", attr=threads)


def cluster_barrier(b: Builder) -> None:
    """A barrier of all groups of the cluster."""
    b.emit("cluster_barrier")
