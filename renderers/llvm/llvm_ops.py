"""Value operations of a Program as LLVM instructions: one function an operation, `(emitter, instr) -> operand`."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.dtypes import FORMATS, DType, FloatFormat, float32, float64
from ...ir.errors import BuildError
from ...program.ops import COMPARISONS, PAGE, TWIN_ONLY
from ...program.program import Instr, Val
from ...targets.instructions import BY_NAME
from .division import divmod_, fdiv, quot, root_guess, scale2, unsupported
from .llvm_emitter import SCALAR, LlvmEmitter, constant, splat, suffix, type_of, vector
from .llvm_emitter import splat as constant_splat
from .tables import looked_up, note_bytes, note_mask, small

# llvm half ------------------------------------------------------------------------------------------------------------
#
# Conversions of the storage types, written so that no target needs a runtime function.
#
# float16 uses the target's instructions where there are some (F16C, NEON), else integer arithmetic after F. Giesen,
# "Float to half done quick" (2012). bfloat16 is the upper half of a float32: a shift, and rounding to nearest even by
# carrying into bit 16. The 8-bit floats are converted as float16 is.


def _i(value: int, lanes: int, scalar: str = "i32") -> str:
    return str(value) if lanes == 1 else splat(scalar, str(value))


def widen(e: LlvmEmitter, x: str, name: str, lanes: int) -> str:
    """The bits of a storage type as float32; exact."""
    f32, i32, i16 = vector("float", lanes), vector("i32", lanes), vector("i16", lanes)
    if name == "float16" and "f16c" in e.target.features:
        half = vector("half", lanes)
        return e.emit(f"fpext {half} {e.emit(f'bitcast {i16} {x} to {half}')} to {f32}")
    if name == "bfloat16" and e.target.arch == "x86_64" and 4 * lanes in (16, 32):
        return e.emit(f"bitcast {vector('i16', 2 * lanes)} {_above_zeros(e, x, lanes)} to {f32}")
    if name == "bfloat16":
        wide = e.emit(f"zext {i16} {x} to {i32}")
        return e.emit(f"bitcast {i32} {e.emit(f'shl {i32} {wide}, {_i(16, lanes)}')} to {f32}")
    return _widen(e, x, FORMATS[name], lanes)


def _widen(e: LlvmEmitter, x: str, f: FloatFormat, lanes: int) -> str:
    """Exact in a process too where subnormal float32 numbers count as 0, which every library linked with -ffast-math may ask for: none
    comes into being."""
    f32, i32 = vector("float", lanes), vector("i32", lanes)
    wide = e.emit(f"zext {vector(f'i{f.size}', lanes)} {x} to {i32}")
    magnitude = e.emit(f"and {i32} {wide}, {_i(f.sign - 1, lanes)}")
    sign = e.emit(f"shl {i32} {e.emit(f'xor {i32} {wide}, {magnitude}')}, {_i(32 - f.size, lanes)}")
    low = e.emit(f"shl {i32} {magnitude}, {_i(23 - f.mantissa, lanes)}")
    normal = e.emit(f"add {i32} {low}, {_i((127 - f.bias) << 23, lanes)}")
    # with one more in the exponent, a subnormal's value is what is past the first power of two; of a normal number that is more
    over = e.emit(f"bitcast {i32} {e.emit(f'add {i32} {low}, {_i((128 - f.bias) << 23, lanes)}')} to {f32}")
    past = e.emit(f"fsub {f32} {over}, {e.number(2.0 ** (1 - f.bias), lanes)}")
    small = e.emit(f"bitcast {f32} {past} to {i32}")
    less = e.emit(f"icmp ult {i32} {small}, {normal}")
    finite = e.select(less, small, normal, "i32", lanes)
    special = e.emit(f"icmp uge {i32} {magnitude}, {_i(f.top, lanes)}")
    exponent = e.select(special, _i(0x7F800000, lanes), _i(0, lanes), "i32", lanes)
    bits = e.emit(f"or {i32} {finite}, {exponent}")
    return e.emit(f"bitcast {i32} {e.emit(f'or {i32} {bits}, {sign}')} to {f32}")


def _above_zeros(e: LlvmEmitter, x: str, lanes: int) -> str:
    """Each of so many i16 after one that is 0: by one instruction that takes zeros from a table, where widening and shifting are two. It
    moves elements within 16 bytes, so all of them are brought to both halves of a long vector, which loading does."""
    i16, i32, wide = vector("i16", lanes), "i32", vector("i16", 2 * lanes)
    every = range(2 * lanes)
    if lanes == 4:
        order = ", ".join(f"{i32} {lanes + i // 2 if i % 2 == 0 else i // 2}" for i in every)
        return e.emit(f"shufflevector {i16} {x}, {i16} zeroinitializer, <{2 * lanes} x i32> <{order}>")
    twice = ", ".join(f"{i32} {i % lanes}" for i in every)
    both = e.emit(f"shufflevector {i16} {x}, {i16} zeroinitializer, <{2 * lanes} x i32> <{twice}>")
    order = ", ".join(f"{i32} {2 * lanes + i if i % 2 == 0 else i // 8 * 8 + i // 8 * 4 + i % 8 // 2}" for i in every)
    return e.emit(f"shufflevector {wide} {both}, {wide} zeroinitializer, <{2 * lanes} x i32> <{order}>")


def narrow(e: LlvmEmitter, x: str, name: str, lanes: int) -> str:
    """float32 as the bits of a storage type, rounded to nearest even; NaN stays NaN."""
    f32, i32, i16 = vector("float", lanes), vector("i32", lanes), vector("i16", lanes)
    if name == "float16" and "f16c" in e.target.features:
        half = vector("half", lanes)
        return e.emit(f"bitcast {half} {e.emit(f'fptrunc {f32} {x} to {half}')} to {i16}")
    if name == "bfloat16":
        bits = e.emit(f"bitcast {f32} {x} to {i32}")
        high = e.emit(f"lshr {i32} {bits}, {_i(16, lanes)}")
        odd = e.emit(f"and {i32} {high}, {_i(1, lanes)}")
        carried = e.emit(f"add {i32} {e.emit(f'add {i32} {bits}, {_i(0x7FFF, lanes)}')}, {odd}")
        nan = e.emit(f"fcmp uno {f32} {x}, {x}")
        # all bits set are a quiet NaN, and one operation: a selection between two vectors is three on some processors
        rounded = e.emit(f"lshr {i32} {e.select(nan, _i(-1, lanes), carried, 'i32', lanes)}, {_i(16, lanes)}")
        return e.emit(f"trunc {i32} {rounded} to {i16}")
    return _narrow(e, x, FORMATS[name], lanes)


def _narrow(e: LlvmEmitter, x: str, f: FloatFormat, lanes: int) -> str:
    f32, i32, shift = vector("float", lanes), vector("i32", lanes), 23 - f.mantissa
    bits = e.emit(f"bitcast {f32} {x} to {i32}")
    magnitude = e.emit(f"and {i32} {bits}, {_i(0x7FFFFFFF, lanes)}")
    sign = e.emit(f"lshr {i32} {e.emit(f'xor {i32} {bits}, {magnitude}')}, {_i(32 - f.size, lanes)}")
    odd = e.emit(f"and {i32} {e.emit(f'lshr {i32} {magnitude}, {_i(shift, lanes)}')}, {_i(1, lanes)}")
    rebased = e.emit(f"add {i32} {magnitude}, {_i(((f.bias - 127) << 23) + (1 << (shift - 1)) - 1, lanes)}")
    normal = e.emit(f"lshr {i32} {e.emit(f'add {i32} {rebased}, {odd}')}, {_i(shift, lanes)}")
    # adding the number whose last bit is the smallest subnormal leaves a subnormal's bits, rounded, at the bottom of the sum
    unit = 24 - f.bias - f.mantissa
    sum_ = e.emit(f"fadd {f32} {e.emit(f'bitcast {i32} {magnitude} to {f32}')}, {e.number(2.0**unit, lanes)}")
    small = e.emit(f"sub {i32} {e.emit(f'bitcast {f32} {sum_} to {i32}')}, {_i((127 + unit) << 23, lanes)}")
    is_small = e.emit(f"icmp ult {i32} {magnitude}, {_i((128 - f.bias) << 23, lanes)}")
    is_large = e.emit(f"icmp ugt {i32} {magnitude}, {_i(f.overflow, lanes)}")
    is_nan = e.emit(f"icmp ugt {i32} {magnitude}, {_i(0x7F800000, lanes)}")
    large = e.select(is_nan, _i(f.nan, lanes), _i(f.top, lanes), "i32", lanes)
    out = e.select(is_large, large, e.select(is_small, small, normal, "i32", lanes), "i32", lanes)
    return e.emit(f"trunc {i32} {e.emit(f'or {i32} {out}, {sign}')} to {vector(f'i{f.size}', lanes)}")


def round_to_odd(e: LlvmEmitter, x: str, lanes: int) -> str:
    """float64 as float32, rounded to odd: rounding the result once more to a storage type is then the same as rounding once."""
    f64, f32, i32 = vector("double", lanes), vector("float", lanes), vector("i32", lanes)
    near = e.emit(f"fptrunc {f64} {x} to {f32}")
    back = e.emit(f"fpext {f32} {near} to {f64}")
    inexact = e.emit(f"fcmp one {f64} {back}, {x}")
    size, limit = (e.call("fabs", f64, "double", lanes, v) for v in (back, x))
    away = e.emit(f"fcmp ogt {f64} {size}, {limit}")
    bits = e.emit(f"bitcast {f32} {near} to {i32}")
    toward_zero = e.emit(f"sub {i32} {bits}, {e.select(away, _i(1, lanes), _i(0, lanes), 'i32', lanes)}")
    odd = e.emit(f"or {i32} {toward_zero}, {_i(1, lanes)}")
    return e.emit(f"bitcast {i32} {e.select(inexact, odd, bits, 'i32', lanes)} to {f32}")


# llvm ops -------------------------------------------------------------------------------------------------------------

LANES = 32
"""Bytes of a register: four registers of 32-bit integers."""
_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
"""Where packs of halves of registers leave each group of four bytes."""


def packs_bytes(e: LlvmEmitter, src: DType, to: DType, lanes: int) -> bool:
    """Whether a conversion to bytes is one of whole registers that are packed."""
    return e.target.packs_bytes and src.size == 4 and to.is_int and to.size == 1 and lanes >= LANES and lanes & (lanes - 1) == 0


def bytes_of(e: LlvmEmitter, x: str, src: DType, lanes: int) -> str:
    """The lowest byte of each element: what packing would limit to a byte is cut to one before."""
    ty = f"<{lanes} x i32>"
    if src.is_float:
        x = e.emit(f"fptosi <{lanes} x float> {x} to {ty}")
    whole = [_packed(e, ty, x, first) for first in range(0, lanes, LANES)]
    while len(whole) > 1:
        count = lanes // len(whole)
        picks = ", ".join(f"i32 {i}" for i in range(2 * count))
        pairs = zip(whole[::2], whole[1::2], strict=True)
        whole = [e.emit(f"shufflevector <{count} x i8> {a}, <{count} x i8> {b}, <{2 * count} x i32> <{picks}>") for a, b in pairs]
    return whole[0]


def _packed(e: LlvmEmitter, ty: str, x: str, first: int) -> str:
    """32 bytes of as many elements from `first` on."""
    words, shorts, chars = "<8 x i32>", "<16 x i16>", "<32 x i8>"
    cut = []
    for at in range(first, first + LANES, 8):
        picks = ", ".join(f"i32 {at + i}" for i in range(8))
        part = e.emit(f"shufflevector {ty} {x}, {ty} poison, <8 x i32> <{picks}>")
        cut.append(e.emit(f"and {words} {part}, splat (i32 255)"))
    to_shorts, to_chars = "@llvm.x86.avx2.packusdw", "@llvm.x86.avx2.packuswb"
    e.declare(to_shorts, f"declare {shorts} {to_shorts}({words}, {words})")
    e.declare(to_chars, f"declare {chars} {to_chars}({shorts}, {shorts})")
    low, high = (e.emit(f"call {shorts} {to_shorts}({words} {a}, {words} {b})") for a, b in (cut[:2], cut[2:]))
    found = e.emit(f"bitcast {chars} {e.emit(f'call {chars} {to_chars}({shorts} {low}, {shorts} {high})')} to {words}")
    order = ", ".join(f"i32 {i}" for i in _ORDER)
    return e.emit(f"bitcast {words} {e.emit(f'shufflevector {words} {found}, {words} poison, <8 x i32> <{order}>')} to {chars}")


def lane_splat(e: LlvmEmitter, s: Instr) -> str:
    """A scalar in every lane."""
    (a,), out = s.args, s.out
    assert out is not None
    x, scalar, ty = e.of(a), type_of(a), type_of(out)
    if not x.startswith("%"):
        return constant_splat(scalar, x)
    first = e.emit(f"insertelement {ty} poison, {scalar} {x}, i32 0")
    return e.emit(f"shufflevector {ty} {first}, {ty} poison, <{out.lanes} x i32> zeroinitializer")


def lane_extract(e: LlvmEmitter, s: Instr) -> str:
    """One lane."""
    (a,) = s.args
    return e.emit(f"extractelement {type_of(a)} {e.of(a)}, i32 {s.number}")


def lane_every(e: LlvmEmitter, s: Instr) -> str:
    """Whether all lanes of a condition hold: processors gather the lanes' signs in one instruction."""
    (a,) = s.args
    bits = e.emit(f"bitcast {type_of(a)} {e.of(a)} to i{a.lanes}")
    return e.emit(f"icmp eq i{a.lanes} {bits}, -1")


def lane_insert(e: LlvmEmitter, s: Instr) -> str:
    """A vector with one lane replaced."""
    a, x = s.args
    return e.emit(f"insertelement {type_of(a)} {e.of(a)}, {type_of(x)} {e.of(x)}, i32 {s.number}")


def lane_shuffle(e: LlvmEmitter, s: Instr) -> str:
    """Lanes of one vector or two, in another order. Those of one that go from half to half are looked up: of such a shuffle, LLVM makes two
    instructions."""
    a, b = s.args
    picks, x = ", ".join(f"i32 {i}" for i in s.picks), e.of(a)
    crosses = max(s.picks) < a.lanes and any(i and i // 4 != at // 4 for at, i in enumerate(s.picks))
    if a.dtype is float32 and a.lanes in (4, 8) and len(s.picks) == 8 and crosses and "avx2" in e.target.features:
        name = "@llvm.x86.avx2.permps"
        e.declare(name, f"declare <8 x float> {name}(<8 x float>, <8 x i32>)")
        if a.lanes == 4:
            x = e.emit(f"shufflevector <4 x float> {x}, <4 x float> poison, <8 x i32> <{', '.join(f'i32 {i % 4}' for i in range(8))}>")
        return e.emit(f"call <8 x float> {name}(<8 x float> {x}, <8 x i32> <{picks}>)")
    return e.emit(f"shufflevector {type_of(a)} {x}, {type_of(b)} {e.of(b)}, <{len(s.picks)} x i32> <{picks}>")


_BINARY = {
    "f": {"add": "fadd", "sub": "fsub", "mul": "fmul"},
    "i": {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor", "shl": "shl", "shr": "ashr"},
    "u": {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor", "shl": "shl", "shr": "lshr"},
    "b": {"and": "and", "or": "or", "xor": "xor"},
}
_COMPARE = {
    "f": {"lt": "fcmp olt", "le": "fcmp ole", "eq": "fcmp oeq", "ne": "fcmp une"},
    "i": {"lt": "icmp slt", "le": "icmp sle", "eq": "icmp eq", "ne": "icmp ne"},
    "u": {"lt": "icmp ult", "le": "icmp ule", "eq": "icmp eq", "ne": "icmp ne"},
    "b": {"eq": "icmp eq", "ne": "icmp ne"},
}
_MINMAX = {"f": {"max": "maximum", "min": "minimum"}, "i": {"max": "smax", "min": "smin"}, "u": {"max": "umax", "min": "umin"}}


def _args(s: Instr) -> tuple[Val, ...]:
    """The operands of arithmetic, which floats of 16 and 8 bits cannot be."""
    if s.args[0].dtype.narrow:
        raise unsupported(s)
    return s.args


def _binary(e: LlvmEmitter, s: Instr) -> str:
    a, b = _args(s)
    table = _COMPARE if s.op in COMPARISONS else _BINARY
    opcode = table[a.dtype.kind].get(s.op)
    if opcode is None:
        raise unsupported(s)
    note_mask(e, s)
    note_bytes(e, s)
    return looked_up(e, s) or e.emit(f"{opcode} {type_of(a)} {e.of(a)}, {e.of(b)}")


def _div(e: LlvmEmitter, s: Instr) -> str:
    a, b = _args(s)
    if not a.dtype.is_float:
        raise unsupported(s)
    return fdiv(e, e.of(a), e.of(b), SCALAR[a.dtype.name], a.lanes)


def _minmax(e: LlvmEmitter, s: Instr) -> str:
    a, b = _args(s)
    name = _MINMAX.get(a.dtype.kind, {}).get(s.op)
    if name is None:
        raise unsupported(s)
    if not a.dtype.is_float:
        return e.call(name, type_of(a), SCALAR[a.dtype.name], a.lanes, e.of(a), e.of(b))
    # x86 tests the first operand for NaN: make that the new element, not the accumulator, to keep the test off the long chain
    if a.id in e.carried:
        a, b = b, a
    return e.call(name, type_of(a), SCALAR[a.dtype.name], a.lanes, e.of(a), e.of(b), flags="nsz ")


def _aligned(e: LlvmEmitter, s: Instr) -> str:
    param, size = s.picks
    pointer = e.pointer(param)
    e.used.add(pointer)  # perhaps for nothing else: what is stored there may have vanished
    low = e.emit(f"and i64 {e.emit(f'ptrtoint ptr {pointer} to i64')}, {size - 1}")
    return e.emit(f"icmp eq i64 {low}, 0")


def _disjoint(e: LlvmEmitter, s: Instr) -> str:
    a, b, first, size = s.picks
    for param in (a, b):
        e.used.add(e.pointer(param))
    ends = [e.emit(f"ptrtoint ptr {e.pointer(param)} to i64") for param in (a, b)]
    beyond = e.emit(f"sub i64 {e.emit(f'sub i64 {ends[0]}, {ends[1]}')}, {first}")
    return e.emit(f"icmp uge i64 {e.emit(f'and i64 {beyond}, {PAGE - 1}')}, {size}")


def _neg(e: LlvmEmitter, s: Instr) -> str:
    (a,) = _args(s)
    if a.dtype.is_float:
        return e.emit(f"fneg {type_of(a)} {e.of(a)}")
    return e.emit(f"sub {type_of(a)} {constant(0, a.dtype, a.lanes)}, {e.of(a)}")


def _not(e: LlvmEmitter, s: Instr) -> str:
    (a,) = s.args
    return e.emit(f"xor {type_of(a)} {e.of(a)}, {constant(True if a.dtype.kind == 'b' else -1, a.dtype, a.lanes)}")


def _abs(e: LlvmEmitter, s: Instr) -> str:
    (a,) = _args(s)
    if a.dtype.is_float:
        return e.call("fabs", type_of(a), SCALAR[a.dtype.name], a.lanes, e.of(a))
    if a.dtype.kind == "u":
        return e.of(a)
    return _with_flag(e, "abs", a)


def _count(e: LlvmEmitter, s: Instr) -> str:
    (a,) = s.args
    if not a.dtype.is_int:
        raise unsupported(s)
    if s.op == "popcount":
        return e.call("ctpop", type_of(a), SCALAR[a.dtype.name], a.lanes, e.of(a))
    return _with_flag(e, "ctlz", a)


def _with_flag(e: LlvmEmitter, name: str, a: Val) -> str:
    """An intrinsic of one operand that is told whether its exception (the least number, or 0) has no result: it has one."""
    ty, full = type_of(a), f"@llvm.{name}.{suffix(SCALAR[a.dtype.name], a.lanes)}"
    e.declare(full, f"declare {ty} {full}({ty}, i1 immarg)")
    return e.emit(f"call {ty} {full}({ty} {e.of(a)}, i1 false)")


def _sqrt(e: LlvmEmitter, s: Instr) -> str:
    (a,) = _args(s)
    return e.call("sqrt", type_of(a), SCALAR[a.dtype.name], a.lanes, e.of(a))


def _round(e: LlvmEmitter, s: Instr) -> str:
    (a,) = _args(s)
    ty, scalar, x = type_of(a), SCALAR[a.dtype.name], e.of(a)
    if {"sse41", "neon"} & e.target.features:
        return e.call("floor" if s.op == "floor" else "roundeven", ty, scalar, a.lanes, x)
    # no instruction: adding and taking away 2**(mantissa bits) rounds, as long as |x| is below that; larger x are whole already
    magic = constant(2.0**23 if a.dtype.size == 4 else 2.0**52, a.dtype, a.lanes)
    size = e.call("fabs", ty, scalar, a.lanes, x)
    near = e.emit(f"fsub {ty} {e.emit(f'fadd {ty} {size}, {magic}')}, {magic}")
    signed = e.call("copysign", ty, scalar, a.lanes, near, x)
    small = e.emit(f"fcmp olt {ty} {size}, {magic}")
    whole = e.select(small, signed, x, scalar, a.lanes)
    if s.op == "round":
        return whole
    above = e.emit(f"fcmp ogt {ty} {whole}, {x}")
    lower = e.emit(f"fsub {ty} {whole}, {constant(1.0, a.dtype, a.lanes)}")
    return e.call("copysign", ty, scalar, a.lanes, e.select(above, lower, whole, scalar, a.lanes), x)


def _fma(e: LlvmEmitter, s: Instr) -> str:
    a, b, c = _args(s)
    ty = type_of(a)
    if a.dtype.is_float and "fma" in e.target.features:
        return e.call("fma", ty, SCALAR[a.dtype.name], a.lanes, e.of(a), e.of(b), e.of(c))
    # without the instruction an exact fma is a slow runtime function: such targets round twice
    mul, add = ("fmul", "fadd") if a.dtype.is_float else ("mul", "add")
    return e.emit(f"{add} {ty} {e.emit(f'{mul} {ty} {e.of(a)}, {e.of(b)}')}, {e.of(c)}")


def _select(e: LlvmEmitter, s: Instr) -> str:
    cond, a, b = s.args
    ty, x, y = type_of(a), e.of(a), e.of(b)
    read = all(v.id in e.where or not e.of(v).startswith("%") for v in (a, b))  # (what is computed would change registers twice)
    # (nobody foresees what data says: LLVM makes a branch of a choice of something loaded, unless it is told so)
    said = ", !unpredictable !1" if read and a.lanes == 1 and cond.lanes == 1 else ""
    if a.lanes > 1 or a.dtype not in (float32, float64) or cond.id not in e.whole or not read:
        return e.emit(f"select {type_of(cond)} {e.of(cond)}, {ty} {x}, {ty} {y}{said}")
    # x86 has no such instruction for one float where whole numbers are compared: LLVM branches, with fewer registers around that
    bits = "i64" if a.dtype is float64 else "i32"
    x, y = (e.emit(f"bitcast {ty} {v} to {bits}") for v in (x, y))
    chosen = e.emit(f"select i1 {e.of(cond)}, {bits} {x}, {bits} {y}{said}")
    return e.emit(f"bitcast {bits} {chosen} to {ty}")


def _bitcast(e: LlvmEmitter, s: Instr) -> str:
    (a,), out = s.args, s.out
    assert out is not None
    if a.dtype.size != out.dtype.size or a.lanes != out.lanes:
        raise unsupported(s)
    return e.of(a) if type_of(a) == type_of(out) else e.emit(f"bitcast {type_of(a)} {e.of(a)} to {type_of(out)}")


def _cast(e: LlvmEmitter, s: Instr) -> str:
    return looked_up(e, s) or convert(e, e.of(s.args[0]), s.args[0].dtype, s.result.dtype, s.args[0].lanes)


def convert(e: LlvmEmitter, x: str, src: DType, to: DType, lanes: int) -> str:
    """`x` of type `src` converted to `to` as `cast` documents; a number becomes a bool where it is not 0."""
    if src is to:
        return x
    a, b = vector(SCALAR[src.name], lanes), vector(SCALAR[to.name], lanes)
    if src.narrow:
        wide = widen(e, x, src.name, lanes)
        return convert(e, wide, src.compute, to, lanes)
    if to.narrow:
        rounded = round_to_odd(e, x, lanes) if src.name == "float64" else convert(e, x, src, to.compute, lanes)
        return narrow(e, rounded, to.name, lanes)
    if to.kind == "b":
        zero = constant(0, src, lanes)
        return e.emit(f"{'fcmp une' if src.is_float else 'icmp ne'} {a} {x}, {zero}")
    if src.is_float and to.is_float:
        return e.emit(f"{'fpext' if to.size > src.size else 'fptrunc'} {a} {x} to {b}")
    if packs_bytes(e, src, to, lanes):
        return bytes_of(e, x, src, lanes)
    if src.is_float:
        return e.emit(f"{'fptosi' if to.kind == 'i' else 'fptoui'} {a} {x} to {b}")
    if to.is_float:
        return e.emit(f"{'sitofp' if src.kind == 'i' else 'uitofp'} {a} {x} to {b}")
    if src.kind == "b":
        return e.emit(f"zext {a} {x} to {b}")
    if a == b:
        return x
    return e.emit(f"{'trunc' if to.size < src.size else 'sext' if src.kind == 'i' else 'zext'} {a} {x} to {b}")


def _dot(e: LlvmEmitter, s: Instr) -> str:
    acc, a, b = s.args
    row = BY_NAME.get(str(s.attr))
    if row is None or [(v.dtype, v.lanes) for v in s.args] not in row.operands:
        raise unsupported(s)
    if row.flag not in e.target.features:
        raise BuildError(f"{e.target.name} has no {row.name} (it lacks {row.flag})")
    size = row.n * row.c.size
    words = vector("i32", size // 4)
    if a.lanes == row.k:  # one word, in every lane
        word = e.emit(f"bitcast {type_of(a)} {e.of(a)} to i32")
        first = e.emit(f"insertelement {words} poison, i32 {word}, i32 0")
        every = e.emit(f"shufflevector {words} {first}, {words} poison, <{size // 4} x i32> zeroinitializer")
    else:
        every = e.emit(f"bitcast {type_of(a)} {e.of(a)} to {words}")
    ty = vector(row.word, size // (4 if row.word == "i32" else 2))
    left = every if ty == words else e.emit(f"bitcast {words} {every} to {ty}")
    right = e.emit(f"bitcast {type_of(b)} {e.of(b)} to {ty}")
    full = f"@llvm.{row.llvm}"
    if row.halves == 2:
        return _dot_pairs(e, s, full, ty) if small(e, a) and a.lanes > row.k else _dot_halves(e, acc, full, ty, left, right)
    e.declare(full, f"declare {type_of(acc)} {full}({type_of(acc)}, {ty}, {ty})")
    return e.emit(f"call {type_of(acc)} {full}({type_of(acc)} {e.of(acc)}, {ty} {left}, {ty} {right})")


def _dot_pairs(e: LlvmEmitter, s: Instr, full: str, ty: str) -> str:
    """Groups of four bytes, of which those of `a` have no sign bit: products by pairs, and then their sums by pairs."""
    acc, a, b = s.args
    joined = "@llvm.x86.avx2.pmadd.ub.sw" if a.lanes == 32 else "@llvm.x86.avx512.pmaddubs.w.512"
    e.declare(joined, f"declare {ty} {joined}({type_of(a)}, {type_of(b)})")
    e.declare(full, f"declare {type_of(acc)} {full}({ty}, {ty})")
    twos = e.emit(f"call {ty} {joined}({type_of(a)} {e.of(a)}, {type_of(b)} {e.of(b)})")
    fours = e.emit(f"call {type_of(acc)} {full}({ty} {twos}, {ty} splat (i16 1))")
    return e.emit(f"add {type_of(acc)} {e.of(acc)}, {fours}")


def _dot_halves(e: LlvmEmitter, acc: Val, full: str, ty: str, left: str, right: str) -> str:
    """Groups of four bytes by pairs of 16 bits: first the bytes at even places, then those at odd ones."""
    eight, low = (f"splat (i16 {n})" for n in (8, 255))
    e.declare(full, f"declare {type_of(acc)} {full}({ty}, {ty})")
    high = e.emit(f"shl {ty} {right}, {eight}")
    pairs = [
        (e.emit(f"and {ty} {left}, {low}"), e.emit(f"ashr {ty} {high}, {eight}")),
        (e.emit(f"lshr {ty} {left}, {eight}"), e.emit(f"ashr {ty} {right}, {eight}")),
    ]
    out = e.of(acc)
    for a, b in pairs:
        product = e.emit(f"call {type_of(acc)} {full}({ty} {a}, {ty} {b})")
        out = e.emit(f"add {type_of(acc)} {out}, {product}")
    return out


def _const(e: LlvmEmitter, s: Instr) -> str:
    assert s.out is not None
    return constant(s.attr, s.out.dtype, s.out.lanes)


def _exp2(e: LlvmEmitter, s: Instr) -> str:
    raise BuildError(f"{e.target.name} has no exp2: lower the kernel for the target it is rendered for")


def _elementary(e: LlvmEmitter, s: Instr) -> str:
    raise BuildError(f"{s.op} reached the renderer: lower the kernel with expand=True")


OPS: dict[str, Callable[[LlvmEmitter, Instr], str]] = {
    "const": _const,
    **dict.fromkeys(("add", "sub", "mul", "and", "or", "xor", "shl", "shr"), _binary),
    **dict.fromkeys(COMPARISONS, _binary),
    **dict.fromkeys(("max", "min"), _minmax),
    **dict.fromkeys(("floor", "round"), _round),
    **dict.fromkeys(("idiv", "imod"), divmod_),
    **dict.fromkeys(TWIN_ONLY, _elementary),
    "div": _div,
    "quot": quot,
    "neg": _neg,
    "not": _not,
    "abs": _abs,
    "sqrt": _sqrt,
    **dict.fromkeys(("popcount", "clz"), _count),
    "fma": _fma,
    "scale2": scale2,
    "exp2": _exp2,
    "root_guess": root_guess,
    "select": _select,
    "cast": _cast,
    "bitcast": _bitcast,
    "aligned": _aligned,
    "apart": _disjoint,
    "splat": lane_splat,
    "extract": lane_extract,
    "every": lane_every,
    "insert": lane_insert,
    "shuffle": lane_shuffle,
    "dot": _dot,
}
