"""The kernels of attention's backward pass, one after the other, give the gradient of its forward pass."""

import numpy as np
import pytest
from tilewright import named_kernels, targets
from tilewright.interp import run as interpret
from tilewright.ir import KernelError
from tilewright.ir.evaluation import evaluate
from tilewright.lower import lower
from tilewright.opts import apply, parse

SHAPE = {"b": 2, "h": 2, "s": 7, "d": 4}
STEP = 1e-5
MASKS = {
    "causal": ({}, "attention", {}),
    "full": ({"causal": 0}, "attention_full", {}),
    "window": ({"w": 3}, "attention_window", {"w": 3}),
    "grouped": ({"shared": 2}, "attention_grouped", {"hk": 1}),
}
"""Sizes of the gradient's kernels, and the plain forward kernel of the same meaning with its sizes."""


def drawn(shared=1):
    rng = np.random.default_rng(3)
    b, h, s, d = SHAPE.values()
    return {t: rng.standard_normal((b, h // shared if t in "kv" else h, s, d)) for t in ("q", "k", "v", "dy")}


def forward(x, mask="causal"):
    _, name, more = MASKS[mask]
    return evaluate(named_kernels.make(name, SHAPE | more, "float64"), {t: x[t] for t in "qkv"})["y"]


def numerical(x, which, mask):
    """d Σ y·dy / d x[which], by central differences of the plain forward kernel. Heads that share nothing move together."""
    out = np.zeros(x[which].shape)
    b, own = out.shape[:2]
    for at in np.ndindex(*out.shape[2:]):
        ends = []
        for step in (STEP, -STEP):
            moved = x[which].copy()
            moved[(..., *at)] += step
            y = forward({**x, which: moved}, mask) * x["dy"]
            ends.append(y.reshape(b, own, -1).sum(axis=2))
        out[(..., *at)] = (ends[0] - ends[1]) / (2 * STEP)
    return out


def backward(x, run, **more):
    """dq, dk, dv by the four kernels; gradients of heads that share keys are added up."""
    out = run("attention_lse", x, more)
    x = {**x, **out}
    x |= run("attention_delta", x, {})
    found = {**run("attention_dq", x, more), **run("attention_dkv", x, more)}
    b, _, s, d = SHAPE.values()
    return found | {t: found[t].reshape(b, -1, more.get("shared", 1), s, d).sum(axis=2) for t in ("dk", "dv")}


def reference(name, x, more):
    kernel = named_kernels.make(name, SHAPE | more, "float64")
    return evaluate(kernel, {b.name: x[b.name] for b in kernel.inputs})


BLOCKS = {
    "attention_lse": [["TILE", "key", 3], ["UPCAST", "row", 4], ["STAGE", "P", {"at": "key"}]],
    "attention_delta": [["UPCAST", "d", 2]],
    "attention_dq": [
        ["TILE", "key", 2],
        ["UPCAST", "row", 4],
        ["UPCAST", "key@in", 2],
        ["STAGE", "dS", {"at": "key"}],
        ["PARALLEL", "row"],
    ],
    "attention_dkv": [
        ["TILE", "row", 2],
        ["UPCAST", "key", 4],
        ["STAGE", "P", {"at": "row"}],
        ["STAGE", "dS", {"at": "row"}],
        ["PARALLEL", "key"],
    ],
}


def in_blocks(name, x, more):
    kernel = named_kernels.make(name, SHAPE | more, "float64")
    arrays = {b.name: x[b.name] if b.role == "in" else np.full(b.shape, np.nan) for b in kernel.buffers}
    interpret(lower(apply(kernel, parse(BLOCKS[name]), targets.named("avx2"))), arrays)
    return {b.name: arrays[b.name] for b in kernel.outputs}


@pytest.mark.slow
@pytest.mark.parametrize("mask", MASKS)
def test_the_gradient_is_that_of_the_forward_pass(mask):
    more = MASKS[mask][0]
    x = drawn(more.get("shared", 1))
    found = [backward(x, run, **more) for run in (reference, in_blocks)]
    for name in ("q", "k", "v"):
        want = numerical(x, name, mask)
        for out in found:
            np.testing.assert_allclose(out[f"d{name}"], want, rtol=1e-6, atol=1e-7, err_msg=name)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"causal": 2}, "causal=2 must be 0 or 1"),
        ({"causal": 0, "w": 3}, "needs causal=1"),
        ({"shared": 3}, "shared=3 heads of queries must divide h=2"),
    ],
)
def test_sizes_that_do_not_go_together(more, message):
    for name in ("attention_lse", "attention_dq", "attention_dkv"):
        with pytest.raises(KernelError, match=message):
            named_kernels.make(name, SHAPE | more)


def test_the_first_query_has_one_key():
    """Its weight is 1 whatever the scores are, so q of the first row has no gradient, and v gets dy."""
    x = drawn()
    found = backward(x, reference)
    np.testing.assert_allclose(found["dq"][:, :, 0], 0.0, atol=1e-12)
    alone = backward({**x, "dy": np.where(np.arange(SHAPE["s"])[:, None] == 0, x["dy"], 0.0)}, reference)
    np.testing.assert_allclose(alone["dv"][:, :, 0], x["dy"][:, :, 0], rtol=1e-12)
    assert not alone["dv"][:, :, 1:].any()


@pytest.mark.parametrize(("name", "folded"), [("attention_dq", "key"), ("attention_dkv", "row")])
def test_scratch_does_not_grow_with_the_length(name, folded):
    """Blocks of queries and keys, never all pairs."""

    fixed = "key" if folded == "row" else "row"

    def scratch(s):
        opts = [["TILE", folded, 16], ["UPCAST", fixed, 8], ["PARALLEL", fixed]]
        return lower(apply(named_kernels.make(name, {"b": 1, "h": 1, "s": s, "d": 8}), parse(opts), targets.named("avx2"))).scratch

    assert scratch(64) == scratch(4096) > 0
