"""Takes the steps of independent long chains, such as the exps of neighbouring vectors, in turns.

A processor looks for work only among the instructions that wait in its scheduler (about 100 of them). An exp is a
chain of some 16 operations of 4 cycles: written one after another, four or five fit, and the two arithmetic units
idle a third of the time. Compilers for CPUs keep the order they get, or undo it for the sake of registers, so the
order is made here, by list scheduling (P. B. Gibbons and S. S. Muchnick, "Efficient Instruction Scheduling for a
Pipelined Architecture", 1986)."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Container, Sequence

from ...ir.dtypes import DType
from ...program.ops import ACCESSES, DIVIDES, FIXED, FREE
from ...program.program import Block, For, If, Instr, Phase, Stmt, Val, bodies, operands, statements

# straight runs --------------------------------------------------------------------------------------------------------
#
# What passes that change a Program share: straight runs, which may be reordered, and values that are replaced or
# dropped.


def each_run(block: Block, reordered: Callable[[list[Instr]], list[Instr]]) -> None:
    """Put for every straight run in a block, and in those inside it, what `reordered` makes of it."""
    out: list[Stmt] = []
    run: list[Instr] = []
    for s in block.stmts:
        if isinstance(s, Instr) and s.op not in FIXED:
            run.append(s)
            continue
        out += reordered(run)
        out.append(s)
        run = []
        for body in bodies(s):
            each_run(body, reordered)
    out += reordered(run)
    block.stmts = out


def worked_on(s: Instr) -> bool:
    """Whether an arithmetic unit works on vectors of it."""
    return s.out is not None and s.out.lanes > 1 and s.op not in FREE


_Rows = dict[tuple[int, Val, DType], list[tuple[int, int, int]]]
"""Accesses to one array, or to memory that two share, by the array and the index that they count from: (place in the run, first element
after the index, the one behind the last). Of one row those meet that have an element in common, of different rows all may."""


def before(run: Sequence[Instr], shared: frozenset[int]) -> list[set[int]]:
    """For every instruction of a run those that must come before it: what makes its operands, and accesses that may meet it.
    `shared`: the parameters that may lie in one another's memory."""
    made: dict[Val, int] = {}
    reads: dict[tuple[str, int], _Rows] = {}
    writes: dict[tuple[str, int], _Rows] = {}
    out: list[set[int]] = []
    for i, s in enumerate(run):
        need = {made[a] for a in s.args if a in made}
        if s.op in ACCESSES:
            mem, at = s.mem, s.args[0]
            place = (mem.space, -1 if mem.space == "param" and mem.base in shared else mem.base)
            row = (mem.base, at, mem.dtype)
            begin = mem.offset
            end = begin + (s.out or s.args[1]).lanes
            for kind in (writes, reads) if s.out is None else (writes,):
                for other, accesses in kind.get(place, {}).items():
                    if other == row and at.lanes == 1:
                        need.update(j for j, lo, hi in accesses if lo < end and begin < hi)
                    else:
                        need.update(j for j, _, _ in accesses)
            (writes if s.out is None else reads).setdefault(place, {}).setdefault(row, []).append((i, begin, end))
        if s.out is not None:
            made[s.out] = i
        out.append(need)
    return out


def replace_value(stmts: Sequence[Stmt], old: Val, new: Val) -> None:
    """Read one value in place of another, in some statements and all that is in them."""
    for s in statements(Block(list(stmts))):
        if old not in operands(s):
            continue
        if isinstance(s, Instr):
            s.args = tuple(new if v is old else v for v in s.args)
        elif isinstance(s, If):
            s.cond = new
        elif isinstance(s, For):
            s.init, s.yields = ([new if v is old else v for v in vs] for vs in (s.init, s.yields))


def drop_unread(loop: For, among: Container[Val] | None = None) -> None:
    """Leave out what is computed directly in a loop and nothing reads (of these values, where they are given)."""
    while True:
        read = {v for s in statements(loop.body) for v in operands(s)} | set(loop.yields)
        left = [
            s for s in loop.body.stmts
            if not isinstance(s, Instr) or s.out is None or s.out in read or (among is not None and s.out not in among)
        ]  # fmt: skip
        if len(left) == len(loop.body.stmts):
            return
        loop.body.stmts = left


# scheduling -----------------------------------------------------------------------------------------------------------

LATENCY, UNITS, DIVIDER = 4, 2, 5 / 32
"""Cycles until a result can be used, vector operations begun in a cycle, and cycles for which a division keeps the
divider for each byte."""

CHAIN = 10
"""Operations that wait for each other from which a run is worth reordering: those of reductions and transposes are fewer."""

LONGEST, ACCESSED = 6000, 1000
"""Instructions of a run, and accesses among them, above which the time this takes is not worth it: accesses to one array are compared in
pairs."""


def interleave(phase: Phase, registers: int, shared: frozenset[int] = frozenset()) -> None:
    """Reorder the straight runs of `phase` in place, for so many vector registers. `shared`: the parameters that may lie in one
    another's memory. What reads a value, or memory that
    may be the same, stays behind what makes it: results are the same to the bit."""
    each_run(phase.body, lambda run: _run(run, registers, shared))


def _run(run: list[Instr], registers: int, shared: frozenset[int]) -> list[Instr]:
    if not 2 * CHAIN <= len(run) <= LONGEST or sum(s.op in ACCESSES for s in run) > ACCESSED or sum(map(worked_on, run)) < 2 * CHAIN:
        return run
    first, rest, made = [], [], set()
    for s in run:  # constants and indices come first: they are ready, and belong to no chain
        if s.out is None or s.op in ACCESSES or worked_on(s) or any(a in made for a in s.args):
            rest.append(s)
            made.add(s.out)
        else:
            first.append(s)
    height: dict[Val, int] = {}
    longest = 0
    for s in rest:
        # products summed up wait for each other only at the sum, and there are registers full of sums
        waited = s.args[:2] if s.op == "fma" else s.args
        here = max((height[a] for a in waited if a in height), default=0) + worked_on(s)
        here = max(here, *(height.get(a, 0) for a in s.args), 0)
        longest = max(longest, here)
        if s.out is not None:
            height[s.out] = here
    if longest < CHAIN or sum(map(worked_on, rest)) < 1.5 * longest:
        return run
    need = before(rest, shared)
    # A number for every instruction: the last beginning (a load, mostly) that it depends on.
    strand: list[int] = []
    for i, b in enumerate(need):
        strand.append(max((strand[j] for j in b), default=i))
    return first + _in_turns(rest, need, strand, max(2, registers * 3 // 4 // _peak(rest, strand)))


def _peak(run: list[Instr], strand: list[int]) -> int:
    """The most vectors that one strand holds at a time."""
    last = {a: i for i, s in enumerate(run) for a in s.args}
    live: dict[int, set[Val]] = {}
    peak = 1
    for i, s in enumerate(run):
        mine = live.setdefault(strand[i], set())
        mine -= {a for a in s.args if last[a] == i}
        if s.out is not None and s.out.lanes > 1 and s.out in last:
            mine.add(s.out)
        peak = max(peak, len(mine))
    return peak


def _in_turns(run: list[Instr], before: list[set[int]], strand: list[int], width: int) -> list[Instr]:
    """`run` in the order in which a processor that takes two ready instructions a cycle from the oldest `width`
    unfinished strands would begin them."""
    after: list[list[int]] = [[] for _ in run]
    missing = [len(b) for b in before]
    left: dict[int, int] = {}
    ready: dict[int, list[int]] = {}
    for i, b in enumerate(before):
        for j in b:
            after[j].append(i)
        left[strand[i]] = left.get(strand[i], 0) + 1
        if not b:
            ready.setdefault(strand[i], []).append(i)
    unfinished = sorted(left)
    start = [0] * len(run)
    out: list[Instr] = []
    cycle, slots, divider = 0, UNITS, 0
    while unfinished:
        if slots == 0:
            cycle, slots = cycle + 1, UNITS
        waits = []
        for at in (i for n in unfinished[:width] for i in ready.get(n, ())):
            begin = max(start[at], divider) if run[at].op in DIVIDES else start[at]
            if begin <= cycle:
                break
            waits.append(begin)
        else:  # nothing happens until one of them can begin
            cycle, slots = min(waits), UNITS
            continue
        s, mine = run[at], strand[at]
        out.append(s)
        ready[mine].remove(at)
        slots -= worked_on(s)
        done = cycle + LATENCY * worked_on(s)
        if s.op in DIVIDES and s.out is not None:
            busy = int(DIVIDER * s.out.lanes * s.out.dtype.size)
            divider = cycle + busy
            done += busy
        left[mine] -= 1
        if not left[mine]:
            unfinished.remove(mine)
        for j in after[at]:
            start[j] = max(start[j], done)
            missing[j] -= 1
            if missing[j] == 0:
                insort(ready.setdefault(strand[j], []), j)
    return out
