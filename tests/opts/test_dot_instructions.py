"""TC: what it needs, what it refuses and why, and that the order of options does not matter."""

from __future__ import annotations

import random
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from checks import check_floats
from tilewright import best, named_kernels, targets
from tilewright.heuristics import estimate, starts, templates
from tilewright.ir import KernelBuilder, OptError
from tilewright.ir.dtypes import bfloat16, float32, float64, int8, int32, uint8
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import Node
from tilewright.ir.normal_form import canonical
from tilewright.ir.operators import cast
from tilewright.opts import actions, apply, dumps, nest_lines, opt, parse, short
from tilewright.opts.analysis.dot_instructions import scaled_dot
from tilewright.opts.syntax import SYNTAX
from tilewright.targets import instructions

V4 = targets.named("znver5")
SHAPE = {"m": 16, "n": 64, "k": 24}
TC = ["TC", "acc", {"n": "n", "k": "k", "row": "vpdpbusd"}]
LANES, PANEL = ["UPCAST", "n", 32], ["STAGE", "b", {"at": "m"}]
BF = ["TC", "acc", {"n": "n", "k": "k", "row": "vdpbf16ps"}]


def tc(**fields: str) -> list[Any]:
    return ["TC", "acc", {"n": "n", "k": "k", "row": "vpdpbusd", **fields}]


def matmul(dtype: str = "int8", **shape: int) -> Kernel:
    return named_kernels.make("matmul", {**SHAPE, **shape}, dtype)


def offset_k() -> Kernel:
    """A's tile goes on past the end of k: c[i, j] = Σ a[i, l + 1] b[l, j], k = 7 of 9."""
    kb = KernelBuilder("offset_k")
    i, j, l = kb.axis("m", 4), kb.axis("n", 16), kb.axis("k", 7)
    a, b = kb.input("a", (4, 9), bfloat16), kb.input("b", (7, 16), bfloat16)
    acc = kb.sum("acc", (i, j), l, a[i, l + 1] * b[l, j])
    kb.store("c", float32, (4, 16), (i, j), acc[i, j])
    return kb.build()


def wide_sum() -> Kernel:
    """A float64 beside the bytes halves the number of lanes."""
    kb = KernelBuilder("wide_sum")
    i, j, l = kb.axis("m", 4), kb.axis("n", 16), kb.axis("k", 8)
    a, b = kb.input("a", (4, 8), int8), kb.input("b", (8, 16), int8)
    acc = kb.sum("acc", (i, j), l, cast(a[i, l], int32) * cast(b[l, j], int32))
    kb.store("c", float64, (4, 16), (i, j), cast(acc[i, j], float64))
    return kb.build()


def one_depth() -> Kernel:
    """Two sums over one axis."""
    kb = KernelBuilder("one_depth")
    i, j, l = kb.axis("m", 4), kb.axis("n", 16), kb.axis("k", 8)
    a, b, v, w = kb.input("a", (4, 8), int8), kb.input("b", (8, 16), int8), kb.input("v", (8, 16), int8), kb.input("w", (4, 8), int8)
    acc = kb.sum("acc", (i, j), l, cast(a[i, l], int32) * cast(b[l, j], int32))
    also = kb.sum("also", (i, j), l, cast(w[i, l], int32) * cast(v[l, j], int32))
    kb.store("c", int32, (4, 16), (i, j), acc[i, j] - also[i, j])
    return kb.build()


def read_twice() -> Kernel:
    """A's tile is wanted as it is, too."""
    kb = KernelBuilder("read_twice")
    i, j, l, l2 = kb.axis("m", 4), kb.axis("n", 16), kb.axis("k", 8), kb.axis("k@sum", 8)
    a, b = kb.input("a", (4, 8), int8), kb.input("b", (8, 16), int8)
    acc = kb.sum("acc", (i, j), l, cast(a[i, l], int32) * cast(b[l, j], int32))
    total = kb.sum("total", (i,), l2, cast(a[i, l2], int32))
    kb.store("c", int32, (4, 16), (i, j), acc[i, j] + total[i])
    return kb.build()


REFUSED: list[tuple[Any, list[Any], str, str]] = [
    (matmul, [LANES, PANEL, tc(row="vpdpbusb")], "znver5", r"there is no instruction row 'vpdpbusb' \(znver5 has: vdpbf16ps, vpdpbusd\)"),
    (matmul, [LANES, PANEL, TC], "skylake-avx512", r"skylake-avx512 cannot execute vpdpbusd, it lacks avx512vnni \(its rows: vpmaddwd\)"),
    (matmul, [LANES, PANEL, TC], "haswell", "haswell cannot execute vpdpbusd"),
    (matmul, [LANES, PANEL, TC], "neon", "neon cannot execute vpdpbusd"),
    (matmul, [LANES, PANEL, TC], "sm_90a", "sm_90a cannot execute vpdpbusd"),
    (lambda: matmul("bfloat16"), [LANES, PANEL, BF], "cascadelake", "cascadelake cannot execute vdpbf16ps, it lacks avx512bf16"),
    (matmul, [LANES, PANEL, ["TC", "c", TC[2]]], "znver5", r"no reduction 'c' in kernel matmul \(reductions: acc\)"),
    (matmul, [LANES, PANEL, TC, TC], "znver5", "acc has a matrix instruction already"),
    (matmul, [LANES, PANEL, tc(n="k")], "znver5", "n must name one of m, n, not 'k'"),
    (matmul, [LANES, PANEL, tc(k="m")], "znver5", "k must name one of k, not 'm'"),
    (matmul, [LANES, PANEL, tc(m="n")], "znver5", "m is an axis of a alone, not n"),
    (lambda: matmul("float32"), [LANES, PANEL, TC], "znver5", "vpdpbusd multiplies uint8 or int8 by int8 into int32; here lanes hold float32"),
    (lambda: matmul("bfloat16"), [LANES, PANEL, TC], "znver5", "here lanes hold bfloat16, the other operand bfloat16, and the sum is float32"),
    (lambda: named_kernels.make("matmul_int8", SHAPE), [["UPCAST", "m", 16], ["STAGE", "a", {"at": "n"}], tc(n="m")], "znver5", "lanes hold uint8, the other operand int8"),
    (lambda: named_kernels.make("softmax", {"m": 4, "n": 32}), [["TC", "Z", {"n": "m", "k": "n", "row": "vdpbf16ps"}]], "znver5", "no reduction 'Z'"),
    (lambda: named_kernels.make("sum_rows", {"m": 16, "n": 32}, "bfloat16"), [["TC", "total", {"n": "m", "k": "n", "row": "vdpbf16ps"}]], "znver5", "total is not a sum of products"),
    (matmul, [PANEL, TC], "znver5", "lanes run along n; UPCAST it by a multiple of 16"),
    (matmul, [["UPCAST", "n", 8], PANEL, TC], "znver5", "UPCAST it by a multiple of 16"),
    (matmul, [LANES, TC], "znver5", r"it reads b from a panel of order k/4 n k%4: STAGE\(b\) with order=panel"),
    (matmul, [LANES, ["STAGE", "b", {"at": "m", "order": "row"}], TC], "znver5", "from a panel of order"),
    (matmul, [LANES, TC, ["STAGE", "b", {"at": "k"}]], "znver5", r"b must be staged outside the loops of its sum \(k is one\)"),
    (wide_sum, [["UPCAST", "n", 16], PANEL, TC], "znver5", "vectors have 8 lanes here, and the instruction 16"),
    (offset_k, [["UPCAST", "n", 16], PANEL, ["STAGE", "a", {"at": "m", "order": "row"}], BF], "znver5", "a has elements past the end of k; stage it with order=panel"),
    (read_twice, [["UPCAST", "n", 16], ["UPCAST", "m", 2], PANEL, ["STAGE", "a", {"at": "m", "order": "row"}], TC], "znver5", "total reads the tile too"),
    (one_depth, [["UPCAST", "n", 16], PANEL, TC], "znver5", "also runs over k as well, without the instruction"),
    (matmul, [LANES, PANEL, ["TC", "acc", {"n": "n", "k": "k"}]], "znver5", "missing field row"),
    (matmul, [LANES, PANEL, tc(lanes="n")], "znver5", "unknown field 'lanes'"),
]  # fmt: skip


@pytest.mark.parametrize(("kernel", "opts", "target", "reason"), REFUSED)
def test_refusals_say_why(kernel: Any, opts: list[Any], target: str, reason: str) -> None:
    with pytest.raises(OptError, match=reason):
        apply(kernel(), parse(opts), targets.named(target))


def test_the_group_is_cut_out_of_the_reduce_axis() -> None:
    s = apply(matmul(k=29), parse([LANES, PANEL, ["UNROLL", "k", 2], tc(m="m")]), V4)
    nest = s.nests[0]
    assert [(p.name, p.trips, p.stride) for p in (*s.loops(nest), *s.registers(nest)) if p.axis in nest.reduce_axes] == [
        ("k", 4, 8),
        ("k.r", 2, 4),
        ("k.d", 4, 1),
    ]
    assert [(p.name, st) for p, st in s.stages["b"].parts] == [("n", 1024), ("k", 256), ("k.r", 128), ("n.u", 4), ("k.d", 1)]
    # a group is filled up with zeros: that is no extra work
    apply(matmul(k=5), parse([LANES, PANEL, TC]), V4)


def test_the_order_of_options_does_not_matter() -> None:
    opts = [LANES, PANEL, TC, ["UPCAST", "m", 4], ["TILE", "k", 8]]
    hashes = {apply(matmul(), parse(list(p)), V4).hash for p in random.Random(1).sample(list(permutations(opts)), 12)}
    assert len(hashes) == 1
    assert hashes != {apply(matmul(), parse([o for o in opts if o is not TC]), V4).hash}


def test_effects_and_short_form() -> None:
    assert apply(matmul(), parse([LANES, PANEL, TC]), V4).effects == frozenset()
    assert apply(matmul("bfloat16"), parse([LANES, PANEL, BF]), V4).effects == {"REASSOC"}
    o = opt("TC", "acc", m="m", n="n", k="k", row="vpdpbusd")
    assert short([o]) == "TCacc:vpdpbusd/m/n/k" and parse(dumps([o])) == (o,) and parse([tc(m="")]) == parse([TC])


def test_canonical_names_and_back() -> None:
    kernel = matmul("bfloat16")
    listed = [["TC", "acc", {"k": "k", "m": "m", "n": "n", "row": "vdpbf16ps"}], ["TC", "acc", {"k": "k", "n": "n", "row": "vdpbf16ps"}]]
    names = canonical(kernel)
    there = names.to_canonical(listed, SYNTAX)
    assert there[0][1].startswith("v") and all(there[0][2][f].startswith("a") for f in "mnk") and there[0][2]["row"] == "vdpbf16ps"
    assert names.from_canonical(there, SYNTAX) == listed


ROWS = [
    ("matmul_int8", "uint8", "cascadelake"),
    ("matmul", "int8", "cascadelake"),
    ("matmul", "int8", "alderlake"),
    ("matmul_mixed", "bfloat16", "znver5"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dtype", "target"), [*ROWS, ("matmul_tn", "int8", "znver5"), ("batched_matmul", "bfloat16", "znver5")])
def test_start_schedules_take_the_instruction_and_the_model_knows_its_worth(name: str, dtype: str, target: str) -> None:
    big = {"m": 512, "n": 512, "k": 512} | ({"b": 2} if name == "batched_matmul" else {})
    kernel, t = named_kernels.make(name, big, dtype), targets.named(target)
    first = starts(kernel, t, 2)[0]
    assert any(o.op == "TC" for o in first)
    without = tuple(o for o in first if o.op != "TC")
    fast, slow = estimate(apply(kernel, first, t), 2), estimate(apply(kernel, without, t), 2)
    # four products a lane and step against one (two, at half the rate, in bfloat16)
    assert fast < (0.5 if dtype != "bfloat16" else 0.9) * slow


@pytest.mark.parametrize("target", ["neon", "x86-64-v2"])
def test_targets_without_rows_are_left_alone(target: str) -> None:
    kernel, t = named_kernels.make("matmul", {"m": 256, "n": 256, "k": 256}, "int8"), targets.named(target)
    found = starts(kernel, t, 2)
    assert not any(o.op == "TC" for s in found for o in s)
    assert "tc" not in next(x for x in templates(kernel, t, 2) if x.name == "contraction").params
    assert not any(o.op == "TC" for a in actions(apply(kernel, (), t)) for o in a)


@pytest.mark.parametrize(
    ("name", "dtype", "shape"),
    [("matmul_int8", "uint8", {"m": 8, "n": 37, "k": 12}), ("attention", "bfloat16", {"b": 1, "h": 2, "s": 32, "d": 16})],
)
def test_actions_propose_it_with_what_it_needs(name: str, dtype: str, shape: dict[str, int]) -> None:
    s = apply(named_kernels.make(name, shape, dtype), (), V4)
    found = [a for a in actions(s) if any(o.op == "TC" for o in a)]
    assert found and all([o.op for o in a if o.op != "PADTO"] == ["UPCAST", "STAGE", "TC"] for a in found)


def test_the_template_has_it_as_a_choice() -> None:
    kernel = named_kernels.make("matmul", {"m": 256, "n": 256, "k": 256}, "int8")
    t = next(x for x in templates(kernel, V4, 2) if x.name == "contraction")
    choice = {"mr": 6, "nv": 2, "nb": 64, "kc": 0, "rows": 0, "mc": 0, "pack": 1, "pack_tall": 0, "unroll": 1}
    assert t.params["tc"] == (0, 1)
    assert [any(o.op == "TC" for o in apply(kernel, t.make({**choice, "tc": n}), V4).opts) for n in (0, 1)] == [False, True]


def test_listings_name_the_instruction() -> None:
    lines = nest_lines(apply(matmul(), parse([LANES, PANEL, TC]), V4))
    assert any(line.detail == "by vpdpbusd, with 128 added to a" for line in lines) and any(
        line.label == "k.d" and line.kind == "dot" for line in lines
    )


def test_a_row_is_all_that_an_instruction_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A made-up instruction: same semantics as vpdpbusd under another name is legal, planned and in start schedules."""
    from dataclasses import replace

    row = replace(instructions.BY_NAME["vpdpbusd"], name="made_up", flag="avx512")
    monkeypatch.setattr(instructions, "ROWS", (row,))
    monkeypatch.setattr(instructions, "BY_NAME", {**instructions.BY_NAME, "made_up": row})
    t = targets.named("skylake-avx512")
    kernel = named_kernels.make("matmul_int8", {"m": 256, "n": 256, "k": 256})
    assert any(o.op == "TC" and o.fields["row"] == "made_up" for o in starts(kernel, t, 2)[0])


SHIFTS: dict[str, tuple[Any, bool]] = {
    "pairs": (lambda k, w: (w[k // 2] >> (cast(k % 2, int32) * 4)) & 15, True),
    "halves": (lambda k, w: (w[k % 16] >> (cast(k // 16 % 2, int32) * 4)) & 15, True),
    "every place": (lambda k, w: w[k] >> cast(k % 8, int32), True),
    "past a byte": (lambda k, w: w[k] >> cast(k % 9, int32), False),
    "all of it": (lambda k, w: w[k] >> 8, False),
}
"""Bits of weights that lie beside each other in different ways, and whether bytes hold them."""


@pytest.mark.parametrize("name", SHIFTS)
def test_bits_are_shifted_lane_by_lane_where_counts_differ(name: str) -> None:
    bits, in_bytes = SHIFTS[name]
    kb = KernelBuilder("shifted")
    j, k = kb.axis("n", 2), kb.axis("k", 64)
    w, x, d = kb.input("w", (64,), uint8), kb.input("x", (2, 64), int8), kb.input("d", (2,), float32)

    class Bytes:
        def __getitem__(self, at: Node) -> Node:
            return cast(w[at], int32)

    product = cast(bits(k, Bytes()) * cast(x[j, k], int32), float32)
    kb.store("y", float32, (2,), (j,), kb.sum("total", (j,), k, product * d[k // 32])[j])
    kernel, target = kb.build(), targets.named("cascadelake")
    s = apply(kernel, parse("Uk32"), target)
    (nest,) = [n for n in s.nests if n.kind == "reduce"]
    assert (scaled_dot(target, nest, nest.reduce_axes[0]) is not None) == in_bytes
    check_floats(kernel, s.opts, target)


def test_products_of_two_floats_are_scaled_before_they_are_added() -> None:
    kb = KernelBuilder("twice")
    j, k = kb.axis("n", 1), kb.axis("k", 64)
    w, x, y, d = kb.input("w", (64,), int8), kb.input("x", (64,), float32), kb.input("y", (64,), float32), kb.input("d", (2,), float32)
    total = kb.sum("total", (j,), k, cast(w[k], float32) * x[k] * d[k // 32] * y[k])
    kb.store("z", float32, (1,), (j,), total[j])
    small = np.full(64, 1e-25, np.float32)
    found = best(kb.build(), opts="Uk32", threads=1)(np.ones(64, np.int8), small, small, np.full(2, 1e30, np.float32))
    np.testing.assert_allclose(np.asarray(found), [64e-20], rtol=1e-5)
