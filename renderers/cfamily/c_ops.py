"""Value operations of a Program in C-like languages: one function an operation, `(emitter, instr)`, which defines its result.

Integers wrap: what is not known to stay in range is computed on unsigned numbers. Indexes are computed in 32 bits where operands
and result are known to fit (`program.facts.Intervals`)."""

from __future__ import annotations

import re
from collections.abc import Callable

from ...ir.dtypes import DType, bool_, float32, index, int32, int64
from ...ir.errors import BuildError
from ...program.facts import INT32, inside
from ...program.ops import COMPARISONS, MATRIX_LOADS, OPS, PAGE, READS, TWIN_ONLY, WRITES
from ...program.ops import OPS as PROGRAM_OPS
from ...program.program import Instr, Val
from ...targets.languages import Language
from . import c_memory
from .c_emitter import CFamilyEmitter, Table, atom
from .c_helpers import narrow, round_to_odd, widen
from .c_types import MASKS, UNSIGNED, form, unsigned


def lane_splat(e: CFamilyEmitter, s: Instr) -> None:
    """A scalar in every lane."""
    e.remember_splat(s.result, s.args[0])


def lane_extract(e: CFamilyEmitter, s: Instr) -> None:
    """One lane."""
    (a,), i, out = s.args, s.number, s.result
    x = (e.bools(a) if a.dtype is bool_ else e.lanes(a))[i]
    if re.fullmatch(r"[\w.]+" if e.widest == 1 else r"\w+", x) and (a.dtype is bool_ or e.form(a, a.lanes) is e.form(out)):
        e.alias(out, [x])
    else:
        e.define(out, [x if a.dtype is bool_ else e.convert(x, e.form(a, a.lanes), e.form(out), 1)])


def lane_every(e: CFamilyEmitter, s: Instr) -> None:
    """Whether all lanes of a condition hold."""
    e.define(s.result, [" & ".join(e.bools(s.args[0]))])


def lane_insert(e: CFamilyEmitter, s: Instr) -> None:
    """A vector with one lane replaced."""
    a, x = s.args
    lanes = [*_movable(e, a), *_movable(e, x)]
    lanes[s.number] = lanes.pop()
    _place(e, s.result, lanes)


def lane_shuffle(e: CFamilyEmitter, s: Instr) -> None:
    """Lanes of two vectors in any order."""
    whole = None if s.result.dtype is bool_ else _permuted(e, s)
    if whole is not None:
        e.define(s.result, whole)
        return
    lanes = [x for v in s.args for x in _movable(e, v)]
    _place(e, s.result, [lanes[i] for i in s.picks])


def _permuted(e: CFamilyEmitter, s: Instr) -> list[str] | None:
    """Pieces that are each made of at most two pieces as wide, where the language has that."""
    sources: list[tuple[str, int, int]] = []
    """(piece, its width, lane) of every element of the operands."""
    f = e.form(s.result, s.result.lanes)
    for v in s.args:
        if v.id in e.uniform or e.form(v, v.lanes) is not f:
            return None
        for x, w in zip(e.of(v), e.widths(v), strict=True):
            sources += [(x, w, i) for i in range(w)]
    out, at = [], 0
    for w in e.widths(s.result):
        picked = [sources[i] for i in s.picks[at : at + w]]
        pair = list(dict.fromkeys(x for x, _, _ in picked))
        if w == 1 or len(pair) > 2 or any(width != w for _, width, _ in picked):
            first = picked[0][2]
            if w == 1 or len(pair) > 1 or [i for _, _, i in picked] != list(range(first, first + w)):
                return None
            text = e.subvector(pair[0], first, f, picked[0][1], w)
        else:
            text = e.permute(pair[0], pair[-1], [i + w * pair.index(x) for x, _, i in picked], f, w)
        if text is None:
            return None
        out.append(text)
        at += w
    return out


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
    return out.dtype is index and e.intervals.of(out) is not None


def negated(e: CFamilyEmitter, x: str, work: DType, width: int) -> str:
    """−x of integers, wrapping."""
    zero = e.literal(0, work)
    return wrapping(e, "-", zero if width == 1 else e.splat(zero, work, width), x, work, width)


def divmod_(e: CFamilyEmitter, s: Instr) -> None:
    """`idiv` and `imod`."""
    out = s.result
    check(s)
    work, n = common(e, s, out), s.number
    if n <= 0:
        raise BuildError(f"{s.op} by {n} is not an operation of Programs: the divisor is positive")
    low = e.intervals.ends(s.args[0])[0]
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


_SIGNS = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^", "lt": "<", "le": "<=", "eq": "==", "ne": "!="}


def _arithmetic(e: CFamilyEmitter, s: Instr) -> None:
    out, work = begin(e, s)
    sign = "/" if s.op == "div" else _SIGNS[s.op]
    if work.is_float or known(e, out):
        each(e, s, out, work, lambda w, a, b: f"{a} {sign} {b}")
    else:
        each(e, s, out, work, lambda w, a, b: wrapping(e, sign, a, b, work, w))
    if e.notes_sums and s.op == "add" and out.dtype is index and out.lanes == 1:
        outer, inner = sorted(s.args, key=lambda v: v.depth)
        ranges = [e.intervals.of(v) for v in s.args]
        if outer.depth < inner.depth and all(r is not None and r[0] >= 0 for r in ranges):
            e.sums[out.id] = outer, inner


def _minmax(e: CFamilyEmitter, s: Instr) -> None:
    out = s.result
    check(s)
    work = common(e, s, out)
    # the order decides the sign of a zero and which NaN is kept: as the LLVM renderer has it on x86
    first, second = s.args
    swap = work.is_float and first.id in e.carried
    if swap:
        first, second = second, first
    bounded = work.is_float and e.is_number(second) and not e.is_number(first)

    def write(w: int, a: str, b: str) -> str:
        if swap:
            a, b = b, a
        write = e.chosen if not work.is_float else e.bounded if bounded else e.extreme
        return write(s.op, a, b, work, w)

    each(e, s, out, work, write)


def _compare(e: CFamilyEmitter, s: Instr) -> None:
    out = s.result
    check(s)
    sign, a = _SIGNS[s.op], s.args[0]
    work = e.form(a, max(e.widths(a))) if a.dtype is bool_ else common(e, s, out)
    each(e, s, out, work, lambda w, x, y: f"{x} {sign} {y}", MASKS[work.size])
    if e.picks_extremes and s.op == "lt" and work.is_float and out.lanes > 1:
        e.less[out.id] = s.args[0], s.args[1]


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
    small, large = e.less.get(cond.id, (None, None))
    extreme = {(small, large): "min", (large, small): "max"}.get((a, b))  # (as instructions have it, of zeros and NaN too)
    exprs = []
    want = [mask if masked and w > 1 else e.form(out, w) for w in e.widths(out)]
    for i, (w, f) in enumerate(zip(e.widths(out), want, strict=True)):
        assert f is not None
        x, y = (e.of(v)[i] if w == 1 and masked else e.as_form(v, f)[i] for v in (a, b))
        if one is not None or w == 1:
            exprs.append(f"{atom(one or e.of(cond)[i])} ? {x} : {y}")
        elif extreme is not None:
            exprs.append(e.chosen(extreme, x, y, f, w))
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


def _disjoint(e: CFamilyEmitter, s: Instr) -> None:
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
    "cast": cast,
    "bitcast": bitcast,
    "aligned": _aligned,
    "apart": _disjoint,
    "dot": _dot,
    "splat": lane_splat,
    "extract": lane_extract,
    "every": lane_every,
    "insert": lane_insert,
    "shuffle": lane_shuffle,
    **dict.fromkeys(READS - MATRIX_LOADS, c_memory.load),
    **dict.fromkeys(MATRIX_LOADS, _ldmatrix),
    "mma": _mma,
    **dict.fromkeys(WRITES, c_memory.store),
    "prefetch": c_memory.prefetch,
    "barrier": _barrier,
    "shfl_xor": _shuffle_xor,
    "copy_async": _copy_async,
    "commit": _commit,
    "wait": _wait,
}


def table(language: Language) -> Table:
    """What writes each operation that a language has."""
    return {name: write for name, write in _EVERY.items() if not OPS[name].needs or getattr(language, OPS[name].needs)}
