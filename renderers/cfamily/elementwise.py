"""What writes an element-wise operation in C-like languages, piece by piece, and integers that wrap."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.dtypes import DType, bool_, index, int32, int64
from ...ir.errors import BuildError
from ...program.ops import OPS as PROGRAM_OPS
from ...program.program import Instr, Val
from ..ranges import INT32, inside
from .emitter import CFamilyEmitter
from .types import form, unsigned

Write = Callable[..., str]


def check(s: Instr) -> None:
    """Refuse operands that the operation does not take, and arithmetic on floats of 16 and 8 bits."""
    a, first = s.args[0].dtype, PROGRAM_OPS[s.op].operands[0]
    if a.kind not in first.kinds or (a.narrow and not first.halves):
        types = ", ".join(v.type for v in s.args)
        raise BuildError(
            f"{s.op}({types}) with attribute {s.attr!r} is not an operation of Programs: floats of 16 and 8 bits are cast to float32 first"
        )


def common(e: CFamilyEmitter, s: Instr, out: Val) -> DType:
    """The form an operation is computed in: for indexes 64 bits unless all of it fits 32."""
    a = s.args[0]
    if a.dtype is not index:
        return form(a.dtype)
    small = all(e.form(v) is int32 for v in s.args if v.dtype is index) and (out.dtype is not index or e.form(out) is int32)
    return int32 if small and (not isinstance(s.attr, int) or inside((s.attr, s.attr), INT32)) else int64


def begin(e: CFamilyEmitter, s: Instr) -> tuple[Val, DType]:
    """(result, the form it is computed in) of an operation whose operands are as they must be."""
    check(s)
    return s.result, common(e, s, s.result)


def each(e: CFamilyEmitter, s: Instr, out: Val, work: DType, write: Write, mask: DType | None = None) -> None:
    """Define `out` by `write(width, *operands)` in the form `work`."""
    args = [e.as_form(a, work) for a in s.args]
    exprs = []
    for i, w in enumerate(e.widths(out)):
        text = write(w, *(a[i] for a in args))
        have = work if mask is None else mask
        exprs.append(text if out.dtype is bool_ else e.convert(text, have, e.form(out, w), w))
    e.define(out, exprs, mask)


def wrapping(e: CFamilyEmitter, sign: str, a: str, b: str, work: DType, width: int) -> str:
    """Integer a ± b or a · b that wraps."""
    if work.kind == "u" and (work.size >= 4 or width > 1):
        return f"{a} {sign} {b}"
    if width == 1 and work.size < 4:  # computed as int, where it cannot overflow
        return f"({e.type(work)})({a} {sign} {b})"
    u = unsigned(work)
    return e.reinterpret(f"{e.reinterpret(a, work, u, width)} {sign} {e.reinterpret(b, work, u, width)}", u, work, width)


def known(e: CFamilyEmitter, out: Val) -> bool:
    """Whether the result is an index that stays within 64 bits."""
    return out.dtype is index and out.id in e.ranges


def negated(e: CFamilyEmitter, x: str, work: DType, width: int) -> str:
    """−x of integers, wrapping."""
    zero = e.literal(0, work)
    return wrapping(e, "-", zero if width == 1 else e.splat(zero, work, width), x, work, width)
