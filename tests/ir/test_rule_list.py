"""The rules of the normal form: each has an example, stops, and the list reaches a fixed point on random kernels."""

import odd_kernels
import pytest
from hypothesis import given, settings
from random_values import random_kernels
from tilewright import kernels
from tilewright.ir import KernelBuilder, cast, exp, float32, int32, maximum, uint8, uint32, where
from tilewright.ir.normal_form import RULES, applied, normalise

ODD = {n: make(*sizes) for n, (make, sizes) in odd_kernels.KERNELS.items()}
EVERY = {n: kernels.get(n).kernel(kernels.get(n).odd_shape) for n in kernels.NAMES} | ODD


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


def repeated_exponential():
    kb = KernelBuilder("repeated")
    i, s, o = kb.axis("m", 8), kb.axis("n@sum", 64), kb.axis("n@out", 64)
    x = kb.input("x", (8, 64), float32)
    total = kb.sum("total", (i,), s, exp(x[i, s]))
    kb.store("y", float32, (8, 64), (i, o), exp(x[i, o]) / total[i])
    return kb.build()


EXAMPLES = {
    "drop unread values": unread,
    "drop axes of extent 1, fold constants": lambda: kernels.make("matvec", {"m": 8, "n": 1}),
    "separate families": all_pairs,
    "merge axes": lambda: kernels.make("add", {"m": 8, "n": 8}),
    "extremes by rows": lambda: pointwise(
        lambda i, j, x: maximum(maximum(maximum(x[i, j], x[i + 1, j]), x[i, j + 1]), x[i + 1, j + 1]), ("x", float32), shape=(8, 8)
    ),
    "mask weights": one_mask,
    "split by parity": lambda: pointwise(lambda i, a, b: where((i % 2).eq(0), a[i // 2], b[i // 2]), ("a", float32), ("b", float32)),
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
