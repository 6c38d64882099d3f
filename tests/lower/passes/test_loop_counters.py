"""Vectors that count with a loop are carried through it; choices between numbers that lanes have in common are computed once."""

from __future__ import annotations

import random

import pytest
from checks import check_compiled, check_floats
from tilewright.ir import KernelBuilder, bfloat16, const, float32, float64, int16, int32, int64, uint8, uint32, where
from tilewright.ir.kernel import Kernel
from tilewright.ir.normal_form import normalise
from tilewright.ir.operators import cast
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.program.program import For, Instr, Program, statements
from tilewright.targets import named

TARGETS = ("x86-64-v2", "avx2", "cascadelake", "znver4")


def one_hot(m: int = 5, n: int = 79) -> Kernel:
    """A gradient that is different where a label says, in bfloat16."""
    kb = KernelBuilder("one_hot")
    i, j = kb.axis("m", m), kb.axis("n", n)
    x, label = kb.input("x", (m, n), float32), kb.input("label", (m,), int16, range=(0, n - 1))
    hit = cast(j, int32).eq(cast(label[i], int32))
    kb.store("y", bfloat16, (m, n), (i, j), where(hit, -cast(label[i], float32), cast(x[i, j] > 0.0, float32)) * (1.0 / m))
    return normalise(kb.build())


def hashes(m: int = 5, n: int = 79) -> Kernel:
    """Places as numbers of several types: hashed, as a ramp, and modulo 256."""
    kb = KernelBuilder("hashes")
    i, j = kb.axis("m", m), kb.axis("n", n)
    seed, x = kb.input("seed", (m,), uint32), kb.input("x", (m, n), float32)
    v = cast(i * n + j, uint32) * 0x9E3779B9 + seed[i]
    kb.store("h", uint32, (m, n), (i, j), (v ^ (v >> 15)) * 0x85EBCA6B)
    kb.store("r", float32, (m, n), (i, j), x[i, j] * (cast(3 * j - 7 * i, float32) + 0.5))
    kb.store("b", uint8, (m, n), (i, j), cast(cast(200 - 5 * j, int32), uint8))
    return normalise(kb.build())


def first(m: int = 5, n: int = 79) -> Kernel:
    """Sums over places backwards and in float64, and the last place above a limit."""
    kb = KernelBuilder("first")
    i, j, k = kb.axis("m", m), kb.axis("n@a", n), kb.axis("n@b", n)
    x = kb.input("x", (m, n), float64)
    at = kb.max("at", (i,), j, where(x[i, j] > 1.0, cast(j, int32), -1))
    total = kb.sum("total", (i,), k, x[i, k] * cast(n - 1 - k, float64))
    kb.store("y", int32, (m,), (i,), at[i])
    kb.store("z", float64, (m,), (i,), total[i])
    return normalise(kb.build())


@pytest.mark.many
@pytest.mark.parametrize("width", [4, 8, 16])
@pytest.mark.parametrize("make", [one_hot, hashes, first])
@pytest.mark.covering
def test_results_do_not_depend_on_lanes(make, width: int) -> None:
    kernel = make()
    names = [["UPCAST", "n", width]] if make is not first else [["UPCAST", "n", width], ["FUSE", "n"]]
    for target in TARGETS:
        check_floats(kernel, parse(names), named(target))
    check_compiled(kernel, parse([*names, ["UPCAST", "m", 2]]), threads=1)


def spread_inside(program: Program) -> list[Instr]:
    """Numbers that are spread over lanes in the innermost loops."""
    loops = [s for p in program.phases for s in statements(p.body) if isinstance(s, For) and not s.once]
    inner = [s for s in loops if not any(isinstance(x, For) for x in statements(s.body))]
    return [x for s in inner for x in statements(s.body) if isinstance(x, Instr) and x.op == "splat" and x.result.dtype.is_int]


def test_no_loop_spreads_its_number() -> None:
    for make in (one_hot, hashes, first):
        for width in (8, 32):
            program = lower(apply(make(m=3, n=640), parse([["UPCAST", "n", width]]), named("avx2")))
            assert not spread_inside(program), make.__name__


def test_what_data_decides_is_spread_where_it_is_read() -> None:
    kb = KernelBuilder("rows")
    i, j, k = kb.axis("m", 16), kb.axis("n", 32), kb.axis("k", 40)
    x, ids = kb.input("x", (32,), int32), kb.input("ids", (40,), int32)
    kb.store("y", int64, (16, 32), (i, j), kb.sum("s", (i, j), k, cast(ids[k] * x[j], int64) + i)[i, j])
    program = lower(apply(normalise(kb.build()), parse([["UPCAST", "n", 8]]), named("avx2")))
    assert spread_inside(program)


def test_a_choice_between_constants_is_not_computed_with() -> None:
    kernel = one_hot(3, 640)
    program = lower(apply(kernel, parse([["UPCAST", "n", 16]]), named("avx2")))
    inner = next(s for p in program.phases for s in statements(p.body) if isinstance(s, For) and s.carried)
    assert not [s for s in statements(inner.body) if isinstance(s, Instr) and (s.op == "mul" and s.result.lanes > 1)]


def test_random_masks_and_ramps() -> None:
    rng = random.Random(5)
    for _ in range(12):
        n = rng.choice([32, 40, 64, 95])
        kb = KernelBuilder("random")
        i, j = kb.axis("m", 3), kb.axis("n", n)
        x = kb.input("x", (3, n), int32, range=(-50, 50))
        kind = rng.choice([int32, uint8, int16, uint32])
        place = cast(rng.choice([j, 2 * j + 1, i * n - j, 7 - j, j + i]), kind)
        other = cast(x[i, j], kind)
        e = where(place < other, place * 3, cast(const(rng.randrange(5)), kind)) if rng.random() < 0.5 else cast(place.eq(other), kind) * 3
        kb.store("y", kind, (3, n), (i, j), e)
        kernel = normalise(kb.build())
        for width in (4, 16):
            check_floats(kernel, parse([["UPCAST", "n", width]]), named(rng.choice(TARGETS)))
