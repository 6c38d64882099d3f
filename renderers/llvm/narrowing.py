"""Vectors of 32-bit integers as bytes, where LLVM takes each register apart: AVX2 packs two registers at a time."""

from __future__ import annotations

from ...ir.dtypes import DType
from .emitter import LlvmEmitter

LANES = 32
"""Bytes of a register: four registers of 32-bit integers."""
_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
"""Where packs of halves of registers leave each group of four bytes."""


def packs(e: LlvmEmitter, src: DType, to: DType, lanes: int) -> bool:
    """Whether a conversion to bytes is one of whole registers that are packed."""
    return e.target.packs_bytes and src.size == 4 and to.is_int and to.size == 1 and lanes >= LANES and lanes & (lanes - 1) == 0


def bytes_of(e: LlvmEmitter, x: str, src: DType, lanes: int) -> str:
    """The lowest byte of each element: what packing would limit to a byte is cut to one before."""
    ty = f"<{lanes} x i32>"
    if src.is_float:
        x = e.emit(f"fptosi <{lanes} x float> {x} to {ty}")
    whole = [_packed(e, ty, x, first) for first in range(0, lanes, LANES)]
    while len(whole) > 1:
        count = lanes // len(whole)
        picks = ", ".join(f"i32 {i}" for i in range(2 * count))
        pairs = zip(whole[::2], whole[1::2], strict=True)
        whole = [e.emit(f"shufflevector <{count} x i8> {a}, <{count} x i8> {b}, <{2 * count} x i32> <{picks}>") for a, b in pairs]
    return whole[0]


def _packed(e: LlvmEmitter, ty: str, x: str, first: int) -> str:
    """32 bytes of as many elements from `first` on."""
    words, shorts, chars = "<8 x i32>", "<16 x i16>", "<32 x i8>"
    cut = []
    for at in range(first, first + LANES, 8):
        picks = ", ".join(f"i32 {at + i}" for i in range(8))
        part = e.emit(f"shufflevector {ty} {x}, {ty} poison, <8 x i32> <{picks}>")
        cut.append(e.emit(f"and {words} {part}, splat (i32 255)"))
    to_shorts, to_chars = "@llvm.x86.avx2.packusdw", "@llvm.x86.avx2.packuswb"
    e.declare(to_shorts, f"declare {shorts} {to_shorts}({words}, {words})")
    e.declare(to_chars, f"declare {chars} {to_chars}({shorts}, {shorts})")
    low, high = (e.emit(f"call {shorts} {to_shorts}({words} {a}, {words} {b})") for a, b in (cut[:2], cut[2:]))
    found = e.emit(f"bitcast {chars} {e.emit(f'call {chars} {to_chars}({shorts} {low}, {shorts} {high})')} to {words}")
    order = ", ".join(f"i32 {i}" for i in _ORDER)
    return e.emit(f"bitcast {words} {e.emit(f'shufflevector {words} {found}, {words} poison, <8 x i32> <{order}>')} to {chars}")
