"""The counted time of a schedule, in all and term by term: for whoever asks why one is expected to be faster than another."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from ...opts.schedule import Scheduled
from ...program.program import Phase, Program, Val
from ...targets import Target
from ..machine import Bandwidth, MachineModel, machine_of
from .cache_reuse import Reuse, sizes_of
from .execution_units import Units, Uses
from .program_loops import LoopNode, Tree, carried, distinct, tree

# program work ---------------------------------------------------------------------------------------------------------
#
# Cycles of straight code and of the loops around it, with all data in the first cache.
#
# A piece of code takes as long as the busiest of: the arithmetic units, the loads, the stores, the shuffles, the
# divider, what is issued in a cycle, the chain that one iteration waits for of the one before, and its own longest
# chain, as far as the processor sees too few iterations at once to hide it. (J. Laukemann et al., "Automated
# Instruction Stream Throughput Prediction", 2018, do the same for machine code.) Values that have no register are
# stored and loaded again.


NEVER = float("-inf")
_OPERANDS = frozenset({"load", "splat", "cast", "const", "shuffle", "bitcast", "gather"})
"""What brings an operand of a product."""


@dataclass(frozen=True, slots=True)
class Cycles:
    """Cycles of a loop with all its iterations, and the instructions that are issued in it."""

    cycles: float
    issued: float


@dataclass(frozen=True, slots=True)
class Chains:
    """Cycles of an iteration's longest chain, and of the longest one from what is carried to what replaces it."""

    longest: float
    carried: float


def cycles(node: LoopNode, units: Units) -> Cycles:
    """Cycles of a node, over all its trips."""
    core = units.machine.core
    uses = Uses()
    latency: dict[int, float] = {}
    for s, runs in distinct(node):
        used, latency[id(s)] = units.of(s)
        if runs:
            uses.add(used)
    inner = [cycles(c, units) for c in node.children]
    waits = spilled(node, units, uses)
    if node.loop is not None:
        uses.issued += core.overhead
    chain = _chains(node, latency)
    once = max(busy(uses, units) + waits, uses.divider)
    below = sum(c.cycles for c in inner)
    issued = uses.issued + sum(c.issued for c in inner)
    if node.loop is None and node.key != 0:  # an If: its condition is mostly guessed
        return Cycles(node.trips * (once + below) + core.branch, node.trips * issued + 1.0)
    window = max(1.0, core.window / max(1.0, issued))
    if not node.children:
        once = max(once, chain.longest / window)
    each = once + below
    total = node.trips * max(each, chain.carried)
    if node.loop is not None and node.trips * chain.carried > node.trips * each:
        # where a whole loop is in sight, the next one goes on beside it
        sight = core.window / max(1.0, issued * node.trips)
        total = max(node.trips * each, node.trips * chain.carried / max(1.0, sight))
    if node.loop is not None:
        total += core.entry + (core.mispredicted if node.trips > core.foreseen else 0.0)
    return Cycles(total, issued * node.trips)


def busy(uses: Uses, units: Units) -> float:
    """Cycles that the busiest unit needs, but for the divider."""
    core = units.machine.core
    arith = uses.arith + uses.shuffles
    return max(
        arith / core.ports,
        uses.shuffles / core.shuffle_ports,
        uses.loads / core.load_ports,
        uses.stores / core.store_ports,
        uses.issued / core.issue,
    )


def _chains(node: LoopNode, latency: dict[int, float]) -> Chains:
    """The chains through the code directly in a node (what inner loops make counts as ready)."""
    begins, ends = carried(node)
    ready: dict[Val, float] = {}
    since = dict.fromkeys(begins, 0.0)
    longest = 0.0
    for s in node.code:
        if s.out is None:
            continue
        after = latency[id(s)]
        at, waits = 0.0, NEVER
        for a in s.args:
            at = max(at, ready.get(a, 0.0))
            waits = max(waits, since.get(a, NEVER))
        ready[s.out] = at = after + at
        longest = max(longest, at)
        if waits > NEVER:
            since[s.out] = waits + after
    return Chains(longest, max((since.get(v, 0.0) for v in ends), default=0.0))


def spilled(node: LoopNode, units: Units, uses: Uses) -> float:
    """Cycles of what is carried and has no register, which the next iteration waits for; what other values cost that have none is
    added to `uses`."""
    if len(node.code) < 4 or node.children:
        return 0.0
    registers, core = units.target.registers, units.machine.core
    held, constants, most = live(node, units)
    most += registers // core.ahead if several_terms(node) else 0
    over = max(0.0, most + held - registers)
    if most + held + constants > registers:
        uses.loads += min(float(constants), most + held + constants - registers)
    fixed = min(over, held)  # what does not change is loaded where it is used
    uses.loads += fixed
    uses.issued += 0.5 * fixed
    begins, _ = carried(node)
    chained = min(over - fixed, float(sum(units.pieces(v) for v in begins if _vector(v))))
    rest = over - fixed - chained
    uses.loads += rest
    uses.stores += rest
    uses.issued += 2.0 * rest
    return core.spill_carried * chained


def several_terms(node: LoopNode) -> bool:
    """Whether a loop adds in several steps to the same sums what it computes from what it loads, and not products of these alone."""
    begins = carried(node)[0]
    summed, terms = set(begins), set[Val]()
    for s in node.code:
        if s.out is None or not _vector(s.out):
            continue
        before = [a for a in s.args if a in summed]
        if before:
            summed.add(s.out)
            if any(a not in begins for a in before) and any(a in terms for a in s.args):
                return True
        elif s.op not in _OPERANDS:
            terms.add(s.out)
    return False


def live(node: LoopNode, units: Units) -> tuple[float, int, float]:
    """(registers of vectors from outside that stay the same, of constants, and the most that values made or carried here need at
    once, in the order in which the code is written)."""
    begins, ends = carried(node)
    made = {s.out for s in node.code if s.out is not None} | set(begins)
    last: dict[Val, int] = {}
    count: dict[Val, int] = {}
    outside: dict[Val, None] = {}
    for at, s in enumerate(node.code):
        for a in s.args:
            if a in made:
                last[a] = at
                count[a] = count.get(a, 0) + 1
            elif _vector(a):
                outside[a] = None
    for v in ends:
        last[v], count[v] = len(node.code), 2
    held = {v for v in begins if _vector(v)}
    constants = sum(units.pieces(v) for v in outside if units.constant(v))
    most = now = float(sum(units.pieces(v) for v in held))
    for at, s in enumerate(node.code):
        for a in dict.fromkeys(s.args):
            if last.get(a) == at and a in held:
                now -= units.pieces(a)
        out = s.out
        if out is None or out not in last or not _vector(out):
            continue
        if s.op == "const":
            constants += units.pieces(out)
        elif not (s.op == "load" and len(s.args) == 1 and count[out] == 1):  # (which is part of what reads it)
            held.add(out)
            now += units.pieces(out)
            most = max(most, now)
    return float(sum(units.pieces(v) for v in outside if not units.constant(v))), constants, most


def _vector(v: Val) -> bool:
    """Whether a value is in a vector register."""
    return v.lanes > 1 or v.dtype.is_float


# counted terms --------------------------------------------------------------------------------------------------------


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
