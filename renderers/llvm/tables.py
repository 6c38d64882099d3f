"""What is taken out of bytes by constants. Floats of four bits: what constants make of `x & 15` is a table of sixteen numbers, and one
permutation of AVX-512 looks all lanes up. Halves of bytes: the low ones of a vector and the high ones beside them are one shift of the
vector that is loaded twice, with AVX2, where each would be shifted and joined."""

from __future__ import annotations

import re
import struct
from typing import Any

import numpy as np

from ...ir.dtypes import float32, int32, uint8
from ...program.program import Instr
from .llvm_emitter import LlvmEmitter, constant

LANES = 16
HALF = 16
"""Bytes of half a register."""
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


def note_field(e: LlvmEmitter, s: Instr) -> None:
    """Remember bytes that are shifted by a constant, and what is cut to some of their own bits then."""
    x, m = s.args
    number = _constant(e.of(m)) if x.dtype is uint8 and x.lanes == HALF and "avx2" in e.target.features else None
    if s.out is None or number is None:
        return
    source, count, mask = e.fields.get(x.id, (e.of(x), 0, 255))
    if s.op == "shr" and mask == 255 and not count and number < 8:
        e.fields[s.out.id] = source, int(number), 255 >> int(number)
    elif s.op == "and":
        e.fields[s.out.id] = source, count, mask & int(number)


def both_halves(e: LlvmEmitter, s: Instr) -> str | None:
    """Two fields of the same bytes side by side, in one vector; None where it is no such pair."""
    found = [e.fields.get(a.id) for a in s.args]
    if s.out is None or s.picks != tuple(range(2 * HALF)) or None in found:
        return None
    (source, one, first), (other, two, second) = (f for f in found if f is not None)
    if source != other or first != second:
        return None
    twice = e.emit(
        f"shufflevector <{HALF} x i8> {source}, <{HALF} x i8> poison, <32 x i32> <{', '.join(f'i32 {i % HALF}' for i in range(32))}>"
    )
    words = e.emit(f"bitcast <32 x i8> {twice} to <4 x i64>")
    moved = e.emit(f"lshr <4 x i64> {words}, <i64 {one}, i64 {one}, i64 {two}, i64 {two}>")
    return e.emit(f"and <32 x i8> {e.emit(f'bitcast <4 x i64> {moved} to <32 x i8>')}, splat (i8 {first})")


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


def _constant(text: str) -> float | None:
    """The number that stands in every lane of an operand, where it is a constant."""
    if text == "zeroinitializer":
        return 0.0
    found = _SPLAT.fullmatch(text)
    if found is None:
        return None
    whole, bits = found.groups()
    return float(whole) if whole is not None else float(struct.unpack("<d", int(bits, 16).to_bytes(8, "little"))[0])
