"""scale2 as AVX-512's vscalefps and vscalefpd: whole registers, and what fills none in the low lanes of the smallest one."""

from __future__ import annotations

from ...ir.errors import BuildError
from ...program.program import Instr
from .emitter import LlvmEmitter
from .types import SCALAR, vector


def scale2(e: LlvmEmitter, s: Instr) -> str:
    """a · 2^b of vectors of any length, or of scalars."""
    a, b = s.args
    if not a.dtype.is_float or a.dtype.size < 4:
        raise BuildError(f"scale2({a.type}, {b.type}) is not an operation of Programs: it takes float32 or float64")
    if "avx512" not in e.target.features:
        raise BuildError(f"{e.target.name} has no scale2 (it lacks avx512): lower the kernel for this target")
    scalar, least, most = SCALAR[a.dtype.name], 16 // a.dtype.size, 64 // a.dtype.size
    if a.lanes == 1:
        wide = [e.emit(f"insertelement {vector(scalar, least)} poison, {scalar} {e.of(x)}, i32 0") for x in s.args]
        return e.emit(f"extractelement {vector(scalar, least)} {_register(e, scalar, least, a.dtype.size, *wide)}, i32 0")
    width = min(most, max(least, 1 << (a.lanes - 1).bit_length()))
    if width == a.lanes:
        return _register(e, scalar, width, a.dtype.size, e.of(a), e.of(b))
    done, ty = "", vector(scalar, a.lanes)
    for at in range(0, a.lanes, width):
        picks = [i if i < a.lanes else -1 for i in range(at, at + width)]
        part = [_shuffled(e, ty, e.of(x), "poison", picks) for x in s.args]
        scaled = _register(e, scalar, width, a.dtype.size, *part)
        grown = _shuffled(e, vector(scalar, width), scaled, "poison", [i if i < width else -1 for i in range(a.lanes)])
        both = [i if i < at else a.lanes + i - at if i < at + width else -1 for i in range(a.lanes)]
        done = _shuffled(e, ty, done, grown, both) if at else grown
    return done


def _shuffled(e: LlvmEmitter, ty: str, a: str, b: str, picks: list[int]) -> str:
    """Lanes of two operands; any where a pick is negative."""
    text = ", ".join(f"i32 {i}" if i >= 0 else "i32 poison" for i in picks)
    return e.emit(f"shufflevector {ty} {a}, {ty} {b}, <{len(picks)} x i32> <{text}>")


def _register(e: LlvmEmitter, scalar: str, lanes: int, size: int, a: str, b: str) -> str:
    """One instruction. Its mask has a bit a lane, but 8 at least; 512 bits also take a rounding: 4, the current one."""
    ty, bits = vector(scalar, lanes), 8 * lanes * size
    mask = f"i{max(8, lanes)}"
    name = f"@llvm.x86.avx512.mask.scalef.{'ps' if size == 4 else 'pd'}.{bits}"
    e.declare(name, f"declare {ty} {name}({ty}, {ty}, {ty}, {mask}{', i32 immarg' if bits == 512 else ''})")
    return e.emit(f"call {ty} {name}({ty} {a}, {ty} {b}, {ty} {a}, {mask} -1{', i32 4' if bits == 512 else ''})")
