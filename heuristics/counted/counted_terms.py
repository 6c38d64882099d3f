"""The counted time of a schedule, in all and term by term: for whoever asks why one is expected to be faster than another."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from ...opts.schedule import Scheduled
from ...program.program import Phase, Program
from ...targets import Target
from ..machine import Bandwidth, MachineModel, machine_of
from .cache_reuse import Reuse, sizes_of
from .execution_units import Units, Uses
from .program_loops import LoopNode, Tree, distinct, tree
from .program_work import busy, cycles, spilled


@dataclass(frozen=True, slots=True)
class Counted:
    """Cycles of a phase on one core, over all items: of computing, of data moved into the first and second cache and from memory, of
    stores past the caches, and of translating pages. `items`: of its grid."""

    compute: float
    near: float
    middle: float
    far: float
    past: float
    jumps: float
    items: float


def count(program: Program, target: Target, machine: MachineModel | None = None, dram: float = 0.0) -> list[Counted]:
    """What each phase takes; `dram`: bytes a cycle from memory, where they are known."""
    sizes, machine = sizes_of(program), machine or machine_of(target.cpu)
    return [_phase(program, p, target, machine, sizes, dram or machine.caches.dram) for p in program.phases[program.once :]]


def _phase(
    program: Program, phase: Phase, target: Target, machine: MachineModel, sizes: dict[tuple[str, int], float], dram: float
) -> Counted:
    t = tree(program, phase, target.vector_bytes)
    work = cycles(t.root, Units(target, machine, t.lines, t.forms.made)).cycles
    caches = machine.caches
    span = machine.core.set_span
    reuse = Reuse(t, sizes, caches.line, caches.written, caches.scattered, span=span)
    whole = reuse.whole()
    levels = []
    for capacity, rate in ((target.l1, caches.l2), (target.l2, caches.l3), (caches.last_cache(target.l2, target.l3), dram)):
        reuse.scattered = 1.0 if capacity == target.l1 else caches.scattered  # (near ones are waited for together)
        share = caches.gone(whole, capacity)
        levels.append(share * reuse.moved(t.root, caches.usable * capacity) / rate if share else 0.0)
        if share and capacity <= target.l2:  # (farther ones are spread by more than the address's lower bits)
            levels[-1] += share * reuse.waiting(t.root, caches.usable * capacity) * caches.crowded
    past = reuse.past(caches.open_lines, caches.pieces) / (dram * caches.past)
    levels[0] += reuse.thrashed(target.l1 // span, span) / caches.l2
    return Counted(work, levels[0], levels[1], levels[2], past, _translated(t, sizes, machine), t.root.trips)


def _translated(t: Tree, sizes: dict[tuple[str, int], float], machine: MachineModel) -> float:
    """Cycles for translations of pages, which are kept as lines are, at two levels."""
    jumps = machine.jumps
    reuse = Reuse(t, sizes, float(jumps.page), 1.0, past_caches=False)
    whole, out = reuse.whole() / jumps.page, 0.0
    for pages, cost in ((jumps.first, jumps.translated), (jumps.translations, jumps.walked)):
        if whole > pages:
            out += reuse.moved(t.root, pages * jumps.page) / jumps.page * cost
    return out


def seconds(found: Counted, threads: int, machine: MachineModel) -> float:
    """Seconds of a phase on some threads."""
    core, caches = machine.core, machine.caches
    threads = max(1, min(threads, int(found.items)))
    levels = (found.near, found.middle, found.far)
    memory = max(levels) + caches.beside * (sum(levels) - max(levels)) + found.jumps
    busy = max(found.compute, memory) + caches.unhidden * min(found.compute, memory)
    # stores past the caches come in bursts, and other loops do not wait beside them
    busy = max(busy + caches.bursts * found.past, found.past + caches.unhidden * busy)
    share = -(-found.items // threads) / max(1.0, found.items)
    return busy * share / core.clock + caches.dispatch(found.items, threads)


def of_program(
    program: Program, target: Target, threads: int = 1, limits: Bandwidth | None = None, machine: MachineModel | None = None
) -> float:
    """Predicted seconds of a lowered schedule on `threads` threads of a processor, with the measured `limits` where there are some."""
    machine = machine or machine_of(target.cpu)
    dram = limits.bandwidth(1) / machine.core.clock if limits is not None else 0.0
    return sum(seconds(c, threads, machine) for c in count(program, target, machine, dram))


def counted(scheduled: Scheduled, threads: int = 1, limits: Bandwidth | None = None, machine: MachineModel | None = None) -> float:
    """Predicted seconds of a schedule on `threads` threads of a processor. Raises OptError where it cannot be lowered."""
    from ...lower import lower  # whoever only asks for start schedules lowers nothing

    return of_program(lower(scheduled), scheduled.target, threads, limits, machine)


@dataclass(frozen=True, slots=True)
class CpuTerms:
    """Seconds of one core for all work of a schedule (of the threads together). Units and caches work beside each other, so the terms
    add up to more than `total`, which is the expected time of a call on its threads.

    `issue`: to issue every instruction. `loops`: steps, entries and mispredicted ends of loops. `spills`: values that have no register,
    stored and loaded again. `chains`: waiting for the result of the instruction before. `near`, `middle`, `memory`: what moves from the
    second cache, the third, and memory; `past`: stores past the caches; `pages`: translating addresses."""

    total: float = 0.0
    arithmetic: float = 0.0
    shuffles: float = 0.0
    divider: float = 0.0
    loads: float = 0.0
    stores: float = 0.0
    issue: float = 0.0
    loops: float = 0.0
    spills: float = 0.0
    chains: float = 0.0
    near: float = 0.0
    middle: float = 0.0
    memory: float = 0.0
    past: float = 0.0
    pages: float = 0.0

    def named(self) -> dict[str, float]:
        """Each term's seconds by its name, without the total."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "total"}


def cpu_terms(scheduled: Scheduled, threads: int = 1, limits: Bandwidth | None = None, machine: MachineModel | None = None) -> CpuTerms:
    """The terms of a schedule for a processor. Raises OptError where it cannot be lowered."""
    from ...lower import lower

    program, target = lower(scheduled), scheduled.target
    found = program_terms(program, target, machine, limits)
    return replace(found, total=of_program(program, target, threads, limits, machine))


def program_terms(program: Program, target: Target, machine: MachineModel | None = None, limits: Bandwidth | None = None) -> CpuTerms:
    """The terms of a lowered schedule, without the total."""
    machine = machine or machine_of(target.cpu)
    sums = dict.fromkeys(CpuTerms().named(), 0.0)
    dram = limits.bandwidth(1) / machine.core.clock if limits is not None else 0.0
    for phase, counted in zip(program.phases[program.once :], count(program, target, machine, dram), strict=True):
        t = tree(program, phase, target.vector_bytes)
        units = Units(target, machine, t.lines, t.forms.made)
        straight = _node(t.root, units, 1.0, sums)
        sums["chains"] += max(0.0, cycles(t.root, units).cycles - straight)
        for name, value in (("near", counted.near), ("middle", counted.middle), ("memory", counted.far)):
            sums[name] += value
        sums["past"] += counted.past
        sums["pages"] += counted.jumps
    return CpuTerms(**{name: value / machine.core.clock for name, value in sums.items()})


def _node(node: LoopNode, units: Units, entered: float, sums: dict[str, float]) -> float:
    """Add what a node takes that is entered so often; the cycles that its busiest units need, with those inside."""
    core = units.machine.core
    runs = entered * node.trips
    uses = Uses()
    for s, once in distinct(node):
        if once:
            uses.add(units.of(s)[0])
    plain = replace(uses)
    waits = spilled(node, units, uses)
    for name, cycles_ in (
        ("arithmetic", plain.arith / core.ports),
        ("shuffles", plain.shuffles / core.shuffle_ports),
        ("divider", plain.divider),
        ("loads", plain.loads / core.load_ports),
        ("stores", plain.stores / core.store_ports),
        ("issue", plain.issued / core.issue),
        ("spills", (uses.loads - plain.loads) / core.load_ports + (uses.stores - plain.stores) / core.store_ports + waits),
    ):
        sums[name] += runs * cycles_
    around = 0.0
    if node.loop is not None:
        uses.issued += core.overhead
        around = entered * (core.entry + (core.mispredicted if node.trips > core.foreseen else 0.0))
        sums["loops"] += runs * core.overhead / core.issue + around
    elif node.key != 0:
        around = entered * core.branch
        sums["loops"] += around
    inner = sum(_node(c, units, runs, sums) for c in node.children)
    return runs * max(busy(uses, units) + waits, uses.divider) + around + inner
