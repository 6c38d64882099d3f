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

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from math import gcd

import numpy as np

from ...ir.errors import OptError
from ...program.facts import LIMIT, Array, Form, Spread
from ...program.ops import MATRIX_LOADS, SYNCS
from ...program.program import Block, For, If, Instr, Phase, Roles, Stmt, Val, statements, touched

# conflicts ------------------------------------------------------------------------------------------------------------
# Whether two accesses to memory that the threads of a group share may touch one element from two threads.
#
# Both are listed: every element, with the thread that touches it, over all iterations of the loops that may differ. A
# multiple of something unknown (the variable of a long loop, say) makes the comparison one of remainders.


@dataclass(slots=True, eq=False)
class SharedAccess:
    """One load or store of memory that threads share."""

    piece: tuple[str, int]
    writes: bool
    instr: Instr
    form: Form | None
    lanes: int
    active: Array | None
    """Who takes part, where known: as `Form.known`, of bools."""
    landing: bool = False
    """It is what a copy beside the thread writes, at a wait: of any iteration."""

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return touched(self.instr)[0][0].dtype.size

    @property
    def kind(self) -> tuple[bool, bool, bool]:
        """Whether it writes, and at a wait, and whether other threads get what it reads."""
        return self.writes, self.landing, self.instr.op in MATRIX_LOADS


def access(spread: Spread, s: Instr, conds: Sequence[Val]) -> SharedAccess:
    """What an instruction touches, in a block that threads enter where `conds` hold."""
    if s.op == "copy_async":
        return _copied(spread, s, conds)
    mem = s.mem
    at, value = s.args[0], s.out if s.out is not None else s.args[1]
    form = spread.of(at) if at.lanes == 1 else None
    if form is not None:
        form = Form(form.terms, form.known + mem.offset)
    mask = s.args[1:] if s.out is not None else s.args[2:]
    known = [
        a for c in (*conds, *(m for m in mask if m.lanes == 1)) if (f := spread.of(c)) is not None and (a := spread.counted(f)) is not None
    ]
    active = reduce(operator.and_, [a != 0 for a in known]) if known else None
    lanes = 16 // mem.dtype.size if s.op in MATRIX_LOADS else value.lanes
    return SharedAccess((mem.space, mem.base), s.out is None, s, form, lanes, active)


def _copied(spread: Spread, s: Instr, conds: Sequence[Val]) -> SharedAccess:
    """What a copy beside the thread writes, zeros where its mask does not hold included."""
    to, form = s.copy.to, spread.of(s.args[0])
    known = [a for c in conds if (f := spread.of(c)) is not None and (a := spread.counted(f)) is not None]
    active = reduce(operator.and_, [a != 0 for a in known]) if known else None
    form = None if form is None else Form(form.terms, form.known + to.offset)
    return SharedAccess((to.space, to.base), True, s, form, s.copy.lanes, active)


def clash(spread: Spread, a: SharedAccess, b: SharedAccess, same: Sequence[Val], following: Val | None = None) -> bool:
    """Whether one thread may touch by `a` what another touches by `b`, in one and the same iteration of the loops `same` (variables,
    outermost first), with `b` in the iteration after that of `a` of the loop `following` in them, and in any iterations of the others."""
    if a.form is None or b.form is None or a.piece != b.piece:
        return a.piece == b.piece
    if a.landing:
        same, following = (), None
    listed: list[Val] = []
    modulus, shift, room = 0, 0, LIMIT // max(spread.threads, a.form.known.size, b.form.known.size)
    scale_a, scale_b = (1, 1) if a.size == b.size else (a.size, b.size)
    for u in {**a.form.terms, **b.form.terms}:
        ka, kb = a.form.terms.get(u, 0) * scale_a, b.form.terms.get(u, 0) * scale_b
        fixed = all(v in same for v in spread.around.get(u, ()))
        trips = spread.trips(u) if u in spread.loops and u not in spread.periods else None
        if ka == kb and (fixed or u is following):
            shift += 0 if fixed else kb
            continue
        if trips is not None and trips <= room:
            listed.append(u)
            room //= max(1, trips)
        else:
            modulus = gcd(modulus, ka - kb) if fixed else gcd(modulus, ka, kb)
    at_a, at_b = (spread.counted(f, [u for u in listed if u in f.terms]) for f in (a.form, b.form))
    if at_a is None or at_b is None:
        return True
    at_a, at_b, lanes_a, lanes_b = at_a * scale_a, at_b * scale_b + shift, a.lanes * scale_a, b.lanes * scale_b
    if not modulus and (at_a.max() + lanes_a <= at_b.min() or at_b.max() + lanes_b <= at_a.min()):
        return False
    axes = [d for d in range(len(same) + (following is not None)) if any(_long(x, d) for x in (at_a, at_b, a.active, b.active))]
    keys_a, who_a = _elements_of(spread, at_a, a.active, lanes_a, axes, at_b, b.active)
    keys_b, who_b = _elements_of(spread, at_b, b.active, lanes_b, axes, at_a, a.active)
    if MATRIX_LOADS & {a.instr.op, b.instr.op}:
        who_b = who_b + spread.threads  # whoever names a row, another thread may get what it holds
    if axes and axes[-1] == len(same):
        keys_a[-1] = keys_a[-1] + 1
        if following in spread.periods:
            keys_a[-1] = keys_a[-1] % spread.periods[following]
    if modulus:
        keys_a, keys_b = [[k % modulus if i == 0 else k for i, k in enumerate(ks)] for ks in (keys_a, keys_b)]
    return _meet(keys_a, who_a, keys_b, who_b)


def merged(spread: Spread, accesses: Sequence[SharedAccess]) -> list[SharedAccess]:
    """Fewer accesses that touch the same: those that differ only in what is known of their addresses become one."""
    alike: dict[tuple[object, ...], list[SharedAccess]] = {}
    out = []
    for a in accesses:
        if a.form is None:
            out.append(a)
        else:
            shapes = a.form.known.shape, None if a.active is None else a.active.shape
            alike.setdefault((a.piece, a.kind, a.lanes, a.size, shapes, frozenset(a.form.terms.items())), []).append(a)
    for group in alike.values():
        first = group[0]
        if len(group) > 1 and first.form is not None:
            known = _stacked(spread, [a.form.known for a in group if a.form is not None])
            active = None if first.active is None else _stacked(spread, [a.active for a in group if a.active is not None])
            first = SharedAccess(first.piece, first.writes, first.instr, Form(first.form.terms, known), first.lanes, active, first.landing)
        out.append(first)
    return out


def _stacked(spread: Spread, arrays: Sequence[Array]) -> Array:
    """Arrays of threads and loops, of one shape, along an axis outside of all loops."""
    shape = arrays[0].shape
    return np.stack(arrays).reshape(len(arrays), *(1,) * (2 + spread.deepest - len(shape)), *shape)


def _long(x: Array | None, depth: int) -> bool:
    return x is not None and x.ndim >= depth + 2 and x.shape[-2 - depth] > 1


def _elements_of(
    spread: Spread, at: Array, active: Array | None, lanes: int, axes: Sequence[int], *others: Array | None
) -> tuple[list[Array], Array]:
    """(element, iteration of each loop in `axes`) of every access, and which thread makes it."""
    shape = [1] * (2 + max(axes, default=-1))
    shape[-1] = spread.threads
    for d in axes:
        shape[-2 - d] = max(x.shape[-2 - d] for x in (at, active, *others) if x is not None and x.ndim >= d + 2)
    full = np.broadcast_shapes(at.shape, () if active is None else active.shape, tuple(shape))
    on = np.broadcast_to(True if active is None else active, full)
    where = np.nonzero(on)
    element = np.broadcast_to(at, full)[where]
    parts = [where[len(full) - 2 - d] for d in axes]
    spread_out = (element[:, None] + np.arange(lanes)).ravel()
    return [spread_out, *(np.repeat(p, lanes) for p in parts)], np.repeat(where[-1], lanes)


def _meet(keys_a: list[Array], who_a: Array, keys_b: list[Array], who_b: Array) -> bool:
    """Whether some key is in both lists, with two different threads."""
    if not len(who_a) or not len(who_b):
        return False
    a, b, size = keys_a[0] * 0, keys_b[0] * 0, 1
    for x, y in zip(keys_a, keys_b, strict=True):
        low, high = min(x.min(), y.min()), max(x.max(), y.max())
        a, b, size = a * (high - low + 1) + (x - low), b * (high - low + 1) + (y - low), size * int(high - low + 1)
    if size > 8 * LIMIT:  # number the keys there are
        _, both = np.unique(np.concatenate((a, b)), return_inverse=True)
        a, b, size = both[: len(a)], both[len(a) :], len(both)
    owner = np.full(size, -1)
    owner[a] = who_a
    crowded = np.zeros(size, bool)
    crowded[a[owner[a] != who_a]] = True  # touched by several, whichever of them is the owner
    there = owner[b]
    return bool(((there >= 0) & ((there != who_b) | crowded[b])).any())


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
