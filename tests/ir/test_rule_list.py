"""The rules of the normal form: each has an example, stops, and the list reaches a fixed point on random kernels."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import reduce

import numpy as np
import odd_kernels
import pytest
from checks import check_compiled, check_floats
from hypothesis import given, settings
from random_values import random_kernels
from tilewright import named_kernels, targets
from tilewright.heuristics import starts
from tilewright.ir import KernelBuilder, Node, absolute, cast, clip, dtype, exp, float32, int32, maximum, minimum, uint8, uint32, where
from tilewright.ir.dtypes import DType
from tilewright.ir.evaluation import evaluate
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import walk
from tilewright.ir.normal_form import RULES, applied, normalise
from tilewright.ir.normal_form.axis_rules import separate_families
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.plan import best
from tilewright.program.program import Instr, statements
from tilewright.targets import named

ODD = {n: make(*sizes) for n, (make, sizes) in odd_kernels.KERNELS.items()}
EVERY = {n: named_kernels.get(n).kernel(named_kernels.get(n).odd_shape) for n in named_kernels.NAMES} | ODD


def pointwise(expression, *inputs, shape=(64,), dtype=float32):
    """A kernel that stores an expression of axes and inputs (names and types) of one shape, padded by 8."""
    kb = KernelBuilder("pointwise")
    axes = [kb.axis(f"n{d}", size) for d, size in enumerate(shape)]
    read = [kb.input(name, [size + 8 for size in shape], t, range=(0, 255) if t.is_int else None) for name, t in inputs]
    kb.store("y", dtype, shape, axes, expression(*axes, *read))
    return kb.build()


def unread():
    kb = KernelBuilder("unread")
    i, j = kb.axis("m", 8), kb.axis("n", 9)
    x = kb.input("x", (8, 9), float32)
    kb.sum("t", (i,), j, x[i, j])
    kb.store("y", float32, (8,), (i,), x[i, 0])
    return kb.build()


def all_pairs():
    kb = KernelBuilder("pairs")
    i, j = kb.axis("n", 8), kb.axis("n@j", 8)
    x = kb.input("x", (8,), float32)
    total = kb.sum("total", (i,), j, x[i] * x[j])
    kb.store("y", float32, (8,), (i,), total[i])
    return kb.build()


def one_mask():
    kb = KernelBuilder("one_mask")
    i, at, top, p, s = kb.axis("row", 8), *(kb.axis(f"key@{site}", 8) for site in ("at", "top", "p", "sum"))
    x = kb.input("x", (8, 8), float32)
    score = kb.block_value("score", (i, at), where(at <= i, x[i, at], float("-inf")))
    M = kb.block_reduce("max", "M", (i,), top, score[i, top])
    P = kb.block_value("P", (i, p), exp(score[i, p] - maximum(M[i], -3e38)))
    L = kb.block_reduce("add", "L", (i,), s, P[i, s])
    best = maximum(kb.lhs(M), kb.rhs(M))
    moved = [exp(maximum(m, -3e38) - maximum(best, -3e38)) for m in (kb.lhs(M), kb.rhs(M))]
    merge = (best, kb.lhs(L) * moved[0] + kb.rhs(L) * moved[1])
    kb.fold("state", kb.axis("key", 8), (score, M, P, L), (M, L), (float("-inf"), 0.0), merge)
    kb.store("y", float32, (8,), (i,), L[i])
    return kb.build()


def counted_bits(x):
    x = x - ((x >> 1) & 0x55555555)
    x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
    return (((x + (x >> 4)) & 0x0F0F0F0F) * 0x01010101) >> 24


def sum_of_pixels():
    kb = KernelBuilder("pixels")
    i, k = kb.axis("n", 64), kb.axis("k", 9)
    x = kb.input("x", (72,), uint8, range=(0, 255))
    total = kb.sum("total", (i,), k, cast(x[i + k], int32))
    kb.store("y", float32, (64,), (i,), cast(total[i], float32))
    return kb.build()


def spaced_taps():
    kb = KernelBuilder("spaced")
    i, k = kb.axis("n", 16), kb.axis("k", 4)
    x, w = kb.input("x", (8,), float32), kb.input("w", (4,), float32)
    there = ((i - k) % 2).eq(0) & (i >= k)
    total = kb.sum("total", (i,), k, x.masked(there, (i - k) // 2) * w[k])
    kb.store("y", float32, (16,), (i,), total[i])
    return kb.build()


def diagonal_product(places=8):
    kb = KernelBuilder("diagonal")
    i, k, j = kb.axis("m", places), kb.axis("k", 8), kb.axis("n", 8)
    x, w = kb.input("x", (8,), float32), kb.input("w", (8, 8), float32)
    total = kb.sum("total", (i, j), k, where(k.eq(i), x[k], 0.0) * w[k, j])
    kb.store("y", float32, (places, 8), (i, j), total[i, j])
    return kb.build()


def repeated_exponential():
    kb = KernelBuilder("repeated")
    i, s, o = kb.axis("m", 8), kb.axis("n@sum", 64), kb.axis("n@out", 64)
    x = kb.input("x", (8, 64), float32)
    total = kb.sum("total", (i,), s, exp(x[i, s]))
    kb.store("y", float32, (8, 64), (i, o), exp(x[i, o]) / total[i])
    return kb.build()


def products_in_groups():
    kb = KernelBuilder("products_in_groups")
    i, k = kb.axis("i", 32), kb.axis("k", 64)
    x, w = kb.input("x", (4, 64), float32), kb.input("w", (32, 64), float32)
    total = kb.sum("total", (i,), k, x[i // 8, k] * w[i, k])
    kb.store("y", float32, (32,), (i,), total[i] + 1.0)
    return kb.build()


def pixels_as_rows(product=False):
    """The pixels of two images are the rows of a matrix, which is stored, or multiplied."""
    kb = KernelBuilder("pixels_as_rows")
    i, c, k = kb.axis("i", 2 * 13 * 11), kb.axis("c", 3), kb.axis("k", 4)
    x, w = kb.input("x", (2, 3, 13, 11), float32), kb.input("w", (3, 4), float32)
    pixel = i // 143, i // 11 % 13, i % 11
    if product:
        total = kb.sum("total", (i, k), c, x[pixel[0], c, pixel[1], pixel[2]] * w[c, k])
        kb.store("y", float32, (286, 4), (i, k), total[i, k])
    else:
        kb.store("y", float32, (286, 3), (i, c), x[pixel[0], c, pixel[1], pixel[2]] + 1.0)
    return kb.build()


EXAMPLES = {
    "drop unread values": unread,
    "drop axes of extent 1, fold constants": lambda: named_kernels.make("matvec", {"m": 8, "n": 1}),
    "separate families": all_pairs,
    "sums of one term": diagonal_product,
    "merge axes": lambda: named_kernels.make("add", {"m": 8, "n": 8}),
    "extremes by rows": lambda: pointwise(
        lambda i, j, x: maximum(maximum(maximum(x[i, j], x[i + 1, j]), x[i, j + 1]), x[i + 1, j + 1]), ("x", float32), shape=(8, 8)
    ),
    "mask weights": one_mask,
    "split by residue": spaced_taps,
    "split by parity": lambda: pointwise(lambda i, a, b: where((i % 2).eq(0), a[i // 2], b[i // 2]), ("a", float32), ("b", float32)),
    "join dimensions": pixels_as_rows,
    "split flattened axes": products_in_groups,
    "count bits": lambda: pointwise(lambda i, x: counted_bits(x[i]), ("x", uint32), dtype=uint32),
    "narrow sums": sum_of_pixels,
    "narrow integers": lambda: pointwise(
        lambda i, a, b: cast((cast(a[i], int32) + cast(b[i], int32)) >> 1, uint8), ("a", uint8), ("b", uint8), dtype=uint8
    ),
    "name windowed values": lambda: pointwise(lambda i, x: exp(x[i]) + exp(x[i + 1]), ("x", float32)),
    "name repeated values": repeated_exponential,
}


def test_rules_have_names_and_examples_of_their_own():
    assert [r.name for r in RULES] == list(EXAMPLES)
    assert all(r.before != r.after and r.stops for r in RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_a_rule_applies_to_its_example_and_stops(rule):
    kernel = EXAMPLES[rule.name]()
    fired = dict.fromkeys(r.name for r, _ in applied(kernel))
    assert rule.name in fired
    normal = normalise(kernel)
    assert rule.apply(normal) is normal


@pytest.mark.parametrize(("places", "axes"), [(8, 0), (5, 0), (9, 1)])
def test_a_sum_of_one_term_is_that_term_where_it_is_there_for_certain(places, axes):
    kernel = diagonal_product(places)
    normal = normalise(kernel)
    assert sum(len(v.reduce_axes) for v in normal.values.values()) == axes
    given = {b.name: np.random.default_rng(1).standard_normal([int(n) for n in b.shape]).astype(np.float32) for b in kernel.inputs}
    (a,), (b,) = evaluate(kernel, given).values(), evaluate(normal, given).values()
    np.testing.assert_array_equal(a, b.reshape(a.shape))


@pytest.mark.parametrize("product", [False, True])
def test_images_whose_pixels_are_rows_are_read_without_divisions(product):
    kernel = pixels_as_rows(product)
    normal = normalise(kernel)
    assert not [n for n in walk(*normal.expressions()) if n.op in ("div", "mod")]
    given = {b.name: np.random.default_rng(1).standard_normal([int(n) for n in b.shape]).astype(np.float32) for b in kernel.inputs}
    joined = {b.name: given[b.name].reshape([int(n) for n in b.shape]) for b in normal.inputs}
    (a,), (b,) = evaluate(kernel, given).values(), evaluate(normal, joined).values()
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", EVERY)
def test_a_normal_form_is_its_own(name):
    assert not list(applied(normalise(EVERY[name])))


@pytest.mark.slow
@given(random_kernels())
@settings(max_examples=60, deadline=None)
def test_the_list_reaches_a_fixed_point_on_random_kernels(kernel):
    normal = normalise(kernel)
    assert not list(applied(normal))
    for rule, made in applied(kernel):
        assert made is not kernel and (rule.again or rule.apply(made) is made)


# Axes of one family that meet in one nest are of two families in the normal form.


def flock(n: int = 12) -> Kernel:
    """Two sums over all pairs of one set, and what is made of them."""
    kb = KernelBuilder("flock")
    i, j, k = kb.axis("n", n), kb.axis("n@many", n), kb.axis("n@middle", n)
    x = kb.input("x", (n,), float32)
    many = kb.sum("many", (i,), j, where((x[i] - x[j]) ** 2 < 1.0, 1.0, 0.0))
    middle = kb.sum("middle", (i,), k, x[k] - x[i])
    kb.store("y", float32, (n,), (i,), middle[i] / many[i])
    return kb.build()


def families(kernel: Kernel) -> dict[str, set[str]]:
    out: dict[str, set[str]] = {}
    for a in kernel.axes:
        out.setdefault(a.arg.family, set()).add(a.arg.name)
    return out


def test_rows_and_columns_of_all_pairs_are_two_families() -> None:
    assert families(separate_families(flock())) == {"n": {"n"}, "n2": {"n2@many", "n2@middle"}}
    x = np.random.default_rng(0).normal(size=12).astype(np.float32)
    (a,), (b,) = (evaluate(k, {"x": x}).values() for k in (flock(), normalise(flock())))
    np.testing.assert_allclose(a, b)


def test_lanes_of_rows_are_not_copies_of_columns() -> None:
    s = apply(normalise(flock()), parse([["UPCAST", "n", 4], ["PARALLEL", "n"], ["FUSE", "n2"]]), named("avx2"))
    assert {p.axis.arg.family for n in s.nests for p in s.registers(n)} == {"n"}
    assert [p.axis.arg.family for p in s.grid] == ["n"]


def test_what_references_tie_stays_together() -> None:
    kb = KernelBuilder("attention")
    i, j, t, o = kb.axis("s", 8), kb.axis("s@dot", 8), kb.axis("s@total", 8), kb.axis("s@out", 8)
    x = kb.input("x", (8,), float32)
    p = kb.value("p", (i, j), exp(x[i] * x[j]))
    total = kb.sum("total", (i,), t, p[i, t])
    kb.store("y", float32, (8, 8), (i, o), p[i, o] / total[i])
    assert families(separate_families(kb.build())) == {"s": {"s"}, "s2": {"s2@dot", "s2@total", "s2@out"}}


def test_sites_that_do_not_meet_stay_one_family_and_names_are_free() -> None:
    kb = KernelBuilder("softmax")
    i, a, b, o = kb.axis("m", 4), kb.axis("n@max", 8), kb.axis("n@sum", 8), kb.axis("n", 8)
    x = kb.input("x", (4, 8), float32)
    top = kb.max("top", (i,), a, x[i, a])
    total = kb.sum("total", (i,), b, exp(x[i, b] - top[i]))
    kb.store("y", float32, (4, 8), (i, o), exp(x[i, o] - top[i]) / total[i])
    kernel = kb.build()
    assert separate_families(kernel) is kernel
    kb = KernelBuilder("taken")
    i, j = kb.axis("n", 8), kb.axis("n@sum", 8)
    n2 = kb.input("n2", (8,), float32)
    kb.store("y", float32, (8,), (i,), kb.sum("n3", (i,), j, n2[i] * n2[j])[i])
    assert families(separate_families(kb.build())) == {"n": {"n"}, "n4": {"n4@sum"}}


# An axis whose points are told apart by parity becomes groups and places; what cannot be split stays.


F = dtype("float32")


def interleaved(n: int = 96, size: int = 2, rows: int = 3) -> Kernel:
    """The elements of `size` arrays by turns."""
    kb = KernelBuilder("interleaved")
    r, i = kb.axis("m", rows), kb.axis("n", n)
    x = [kb.input(f"x{c}", (rows, -(-n // size) + 1), F) for c in range(size)]
    out = x[-1][r, i // size + 1]
    for c in range(size - 1):
        out = where((i % size).eq(c), x[c][r, i // size] / 3.0, out)
    kb.store("y", F, (rows, n), (r, i), out)
    return kb.build()


@pytest.mark.parametrize("size", [2, 3, 4])
def test_it_is_split_and_equal(size: int) -> None:
    kernel = interleaved(size=size)
    found = normalise(kernel)
    assert [a.arg.extent for a in found.stores[0].axes] == [3, 96 // size, size]
    assert normalise(found) is found
    x = {f"x{c}": np.random.default_rng(c).standard_normal((3, 96 // size + 1)).astype(np.float32) for c in range(size)}
    np.testing.assert_array_equal(evaluate(found, x)["y"], evaluate(kernel, x)["y"])


def test_a_start_schedule_joins_it() -> None:
    kernel, target = normalise(interleaved()), targets.named("cascadelake")
    program = lower(apply(kernel, starts(kernel, target)[0], target))
    ops = [s.op for p in program.phases for s in statements(p.body) if isinstance(s, Instr)]
    assert "shuffle" in ops and {"gather", "scatter", "select"}.isdisjoint(ops)


def test_what_is_not_split() -> None:
    assert len(normalise(interleaved(n=97)).stores[0].axes) == 2  # a last group is not whole
    kb = KernelBuilder("two")
    i = kb.axis("n", 96)
    x = kb.input("x", (96,), F)
    kb.store("y", F, (96,), (i,), where((i % 2).eq(0), x[i], where((i % 3).eq(0), x[i] * 2.0, 1.0)))
    assert len(normalise(kb.build()).stores[0].axes) == 1


# Bits that are counted by shifts and masks are `popcount`.


WAYS: dict[str, Callable[[Node, int], Node]] = {}


def fields(value: int, every: int, bits: int) -> int:
    return sum(value << at for at in range(0, bits, every))


def way(f: Callable[[Node, int], Node]) -> Callable[[Node, int], Node]:
    WAYS[f.__name__] = f
    return f


@way
def multiplied(v: Node, bits: int) -> Node:
    v = v - ((v >> 1) & fields(1, 2, bits))
    v = (v & fields(3, 4, bits)) + ((v >> 2) & fields(3, 4, bits))
    return (((v + (v >> 4)) & fields(15, 8, bits)) * fields(1, 8, bits)) >> (bits - 8)


@way
def added(v: Node, bits: int) -> Node:
    v = (fields(1, 2, bits) & (v >> 1)) + (v & fields(1, 2, bits))
    v = ((v >> 2) & fields(3, 4, bits)) + (v & fields(3, 4, bits))
    v = (v & fields(15, 8, bits)) + ((v >> 4) & fields(15, 8, bits))
    for distance in (8, 16, 32):
        v = v + (v >> distance) if distance < bits else v
    return v & (2 * bits - 1)


def kernel(f: Callable[[Node], Node], kind: str) -> Kernel:
    kb = KernelBuilder("k")
    i, x = kb.axis("n", 64), kb.input("x", (64,), dtype(kind), range=None)
    kb.store("y", dtype(kind), (64,), (i,), f(x[i] ^ 5))
    return kb.build()


def counts(k: Kernel) -> bool:
    return any(n.op == "popcount" for n in walk(normalise(k).stores[0].expr))


@pytest.mark.parametrize("kind", ["int32", "uint32", "uint64"])
@pytest.mark.parametrize("name", WAYS)
def test_counts_are_found_and_equal(name: str, kind: str) -> None:
    k = kernel(lambda v: WAYS[name](v, 8 * dtype(kind).size), kind)
    assert counts(k) and normalise(normalise(k)) is normalise(k)
    ends = np.iinfo(kind)
    x = np.random.default_rng(0).integers(ends.min, ends.max, 64, kind, endpoint=True)
    x[:4] = np.array([ends.min, ends.max, 0, 5], kind)
    np.testing.assert_array_equal(evaluate(normalise(k), {"x": x})["y"], evaluate(k, {"x": x})["y"])


@pytest.mark.parametrize(("bits", "kind"), [(32, "uint64"), (30, "int32")])
def test_counts_of_other_widths_stay(bits: int, kind: str) -> None:
    assert not any(counts(kernel(lambda v, f=f: f(v, bits), kind)) for f in WAYS.values())


def test_a_wrong_mask_stays() -> None:
    def wrong(v: Node) -> Node:
        v = v - ((v >> 1) & 0x55555551)
        v = (v & 0x33333333) + ((v >> 2) & 0x33333333)
        return (((v + (v >> 4)) & 0x0F0F0F0F) * 0x01010101) >> 24

    assert not counts(kernel(wrong, "int32"))


# Extremes of windows that are written out become extremes of rows.


H, W = 13, 46


def written_out(dtype: DType, by_columns: bool = False, size: bool = False, inside: bool = False) -> Kernel:
    """The largest less the smallest of 3 × 3 neighbours, one after the other; clamped unless `inside`."""
    kb = KernelBuilder("written_out")
    i, j = kb.axis("h", H), kb.axis("w", W)
    x = kb.input("x", (H + 2, W + 2) if inside else (H, W), dtype)
    places = [(q, p) if by_columns else (p, q) for p, q in itertools.product((-1, 0, 1), repeat=2)]
    found = [x[i + p + 1, j + q + 1] if inside else x[clip(i + p, 0, H - 1), clip(j + q, 0, W - 1)] for p, q in places]
    top = reduce(maximum, [absolute(e) if size else e for e in found])
    kb.store("y", dtype, (H, W), (i, j), top - reduce(minimum, found))
    return kb.build()


def operations(kernel: Kernel, opts: str) -> int:
    """Extremes of vectors that a schedule takes inside."""
    program = lower(apply(kernel, parse(opts), targets.named("v4")))
    found = [s for p in program.phases for s in statements(p.body) if isinstance(s, Instr)]
    return sum(s.op in ("max", "min") and s.result.lanes > 1 for s in found)


def depth(n: Node) -> int:
    return 1 + max((depth(s) for s in n.src if s.op == n.op), default=0)


@pytest.mark.parametrize("size", [False, True])
@pytest.mark.parametrize("by_columns", [False, True])
def test_rows_come_first(by_columns: bool, size: bool) -> None:
    kernel = normalise(written_out(uint8 if not size else float32, by_columns, size))
    top, low = kernel.stores[0].expr.src if kernel.stores[0].expr.op == "sub" else (None, None)
    assert top is not None and low is not None and depth(top) == depth(low) == 4, "three elements, and three rows"
    assert normalise(kernel) is kernel


def test_rows_side_by_side_share_the_rows_of_their_windows() -> None:
    """Of four results: six rows of two operations and four times two, for both extremes; one by one four times sixteen."""
    kernel = normalise(written_out(uint8, inside=True))
    wide, rows = (operations(kernel, o) for o in ("Uw16", "Uw16 Uh4"))
    assert rows < 4 * wide * 0.8, "one row of results is left over"


def test_a_part_with_another_reader_stays() -> None:
    """What a network of extremes reads twice is no part of a chain."""
    kb = KernelBuilder("network")
    i, j = kb.axis("h", H), kb.axis("w", W)
    x = kb.input("x", (H + 1, W + 3), float32)
    part = maximum(maximum(x[i, j], x[i + 1, j]), x[i, j + 1])
    kb.store("y", float32, (H, W), (i, j), maximum(maximum(part, x[i + 1, j + 1]), x[i, j + 2]))
    kb.store("z", float32, (H, W), (i, j), part)
    kernel = kb.build()
    assert list(normalise(kernel).expressions()) == list(kernel.expressions())


@pytest.mark.parametrize("opts", ["(none)", "Uw16", "Uw16 Uh4"])
def test_results_stay_what_they_are(opts: str) -> None:
    for kernel in (written_out(uint8), written_out(float32, size=True)):
        check_compiled(kernel, parse(opts))
    check_floats(written_out(float32), parse(opts), targets.named("avx2"))


def test_what_is_no_number_is_the_extreme() -> None:
    x = np.random.default_rng(3).standard_normal((H, W)).astype(np.float32)
    x[4, 5], x[0, 0], x[12, 36] = np.nan, np.inf, np.nan
    got = best(written_out(float32), opts=parse("Uw16 Uh4"), threads=1)(x)
    p = np.pad(x, 1, mode="edge")
    parts = np.stack([p[a : a + H, b : b + W] for a in range(3) for b in range(3)])
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(got, parts.max(0) - parts.min(0))


def test_long_chains_are_no_recursion() -> None:
    kb = KernelBuilder("long")
    i, j = kb.axis("h", 3), kb.axis("w", 4)
    x = kb.input("x", (43, 64), float32)
    kb.store("y", float32, (3, 4), (i, j), reduce(maximum, (x[i + p, j + q] for q in range(60) for p in range(40))))
    assert depth(normalise(kb.build()).stores[0].expr) < 40 + 60
