"""Value operations of a Program in C-like languages: one function an operation, `(emitter, instr)`, which defines its result.

Integers wrap: what is not known to stay in range is computed on unsigned numbers. Indexes are computed in 32 bits where operands
and result are known to fit (`ranges`)."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.dtypes import DType, bool_, index, int32, int64
from ...ir.errors import BuildError
from ...program.ops import COMPARISONS, GROUPED, READS, TWIN_ONLY, WRITES
from ...program.ops import OPS as PROGRAM_OPS
from ...program.program import Instr, Val
from ..ranges import INT32, inside
from . import conversions, lanes, memory
from .dialect import atom
from .emitter import CFamilyEmitter, Table
from .types import MASKS, UNSIGNED, form, unsigned

_SIGNS = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^", "lt": "<", "le": "<=", "eq": "==", "ne": "!="}
Write = Callable[..., str]


def _check(s: Instr) -> None:
    """Refuse operands that the operation does not take, and arithmetic on 16-bit floats."""
    a, first = s.args[0].dtype, PROGRAM_OPS[s.op].operands[0]
    if a.kind not in first.kinds or (a.is_float and a.size == 2 and not first.halves):
        types = ", ".join(v.type for v in s.args)
        raise BuildError(
            f"{s.op}({types}) with attribute {s.attr!r} is not an operation of Programs: 16-bit floats are cast to float32 first"
        )


def _common(e: CFamilyEmitter, s: Instr, out: Val) -> DType:
    """The form an operation is computed in: for indexes 64 bits unless all of it fits 32."""
    a = s.args[0]
    if a.dtype is not index:
        return form(a.dtype)
    small = all(e.form(v) is int32 for v in s.args if v.dtype is index) and (out.dtype is not index or e.form(out) is int32)
    return int32 if small and (not isinstance(s.attr, int) or inside((s.attr, s.attr), INT32)) else int64


def _begin(e: CFamilyEmitter, s: Instr) -> tuple[Val, DType]:
    """(result, the form it is computed in) of an operation whose operands are as they must be."""
    _check(s)
    return s.result, _common(e, s, s.result)


def _each(e: CFamilyEmitter, s: Instr, out: Val, work: DType, write: Write, mask: DType | None = None) -> None:
    """Define `out` by `write(width, *operands)` in the form `work`."""
    args = [e.as_form(a, work) for a in s.args]
    exprs = []
    for i, w in enumerate(e.widths(out)):
        text = write(w, *(a[i] for a in args))
        have = work if mask is None else mask
        exprs.append(text if out.dtype is bool_ else e.convert(text, have, e.form(out, w), w))
    e.define(out, exprs, mask)


def _wrapping(e: CFamilyEmitter, sign: str, a: str, b: str, work: DType, width: int) -> str:
    """Integer a ± b or a · b that wraps."""
    if work.kind == "u" and (work.size >= 4 or width > 1):
        return f"{a} {sign} {b}"
    if width == 1 and work.size < 4:  # computed as int, where it cannot overflow
        return f"({e.type(work)})({a} {sign} {b})"
    u = unsigned(work)
    return e.reinterpret(f"{e.reinterpret(a, work, u, width)} {sign} {e.reinterpret(b, work, u, width)}", u, work, width)


def _known(e: CFamilyEmitter, out: Val) -> bool:
    return out.dtype is index and out.id in e.ranges


def _arithmetic(e: CFamilyEmitter, s: Instr) -> None:
    out, work = _begin(e, s)
    sign = "/" if s.op == "div" else _SIGNS[s.op]
    if work.is_float or _known(e, out):
        _each(e, s, out, work, lambda w, a, b: f"{a} {sign} {b}")
    else:
        _each(e, s, out, work, lambda w, a, b: _wrapping(e, sign, a, b, work, w))


def _minmax(e: CFamilyEmitter, s: Instr) -> None:
    out = s.result
    _check(s)
    work, sign = _common(e, s, out), ">" if s.op == "max" else "<"
    # the order decides the sign of a zero and which NaN is kept: as the LLVM renderer has it on x86
    swap = work.is_float and s.args[0].id in e.carried

    def write(w: int, a: str, b: str) -> str:
        if swap:
            a, b = b, a
        if work.is_float:
            return e.extreme(s.op, a, b, work, w)
        return e.select(f"{a} {sign} {b}", a, b, work, w)

    _each(e, s, out, work, write)


def _compare(e: CFamilyEmitter, s: Instr) -> None:
    out = s.result
    _check(s)
    sign, a = _SIGNS[s.op], s.args[0]
    work = e.form(a, max(e.widths(a))) if a.dtype is bool_ else _common(e, s, out)
    _each(e, s, out, work, lambda w, x, y: f"{x} {sign} {y}", MASKS[work.size])


def _logic(e: CFamilyEmitter, s: Instr) -> None:
    out = s.result
    _check(s)
    a, sign = s.args[0], _SIGNS[s.op]
    if a.dtype is not bool_:
        _each(e, s, out, _common(e, s, out), lambda w, x, y: f"{x} {sign} {y}")
        return
    mask = e.form(a, 2)
    _each(e, s, out, mask, lambda w, x, y: f"{x} {sign} {y}", mask)


def _not(e: CFamilyEmitter, s: Instr) -> None:
    out = s.result
    _check(s)
    a = s.args[0]
    if a.dtype is bool_:
        mask = e.form(a, 2)
        _each(e, s, out, mask, lambda w, x: f"!{atom(x)}" if w == 1 else f"~{x}", mask)
    else:
        work = _common(e, s, out)
        _each(e, s, out, work, lambda w, x: f"({e.type(work)})~{x}" if w == 1 and work.size < 4 else f"~{x}")


def _neg(e: CFamilyEmitter, s: Instr) -> None:
    out, work = _begin(e, s)
    if work.is_float:
        _each(e, s, out, work, lambda w, x: f"-{x}" if not x.startswith("-") else f"-({x})")
    else:
        _each(e, s, out, work, lambda w, x: _negated(e, x, work, w))


def _negated(e: CFamilyEmitter, x: str, work: DType, width: int) -> str:
    zero = e.literal(0, work)
    return _wrapping(e, "-", zero if width == 1 else e.splat(zero, work, width), x, work, width)


def _abs(e: CFamilyEmitter, s: Instr) -> None:
    out, work = _begin(e, s)
    if work.is_float:
        _each(e, s, out, work, lambda w, x: e.call("abs", [x], work, w))
    elif work.kind == "u":
        e.alias(out, e.of(s.args[0]))
    else:
        _each(e, s, out, work, lambda w, x: e.select(f"{x} < {e.literal(0, work)}", atom(_negated(e, x, work, w)), x, work, w))


def _function(e: CFamilyEmitter, s: Instr) -> None:
    _check(s)
    out, work = s.result, form(s.result.dtype)
    _each(e, s, out, work, lambda w, x: e.call(s.op, [x], work, w))


def _fma(e: CFamilyEmitter, s: Instr) -> None:
    out, work = _begin(e, s)
    if work.is_float:
        _each(e, s, out, work, lambda w, a, b, c: e.call("fma", [a, b, c], work, w))
    elif _known(e, out):
        _each(e, s, out, work, lambda w, a, b, c: f"{a} * {b} + {c}")
    else:
        _each(e, s, out, work, lambda w, a, b, c: _wrapping(e, "+", atom(_wrapping(e, "*", a, b, work, w)), c, work, w))


def _scale2(e: CFamilyEmitter, s: Instr) -> None:
    _check(s)
    out, work = s.result, form(s.result.dtype)
    _each(e, s, out, work, lambda w, x, n: e.scale2(x, n, work, w))


def _divmod(e: CFamilyEmitter, s: Instr) -> None:
    out = s.result
    _check(s)
    work, n = _common(e, s, out), s.number
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

    _each(e, s, out, work, write)


def _shift(e: CFamilyEmitter, s: Instr) -> None:
    out, work = _begin(e, s)
    u = UNSIGNED[max(4, work.size)]

    def left(w: int, x: str, by: str) -> str:
        if work.kind == "u" and (work.size >= 4 or w > 1):
            return f"{x} << {by}"
        if w == 1:
            return f"({e.type(work)})(({e.type(u)}){x} << {by})"
        v = unsigned(work)
        return e.reinterpret(f"{e.reinterpret(x, work, v, w)} << {e.reinterpret(by, work, v, w)}", v, work, w)

    if s.op == "shr":
        _each(e, s, out, work, lambda w, x, by: f"{x} >> {by}")
    else:
        _each(e, s, out, int64 if out.dtype is index and not _known(e, out) else work, left)


def _select(e: CFamilyEmitter, s: Instr) -> None:
    out = s.result
    cond, a, b = s.args
    masked = out.dtype is bool_
    mask = e.form(a, 2) if masked else None
    one = e.uniform.get(cond.id)
    exprs = []
    want = [mask if masked and w > 1 else e.form(out, w) for w in e.widths(out)]
    for i, (w, f) in enumerate(zip(e.widths(out), want, strict=True)):
        assert f is not None
        x, y = (e.of(v)[i] if w == 1 and masked else e.as_form(v, f)[i] for v in (a, b))
        if one is not None or w == 1:
            exprs.append(f"{atom(one or e.of(cond)[i])} ? {x} : {y}")
        else:
            exprs.append(e.choose(e.as_form(cond, MASKS[f.size])[i], x, y, f, w))
    e.define(out, exprs, mask)


def _shuffle_xor(e: CFamilyEmitter, s: Instr) -> None:
    out = s.result
    (a,) = s.args
    f = e.form(a)
    e.define(out, [e.convert(e.shuffle_xor(e.of(a)[0], f, s.number), f, e.form(out), 1)])


def _aligned(e: CFamilyEmitter, s: Instr) -> None:
    param, size = s.picks
    e.define(s.result, [e.aligned(e.params[param], size)])


def _dot(e: CFamilyEmitter, s: Instr) -> None:
    e.dot(s, s.result)


def _elementary(e: CFamilyEmitter, s: Instr) -> None:
    raise BuildError(f"{s.op} reached the renderer: lower the kernel with expand=True")


def _barrier(e: CFamilyEmitter, s: Instr) -> None:
    e.barrier()


_EVERY: Table = {
    "const": CFamilyEmitter.const,
    **dict.fromkeys(("add", "sub", "mul", "div"), _arithmetic),
    **dict.fromkeys(("and", "or", "xor"), _logic),
    **dict.fromkeys(("shl", "shr"), _shift),
    **dict.fromkeys(COMPARISONS, _compare),
    **dict.fromkeys(("max", "min"), _minmax),
    **dict.fromkeys(("floor", "round", "sqrt"), _function),
    **dict.fromkeys(("idiv", "imod"), _divmod),
    **dict.fromkeys(TWIN_ONLY, _elementary),
    "not": _not,
    "neg": _neg,
    "abs": _abs,
    "fma": _fma,
    "scale2": _scale2,
    "select": _select,
    "cast": conversions.cast,
    "bitcast": conversions.bitcast,
    "aligned": _aligned,
    "dot": _dot,
    "splat": lanes.splat,
    "extract": lanes.extract,
    "insert": lanes.insert,
    "shuffle": lanes.shuffle,
    **dict.fromkeys(READS, memory.load),
    **dict.fromkeys(WRITES, memory.store),
    "prefetch": memory.prefetch,
    "barrier": _barrier,
    "shfl_xor": _shuffle_xor,
}


def table(groups: bool) -> Table:
    """What writes each operation in a language with, or without, groups of threads."""
    return _EVERY if groups else {name: write for name, write in _EVERY.items() if name not in GROUPED}
