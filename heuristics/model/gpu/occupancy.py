"""How many groups are resident on a multiprocessor: what registers, shared memory and threads leave room for."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from ....ir.buffer import load_parts
from ....ir.dtypes import index
from ....ir.node import Node, axes_of
from ....opts.nests import Nest
from ....opts.options.grid import REGISTERS, consumers
from ....opts.schedule import Scheduled
from ....targets import Target
from ....targets.table import rates_of
from ...machine import SLOW, Bandwidth, Gpu


@dataclass(frozen=True, slots=True)
class Chip:
    """One GPU. `memory`: bytes a cycle, of all multiprocessors together; `l2`: bytes a cycle of each while all ask;
    `float32`: operations a multiprocessor's threads do in a cycle; `latency` and `l2_latency`: cycles; sizes in
    bytes."""

    costs: Gpu
    cores: int
    clock: float
    memory: float
    l2: float
    float32: float
    latency: float
    l2_latency: float
    l1: int
    l2_size: int
    shared: int
    threads: int
    groups: int

    @property
    def needed(self) -> float:
        """Bytes that have to be under way on a multiprocessor to keep the memory busy (Little's law: rate ×
        latency)."""
        return self.memory * self.latency / self.cores


def chip_of(target: Target, costs: Gpu, limits: Bandwidth | None = None) -> Chip:
    """The GPU of `target`: with the bandwidth that was measured, else what its driver or its data sheet says of it."""
    r = rates_of(target)
    memory = limits.bandwidth(1) if limits is not None else r.memory * costs.reached
    shared = max(r.shared, target.shared + costs.reserved) if target.shared else r.shared
    return Chip(
        costs, target.cores, r.clock, memory / r.clock, min(r.l2, r.l2_all / max(1, target.cores)), r.float32,
        r.latency * r.clock, r.l2_latency * r.clock, target.l1, target.l2, shared, r.threads, r.groups,
    )  # fmt: skip


def thread_registers(s: Scheduled, chip: Chip) -> float:
    """Registers that a thread wants: for addresses, for the accumulators and operands of the nest that has most, and
    for values that wait in registers for a later nest."""
    g = chip.costs
    kept = {name: _words(s, n, chip) for n in s.nests for name in n.made if name in s.tree.registers}
    arrays = kept_arrays(s)
    made = {name: i for i, n in enumerate(s.nests) for name in n.made}
    last = {r.arg: i for i, n in enumerate(s.nests) for r in n.refs}
    most = 0.0
    for i, n in enumerate(s.nests):
        # (a tile's result is merged into the state out of its accumulators)
        waiting = sum(w for name, w in kept.items() if name not in n.made or name in s.tree.merged)
        before = sum(k.registers for name, k in arrays.items() if made[name] < i <= last[name])
        after = sum(k.registers for name, k in arrays.items() if made[name] <= i < last[name] and name != n.name)
        most = max(most, _live(s, n, chip) + waiting + _ahead(s, n, chip) + max(before, after))
    return g.base_registers + g.address_registers * len(s.kernel.buffers) + most


def register_limit(s: Scheduled, g: Gpu) -> float:
    """Registers that a thread may have."""
    return REGISTERS[consumers(s)][1] if consumers(s) else s.launch.registers or g.registers


def _words(s: Scheduled, n: Nest, chip: Chip) -> float:
    """Registers for the results of a nest that one thread holds."""
    each = max(1.0, n.expr.dtype.compute.size / chip.costs.word)
    return each * prod(p.trips for p in s.registers(n) if p.axis in n.axes)


def _live(s: Scheduled, n: Nest, chip: Chip) -> float:
    """Accumulators, and the operands of one step."""
    regs, each = s.registers(n), max(1.0, n.expr.dtype.compute.size / chip.costs.word)
    held = prod(p.trips for p in regs if p.axis in n.axes or p.kind == "upcast")
    t = s.tensors.get(n.name)
    if t is not None:
        words = [t.row.elements(o) * d.size / chip.costs.word for o, d in (("a", t.row.a), ("b", t.row.b), ("c", t.row.c))]
        tiles = [
            prod(p.trips for p in regs if p.axis is a) / prod(x.count for x in t.row.c_parts if x.axis == letter and x.kind != "thread")
            for letter, a in (("m", t.m), ("n", t.n))
        ]
        if t.row.unit > chip.costs.warp:  # operands stay in shared memory
            return tiles[0] * tiles[1] * words[-1]
        # fragments of a step along the reduction are loaded while those before are used, but for where little room is left
        steps = 1 if n.name in s.tree.merged else 1 + 1
        return tiles[0] * tiles[1] * words[-1] + steps * (tiles[0] * words[0] + tiles[1] * words[1])
    if n.kind != "reduce":  # each element is finished before the next, but for what is loaded ahead
        return each * min(held, chip.costs.loaded)
    sides = sum(p.trips for p in regs if p.axis in n.axes and p.kind == "upcast")
    return each * (held + sides)


def _ahead(s: Scheduled, n: Nest, chip: Chip) -> float:
    """Registers for what a loop over memory loads ahead, where the compiler spells it out."""
    g = chip.costs
    far = any(load_parts(x)[0].name not in s.stages for x in n.loads)
    loops = [p.trips for p in s.loops(n) if p.kind != "grid"]
    return g.loaded * min(g.access / g.word, max(loops[-1] / g.loaded, 1.0)) if far and loops and n.kind == "reduce" else 0.0


def group_shared(s: Scheduled) -> int:
    """Bytes of shared memory of a group's tiles and kept values."""
    tiles = sum(st.bytes for st in s.stages.values()) if s.group > 1 else 0
    return tiles + int(sum(k.shared for k in kept_arrays(s).values()))


def resident_groups(s: Scheduled, chip: Chip, registers: float) -> int:
    """Groups that are resident on a multiprocessor at once, one at least; one with roles, which share out all registers."""
    if consumers(s):
        return 1
    g = chip.costs
    threads = -(-max(1, s.group) // g.warp) * g.warp
    each = -(-int(min(registers, register_limit(s, g))) // g.unit) * g.unit
    shared = group_shared(s) + g.reserved
    return max(1, min(chip.groups, g.file // (each * threads), chip.threads // threads, chip.shared // shared))


def statements(s: Scheduled, g: Gpu) -> float:
    """Instructions of the text, about: what a compiler has to read, and takes time for."""
    total = 0.0
    for n in s.nests:
        regs = s.registers(n)
        t = s.tensors.get(n.name)
        if t is not None:
            held = [p.trips for p in regs if p.kind != "dot"]
            total += prod(held) * t.row.unit / (t.row.m * t.row.n)
            continue
        for e in n.all_nodes:
            if e.op not in ("const", "axis", "sym", "ref") and e.dtype is not index:
                axes = axes_of(e)
                total += prod(p.trips for p in regs if p.axis in axes) * (getattr(g, SLOW[e.op]) if e.op in SLOW else 1.0)
        if n.kind == "reduce":
            total += prod(p.trips for p in regs)
    return total


@dataclass(frozen=True, slots=True)
class KeptArray:
    """One array: `shared` bytes for the group, or `private` bytes for each thread; `accesses`: how many of its elements
    a thread reads and writes in its life; `registers`: those of a small one whose places are all known."""

    shared: float
    private: float
    accesses: float
    registers: float = 0.0


@lru_cache
def kept_arrays(s: Scheduled) -> Mapping[str, KeptArray]:
    """The values of a schedule that are kept in arrays, by name."""
    out: dict[str, KeptArray] = {}
    readers: dict[str, list[tuple[Nest, tuple[Node, ...]]]] = {}
    for n in s.nests:
        for r in n.refs:
            readers.setdefault(r.arg, []).append((n, r.src))
    for n in s.nests:
        for name, axes in n.made.items():
            if name not in s.tree.registers and name in readers and not any(n.empty for n, _ in readers[name]):
                out[name] = _kept(s, n, (name, axes), readers[name])
    return out


def _kept(s: Scheduled, maker: Nest, what: tuple[str, tuple[Node, ...]], readers: list[tuple[Nest, tuple[Node, ...]]]) -> KeptArray:
    _, axes = what
    opened = {p.name for p in s.loops(maker)}
    for n, _ in readers:
        opened &= {p.name for p in s.loops(n)}
    inside = [p for a in axes for p in s.parts(a) if p.name not in opened and (p.kind != "thread")]
    elements = prod(max(1, p.trips) for p in inside)
    size = maker.expr.dtype.size
    written = _visits(s, maker, frozenset(maker.reduce_axes))
    read = sum(_visits(s, n) for n, _ in readers)
    threads = prod(s.plans[a].threads for a in axes)
    if threads > 1 and not _own(s, axes, readers):
        return KeptArray(size * elements * threads, 0.0, written + read)
    if all(p.register for p in inside):  # every index is known, so a compiler keeps the elements in registers
        return KeptArray(0.0, 0.0, 0.0, elements)
    return KeptArray(0.0, size * elements, written + read)


def _visits(s: Scheduled, n: Nest, without: Set[Node] = frozenset()) -> float:
    """How many points of its axes a thread goes through, but for some."""
    parts = [p for p in (*s.loops(n), *s.registers(n)) if p.kind != "grid" and p.axis not in without]
    return float(prod(max(1, p.trips) for p in parts))


def _own(s: Scheduled, axes: tuple[Node, ...], readers: list[tuple[Nest, tuple[Node, ...]]]) -> bool:
    """Whether every reader wants what its own thread made."""
    for _, src in readers:
        for a, i in zip(axes, src, strict=True):
            if s.plans[a].threads > 1 and (
                i.op != "axis" or i.arg.family != a.arg.family or i not in s.plans or s.plans[i].threads != s.plans[a].threads
            ):
                return False
    return True
