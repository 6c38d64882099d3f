"""Stores of narrow elements that are computed in vectors of 32 bits are joined: bytes four registers at a time, floats of 16 bits two
at a time.

Where the widest type of a point has 32 bits, its vectors have as many lanes as a register has words, and a store of bytes is a
quarter of a register. AVX2 packs the words of four registers into one of bytes by three instructions, and one more puts them in order
(`Target.packs_bytes`). One by one, each takes four. So four stores that follow each other in memory become one, where the last of
them stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ...ir.dtypes import DType, float16, float32
from ...program.facts import DefUse
from ...program.program import Instr, Program, Val
from ...targets import Target
from .straight_runs import before, each_run

TOGETHER = 4
"""Registers of words in one of bytes."""


def join_bytes(program: Program, words: int) -> None:
    """Join stores in place, of vectors with as many lanes as a register has words. Results are the same to the bit."""
    if not any(p.role == "out" and p.dtype.is_int and p.dtype.size == 1 for p in program.params):
        return
    uses = DefUse(program)

    def joined(run: list[Instr]) -> list[Instr]:
        groups = _groups(run, words, uses)
        return _rewritten(run, groups, uses) if groups else run

    for phase in program.phases:
        each_run(phase.body, joined)


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


# floats of 16 bits ----------------------------------------------------------------------------------------------------
# Processors without AVX-512 narrow each half of a vector and store it by itself, though their instruction narrows two
# vectors into one. So two halves that lie side by side are narrowed as one vector of twice the lanes, which the
# renderer writes as two, and stored at once. (Whole numbers would need their upper bits cleared first.)


def narrows_two(target: Target) -> bool:
    """Whether a target narrows two vectors into one, and not each by itself as it stores it."""
    return target.lang == "llvm" and target.arch == "x86_64" and "avx512" not in target.features


def join_halves(program: Program, target: Target) -> None:
    """Rewrite what can be, in place: results are the same to the bit."""
    if any(_half(p.dtype, target) and p.role == "out" for p in program.params):
        found = _Narrowing(program, target)
        for phase in program.phases[program.once :]:
            each_run(phase.body, found.joined)


def _half(dtype: DType, target: Target) -> bool:
    """Whether a type has 16 bits of a float, and no instruction that stores as it converts."""
    return dtype.is_float and dtype.size == 2 and not (dtype is float16 and "f16c" in target.features)


class _Narrowing:
    """What is known while runs are rewritten."""

    def __init__(self, program: Program, target: Target) -> None:
        self.target, self.shared, self.uses = target, program.shared_params, DefUse(program)

    def joined(self, run: list[Instr]) -> list[Instr]:
        """A run with its stores of halves joined."""
        made = {s.out: i for i, s in enumerate(run) if s.op == "cast" and s.args[0].dtype is float32}
        stores = {i: made[s.args[1]] for i, s in enumerate(run) if self._narrows(s) and s.args[1] in made}
        need = before(run, self.shared) if len(stores) > 1 else []
        pairs = {max(pair): pair for pair in self._pairs(run, stores, need)}
        gone = {i for pair in pairs.values() for at in pair for i in (at, stores[at])}
        out: list[Instr] = []
        for i, s in enumerate(run):
            if i in pairs:
                out += self._both(run, pairs[i], stores)
            elif i not in gone:
                out.append(s)
        return out if pairs else run

    def _narrows(self, s: Instr) -> bool:
        """Whether a store is of half a vector, which nothing else reads."""
        if s.op != "store" or len(s.args) != 2 or s.mem.nt or s.mem.space != "param":
            return False
        v = s.args[1]
        return _half(v.dtype, self.target) and v.lanes > 1 and 4 * v.lanes <= self.target.vector_bytes and self.uses.count[v] == 1

    def _pairs(self, run: list[Instr], stores: dict[int, int], need: list[set[int]]) -> Iterator[tuple[int, int]]:
        """Stores of halves side by side, the one of what comes first in memory first. The earlier one may wait for the later."""
        places = {self._place(run[i], run[stores[i]]): i for i in stores}
        taken: set[int] = set()
        for i in sorted(stores, key=lambda i: run[i].mem.offset):
            s = run[i]
            beside = replace(s.mem, offset=s.mem.offset + s.args[1].lanes)
            other = places.get(self._place(Instr("store", None, s.args, beside), run[stores[i]]))
            if other is None or {i, other} & taken:
                continue
            if not any(min(i, other) in need[k] for k in range(min(i, other) + 1, max(i, other))):
                taken |= {i, other}
                yield i, other

    def _place(self, store: Instr, cast: Instr) -> tuple[object, ...]:
        at, v = store.args
        return store.mem.base, store.mem.offset, at.id, v.dtype, v.lanes, cast.args[0].dtype

    def _both(self, run: list[Instr], pair: tuple[int, int], stores: dict[int, int]) -> Iterable[Instr]:
        """What stores two halves, of which the first comes first in memory."""
        low, high = (run[i] for i in pair)
        a, b = (run[stores[i]].args[0] for i in pair)
        piece = low.args[1]
        lanes, depth = 2 * piece.lanes, max(piece.depth, high.args[1].depth)
        wide, both = self.uses.fresh(a.dtype, lanes, depth), self.uses.fresh(piece.dtype, lanes, depth)
        yield Instr("shuffle", wide, (a, b), tuple(range(lanes)))
        yield Instr("cast", both, (wide,), run[stores[pair[0]]].attr)
        yield Instr("store", None, (low.args[0], both), low.mem)
