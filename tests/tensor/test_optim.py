"""Optimisers against their formulas in NumPy (PyTorch's), schedules, clipping; a step is few kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from node_values import value
from tilewright.ir.dtypes import dtype as dtype_of
from tilewright.tensor import Tensor, optim
from tilewright.tensor.handle import compute
from tilewright.tensor.running.realise import listed
from tilewright.tensor.trees import flatten

pytestmark = pytest.mark.many
rng = np.random.default_rng(0)
P0 = {"w": rng.standard_normal((3, 2)), "b": [rng.standard_normal(2)]}
GRADS = [{"w": rng.standard_normal((3, 2)), "b": [rng.standard_normal(2)]} for _ in range(3)]
Arrays = list[Any]


def tensors(tree: Any) -> Any:
    return {"w": Tensor(tree["w"]), "b": [Tensor(tree["b"][0])]}


def run(optimiser: optim.Optimiser) -> Arrays:
    """The parameters after three steps, by NumPy."""
    params = tensors(P0)
    state = optimiser.init(params)
    for g in GRADS:
        params, state = optimiser.update(params, tensors(g), state)
    memory: dict[int, Any] = {}
    return [value(t.node, memory) for t in flatten(params)[0]]


def sgd_by_hand(lr: float, momentum: float, nesterov: bool, decay: float) -> Arrays:
    out = []
    for pick in (lambda t: t["b"][0], lambda t: t["w"]):
        p, v = pick(P0).copy(), 0.0
        for tree in GRADS:
            g = pick(tree) + decay * p
            v = momentum * v + g
            p = p - lr * (g + momentum * v if nesterov else v)
        out.append(p)
    return out


def adam_by_hand(lr: Any, decay: float, decoupled: bool, matrices: bool = False) -> Arrays:
    out = []
    for pick in (lambda t: t["b"][0], lambda t: t["w"]):
        p, m, v = pick(P0).copy(), 0.0, 0.0
        wd = 0.0 if matrices and p.ndim < 2 else decay
        for t, tree in enumerate(GRADS, 1):
            rate = lr(t - 1) if callable(lr) else lr
            g = pick(tree) + (0.0 if decoupled else wd * p)
            if decoupled:
                p = p * (1 - rate * wd)
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            p = p - rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        out.append(p)
    return out


@pytest.mark.parametrize(("momentum", "nesterov", "decay"), [(0.0, False, 0.0), (0.9, False, 0.1), (0.9, True, 0.0)])
def test_sgd(momentum: float, nesterov: bool, decay: float) -> None:
    for got, want in zip(run(optim.sgd(0.1, momentum, nesterov, decay)), sgd_by_hand(0.1, momentum, nesterov, decay), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_adam_and_adamw() -> None:
    cases: list[tuple[optim.Optimiser, Arrays]] = [
        (optim.adam(0.01), adam_by_hand(0.01, 0.0, False)),
        (optim.adam(0.01, weight_decay=0.1), adam_by_hand(0.01, 0.1, False)),
        (optim.adamw(0.01, weight_decay=0.1), adam_by_hand(0.01, 0.1, True)),
        (optim.adamw(0.01, weight_decay=0.1, decays=lambda p: p.ndim > 1), adam_by_hand(0.01, 0.1, True, True)),
        (optim.adamw(optim.linear(0.1, 0.0, 2), weight_decay=0.1), adam_by_hand(lambda t: 0.1 * (1 - t / 2), 0.1, True)),
    ]
    for optimiser, want in cases:
        for a, b in zip(run(optimiser), want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4)  # the corrections are float32


def test_cosine() -> None:
    at = [float(value(optim.cosine(2.0, 10, 4, 0.5)(Tensor(float(t))).node, {})) for t in (0, 3, 4, 7, 10, 20)]
    np.testing.assert_allclose(at, [0.5, 2.0, 2.0, 1.25, 0.5, 0.5], rtol=1e-5)


def test_clipping() -> None:
    g = tensors(GRADS[0])
    norm = np.sqrt(sum((a**2).sum() for a in (GRADS[0]["w"], GRADS[0]["b"][0])))
    for limit, factor in ((norm / 2, 0.5), (norm * 2, 1.0)):
        clipped, before = optim.clip_by_global_norm(g, float(limit))
        np.testing.assert_allclose(value(before.node, {}), norm, rtol=1e-5)
        np.testing.assert_allclose(value(clipped["w"].node, {}), factor * GRADS[0]["w"], rtol=1e-5)
    assert value(optim.global_norm({}).node, {}) == 0


def test_an_update_is_one_kernel_a_parameter(graphs: None) -> None:
    """New parameter and both moments in one pass; the step's scalars beside."""
    params = {k: Tensor(rng.standard_normal((64, 65)).astype("f")) for k in "ab"}
    grads = {k: Tensor(rng.standard_normal((64, 65)).astype("f")) for k in "ab"}
    optimiser = optim.adamw(optim.cosine(1e-3, 100, 10))
    new, state = optimiser.update(params, grads, optimiser.init(params))
    leaves = [t for t in flatten([new, state])[0]]
    wide = [c for c in listed([t.node for t in leaves]).calls if c.nodes[0].size > 1]
    assert len(wide) == 2 and all(len(c.nodes) == 3 for c in wide)
    want = [value(t.node, {}) for t in leaves]
    compute(new, state)
    for t, w in zip(leaves, want, strict=True):
        np.testing.assert_allclose(t.numpy(), w, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("make", [lambda: optim.adamw(3e-4), lambda: optim.sgd(3e-4, 0.999, True, 0.1)], ids=["adamw", "sgd"])
def test_sixteen_bits_are_updated_in_float32(make: Callable[[], optim.Optimiser], dtype: str) -> None:
    """Rates and moments' factors are numbers that 16 bits do not have: 0.999 would be 1, and 1e-8 nothing."""
    kind = dtype_of(dtype).np
    p, g = rng.standard_normal(64).astype(kind), (rng.standard_normal(64) * 1e-3).astype(kind)
    state = {k: v for k, v in make().init(Tensor(p)).items() if k != "step"}
    held = {k: np.abs(rng.standard_normal(64) * 1e-3).astype(kind) for k in state}
    found = []
    for to in (kind, np.float32):
        at = {"step": Tensor(np.float32(5.0)), **{k: Tensor(h.astype(to)) for k, h in held.items()}}
        new, after = make().update(Tensor(p.astype(to)), Tensor(g.astype(to)), at)
        found.append([t.numpy() for t in (new, *(after[k] for k in held))])
    for got, want in zip(*found, strict=True):
        np.testing.assert_array_equal(got, want.astype(kind))
