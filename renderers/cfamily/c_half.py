"""Conversions of the storage types in C-like languages, in integer code unless the language has an instruction for it.

The arithmetic is that of `renderers.llvm.llvm_half`: float16 after F. Giesen, "Float to half done quick" (2012); bfloat16 is the upper half of a
float32; the 8-bit floats are converted as float16 is. A conversion is a function of a vector, so that kernels stay short."""

from __future__ import annotations

import math

from ...ir.dtypes import FORMATS, DType, dtype, float32, float64, int32, int64, uint32
from .c_emitter import CFamilyEmitter
from .c_types import form


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
