"""Cycles of straight code and of the loops around it, with all data in the first cache.

A piece of code takes as long as the busiest of: the arithmetic units, the loads, the stores, the shuffles, the divider, what is issued
in a cycle, the chain that one iteration waits for of the one before, and its own longest chain, as far as the processor sees too few
iterations at once to hide it. (J. Laukemann et al., "Automated Instruction Stream Throughput Prediction", 2018, do the same for machine
code.) Values that have no register are stored and loaded again."""

from __future__ import annotations

from dataclasses import dataclass

from ...program.program import Val
from .execution_units import Units, Uses
from .program_loops import LoopNode, carried, distinct

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
        at = after + max((ready.get(a, 0.0) for a in s.args), default=0.0)
        ready[s.out] = at
        longest = max(longest, at)
        waits = max((since.get(a, NEVER) for a in s.args), default=NEVER)
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
