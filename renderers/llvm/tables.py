"""What is taken out of bytes by constants. Floats of four bits: what constants make of `x & 15` is a table of sixteen numbers, and one
permutation of AVX-512 looks all lanes up, and so does one of what is gathered from a short row. Bytes below 128: products of two fit 16 bits together, which one instruction of AVX2 adds."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.dtypes import float32, int32, uint8
from ...program.program import Instr, Val
from .llvm_emitter import LlvmEmitter, constant

LANES = 16
SIGN = 128
_SPLAT = re.compile(r"splat \((?:i(?:8|32) (-?\d+)|float 0x([0-9A-F]{16}))\)")
_OPS: dict[str, Any] = {"add": np.add, "sub": np.subtract, "mul": np.multiply}


def note_mask(e: LlvmEmitter, s: Instr) -> None:
    """Remember an integer that is cut to at most four bits. (A permutation looks at the lowest four of an index.)"""
    assert s.out is not None
    if s.op != "and" or s.out.dtype is not int32 or s.out.lanes != LANES or "avx512" not in e.target.features:
        return
    for x, m in (s.args, s.args[::-1]):
        mask = _constant(e.of(m))
        if mask is not None and 0 <= mask < LANES:
            e.tables[s.out.id] = e.of(x), np.arange(LANES) & int(mask)


def note_bytes(e: LlvmEmitter, s: Instr) -> None:
    """Remember bytes that are cut by a constant so that they have no sign bit."""
    numbers = [_constant(e.of(a)) for a in s.args] if s.out is not None and s.op == "and" and s.out.dtype is uint8 else []
    if s.out is not None and any(n is not None and 0 <= n < SIGN for n in numbers):
        e.small.add(s.out.id)


def small(e: LlvmEmitter, v: Val) -> bool:
    """Whether unsigned bytes are known to have no sign bit: products of two of them by signed bytes fit 16 bits together."""
    number = _constant(e.of(v))
    return v.id in e.small or (number is not None and 0 <= number < SIGN)


def looked_up(e: LlvmEmitter, s: Instr) -> str | None:
    """The result of a conversion to float32, or of arithmetic with a constant, out of a table; None where it is in none."""
    out = s.out
    if out is None or out.dtype is not float32 or not any(a.id in e.tables for a in s.args):
        return None
    if s.op == "cast":
        index, values = e.tables[s.args[0].id]
        made = values.astype(np.float32)
    else:
        sides = [e.tables[a.id] if a.id in e.tables else ("", _constant(e.of(a))) for a in s.args]
        if s.op not in _OPS or any(values is None for _, values in sides) or all(index for index, _ in sides):
            return None
        index = next(index for index, _ in sides if index)
        with np.errstate(all="ignore"):
            made = _OPS[s.op](*(np.asarray(values, np.float32) for _, values in sides))
    e.tables[out.id] = index, made
    floats, name = f"<{LANES} x float>", "@llvm.x86.avx512.permvar.sf.512"
    e.declare(name, f"declare {floats} {name}({floats}, <{LANES} x i32>)")
    table = constant(tuple(float(v) for v in made), float32, LANES)
    return e.emit(f"call {floats} {name}({floats} {table}, <{LANES} x i32> {index})")


# rows -----------------------------------------------------------------------------------------------------------------
_PICKS = {
    (1, 16): "ssse3.pshuf.b.128", (1, 32): "avx2.pshuf.b", (1, 64): "avx512.pshuf.b.512", (2, 32): "avx512.permvar.hi.512",
    (4, 8): "avx2.permd", (4, 16): "avx512.permvar.si.512", (8, 8): "avx512.permvar.di.512",
}  # fmt: skip
"""Instructions that pick an element for each lane, by (bytes of an element, lanes). (That of bytes picks out of 16 in each quarter.)"""


def picked(e: LlvmEmitter, s: Instr, pointer: Callable[[], str]) -> str | None:
    """The elements of a gather that picks them out of a short row, which begins where `pointer` says, as integers; None where the processor
    has no instruction for that."""
    size, lanes, longest = s.mem.dtype.size, s.result.lanes, e.target.picks(s.mem.dtype.size)
    width = longest if size > 1 else next((w for w in (16, 32, 64) if w >= lanes), 0)
    found = _picks(e, s.args[0]) if s.mem.row and lanes <= width else None
    if found is None:
        return None
    start, pick = found
    scalar = f"i{8 * size}"
    ty, place = f"<{width} x {scalar}>", pointer()
    if start is not None:
        place = e.emit(f"getelementptr {scalar}, ptr {place}, i64 {e.of(start)}")
    index = _resized(e, "i32", pick.lanes, e.of(pick), range(pick.lanes), width)
    if size != 4:
        index = e.emit(f"{'trunc' if size < 4 else 'zext'} <{width} x i32> {index} to {ty}")
    name = f"@llvm.x86.{_PICKS[size, width]}"
    e.declare(name, f"declare {ty} {name}({ty}, {ty})")
    parts = []
    for first in range(0, s.mem.row, longest):
        count = min(longest, s.mem.row - first)
        where = e.emit(f"getelementptr {scalar}, ptr {place}, i64 {first}") if first else place
        one = e.emit(f"load <{count} x {scalar}>, ptr {where}, align {size}")
        table = _resized(e, scalar, count, one, [i % longest for i in range(width)], width)
        parts.append(e.emit(f"call {ty} {name}({ty} {table}, {ty} {index})"))
    x = parts[0]
    if len(parts) > 1:
        low = e.emit(f"icmp ult {ty} {index}, splat ({scalar} {longest})")
        x = e.emit(f"select <{width} x i1> {low}, {ty} {x}, {ty} {parts[1]}")
    return _resized(e, scalar, width, x, range(lanes), lanes)


def _picks(e: LlvmEmitter, at: Val) -> tuple[Val | None, Val] | None:
    """An index as what it is for all lanes, if anything is, and the 32-bit numbers that are added to that."""
    s = e.indices.get(at)
    if s is None:
        return None
    if s.op == "cast":
        return (None, s.args[0]) if s.args[0].dtype is int32 else None
    sides = [e.indices.get(a) for a in s.args]
    for i, one in enumerate(sides if s.op == "add" else ()):
        other = sides[1 - i]
        if one is not None and one.op == "cast" and one.args[0].dtype is int32 and other is not None and other.op == "splat":
            return other.args[0], one.args[0]
    return None


def _resized(e: LlvmEmitter, scalar: str, lanes: int, x: str, picks: Sequence[int], width: int) -> str:
    """The lanes `picks` of a vector as the first of one with `width` lanes, of which the others are anything."""
    if lanes == width and list(picks) == list(range(width)):
        return x
    order = ", ".join(f"i32 {picks[i]}" if i < len(picks) and picks[i] < lanes else "i32 poison" for i in range(width))
    return e.emit(f"shufflevector <{lanes} x {scalar}> {x}, <{lanes} x {scalar}> poison, <{width} x i32> <{order}>")


def _constant(text: str) -> float | None:
    """The number that stands in every lane of an operand, where it is a constant."""
    if text == "zeroinitializer":
        return 0.0
    found = _SPLAT.fullmatch(text)
    if found is None:
        return None
    whole, bits = found.groups()
    return float(whole) if whole is not None else float(struct.unpack("<d", int(bits, 16).to_bytes(8, "little"))[0])
