"""What the text becomes: a matmul tile without spills, the right instruction set, objects that need nothing from outside."""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path

import numpy as np
import pytest
from hand_built import DISTINCT, compile_for, elementwise, engine, exp_half, masked_sum, matmul, object_for, param, run, undefined
from tilewright import targets
from tilewright.ir.dtypes import dtype, float32, float64, int64
from tilewright.ir.node import const, sym
from tilewright.lower.arithmetic.elementary import expand
from tilewright.program.builder import Builder
from tilewright.program.program import Param, Program
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
@pytest.mark.covering
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


# Loops, conditions, phases and items.


def out(n: int) -> tuple[Param, ...]:
    return (Param("y", int64, (n,), "out"),)


def test_only_the_items_asked_for_run() -> None:
    b = Builder()
    with b.phase(const(10), ()) as phase:
        b.store(param(0, int64), phase.item, b.op("add", phase.item, b.const(100)))
    jit = engine(render(Program("items", out(10), (), [phase]), targets.host()))
    entry = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 2)(jit.get_function_address("items_p0"))
    y = np.zeros(10, "int64")
    bufs = (ctypes.c_void_p * 2)(y.ctypes.data, None)
    for lo, hi in ((3, 5), (7, 7), (9, 2)):
        entry(ctypes.addressof(bufs), None, None, lo, hi)
    np.testing.assert_array_equal(y, [0, 0, 0, 103, 104, 0, 0, 0, 0, 0])


def test_nested_loops_carry_values_and_see_outer_ones() -> None:
    b = Builder()
    with b.phase(const(3), ()) as phase:
        zero, one = b.const(0), b.const(1)
        with b.loop("i", zero, b.const(5), 1, [zero, one]) as i:
            with b.loop("j", i.var, b.const(7), 2, [i.carried[0]]) as j:
                j.yields = [b.op("add", j.carried[0], b.op("mul", j.var, phase.item))]
            # the two carried values change places: both phis must read the old ones
            i.yields = [i.carried[1], b.op("add", j.results[0], one)]
        b.store(param(0, int64), phase.item, b.op("sub", i.results[0], i.results[1]))
    y = np.zeros(3, "int64")
    run(Program("nested", out(3), (), [phase]), [y])

    def expected(item: int) -> int:
        p, q = 0, 1
        for i in range(5):
            p, q = q, p + sum(j * item for j in range(i, 7, 2)) + 1
        return p - q

    np.testing.assert_array_equal(y, [expected(i) for i in range(3)])


def test_a_loop_may_yield_constants_and_outer_values() -> None:
    b = Builder()
    with b.phase(const(1), ()) as phase:
        with b.loop("i", b.const(0), b.const(3), 1, [b.const(5), b.const(6), b.const(7)]) as loop:
            loop.yields = [b.const(8), phase.item, loop.carried[2]]
        for k, r in enumerate(loop.results):
            b.store(param(0, int64), b.const(k), r)
    y = np.full(3, -1, "int64")
    run(Program("yields", out(3), (), [phase]), [y])
    np.testing.assert_array_equal(y, [8, 0, 7])


def test_conditions_nest_inside_loops() -> None:
    b = Builder()
    with (
        b.phase(const(1), ()) as phase,
        b.loop("i", b.const(0), b.const(10)) as i,
        b.when(b.op("lt", b.op("imod", i.var, attr=3), b.const(1))),
    ):
        b.store(param(0, int64), i.var, i.var)
        with b.when(b.op("lt", b.const(5), i.var)), b.loop("j", b.const(0), b.const(2)) as j:
            b.store(param(0, int64), b.op("add", i.var, j.var), b.const(-1))
    y = np.zeros(12, "int64")
    run(Program("conditions", out(12), (), [phase]), [y])
    np.testing.assert_array_equal(y, [0, 0, 0, 3, 0, 0, -1, -1, 0, -1, -1, 0])


def test_masked_scalar_load_inside_a_loop_with_carried_values() -> None:
    """The branch of a masked load ends the block that the loop's phis came from."""
    b = Builder()
    with b.phase(const(1), ()) as phase:
        with b.loop("i", b.const(0), b.const(6), 1, [b.const(0)]) as i:
            on = b.op("lt", i.var, b.const(4))
            i.yields = [b.op("add", i.carried[0], b.load(param(1, int64), i.var, 1, on))]
        b.store(param(0, int64), b.const(0), i.results[0])
    y, x = np.zeros(1, "int64"), np.arange(1, 7)
    run(Program("guarded", (*out(1), Param("x", int64, (6,), "in")), (), [phase]), [y, x])
    assert y[0] == 10


def test_symbols_arrive_in_order_and_bound_loops() -> None:
    n, m = sym("n", 1, 9), sym("odd name", 1, 9)
    b = Builder()
    with b.phase(n, (n, m)) as phase:
        with b.loop("j", b.const(0), phase.vars[1], 1, [b.const(0)]) as j:
            j.yields = [b.op("add", j.carried[0], phase.vars[0])]
        b.store(param(0, int64), phase.item, j.results[0])
    y = np.zeros(4, "int64")
    run(Program("two symbols", (Param("out put", int64, (n,), "out"),), (n, m), [phase]), [y], vars=[4, 6], items=4)
    np.testing.assert_array_equal(y, [24] * 4)


def test_max_carried_through_a_loop_keeps_nan() -> None:
    b = Builder()
    with b.phase(const(2), ()) as phase:
        row = b.op("mul", phase.item, b.const(64))
        with b.loop("i", b.const(0), b.const(64), 8, [b.const(float("-inf"), float32, 8)] * 2) as i:
            x = b.load(param(0, float32), b.op("add", row, i.var), 8)
            i.yields = [b.op("max", i.carried[0], x), b.op("max", x, i.carried[1])]
        for k, r in enumerate(i.results):
            b.store(param(1, float32), b.op("add", b.op("mul", phase.item, b.const(16)), b.const(8 * k)), r)
    x = np.random.default_rng(0).normal(size=(2, 8, 8)).astype("float32")
    x[1, 3, 5] = np.nan
    y = np.zeros((2, 2, 8), "float32")
    run(Program("top", (Param("x", float32, (128,), "in"), Param("y", float32, (32,), "out")), (), [phase]), [x, y])
    np.testing.assert_array_equal(y, np.maximum.reduce(x, 1)[:, None].repeat(2, 1))


def test_a_program_without_buffers_or_items_still_builds() -> None:
    b = Builder()
    with b.phase(const(0), ()) as phase:
        b.const(1.0, float64)
    run(Program("empty", (), (), [phase]), [])


def test_a_loop_that_runs_once_at_most_is_a_branch() -> None:
    b = Builder()
    with b.phase(const(4), ()) as phase:
        zero, one = b.const(0), b.const(1)
        odd = b.op("and", phase.item, one)
        with b.loop("i", zero, b.const(3), 1, [zero, phase.item]) as i:
            with b.loop("if", zero, odd, 1, [*i.carried], maybe=True, once=True) as branch:
                branch.yields = [branch.carried[1], b.op("add", branch.carried[0], b.op("add", branch.var, one))]
            i.yields = branch.results
        b.store(param(0, int64), phase.item, b.op("sub", i.results[0], i.results[1]))
    program, y = Program("once", out(4), (), [phase]), np.zeros(4, "int64")
    text = render(program, targets.host()).text
    assert text.count(".next = add") == 2  # (of the work items and the outer loop)
    run(program, [y])

    def expected(item: int) -> int:
        p, q = 0, item
        for _ in range(3 if item % 2 else 0):
            p, q = q, p + 1
        return p - q

    np.testing.assert_array_equal(y, [expected(i) for i in range(4)])


# The LLVM text of small Programs, kept as files: a change of the renderer shows up as a readable difference.


GOLDEN = Path(__file__).parents[1] / "golden"


CASES = {
    "matmul-avx2": (lambda: matmul(12, 32, 20, 6, 2, 8), "avx2"),
    "masked_sum-cascadelake": (masked_sum, "cascadelake"),
    "exp-half-neon": (exp_half, "neon"),
}


@pytest.mark.parametrize("case", CASES)
def test_text_is_as_recorded(case: str) -> None:
    make, name = CASES[case]
    text = render(make(), targets.named(name)).text
    path = GOLDEN / f"{case}.ll"
    if os.environ.get("TILEWRIGHT_GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text(), f"{path.name} differs; see this file's head"
