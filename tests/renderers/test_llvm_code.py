"""What the text becomes: a matmul tile without spills, the right instruction set, objects that need nothing from outside."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hand_built import DISTINCT, compile_for, elementwise, matmul, object_for, run, undefined
from tilewright import targets
from tilewright.ir.dtypes import dtype
from tilewright.lower.arithmetic.elementary import expand
from tilewright.renderers import render
from tilewright.targets import Target

EVERY = pytest.mark.parametrize("t", DISTINCT, ids=lambda t: t.name)


def test_packed_matmul_is_right() -> None:
    m, n, k = 24, 96, 70
    rng = np.random.default_rng(0)
    a, b, c = (rng.normal(size=s).astype("float32") for s in ((m, k), (k, n), (m, n)))
    run(matmul(m, n, k), [a, b, c])
    np.testing.assert_allclose(c, a.astype("float64") @ b, rtol=1e-4, atol=1e-4)


def hottest_loop(assembly: str, opcode: str) -> list[str]:
    """The instructions between the label and the backward jump around most occurrences of `opcode`."""
    best: list[str] = []
    for found in re.finditer(r"^(\.LBB\w+):\n((?:(?!^\.LBB).*\n)*?)\tj\w+\t\1$", assembly, re.MULTILINE):
        lines = [x.strip() for x in found.group(2).splitlines() if x.startswith("\t") and not x.startswith("\t.")]
        if sum(opcode in x for x in lines) > sum(opcode in x for x in best):
            best = lines
    return best


@pytest.mark.parametrize(
    ("name", "lanes", "rows", "register"), [("cascadelake", 16, 8, "zmm"), ("znver5", 16, 14, "zmm"), ("avx2", 8, 6, "ymm")]
)
def test_matmul_tile_is_tight(name: str, lanes: int, rows: int, register: str) -> None:
    t = targets.named(name)
    assembly, obj = compile_for(t, render(matmul(rows * 8, 64, 256, rows, 2, lanes), t))
    loop = hottest_loop(assembly, "vfmadd")
    fmas = [x for x in loop if "vfmadd" in x]
    assert len(fmas) == 2 * rows and all(register in x for x in fmas)
    assert not [x for x in loop if "rsp" in x], "nothing is spilled"
    loads = [x for x in loop if x.startswith(("vbroadcastss", "vmova", "vmovu"))]
    assert len(loop) - len(fmas) - len(loads) <= 4, f"address arithmetic and loop control: {loop}"
    assert undefined(obj) == []


@EVERY
def test_instructions_stay_within_the_target(t: Target) -> None:
    assembly, obj = compile_for(t, render(matmul(48, 64, 256, 6, 2, t.lanes(dtype("float32"))), t))
    assert undefined(obj) == []
    assert ("zmm" in assembly) == ("avx512" in t.features)
    assert ("ymm" in assembly) == ("avx2" in t.features and "avx512" not in t.features)
    assert bool(re.search(r"\bv?fmadd|\bfmla", assembly)) == ("fma" in t.features)


@pytest.mark.many
@EVERY
@pytest.mark.parametrize("op", ["exp", "log", "tanh", "erf", "floor", "round", "sqrt", "fma", "max"])
def test_no_function_of_a_value_is_a_call(op: str, t: Target) -> None:
    for name in ("float32", "float64"):
        for lanes in (1, t.lanes(dtype(name)), 2 * t.lanes(dtype(name))):

            def body(b, x):  # type: ignore[no-untyped-def]
                return expand(b, op, x) if op in ("exp", "log", "tanh", "erf") else b.op(op, *[x] * {"fma": 3, "max": 2}.get(op, 1))

            source = render(elementwise([name], name, lanes, 64, body), t)
            assert undefined(object_for(t, source)) == []


@pytest.mark.parametrize(
    ("level", "op", "instruction"),
    [
        ("icelake-server", "popcount", "vpopcntd"),
        ("cascadelake", "popcount", "vpshufb"),
        ("cascadelake", "clz", "vplzcntd"),
        ("haswell", "abs", "vpabsd"),
    ],
)
def test_bits_are_counted_by_the_instructions_of_the_target(level: str, op: str, instruction: str) -> None:
    t = targets.named(level)
    assembly, obj = compile_for(t, render(elementwise(["int32"], "int32", t.lanes(dtype("int32")), 64, lambda b, x: b.op(op, x)), t))
    assert undefined(obj) == []
    assert instruction in assembly and ("vpopcnt" in assembly) == (instruction == "vpopcntd")


def test_the_processors_name_only_tunes() -> None:
    text = render(matmul(16, 64, 8), targets.named("cascadelake")).text
    assert '"target-cpu"="x86-64-v4" "tune-cpu"="cascadelake" "prefer-vector-width"="512" "target-features"="+avx512vnni"' in text
