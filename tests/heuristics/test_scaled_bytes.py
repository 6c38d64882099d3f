"""Products of bytes with a scale for each group: the instruction that adds them in fours, and where it is not to be had."""

from __future__ import annotations

import numpy as np
import pytest
from checks import check_compiled, check_floats, check_twin
from tilewright import interp
from tilewright.heuristics import quick_starts, starts
from tilewright.ir import DType, Kernel, KernelBuilder, cast, float16, float32, int8, int32, uint8
from tilewright.ir.node import Node
from tilewright.lower import lower
from tilewright.opts import apply, parse, short
from tilewright.opts.analysis.dot_instructions import scaled_sum
from tilewright.opts.nests import plain
from tilewright.program.program import For, Instr, Program, statements
from tilewright.targets import Target, named

TARGETS = ("v2", "v3", "v4", "cascadelake", "alderlake", "sapphirerapids", "znver4")


def product(
    weights: str = "bytes", n: int = 12, m: int = 1, k: int = 128, g: int = 32, scale: DType = float16, masked: bool = False
) -> Kernel:
    """Rows of weights by rows of activations: signed bytes, halves of bytes, or bits from two arrays."""
    kb = KernelBuilder("product")
    j, i, l = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
    x, xs, s = kb.input("x", (m, k), int8), kb.input("xs", (m, k // 32), float32), kb.input("s", (n, k // g), scale)
    a: Node
    if weights == "bytes":
        a = cast(kb.input("w", (n, k), int8)[i, l], int32)
    else:
        low = cast(kb.input("w", (n, k // 32, 16), uint8)[i, l // 32, l % 16], int32)
        a = (low >> (cast(l % 32 // 16, int32) * 4)) & 15
        if weights == "parts":
            high = cast(kb.input("h", (n, k // 32, 16), uint8)[i, l // 32, l % 16], int32)
            a = a | (high & 48)
        a = a - 8
    right = x.masked(l < k - 3, j, l) if masked else x[j, l]
    total = kb.sum("total", (j, i), l, cast(a * cast(right, int32), float32) * (cast(s[i, l // g], float32) * xs[j, l // 32]))
    kb.store("y", float32, (m, n), (j, i), total[j, i])
    return kb.build()


def dots(program: Program) -> set[str]:
    """The instructions that a Program adds products with."""
    return {str(s.attr) for p in program.phases for s in statements(p.body) if isinstance(s, Instr) and s.op == "dot"}


def instruction(target: Target) -> set[str]:
    if "avxvnni" in target.features:
        return {"vpdpbusd256"}
    return {"vpdpbusd256vl"} if "avx512vnni" in target.features else {"vpmaddwd256"} if "avx2" in target.features else set()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("weights", ["bytes", "halves", "parts"])
@pytest.mark.parametrize(("m", "n"), [(1, 37), (3, 5), (8, 8)])
@pytest.mark.covering(pairs=True)
def test_start_schedules_have_the_instruction(target: str, weights: str, m: int, n: int) -> None:
    kernel, t = product(weights, n, m), named(target)
    for first in (starts(kernel, t, 2)[0], quick_starts(kernel, t, 2)[0]):
        assert dots(lower(apply(kernel, first, t))) == instruction(t), short(first)
        check_floats(kernel, first, t)


@pytest.mark.parametrize("target", ["v3", "sapphirerapids"])
@pytest.mark.parametrize("weights", ["bytes", "halves", "parts"])
@pytest.mark.parametrize("opts", ["Uk32", "Uk64", "Uk128 Un2", "Uk32 Un4 Um2 Pn", "Uk32 Rk:2", "Uk32 Un5"])
@pytest.mark.covering
def test_what_a_search_may_choose_is_right(target: str, weights: str, opts: str) -> None:
    kernel = product(weights, 12, 2)
    options = parse(opts)
    assert dots(lower(apply(kernel, options, named(target))))
    check_floats(kernel, options, named(target))
    check_twin(kernel, options, named(target))
    check_compiled(kernel, options)


def floats(weights: str = "halves", g: int = 32, less: float = 8.0) -> Kernel:
    """Rows of weights by one row of floats."""
    kb = KernelBuilder("product")
    i, l = kb.axis("n", 8), kb.axis("k", 256)
    x, s = kb.input("x", (256,), float32), kb.input("s", (8, 256 // g), float16)
    if weights == "bytes":
        a = cast(kb.input("w", (8, 256), int8)[i, l], float32)
    else:
        low = cast(kb.input("w", (8, 8, 16), uint8)[i, l // 32, l % 16], int32)
        a = cast((low >> (cast(l % 32 // 16, int32) * 4)) & 15, float32) - less
    total = kb.sum("total", (i,), l, x[l] * (a * cast(s[i, l // g], float32)))
    kb.store("y", float32, (8,), (i,), total[i])
    return kb.build()


@pytest.mark.parametrize("target", ["v2", "v3", "v4"])
@pytest.mark.parametrize(
    ("weights", "size", "copies", "rows"), [("halves", 32, 8, 2), ("bytes", 32, 4, 4), ("bytes", 64, 4, 2), ("bytes", 16, 8, 2)]
)
def test_groups_of_floats_are_scaled_once(target: str, weights: str, size: int, copies: int, rows: int) -> None:
    """One product a vector of a group, and one for all of it."""
    t, kernel, opts = named(target), floats(weights, size), parse(f"Uk{size} Rk{copies} Un{rows}")
    program = lower(apply(kernel, opts, t))
    found = [
        s.op for p in program.phases for s in statements(p.body) if isinstance(s, Instr) and s.result is not None and s.result.lanes > 1
    ]
    assert found.count("fma") + found.count("mul") == copies * rows * (size // t.lanes(float32) + 1)
    check_floats(kernel, opts, t)
    check_twin(kernel, opts, t)


def test_products_that_may_overflow_are_scaled_first() -> None:
    """A number less 1e6 is none of few bits."""
    nests = [next(n for n in plain(floats(less=less)) if n.kind == "reduce") for less in (8.0, 1e6)]
    assert [scaled_sum(n, n.reduce_axes[0], 32) is not None for n in nests] == [True, False]


@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(product(g=16), id="groups of 16"),
        pytest.param(product(masked=True), id="under a mask"),
        pytest.param(product(k=128 + 32), id="no whole vectors"),
    ],
)
def test_other_sums_are_as_they_were(kernel: Kernel) -> None:
    options = parse("Uk64")
    assert not dots(lower(apply(kernel, options, named("sapphirerapids"))))
    check_floats(kernel, options, named("sapphirerapids"))


@pytest.mark.parametrize("target", ["v3", "sapphirerapids"])
def test_extremes_of_both_bytes(target: str) -> None:
    """-128 by -128, 255 less 8 by 127: no sum of four saturates."""
    kernel = product("bytes", 2, 1, 32)
    x, w = np.full((1, 32), -128, np.int8), np.stack([np.full(32, -128, np.int8), np.full(32, 127, np.int8)])
    y = np.zeros((1, 2), np.float32)
    one = {"x": x, "w": w, "xs": np.ones((1, 1), np.float32), "s": np.ones((2, 1), np.float16)}
    interp.run(lower(apply(kernel, parse("Uk32"), named(target))), one | {"y": y})
    assert y.tolist() == [[32 * 128.0 * 128, -32 * 128.0 * 127]]


def inner_loop(program: Program) -> list[Instr]:
    """What runs for each block of groups."""
    (loop,) = (s for p in program.phases for s in statements(p.body) if isinstance(s, For) and s.carried)
    return [s for s in loop.body.stmts if isinstance(s, Instr)]


@pytest.mark.parametrize("target", ["v3", "znver4"])
@pytest.mark.parametrize("weights", ["bytes", "halves", "parts"])
def test_what_an_offset_adds_is_computed_once_for_all_rows(target: str, weights: str) -> None:
    """One instruction a group in the loop over rows, which begins with what is taken off, and one conversion for groups that share it."""
    kernel, t, options = product(weights, 16, 1, 512), named(target), parse("Uk32 Rk8 Tn8 Pn")
    found = [s.op for s in inner_loop(lower(apply(kernel, options, t)))]
    assert (found.count("dot"), found.count("sub"), found.count("fma")) == (8, 0, (8 if weights == "bytes" else 4) - 1)
    for check in (check_floats, check_twin):
        check(kernel, options, t)
    check_compiled(kernel, options)
    alone = [s.op for s in inner_loop(lower(apply(kernel, parse("Uk32 Rk8 Pn"), t)))]
    assert alone.count("dot") == 16


@pytest.mark.parametrize(("weights", "k", "copies"), [("bytes", 896, 4), ("halves", 896, 4), ("halves", 192, 2)])
def test_rows_of_no_whole_eights_of_groups_share_it_too(weights: str, k: int, copies: int) -> None:
    """Four groups, or two, begin with it as well."""
    kernel, t, options = product(weights, 16, 1, k), named("znver4"), parse(f"Uk32 Rk{copies} Tn8 Pn")
    found = [s.op for s in inner_loop(lower(apply(kernel, options, t)))]
    assert (found.count("dot"), found.count("sub")) == (copies, 0)
    check_floats(kernel, options, t)
    check_compiled(kernel, options)


def test_rows_of_activations_are_none_that_share_it() -> None:
    """A loop over them goes around the sum, and what is taken off differs in each."""
    kernel, t, options = product("halves", 4, 16, 512), named("znver4"), parse("Uk32 Rk8 Pn")
    assert [s.op for s in inner_loop(lower(apply(kernel, options, t)))].count("dot") == 16
    check_floats(kernel, options, t)


@pytest.mark.parametrize("weights", ["bytes", "halves"])
def test_lines_are_asked_for_before_they_are_decoded(weights: str) -> None:
    """Some KB before, a request a line; not where weights stay in a cache."""
    t = named("znver4")
    for n, asked in ((2048, True), (64, False)):
        kernel = product(weights, n, 1, 1024)
        first = quick_starts(kernel, t)[0]
        found = [s for s in inner_loop(lower(apply(kernel, first, t))) if s.op == "prefetch"]
        assert len(found) == asked * (256 if weights == "bytes" else 128) // 64, short(first)
        if asked:
            read = min(
                s.mem.offset for s in inner_loop(lower(apply(kernel, first, t))) if s.op == "load" and s.mem.base == found[0].mem.base
            )
            assert found[0].mem.offset - read == 4096
    check_compiled(product(weights, 16, 1, 512), parse("Uk32 Rk8 Pn Cw/prefetch"))


def test_rows_of_weights_from_memory_come_one_after_the_other() -> None:
    for n, rows in ((1024, None), (64, 4)):
        for first in (starts(product(n=n, k=1024), named("znver4"))[0], quick_starts(product(n=n, k=1024), named("znver4"))[0]):
            assert {o.on: o.arg for o in first if o.op == "UPCAST"}.get("n") == rows
