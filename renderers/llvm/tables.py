"""What is taken out of bytes by constants. Floats of four bits: what constants make of `x & 15` is a table of sixteen numbers, and one
permutation of AVX-512 looks all lanes up. Bytes below 128: products of two fit 16 bits together, which one instruction of AVX2 adds."""

from __future__ import annotations

import re
import struct
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


def _constant(text: str) -> float | None:
    """The number that stands in every lane of an operand, where it is a constant."""
    if text == "zeroinitializer":
        return 0.0
    found = _SPLAT.fullmatch(text)
    if found is None:
        return None
    whole, bits = found.groups()
    return float(whole) if whole is not None else float(struct.unpack("<d", int(bits, 16).to_bytes(8, "little"))[0])
