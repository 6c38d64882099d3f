"""scale2: NumPy's ldexp, the interpreter, LLVM's code and C agree in every bit; targets without the instruction refuse it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import run_text
from hand_built import compile_for, elementwise, run
from tilewright import interp, targets
from tilewright.ir import BuildError
from tilewright.program.program import Program
from tilewright.program.text import show
from tilewright.renderers import render

HERE = "avx512" in targets.host().features
type_ = pytest.mark.parametrize("name", ["float32", "float64"])
LANES = (1, 2, 3, 4, 8, 13, 16, 24, 40)


def program(name: str, lanes: int, items: int) -> Program:
    return elementwise([name, name], name, lanes, lanes * items, lambda b, x, n: b.op("scale2", x, n))


def operands(name: str, n: int) -> tuple[Any, Any]:
    """Numbers of every magnitude with powers that overflow, underflow, and end among the subnormals; specials."""
    rng, info = np.random.default_rng(3), np.finfo(name)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, info.max, info.tiny, info.smallest_subnormal, 1.5, -1.0], name)
    span = 2 * info.maxexp
    a = np.concatenate([np.repeat(special, 10), np.ldexp(rng.uniform(-2, 2, n), rng.integers(info.minexp, info.maxexp, n)).astype(name)])
    powers = np.array([0, 1, -1, -span, span, info.minexp - 5, -3.0e9, 3.0e9, np.nan, 2], name)
    b = np.concatenate([np.tile(powers, 10), rng.integers(-span, span, n).astype(name)])
    b[:20] = np.where(b[:20] == 2, -np.inf, b[:20])  # minus infinity beside zeros only
    return a[:n], b[:n]


def expected(a: Any, b: Any) -> Any:
    with np.errstate(all="ignore"):
        scaled = np.ldexp(a, np.clip(np.nan_to_num(b, nan=0.0), -9000, 9000).astype(np.int32))
        return np.where(np.isnan(b), np.nan, scaled).astype(a.dtype)


def same(got: Any, want: Any) -> None:
    number = ~np.isnan(want)
    assert got[number].tobytes() == want[number].tobytes() and np.isnan(got[~number]).all()


@pytest.mark.many
@type_
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("way", [interp, run, run_text.c], ids=["interpreter", "llvm", "c"])
def test_it_is_ldexp(way: Any, lanes: int, name: str) -> None:
    if way is not interp and not HERE:
        pytest.skip("this machine has no AVX-512")
    items = -(-(400 if way is interp else 2000) // lanes)
    a, b = operands(name, lanes * items)
    y = np.zeros_like(a)
    if way is interp:
        with np.errstate(all="ignore"):
            interp.run(program(name, lanes, items), {"x0": a, "x1": b, "y": y})
    else:
        way(program(name, lanes, items), [a, b, y])
    same(y, expected(a, b))


@type_
def test_a_register_takes_one_instruction(name: str) -> None:
    target = targets.named("cascadelake")
    lanes = 64 // np.dtype(name).itemsize
    for n, instructions in ((lanes, 1), (lanes // 2, 1), (lanes // 4, 1), (3 * lanes, 3)):
        made = program(name, n, 4)
        text, _ = compile_for(target, render(made, target))
        assert text.count(f"vscalefp{'s' if name == 'float32' else 'd'}") == instructions
        assert "scale2 %" in show(made)


@pytest.mark.parametrize("lang", ["llvm", "c"])
def test_a_target_without_it_is_refused(lang: str) -> None:
    with pytest.raises(BuildError, match="haswell has no scale2"):
        render(program("float32", 8, 4), replace(targets.named("haswell"), lang=lang))


@pytest.mark.parametrize("target", ["opencl-cpu", "sm_90a"])
def test_languages_without_it_say_so(target: str) -> None:
    with pytest.raises(BuildError, match="has no scale2: lower the kernel"):
        render(program("float32", 4, 4), targets.named(target))


def test_halves_are_refused() -> None:
    for lang in ("llvm", "c"):
        with pytest.raises(BuildError, match="not an operation of Programs"):
            render(program("float16", 8, 4), replace(targets.named("cascadelake"), lang=lang))
