"""Seconds of a schedule, counted on the Program that it is lowered to: what will run, after narrowing, sharing and code motion.

`heuristics.model` says from a schedule's options what lowering will make of them, in about a millisecond. Here it is lowered (some
milliseconds), and what the processor does is counted: its instructions by unit, chains and registers (`work.py`), and what moves
between the caches (`reuse.py`). So it is for the few schedules that are worth it: those that `estimate` ranks first."""

from __future__ import annotations

from dataclasses import dataclass

from ...opts.schedule import Scheduled
from ...program.program import Phase, Program
from ...targets import Target
from ..machine import Bandwidth, MachineModel
from ..processors import machine_of
from .reuse import Reuse, sizes_of
from .tree import Tree, tree
from .units import Units
from .work import cycles


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
    return busy * share / core.clock + (caches.wake + found.items * caches.item if threads > 1 else found.items * caches.item_alone)


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
