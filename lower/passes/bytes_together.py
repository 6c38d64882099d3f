"""Bytes that are computed in 32 bits, a register of them at a time, are stored together.

Where the widest type of a point has 32 bits, its vectors have as many lanes as a register has words, and a store of bytes is
a quarter of a register. AVX2 packs the words of four registers into one of bytes by three instructions and puts them in order
by one more (`Target.packs_bytes`); one by one, each takes four. So four such stores that follow each other in memory become
one, where the last of them stands."""

from __future__ import annotations

from dataclasses import replace

from ...program.facts import DefUse
from ...program.program import Instr, Program, Val
from .straight_runs import before, each_run

TOGETHER = 4
"""Registers of words in one of bytes."""


def join(program: Program, words: int) -> bool:
    """Join stores in place, of vectors with as many lanes as a register has words. Results are the same to the bit. False where there
    is nothing to join."""
    if not any(p.role == "out" and p.dtype.is_int and p.dtype.size == 1 for p in program.params):
        return False
    uses = DefUse(program)
    changed = False

    def joined(run: list[Instr]) -> list[Instr]:
        nonlocal changed
        groups = _groups(run, words, uses)
        changed |= bool(groups)
        return _rewritten(run, groups, uses) if groups else run

    for phase in program.phases:
        each_run(phase.body, joined)
    return changed


def _groups(run: list[Instr], words: int, uses: DefUse) -> list[list[int]]:
    """The positions of stores that may be one, in the order of memory."""
    casts = {s.out: s for s in run if s.op == "cast" and s.result.lanes == words and s.args[0].dtype.size == 4 and s.result.dtype.is_int}
    rows: dict[object, dict[int, int]] = {}
    for i, s in enumerate(run):
        if (
            s.op == "store"
            and len(s.args) == 2
            and not s.mem.nt
            and s.args[1] in casts
            and uses.count[s.args[1]] == 1
            and s.args[1].dtype.size == 1
        ):
            source = casts[s.args[1]].args[0]
            rows.setdefault((replace(s.mem, offset=0, align=1), s.args[0], source.dtype), {})[s.mem.offset] = i
    found = []
    for at in rows.values():
        left = set(at)
        for first in sorted(at):
            group = [first + k * words for k in range(TOGETHER)]
            if left.issuperset(group):
                left -= set(group)
                found.append([at[o] for o in group])
    if not found:
        return []
    need = before(run, uses.program.shared_params)
    return [g for g in found if not any(set(g) & need[j] for j in range(min(g), max(g) + 1))]


def _rewritten(run: list[Instr], groups: list[list[int]], uses: DefUse) -> list[Instr]:
    """A run with one store for each group."""
    ends = {max(g): [run[i] for i in g] for g in groups}
    casts = {s.out: s for s in run if s.op == "cast"}
    gone = {id(run[i]) for g in groups for i in g} | {id(casts[run[i].args[1]]) for g in groups for i in g}
    out: list[Instr] = []
    for i, s in enumerate(run):
        if i in ends:
            out += _one(ends[i], casts, uses)
        elif id(s) not in gone:
            out.append(s)
    return out


def _one(stores: list[Instr], casts: dict[Val | None, Instr], uses: DefUse) -> list[Instr]:
    """The instructions of one store."""
    out: list[Instr] = []
    parts = [casts[s.args[1]].args[0] for s in stores]
    while len(parts) > 1:
        pairs, parts = zip(parts[::2], parts[1::2], strict=True), []
        for a, b in pairs:
            both = uses.fresh(a.dtype, 2 * a.lanes, stores[0].args[1].depth)
            out.append(Instr("shuffle", both, (a, b), tuple(range(both.lanes))))
            parts.append(both)
    whole = uses.fresh(stores[0].args[1].dtype, parts[0].lanes, stores[0].args[1].depth)
    return [*out, Instr("cast", whole, (parts[0],)), Instr("store", None, (stores[0].args[0], whole), stores[0].mem)]
