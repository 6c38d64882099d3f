"""Narrow results that lie side by side are narrowed and stored as one vector, where that is one instruction for two."""

from __future__ import annotations

import pytest
from checks import check_compiled, check_floats, check_twin
from tilewright import KernelBuilder, targets
from tilewright.ir import cast, dtype
from tilewright.ir.dtypes import bfloat16, float32, int32
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import const
from tilewright.ir.normal_form import normalise
from tilewright.lower import lower
from tilewright.lower.passes.joined_stores import join_halves
from tilewright.opts import apply, opt
from tilewright.program.builder import Builder
from tilewright.program.program import Instr, Mem, Param, Program, statements

V3 = targets.named("x86-64-v3")


def scaled(name: str, n: int = 96) -> Kernel:
    """Some numbers times others, stored as another type."""
    kb, to = KernelBuilder("scaled"), dtype(name)
    i = kb.axis("n", n)
    x = kb.input("x", (n,), float32, range=(0.0, 100.0))
    kb.store("y", to, (n,), (i,), x[i] * 1.5 if to.is_float else cast(x[i] * 1.5, int32))
    return normalise(kb.build())


def stored(program: Program) -> list[str]:
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
    assert sorted(stored(lower(apply(kernel, opts, t)))) == types
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
    before = stored(program)
    join_halves(program, V3)
    assert stored(program) == (before if between else ["bfloat16x16"])
