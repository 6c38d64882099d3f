"""What x86-64 has an instruction for and LLVM IR no operation: scale2 (AVX-512) and root_guess, register by register."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.dtypes import DType, float32
from ...ir.errors import BuildError
from ...program.program import Instr
from .emitter import LlvmEmitter
from .types import SCALAR, vector

_OneRegister = Callable[..., str]
"""(emitter, element type, lanes, operands as text): the text of the result."""


def scale2(e: LlvmEmitter, s: Instr) -> str:
    """a · 2^b of vectors of any length, or of scalars."""
    a, b = s.args
    if not a.dtype.is_float or a.dtype.size < 4:
        raise BuildError(f"scale2({a.type}, {b.type}) is not an operation of Programs: it takes float32 or float64")
    if "avx512" not in e.target.features:
        raise BuildError(f"{e.target.name} has no scale2 (it lacks avx512): lower the kernel for this target")
    return _by_registers(e, s, 64, _scaled)


def root_guess(e: LlvmEmitter, s: Instr) -> str:
    """1/√a within a part in 2700, of vectors of float32 of any length, or of scalars: rsqrtps, or AVX-512's vrsqrt14ps."""
    (a,) = s.args
    if a.dtype is not float32 or e.target.arch != "x86_64":
        raise BuildError(f"{e.target.name} has no root_guess of {a.type}: lower the kernel for this target")
    return _by_registers(e, s, e.target.vector_bytes, _guessed)


def _by_registers(e: LlvmEmitter, s: Instr, most_bytes: int, one: _OneRegister) -> str:
    """`one` for each register of operands of any length; what fills none stands in the low lanes of the smallest one."""
    a = s.args[0]
    scalar, least, most = SCALAR[a.dtype.name], 16 // a.dtype.size, most_bytes // a.dtype.size
    if a.lanes == 1:
        wide = [e.emit(f"insertelement {vector(scalar, least)} poison, {scalar} {e.of(x)}, i32 0") for x in s.args]
        return e.emit(f"extractelement {vector(scalar, least)} {one(e, a.dtype, least, *wide)}, i32 0")
    width = min(most, max(least, 1 << (a.lanes - 1).bit_length()))
    if width == a.lanes:
        return one(e, a.dtype, width, *(e.of(x) for x in s.args))
    done, ty = "", vector(scalar, a.lanes)
    for at in range(0, a.lanes, width):
        picks = [i if i < a.lanes else -1 for i in range(at, at + width)]
        part = [_shuffled(e, ty, e.of(x), "poison", picks) for x in s.args]
        made = one(e, a.dtype, width, *part)
        grown = _shuffled(e, vector(scalar, width), made, "poison", [i if i < width else -1 for i in range(a.lanes)])
        both = [i if i < at else a.lanes + i - at if i < at + width else -1 for i in range(a.lanes)]
        done = _shuffled(e, ty, done, grown, both) if at else grown
    return done


def _shuffled(e: LlvmEmitter, ty: str, a: str, b: str, picks: list[int]) -> str:
    """Lanes of two operands; any where a pick is negative."""
    text = ", ".join(f"i32 {i}" if i >= 0 else "i32 poison" for i in picks)
    return e.emit(f"shufflevector {ty} {a}, {ty} {b}, <{len(picks)} x i32> <{text}>")


def _scaled(e: LlvmEmitter, dtype: DType, lanes: int, a: str, b: str) -> str:
    """One instruction. Its mask has a bit a lane, but 8 at least; 512 bits also take a rounding: 4, the current one."""
    ty, bits = vector(SCALAR[dtype.name], lanes), 8 * lanes * dtype.size
    mask = f"i{max(8, lanes)}"
    name = f"@llvm.x86.avx512.mask.scalef.{'ps' if dtype.size == 4 else 'pd'}.{bits}"
    e.declare(name, f"declare {ty} {name}({ty}, {ty}, {ty}, {mask}{', i32 immarg' if bits == 512 else ''})")
    return e.emit(f"call {ty} {name}({ty} {a}, {ty} {b}, {ty} {a}, {mask} -1{', i32 4' if bits == 512 else ''})")


def _guessed(e: LlvmEmitter, dtype: DType, lanes: int, a: str) -> str:
    """One instruction, with AVX-512 the same of every size: their guesses differ."""
    ty, mask = vector(SCALAR[dtype.name], lanes), f"i{max(8, lanes)}"
    if "avx512" in e.target.features:
        name, more, given = f"@llvm.x86.avx512.rsqrt14.ps.{32 * lanes}", f", {ty}, {mask}", f", {ty} {a}, {mask} -1"
    else:
        name, more, given = "@llvm.x86.sse.rsqrt.ps" if lanes == 4 else "@llvm.x86.avx.rsqrt.ps.256", "", ""
    e.declare(name, f"declare {ty} {name}({ty}{more})")
    return e.emit(f"call {ty} {name}({ty} {a}{given})")
