"""Divisions in LLVM IR: of floats; of integers by a constant, rounding down, and by a value, rounding towards 0.

LLVM (20.1 and 22.1, for every processor) takes a lane of a vector `fdiv` for 0 where both operands are 0 there, as it does for `fadd`
(`TargetLowering::SimplifyDemandedVectorElts`). So it leaves out a selection of 0 behind the division, and 0/0, which is NaN, survives:
lanes that a mask leaves out are such lanes. tests/renderers/llvm_faults has the smallest case. A division of vectors is therefore the
constrained one, with the default rounding and no exceptions. Code generation assumes nothing about its lanes, and the instruction is
the same."""

from __future__ import annotations

from ...ir.errors import BuildError
from ...program.program import Instr, Val
from .emitter import LlvmEmitter
from .types import constant, suffix, type_of, vector

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
