"""Operations that move elements between lanes: splat, extract, insert, shuffle."""

from __future__ import annotations

import re

from ...ir.dtypes import bool_, int32
from ...program.program import Instr, Val
from .dialect import atom
from .emitter import CFamilyEmitter
from .types import form


def splat(e: CFamilyEmitter, s: Instr) -> None:
    """A scalar in every lane."""
    e.remember_splat(s.result, s.args[0])


def extract(e: CFamilyEmitter, s: Instr) -> None:
    """One lane."""
    (a,), i, out = s.args, s.number, s.result
    x = (e.bools(a) if a.dtype is bool_ else e.lanes(a))[i]
    if re.fullmatch(r"[\w.]+" if e.widest == 1 else r"\w+", x) and (a.dtype is bool_ or e.form(a, a.lanes) is e.form(out)):
        e.alias(out, [x])
    else:
        e.define(out, [x if a.dtype is bool_ else e.convert(x, e.form(a, a.lanes), e.form(out), 1)])


def every(e: CFamilyEmitter, s: Instr) -> None:
    """Whether all lanes of a condition hold."""
    e.define(s.result, [" & ".join(e.bools(s.args[0]))])


def insert(e: CFamilyEmitter, s: Instr) -> None:
    """A vector with one lane replaced."""
    a, x = s.args
    lanes = [*_movable(e, a), *_movable(e, x)]
    lanes[s.number] = lanes.pop()
    _place(e, s.result, lanes)


def shuffle(e: CFamilyEmitter, s: Instr) -> None:
    """Lanes of two vectors in any order."""
    lanes = [x for v in s.args for x in _movable(e, v)]
    _place(e, s.result, [lanes[i] for i in s.picks])


def _movable(e: CFamilyEmitter, v: Val) -> list[str]:
    """Every element in the form that elements change places in; bools as conditions."""
    if v.dtype is bool_:
        return e.bools(v)
    full, to = form(v.dtype), e.moves_as(form(v.dtype))
    if v.id in e.uniform:
        return [e.uniform[v.id] if to is full else e.reinterpret(e.uniform[v.id], full, to, 1)] * v.lanes
    out = []
    for x, w in zip(e.of(v), e.widths(v), strict=True):
        x = x if to is full else e.reinterpret(x, full, to, w)
        out += [x] if w == 1 else [e.lane(x, i) for i in range(w)]
    return out


def _place(e: CFamilyEmitter, out: Val, lanes: list[str]) -> None:
    """Define a vector (or a scalar) by its elements."""
    if e.widest == 1 and all(re.fullmatch(r"[\w.]+", x) for x in lanes):
        e.alias(out, lanes)
        return
    mask = int32 if out.dtype is bool_ and out.lanes > 1 else None
    f = mask or e.form(out, out.lanes)
    to = f if mask or out.dtype is bool_ else e.moves_as(f)
    exprs, at = [], 0
    for w in e.widths(out):
        some = lanes[at : at + w]
        text = some[0] if w == 1 else e.pack([f"-({e.type(f)}){atom(x)}" for x in some] if mask else some, to)
        exprs.append(text if to is f else e.reinterpret(text, to, f, w))
        at += w
    e.define(out, exprs, mask)
