"""What the counted time of a schedule is made of, term by term: for whoever asks why one is expected to be faster than another."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from ...opts.schedule import Scheduled
from ...program.program import Program
from ...targets import Target
from ..machine import Bandwidth, MachineModel
from ..processors import machine_of
from .counted import count, of_program
from .tree import LoopNode, distinct, tree
from .units import Units
from .uses import Uses
from .work import busy, cycles, spilled


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
