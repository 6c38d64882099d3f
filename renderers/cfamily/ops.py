"""Value operations of a Program in C-like languages: one function an operation, `(emitter, instr)`, which defines its result.

Integers wrap: what is not known to stay in range is computed on unsigned numbers. Indexes are computed in 32 bits where operands
and result are known to fit (`ranges`)."""

from __future__ import annotations

from ...ir.dtypes import bool_, index, int64
from ...ir.errors import BuildError
from ...program.ops import COMPARISONS, MATRIX_LOADS, OPS, PAGE, READS, TWIN_ONLY, WRITES
from ...program.program import Instr
from ...targets.languages import Language
from . import conversions, lanes, memory
from .dialect import atom
from .division import divmod_, quot
from .elementwise import begin, check, common, each, known, negated, wrapping
from .emitter import CFamilyEmitter, Table
from .types import MASKS, UNSIGNED, form, unsigned

_SIGNS = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^", "lt": "<", "le": "<=", "eq": "==", "ne": "!="}


def _arithmetic(e: CFamilyEmitter, s: Instr) -> None:
    out, work = begin(e, s)
    sign = "/" if s.op == "div" else _SIGNS[s.op]
    if work.is_float or known(e, out):
        each(e, s, out, work, lambda w, a, b: f"{a} {sign} {b}")
    else:
        each(e, s, out, work, lambda w, a, b: wrapping(e, sign, a, b, work, w))


def _minmax(e: CFamilyEmitter, s: Instr) -> None:
    out = s.result
    check(s)
    work, sign = common(e, s, out), ">" if s.op == "max" else "<"
    # the order decides the sign of a zero and which NaN is kept: as the LLVM renderer has it on x86
    swap = work.is_float and s.args[0].id in e.carried

    def write(w: int, a: str, b: str) -> str:
        if swap:
            a, b = b, a
        if work.is_float:
            return e.extreme(s.op, a, b, work, w)
        return e.select(f"{a} {sign} {b}", a, b, work, w)

    each(e, s, out, work, write)


def _compare(e: CFamilyEmitter, s: Instr) -> None:
    out = s.result
    check(s)
    sign, a = _SIGNS[s.op], s.args[0]
    work = e.form(a, max(e.widths(a))) if a.dtype is bool_ else common(e, s, out)
    each(e, s, out, work, lambda w, x, y: f"{x} {sign} {y}", MASKS[work.size])


def _logic(e: CFamilyEmitter, s: Instr) -> None:
    out = s.result
    check(s)
    a, sign = s.args[0], _SIGNS[s.op]
    if a.dtype is not bool_:
        each(e, s, out, common(e, s, out), lambda w, x, y: f"{x} {sign} {y}")
        return
    mask = e.form(a, 2)
    each(e, s, out, mask, lambda w, x, y: f"{x} {sign} {y}", mask)


def _not(e: CFamilyEmitter, s: Instr) -> None:
    out = s.result
    check(s)
    a = s.args[0]
    if a.dtype is bool_:
        mask = e.form(a, 2)
        each(e, s, out, mask, lambda w, x: f"!{atom(x)}" if w == 1 else f"~{x}", mask)
    else:
        work = common(e, s, out)
        each(e, s, out, work, lambda w, x: f"({e.type(work)})~{x}" if w == 1 and work.size < 4 else f"~{x}")


def _neg(e: CFamilyEmitter, s: Instr) -> None:
    out, work = begin(e, s)
    if work.is_float:
        each(e, s, out, work, lambda w, x: f"-{x}" if not x.startswith("-") else f"-({x})")
    else:
        each(e, s, out, work, lambda w, x: negated(e, x, work, w))


def _abs(e: CFamilyEmitter, s: Instr) -> None:
    out, work = begin(e, s)
    if work.is_float:
        each(e, s, out, work, lambda w, x: e.call("abs", [x], work, w))
    elif work.kind == "u":
        e.alias(out, e.of(s.args[0]))
    else:
        each(e, s, out, work, lambda w, x: e.select(f"{x} < {e.literal(0, work)}", atom(negated(e, x, work, w)), x, work, w))


def _count(e: CFamilyEmitter, s: Instr) -> None:
    check(s)
    out, work = s.result, form(s.result.dtype)
    each(e, s, out, work, lambda w, x: e.count(s.op, x, work, w))


def _function(e: CFamilyEmitter, s: Instr) -> None:
    check(s)
    out, work = s.result, form(s.result.dtype)
    each(e, s, out, work, lambda w, x: e.call(s.op, [x], work, w))


def _fma(e: CFamilyEmitter, s: Instr) -> None:
    out, work = begin(e, s)
    if work.is_float:
        each(e, s, out, work, lambda w, a, b, c: e.call("fma", [a, b, c], work, w))
    elif known(e, out):
        each(e, s, out, work, lambda w, a, b, c: f"{a} * {b} + {c}")
    else:
        each(e, s, out, work, lambda w, a, b, c: wrapping(e, "+", atom(wrapping(e, "*", a, b, work, w)), c, work, w))


def _scale2(e: CFamilyEmitter, s: Instr) -> None:
    check(s)
    out, work = s.result, form(s.result.dtype)
    each(e, s, out, work, lambda w, x, n: e.scale2(x, n, work, w))


def _exp2(e: CFamilyEmitter, s: Instr) -> None:
    check(s)
    out, work = s.result, form(s.result.dtype)
    each(e, s, out, work, lambda w, x: e.exp2(x, work, w))


def _root_guess(e: CFamilyEmitter, s: Instr) -> None:
    check(s)
    out, work = s.result, form(s.result.dtype)
    each(e, s, out, work, lambda w, x: e.root_guess(x, work, w))


def _shift(e: CFamilyEmitter, s: Instr) -> None:
    out, work = begin(e, s)
    u = UNSIGNED[max(4, work.size)]

    def left(w: int, x: str, by: str) -> str:
        if work.kind == "u" and (work.size >= 4 or w > 1):
            return f"{x} << {by}"
        if w == 1:
            return f"({e.type(work)})(({e.type(u)}){x} << {by})"
        v = unsigned(work)
        return e.reinterpret(f"{e.reinterpret(x, work, v, w)} << {e.reinterpret(by, work, v, w)}", v, work, w)

    def right(w: int, x: str, by: str) -> str:
        # a shift has its left operand's type, and a small 64-bit literal is written as an int
        wide = w == 1 and work.size == 8 and x.lstrip("-").isdigit()
        return f"{f'({e.type(work)})' if wide else ''}{x} >> {by}"

    if s.op == "shr":
        each(e, s, out, work, right)
    else:
        each(e, s, out, int64 if out.dtype is index and not known(e, out) else work, left)


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
    e.define(s.result, [f"({e.address(e.params[param])} & {size - 1}) == 0"])


def _apart(e: CFamilyEmitter, s: Instr) -> None:
    a, b, first, size = s.picks
    e.define(s.result, [f"(({e.address(e.params[a])} - {e.address(e.params[b])} - {first}) & {PAGE - 1}) >= {size}"])


def _dot(e: CFamilyEmitter, s: Instr) -> None:
    e.dot(s, s.result)


def _mma(e: CFamilyEmitter, s: Instr) -> None:
    e.mma(s)


def _ldmatrix(e: CFamilyEmitter, s: Instr) -> None:
    e.ldmatrix(s)


def _elementary(e: CFamilyEmitter, s: Instr) -> None:
    raise BuildError(f"{s.op} reached the renderer: lower the kernel with expand=True")


def _barrier(e: CFamilyEmitter, s: Instr) -> None:
    e.barrier()


def _copy_async(e: CFamilyEmitter, s: Instr) -> None:
    e.copy_async(s)


def _commit(e: CFamilyEmitter, s: Instr) -> None:
    e.commit()


def _wait(e: CFamilyEmitter, s: Instr) -> None:
    e.wait(s.number)


_EVERY: Table = {
    "const": CFamilyEmitter.const,
    **dict.fromkeys(("add", "sub", "mul", "div"), _arithmetic),
    **dict.fromkeys(("and", "or", "xor"), _logic),
    **dict.fromkeys(("shl", "shr"), _shift),
    **dict.fromkeys(COMPARISONS, _compare),
    **dict.fromkeys(("max", "min"), _minmax),
    **dict.fromkeys(("floor", "round", "sqrt"), _function),
    **dict.fromkeys(("idiv", "imod"), divmod_),
    **dict.fromkeys(TWIN_ONLY, _elementary),
    **dict.fromkeys(("popcount", "clz"), _count),
    "quot": quot,
    "not": _not,
    "neg": _neg,
    "abs": _abs,
    "fma": _fma,
    "scale2": _scale2,
    "exp2": _exp2,
    "root_guess": _root_guess,
    "select": _select,
    "cast": conversions.cast,
    "bitcast": conversions.bitcast,
    "aligned": _aligned,
    "apart": _apart,
    "dot": _dot,
    "splat": lanes.splat,
    "extract": lanes.extract,
    "every": lanes.every,
    "insert": lanes.insert,
    "shuffle": lanes.shuffle,
    **dict.fromkeys(READS - MATRIX_LOADS, memory.load),
    **dict.fromkeys(MATRIX_LOADS, _ldmatrix),
    "mma": _mma,
    **dict.fromkeys(WRITES, memory.store),
    "prefetch": memory.prefetch,
    "barrier": _barrier,
    "shfl_xor": _shuffle_xor,
    "copy_async": _copy_async,
    "commit": _commit,
    "wait": _wait,
}


def table(language: Language) -> Table:
    """What writes each operation that a language has."""
    return {name: write for name, write in _EVERY.items() if not OPS[name].needs or getattr(language, OPS[name].needs)}
