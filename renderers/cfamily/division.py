"""Divisions of integers in C-like languages: by a constant, rounding down, and by a value, rounding towards 0."""

from __future__ import annotations

from ...ir.dtypes import index
from ...ir.errors import BuildError
from ...program.program import Instr
from .dialect import atom
from .elementwise import begin, check, common, each, negated
from .emitter import CFamilyEmitter


def divmod_(e: CFamilyEmitter, s: Instr) -> None:
    """`idiv` and `imod`."""
    out = s.result
    check(s)
    work, n = common(e, s, out), s.number
    if n <= 0:
        raise BuildError(f"{s.op} by {n} is not an operation of Programs: the divisor is positive")
    low = e.ranges.get(s.args[0].id, (-1, 0))[0]
    division = s.op == "idiv"
    plain = work.kind == "u" or (s.args[0].dtype is index and low >= 0)
    if n & (n - 1) == 0:
        sign, by = (">>", e.literal(n.bit_length() - 1, work)) if division else ("&", e.literal(n - 1, work))
    else:
        sign, by = "/" if division else "%", e.literal(n, work)
    sized = work.size < 4

    def write(w: int, x: str) -> str:
        if plain or n & (n - 1) == 0:
            text = f"{x} {sign} {by}"
        else:
            # C rounds towards zero: all ones where the remainder is negative
            bits = 8 * (work.size if w > 1 else max(4, work.size)) - 1
            negative = f"(({x} % {by}) >> {bits if w == 1 else e.literal(bits, work)})"
            text = f"{x} / {by} + {negative}" if division else f"{x} % {by} + ({negative} & {by})"
        return f"({e.type(work)})({text})" if sized and w == 1 else text

    each(e, s, out, work, write)


def quot(e: CFamilyEmitter, s: Instr) -> None:
    """Division traps by 0, and the least number by -1: both are divided by 1, and put right after."""
    out, work = begin(e, s)

    def write(w: int, x: str, y: str) -> str:
        zero, one, minus = (e.literal(n, work) if w == 1 else e.splat(e.literal(n, work), work, w) for n in (0, 1, -1))
        signed, none, flips = work.kind == "i", f"{y} == {zero}", f"{y} == {minus}"
        by = e.select(f"({none}) | ({flips})" if signed else none, one, y, work, w)
        found = f"{x} / ({by})"
        if w == 1 and work.size < 4:
            found = f"({e.type(work)})({found})"
        if signed:
            found = e.select(flips, atom(negated(e, x, work, w)), atom(found), work, w)
        return e.select(none, zero, atom(found), work, w)

    each(e, s, out, work, write)
