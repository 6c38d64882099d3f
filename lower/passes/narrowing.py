"""Floats of 16 bits are stored a whole vector at a time.

Numbers of 32 bits that are stored as 16 fill half a vector, and processors without AVX-512 bring each half together and store it by
itself, though their instruction narrows two vectors into one. So two halves that lie side by side are narrowed as one vector of twice
the lanes, which its renderer spells as two, and stored at once. (Of whole numbers, the upper bits would have to be cleared before.)"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ...ir.dtypes import DType, float16, float32
from ...program.facts import DefUse
from ...program.program import Instr, Program
from ...targets import Target
from .straight_runs import before, each_run


def applies(target: Target) -> bool:
    """Whether a target narrows two vectors into one, and not each by itself as it stores it."""
    return target.lang == "llvm" and target.arch == "x86_64" and "avx512" not in target.features


def join(program: Program, target: Target) -> bool:
    """Rewrite what can be, in place: results are the same to the bit. False where there is nothing to look for."""
    if not any(_half(p.dtype, target) and p.role == "out" for p in program.params):
        return False
    found = _Narrowing(program, target)
    for phase in program.phases[program.once :]:
        each_run(phase.body, found.joined)
    return True


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
