"""What is the same in all rows of a column is computed once: a mean's root, the inverse of a sum, a weight's exponential.

Where a loop over rows goes through each row whole, what depends on the column alone varies in the inner loop, so no placement takes it out
of the outer one. This pass computes it in a loop over one row before (loop distribution, with an array for what was a scalar: D. Kuck et
al., "Dependence graphs and compiler optimizations", 1981) and keeps it in scratch, where that spares far more than it is to load."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import prod

from ...ir.dtypes import DType, bool_, index, uint8
from ...program.facts import DefUse
from ...program.ops import ACCESSES, DIVIDES, FREE, OPS
from ...program.program import Block, For, Instr, Mem, Program, Stmt, Val, bodies, defined, operands, statements, touched
from ...targets import Target
from .scheduling import drop_unread

ROWS = 8
"""Rows from which a loop before them pays."""
DIVISION = 6
"""Additions that a unit does in the time of a division or a root."""
COSTLY = {"dot": 3}
"""The same of an instruction that adds products, by name."""
PLACES: dict[str, Callable[[Sequence[int]], int]] = {"add": sum, "mul": prod, "min": min}
"""What bounds of blocks are computed by."""
SPARED = 4
"""Operations that each vector which is kept has to spare, but for as many as are no longer loaded."""
LINE = 64
"""Bytes at which arrays in scratch begin."""


def carry_over(program: Program, target: Target) -> None:
    """Change all loops over rows of a Program."""
    work = _Distribution(program, target)
    for phase in program.phases[program.once :]:
        work.block(phase.body)


@dataclass(slots=True)
class _Column:
    """The inner loop of one over rows, with its first step and its number of steps: what is computed in it that rows have in common, in order,
    and what of that is kept."""

    rows: For
    loop: For
    first: int
    trips: int
    common: dict[Val, Instr]
    kept: list[Val] = field(default_factory=list)


class _Distribution:
    def __init__(self, program: Program, target: Target) -> None:
        self.program, self.target, self.uses = program, target, DefUse(program)

    def block(self, block: Block) -> None:
        """Innermost first."""
        out: list[Stmt] = []
        for s in block.stmts:
            for body in bodies(s):
                self.block(body)
            if isinstance(s, For) and self._trips(s) >= ROWS:
                out += [made for loop, first, trips in self._inner(s) for made in self._split(s, loop, first, trips)]
            out.append(s)
        block.stmts = out

    def _inner(self, rows: For) -> Iterator[tuple[For, int, int]]:
        """The loops inside one over rows: (the loop, its first step, how many). One that is cut into blocks, as long chains of additions are, is
        all of them together."""
        for s in rows.body.stmts:
            if not isinstance(s, For):
                continue
            begin = self.uses.number(s.lo)
            if begin is None:
                continue
            yield s, begin, self._trips(s)
            for loop in s.body.stmts if s.step == 1 else ():
                if not isinstance(loop, For):
                    continue
                ends = [(self._place(loop.lo, s, i), self._place(loop.hi, s, i)) for i in range(begin, begin + self._trips(s))]
                first, last = (ends[0][0], ends[-1][1]) if ends else (None, None)
                if first is not None and last is not None and all(a[1] == b[0] for a, b in pairwise(ends)):
                    yield loop, first, last - first

    def _place(self, v: Val, blocks: For, step: int) -> int | None:
        """What a bound is in a step of the loop over blocks, where it follows from that alone."""
        if v is blocks.var:
            return step
        made = self.uses.made.get(v)
        if made is None or (known := self.uses.number(v)) is not None or made.op not in PLACES:
            return known if made is not None else None
        args = [self._place(a, blocks, step) for a in made.args]
        return None if None in args else PLACES[made.op]([a for a in args if a is not None])

    def _trips(self, loop: For) -> int:
        lo, hi = self.uses.number(loop.lo), self.uses.number(loop.hi)
        return 0 if lo is None or hi is None else -(-(hi - lo) // loop.step)

    def _split(self, rows: For, loop: For, first: int, trips: int) -> Iterator[Stmt]:
        """The loop that computes what rows have in common in an inner one, if there is enough of that."""
        if loop.step != 1 or trips < 2:
            return
        column = _Column(rows, loop, first, trips, self._common(rows, loop))
        self._keep(column)
        if column.kept and sum(size for _, size in self._arrays(column)) <= self.target.l2 // 4:
            yield from self._before(column)

    def _common(self, rows: For, loop: For) -> dict[Val, Instr]:
        """What is computed in the inner loop that depends on its variable alone, and on what was before the rows."""
        varies = {v for s in (rows, *statements(rows.body)) for v in defined(s)} - {*rows.results, loop.var}
        written = {(m.space, m.base) for s in statements(rows.body) if isinstance(s, Instr) for m, stored in touched(s) if stored}
        shared = self.program.shared_params
        out: dict[Val, Instr] = {}
        for s in loop.body.stmts:
            if not isinstance(s, Instr) or s.out is None or OPS[s.op].hoists == "never" or any(a in varies for a in s.args):
                continue
            if s.op in ACCESSES and ((s.mem.space, s.mem.base) in written or (s.mem.space == "param" and s.mem.base in shared)):
                continue
            out[s.out] = s
            varies.discard(s.out)
        return out

    def _keep(self, column: _Column) -> None:
        """Choose what is kept: vectors that rows read, and bools that decide; none where that spares too little."""
        common = column.common
        read = {
            a for s in statements(column.loop.body) for a in operands(s) if a in common and not (isinstance(s, Instr) and s.out in common)
        }
        kept = [v for v in common if v in read and ((v.lanes > 1 and v.dtype is not bool_) or (v.lanes == 1 and v.dtype is bool_))]
        stays = _operands_of_column((v for v in read if v not in kept), common)
        kept = [v for v in kept if v not in stays and common[v].op not in ACCESSES | FREE]
        stays |= _operands_of_column((v for v in read if v not in kept), common)
        gone = [(v, s) for v, s in common.items() if v not in stays]
        loads = sum(v.lanes > 1 for v, s in gone if s.op in ACCESSES)
        if kept and sum(_weight(s) for _, s in gone) >= SPARED * max(1, len(kept) - loads):
            column.kept = kept

    def _before(self, column: _Column) -> list[Stmt]:
        """The loop over one row; the inner loop loads what it kept."""
        loop, common, depth = column.loop, column.common, column.rows.var.depth
        twin: dict[Val, Val] = {loop.var: self.uses.fresh(index, 1, depth)}
        body = Block()
        needed = _operands_of_column(column.kept, common)
        for v, s in common.items():
            if v in needed:
                twin[v] = self.uses.fresh(v.dtype, v.lanes, depth)
                body.stmts.append(replace(s, out=twin[v], args=tuple(twin.get(a, a) for a in s.args)))
        again = Block()
        for alike, size in self._arrays(column):
            base = -(-self.program.scratch // LINE) * LINE
            self.program.scratch = base + size
            self._array(column, alike, (body, twin), (again, base))
        self._replace(column, again)
        out: list[Stmt] = []
        lo, hi = (self.uses.emit(out, "const", index, 1, depth - 1, (), n) for n in (column.first, column.first + column.trips))
        return [*out, For(loop.label, twin[loop.var], lo, hi, 1, [], [], body, [], [])]

    def _arrays(self, column: _Column) -> Iterator[tuple[list[Val], int]]:
        """What is kept of one type, with the bytes of an array of it; vectors of one step lie together."""
        groups: dict[tuple[DType, int], list[Val]] = {}
        for v in column.kept:
            groups.setdefault((_storage_type(v), v.lanes), []).append(v)
        for (dtype, lanes), alike in groups.items():
            yield alike, column.trips * len(alike) * lanes * dtype.size

    def _array(self, column: _Column, alike: Sequence[Val], made: tuple[Block, dict[Val, Val]], again: tuple[Block, int]) -> None:
        """Store some values of one type where they are `made`, and load them `again`, from an array at a place of scratch."""
        (body, twin), (inner, base) = made, again
        held, lanes, var = _storage_type(alike[0]), alike[0].lanes, column.loop.var
        step = len(alike) * lanes
        align = min(LINE, self.target.vector_bytes, lanes * held.size & -(lanes * held.size))
        to, at = (self._at(block, v, step) for block, v in ((body, twin[var]), (inner, var)))
        for k, v in enumerate(alike):
            mem = Mem("scratch", base, held, k * lanes - column.first * step, align)
            value = twin[v] if held is v.dtype else self.uses.emit(body.stmts, "cast", held, lanes, twin[v].depth, (twin[v],))
            body.stmts.append(Instr("store", None, (to, value), mem))
            if held is v.dtype:
                inner.stmts.append(Instr("load", v, (at,), mem))
            else:
                zero = self.uses.emit(inner.stmts, "const", held, lanes, var.depth, (), 0)
                byte = self.uses.emit(inner.stmts, "load", held, lanes, var.depth, (at,), mem)
                inner.stmts.append(Instr("ne", v, (byte, zero)))

    def _replace(self, column: _Column, loads: Block) -> None:
        """Load what is kept where it was computed, and leave out what nothing reads any more."""
        body, common = column.loop.body, column.common
        kept: set[Val | None] = set(column.kept)
        at = {s.out: s for s in loads.stmts if isinstance(s, Instr)}
        first = [s for s in loads.stmts if isinstance(s, Instr) and s.out not in kept]
        body.stmts = [*first, *(at[s.out] if isinstance(s, Instr) and s.out in kept else s for s in body.stmts)]
        drop_unread(column.loop, common)

    def _at(self, block: Block, var: Val, lanes: int) -> Val:
        """The first element of a vector that was kept."""
        if lanes == 1:
            return var
        each = self.uses.emit(block.stmts, "const", index, 1, var.depth, (), lanes)
        return self.uses.emit(block.stmts, "mul", index, 1, var.depth, (var, each))


def _operands_of_column(roots: Iterator[Val] | Sequence[Val], common: dict[Val, Instr]) -> set[Val]:
    """Values of a column, and those that they are computed from."""
    out: set[Val] = set()
    waiting = [v for v in roots if v in common]
    while waiting:
        v = waiting.pop()
        if v not in out:
            out.add(v)
            waiting += [a for a in common[v].args if a in common]
    return out


def _weight(s: Instr) -> int:
    return 0 if s.out is None or s.out.lanes == 1 or s.op in FREE | ACCESSES else COSTLY.get(s.op, DIVISION if s.op in DIVIDES else 1)


def _storage_type(v: Val) -> DType:
    """The type in which a value is kept."""
    return uint8 if v.dtype is bool_ else v.dtype
