"""Whether two accesses to memory that the threads of a group share may touch one element from two threads.

Both are listed: every element, with the thread that touches it, over all iterations of the loops that may differ. A multiple of
something unknown (the variable of a long loop, say) makes the comparison one of remainders."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import gcd

import numpy as np

from ...program.facts import LIMIT, Array, Form, Spread
from ...program.ops import MATRIX_LOADS
from ...program.program import Instr, Val, touched


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
    keys_a, who_a = _touched(spread, at_a, a.active, lanes_a, axes, at_b, b.active)
    keys_b, who_b = _touched(spread, at_b, b.active, lanes_b, axes, at_a, a.active)
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


def _touched(
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
