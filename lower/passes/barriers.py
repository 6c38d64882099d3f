"""Puts barriers into a phase, where threads of a group would otherwise disturb one another, and nowhere else.

Memory is looked at in pieces: a parameter, or one allocation in shared memory or the workspace. Two accesses to a piece that is
both read and written need a barrier between them when one of them writes and another thread may touch the same element (read after
write, write after read, write after write); `clash` knows who touches what. Statements are walked in order with the accesses
since the last barrier; the barrier goes in front of the statement that would come too early, as late as possible, which is the
fewest in straight-line code (the greedy cover of intervals by points). A loop is settled on its own first: what its last statements did
meets its first ones in the next iteration. From outside it is then one statement, so that a hazard with what came before it puts the
barrier in front of the loop. Code that not all threads run is one statement too, and no barrier can stand in it.

A copy beside the thread may write from its beginning on: what came before must be separated from it there. What it has written others
see after a barrier that follows the wait, so that to what comes later it is a write at the wait. (What touches its destination between
the two is wrong with or without barriers.)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ...ir.errors import OptError
from ...program.facts import Spread
from ...program.ops import SYNCS
from ...program.program import Block, For, If, Instr, Phase, Roles, Stmt, Val, statements, touched
from .conflicts import SharedAccess, access, clash, merged


@dataclass(slots=True)
class _Summary:
    """A statement from outside: accesses it may make before its first barrier (`head`) and after its last (`tail`), and whether
    one can come through it without meeting a barrier."""

    head: list[SharedAccess] = field(default_factory=list)
    tail: list[SharedAccess] = field(default_factory=list)
    passes: bool = True


@dataclass(slots=True)
class _Run:
    """Items `start` to `stop` of a block, if several then all loads or all stores (`kinds`), with what they touch. `quiet`: they
    do not disturb one another."""

    start: int
    stop: int
    kinds: set[bool]
    touches: list[SharedAccess]
    quiet: bool = True


def place(phase: Phase, warp: int = 32) -> None:
    """Insert the barriers that `phase` needs, none where it has them already; `warp` threads exchange values by shuffles.

    Only elements that a phase both reads and writes count: of two threads that write an element nobody reads back, no barrier
    makes a kernel. Raises OptError where a barrier would have to stand in code that not all threads of the group run, or where
    a barrier or a shuffle does.
    """
    if phase.threads > 1:
        _Placer(phase, warp).block(phase.body, (), ())


class _Placer:
    def __init__(self, phase: Phase, warp: int) -> None:
        self.spread, self.warp = Spread(phase), warp
        read: set[tuple[str, int]] = set()
        written: set[tuple[str, int]] = set()
        for s in statements(phase.body):
            for mem, writes in touched(s) if isinstance(s, Instr) else ():
                if mem.space != "scratch":
                    (written if writes else read).add((mem.space, mem.base))
        self.pieces = read & written
        copies = [s for s in statements(phase.body) if isinstance(s, Instr) and s.op == "copy_async" and self._counts(s)]
        self.landing = [replace(access(self.spread, s, ()), landing=True) for s in copies]
        """What waits see land: what any copy writes, in any iteration."""

    # summaries ------------------------------------------------------------------------------------------------------
    def block(self, block: Block, loops: tuple[Val, ...], conds: tuple[Val, ...], wraps: bool = False) -> _Summary:
        """Settle a block that all threads run, in the loops `loops`; `wraps`: it is the body of the innermost of them."""
        found = [(s, self._statement(s, loops, conds)) for s in block.stmts]
        items = [(s, f) for s, f in found if f is not None]
        marks = self._marks([f for _, f in items], loops, wraps)
        for m in marks:
            at = next(i for i, s in enumerate(block.stmts) if s is items[m][0])
            block.stmts.insert(at, Instr("barrier", None, ()))
        out = _Summary()
        for i, (_, f) in enumerate(items):
            if i in marks:
                out.tail, out.passes = [], False
            if out.passes:
                out.head = out.head + f.head
            out.tail = (out.tail if f.passes else []) + f.tail
            out.passes = out.passes and f.passes
        return out

    def _statement(self, s: Stmt, loops: tuple[Val, ...], conds: tuple[Val, ...]) -> _Summary | None:
        """None for what has to do with neither shared memory nor barriers."""
        if isinstance(s, Instr):
            if s.op == "barrier":
                return _Summary(passes=False)
            if s.op == "wait" and self.landing:
                return _Summary([], self.landing)
            if not self._counts(s):
                return None
            one = [access(self.spread, s, conds)]
            return _Summary(one, [] if s.op == "copy_async" else one)
        if isinstance(s, Roles):
            return None  # roles meet at mbarriers, which whoever writes them has placed
        varying = [v for v in ((s.cond,) if isinstance(s, If) else (s.lo, s.hi)) if self.spread.varies(v)]
        if varying:
            return self._divergent(s, varying, loops, conds)
        if isinstance(s, If):
            inner = self.block(s.body, loops, (*conds, s.cond))
            return _Summary(inner.head, inner.tail)
        return self.block(s.body, (*loops, s.var), conds, wraps=True)

    def _counts(self, s: Instr) -> bool:
        return any((mem.space, mem.base) in self.pieces for mem, _ in touched(s)[:1])

    # where barriers go ----------------------------------------------------------------------------------------------
    def _marks(self, items: Sequence[_Summary], loops: tuple[Val, ...], wraps: bool) -> list[int]:
        """Before which items a barrier is needed."""
        runs, marks = self._runs(items, loops), set[int]()
        tail = self._straight(items, runs, marks, loops, add=True)
        assert tail is not None
        if wraps and self.spread.trips(loops[-1]) != 1 and (again := self._meets(tail, items, runs, marks, loops)) is not None:
            marks.add(again)
            # the barrier that the next iteration needs may serve this one too
            for m in sorted(marks - {again}):
                fewer = marks - {m}
                left = self._straight(items, runs, fewer, loops)
                if left is not None and self._meets(left, items, runs, fewer, loops) is None:
                    marks = fewer
        return sorted(marks)

    def _runs(self, items: Sequence[_Summary], loops: tuple[Val, ...]) -> list[_Run]:
        """The items in runs of only loads, or of only stores: those are compared with others as one, which saves most of the work."""
        out: list[_Run] = []
        for i, f in enumerate(items):
            kinds = {a.writes for a in f.head} if f.passes and f.head == f.tail else set()
            if len(kinds) == 1 and out and out[-1].kinds == kinds:
                out[-1].stop, out[-1].touches = i + 1, out[-1].touches + f.head
            else:
                out.append(_Run(i, i + 1, kinds, f.head))
        for r in out:
            r.quiet = r.stop == r.start + 1 or r.kinds == {False} or not self._hazard(r.touches, r.touches, loops)
        return out

    def _straight(
        self, items: Sequence[_Summary], runs: Sequence[_Run], marks: set[int], loops: tuple[Val, ...], add: bool = False
    ) -> list[SharedAccess] | None:
        """What is left at the end since the last of the barriers `marks`; None if they are not enough (with `add`: those that lack
        are added)."""
        tail: list[SharedAccess] = []
        for r in runs:
            if r.quiet and marks.isdisjoint(range(r.start, r.stop)) and not self._hazard(tail, r.touches, loops):
                tail = (tail if items[r.start].passes else []) + (r.touches if r.kinds else items[r.start].tail)
                continue
            new: list[SharedAccess] = []
            for i in range(r.start, r.stop):
                f = items[i]
                if i in marks or self._hazard(tail if r.quiet else tail + new, f.head, loops):
                    if i not in marks and not add:
                        return None
                    marks.add(i)
                    tail, new = [], []
                tail, new = (tail, new + f.tail) if f.passes else ([], f.tail)
            tail = tail + new
        return tail

    def _meets(
        self, tail: Sequence[SharedAccess], items: Sequence[_Summary], runs: Sequence[_Run], marks: set[int], loops: tuple[Val, ...]
    ) -> int | None:
        """The first item that disturbs what the iteration before did after its last barrier."""
        # with a barrier in the loop, only the very next iteration can be disturbed
        following = loops[-1] if marks or not all(f.passes for f in items) else None
        for r in runs:
            if marks.isdisjoint(range(r.start, r.stop)) and not self._hazard(tail, r.touches, loops[:-1], following):
                if not items[r.start].passes:
                    return None
                continue
            for i in range(r.start, r.stop):
                if i in marks:
                    return None
                if self._hazard(tail, items[i].head, loops[:-1], following):
                    return i
        return None

    def _hazard(
        self, before: Sequence[SharedAccess], after: Sequence[SharedAccess], same: Sequence[Val], following: Val | None = None
    ) -> bool:
        """Whether an access disturbs an earlier one. Many are compared as few first, which can only say no."""

        def any_of(before: Sequence[SharedAccess], after: Sequence[SharedAccess]) -> bool:
            return any(
                (a.writes or b.writes) and clash(self.spread, a, b, same, following) for b in after for a in before if a.piece == b.piece
            )

        if len(before) * len(after) <= 4 or any_of(before[:1], after[:1]):
            return any_of(before, after)
        return any_of(merged(self.spread, before), merged(self.spread, after)) and any_of(before, after)

    # code that not all threads run ------------------------------------------------------------------------------------
    def _divergent(self, s: If | For, varying: Sequence[Val], loops: tuple[Val, ...], conds: tuple[Val, ...]) -> _Summary | None:
        found: list[tuple[SharedAccess, bool]] = []
        self._collect(s, conds, False, found, varying)
        for i, (a, repeated) in enumerate(found):
            for b, _ in found[i + (not repeated) :]:
                if a.piece == b.piece and (a.writes or b.writes) and clash(self.spread, a, b, loops):
                    raise OptError(
                        f"threads of a group would have to wait for one another inside code that not all of them run ({_under(s)}): "
                        f"{a.instr.op} and {b.instr.op} of {_name(a.piece)} touch one element; choose amounts that divide the extents, or share another axis"
                    )
        accesses = [a for a, _ in found]
        return _Summary(accesses, [a for a in accesses if a.instr.op != "copy_async"]) if accesses else None

    def _collect(
        self, s: Stmt, conds: tuple[Val, ...], repeated: bool, found: list[tuple[SharedAccess, bool]], varying: Sequence[Val]
    ) -> None:
        if isinstance(s, Instr):
            if s.op in SYNCS and (s.op == "barrier" or not self._by_warps(varying)):
                what = {"barrier": "a barrier", "shfl_xor": "a shuffle"}.get(s.op, s.op)
                raise OptError(f"{what} stands in code that not all threads of the group run")
            if self._counts(s):
                found.append((access(self.spread, s, conds), repeated))
            return
        if isinstance(s, Roles):
            return
        inner = (s.cond,) if isinstance(s, If) else (s.lo, s.hi)
        conds = (*conds, s.cond) if isinstance(s, If) else conds
        more = [*varying, *(v for v in inner if v not in varying and self.spread.varies(v))]
        for t in s.body.stmts:
            self._collect(t, conds, repeated or isinstance(s, For), found, more)

    def _by_warps(self, varying: Sequence[Val]) -> bool:
        """Whether the threads of every warp agree about these values."""
        for v in varying:
            form = self.spread.of(v)
            if form is None or self.spread.threads % self.warp:
                return False
            every = np.broadcast_to(form.known, (*form.known.shape[:-1], self.spread.threads))
            rows = every.reshape(*every.shape[:-1], -1, self.warp)
            if (rows != rows[..., :1]).any():
                return False
        return True


def _under(s: If | For) -> str:
    return "under a condition" if isinstance(s, If) else f"in loop {s.label}"


def _name(piece: tuple[str, int]) -> str:
    return f"parameter {piece[1]}" if piece[0] == "param" else f"{piece[0]}@{piece[1]}"
