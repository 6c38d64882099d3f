"""Conditions without which a fold's block does nothing."""

from tilewright import kernels
from tilewright.ir import KernelBuilder, float32, maximum, where
from tilewright.ir.body import Fold
from tilewright.ir.cost import cost
from tilewright.ir.skipped_tiles import conditions, skip_conditions, threshold


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
    assert [repr(c) for c in skip_conditions(fold_of(kernels.make("attention")))] == ["(key <= row)"]
    assert [repr(c) for c in skip_conditions(fold_of(kernels.make("attention_dq")))] == ["(key <= row)"]
    assert [repr(c) for c in skip_conditions(fold_of(kernels.make("attention_dkv")))] == ["(key <= row)"]
    assert len(skip_conditions(fold_of(kernels.make("attention_window")))) == 2
    assert skip_conditions(fold_of(kernels.make("attention_full"))) == ()


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
    full, causal = (cost(kernels.make(n, {"b": 1, "h": 2, "s": 16, "d": 8})).flops for n in ("attention_full", "attention"))
    assert 0.5 < causal / full < 0.6
