"""Sums whose scale is the same for a group of neighbours: lanes over the group, and one load of the scale a group."""

from math import prod

import numpy as np
import pytest
from checks import check_compiled
from tilewright import interp
from tilewright.heuristics import quick_starts, starts
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
@pytest.mark.covering
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


def fields(n: int, k: int, g: int, bits: int) -> Kernel:
    """Numbers of few bits, of which a group of g bytes holds the lowest first, then the next; a scale for each group."""
    kb = KernelBuilder("fields")
    i, l = kb.axis("n", n), kb.axis("k", k)
    each = 8 // bits
    w, x, s = kb.input("w", (n, k // (each * g), g), uint8), kb.input("x", (k,), float32), kb.input("s", (n, k // g), float32)
    number = cast(w[i, l // (each * g), l % g], int32) >> (cast(l // g % each, int32) * bits)
    total = kb.sum("total", (i,), l, x[l] * (cast(number & (1 << bits) - 1, float32) * s[i, l // g]))
    kb.store("y", float32, (n,), (i,), total[i])
    return kb.build()


@pytest.mark.parametrize("target", ["avx2", "cascadelake"])
@pytest.mark.parametrize(("g", "bits"), [(32, 4), (16, 4), (32, 2)])
def test_steps_are_written_out_until_bits_are_taken_alike(target: str, g: int, bits: int) -> None:
    kernel = fields(8, 1024, g, bits)
    period = g * 8 // bits
    found = quick_starts(kernel, named(target), 1)
    alike = [o for o in found if prod(x.arg for x in o if x.on == "k") % period == 0]
    assert alike, "each vector takes its bits in one way"
    scheduled = apply(kernel, alike[0], named(target))
    assert scheduled.lanes(next(n for n in scheduled.nests if n.kind == "reduce")).width == named(target).lanes(float32)
    check_compiled(kernel, alike[0])


@pytest.mark.parametrize("amount", [64, 128])
def test_lanes_are_within_groups_where_a_part_has_several(amount: int) -> None:
    kernel = matvec(4, 512, 32)
    scheduled = apply(kernel, parse(f"Uk{amount}"), named("cascadelake"))
    assert scheduled.lanes(next(n for n in scheduled.nests if n.kind == "reduce")).width == 16
    check_compiled(kernel, parse(f"Uk{amount}"))


@pytest.mark.parametrize(("n", "k", "together"), [(256, 1024, True), (8192, 2048, False)])
def test_rows_from_memory_come_one_after_the_other(n: int, k: int, together: bool) -> None:
    first = quick_starts(matvec(n, k, 32), named("cascadelake"), 1)[0]
    assert any(o.on == "n" and o.op == "UPCAST" for o in first) == together


def test_a_scale_a_row_does_not_take_the_lanes_from_the_sum() -> None:
    kb = KernelBuilder("channels")
    i, l = kb.axis("n", 512), kb.axis("k", 512)
    w, x, s = kb.input("w", (512, 512), uint8), kb.input("x", (512,), float32), kb.input("s", (512,), float32)
    kb.store("y", float32, (512,), (i,), kb.sum("total", (i,), l, x[l] * (cast(w[i, l], float32) * s[i]))[i])
    first = quick_starts(kb.build(), named("cascadelake"), 1)[0]
    assert any(o.on == "k" and o.op == "UPCAST" for o in first)
