"""Weights of masked scores get the mask in the normal form, and no value changes by it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from plain_attention import plain
from tilewright import named_kernels
from tilewright.ir import KernelBuilder, exp, float32, maximum, where
from tilewright.ir.body import Fold
from tilewright.ir.cost import cost
from tilewright.ir.evaluation import evaluate
from tilewright.ir.kernel import Kernel
from tilewright.ir.normal_form import canonical, normalise
from tilewright.ir.normal_form.masked_weights import mask_weights
from tilewright.ir.skipped_tiles import conditions, skip_conditions, threshold
from tilewright.measure.inputs import generate_special

SHAPE = {"b": 1, "h": 2, "s": 22, "d": 4}


def skipped(kernel: Kernel) -> int:
    """How many conditions let tiles of the normal form be skipped."""
    return len(skip_conditions(next(i for i in normalise(kernel).body if isinstance(i, Fold))))


def window(i, j):
    return (j <= i) & (j > i - 5)


def before(i, j):
    return j < i


@pytest.mark.parametrize("how", [{}, {"filled": True}], ids=str)
def test_one_mask_is_the_same_kernel_as_two(how: dict[str, Any]) -> None:
    one, two = plain(**how), named_kernels.make("attention", SHAPE, "float32")
    assert canonical(one).hash == canonical(two).hash
    assert cost(normalise(one)) == cost(two)
    assert normalise(normalise(one)) is normalise(one)


def test_named_kernels_stay_as_they_are() -> None:
    """Their weights are masked as they are written: nothing cached for them changes."""
    for name in ("attention", "attention_window", "attention_grouped", "attention_lse", "attention_dq", "attention_dkv"):
        kernel = named_kernels.make(name)
        assert mask_weights(kernel) is kernel


@pytest.mark.parametrize(
    ("how", "count"),
    [
        ({}, 1),
        ({"finite": False}, 1),  # every query sees key 0
        ({"seen": window}, 2),
        ({"seen": window, "finite": False}, 2),  # and itself
        ({"seen": before}, 1),
        ({"seen": before, "finite": False}, 0),  # the first query sees none: its weights are NaN, and stay so
        ({"otherwise": -1e30}, 0),  # where all keys of a tile are masked, exp(−1e30 + 1e30) is 1
        ({"otherwise": 0.0}, 0),
    ],
)
def test_what_is_recognised(how: dict[str, Any], count: int) -> None:
    assert skipped(plain(**how)) == count


def softmax_like(weight, use) -> Kernel:
    """y[i] = Σ use(weight) over j, with a causal mask."""
    kb = KernelBuilder("k")
    i, j, j2, j3 = kb.axis("m", 9), *(kb.axis(f"n@{s}", 9) for s in ("max", "p", "sum"))
    x = kb.input("x", (9, 9), float32)

    def score(c):
        return where(c <= i, x[i, c], float("-inf"))

    top = kb.block_reduce("max", "M", (i,), j, score(j))
    p = kb.block_value("P", (i, j2), weight(score(j2), top[i], x[i, j2]))
    total = kb.block_reduce("add", "L", (i,), j3, use(p[i, j3], x[i, j3]))
    new = where(kb.lhs(top) < kb.rhs(top), kb.rhs(top), kb.lhs(top))
    merge = (new, kb.lhs(total) * exp(kb.lhs(top) - new) + kb.rhs(total) * exp(kb.rhs(top) - new))
    kb.fold("f", kb.axis("n", 9), (top, p, total), (top, total), (float("-inf"), 0.0), merge)
    kb.store("y", float32, (9,), (i,), total[i])
    return kb.build()


@pytest.mark.parametrize(
    ("weight", "use", "count"),
    [
        (lambda s, m, x: exp(s - m), lambda p, x: p, 1),
        (lambda s, m, x: exp(s - m), lambda p, x: x * p, 1),
        (lambda s, m, x: exp(s - m), lambda p, x: p + x, 0),  # the sum reads more than weights
        (lambda s, m, x: exp(s - m), lambda p, x: where(p > 0.5, p, x), 0),  # NaN would choose x
        (lambda s, m, x: exp(s - x), lambda p, x: p, 0),  # not the maximum: exp(−∞ + ∞) may be NaN where nothing else is
        (lambda s, m, x: exp(s - m) * x, lambda p, x: p, 0),
    ],
)
def test_only_weights_that_sums_read(weight, use, count: int) -> None:
    assert skipped(softmax_like(weight, use)) == count


@pytest.mark.parametrize(
    "how",
    [{}, {"finite": False}, {"filled": True}, {"seen": window, "finite": False}, {"seen": before}],
    ids=["plain", "infinite", "filled", "window", "before"],
)
@pytest.mark.parametrize("seed", range(6))
def test_no_value_changes(how: dict[str, Any], seed: int) -> None:
    """On NaN, infinities, zeros of both signs and the largest numbers too, in whole rows of scores as well."""
    kernel = plain(**how)
    changed = normalise(kernel)
    assert changed is not kernel
    inputs = generate_special(kernel, {}, seed)
    if seed >= 3:
        rng = np.random.default_rng(seed)
        inputs = {t: rng.standard_normal((1, 2, 22, 4)).astype(np.float32) for t in "qkv"}
        for t, value in zip("qkv", (np.nan, np.inf, -np.inf), strict=True):
            inputs[t][0, 0, 11 + rng.integers(0, 11, 2), rng.integers(0, 4, 2)] = value
        inputs["k"][0, 1], inputs["q"][0, 1] = np.inf, -1.0  # every score is −∞
    shaped = {b.name: inputs[b.name].reshape(b.shape) for b in changed.inputs}
    with np.errstate(all="ignore"):
        want, got = evaluate(kernel, inputs)["y"], evaluate(changed, shaped)["y"]
    assert np.isnan(want).any() and (seed < 3 or np.isfinite(want).any())
    np.testing.assert_array_equal(want.ravel(), got.ravel())


# Conditions without which a fold's block does nothing.


def fold_of(kernel):
    return next(i for i in kernel.body if isinstance(i, Fold))


def maxima(body):
    """y[i] = max over j of body(x, i, j), as a fold."""
    kb = KernelBuilder("k")
    i, j = kb.axis("m", 8), kb.axis("n@max", 8)
    x = kb.input("x", (8, 8), float32)
    top = kb.block_reduce("max", "top", (i,), j, body(x, i, j))
    kb.fold("f", kb.axis("n", 8), (top,), (top,), (float("-inf"),), (maximum(kb.lhs(top), kb.rhs(top)),))
    kb.store("y", float32, (8,), (i,), top[i])
    return kb.build()


def test_a_causal_mask_and_both_sides_of_a_window():
    assert [repr(c) for c in skip_conditions(fold_of(named_kernels.make("attention")))] == ["(key <= row)"]
    assert [repr(c) for c in skip_conditions(fold_of(named_kernels.make("attention_dq")))] == ["(key <= row)"]
    assert [repr(c) for c in skip_conditions(fold_of(named_kernels.make("attention_dkv")))] == ["(key <= row)"]
    assert len(skip_conditions(fold_of(named_kernels.make("attention_window")))) == 2
    assert skip_conditions(fold_of(named_kernels.make("attention_full"))) == ()


def test_what_is_masked_must_not_change_the_state():
    assert len(skip_conditions(fold_of(maxima(lambda x, i, j: where(j <= i, x[i, j], float("-inf")))))) == 1
    for other in (0.0, float("inf")):
        kernel = maxima(lambda x, i, j, other=other: where(j <= i, x[i, j], other))
        assert skip_conditions(fold_of(kernel)) == () and len(conditions(fold_of(kernel))) == 1


def test_one_of_two_alternatives_is_not_enough():
    kernel = maxima(lambda x, i, j: maximum(where(j <= i, x[i, j], float("-inf")), where(j < 3, x[i, j], float("-inf"))))
    assert len(conditions(fold_of(kernel))) == 2 and skip_conditions(fold_of(kernel)) == ()


def test_thresholds():
    kb = KernelBuilder("k")
    i, j = kb.axis("i", 9), kb.axis("j", 9)
    k, rest = threshold(j <= i, j)
    assert (k, repr(rest)) == (-1, "i")
    k, rest = threshold(j > i - 4, j)
    assert (k, repr(rest)) == (1, repr(i * -1 + 3))
    assert threshold(i < 3, j) is None and threshold(j % 2 < i, j) is None


def test_the_cost_is_that_of_the_pairs_which_count():
    full, causal = (cost(named_kernels.make(n, {"b": 1, "h": 2, "s": 16, "d": 8})).flops for n in ("attention_full", "attention"))
    assert 0.5 < causal / full < 0.6
