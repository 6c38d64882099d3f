"""Every operation on every type: C, OpenCL and CUDA text against LLVM's code, in every bit."""

from __future__ import annotations

from collections.abc import Callable

import hand_built
import pytest
import run_text
from every_op import TYPES, Bench, bench, differences
from tilewright import targets
from tilewright.program.program import Program

FMA = "fma" in targets.host().features


def agree(run: Callable[[Program, list], None], made: Bench, again: Bench, target: targets.Target | None = None) -> None:
    hand_built.run(made.program, made.arrays, target=target)
    run(again.program, again.arrays)
    wrong = differences(again, made)
    assert not wrong, "\n".join(wrong)


LESSER = [t for t in map(targets.named, ("avx2", "x86-64-v2")) if t.arch == targets.host().arch and t.features < targets.host().features]


@pytest.mark.slow
@pytest.mark.parametrize("target", LESSER, ids=lambda t: t.name)
def test_c_for_fewer_instructions(target: targets.Target) -> None:
    made, again = (bench(8, ("float32", "float64")) for _ in range(2))
    agree(lambda p, a: run_text.c(p, a, target=target), made, again, target)


SOME = ("float32", "int64", "uint8")


# vectors that are registers, and those that are pieces of 8, 4 and 1 lanes
@pytest.mark.slow
@pytest.mark.parametrize(("lanes", "types"), [(1, TYPES), (13, ("float32", "float64", "int16")), (16, ("float32", "float64", "int64"))])
def test_c(lanes: int, types: tuple[str, ...]) -> None:
    agree(run_text.c, bench(lanes, types, fma=FMA), bench(lanes, types, fma=FMA))


@pytest.mark.slow
@pytest.mark.parametrize(("lanes", "types"), [(1, TYPES), (13, SOME), (16, ("float64", "int32"))])
def test_opencl(lanes: int, types: tuple[str, ...]) -> None:
    agree(run_text.opencl, bench(lanes, types, fma=FMA), bench(lanes, types, fma=FMA))


@pytest.mark.slow
@pytest.mark.parametrize(("lanes", "types"), [(1, TYPES), (6, SOME)])
def test_cuda(lanes: int, types: tuple[str, ...]) -> None:
    agree(run_text.cuda, bench(lanes, types, fma=FMA), bench(lanes, types, fma=FMA))


def test_a_difference_is_seen() -> None:
    made, other = bench(1, ("int32",)), bench(1, ("int32",))
    hand_built.run(made.program, made.arrays)
    hand_built.run(other.program, other.arrays)
    assert differences(other, made) == []
    y = other.outputs()["y_int32"]
    y[made.rows["int32"].index("int32x1: mul") * 13 + 2] ^= 1
    (said,) = differences(other, made)
    assert said.startswith("int32x1: mul") and said.endswith("1 of 13")
