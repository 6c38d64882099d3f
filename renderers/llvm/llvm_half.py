"""Conversions of the storage types, written so that no target needs a runtime function.

float16 uses the target's instructions where there are some (F16C, NEON), else integer arithmetic after F. Giesen, "Float to half
done quick" (2012). bfloat16 is the upper half of a float32: a shift, and rounding to nearest even by carrying into bit 16.
The 8-bit floats are converted as float16 is."""

from __future__ import annotations

from ...ir.dtypes import FORMATS, FloatFormat
from .llvm_emitter import LlvmEmitter, splat, vector


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
