"""Inverse sines and cosines, angles and powers for ordinary arguments first: right there, and right for what is not ordinary beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tilewright import targets
from tilewright.interp import run
from tilewright.ir import KernelBuilder, Node, dtype, functions
from tilewright.ir.functions import absolute, acos, asin, atan2, copysign, power
from tilewright.ir.kernel import Kernel
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.program.program import For, Instr, Program, statements

AVX2 = targets.named("avx2")
SSE = replace(AVX2, name="sse", features=frozenset({"sse41"}), vector_bytes=16)
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38]


def binary(f: Callable[[Node, Node], Node], n: int, kind: str) -> Kernel:
    kb = KernelBuilder("binary")
    i = kb.axis("n", n)
    x, z = kb.input("x", (n,), dtype(kind)), kb.input("z", (n,), dtype(kind))
    kb.store("y", dtype(kind), (n,), (i,), f(x[i], z[i]))
    return kb.build()


def lowered(f: Callable[[Node, Node], Node], n: int, kind: str, target: targets.Target) -> Program:
    return lower(apply(binary(f, n, kind), parse("Un16"), target))


CASES: dict[str, tuple[Callable[[Node, Node], Node], Callable[[Any, Any], Any], float, int]] = {
    "asin": (lambda x, z: asin(x), lambda x, z: np.arcsin(x), 2.3, 0),
    "acos": (lambda x, z: acos(x), lambda x, z: np.arccos(x), 1.7, 0),
    "atan2": (atan2, np.arctan2, 2.2, 1),
    "power": (lambda x, z: power(absolute(x), z), lambda x, z: np.power(np.abs(x), z), 0.8, 0),
    "power by a constant": (lambda x, z: power(x, -7.5), lambda x, z: np.power(x, -7.5), 0.8, 0),
    "copysign": (copysign, np.copysign, 0.0, 0),
}
"""Ours, NumPy's, units in the last place, and divisions of a vector of what is computed first."""


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("target", [AVX2, SSE], ids=["avx2", "sse"])
@pytest.mark.covering(pairs=True)
def test_ordinary_and_others(name: str, kind: str, target: targets.Target) -> None:
    ours, numpy, bound, _ = CASES[name]
    bound = 2.0 if name == "power by a constant" else bound  # products and roots
    rng = np.random.default_rng(2)
    x, z = (rng.uniform(-1, 1, 400).astype(kind) for _ in range(2))
    with np.errstate(all="ignore"):
        special = np.array(SPECIAL).astype(kind)
        x[200 : 200 + 13 * 13], z[200 : 200 + 13 * 13] = np.repeat(special, 13), np.tile(special, 13)
        y = np.empty_like(x)
        run(lowered(ours, len(x), kind, target), {"x": x, "z": z, "y": y})
        wide = np.float64 if kind == "float32" else np.longdouble
        z = np.where(np.isnan(z), 1.0, z).astype(kind) if name == "copysign" else z  # the sign of no number counts as positive
        want = numpy(x.astype(wide), z.astype(wide))
        rounded = want.astype(kind)
        same = (y == rounded) & (np.signbit(y) == np.signbit(rounded)) | (np.isnan(y) & np.isnan(rounded))
        unit = np.spacing(np.abs(rounded)).astype(wide)
        error = np.where(same, 0, np.where(y == 0, np.inf, np.abs(y - want) / unit))
    assert not np.isnan(error).any() and error.max() <= bound, (x[error.argmax()], z[error.argmax()], error.max())


@pytest.mark.parametrize("name", CASES)
def test_divisions_are_few(name: str) -> None:
    """A sign takes none, and an angle one for what is ordinary."""
    ours, _, _, divisions = CASES[name]
    body = lowered(ours, 64, "float32", AVX2).phases[0].body
    loop = next(s for s in body.stmts if isinstance(s, For))
    assert "power" not in name or sum(isinstance(s, Instr) and s.op == "shl" for s in loop.body.stmts) == 2
    assert sum(isinstance(s, Instr) and s.op == "div" for s in loop.body.stmts) == 2 * divisions
    assert name != "copysign" or all(not isinstance(s, Instr) or s.op != "div" for s in statements(body))


# one value has one rounding ---------------------------------------------------------------------------------------
AVX512 = targets.named("znver4")
ALIKE: dict[str, Callable[[Node, Node], Node]] = {
    **{op: lambda x, z, op=op: getattr(functions, op)(x * 40) for op in ("exp", "expm1", "tanh", "erf", "sin", "cos", "tan", "atan")},
    "log": lambda x, z: functions.log(absolute(x)),
    "log1p": lambda x, z: functions.log1p(absolute(x) * 3),
    "log1p of little": lambda x, z: functions.log1p(x * 1e-3),
    "asin": lambda x, z: asin(x),
    "acos": lambda x, z: acos(x),
    "atan2": atan2,
    "power": lambda x, z: power(absolute(x), z * 9),
    "asinh": lambda x, z: functions.asinh(x * 9),
    "sinh": lambda x, z: functions.sinh(x * 9),
}
"""Of numbers from -1 to 1."""


@pytest.mark.parametrize("name", ALIKE)
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("target", [SSE, AVX2, AVX512], ids=["sse", "avx2", "avx512"])
@pytest.mark.covering(pairs=True)
def test_a_value_has_the_same_bits_wherever_it_is_computed(name: str, kind: str, target: targets.Target) -> None:
    """For ordinary arguments first, again beside one that is not, element by element, in the rest of a row, and in a sum."""
    rng = np.random.default_rng(4)
    x, z = (rng.uniform(-1, 1, 163).astype(kind) for _ in range(2))
    f = ALIKE[name]

    def stored(x: Any, z: Any, opts: str) -> Any:
        y = np.empty_like(x)
        with np.errstate(all="ignore"):
            run(lower(apply(binary(f, len(x), kind), parse(opts), target)), {"x": x, "z": z, "y": y})
        return y

    first = stored(x, z, "Un16")
    unusual, beside = x.copy(), z.copy()
    for place, strange in enumerate((np.nan, 1e-310 if kind == "float64" else 1e-41, 3e38, 0.0)):
        unusual[8 * place :: 32], beside[8 * place :: 32] = strange, strange
    again, others = stored(unusual, beside, "Un16"), np.arange(len(x)) % 8 != 0
    np.testing.assert_array_equal(again[others], first[others])
    np.testing.assert_array_equal(stored(x, z, "(none)"), first)
    kb = KernelBuilder("largest")
    i, k = kb.axis("n", len(x)), kb.axis("k", 1)
    given, other = (kb.input(n, (len(x), 1), dtype(kind)) for n in "xz")
    top = kb.max("top", [i], k, f(given[i, k], other[i, k]))
    kb.store("y", dtype(kind), (len(x),), (i,), top[i])
    largest = np.empty_like(x)
    run(lower(apply(kb.build(), parse("Un16"), target)), {"x": x[:, None], "z": z[:, None], "y": largest})
    np.testing.assert_array_equal(largest, first)
