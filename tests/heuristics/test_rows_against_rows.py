"""Start schedules of sums whose operands both lie along them: lanes along the sum, results of both axes in registers."""

from __future__ import annotations

import pytest
from checks import check_compiled
from tilewright import named_kernels, targets
from tilewright.heuristics import estimate, starts
from tilewright.heuristics.model.loads import lanes_in_groups
from tilewright.heuristics.start import StartFacts, quick_starts
from tilewright.heuristics.start.dot_products import RowsAgainstRows
from tilewright.ir import Kernel, KernelBuilder, axis, cast, float32, int32, uint8
from tilewright.ir.buffer import Buffer
from tilewright.ir.dtypes import dtype
from tilewright.ir.normal_form import normalise
from tilewright.opts import apply, parse, short

LEVELS = ["x86-64-v2", "avx2", "cascadelake"]


def layer(m: int, n: int, k: int, g: int) -> Kernel:
    """x by weights of four bits, two in a byte, a row for each result, with a scale for each g of them."""
    kb = KernelBuilder("layer")
    i, j, l = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
    x, w = kb.input("x", (m, k), float32), kb.input("w", (n, k // 2), uint8)
    scale = kb.input("scale", (n, k // g), float32, range=(0.0, 0.1))
    bits = (cast(w[j, l // 2], int32) >> cast(4 * (l % 2), int32)) & 15
    kb.store("y", float32, (m, n), (i, j), kb.sum("s", (i, j), l, x[i, l] * (cast(bits - 8, float32) * scale[j, l // g]))[i, j])
    return kb.build()


@pytest.mark.parametrize("level", LEVELS[1:])
@pytest.mark.parametrize("m", [4, 16])
def test_weights_that_are_unpacked_have_lanes_along_the_sum(level: str, m: int) -> None:
    target = targets.named(level)
    first = starts(layer(m, 512, 1024, 64), target, 1)[0]
    copies = {o.on: o.arg for o in first if o.op == "UPCAST"}
    assert copies["k"] == target.lanes(float32) and copies["m"] * copies["n"] >= 6


@pytest.mark.parametrize("level", LEVELS[1:])
def test_the_quick_choice_asks_about_rows_of_scaled_bytes(level: str) -> None:
    """Their panels, which are computed with lanes down the rows, take ten times as long."""
    kb, target = KernelBuilder("scaled"), targets.named(level)
    i, j, l = kb.axis("m", 9), kb.axis("n", 256), kb.axis("k", 384)
    x, w = kb.input("x", (9, 384), float32), kb.input("w", (256, 384), uint8)
    scale = kb.input("scale", (256, 6), float32)
    product = x[i, l] * ((cast(w[j, l], float32) - 8) * scale[j, l // 64])
    kb.store("y", float32, (9, 256), (i, j), kb.sum("s", (i, j), l, product)[i, j])
    first = quick_starts(kb.build(), target, 1)[0]
    assert [o.arg for o in first if o.op == "UPCAST" and o.on == "k"] == [target.lanes(float32)]


@pytest.mark.parametrize("level", LEVELS)
def test_few_rows_against_rows_are_not_packed(level: str) -> None:
    target = targets.named(level)
    kernel = normalise(named_kernels.make("matmul_nt", {"m": 4, "n": 1024, "k": 1024}))
    assert any(o.op == "UPCAST" and o.on == "k" for o in starts(kernel, target, 1)[0])
    kernel = normalise(named_kernels.make("matmul_nt", {"m": 192, "n": 192, "k": 192}))
    assert not any(o.op == "UPCAST" and o.on == "k" for o in starts(kernel, target, 1)[0]), "a packed panel is used often enough"
    kernel = normalise(named_kernels.make("matmul_nt", {"m": 33, "n": 700, "k": 777}))  # rows that begin anywhere
    assert any(o.op == "STAGE" for o in quick_starts(kernel, target)[0]) == (target.vector_bytes == 64)


@pytest.mark.parametrize("level", ["x86-64-v2", "znver4", "cascadelake"])
@pytest.mark.parametrize(("m", "n", "k"), [(4, 512, 128), (8, 256, 64), (12, 1000, 300)])
def test_few_rows_are_not_transposed_in_registers(level: str, m: int, n: int, k: int) -> None:
    """Lanes along the sum, though the model prices vectors that are transposed for less."""
    target = targets.named(level)
    kernel = normalise(named_kernels.make("matmul_nt", {"m": m, "n": n, "k": k}))
    for first in (starts(kernel, target, 1)[0], quick_starts(kernel, target, 1)[0]):
        assert [o.arg for o in first if o.op == "UPCAST" and o.on == "k"] == [target.lanes(float32)]


def test_few_rows_against_weights_that_are_known_are_packed_once() -> None:
    kernel = normalise(named_kernels.make("matmul_nt:constant=b", {"m": 8, "n": 256, "k": 128}))
    assert any(o.op == "STAGE" for o in starts(kernel, targets.named("cascadelake"), 1)[0])


def test_none_where_an_operand_lies_across_the_sum() -> None:
    target = targets.named("avx2")
    kernel = normalise(named_kernels.make("matmul", {"m": 8, "n": 512, "k": 512}))
    assert not list(RowsAgainstRows().guesses(StartFacts(kernel, target)))


def test_a_product_without_fma_takes_a_register() -> None:
    kernel = normalise(named_kernels.make("matmul_nt", {"m": 12, "n": 96, "k": 512}))
    heights = {}
    for level in ("x86-64-v2", "avx2"):
        target = targets.named(level)
        tiles = [{o.on: o.arg for o in s if o.op == "UPCAST"} for s in RowsAgainstRows().guesses(StartFacts(kernel, target))]
        heights[level] = {t["m"]: t["n"] for t in tiles}
    assert heights == {"x86-64-v2": {4: 2, 6: 2, 5: 2, 3: 3, 2: 4}, "avx2": {4: 3, 6: 2, 5: 2, 3: 3, 2: 5}}


@pytest.mark.parametrize(("m", "n"), [(12, 1000), (1000, 12), (5, 640)])
def test_vectors_of_the_inner_axis_have_registers(m: int, n: int) -> None:
    """A tile of 4 by 3 results fits 16 registers, one of 3 by 4 does not: for each outer row all vectors of the inner axis are read again."""
    kernel, target = normalise(named_kernels.make("matmul_nt", {"m": m, "n": n, "k": 768})), targets.named("x86-64-v3")
    first = {o.on: o.arg for o in quick_starts(kernel, target)[0] if o.op == "UPCAST"}
    assert first["k"] == 8 and first["m"] * first["n"] + first["n"] + 1 <= 16
    if m == 12:
        tiles = (estimate(apply(kernel, parse(o), target)) for o in ("Uk8 Um4 Un3 Pn", "Uk8 Um3 Un4 Pn"))
        assert next(tiles) < next(tiles)


@pytest.mark.parametrize(("m", "n", "k", "g"), [(4, 6, 128, 64), (3, 5, 96, 32), (5, 7, 80, 16)])
@pytest.mark.parametrize("opts", ["Uk8 Um2 Un3 Pn", "Uk16 Um4 Un2", "Uk32 Un2", "Uk4 Um3", "Uk64 Un2"])
@pytest.mark.covering
def test_schedules_equal_the_reference(opts: str, m: int, n: int, k: int, g: int) -> None:
    kernel = layer(m, n, k, g)
    legal = StartFacts(kernel, targets.host()).trials.legal(parse(opts))  # (without parts that an odd extent refuses)
    assert legal
    check_compiled(kernel, legal)


def test_what_lanes_find_near_each_other_is_not_gathered() -> None:
    """Bytes of two weights each take a load and a shuffle, and a group's scale one load: about as much as plain bytes."""
    target = targets.named("avx2")
    times = {o: estimate(apply(layer(16, 512, 1024, 64), parse(o), target)) for o in ("Uk8 Um4 Un2 Pn", "Un8 Um4 Pn")}
    assert times["Uk8 Um4 Un2 Pn"] < 0.6 * times["Un8 Um4 Pn"], short(parse("Un8 Um4 Pn"))


def test_spans_of_lanes() -> None:
    k, w = axis("k", 256), Buffer("w", dtype("uint8"), (256,))
    spans = {
        name: lanes_in_groups(w, (i,), k, 8)
        for name, i in (("half", k // 2), ("group", k // 64), ("wrapped", (k + 1) % 256), ("odd", k // 3))
    }
    assert spans == {"half": 4, "group": 1, "wrapped": None, "odd": None}
