"""Divisions of integers in LLVM IR: by a constant, rounding down, and by a value, rounding towards 0."""

from __future__ import annotations

from ...ir.errors import BuildError
from ...program.program import Instr, Val
from .emitter import LlvmEmitter
from .types import constant, type_of, vector


def unsupported(s: Instr) -> BuildError:
    """The error for operands that the operation does not take."""
    types = ", ".join(a.type for a in s.args)
    return BuildError(
        f"{s.op}({types}) with attribute {s.attr!r} is not an operation of Programs: floats of 16 and 8 bits are cast to float32 first"
    )


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
    words, floats = vector("i32", a.lanes), vector("double" if bits == 32 else "float", a.lanes)
    if bits < 32:
        x, y = (e.emit(f"{'sext' if signed else 'zext'} {ty} {v} to {words}") for v in (x, y))
    to, back = ("sitofp", "fptosi") if signed or bits < 32 else ("uitofp", "fptoui")
    x, y = (e.emit(f"{to} {words} {v} to {floats}") for v in (x, y))
    found = e.emit(f"{back} {floats} {e.emit(f'fdiv {floats} {x}, {y}')} to {words}")
    return found if bits == 32 else e.emit(f"trunc {words} {found} to {ty}")
