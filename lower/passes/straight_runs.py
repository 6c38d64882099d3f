"""What passes that change a Program share: straight runs, which may be reordered, and values that are replaced or dropped."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

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


def before(run: Sequence[Instr], shared: frozenset[int]) -> list[set[int]]:
    """For every instruction of a run those that must come before it: what makes its operands, and accesses that may meet it.
    `shared`: the parameters that may lie in one another's memory."""
    made: dict[Val, int] = {}
    reads: dict[tuple[str, int], list[int]] = {}
    writes: dict[tuple[str, int], list[int]] = {}
    out: list[set[int]] = []
    for i, s in enumerate(run):
        need = {made[a] for a in s.args if a in made}
        if s.op in ACCESSES:
            place = (s.mem.space, -1 if s.mem.space == "param" and s.mem.base in shared else s.mem.base)
            others = writes.get(place, []) + (reads.get(place, []) if s.out is None else [])
            need |= {j for j in others if not _disjoint(run[j], s)}
            (writes if s.out is None else reads).setdefault(place, []).append(i)
        if s.out is not None:
            made[s.out] = i
        out.append(need)
    return out


def _disjoint(a: Instr, b: Instr) -> bool:
    """Whether two accesses to one array, or to memory that two share, cannot meet: they count the same elements from one index, and
    their offsets keep them apart."""
    if a.mem.base != b.mem.base or a.args[0] is not b.args[0] or a.args[0].lanes > 1 or a.mem.dtype is not b.mem.dtype:
        return False
    x, y = (range(s.mem.offset, s.mem.offset + (s.out or s.args[1]).lanes) for s in (a, b))
    return x.stop <= y.start or y.stop <= x.start


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
