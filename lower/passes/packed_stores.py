"""Stores of narrow elements that are computed in vectors of 32 bits are joined where one instruction narrows several vectors into one: bytes
four registers at a time, floats of 16 bits two at a time.

Where the widest type of a point has 32 bits, its vectors have as many lanes as a register has words, and a store of bytes is a
quarter of a register. AVX2 packs the words of four registers into one of bytes by three instructions, and one more puts them in order
(`Target.packs_bytes`). One by one, each takes four. Without AVX-512 the same goes for halves of vectors of 16-bit floats. (Whole numbers of
16 bits would need their upper bits cleared first.) So stores that follow each other in memory become one, where the last of them stands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ...ir.dtypes import DType, float16, float32
from ...program.facts import DefUse
from ...program.program import Instr, Mem, Program, Val
from ...targets import Target
from .scheduling import before, each_run

Fits = Callable[[Instr, Val], bool]
"""Whether a store of what is narrowed from a value may be joined with others."""


def narrows_two(target: Target) -> bool:
    """Whether a target narrows two vectors into one, and not each by itself as it stores it."""
    return target.lang == "llvm" and target.arch == "x86_64" and "avx512" not in target.features


def join_bytes(program: Program, words: int) -> None:
    """Join four stores each, in place, of vectors with as many lanes as a register has words. Results are the same to the bit."""

    def fits(store: Instr, source: Val) -> bool:
        v = store.args[1]
        return v.dtype.is_int and v.dtype.size == 1 and v.lanes == words and source.dtype.size == 4

    if any(p.role == "out" and p.dtype.is_int and p.dtype.size == 1 for p in program.params):
        _join(program, 4, fits)


def join_halves(program: Program, target: Target) -> None:
    """Join two stores each of 16-bit floats, in place, where no instruction stores as it converts. Results are the same to the bit."""

    def half(dtype: DType) -> bool:
        return dtype.is_float and dtype.size == 2 and not (dtype is float16 and "f16c" in target.features)

    def fits(store: Instr, source: Val) -> bool:
        v = store.args[1]
        return half(v.dtype) and store.mem.space == "param" and 1 < v.lanes <= target.vector_bytes // 4 and source.dtype is float32

    if any(p.role == "out" and half(p.dtype) for p in program.params):
        _join(program, 2, fits)


def _join(program: Program, together: int, fits: Fits) -> None:
    uses = DefUse(program)
    for phase in program.phases[program.once :]:
        each_run(phase.body, lambda run: _joined(run, together, fits, uses, program.shared_params))


def _joined(run: list[Instr], together: int, fits: Fits, uses: DefUse, shared: frozenset[int]) -> list[Instr]:
    """A run with one store for each group."""
    casts = {s.result: s for s in run if s.op == "cast"}
    stores = {i for i, s in enumerate(run) if s.op == "store" and len(s.args) == 2 and not s.mem.nt and s.args[1] in casts}
    stores = {i for i in stores if uses.count[v := run[i].args[1]] == 1 and fits(run[i], casts[v].args[0])}
    need = before(run, shared) if len(stores) >= together else []
    groups = [g for g in _groups(run, stores, casts, together) if not any(set(g) & need[j] for j in range(min(g), max(g) + 1))]
    if not groups:
        return run
    ends = {max(g): [run[i] for i in g] for g in groups}
    gone = {id(s) for g in ends.values() for store in g for s in (store, casts[store.args[1]])}
    out: list[Instr] = []
    for i, s in enumerate(run):
        if i in ends:
            out += _packed_store(ends[i], casts, uses)
        elif id(s) not in gone:
            out.append(s)
    return out


def _groups(run: list[Instr], stores: set[int], casts: dict[Val, Instr], together: int) -> Iterator[list[int]]:
    """The positions of stores that are side by side, in the order of memory."""
    rows: dict[tuple[Mem, Val, DType, int, DType], dict[int, int]] = {}
    for i in stores:
        s, v = run[i], run[i].args[1]
        row = (replace(s.mem, offset=0, align=1), s.args[0], v.dtype, v.lanes, casts[v].args[0].dtype)
        rows.setdefault(row, {})[s.mem.offset] = i
    for (_, _, _, lanes, _), at in rows.items():
        left = set(at)
        for first in sorted(at):
            group = [first + k * lanes for k in range(together)]
            if left.issuperset(group):
                left -= set(group)
                yield [at[o] for o in group]


def _packed_store(stores: list[Instr], casts: dict[Val, Instr], uses: DefUse) -> list[Instr]:
    """The instructions of one store."""
    out: list[Instr] = []
    depth = max(s.args[1].depth for s in stores)
    parts = [casts[s.args[1]].args[0] for s in stores]
    while len(parts) > 1:
        pairs, parts = zip(parts[::2], parts[1::2], strict=True), []
        for a, b in pairs:
            both = uses.fresh(a.dtype, 2 * a.lanes, depth)
            out.append(Instr("shuffle", both, (a, b), tuple(range(both.lanes))))
            parts.append(both)
    first = casts[stores[0].args[1]]
    whole = uses.fresh(first.result.dtype, parts[0].lanes, depth)
    return [*out, Instr("cast", whole, (parts[0],), first.attr), Instr("store", None, (stores[0].args[0], whole), stores[0].mem)]
