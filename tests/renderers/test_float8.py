"""8-bit floats in every language and in the interpreter: all 256 values widen exactly, and rounding is to nearest even."""

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
from hand_built import apply, elementwise
from tilewright import targets
from tilewright.devices.cuda import nvrtc
from tilewright.interp import run as run_interpreted
from tilewright.ir.dtypes import FORMATS, dtype
from tilewright.renderers import render
from tilewright.renderers.llvm.llvm_emitter import literal

TYPES = {"float8_e4m3": np.dtype(ml_dtypes.float8_e4m3fn), "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2)}
EVERY = np.arange(256, dtype=np.uint8)
NO_F16C = replace(targets.host(), features=targets.host().features - {"f16c", "avx2", "avx512", "avx512vnni", "avx512bf16", "avx512popcnt"})


def _llvm(target: targets.Target) -> Callable[[Any, str, int], Any]:
    return lambda x, to, lanes: apply(lambda b, v: b.op("cast", v, dtype=dtype(to)), [x], to, lanes, target)


def _text(lang: str) -> Callable[[Any, str, int], Any]:
    run = {"c": run_text.c, "opencl": run_text.opencl, "cuda": run_text.cuda, "interpreter": lambda p, a: run_interpreted(p, a)}[lang]

    def convert(x: Any, to: str, lanes: int) -> Any:
        y = np.zeros(len(x), dtype(to).np)
        run(elementwise([dtype(str(x.dtype)).name], to, lanes, len(x), lambda b, v: b.op("cast", v, dtype=dtype(to))), [x, y])
        return y

    return convert


WAYS = {"llvm": _llvm(targets.host()), "llvm without F16C": _llvm(NO_F16C), **{x: _text(x) for x in ("c", "opencl", "cuda", "interpreter")}}
way = pytest.mark.parametrize("way", WAYS)
kind = pytest.mark.parametrize("name", TYPES)


def exact(name: str) -> Any:
    """The finite numbers in order."""
    x = EVERY.view(TYPES[name]).astype("float64")
    return np.unique(x[np.isfinite(x)])


def padded(x: Any) -> Any:
    return np.concatenate([x, np.zeros(-len(x) % 16, x.dtype)])


def same(got: Any, want: Any) -> None:
    nan = np.isnan(want.astype("float32"))
    assert np.isnan(got.astype("float32"))[nan].all()
    np.testing.assert_array_equal(got.view(f"u{got.itemsize}")[~nan], want.view(f"u{want.itemsize}")[~nan])


@kind
@pytest.mark.parametrize("way", ["llvm", "llvm without F16C"])
def test_widening_is_exact_where_subnormals_count_as_0(way: str, name: str) -> None:
    x = EVERY.view(TYPES[name])
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
def test_widening_is_exact(way: str, name: str) -> None:
    x = EVERY.view(TYPES[name])
    for wide, lanes in (("float32", 1), ("float32", 16), ("float64", 4), ("bfloat16", 8)):
        same(WAYS[way](x, wide, lanes), x.astype(dtype(wide).np))


@pytest.mark.slow
@way
@kind
@pytest.mark.covering
def test_narrowing_rounds_to_nearest_even(way: str, name: str) -> None:
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
        y = EVERY.view(TYPES[other])
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
