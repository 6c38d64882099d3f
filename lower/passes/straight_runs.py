"""What passes that change a Program share: straight runs, which may be reordered, and values that are replaced or dropped."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from ...ir.dtypes import DType
from ...program.ops import ACCESSES, FIXED, FREE
from ...program.program import Block, For, If, Instr, Stmt, Val, bodies, operands, statements


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
