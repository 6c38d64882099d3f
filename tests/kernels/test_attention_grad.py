"""The kernels of attention's backward pass, one after the other, give the gradient of its forward pass."""

import numpy as np
import pytest
from tilewright import kernels, targets
from tilewright.ir.evaluate import evaluate
from tilewright.lower import lower
from tilewright.lower.interp import run as interpret
from tilewright.opts import apply, parse

SHAPE = {"b": 2, "h": 2, "s": 7, "d": 4}
DIMS = tuple(SHAPE.values())
STEP = 1e-5


def drawn():
    rng = np.random.default_rng(3)
    return {t: rng.standard_normal(DIMS) for t in ("q", "k", "v", "dy")}


def forward(x):
    return evaluate(kernels.make("attention", SHAPE, "float64"), {t: x[t] for t in "qkv"})["y"]


def numerical(x, which):
    """d Σ y·dy / d x[which], by central differences of the plain forward kernel."""
    out = np.zeros(DIMS)
    for at in np.ndindex(*DIMS):
        ends = []
        for step in (STEP, -STEP):
            moved = x[which].copy()
            moved[at] += step
            ends.append((forward({**x, which: moved}) * x["dy"]).sum())
        out[at] = (ends[0] - ends[1]) / (2 * STEP)
    return out


def backward(x, run):
    """dq, dk, dv by the four kernels."""
    out = run("attention_lse", x)
    x = {**x, **out}
    x |= run("attention_delta", x)
    return {**run("attention_dq", x), **run("attention_dkv", x)}


def reference(name, x):
    kernel = kernels.make(name, SHAPE, "float64")
    return evaluate(kernel, {b.name: x[b.name] for b in kernel.inputs})


BLOCKS = {
    "attention_lse": [["TILE", "key", 3], ["UPCAST", "row", 4], ["STAGE", "P", {"at": "key"}]],
    "attention_delta": [["UPCAST", "d", 2]],
    "attention_dq": [["TILE", "key", 2], ["UPCAST", "row", 4], ["UPCAST", "key@in", 2], ["STAGE", "dS", {"at": "key"}], ["PARALLEL", "row"]],
    "attention_dkv": [["TILE", "row", 2], ["UPCAST", "key", 4], ["STAGE", "P", {"at": "row"}], ["STAGE", "dS", {"at": "row"}], ["PARALLEL", "key"]],
}


def in_blocks(name, x):
    kernel = kernels.make(name, SHAPE, "float64")
    arrays = {b.name: x[b.name] if b.role == "in" else np.full(b.shape, np.nan) for b in kernel.buffers}
    interpret(lower(apply(kernel, parse(BLOCKS[name]), targets.named("avx2"))), arrays)
    return {b.name: arrays[b.name] for b in kernel.outputs}


@pytest.mark.parametrize("run", [reference, in_blocks])
def test_the_gradient_is_that_of_the_forward_pass(run):
    x = drawn()
    found = backward(x, run)
    for name in ("q", "k", "v"):
        np.testing.assert_allclose(found[f"d{name}"], numerical(x, name), rtol=1e-6, atol=1e-7, err_msg=name)


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
        return lower(apply(kernels.make(name, {"b": 1, "h": 1, "s": s, "d": 8}), parse(opts), targets.named("avx2"))).scratch

    assert scratch(64) == scratch(4096) > 0
