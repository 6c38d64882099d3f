"""Divisions in LLVM IR: of floats; of integers by a constant, rounding down, and by a value, rounding towards 0.

LLVM (20.1 and 22.1, for every processor) takes a lane of a vector `fdiv` for 0 where both operands are 0 there, as it does for `fadd`
(`TargetLowering::SimplifyDemandedVectorElts`). So it leaves out a selection of 0 behind the division, and 0/0, which is NaN, survives:
lanes that a mask leaves out are such lanes. tests/renderers/llvm_faults has the smallest case. A division of vectors is therefore the
constrained one, with the default rounding and no exceptions. Code generation assumes nothing about its lanes, and the instruction is
the same."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.dtypes import DType, float32
from ...ir.errors import BuildError
from ...program.program import Instr, Val
from .llvm_emitter import SCALAR, LlvmEmitter, constant, suffix, type_of, vector

_PADDED = "<i32 0, i32 1, i32 poison, i32 poison>"


def unsupported(s: Instr) -> BuildError:
    """The error for operands that the operation does not take."""
    types = ", ".join(a.type for a in s.args)
    return BuildError(
        f"{s.op}({types}) with attribute {s.attr!r} is not an operation of Programs: floats of 16 and 8 bits are cast to float32 first"
    )


def fdiv(e: LlvmEmitter, x: str, y: str, scalar: str, lanes: int) -> str:
    """x / y of floats, in every lane as the processor divides."""
    if lanes == 1:
        return e.emit(f"fdiv {scalar} {x}, {y}")
    if scalar == "float" and lanes == 2 and e.target.arch == "x86_64":
        # half a register: LLVM would divide lane by lane
        x, y = (e.emit(f"shufflevector <2 x float> {v}, <2 x float> poison, <4 x i32> {_PADDED}") for v in (x, y))
        return e.emit(f"shufflevector <4 x float> {fdiv(e, x, y, scalar, 4)}, <4 x float> poison, <2 x i32> <i32 0, i32 1>")
    ty = vector(scalar, lanes)
    name = f"@llvm.experimental.constrained.fdiv.{suffix(scalar, lanes)}"
    e.declare(name, f"declare {ty} {name}({ty}, {ty}, metadata, metadata)")
    return e.emit(f'call {ty} {name}({ty} {x}, {ty} {y}, metadata !"round.tonearest", metadata !"fpexcept.ignore")')


def divmod_(e: LlvmEmitter, s: Instr) -> str:
    """`idiv` and `imod`."""
    (a,) = s.args
    ty, x, n = type_of(a), e.of(a), s.number
    if n <= 0 or not a.dtype.is_int:
        raise unsupported(s)
    by = constant(n, a.dtype, a.lanes)
    if n & (n - 1) == 0:
        if s.op == "imod":
            return e.emit(f"and {ty} {x}, {constant(n - 1, a.dtype, a.lanes)}")
        return e.emit(f"{'lshr' if a.dtype.kind == 'u' else 'ashr'} {ty} {x}, {constant(n.bit_length() - 1, a.dtype, a.lanes)}")
    if a.dtype.kind == "u":
        return e.emit(f"{'urem' if s.op == 'imod' else 'udiv'} {ty} {x}, {by}")
    quotient = e.emit(f"sdiv {ty} {x}, {by}")
    rest = e.emit(f"sub {ty} {x}, {e.emit(f'mul {ty} {quotient}, {by}')}")
    negative = e.emit(f"ashr {ty} {rest}, {constant(8 * a.dtype.size - 1, a.dtype, a.lanes)}")  # all ones where rest < 0
    if s.op == "idiv":
        return e.emit(f"add {ty} {quotient}, {negative}")
    return e.emit(f"add {ty} {rest}, {e.emit(f'and {ty} {negative}, {by}')}")


def quot(e: LlvmEmitter, s: Instr) -> str:
    """Division traps by 0, and the least number by -1: both are divided by 1, and put right after."""
    a, b = s.args
    if not a.dtype.is_int:
        raise unsupported(s)
    ty, mask, x, y = type_of(a), vector("i1", a.lanes), e.of(a), e.of(b)
    zero, one, minus = (constant(n, a.dtype, a.lanes) for n in (0, 1, -1))

    def choose(cond: str, then: str, other: str) -> str:
        return e.emit(f"select {mask} {cond}, {ty} {then}, {ty} {other}")

    none = e.emit(f"icmp eq {ty} {y}, {zero}")
    if a.dtype.kind == "u":
        return choose(none, zero, _quotient(e, a, x, choose(none, one, y)))
    flips = e.emit(f"icmp eq {ty} {y}, {minus}")
    found = _quotient(e, a, x, choose(e.emit(f"or {mask} {none}, {flips}"), one, y))
    return choose(none, zero, choose(flips, e.emit(f"sub {ty} {zero}, {x}"), found))


def _quotient(e: LlvmEmitter, a: Val, x: str, y: str) -> str:
    """x / y, neither of which traps or overflows. x86 divides whole numbers one by one; vectors of them are divided as floats with twice
    as many bits, or more: no quotient that is no whole number is rounded to one then."""
    signed, ty, bits = a.dtype.kind == "i", type_of(a), 8 * a.dtype.size
    if a.lanes == 1 or bits > 32 or e.target.arch != "x86_64" or (bits == 32 and not signed and "avx512" not in e.target.features):
        return e.emit(f"{'sdiv' if signed else 'udiv'} {ty} {x}, {y}")
    words, scalar = vector("i32", a.lanes), "double" if bits == 32 else "float"
    floats = vector(scalar, a.lanes)
    if bits < 32:
        x, y = (e.emit(f"{'sext' if signed else 'zext'} {ty} {v} to {words}") for v in (x, y))
    to, back = ("sitofp", "fptosi") if signed or bits < 32 else ("uitofp", "fptoui")
    x, y = (e.emit(f"{to} {words} {v} to {floats}") for v in (x, y))
    found = e.emit(f"{back} {floats} {fdiv(e, x, y, scalar, a.lanes)} to {words}")
    return found if bits == 32 else e.emit(f"trunc {words} {found} to {ty}")


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
