"""Operations on lanes as LLVM instructions."""

from __future__ import annotations

from ...program.program import Instr
from .emitter import LlvmEmitter
from .types import splat as constant_splat
from .types import type_of


def splat(e: LlvmEmitter, s: Instr) -> str:
    """A scalar in every lane."""
    (a,), out = s.args, s.out
    assert out is not None
    x, scalar, ty = e.of(a), type_of(a), type_of(out)
    if not x.startswith("%"):
        return constant_splat(scalar, x)
    first = e.emit(f"insertelement {ty} poison, {scalar} {x}, i32 0")
    return e.emit(f"shufflevector {ty} {first}, {ty} poison, <{out.lanes} x i32> zeroinitializer")


def extract(e: LlvmEmitter, s: Instr) -> str:
    """One lane."""
    (a,) = s.args
    return e.emit(f"extractelement {type_of(a)} {e.of(a)}, i32 {s.number}")


def every(e: LlvmEmitter, s: Instr) -> str:
    """Whether all lanes of a condition hold: processors gather the lanes' signs in one instruction."""
    (a,) = s.args
    bits = e.emit(f"bitcast {type_of(a)} {e.of(a)} to i{a.lanes}")
    return e.emit(f"icmp eq i{a.lanes} {bits}, -1")


def insert(e: LlvmEmitter, s: Instr) -> str:
    """A vector with one lane replaced."""
    a, x = s.args
    return e.emit(f"insertelement {type_of(a)} {e.of(a)}, {type_of(x)} {e.of(x)}, i32 {s.number}")


def shuffle(e: LlvmEmitter, s: Instr) -> str:
    """Lanes of one vector or two, in another order."""
    a, b = s.args
    picks = ", ".join(f"i32 {i}" for i in s.picks)
    return e.emit(f"shufflevector {type_of(a)} {e.of(a)}, {type_of(b)} {e.of(b)}, <{len(s.picks)} x i32> <{picks}>")
