"""Planted faults of thread groups: right Programs with one thing put wrong, as `tests/measure` has them for compiled candidates.

Here the interpreter is the verifier, and each fault must be found by what it breaks: `MUTANTS` maps a name to (the faulty Program, what
the interpreter must say). A fault that only gives wrong numbers says 'differs'."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np
from group_programs import matmul, row_sums
from tilewright.interp import run
from tilewright.ir import VerifyError
from tilewright.ir.dtypes import bool_, index
from tilewright.ir.evaluation import twin
from tilewright.program.program import Block, For, If, Instr, Program, Val, statements

Fault = Callable[[Program], None]


def checked(program: Program) -> str:
    """What is wrong with a Program of `matmul` or `row_sums`, in the integer twin; '' if nothing."""
    shapes = [p.shape for p in program.params]
    arrays = [twin.draw(s, i) for i, s in enumerate(shapes[:-1])] + [np.zeros(shapes[-1], np.uint32)]
    try:
        run(program, arrays, twin=True)
    except VerifyError as e:
        return str(e)
    want = arrays[0] @ arrays[1] if program.name == "matmul" else arrays[0].sum(1, dtype=np.uint32)
    return "" if (arrays[-1] == want).all() else "differs"


# finding and changing -----------------------------------------------------------------------------------------------
def blocks(program: Program) -> Iterator[Block]:
    for p in program.phases:
        yield p.body
        yield from (s.body for s in statements(p.body) if isinstance(s, (For, If)))


def found(program: Program, op: str, space: str = "") -> list[tuple[Block, Instr]]:
    """Every instruction of a kind, with the block it is in."""
    out = [(b, s) for b in blocks(program) for s in b.stmts if isinstance(s, Instr) and s.op == op and (not space or s.attr.space == space)]
    assert out, f"the program has no {op} {space}"
    return out


def place_of(block: Block, s: Instr) -> int:
    return next(i for i, t in enumerate(block.stmts) if t is s)


def skip_barrier(n: int) -> Fault:
    def fault(p: Program) -> None:
        block, s = found(p, "barrier")[n]
        del block.stmts[place_of(block, s)]

    return fault


def distance(old: int, new: int) -> Fault:
    def fault(p: Program) -> None:
        (s,) = [s for _, s in found(p, "shfl_xor") if s.attr == old]
        s.attr = new

    return fault


def everybody_stores(space: str) -> Fault:
    """The guard round a store is gone."""

    def fault(p: Program) -> None:
        for b in blocks(p):
            for i, s in enumerate(b.stmts):
                if isinstance(s, If) and any(isinstance(t, Instr) and t.op == "store" and t.attr.space == space for t in s.body.stmts):
                    b.stmts[i : i + 1] = s.body.stmts
                    return
        raise AssertionError("no guarded store")

    return fault


def less_shared(p: Program) -> None:
    p.shared -= 4


def barrier_in_branch(p: Program) -> None:
    block, s = found(p, "barrier")[0]
    at = place_of(block, s)
    phase = p.phases[0]
    assert phase.thread is not None
    half, few = Val(10**6, index, 1, 0), Val(10**6 + 1, bool_, 1, 0)
    block.stmts[at : at + 1] = [Instr("const", half, (), phase.threads // 2), Instr("lt", few, (phase.thread, half)), If(few, Block([s]))]


def shift_shared(by: int, op: str) -> Fault:
    def fault(p: Program) -> None:
        _, s = found(p, op, "shared")[-1]
        s.attr = dataclasses.replace(s.attr, offset=s.attr.offset + by)

    return fault


# the list -----------------------------------------------------------------------------------------------------------
def tiled() -> Program:
    return matmul(barriers=True)


def padded() -> Program:
    return matmul(barriers=True, pad=1)


def summed() -> Program:
    return row_sums(barriers=True)


def planted(make: Callable[[], Program], fault: Fault) -> Callable[[], Program]:
    def faulty() -> Program:
        p = make()
        fault(p)
        return p

    return faulty


MUTANTS: dict[str, tuple[Callable[[], Program], str]] = {
    "barrier before the fill skipped": (planted(tiled, skip_barrier(0)), "is written with no barrier since"),
    "barrier after the fill skipped": (planted(tiled, skip_barrier(1)), "is read with no barrier since"),
    "barrier after the warps' sums skipped": (planted(summed, skip_barrier(0)), "is read with no barrier since"),
    "shuffle distances swapped": (planted(summed, distance(16, 8)), "differs"),
    "shuffle out of the warp": (planted(summed, distance(16, 32)), "leaves the warp"),
    "every thread stores the result": (planted(summed, everybody_stores("param")), "written by thread .* at once"),
    "every thread stores its warp's sum": (planted(summed, everybody_stores("shared")), "written by thread .* at once"),
    "a word of shared memory too little": (planted(tiled, less_shared), "is outside its"),
    "a word of shared memory too little, with a padded tile": (planted(padded, less_shared), "is outside its"),
    "a word too little for the sums": (planted(summed, less_shared), "is outside its"),
    "a barrier for half of the group": (planted(tiled, barrier_in_branch), "threads arrive at the barrier"),
    "a barrier for half of the threads that sum": (planted(summed, barrier_in_branch), "threads arrive at the barrier"),
    "rows stored too close": (lambda: matmul(barriers=True, pad=1, stored=8), "is read before it is written"),
    "rows stored too far apart": (lambda: matmul(barriers=True, stored=9), "is outside its"),
    "rows stored over one another": (lambda: matmul(barriers=True, pad=1, stored=7), "is written by thread .* at once"),
    "a tile read one word on": (planted(tiled, shift_shared(+1, "load")), "is outside its"),
    "a tile stored one word on": (planted(tiled, shift_shared(+1, "store")), "is outside its|no barrier since"),
}
