"""Bytes that are computed in words are packed a whole register at a time, and stored together."""

from __future__ import annotations

import numpy as np
import pytest
from checks import check_compiled, check_floats, check_twin
from hand_built import apply as elementwise
from hand_built import param
from tilewright import targets
from tilewright.devices.cpu.engine import assembly_of
from tilewright.ir import KernelBuilder, cast, float32, int32, round_even, uint8
from tilewright.ir.dtypes import bfloat16, dtype
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import const
from tilewright.ir.normal_form import normalise
from tilewright.lower import lower
from tilewright.lower.passes.packed_stores import join_bytes, join_halves
from tilewright.opts import apply, opt, parse
from tilewright.program.builder import Builder
from tilewright.program.program import Instr, Mem, Param, Phase, Program, statements
from tilewright.renderers import render

AVX2 = targets.named("avx2")
HOST = targets.host()
runs_avx2 = pytest.mark.skipif(not AVX2.features <= HOST.features, reason="this machine has no AVX2")


def quantised(to: str, n: int = 189) -> Kernel:
    """Rows of floats as bytes."""
    kb = KernelBuilder("quantised")
    i, j = kb.axis("m", 3), kb.axis("n", n)
    x = kb.input("x", (3, n), float32, range=(0.0, 1.0))
    kb.store("y", to, (3, n), (i, j), cast(cast(round_even(x[i, j] * 127.0), int32), to))
    return kb.build()


def stored(program: Program) -> list[int]:
    """Lanes of the stores, in order."""
    return [s.args[1].lanes for p in program.phases for s in statements(p.body) if isinstance(s, Instr) and s.op == "store"]


@pytest.mark.parametrize(("name", "lanes"), [("avx2", 32), ("v4", 16), ("v2", 4)])
def test_four_registers_of_words_are_one_store(name: str, lanes: int) -> None:
    target, opts = targets.named(name), parse("Un64")
    program = lower(apply(quantised("int8", 192), opts, target))
    assert max(stored(program)) == lanes
    assembly = assembly_of(render(program, target).text, target)
    assert ("vpackusdw" in assembly and "vpackuswb" in assembly and "vpshufb" not in assembly) or name != "avx2"
    check_twin(quantised("int8", 192), opts, target)


@runs_avx2
@pytest.mark.parametrize("to", ["int8", "uint8"])
@pytest.mark.parametrize("opts", ["Un32", "Un64", "Un32 Um3", "Un8"])
@pytest.mark.covering
def test_results_stay_what_they_are(to: str, opts: str) -> None:
    check_compiled(quantised(to), parse(opts), AVX2)


@runs_avx2
@pytest.mark.parametrize("lanes", [32, 128])
@pytest.mark.parametrize("to", ["int8", "uint8"])
def test_words_are_cut_to_their_lowest_byte(to: str, lanes: int) -> None:
    x = np.random.default_rng(0).integers(-(2**31), 2**31 - 1, 4 * lanes).astype(np.int32)
    x[:6] = (-1, 128, 255, 256, -129, 2**31 - 1)
    got = elementwise(lambda b, v: b.op("cast", v, dtype=dtype(to)), [x], to, lanes, AVX2)
    np.testing.assert_array_equal(got, x.astype(to))


def in_a_run(between: str) -> tuple[Program, Phase]:
    """Four stores side by side; before the last something may read what the first one wrote, or a part of it is written again."""
    b = Builder()
    with b.phase(const(1), ()) as phase:
        words = [b.load(param(0, int32, 8 * k), phase.item, 8) for k in range(4)]
        for k, w in enumerate(words):
            if k == 3 and between == "read":
                b.store(Mem("param", 2, uint8), phase.item, b.load(Mem("param", 1, uint8, 4), phase.item, 8))
            if k == 3 and between == "written":
                b.store(Mem("param", 1, uint8, 4), phase.item, b.op("cast", words[0], dtype=uint8))
            b.store(Mem("param", 1, uint8, 8 * k), phase.item, b.op("cast", w, dtype=uint8))
    params = (Param("x", int32, (32,), "in"), Param("y", uint8, (32,), "out"), Param("z", uint8, (32,), "out"))
    return Program("run", params, (), [phase]), phase


@pytest.mark.parametrize("between", ["", "read", "written"])
def test_what_must_stay_in_order_does(between: str) -> None:
    program, _ = in_a_run(between)
    join_bytes(program, 8)
    assert (32 in stored(program)) is (not between)


# Narrow results that lie side by side are narrowed and stored as one vector, where that is one instruction for two.


V3 = targets.named("x86-64-v3")


def scaled(name: str, n: int = 96) -> Kernel:
    """Some numbers times others, stored as another type."""
    kb, to = KernelBuilder("scaled"), dtype(name)
    i = kb.axis("n", n)
    x = kb.input("x", (n,), float32, range=(0.0, 100.0))
    kb.store("y", to, (n,), (i,), x[i] * 1.5 if to.is_float else cast(x[i] * 1.5, int32))
    return normalise(kb.build())


def stored_of_narrowing(program: Program) -> list[str]:
    """The types of what is stored."""
    return [s.args[1].type for p in program.phases for s in statements(p.body) if isinstance(s, Instr) and s.op == "store"]


@pytest.mark.parametrize(
    ("name", "target", "types"),
    [
        ("bfloat16", "x86-64-v3", ["bfloat16x16"] * 2),
        ("int16", "x86-64-v3", ["int16x8"] * 4),
        ("bfloat16", "x86-64-v2", ["bfloat16x8"] * 4),
        ("float16", "x86-64-v2", ["float16x8"] * 4),
        ("float16", "x86-64-v3", ["float16x8"] * 4),  # stored as it is converted
        ("bfloat16", "x86-64-v4", ["bfloat16x16"] * 2),  # narrowed as it is stored
    ],
)
def test_pieces_side_by_side_are_one_vector(name: str, target: str, types: list[str]) -> None:
    kernel, opts, t = scaled(name), (opt("UPCAST", "n", 32),), targets.named(target)
    assert sorted(stored_of_narrowing(lower(apply(kernel, opts, t)))) == types
    check_twin(kernel, opts, t)
    check_floats(kernel, opts, t)


@pytest.mark.skipif("avx2" not in targets.host().features, reason="this machine has no AVX2")
@pytest.mark.parametrize("name", ["bfloat16", "float16"])
@pytest.mark.parametrize("n", [96, 75])
def test_results_are_the_same(name: str, n: int) -> None:
    check_compiled(scaled(name, n), (opt("UPCAST", "n", 32 if n == 96 else 16),), V3)


@pytest.mark.parametrize("between", [False, True])
def test_what_is_read_again_is_stored_before(between: bool) -> None:
    b = Builder()
    y = [Mem("param", 1, bfloat16, 8 * i, 2) for i in range(2)]
    with b.phase(const(1), ()) as phase:
        zero = b.const(0)
        for i in range(2):
            x = b.load(Mem("param", 0, float32, 8 * i, 4), zero, 8)
            b.store(y[i], zero, b.op("cast", x, dtype=bfloat16))
            if between and i == 0:
                again = b.load(y[0], zero, 8)
                b.store(Mem("param", 2, float32, 0, 4), zero, b.op("cast", again, dtype=float32))
    params = (Param("x", float32, (16,), "in"), Param("y", bfloat16, (16,), "out"), Param("z", float32, (8,), "out"))
    program = Program("again", params, (), [phase])
    before = stored_of_narrowing(program)
    join_halves(program, V3)
    assert stored_of_narrowing(program) == (before if between else ["bfloat16x16"])
