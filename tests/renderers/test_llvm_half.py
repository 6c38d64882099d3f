"""float16 and bfloat16: every value widens exactly, rounding is to nearest even, and no runtime function is called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import run_text
from cuda_build import needs_nvrtc
from flushed import flushed
from hand_built import DISTINCT, apply, compile_for, elementwise, object_for, undefined
from tilewright import targets
from tilewright.devices.cuda import nvrtc
from tilewright.interp import run as run_interpreted
from tilewright.ir import dtypes
from tilewright.ir.dtypes import FORMATS, dtype
from tilewright.renderers import render
from tilewright.renderers.llvm.llvm_emitter import literal
from tilewright.targets import Target

HALVES = {"float16": np.dtype("float16"), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
half = pytest.mark.parametrize("name", HALVES)
lanes = pytest.mark.parametrize("lanes", [1, 16])
HOST = targets.host()
NO_F16C = replace(HOST, features=HOST.features - {"f16c", "avx2", "avx512", "avx512vnni", "avx512bf16", "avx512popcnt"})
target = pytest.mark.parametrize("target", [HOST, NO_F16C], ids=["host", "integers only"])
EVERY = np.arange(1 << 16, dtype=np.uint16)


def widened(name: str) -> np.ndarray:
    return EVERY.view(HALVES[name]).astype("float32")


def hard(name: str) -> np.ndarray:
    """float32 values at, just below and just above every tie between neighbours, beyond the largest, and subnormal."""
    exact = widened(name)
    exact = exact[np.isfinite(exact)].astype("float64")
    ordered = np.unique(exact)
    ties = (ordered[1:] + ordered[:-1]) / 2
    around = ties.astype("float32")
    every = [
        around,
        np.nextafter(around, np.float32(-np.inf)),
        np.nextafter(around, np.float32(np.inf)),
        [np.inf, -np.inf, np.nan, 1e-45, 65519.9, 65520, 3.4e38, 3.395e38],
    ]
    return np.concatenate(every).astype("float32")


def rounded(x: np.ndarray, name: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        return x.astype(HALVES[name])


def agree(got: np.ndarray, want: np.ndarray) -> None:
    nan = np.isnan(want.astype("float32"))
    assert np.isnan(got.astype("float32"))[nan].all()
    np.testing.assert_array_equal(got.view("uint16")[~nan], want.view("uint16")[~nan])


@half
@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
@target
@pytest.mark.covering(pairs=True)
def test_widening_is_exact(name: str, lanes: int, target: Target) -> None:
    got = apply(lambda b, x: b.op("cast", x, dtype=dtypes.float32), [EVERY.view(HALVES[name])], "float32", lanes, target)
    want = widened(name)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
@target
@pytest.mark.covering
def test_widening_is_exact_where_subnormals_count_as_0(lanes: int, target: Target) -> None:
    halves = EVERY.view(HALVES["float16"])
    with flushed():
        assert np.float32(1e-40) * np.float32(1.0) == 0
        got = apply(lambda b, x: b.op("cast", x, dtype=dtypes.float32), [halves], "float32", lanes, target)
    np.testing.assert_array_equal(got, widened("float16"))


@pytest.mark.parametrize(("level", "lanes"), [("x86-64-v2", 4), ("x86-64-v3", 8)])
def test_bfloat16_is_widened_by_one_instruction(level: str, lanes: int) -> None:
    t = targets.named(level)
    program = elementwise(["bfloat16"], "float32", lanes, 64, lambda b, x: b.op("cast", x, dtype=dtypes.float32))
    text, _ = compile_for(t, render(program, t))
    assert ("vpshufb" if lanes == 8 else "punpcklwd") in text and "pslld" not in text


@half
@lanes
@target
@pytest.mark.covering
def test_narrowing_rounds_to_nearest_even(name: str, lanes: int, target: Target) -> None:
    x = hard(name)
    agree(apply(lambda b, v: b.op("cast", v, dtype=dtypes.dtype(name)), [x], name, lanes, target), rounded(x, name))


@half
@lanes
@target
@pytest.mark.covering
def test_float64_is_rounded_once(name: str, lanes: int, target: Target) -> None:
    exact = widened(name)
    ordered = np.unique(exact[np.isfinite(exact)].astype("float64"))
    ties = (ordered[1:] + ordered[:-1]) / 2
    x = np.concatenate([ties, ties * (1 + 2.0**-40), ties * (1 - 2.0**-40), [np.inf, -np.inf, np.nan, 1e300, -1e-300, 0.0]])
    # the nearest of the two neighbours, found in float64; above a tie is above whatever float32 would make of it
    got = apply(lambda b, v: b.op("cast", v, dtype=dtypes.dtype(name)), [x], name, lanes, target)
    at = np.clip(np.searchsorted(ordered, x), 1, len(ordered) - 1)
    low, high = ordered[at - 1], ordered[at]
    inside = np.isfinite(x) & (np.abs(x) < ordered[-1])
    nearest = np.where(x - low < high - x, low, np.where(x - low > high - x, high, np.nan))
    clear = inside & ~np.isnan(nearest)
    np.testing.assert_array_equal(got.astype("float64")[clear], nearest[clear])
    ties_here = inside & np.isnan(nearest)
    even = got.view("uint16")[ties_here] & 1
    assert ties_here.sum() > 1000 and not even.any()
    assert np.isnan(got[np.isnan(x)].astype("float32")).all() and np.isinf(got.astype("float32")[np.isinf(x)]).all()


@half
def test_integers_and_bools(name: str) -> None:
    n = np.arange(-2048, 2048).astype("int32")
    agree(apply(lambda b, v: b.op("cast", v, dtype=dtypes.dtype(name)), [n], name), rounded(n.astype("float32"), name))
    back = apply(lambda b, v: b.op("cast", v, dtype=dtypes.int32), [rounded(n.astype("float32"), name)], "int32")
    np.testing.assert_array_equal(back, rounded(n.astype("float32"), name).astype("float32").astype("int32"))


@half
def test_constants_are_rounded_once(name: str) -> None:
    with np.errstate(all="ignore"):
        for x in [*hard(name)[::97].astype("float64"), 0.0, -0.0, 1e300, -1e300, 1e-300, 1 + 2.0**-8 + 2.0**-40]:
            if np.isnan(x):
                continue
            if name == "bfloat16":  # NumPy goes through float32; that is one rounding for these samples but the last
                want = int(np.float32(x).astype(ml_dtypes.bfloat16).view("int16")) if x != 1 + 2.0**-8 + 2.0**-40 else 0x3F81
            else:
                want = int(np.float64(x).astype("float16").view("int16"))
            assert int(literal(x, dtypes.dtype(name))) == want, x


@pytest.mark.many
@half
@pytest.mark.parametrize("t", DISTINCT, ids=lambda t: t.name)
@pytest.mark.covering
def test_no_target_needs_a_runtime_function(name: str, t: Target) -> None:
    for wide in ("float32", "float64"):
        for n in (1, 16):
            there = elementwise([wide], name, n, 64, lambda b, x: b.op("cast", x, dtype=dtypes.dtype(name)))
            back = elementwise([name], wide, n, 64, lambda b, x, wide=wide: b.op("cast", x, dtype=dtypes.dtype(wide)))
            for program in (there, back):
                assert undefined(object_for(t, render(program, t))) == []


def test_f16c_is_used() -> None:
    t = targets.named("avx2")
    program = elementwise(["float16"], "float32", 8, 64, lambda b, x: b.op("cast", x, dtype=dtypes.float32))
    assembly = compile_for(t, render(program, t))[0]
    assert "vcvtph2ps\t(" in assembly, "the load is part of the conversion"


# 8-bit floats in every language and in the interpreter: all 256 values widen exactly, and rounding is to nearest
# even.


TYPES = {"float8_e4m3": np.dtype(ml_dtypes.float8_e4m3fn), "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2)}
EVERY_FLOAT8 = np.arange(256, dtype=np.uint8)
NO_F16C_FLOAT8 = replace(
    targets.host(), features=targets.host().features - {"f16c", "avx2", "avx512", "avx512vnni", "avx512bf16", "avx512popcnt"}
)


def _llvm(target: targets.Target) -> Callable[[Any, str, int], Any]:
    return lambda x, to, lanes: apply(lambda b, v: b.op("cast", v, dtype=dtype(to)), [x], to, lanes, target)


def _text(lang: str) -> Callable[[Any, str, int], Any]:
    run = {"c": run_text.c, "opencl": run_text.opencl, "cuda": run_text.cuda, "interpreter": lambda p, a: run_interpreted(p, a)}[lang]

    def convert(x: Any, to: str, lanes: int) -> Any:
        y = np.zeros(len(x), dtype(to).np)
        run(elementwise([dtype(str(x.dtype)).name], to, lanes, len(x), lambda b, v: b.op("cast", v, dtype=dtype(to))), [x, y])
        return y

    return convert


WAYS = {
    "llvm": _llvm(targets.host()),
    "llvm without F16C": _llvm(NO_F16C_FLOAT8),
    **{x: _text(x) for x in ("c", "opencl", "cuda", "interpreter")},
}
way = pytest.mark.parametrize("way", WAYS)
kind = pytest.mark.parametrize("name", TYPES)


def exact(name: str) -> Any:
    """The finite numbers in order."""
    x = EVERY_FLOAT8.view(TYPES[name]).astype("float64")
    return np.unique(x[np.isfinite(x)])


def padded(x: Any) -> Any:
    return np.concatenate([x, np.zeros(-len(x) % 16, x.dtype)])


def same(got: Any, want: Any) -> None:
    nan = np.isnan(want.astype("float32"))
    assert np.isnan(got.astype("float32"))[nan].all()
    np.testing.assert_array_equal(got.view(f"u{got.itemsize}")[~nan], want.view(f"u{want.itemsize}")[~nan])


@kind
@pytest.mark.parametrize("way", ["llvm", "llvm without F16C"])
def test_widening_is_exact_where_subnormals_count_as_0_in_float8(way: str, name: str) -> None:
    x = EVERY_FLOAT8.view(TYPES[name])
    with flushed():
        got = WAYS[way](x, "float32", 8)
    same(got, x.astype("float32"))


@kind
def test_the_format_is_ml_dtypes(name: str) -> None:
    """Constants are rounded once, and limits are where ml_dtypes has them."""
    f, info = FORMATS[name], ml_dtypes.finfo(TYPES[name])
    assert (dtype(name).eps, f.least) == (float(info.eps), float(info.smallest_subnormal))
    x = np.concatenate([exact(name), (exact(name)[1:] + exact(name)[:-1]) / 2, [f.limit, -f.limit, 1e30, -np.inf]]).astype("float32")
    with np.errstate(all="ignore"):
        want = x.astype(TYPES[name])
    got = np.array([int(literal(float(v), dtype(name))) for v in x]).astype(np.int8)
    same(got.view(TYPES[name]), want)
    assert int(literal(1.0 + dtype(name).eps / 2 + 1e-12, dtype(name))) == int(literal(1.0 + dtype(name).eps, dtype(name)))


@pytest.mark.slow
@way
@kind
@pytest.mark.covering
def test_widening_is_exact_in_float8(way: str, name: str) -> None:
    x = EVERY_FLOAT8.view(TYPES[name])
    for wide, lanes in (("float32", 1), ("float32", 16), ("float64", 4), ("bfloat16", 8)):
        same(WAYS[way](x, wide, lanes), x.astype(dtype(wide).np))


@pytest.mark.slow
@way
@kind
@pytest.mark.covering
def test_narrowing_rounds_to_nearest_even_in_float8(way: str, name: str) -> None:
    ties = ((exact(name)[1:] + exact(name)[:-1]) / 2).astype("float32")
    limit = np.float32(FORMATS[name].limit)
    around = [np.nextafter(limit, np.float32(0)), limit, np.nextafter(limit, np.float32(np.inf)), np.inf, np.nan, 3e38, 1e-45, 0.0]
    x = np.concatenate([exact(name), ties, np.nextafter(ties, np.float32(-np.inf)), np.nextafter(ties, np.float32(np.inf))])
    x = padded(np.concatenate([x, around, np.negative(around)]).astype("float32"))
    with np.errstate(all="ignore"):
        want = x.astype(TYPES[name])
    for lanes in (1, 8):
        same(WAYS[way](x, name, lanes), want)


@pytest.mark.slow
@way
@kind
@pytest.mark.covering
def test_other_types_are_rounded_once(way: str, name: str) -> None:
    """float64 a hair beside a tie, which float32 would call one; the other 8-bit float; integers."""
    ordered = exact(name)
    ties = (ordered[1:] + ordered[:-1]) / 2
    ties = ties[ties != 0]
    x = padded(np.concatenate([ties * (1 + 2.0**-40), ties * (1 - 2.0**-40)]))
    at = np.clip(np.searchsorted(ordered, x), 1, len(ordered) - 1)
    near = np.where(x - ordered[at - 1] < ordered[at] - x, ordered[at - 1], ordered[at])
    want = np.copysign(near, x).astype("float32").astype(TYPES[name])
    with np.errstate(all="ignore"):
        got = WAYS[way](x, name, 4)
        same(got[x != 0], want[x != 0])
        (other,) = [n for n in TYPES if n != name]
        y = EVERY_FLOAT8.view(TYPES[other])
        same(WAYS[way](y, name, 8), y.astype("float32").astype(TYPES[name]))
        n = np.arange(-512, 512, dtype=np.int32)
        same(WAYS[way](n, name, 4), n.astype("float32").astype(TYPES[name]))


@pytest.mark.slow
@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90a"])
@kind
def test_nvrtc_builds_the_conversions(arch: str, name: str) -> None:
    """From compute capability 8.9 on they are instructions, before that integer code."""
    texts = []
    for a, b in ((name, "float32"), ("float32", name)):
        program = elementwise([a], b, 4, 64, lambda p, v, b=b: p.op("cast", v, dtype=dtype(b)))
        texts.append(render(program, targets.named(arch)).text)
    log = "".join(nvrtc.compile(t, arch)[1] for t in texts)
    assert all(r.spill_stores == 0 for r in nvrtc.resources(log).values()) and all("cvt" in t for t in texts)
