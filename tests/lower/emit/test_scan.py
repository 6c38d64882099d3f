"""Scans with lanes along their own axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from checks import check_compiled, check_twin
from tilewright import kernels, targets
from tilewright.interp import run as interpret
from tilewright.ir import KernelBuilder, OptError, dtype, float32
from tilewright.ir.kernel import Kernel
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.program.program import Instr, Program, statements

CASCADE, AVX2, NEON = (targets.named(n) for n in ("cascadelake", "avx2", "neon"))
NUMPY = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def scanned(combine: str, m: int, n: int, kind: str = "float32", along: int = 1) -> Kernel:
    """y[i, j] = the combination of x[i, :j + 1] (or of x[:i + 1, j])."""
    kb = KernelBuilder(f"scan_{combine}")
    i, j = kb.axis("m", m), kb.axis("n", n)
    x = kb.input("x", (m, n), dtype(kind))
    value = kb.scan(combine, "prefix", (i, j), (i, j)[along], x[i, j])
    kb.store("y", value[i, j].dtype, (m, n), (i, j), value[i, j])
    return kb.build()


def run(kernel: Kernel, opts: list[Any], target: targets.Target, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    y = np.zeros(x.shape, kernel.outputs[0].dtype.np)
    interpret(lower(apply(kernel, parse(opts), target)), {"x": x, "y": y})
    return y


def instructions(program: Program, op: str) -> list[Instr]:
    return [s for p in program.phases for s in statements(p.body) if isinstance(s, Instr) and s.op == op]


WIDE: list[list[Any]] = [
    [["UPCAST", "n", 4]],
    [["UPCAST", "n", 16]],
    [["UPCAST", "n", 32], ["PARALLEL", "m"]],
    [["UPCAST", "n", 8], ["UPCAST", "m", 2]],
    [["TILE", "n", 24], ["UPCAST", "n", 8], ["UPCAST", "m", 3]],
    [["UPCAST", "n", 12]],
    [["UPCAST", "n", 16], ["CACHE", "y", {"policy": "stream"}]],
]


def padded(opts: list[Any], n: int) -> list[Any]:
    """The options for any n: padded where blocks do not divide it."""
    block = max(o[2] for o in opts if o[1] == "n")
    return opts if n % block == 0 else [["PADTO", "n", block], *opts]


@pytest.mark.many
@pytest.mark.parametrize("opts", WIDE)
@pytest.mark.parametrize("combine", sorted(NUMPY))
@pytest.mark.parametrize("n", [26, 37, 96])
def test_every_combination_and_tail(combine: str, n: int, opts: list[Any]) -> None:
    rng = np.random.default_rng(n)
    x = (rng.standard_normal((6, n)) if combine != "mul" else rng.choice([0.5, 1.0, 2.0, -1.0], (6, n))).astype(np.float32)
    y = run(scanned(combine, 6, n), padded(opts, n), CASCADE, x)
    np.testing.assert_allclose(y, NUMPY[combine].accumulate(x.astype(np.float64), axis=1), rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("target", [CASCADE, AVX2, NEON])
@pytest.mark.parametrize("kind", ["float64", "float16", "bfloat16", "int32", "int8", "uint8"])
def test_every_type(kind: str, target: targets.Target) -> None:
    kernel = scanned("add", 3, 62, kind)
    x = np.random.default_rng(0).integers(-3 if kind[0] != "u" else 0, 4, (3, 62)).astype(kernel.inputs[0].dtype.np)
    y = run(kernel, [["UPCAST", "n", 16]], target, x)
    want = x.astype(np.float64).cumsum(axis=1)
    np.testing.assert_array_equal(
        y.astype(np.float64), want if kernel.outputs[0].dtype.is_float else want.astype(kernel.outputs[0].dtype.np).astype(np.float64)
    )


@pytest.mark.parametrize("opts", WIDE)
def test_the_twin_agrees(opts: list[Any]) -> None:
    check_twin(kernels.make("cumsum", {"m": 6, "n": 70}), parse(padded(opts, 70)), CASCADE)


def test_nan_and_infinity_reach_what_follows_and_nothing_before() -> None:
    x = np.ones((1, 64), np.float32)
    x[0, 21], x[0, 40] = np.inf, np.nan
    y = run(scanned("add", 1, 64), [["UPCAST", "n", 16]], CASCADE, x)
    np.testing.assert_array_equal(y[0, :21], np.arange(1, 22))
    assert np.isposinf(y[0, 21:40]).all() and np.isnan(y[0, 40:]).all()


def test_lanes_hold_prefixes_after_a_logarithm_of_steps() -> None:
    program = lower(apply(scanned("add", 4, 64), parse([["UPCAST", "n", 16]]), CASCADE))
    assert len(instructions(program, "shuffle")) == 5  # four shifts, and the last lane to all
    assert not instructions(program, "extract") and not instructions(program, "insert")


def test_the_output_itself_holds_the_scan() -> None:
    """One pass and no scratch; what is stored is carried in registers, and so past the caches too."""
    assert lower(apply(scanned("add", 4, 64), (), CASCADE)).scratch == 0
    assert lower(apply(scanned("add", 4, 64), parse([["CACHE", "y", {"policy": "stream"}]]), CASCADE)).scratch == 0


def test_lanes_across_rows_stay_possible() -> None:
    x = np.random.default_rng(0).standard_normal((9, 32)).astype(np.float32)
    y = run(scanned("add", 9, 32, along=0), [["UPCAST", "n", 16]], CASCADE, x)
    np.testing.assert_allclose(y, x.astype(np.float64).cumsum(axis=0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("opts", [[["UPCAST", "m", 4], ["MOVE", "n", {"before": "m"}]], [["UPCAST", "m", 4]]])
def test_copies_past_the_rows_read_nothing_past_the_output(opts: list[Any]) -> None:
    """A scan that is read back, not carried, needs room for them: it is not kept in the output then."""
    check_twin(kernels.make("cumsum", {"m": 11, "n": 20}), parse(opts), CASCADE)
    check_compiled(kernels.make("cumsum", {"m": 11, "n": 20}), parse(opts))


@pytest.mark.parametrize(
    ("opts", "target", "why"), [([["PARALLEL", "n"]], "cascadelake", "cannot be parallel"), ([["UPCAST", "n", 4]], "sm_80", "one lane")]
)
def test_what_stays_impossible(opts: list[Any], target: str, why: str) -> None:
    with pytest.raises(OptError, match=why):
        apply(scanned("add", 9, 64), parse(opts), targets.named(target))


def test_other_orders_of_adding_are_declared() -> None:
    assert "REASSOC" in apply(scanned("add", 9, 64), parse([["UPCAST", "n", 16]]), CASCADE).effects
    assert float32 is scanned("add", 2, 2).outputs[0].dtype
