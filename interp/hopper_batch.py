"""The threads of one group in a phase with asynchronous copies, and what they do with mbarriers, boxes and products.

Threads of a role run together, as those of a group do elsewhere (`threads`); `on` says who takes part. Functions that may have to wait
are generators (`cluster`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..program.hopper import WARPGROUP, MBar, WarpgroupProduct
from ..program.program import Instr, Program, Role, Roles
from ..targets.tensor_rows import wgmma_named
from .cluster import Agent, Cluster, MBarrierState, Waiting
from .ops import Array
from .tensor_core_units import PendingAccumulator, addresses, fragment, multiplied
from .threads import On, ThreadBatch
from .worker_memory import Clock


class HopperBatch(ThreadBatch):
    """The threads of the group `rank` of a cluster."""

    def __init__(self, program: Program, clock: Clock, phase: int, threads: int, warp: int, rank: int) -> None:
        super().__init__(program, clock, phase, threads, warp)
        self.rank = rank

    def enter(self, cluster: Cluster) -> None:
        """Begin a group of this cluster."""
        self.begin([cluster.items[self.rank]])
        self.cluster = cluster
        self.memory, self.barriers = cluster.memories[self.rank], cluster.barriers[self.rank]
        self.issued: dict[int, int] = {}
        """By warpgroup: the number of its last product; below, those that are done, and the number at the end of each group under way."""
        self.done: dict[int, int] = {}
        self.groups: dict[int, list[int]] = {}
        self.holding: dict[int, list[tuple[int, Array]]] = {}
        """By warpgroup: what products under way read, (number, bytes)."""
        self.fenced: dict[int, bool] = {}
        self.stores: dict[int, list[list[Array]]] = {}
        """By thread: what its stores of boxes read, by group, the newest (not committed) last."""

    # who ----------------------------------------------------------------------------------------------------------------
    def lanes_of(self, on: On) -> Array:
        """The numbers of those who take part."""
        return self.thread if on is None else self.thread[on]

    def who(self, on: On, s: Instr) -> Array:
        """Their actors; `s` is what they do now."""
        self.cluster.statement = s
        return self.cluster.thread(self.rank, self.lanes_of(on))

    def agreed(self, on: On, value: Any, what: str, s: Instr) -> int:
        """A number that all who take part must have alike."""
        found = np.broadcast_to(value, self.count)[on if on is not None else slice(None)]
        if (found != found[0]).any():
            k = int((found != found[0]).argmax())
            self.cluster.wrong(f"threads that wait together give {what} {found[0]} and {found[k]}", int(self.who(on, s)[k]))
        return int(found[0])

    def units_of(self, on: On, size: int, s: Instr) -> list[int]:
        """The units of `size` threads that take part, all of each."""
        lanes = self.lanes_of(on)
        units = sorted(set((lanes // size).tolist()))
        if len(units) * size != len(lanes):
            self.cluster.wrong(f"only {len(lanes)} threads of {len(units)} units of {size} come to {s.op}", int(self.who(on, s)[0]))
        return units

    # meeting --------------------------------------------------------------------------------------------------------------
    def barrier(self, on: On, s: Instr) -> None:
        super().barrier(on, s)
        if on is None or on.any():
            self.cluster.clocks.join(self.who(on, s))

    def meet(self, on: On, role: Role | None, s: Instr) -> None:
        """Each `s.number` threads of a role come together."""
        first = role.first if role is not None else 0
        lanes = self.lanes_of(on) - first
        for unit in sorted(set((lanes // s.number).tolist())):
            some = lanes[lanes // s.number == unit] + first
            if len(some) != s.number:
                self.cluster.wrong(f"only {len(some)} of {s.number} threads come to the barrier", int(self.who(on, s)[0]))
            self.cluster.clocks.join(self.cluster.thread(self.rank, some))
        self.clock.now += 1
        self.epoch = self.clock.now

    def cluster_barrier(self, on: On, s: Instr) -> Agent:
        """All groups of the cluster come together."""
        self.barrier(on, s)
        yield from self.cluster.meet(self.rank, self.lanes_of(on))

    def roles(self, s: Roles, bodies: Sequence[Callable[[On], Agent]]) -> Agent:
        """Run the bodies of roles side by side."""
        self.clock.now += 1
        self.epoch = self.clock.now
        item = self.items[0]
        ends = []
        for r, body in zip(s.roles, bodies, strict=True):
            on = (self.thread >= r.first) & (self.thread < r.first + r.threads)
            ends.append(self.cluster.add(body(on), f"{r.name} of item {item}"))
        while not all(end() for end in ends):
            yield Waiting(lambda: all(end() for end in ends), lambda: "its roles")

    def finish(self) -> None:
        """The group has ended."""
        for wg, held in self.holding.items():
            if held:
                self.cluster.wrong(
                    "the group ends while a wgmma is under way: wgmma_wait is missing", self.rank * self.threads + wg * WARPGROUP
                )
        for thread, groups in self.stores.items():
            if any(groups):
                self.cluster.wrong(
                    "the group ends while TMA reads a box: box_commit and box_wait are missing", self.rank * self.threads + thread
                )
        self.cluster.over[self.rank] = True

    # mbarriers ------------------------------------------------------------------------------------------------------------
    def mbar_init(self, on: On, s: Instr, bar: MBar) -> None:
        """Set up mbarriers."""
        who = self.who(on, s)
        if len(who) != 1:
            self.cluster.wrong(f"{len(who)} threads set up mbarriers, and one does", int(who[0]))
        clocks = self.cluster.clocks
        for i in range(bar.count):
            at = bar.base + 8 * i
            if at in self.barriers:
                self.cluster.wrong(f"the mbarrier at byte {at} is set up twice", int(who[0]))
            state = MBarrierState(bar.arrivals, self.cluster.slot(self.rank), (int(who[0]), int(clocks.now(who)[0])))
            state.begin(len(clocks.seen))
            self.barriers[at] = state
            self.memory.barrier[at : at + 8] = True
        clocks.tick(who)

    def find(self, bar: MBar, slot: int, who: Array, rank: int) -> MBarrierState:
        """An mbarrier of a group of the cluster that all of `who` know to be set up."""
        cluster = self.cluster
        if not 0 <= slot < bar.count:
            cluster.wrong(f"{bar} has no barrier {slot}", int(who[0]))
        if not 0 <= rank < len(cluster.items):
            cluster.wrong(f"the cluster has no group {rank}", int(who[0]))
        if cluster.over[rank]:
            cluster.wrong(f"group {rank} of the cluster has ended: end with a cluster_barrier", int(who[0]))
        state = cluster.barriers[rank].get(bar.base + 8 * slot)
        if state is None:
            cluster.wrong(f"nobody set up the mbarrier at byte {bar.base + 8 * slot}", int(who[0]))
        maker, time = state.made
        late = cluster.clocks.seen[who, maker] < time
        if late.any():
            cluster.wrong(f"an mbarrier is used with no barrier since {cluster.actor(maker)} set it up", int(who[late.argmax()]))
        return state

    def mbar_arrive(self, on: On, s: Instr, bar: MBar, slot: Any, rank: Any = None) -> None:
        """Threads arrive, those with one slot and group at once."""
        who = self.who(on, s)
        pick = on if on is not None else slice(None)
        slots = np.broadcast_to(slot, self.count)[pick]
        ranks = np.broadcast_to(self.rank if rank is None else rank, self.count)[pick]
        for at, to in sorted(set(zip(slots.tolist(), ranks.tolist(), strict=True))):
            some = who[(slots == at) & (ranks == to)]
            state = self.find(bar, at, some, to)
            if not state.arrive(len(some), self.cluster.clocks.told(some)):
                self.cluster.wrong(f"more threads arrive at an mbarrier than the {state.arrivals} it counts", int(some[0]))

    def mbar_expect(self, on: On, s: Instr, bar: MBar, slot: Any, nbytes: Any) -> None:
        """A thread announces bytes and arrives."""
        who = self.who(on, s)
        if len(who) != 1:
            self.cluster.wrong(f"{len(who)} threads announce bytes, and one does", int(who[0]))
        state = self.find(bar, self.agreed(on, slot, "slots", s), who, self.rank)
        state.bytes += self.agreed(on, nbytes, "bytes", s)
        if not state.arrive(1, self.cluster.clocks.told(who)):
            self.cluster.wrong(f"more threads arrive at an mbarrier than the {state.arrivals} it counts", int(who[0]))

    def mbar_wait(self, on: On, s: Instr, bar: MBar, slot: Any, parity: Any) -> Agent:
        """Threads wait for a phase."""
        who = self.who(on, s)
        at, p = self.agreed(on, slot, "slots", s), self.agreed(on, parity, "parities", s)
        if p not in (0, 1):
            self.cluster.wrong(f"a parity is 0 or 1, not {p}", int(who[0]))
        state = self.find(bar, at, who, self.rank)
        while not state.passed(p):
            yield Waiting(lambda: state.passed(p), lambda: f"barrier {at} of {bar} with parity {p} ({state})")
        self.cluster.clocks.learn(who, state.over)

    # products -------------------------------------------------------------------------------------------------------------
    def wgmma_fence(self, on: On, s: Instr) -> None:
        """Registers may be read by products from now on."""
        for wg in self.units_of(on, WARPGROUP, s):
            self.fenced[wg] = True

    def wgmma(self, on: On, s: Instr, p: WarpgroupProduct, acc: Any, a: Any, at: Any, add: Any = True) -> PendingAccumulator:
        """Begin a product."""
        row = wgmma_named(p.row)
        assert row is not None
        pending = acc if isinstance(acc, PendingAccumulator) else None
        start = pending.data if pending is not None else np.broadcast_to(acc, (self.count, s.result.lanes))
        data, last = np.array(start), dict(pending.last) if pending is not None else {}
        twin = self.cluster.as_twin
        for wg in self.units_of(on, WARPGROUP, s):
            some = np.arange(wg * WARPGROUP, (wg + 1) * WARPGROUP)
            mine = np.zeros(self.count, bool)
            mine[some] = True
            who = self.who(mine, s)
            if not self.fenced.get(wg):
                self.cluster.wrong("a wgmma with no wgmma_fence since registers may have changed", int(who[0]))
            b, held = self._operand(p.b, self.agreed(mine, at, "places of B", s), row.n, row.k, who)
            if p.a is None:
                tile = self._fragment(row, np.broadcast_to(a, (self.count, row.elements("a")))[some])
                parts = [held]
            else:
                tile, more = self._operand(p.a, self.agreed(mine, a, "places of A", s), row.m, row.k, who)
                parts = [held, more]
            number = self.issued[wg] = self.issued.get(wg, 0) + 1
            self.holding.setdefault(wg, []).extend((number, x) for x in parts)
            data[some] = multiplied(row, data[some], tile, b, bool(self.agreed(mine, add, "choices", s)), twin)
            last[wg] = number
        return PendingAccumulator(data, last)

    def wgmma_commit(self, on: On, s: Instr) -> None:
        """The products so far are a group."""
        for wg in self.units_of(on, WARPGROUP, s):
            self.groups.setdefault(wg, []).append(self.issued.get(wg, 0))

    def wgmma_wait(self, on: On, s: Instr) -> None:
        """Older groups are done, and let go what they read."""
        for wg in self.units_of(on, WARPGROUP, s):
            groups = self.groups.setdefault(wg, [])
            over, self.groups[wg] = groups[: len(groups) - s.number], groups[max(0, len(groups) - s.number) :]
            self.fenced[wg] = False
            if not over:
                continue
            self.done[wg] = over[-1]
            actor = self.cluster.tensor_cores(self.rank, wg)
            for number, held in self.holding[wg]:
                if number <= over[-1]:
                    self.memory.let_go(held, actor)
            self.holding[wg] = [h for h in self.holding[wg] if h[0] > over[-1]]
            clocks, threads = self.cluster.clocks, np.arange(wg * WARPGROUP, (wg + 1) * WARPGROUP)
            clocks.learn(self.cluster.thread(self.rank, threads), clocks.seen[actor].copy())
            clocks.tick(np.array([actor]))

    def wgmma_result(self, on: On, s: Instr, acc: Any) -> Any:
        """What products came to that are done."""
        if not isinstance(acc, PendingAccumulator):
            return acc
        for wg in self.units_of(on, WARPGROUP, s):
            if acc.last.get(wg, 0) > self.done.get(wg, 0):
                who = self.cluster.thread(self.rank, np.array([wg * WARPGROUP]))
                self.cluster.statement = s
                self.cluster.wrong(
                    "an accumulator is used before its products are done: no wgmma_commit and wgmma_wait cover them", int(who[0])
                )
        return acc.data

    def _operand(self, o: Any, at: int, extent: int, k: int, who: Array) -> tuple[Array, Array]:
        """(elements (extent, k), the bytes they are) of an operand in shared memory, which is held from now on."""
        start = o.base + at * o.dtype.size
        if start & 0x380 or start % 16 or at < 0:
            self.cluster.wrong(f"an operand at byte {start} is no start of eight rows of 128 bytes", int(who[0]))
        first = addresses(o, start, extent, k)
        if first.max() + o.dtype.size > self.memory.size:
            self.cluster.wrong(f"an operand at byte {start} leaves the shared memory", int(who[0]))
        held = np.unique(self.memory.bytes_of(first, o.dtype.size))
        self.memory.hold(held, who, "a wgmma")
        return self.memory.get(first, o.dtype), held

    @staticmethod
    def _fragment(row: Any, a: Array) -> Array:
        i, k = fragment(row, "a")
        tile = np.zeros((row.m, row.k), a.dtype)
        tile[i, k] = a
        return tile
