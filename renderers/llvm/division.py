"""Divisions of integers in LLVM IR: by a constant, rounding down, and by a value, rounding towards 0."""

from __future__ import annotations

from ...ir.errors import BuildError
from ...program.program import Instr
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
        return choose(none, zero, e.emit(f"udiv {ty} {x}, {choose(none, one, y)}"))
    flips = e.emit(f"icmp eq {ty} {y}, {minus}")
    found = e.emit(f"sdiv {ty} {x}, {choose(e.emit(f'or {mask} {none}, {flips}'), one, y)}")
    return choose(none, zero, choose(flips, e.emit(f"sub {ty} {zero}, {x}"), found))
