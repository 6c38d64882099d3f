"""Accesses of vectors under masks that are known while they are written: plain loads and stores of the lanes that are on."""

from __future__ import annotations

from math import gcd

from ...program.program import Mem
from ...program.runs import in_pieces, pieces
from .emitter import LlvmEmitter
from .types import memory, vector


def known(mask: str, lanes: int) -> tuple[bool, ...] | None:
    """The lanes of a mask that is written as a constant; None of another."""
    if mask == "zeroinitializer":
        return (False,) * lanes
    on = [lane.strip() for lane in mask.strip("<>").split(",")]
    return tuple(lane == "i1 true" for lane in on) if mask.startswith("<") and set(on) <= {"i1 true", "i1 false"} else None


def load(e: LlvmEmitter, where: str, mem: Mem, mask: str, lanes: int) -> str | None:
    """The elements of the lanes that are on, and zeros. None where an instruction with a mask is better, or the mask is not known.

    (One lane stays one element: LLVM 22 folds what follows into a masked access and then touches more bytes than there are.)"""
    on = known(mask, lanes)
    if on is None or not in_pieces(on, mem.dtype.size, e.target.features, store=False):
        return None
    scalar = memory(mem.dtype)
    whole = vector(scalar, lanes)
    x = "zeroinitializer"
    for first, count in pieces(on):
        one = e.emit(f"load {vector(scalar, count)}, ptr {_place(e, where, mem, first)}, align {_align(mem, first)}")
        if count == 1:
            x = e.emit(f"insertelement {whole} {x}, {scalar} {one}, i32 {first}")
            continue
        wide = _shuffled(e, scalar, count, one, "poison", [i if i < count else -1 for i in range(lanes)])
        x = _shuffled(e, scalar, lanes, x, wide, [lanes + i - first if first <= i < first + count else i for i in range(lanes)])
    return x


def store(e: LlvmEmitter, x: str, where: str, mem: Mem, mask: str, lanes: int) -> bool:
    """Write the lanes that are on; False where an instruction with a mask is better, or the mask is not known."""
    on = known(mask, lanes)
    if on is None or not in_pieces(on, mem.dtype.size, e.target.features, store=True):
        return False
    scalar = memory(mem.dtype)
    for first, count in pieces(on):
        if count == 1:
            one = e.emit(f"extractelement {vector(scalar, lanes)} {x}, i32 {first}")
        else:
            one = _shuffled(e, scalar, lanes, x, "poison", list(range(first, first + count)))
        e.line(f"store {vector(scalar, count)} {one}, ptr {_place(e, where, mem, first)}, align {_align(mem, first)}")
    return True


def _shuffled(e: LlvmEmitter, scalar: str, lanes: int, a: str, b: str, picks: list[int]) -> str:
    ty = vector(scalar, lanes)
    chosen = ", ".join(f"i32 {p}" if p >= 0 else "i32 poison" for p in picks)
    return e.emit(f"shufflevector {ty} {a}, {ty} {b}, <{len(picks)} x i32> <{chosen}>")


def _place(e: LlvmEmitter, where: str, mem: Mem, lane: int) -> str:
    return e.emit(f"getelementptr {memory(mem.dtype)}, ptr {where}, i64 {lane}") if lane else where


def _align(mem: Mem, lane: int) -> int:
    return gcd(mem.align, lane * mem.dtype.size) if lane else mem.align
