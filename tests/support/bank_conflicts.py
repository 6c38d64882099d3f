"""Bank conflicts of shared memory, counted from the addresses that every thread of a warp computes.

There are 32 banks of 4 bytes. What the threads of a warp ask for at once is served in one pass unless two of them want different words
of one bank. Accesses of 8 and 16 bytes a thread are done for half and for a quarter of a warp at a time (CUDA C++ Programming Guide,
"Shared Memory" of compute capability 5.x and later; Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via
Microbenchmarking", 2018)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from tilewright.lower.passes.barriers import SharedAccess, access
from tilewright.program.facts import Array, Spread
from tilewright.program.program import Block, For, If, Instr, Phase, Program, Val, touched

BANKS, WORD = 32, 4


@dataclass(frozen=True, slots=True)
class BankUse:
    """One access to shared memory. `degree`: passes for what one pass could do, at worst over all warps and iterations that are spelled
    out: 1 without conflicts. None where addresses are not known."""

    instr: Instr
    degree: int | None


def bank_uses(program: Program, warp: int = 32) -> list[BankUse]:
    """Every access to shared memory of the phases with several threads, in order; `warp` threads ask together."""
    out = []
    for phase in program.phases:
        if phase.threads > 1:
            spread = Spread(phase)
            out += [BankUse(s, _degree(spread, access(spread, s, conds), warp)) for s, conds in _accesses(phase)]
    return out


def worst(program: Program, warp: int = 32) -> int:
    """The largest degree of a Program's accesses whose addresses are known; 1 where there is none."""
    return max((u.degree for u in bank_uses(program, warp) if u.degree is not None), default=1)


def _accesses(phase: Phase) -> Iterator[tuple[Instr, tuple[Val, ...]]]:
    def walk(block: Block, conds: tuple[Val, ...]) -> Iterator[tuple[Instr, tuple[Val, ...]]]:
        for s in block.stmts:
            if isinstance(s, Instr):
                if any(mem.space == "shared" for mem, _ in touched(s)[:1]):
                    yield s, conds
            else:
                assert isinstance(s, (If, For))
                yield from walk(s.body, (*conds, s.cond) if isinstance(s, If) else conds)

    return walk(phase.body, ())


def _degree(spread: Spread, a: SharedAccess, warp: int) -> int | None:
    if a.form is None:
        return None
    size, at = a.size, a.form.known
    full = np.broadcast_shapes(at.shape, () if a.active is None else a.active.shape, (spread.threads,))
    at = np.broadcast_to(at, full).reshape(-1, spread.threads) * size + a.piece[1]
    active = np.broadcast_to(True if a.active is None else a.active, full).reshape(-1, spread.threads)
    bytes_each = a.lanes * size
    worst_of = 1
    start = 0
    while start < bytes_each:
        # as it is cut up where it is rendered: 16, 8 or 4 bytes at a time
        piece = next((n for n in (16, 8, 4) if n <= bytes_each - start and touched(a.instr)[0][0].align >= n), min(size, bytes_each))
        together = max(1, min(warp, warp * WORD // max(piece, WORD)))
        worst_of = max(worst_of, _passes(at + start, active, piece, together))
        start += piece
    return worst_of


def _passes(at: Array, active: Array, piece: int, together: int) -> int:
    """The most different words of one bank among the threads that are served together."""
    found = 1
    words = [(at + i) // WORD for i in range(0, max(piece, 1), WORD)]
    for row, on in zip(np.stack(words, -1), active, strict=True):
        for first in range(0, len(row), together):
            some = row[first : first + together][on[first : first + together]].reshape(-1)
            if len(some):
                different = np.unique(some)
                found = max(found, int(np.bincount(different % BANKS).max()))
    return found
