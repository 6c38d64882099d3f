"""A step for ordinary arguments first: right for those, and right for all others after the second time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from tilewright import targets
from tilewright.interp import run
from tilewright.ir import Kernel, KernelBuilder, Node, cos, dtype, exp, expm1, log, log1p, sin, sqrt, tan
from tilewright.ir.rewriter import in_place
from tilewright.lower import lower
from tilewright.opts import Opt
from tilewright.opts import apply as schedule
from tilewright.program.program import If, Program, statements

CASCADE, AVX2 = targets.named("cascadelake"), targets.named("avx2")
SSE = replace(AVX2, name="sse", features=frozenset({"sse41"}), vector_bytes=16)
LANES = 8
ROOT: Callable[[Node], Node] = lambda x: 3.0 / sqrt(x)  # noqa: E731
FUNCTIONS: dict[str, tuple[Callable[[Node], Node], Callable[[np.ndarray], np.ndarray], tuple[float, float], float]] = {
    "exp": (exp, np.exp, (-80, 80), 1.0),
    "expm1": (expm1, np.expm1, (-80, 80), 2.1),
    "log": (log, np.log, (1e-3, 1e3), 1.0),
    "log1p": (log1p, np.log1p, (-0.9, 50), 1.4),
    "sin": (sin, np.sin, (-1e4, 1e4), 1.9),
    "cos": (cos, np.cos, (-1e4, 1e4), 1.9),
    "tan": (tan, np.tan, (-1e4, 1e4), 3.0),
    "over a root": (ROOT, lambda x: 3 / np.sqrt(x), (1e-3, 1e3), 2.5),
}
"""The function, its reference, ordinary arguments, and units in the last place."""
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, -2.0, 1e-39, 1e30, 200.0, -200.0, 88.5, 5e-324]


def unary(f: Callable[[Node], Node], n: int, kind: str) -> Kernel:
    kb = KernelBuilder("unary")
    i = kb.axis("n", n)
    x = kb.input("x", (n,), dtype(kind))
    kb.store("y", dtype(kind), (n,), (i,), f(x[i]))
    return kb.build()


def lowered(kernel: Kernel, target: targets.Target, lanes: int = LANES) -> Program:
    return lower(schedule(kernel, (Opt("UPCAST", "n", 2 * lanes),), target))


def evaluate(name: str, x: np.ndarray, target: targets.Target) -> np.ndarray:
    y = np.empty_like(x)
    with np.errstate(all="ignore"):
        run(lowered(unary(FUNCTIONS[name][0], len(x), x.dtype.name), target), {"x": x, "y": y})
    return y


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("target", [CASCADE, AVX2, SSE], ids=["avx512", "avx2", "sse"])
@pytest.mark.covering(pairs=True)
def test_ordinary_and_others(name: str, kind: str, target: targets.Target) -> None:
    _, reference, ends, bound = FUNCTIONS[name]
    rng = np.random.default_rng(1)
    x = rng.uniform(*ends, 1024).astype(kind)
    with np.errstate(all="ignore"):
        x[512 : 512 + 17 * len(SPECIAL) : 17] = np.array(SPECIAL).astype(kind)
        if name in ("sin", "cos", "tan"):
            x[:256] = (rng.integers(0, 10**5, 256) * (np.pi / 2)).astype(kind)  # hardly anything is left of these
        got, want = evaluate(name, x, target), reference(x.astype(np.float64 if kind == "float32" else np.longdouble))
        unit = np.spacing(np.maximum(np.abs(want), float(np.finfo(kind).tiny)).astype(kind)).astype(want.dtype)
        rounded = want.astype(kind)
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        error = np.where(same, 0, np.abs(got - want) / unit)
    far = (np.abs(x) >= 2.0**50) if name in ("sin", "cos", "tan") and kind == "float64" else np.zeros(len(x), bool)
    bound += 0 if "fma" in target.features else 0.5
    assert np.max(error[~far]) <= bound, (x[np.argmax(np.where(far, 0, error))], np.max(error[~far]))
    zero = rounded == 0
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(rounded[zero]))


def conditions(program: Program) -> int:
    return sum(isinstance(s, If) for p in program.phases for s in statements(p.body))


def test_one_test_for_all_copies() -> None:
    kernel = unary(lambda x: log(exp(x) + 1.0) / sqrt(x), 256, "float32")
    assert conditions(lowered(kernel, CASCADE, 16)) == 1
    assert conditions(lowered(unary(lambda x: x * 2.0, 256, "float32"), CASCADE)) == 0


def test_where_a_second_time_would_be_wrong() -> None:
    """In place the argument is gone; single elements and threads of a group take the way that is right for all."""
    kernel = unary(exp, 256, "float32")
    assert conditions(lowered(in_place(kernel, {"y": "x"}), CASCADE)) == 0
    assert conditions(lower(schedule(kernel, (), CASCADE))) == 0
    assert conditions(lower(schedule(kernel, (Opt("UPCAST", "n", 4),), targets.named("sm_80")))) == 0


def test_without_the_instructions_nothing_changes() -> None:
    assert conditions(lowered(unary(log, 256, "float32"), replace(SSE, features=frozenset()))) == 0
