"""Sums whose scale is the same for a group of neighbours: lanes over the group, and one load of the scale a group."""

import numpy as np
import pytest
from checks import check_compiled
from tilewright import interp
from tilewright.heuristics import starts
from tilewright.ir import Kernel, KernelBuilder, cast, float32, int32, uint8
from tilewright.ir.evaluation import evaluate
from tilewright.lower import lower
from tilewright.measure.inputs import generate
from tilewright.opts import apply, parse
from tilewright.targets import named


def matvec(n: int, k: int, g: int) -> Kernel:
    kb = KernelBuilder("matvec")
    i, l = kb.axis("n", n), kb.axis("k", k)
    w, x, s = kb.input("w", (n, k), uint8), kb.input("x", (k,), float32), kb.input("s", (n, k // g), float32)
    total = kb.sum("total", (i,), l, s[i, l // g] * cast(w[i, l], float32) * x[l])
    kb.store("y", float32, (n,), (i,), total[i])
    return kb.build()


def halves(n: int, k: int, g: int) -> Kernel:
    """Two weights in a byte, with a scale and a middle for each g bytes."""
    kb = KernelBuilder("halves")
    i, l = kb.axis("n", n), kb.axis("k", k)
    w, x, s = kb.input("w", (n, k), uint8), kb.input("x", (2 * k,), float32), kb.input("s", (n, k // g), float32)
    middle = cast(kb.input("middle", (n, k // g), uint8, range=(0, 15))[i, l // g], float32)
    low, high = (cast(v, float32) - middle for v in (cast(w[i, l], int32) & 15, cast(w[i, l], int32) >> 4))
    kb.store("y", float32, (n,), (i,), kb.sum("total", (i,), l, s[i, l // g] * (low * x[2 * l] + high * x[2 * l + 1]))[i])
    return kb.build()


@pytest.mark.parametrize("target", ["avx2", "cascadelake"])
@pytest.mark.parametrize("g", [4, 8])
@pytest.mark.parametrize("k", [2048, 1528])
def test_a_vector_may_have_several_groups(target: str, g: int, k: int) -> None:
    kernel, lanes = halves(256, k, g), named(target).lanes(float32)
    copies = {o.on: o.arg for o in starts(kernel, named(target), 1)[0] if o.op == "UPCAST"}
    assert copies["k"] == lanes
    check_compiled(kernel, parse(f"Uk{lanes} Un4 Pn"))


@pytest.mark.parametrize("target", ["avx2", "cascadelake"])
def test_the_first_start_schedule_has_its_lanes_over_the_group(target: str) -> None:
    kernel = matvec(256, 2048, 64)
    first = starts(kernel, named(target), 1)[0]
    (amount,) = (o.arg for o in first if o.op == "UPCAST" and o.on == "k")
    assert 64 % amount == 0, "the scale is one number for all lanes"
    scheduled = apply(kernel, first, named(target))
    lanes = scheduled.lanes(next(n for n in scheduled.nests if n.kind == "reduce"))
    assert lanes.lane is not None and lanes.lane.axis.arg.name == "k" and lanes.width == named(target).lanes(float32)


@pytest.mark.parametrize("amount", [4, 8, 16, 24])
def test_a_part_that_divides_the_group_or_does_not(amount: int) -> None:
    kernel = matvec(3, 48, 16)
    inputs = generate(kernel, {}, 3, whole=True)
    y = np.zeros(3, np.float32)
    interp.run(lower(apply(kernel, [["UPCAST", "k", amount]], named("avx2"))), inputs | {"y": y})
    assert y.tolist() == evaluate(kernel, inputs)["y"].tolist()
