"""Conversions of a Program in C-like languages: `cast` and `bitcast`."""

from __future__ import annotations

from ...ir.dtypes import DType, bool_, float32
from ...ir.errors import BuildError
from ...program.program import Instr
from .emitter import CFamilyEmitter
from .half import narrow, round_to_odd, widen
from .types import MASKS, form


def cast(e: CFamilyEmitter, s: Instr) -> None:
    """The same number as another type."""
    out = s.result
    (a,) = s.args
    if a.dtype is out.dtype:
        e.alias(out, e.of(a))
        return
    exprs = [convert(e, x, a.dtype, e.form(a, w), out.dtype, e.form(out, w), w) for x, w in zip(e.of(a), e.widths(a), strict=True)]
    mask = MASKS[e.form(a, 2).size] if out.dtype is bool_ else None
    e.define(out, exprs, mask)


def convert(e: CFamilyEmitter, x: str, src: DType, have: DType, dst: DType, want: DType, width: int) -> str:
    """`x` of type `src` (in the form `have`) as `dst` (in the form `want`), as `cast` documents."""
    if src.narrow:
        wide = widen(e, x, src.name, width)
        return convert(e, wide, float32, float32, dst, want, width)
    if dst.narrow:
        if src.name == "float64":
            return narrow(e, round_to_odd(e, x, width), dst.name, width)
        return narrow(e, convert(e, x, src, have, float32, float32, width), dst.name, width)
    if dst is bool_:
        return f"{x} != {e.literal(0, have)}"
    if src is bool_ and width > 1:
        same = MASKS[want.size]
        return e.convert(f"({e.convert(x, have, same, width)} & {e.literal(1, same)})", same, want, width)
    return e.convert(x, have, want, width)


def bitcast(e: CFamilyEmitter, s: Instr) -> None:
    """The same bits as another type."""
    out = s.result
    (a,) = s.args
    if a.dtype.size != out.dtype.size or a.lanes != out.lanes or bool_ in (a.dtype, out.dtype):
        raise BuildError(f"bitcast of {a.type} to {out.type} is not an operation of Programs")
    have, want = form(a.dtype), form(out.dtype)
    exprs = []
    for x, w in zip(e.as_form(a, have), e.widths(a), strict=True):
        bits = x if have is want else e.reinterpret(x, have, want, w)
        exprs.append(e.convert(bits, want, e.form(out, w), w))
    e.define(out, exprs)
