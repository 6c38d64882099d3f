"""The analytic model for GPUs: good enough to rank candidates before anything is built.

A multiprocessor works through its groups, as many at once as are resident. Each takes the longest of what its
instructions, matrix units, shared memory and share of the L2 cache need, and of what it waits: by Little's law, a wait
that r resident groups share costs each a r-th of it (Volkov, "Better Performance at Lower Occupancy", 2010). The
busiest multiprocessor decides, which is DeepGEMM's wave efficiency. Beside all that memory moves what the L2 cache does
not hold. What things cost is data: `gpu_machine.Gpu`, `targets.gpu_rates` and what a device says or measured of
itself."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ....opts.schedule import Scheduled
from ...gpu_machine import GIB, KIB, MIB
from ...machine import DEFAULT, Bandwidth, MachineModel
from .chip import Chip, chip_of
from .occupancy import resident_groups, thread_registers
from .traffic import memory_bytes
from .work import GroupWork, group_work


@dataclass(frozen=True, slots=True)
class TimeTerm:
    """One thing that takes time. `seconds`: if nothing else did; `why`: the figures it follows from."""

    name: str
    seconds: float
    why: str


@dataclass(frozen=True, slots=True)
class GpuEstimate:
    """One phase. `terms`: what takes time, the longest first; `launch`: seconds before it; `groups` of `threads`,
    `resident` on each multiprocessor at once (`registers` each); `waves`: how often the multiprocessors are filled;
    `under_way` and `needed`: bytes in flight on a multiprocessor while it waits, and those that keep its memory
    busy."""

    seconds: float
    launch: float
    terms: tuple[TimeTerm, ...]
    groups: int
    threads: int
    resident: int
    registers: int
    waves: float
    under_way: float
    needed: float


def estimate_gpu(s: Scheduled, machine: MachineModel = DEFAULT, limits: Bandwidth | None = None) -> float:
    """Predicted seconds of all phases. Symbolic extents count with their upper bounds."""
    found = estimates(s, machine, limits)
    return sum(e.seconds + e.launch for e in found)


def estimates(s: Scheduled, machine: MachineModel = DEFAULT, limits: Bandwidth | None = None) -> tuple[GpuEstimate, ...]:
    """Every phase, with what decides how long it takes."""
    chip = chip_of(s.target, machine.gpu, limits)
    return tuple(_phase(p, chip, i) for i, p in enumerate(s.phases or (s,)))


def _phase(s: Scheduled, chip: Chip, number: int) -> GpuEstimate:
    g = chip.costs
    registers = thread_registers(s, chip)
    resident = resident_groups(s, chip, registers)
    items = prod(max(1, p.trips) for p in s.grid)
    at_once = max(1, min(items, resident * chip.cores))
    work = group_work(s, chip, resident)
    moved = memory_bytes(s, work.fetches, at_once, chip)
    taken = items * sum(f.taken for f in work.fetches if not f.stored) + 1
    far = min(1.0, moved / taken)
    latency = chip.l2_latency + (chip.latency - chip.l2_latency) * far
    spilled = max(0.0, registers - (s.regs or g.registers))
    work.issued *= 1 + g.spill * spilled / g.registers
    # the busiest multiprocessor: whole rounds of resident groups, and a last one with fewer
    each = -(-items // chip.cores)
    rounds, rest = divmod(each, resident)
    names: dict[str, float] = {}
    cycles = 0.0
    for count, here in ((rounds, resident), (1 if rest else 0, rest)):
        if count:
            found = {name: count * here * c for name, c in _shares(work, here, latency, chip).items()}
            cycles += max(found.values())
            names = {name: names.get(name, 0.0) + c for name, c in found.items()}
    memory = moved / chip.memory
    names["memory"] = memory
    longest = max(cycles, memory)
    total = longest + g.unhidden * max(0.0, sum(names.values()) - longest) + chip.latency
    waves = items / (resident * chip.cores)
    terms = tuple(
        TimeTerm(name, c / chip.clock, _why(name, work, resident, moved, chip))
        for name, c in sorted(names.items(), key=lambda e: -e[1])
        if c
    )
    launch = g.launch if number == 0 else g.phase
    return GpuEstimate(
        total / chip.clock, launch, terms, items, max(1, s.group), resident, int(registers), waves, resident * work.near, chip.needed
    )  # fmt: skip


def _shares(work: GroupWork, resident: int, latency: float, chip: Chip) -> dict[str, float]:
    """Cycles that each thing takes of a multiprocessor for one group, with `resident` groups at once and loads that
    take `latency`."""
    g = chip.costs
    waits, ring = work.alone + work.waits * latency, work.ring * latency
    taken = work.spilled + sum(f.taken for f in work.fetches)
    return {
        "instructions": max(work.issued / g.schedulers, work.float32 * g.warp / chip.float32),
        "matrix units": work.tensor,
        "shared memory": work.passes,
        "L2": taken / chip.l2,
        "waiting": (max(waits, ring) + g.unhidden * min(waits, ring) + g.entry) / resident,
    }


def _why(name: str, work: GroupWork, resident: int, moved: float, chip: Chip) -> str:
    """What a term follows from, for people."""
    return {
        "instructions": f"{work.issued:.0f} instructions of warps a group",
        "matrix units": f"{work.tensor:.0f} cycles of matrix instructions a group",
        "shared memory": f"{work.passes:.0f} accesses of {chip.costs.shared:.0f} bytes a group",
        "L2": f"{sum(f.taken for f in work.fetches) / KIB:.0f} KiB a group",
        "waiting": f"{resident} groups keep {resident * work.near / KIB:.0f} KiB under way on a multiprocessor; {chip.needed / KIB:.0f} keep memory busy",
        "memory": f"{moved / MIB:.1f} MiB at {chip.memory * chip.clock / GIB:.0f} GiB/s",
    }[name]
