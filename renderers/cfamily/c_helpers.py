"""Functions that C kernels call, written out where one is used: what GCC's vectors have no operator for."""

from __future__ import annotations

import math
from typing import NamedTuple

from ...ir.dtypes import FORMATS, DType, dtype, float32, float64, int32, int64, uint16, uint32
from ...targets.instructions import Instruction
from .c_emitter import CFamilyEmitter
from .c_types import MASKS, form, unsigned

# c half ---------------------------------------------------------------------------------------------------------------
#
# Conversions of the storage types in C-like languages, in integer code unless the language has an instruction for it.
#
# The arithmetic is that of `renderers.llvm.llvm_ops`: float16 after F. Giesen, "Float to half done quick" (2012);
# bfloat16 is the upper half of a float32; the 8-bit floats are converted as float16 is. A conversion is a function of
# a vector, so that kernels stay short.


def widen(e: CFamilyEmitter, x: str, name: str, width: int) -> str:
    """The bits of a storage type as float32; exact."""
    native = e.native_half("widen", name, x, width)
    return (
        native
        if native is not None
        else _call(e, f"widen_{name}", e.type(float32, width), e.type(_bits(name), width), plain(e, "widen", name, width), x, width)
    )


def narrow(e: CFamilyEmitter, x: str, name: str, width: int) -> str:
    """float32 as the bits of a storage type, rounded to nearest even; NaN stays NaN."""
    native = e.native_half("narrow", name, x, width)
    return (
        native
        if native is not None
        else _call(e, f"narrow_{name}", e.type(_bits(name), width), e.type(float32, width), plain(e, "narrow", name, width), x, width)
    )


def plain(e: CFamilyEmitter, way: str, name: str, width: int) -> list[str]:
    """The statements of a conversion of `x` in integer code."""
    return _widen(e, name, width) if way == "widen" else _narrow(e, name, width)


def _bits(name: str) -> DType:
    """The integer that holds the bits of a storage type."""
    return form(dtype(name))


def _widen(e: CFamilyEmitter, name: str, width: int) -> list[str]:
    """No float32 that is subnormal comes into being, which devices may take for 0."""
    u, f, form = e.type(uint32, width), e.type(float32, width), FORMATS[name]
    bits = f"{u} bits = {e.convert('x', _bits(name), uint32, width)};"
    if name == "bfloat16":
        return [bits, f"return {e.reinterpret('bits << 16', uint32, float32, width)};"]
    over = e.reinterpret(f"low + {(128 - form.bias) << 23:#x}u", uint32, float32, width)
    return [
        bits,
        f"{u} magnitude = bits & {form.sign - 1:#x}u;",
        f"{u} sign = (bits ^ magnitude) << {32 - form.size};",
        f"{u} low = magnitude << {23 - form.mantissa};",
        f"{u} normal = low + {(127 - form.bias) << 23:#x}u;",
        "// with one more in the exponent, a subnormal's value is what is past the first power of two; of a normal number that is more",
        f"{f} past = {over} - 0x1p{1 - form.bias}f;",
        f"{u} small = {e.reinterpret('past', float32, uint32, width)};",
        f"{u} finite = {_pick(e, 'small < normal', 'small', 'normal', width)};",
        f"{u} special = {_pick(e, f'magnitude >= {form.top:#x}u', '0x7f800000u', '0u', width)};",
        f"return {e.reinterpret('finite | special | sign', uint32, float32, width)};",
    ]


def _narrow(e: CFamilyEmitter, name: str, width: int) -> list[str]:
    """Adding the number whose last bit is the smallest subnormal, `unit`, leaves a subnormal's bits, rounded, at the bottom of the sum."""
    u, f = e.type(uint32, width), FORMATS[name]
    bits = f"{u} bits = {e.reinterpret('x', float32, uint32, width)};"
    if name == "bfloat16":
        return [
            bits,
            f"{u} carried = bits + 0x7fffu + ((bits >> 16) & 1u);",
            f"{u} out = {_pick(e, 'x != x', '0xffffffffu', 'carried', width)} >> 16;",
            f"return {e.convert('out', uint32, _bits(name), width)};",
        ]
    shift, unit = 23 - f.mantissa, (127 + 24 - f.bias - f.mantissa) << 23
    rebase = (1 << 32) - ((127 - f.bias) << 23) + (1 << (shift - 1)) - 1
    positive, plain = e.reinterpret("magnitude", uint32, float32, width), f"{math.ldexp(1.0, (unit >> 23) - 127)!r}f"
    return [
        bits,
        f"{u} magnitude = bits & 0x7fffffffu;",
        f"{u} sign = (bits ^ magnitude) >> {32 - f.size};",
        f"{u} normal = (magnitude + {rebase:#x}u + ((magnitude >> {shift}) & 1u)) >> {shift};",
        f"{u} small = {e.reinterpret(f'{positive} + {plain}', float32, uint32, width)} - {unit:#x}u;",
        f"{u} finite = {_pick(e, f'magnitude < {(128 - f.bias) << 23:#x}u', 'small', 'normal', width)};",
        f"{u} large = {_pick(e, 'magnitude > 0x7f800000u', f'{f.nan:#x}u', f'{f.top:#x}u', width)};",
        f"{u} out = {_pick(e, f'magnitude > {f.overflow:#x}u', 'large', 'finite', width)};",
        f"return {e.convert('(out | sign)', uint32, _bits(name), width)};",
    ]


def round_to_odd(e: CFamilyEmitter, x: str, width: int) -> str:
    """float64 as float32, rounded to odd: rounding the result once more to a storage type is then the same as rounding once."""
    f, d, u = e.type(float32, width), e.type(float64, width), e.type(uint32, width)
    inexact, away = "(back < x) | (back > x)", f"{e.call('abs', ['back'], float64, width)} > {e.call('abs', ['x'], float64, width)}"
    if width > 1:  # masks as wide as float32
        inexact, away = (e.convert(f"({m})", int64, int32, width) for m in (inexact, away))
    lines = [
        f"{f} near = {e.convert('x', float64, float32, width)};",
        f"{d} back = {e.convert('near', float32, float64, width)};",
        f"{u} bits = {e.reinterpret('near', float32, uint32, width)};",
        f"{u} zero = {_pick(e, away, 'bits - 1u', 'bits', width)} | 1u;",
        f"return {e.reinterpret(_pick(e, inexact, 'zero', 'bits', width), uint32, float32, width)};",
    ]
    return _call(e, "round_to_odd", f, d, lines, x, width)


def _pick(e: CFamilyEmitter, cond: str, a: str, b: str, width: int) -> str:
    """Element-wise choice of uint32, constants among them."""
    if width > 1:
        a, b = (e.splat(t, uint32, width) if t.endswith("u") and t[0].isdigit() else t for t in (a, b))
    return f"({e.select(cond, a, b, uint32, width)})"


def _call(e: CFamilyEmitter, name: str, result: str, argument: str, lines: list[str], x: str, width: int) -> str:
    full = f"{name}_x{width}" if width > 1 else name
    body = "\n".join(f"    {line}" for line in lines)
    e.need(full, f"{e.INLINE}{result} {full}({argument} x) {{\n{body}\n}}")
    return f"{full}({x})"


# c helpers ------------------------------------------------------------------------------------------------------------

_ARM_FMA = {
    (4, 8): "__builtin_aarch64_fmav2sf(a, b, c)",
    (4, 16): "__builtin_aarch64_fmav4sf(a, b, c)",
    (8, 16): "__builtin_aarch64_fmav2df(a, b, c)",
}
_X86_STREAM = {16: "__builtin_ia32_movntdq", 32: "__builtin_ia32_movntdq256", 64: "__builtin_ia32_movntdq512"}


def _define(e: CFamilyEmitter, name: str, head: str, *body: str) -> str:
    lines = "\n".join(line if line.startswith("#") else f"    {line}" for line in body)
    return e.need(name, f"static inline {head} {{\n{lines}\n}}")


def splat(e: CFamilyEmitter, form: DType, width: int) -> str:
    """A scalar in every lane."""
    v = e.type(form, width)
    return _define(e, f"splat_{v}", f"{v} splat_{v}({e.type(form)} x)", f"return ({v}){{{', '.join(['x'] * width)}}};")


def bits(e: CFamilyEmitter, src: DType, dst: DType) -> str:
    """The bits of a scalar as another type."""
    a, b = e.type(src), e.type(dst)
    name = f"{b}_from_{a}_bits"
    return _define(e, name, f"{b} {name}({a} x)", f"{b} y;", "__builtin_memcpy(&y, &x, sizeof y);", "return y;")


def select(e: CFamilyEmitter, form: DType, width: int) -> str:
    """Choice by a mask: C, unlike C++, has no ?: of vectors."""
    v, m = e.type(form, width), e.type(MASKS[form.size], width)
    name = f"select_{v}"
    return _define(e, name, f"{v} {name}({m} on, {v} a, {v} b)", f"return ({v})((on & ({m})a) | (~on & ({m})b));")


def permute(e: CFamilyEmitter, form: DType, width: int) -> str:
    """Lanes of two vectors in any order: a macro, since the order is constant. (gcc takes vectors that are written out lane by lane apart,
    and loads their elements one by one where they come from memory.)"""
    v, m = e.type(form, width), e.type(MASKS[form.size], width)
    name = f"permute_{v}"
    clang, gcc = "__builtin_shufflevector(a, b, __VA_ARGS__)", f"__builtin_shuffle(a, b, ({m}){{__VA_ARGS__}})"
    lines = ["#ifdef __clang__", f"#define {name}(a, b, ...) {clang}", "#else", f"#define {name}(a, b, ...) {gcc}", "#endif"]
    return e.need(name, "\n".join(lines))


def subvector(e: CFamilyEmitter, form: DType, width: int, lanes: int) -> str:
    """Lanes of a vector that lie side by side: a macro, as `permute` is. (gcc before 12 has no builtin for it.)"""
    v, p = e.type(form, width), e.type(form, lanes)
    name = f"subvector_{v}_{lanes}"
    copied = f"({{ {v} whole = a; {p} some; __builtin_memcpy(&some, (char *)&whole + {form.size} * (first), sizeof some); some; }})"
    lines = ["#if __has_builtin(__builtin_shufflevector)", f"#define {name}(a, ...) __builtin_shufflevector(a, a, __VA_ARGS__)"]
    return e.need(name, "\n".join([*lines, "#else", f"#define {name}(a, first, ...) {copied}", "#endif"]))


def fma(e: CFamilyEmitter, form: DType, width: int) -> str:
    """a · b + c with one rounding."""
    v, name = e.type(form, width), f"fma_{e.type(form, width)}"
    arm = _ARM_FMA.get((form.size, form.size * width)) if form.size * width <= e.target.vector_bytes else None
    gcc = _x86(e, "vfmadd", form, width, "a, b, c", "a, b, c") if e.target.arch == "x86_64" else arm
    one = f"__builtin_fma{'f' if form is float32 else ''}(a[i], b[i], c[i])"
    body = _elementwise("__builtin_elementwise_fma", "a, b, c", gcc, one, v, width)
    return _define(e, name, f"{v} {name}({v} a, {v} b, {v} c)", *body)


def converted(e: CFamilyEmitter, x: str, src: DType, dst: DType, width: int) -> str:
    """The same numbers as another type. gcc takes vectors of integers apart where elements change their size, so it gets instructions."""
    short, size = sorted((width * src.size, width * dst.size))
    plain, features = f"__builtin_convertvector({x}, {e.type(dst, width)})", e.target.features
    whole = size in (16, 32, 64) and size <= e.target.vector_bytes and e.target.arch == "x86_64" and "sse41" in features
    if src.is_float or dst.is_float or short == size or not whole:
        return plain
    v, u = e.type(dst, width), e.type(src, width)
    (a, _, given), (b, _, found) = _X86_INTEGERS[src.size], _X86_INTEGERS[dst.size]
    name, longer, grows, full = f"{v}_from_{u}", max(16, short), src.size < dst.size, ", (results){0}, -1"
    if grows:
        masked = f"_mask(in{full})" if size == 64 else "(in)"
        call = f"__builtin_ia32_pmov{'z' if src.kind == 'u' else 's'}x{a}{b}{8 * size}{masked}"
    elif "avx512" in features:
        call = f"__builtin_ia32_pmov{a}{b}{8 * size}_mask(in{full})"
    else:
        longer, step = size, src.size // dst.size
        call = f"__builtin_shuffle((results)in, (results){{{', '.join(str(i % width * step) for i in range(size // dst.size))}}})"
    sizes = (longer, size) if grows else (size, longer)
    body = [
        *(
            f"typedef {t} {n} __attribute__((vector_size({z})));"
            for t, n, z in zip((given, found), ("givens", "results"), sizes, strict=True)
        ),
        f"{v} y;",
        "givens in = {0};",
        "__builtin_memcpy(&in, &x, sizeof x);",
        f"results all = {call};",
        "__builtin_memcpy(&y, &all, sizeof y);",
        "return y;",
    ]
    clang = f"return __builtin_convertvector(x, {v});"
    return f"{_define(e, name, f'{v} {name}({u} x)', '#ifdef __clang__', clang, '#else', *body, '#endif')}({x})"


def half(e: CFamilyEmitter, way: str, width: int) -> str:
    """float16 widened to float32, or narrowed from it, by F16C's instructions; clang finds no builtins for them that it shares with gcc."""
    u, f = e.type(uint16, width), e.type(float32, width)
    out, given = (f, u) if way == "widen" else (u, f)
    lanes, name = max(4, width), f"{way}_float16_{f}"
    full = ", (floats){0}, -1, 4" if way == "widen" else ", 0, (bits){0}, -1"
    end = {4: "", 8: "256", 16: "512_mask"}[lanes]
    convert = (
        f"__builtin_ia32_vcvt{'ph2ps' if way == 'widen' else 'ps2ph'}{end}(in{full if lanes == 16 else '' if way == 'widen' else ', 0'})"
    )
    body = [
        f"typedef short bits __attribute__((vector_size({2 * max(8, width)})));",
        f"typedef float floats __attribute__((vector_size({4 * lanes})));",
        f"{out} y;",
        f"{'bits' if way == 'widen' else 'floats'} in = {{0}};",
        "__builtin_memcpy(&in, &x, sizeof x);",
        f"{'floats' if way == 'widen' else 'bits'} all = {convert};",
        "__builtin_memcpy(&y, &all, sizeof y);",
        "return y;",
    ]
    return _define(e, name, f"{out} {name}({given} x)", "#ifdef __clang__", *plain(e, way, "float16", width), "#else", *body, "#endif")


def square_root(e: CFamilyEmitter, form: DType, width: int) -> str:
    """Correctly rounded square roots."""
    v, name = e.type(form, width), f"sqrt_{e.type(form, width)}"
    gcc = _x86(e, "sqrt", form, width, "a", "a, a")
    body = _elementwise("__builtin_elementwise_sqrt", "a", gcc, f"__builtin_sqrt{'f' if form is float32 else ''}(a[i])", v, width)
    return _define(e, name, f"{v} {name}({v} a)", *body)


def scale2(e: CFamilyEmitter, form: DType, width: int) -> str:
    """a · 2^b by AVX-512's instruction, which takes 16, 32 or 64 bytes."""
    v, size = e.type(form, width), width * form.size
    whole = min(64, max(16, size))
    name, r = f"scale2_{v}", e.type(form, whole // form.size)
    what = f"__builtin_ia32_scalef{'ps' if form is float32 else 'pd'}{8 * whole}_mask(x, y, x, -1{', 4' if whole == 64 else ''})"
    if size == whole:
        return _define(e, name, f"{v} {name}({v} x, {v} y)", f"return {what};")
    step = min(size, whole) // form.size
    return _define(
        e, name, f"{v} {name}({v} a, {v} b)",
        f"for (int i = 0; i < {width}; i += {step}) {{",
        f"    {r} x = {{0}}, y = {{0}};",
        f"    __builtin_memcpy(&x, (char *)&a + {form.size} * i, {step * form.size});",
        f"    __builtin_memcpy(&y, (char *)&b + {form.size} * i, {step * form.size});",
        f"    x = {what};",
        f"    __builtin_memcpy((char *)&a + {form.size} * i, &x, {step * form.size});",
        "}",
        "return a;",
    )  # fmt: skip


def root_guess(e: CFamilyEmitter, width: int) -> str:
    """rsqrtps, or AVX-512's vrsqrt14ps."""
    v, whole = e.type(float32, width), min(e.target.vector_bytes // 4, max(4, 1 << (width - 1).bit_length()))
    r = e.type(float32, whole)
    if "avx512" in e.target.features:
        what = f"__builtin_ia32_rsqrt14ps{32 * whole}_mask(x, x, -1)"
    else:
        what = f"__builtin_ia32_rsqrtps{'256' if whole == 8 else ''}(x)"
    return _define(
        e, f"root_guess_{v}", f"{v} root_guess_{v}({v} a)",
        f"for (int i = 0; i < {width}; i += {whole}) {{",
        f"    int n = 4 * ({width} - i < {whole} ? {width} - i : {whole});",
        f"    {r} x = {{0}};",
        "    __builtin_memcpy(&x, (char *)&a + 4 * i, n);",
        f"    x = {what};",
        "    __builtin_memcpy((char *)&a + 4 * i, &x, n);",
        "}",
        "return a;",
    )  # fmt: skip


def _x86(e: CFamilyEmitter, name: str, form: DType, width: int, args: str, masked: str) -> str | None:
    """A call of gcc's builtin for an instruction on vectors of floats; `masked`: the first arguments of AVX-512's form. None where the
    target has no vectors of the size."""
    size, kind = form.size * width, "ps" if form.size == 4 else "pd"
    if e.target.arch != "x86_64" or size not in (16, 32, 64) or size > e.target.vector_bytes:
        return None
    if size < 64:
        return f"__builtin_ia32_{name}{kind}{'256' if size == 32 else ''}({args})"
    return f"__builtin_ia32_{'rndscale' + kind if name == 'round' else name + kind + '512'}_mask({masked}, -1, 4)"


def _elementwise(clang: str, args: str, gcc: str | None, one: str, v: str, width: int) -> list[str]:
    """The lines of a function: clang's builtin of any vector, gcc's of one size, which clang before 17 has for some, or element by element:
    what clang makes of that can be a hundred times slower."""
    lines = [f"#if __has_builtin({clang})", f"return {clang}({args});"]
    lines += [f"#elif !defined(__clang__) || __has_builtin({gcc.split('(')[0]})", f"return {gcc};"] if gcc else []
    return [*lines, "#else", f"{v} out = a;", f"for (int i = 0; i < {width}; i += 1) out[i] = {one};", "return out;", "#endif"]


def extreme(e: CFamilyEmitter, op: str, form: DType, width: int, quick: bool = False) -> str:
    """max or min that keep NaN; `quick`: `b` where either operand is one."""
    v = e.type(form, width)
    name, sign, choose = f"{op}{'_or_b' if quick else ''}_{v}", ">" if op == "max" else "<", select(e, form, width)
    plain = f"return {choose}({f'a {sign} b' if quick else f'(a {sign} b) | (a != a)'}, a, b);"
    one = _x86(e, op, form, width, "a, b", "a, b, a")  # (the instruction gives b where there is a NaN)
    if one is None:
        return _define(e, name, f"{v} {name}({v} a, {v} b)", plain)
    best = f"return {one};" if quick else f"return {choose}(a != a, a, {one});"
    return _define(e, name, f"{v} {name}({v} a, {v} b)", "#ifdef __clang__", plain, "#else", best, "#endif")


def whole(e: CFamilyEmitter, op: str, form: DType, width: int) -> str:
    """floor or round to nearest even. Adding and taking away 2**(mantissa bits) rounds, as long as |x| is below that; larger x are
    whole already."""
    v, u = e.type(form, width), unsigned(form)
    how = 9 if op == "floor" else 8
    found = _x86(e, "round", form, width, f"x, {how}", f"x, {how}, x") if "sse41" in e.target.features else None
    if found is not None:
        return _define(e, f"{op}_{v}", f"{v} {op}_{v}({v} x)", f"return {found};")
    name, t, magic = f"{op}_{v}", e.type(u, width), "0x1p+23f" if form is float32 else "0x1p+52"
    top = 1 << (8 * form.size - 1)
    sign, rest = e.literal(top, u), e.literal(top - 1, u)

    plain = e.reinterpret("x", form, u, width)

    def signed(x: str) -> str:
        return e.reinterpret(f"({e.reinterpret(x, form, u, width)} & {rest}) | sign", u, form, width)

    body = [
        f"{t} sign = {plain} & {sign};",
        f"{v} size = {e.reinterpret(f'{plain} & {rest}', u, form, width)};",
        f"{v} near = (size + {magic}) - {magic};",
        f"{v} whole = {e.select(f'size < {magic}', signed('near'), 'x', form, width)};",
    ]
    if op == "floor":
        lower = e.select("whole > x", f"(whole - {e.literal(1.0, form)})", "whole", form, width)
        body += [f"{v} lower = {lower};", f"return {e.select('x == x', signed('lower'), 'x', form, width)};"]
    else:
        body.append("return whole;")
    return _define(e, name, f"{v} {name}({v} x)", *body)


def load_masked(e: CFamilyEmitter, form: DType, width: int) -> str:
    """Elements where the mask holds, else 0; the others are not touched."""
    v, m, s, i = e.type(form, width), e.type(MASKS[form.size], width), e.type(form), e.type(MASKS[form.size])
    name = f"load_masked_{v}"
    body = [
        f"{s} x[{width}];",
        f"{i} on[{width}];",
        f"{v} out;",
        "__builtin_memcpy(on, &mask, sizeof on);",
        f"for (int i = 0; i < {width}; i += 1) x[i] = on[i] ? p[i] : 0;",
        "__builtin_memcpy(&out, x, sizeof out);",
        "return out;",
    ]
    found = _masked_access(e, form, width)
    if found is not None:
        body = [found.whole, f"return ({v}){found.load};"]
    return _define(e, name, f"{v} {name}(const {s} *p, {m} mask)", *body)


def store_masked(e: CFamilyEmitter, form: DType, width: int) -> str:
    """Write elements where the mask holds."""
    v, m, s, i = e.type(form, width), e.type(MASKS[form.size], width), e.type(form), e.type(MASKS[form.size])
    name = f"store_masked_{v}"
    body = [
        f"{s} x[{width}];",
        f"{i} on[{width}];",
        "__builtin_memcpy(x, &value, sizeof x);",
        "__builtin_memcpy(on, &mask, sizeof on);",
        f"for (int i = 0; i < {width}; i += 1) if (on[i]) p[i] = x[i];",
    ]
    found = _masked_access(e, form, width)
    if found is not None:
        body = [found.whole, f"{found.store};"]
    return _define(e, name, f"void {name}({s} *p, {v} value, {m} mask)", *body)


def extreme_integer(e: CFamilyEmitter, op: str, form: DType, width: int) -> str:
    """The larger ('max') or smaller of integers. (gcc makes three operations of a choice where the instruction is one.)"""
    v, sign, choose, size = e.type(form, width), ">" if op == "max" else "<", select(e, form, width), form.size * width
    plain = f"return {choose}(a {sign} b, a, b);"
    has = {16: "sse41", 32: "avx2", 64: "avx512"}.get(size, "")
    name = f"{op}_{v}"
    if e.target.arch != "x86_64" or has not in e.target.features or form.size == 8 or size > e.target.vector_bytes:
        return _define(e, name, f"{v} {name}({v} a, {v} b)", plain)
    letter, _, c = _X86_INTEGERS[form.size]
    builtin = f"__builtin_ia32_p{op}{'u' if form.kind == 'u' else 's'}{letter}{8 * size}"
    full = f"{builtin}_mask((whole)a, (whole)b, (whole)a, -1)" if size == 64 else f"{builtin}((whole)a, (whole)b)"
    quick = [f"typedef {c} whole __attribute__((vector_size({size})));", f"return ({v}){full};"]
    return _define(e, name, f"{v} {name}({v} a, {v} b)", "#ifdef __clang__", plain, "#else", *quick, "#endif")


class _Masked(NamedTuple):
    """A masked access by an instruction: the declaration of its type, `whole`, and the calls."""

    whole: str
    load: str
    store: str


_X86_INTEGERS = {1: ("b", "qi", "char"), 2: ("w", "hi", "short"), 4: ("d", "si", "int"), 8: ("q", "di", "long long")}
"""What builtins call integers of so many bytes: as masks, as elements, and in C."""


def _masked_access(e: CFamilyEmitter, form: DType, width: int) -> _Masked | None:
    """Names of builtins that gcc and clang share. None where the target has no such instruction."""
    size, features = form.size * width, e.target.features
    letter, mode, c = _X86_INTEGERS[form.size]
    declared = f"typedef {c} whole __attribute__((vector_size({size})));"
    if e.target.arch != "x86_64" or size not in (16, 32, 64) or size > e.target.vector_bytes:
        return None
    if "avx512" in features:
        on, bits = f"__builtin_ia32_cvt{letter}2mask{8 * size}((whole)mask)", 8 * size
        load = f"__builtin_ia32_loaddqu{mode}{bits}_mask((const void *)p, (whole){{0}}, {on})"
        return _Masked(declared, load, f"__builtin_ia32_storedqu{mode}{bits}_mask((void *)p, (whole)value, {on})")
    if "avx2" in features and form.size >= 4:
        end = f"{letter}{'256' if size == 32 else ''}"
        load = f"__builtin_ia32_maskload{end}((const void *)p, (whole)mask)"
        return _Masked(declared, load, f"__builtin_ia32_maskstore{end}((void *)p, (whole)mask, (whole)value)")
    return None


def store_streaming(e: CFamilyEmitter, form: DType, width: int, place: str) -> str:
    """A store past the caches to an aligned address; `place` is the type of a vector as it lies in memory."""
    v, size = e.type(form, width), form.size * width
    name = f"store_streaming_{v}"
    body = ["#if __has_builtin(__builtin_nontemporal_store)", f"__builtin_nontemporal_store(x, ({v} *)p);"]
    if e.target.arch == "x86_64" and size in _X86_STREAM and size <= e.target.vector_bytes:
        q = f"long long __attribute__((vector_size({size}), may_alias))"
        body += ["#elif !defined(__clang__)", f"typedef {q} quads;", f"{_X86_STREAM[size]}((quads *)p, (quads)x);"]
    return _define(e, name, f"void {name}({e.type(form)} *p, {v} x)", *body, "#else", f"*({place} *)p = x;", "#endif")


def dot(e: CFamilyEmitter, row: Instruction, lanes: int) -> str:
    """A row of `targets.instructions`: `a` has so many lanes, those of one word, which is in every lane, or those of `b`."""
    e.need("immintrin", "#include <immintrin.h>")
    bits = 8 * row.n * row.c.size
    whole = f"__m{bits}i"
    acc, operand = f"__m{bits}" if row.c.is_float else whole, f"__m{bits}bh" if row.a.is_float else whole
    c, a, b = (e.type(form(d), n) for d, n in ((row.c, row.n), (row.a, lanes), (row.b, row.n * row.k)))
    name, left, read = f"dot_{row.name}_{lanes}", f"({whole})a", []
    if lanes == row.k:
        left, read = (
            f"({whole}){splat(e, int32, bits // 32)}(word)",
            [f"{e.type(int32)} word;", "__builtin_memcpy(&word, &a, sizeof word);"],
        )
    if row.halves == 2:
        mm = f"_mm{bits if bits > 128 else ''}"
        logic = f"{mm}_and_si{bits}({left}, {mm}_set1_epi16(255))"
        return _define(
            e, name, f"{c} {name}({c} acc, {a} a, {b} b)",
            *read,
            f"{whole} even = {row.call}({logic}, {mm}_srai_epi16({mm}_slli_epi16(({whole})b, 8), 8));",
            f"{whole} odd = {row.call}({mm}_srli_epi16({left}, 8), {mm}_srai_epi16(({whole})b, 8));",
            f"return ({c}){mm}_add_epi32({mm}_add_epi32(({whole})acc, even), odd);",
        )  # fmt: skip
    return _define(
        e, name, f"{c} {name}({c} acc, {a} a, {b} b)",
        *read,
        f"return ({c}){row.call}(({acc})acc, ({operand}){left}, ({operand})b);",
    )  # fmt: skip
