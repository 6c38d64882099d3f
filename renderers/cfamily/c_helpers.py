"""Functions that C kernels call, written out where one is used: what GCC's vectors have no operator for."""

from __future__ import annotations

from ...ir.dtypes import DType, float32, int32
from ...targets.instructions import Instruction
from .c_emitter import CFamilyEmitter
from .c_types import MASKS, form, unsigned

_X86_FMA = {
    (4, 16): "__builtin_ia32_vfmaddps(a, b, c)",
    (4, 32): "__builtin_ia32_vfmaddps256(a, b, c)",
    (4, 64): "__builtin_ia32_vfmaddps512_mask(a, b, c, -1, 4)",
    (8, 16): "__builtin_ia32_vfmaddpd(a, b, c)",
    (8, 32): "__builtin_ia32_vfmaddpd256(a, b, c)",
    (8, 64): "__builtin_ia32_vfmaddpd512_mask(a, b, c, -1, 4)",
}
_X86_SQRT = {
    (4, 16): "__builtin_ia32_sqrtps(a)",
    (4, 32): "__builtin_ia32_sqrtps256(a)",
    (4, 64): "__builtin_ia32_sqrtps512_mask(a, a, -1, 4)",
    (8, 16): "__builtin_ia32_sqrtpd(a)",
    (8, 32): "__builtin_ia32_sqrtpd256(a)",
    (8, 64): "__builtin_ia32_sqrtpd512_mask(a, a, -1, 4)",
}
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


def fma(e: CFamilyEmitter, form: DType, width: int) -> str:
    """a · b + c with one rounding."""
    v, name = e.type(form, width), f"fma_{e.type(form, width)}"
    gcc = _builtin(e, _X86_FMA if e.target.arch == "x86_64" else _ARM_FMA, form, width)
    one = f"__builtin_fma{'f' if form is float32 else ''}(a[i], b[i], c[i])"
    body = _elementwise("__builtin_elementwise_fma", "a, b, c", gcc, one, v, width)
    return _define(e, name, f"{v} {name}({v} a, {v} b, {v} c)", *body)


def square_root(e: CFamilyEmitter, form: DType, width: int) -> str:
    """Correctly rounded square roots."""
    v, name = e.type(form, width), f"sqrt_{e.type(form, width)}"
    gcc = _builtin(e, _X86_SQRT, form, width) if e.target.arch == "x86_64" else None
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


def _builtin(e: CFamilyEmitter, table: dict[tuple[int, int], str], form: DType, width: int) -> str | None:
    """gcc's name of an instruction on vectors of a size that the target has."""
    size = form.size * width
    return table.get((form.size, size)) if size <= e.target.vector_bytes else None


def _elementwise(clang: str, args: str, gcc: str | None, one: str, v: str, width: int) -> list[str]:
    """The lines of a function: clang's builtin of any vector, gcc's of one size, or element by element."""
    lines = [f"#if __has_builtin({clang})", f"return {clang}({args});"]
    lines += ["#elif !defined(__clang__)", f"return {gcc};"] if gcc else []
    return [*lines, "#else", f"{v} out = a;", f"for (int i = 0; i < {width}; i += 1) out[i] = {one};", "return out;", "#endif"]


def extreme(e: CFamilyEmitter, op: str, form: DType, width: int) -> str:
    """max or min that keep NaN."""
    v, name = e.type(form, width), f"{op}_{e.type(form, width)}"
    sign = ">" if op == "max" else "<"
    return _define(e, name, f"{v} {name}({v} a, {v} b)", f"return {select(e, form, width)}((a {sign} b) | (a != a), a, b);")


def whole(e: CFamilyEmitter, op: str, form: DType, width: int) -> str:
    """floor or round to nearest even. Adding and taking away 2**(mantissa bits) rounds, as long as |x| is below that; larger x are
    whole already."""
    v, u = e.type(form, width), unsigned(form)
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
    return _define(
        e, name, f"{v} {name}(const {s} *p, {m} mask)",
        f"{s} x[{width}];",
        f"{i} on[{width}];",
        f"{v} out;",
        "__builtin_memcpy(on, &mask, sizeof on);",
        f"for (int i = 0; i < {width}; i += 1) x[i] = on[i] ? p[i] : 0;",
        "__builtin_memcpy(&out, x, sizeof out);",
        "return out;",
    )  # fmt: skip


def store_masked(e: CFamilyEmitter, form: DType, width: int) -> str:
    """Write elements where the mask holds."""
    v, m, s, i = e.type(form, width), e.type(MASKS[form.size], width), e.type(form), e.type(MASKS[form.size])
    name = f"store_masked_{v}"
    return _define(
        e, name, f"void {name}({s} *p, {v} value, {m} mask)",
        f"{s} x[{width}];",
        f"{i} on[{width}];",
        "__builtin_memcpy(x, &value, sizeof x);",
        "__builtin_memcpy(on, &mask, sizeof on);",
        f"for (int i = 0; i < {width}; i += 1) if (on[i]) p[i] = x[i];",
    )  # fmt: skip


def store_streaming(e: CFamilyEmitter, form: DType, width: int, place: str) -> str:
    """A store past the caches to an aligned address; `place` is the type of a vector as it lies in memory."""
    v, size = e.type(form, width), form.size * width
    name = f"store_streaming_{v}"
    body = ["#if __has_builtin(__builtin_nontemporal_store)", f"__builtin_nontemporal_store(x, ({v} *)p);"]
    if e.target.arch == "x86_64" and size in _X86_STREAM and size <= e.target.vector_bytes:
        q = f"long long __attribute__((vector_size({size}), may_alias))"
        body += ["#elif !defined(__clang__)", f"typedef {q} quads;", f"{_X86_STREAM[size]}((quads *)p, (quads)x);"]
    return _define(e, name, f"void {name}({e.type(form)} *p, {v} x)", *body, "#else", f"*({place} *)p = x;", "#endif")


def dot(e: CFamilyEmitter, row: Instruction) -> str:
    """A row of `targets.instructions`: `a` is one word, in every lane."""
    e.need("immintrin", "#include <immintrin.h>")
    bits = 8 * row.n * row.c.size
    whole = f"__m{bits}i"
    acc, operand = f"__m{bits}" if row.c.is_float else whole, f"__m{bits}bh" if row.a.is_float else whole
    c, a, b = (e.type(form(d), n) for d, n in ((row.c, row.n), (row.a, row.k), (row.b, row.n * row.k)))
    word, name = splat(e, int32, bits // 32), f"dot_{row.name}"
    if row.halves == 2:
        mm = f"_mm{bits if bits > 128 else ''}"
        logic = f"{mm}_and_si{bits}(({whole}){word}(word), {mm}_set1_epi16(255))"
        return _define(
            e, name, f"{c} {name}({c} acc, {a} a, {b} b)",
            f"{e.type(int32)} word;",
            "__builtin_memcpy(&word, &a, sizeof word);",
            f"{whole} even = {row.call}({logic}, {mm}_srai_epi16({mm}_slli_epi16(({whole})b, 8), 8));",
            f"{whole} odd = {row.call}({mm}_srli_epi16(({whole}){word}(word), 8), {mm}_srai_epi16(({whole})b, 8));",
            f"return ({c}){mm}_add_epi32({mm}_add_epi32(({whole})acc, even), odd);",
        )  # fmt: skip
    return _define(
        e, name, f"{c} {name}({c} acc, {a} a, {b} b)",
        f"{e.type(int32)} word;",
        "__builtin_memcpy(&word, &a, sizeof word);",
        f"return ({c}){row.call}(({acc})acc, ({operand}){word}(word), ({operand})b);",
    )  # fmt: skip
