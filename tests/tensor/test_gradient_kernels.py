"""The kernels of backward passes are those that experts write: attention, products of transposes, scatters; and their gradients are right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from differences import check
from tilewright import nn, vjp
from tilewright.ir.dtypes import float32
from tilewright.ir.normal_form import canonical
from tilewright.named_kernels import make
from tilewright.named_kernels.attention import attention_delta, attention_dkv, attention_dq, attention_lse
from tilewright.tensor import Tensor
from tilewright.tensor.fusion.call_list import KernelCall, call_list
from tilewright.tensor.gradients.reverse import gradients
from tilewright.tensor.graph import primitives as P
from tilewright.tensor.graph.nodes import TensorNode, walk
from tilewright.tensor.ops import elementwise as E
from tilewright.tensor.ops import linalg as L
from tilewright.tensor.ops import movement as M
from tilewright.tensor.ops import reduction as R
from tilewright.tensor.partition.heads import is_contraction

pytestmark = pytest.mark.many
rng = np.random.default_rng(1)


def softmax(s: TensorNode, stop: bool = True) -> TensorNode:
    m = R.max(s, -1, keepdims=True)
    e = E.floating("exp", E.binary("sub", s, P.stop_gradient(m) if stop else m))
    return E.binary("div", e, R.sum(e, -1, keepdims=True))


def causal(s: TensorNode) -> TensorNode:
    n = s.shape[-1]
    seen = E.binary("le", P.iota(n), M.reshape(P.iota(n), (n, 1)))
    return E.where(seen, s, float("-inf"))


def attention(q: TensorNode, k: TensorNode, v: TensorNode, change: Callable[[TensorNode], TensorNode] = lambda s: s) -> TensorNode:
    s = E.binary("mul", L.matmul(q, M.transposed(k)), q.shape[-1] ** -0.5)
    return L.matmul(softmax(change(s)), v)


def scores(g: TensorNode, size: int) -> list[TensorNode]:
    """Reductions behind `g` whose result has as many elements as the scores."""
    return [n for n in walk([g]) if n.op == "reduce" and n.size == size]


@pytest.mark.parametrize("stop", [True, False])
def test_softmax(stop: bool) -> None:
    x = rng.standard_normal((2, 3))
    (g,) = check(lambda x: softmax(x, stop), x)
    assert len([n for n in walk([g]) if n.op == "reduce" and n.arg[0] == "max"]) == 1
    check(lambda x: M.transposed(softmax(M.transposed(x), stop)), x, twice=False)
    check(lambda x, w: E.binary("mul", softmax(x, stop), w), x, rng.standard_normal((2, 3)))


VARIANTS: dict[str, Callable[[TensorNode], TensorNode]] = {
    "plain": lambda s: s,
    "causal": causal,
    "bias": lambda s: E.binary("add", s, Tensor(np.linspace(-1, 1, 9).reshape(3, 3)).node),
    "soft cap": lambda s: E.binary("mul", E.floating("tanh", E.binary("mul", s, 0.5)), 2.0),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_attention(name: str) -> None:
    q, k, v = (rng.standard_normal((2, 3, 2)) for _ in range(3))
    gs = check(lambda q, k, v: attention(q, k, v, VARIANTS[name]), q, k, v, twice=name == "causal")
    for g in gs:  # q·k, and dy·v for dq and dk: no third sum makes anything as large as the scores
        assert sum(map(is_contraction, scores(g, 18))) <= 2 and all(is_contraction(n) for n in scores(g, 18))


def test_dropout_keeps_the_rows_sum() -> None:
    """delta = Σ dy · y holds through factors that do not depend on the weights; not where they are read twice."""
    q, k, v = (rng.standard_normal((3, 2)) for _ in range(3))
    keep = Tensor(np.array([[0, 2.0, 2], [2, 0, 2], [2, 2, 0]])).node

    def dropped(q: TensorNode, k: TensorNode, v: TensorNode) -> TensorNode:
        return L.matmul(E.binary("mul", softmax(L.matmul(q, M.transposed(k))), keep), v)

    def twice_read(q: TensorNode, k: TensorNode, v: TensorNode) -> TensorNode:
        p = softmax(L.matmul(q, M.transposed(k)))
        return E.binary("add", L.matmul(p, v), L.matmul(E.binary("mul", p, p), v))

    check(dropped, q, k, v, twice=False)
    check(twice_read, q, k, v, twice=False)


def test_shared_heads() -> None:
    """Heads of queries that share keys and values: their gradients are summed over the group."""
    q, k, v = rng.standard_normal((1, 2, 2, 3, 2)), *(rng.standard_normal((1, 2, 1, 3, 2)) for _ in range(2))
    check(lambda q, k, v: attention(q, k, v, causal), q, k, v, twice=False)


def test_cross_entropy_of_a_product() -> None:
    """Labels are compared with places: nothing is scattered, and the gradient of the logits is pointwise."""
    labels = Tensor(np.array([2, 0, 3])).node
    h, w = rng.standard_normal((3, 2)), rng.standard_normal((4, 2))

    def loss(h: TensorNode, w: TensorNode) -> TensorNode:
        from tilewright.tensor.graph import index_maps as maps
        from tilewright.tensor.graph.nodes import Gathered, Loaded

        s = L.matmul(h, M.transposed(w))
        m = P.stop_gradient(R.max(s, -1, keepdims=True))
        lse = E.binary("add", E.floating("log", R.sum(E.floating("exp", E.binary("sub", s, m)), -1)), M.reshape(m, (3,)))
        (i,) = maps.placeholder_axes((3,))
        picked = P.gather(s, Gathered((i,), (i, Loaded(0))), (labels,), (3,))
        return R.mean(E.binary("sub", lse, picked))

    for g in check(loss, h, w, twice=False):
        assert not any(n.op == "scatter" for n in walk([g]))


@pytest.mark.parametrize(("masked", "size"), [(True, 17), (False, 12)])
def test_attention_has_the_named_kernels(masked: bool, size: int) -> None:
    """Forward and backward are four kernels: attention with log-sum-exp, delta, dq, and dk with dv."""
    b, h, d = 2, 3, 8
    q, k, v, dy = (Tensor(rng.standard_normal((b, h, size, d)).astype("f")).node for _ in range(4))
    y = attention(q, k, v, causal if masked else lambda s: s)
    calls = call_list([y, *gradients([y], [dy], [q, k, v])]).calls
    shape = {"b": b, "h": h, "s": size, "d": d, "causal": int(masked), "w": 0, "shared": 1}
    made = [canonical(c.kernel).text for c in calls if isinstance(c, KernelCall)]
    assert made == [canonical(m.make(shape, float32)).text for m in (attention_lse, attention_delta, attention_dq, attention_dkv)]


def array(*shape: int) -> Tensor:
    return Tensor(rng.standard_normal(shape).astype("f"))


def named(kernel: str, **shape: int) -> str:
    return canonical(make(kernel, shape, float32)).text


def kernels(*ts: Any) -> list[str]:
    return [canonical(c.kernel).text for c in call_list([t.node for t in ts]).calls if isinstance(c, KernelCall)]


@pytest.mark.parametrize("lead", [(24,), (4, 6)])
def test_products_of_transposes(lead: tuple[int, ...]) -> None:
    """x · w has the gradients dy · wᵀ and xᵀ · dy, also of batches."""
    dx, dw = vjp(lambda x, w: x @ w, array(*lead, 40), array(40, 56))[1](array(*lead, 56))
    assert kernels(dx) == [named("matmul_nt", m=24, n=40, k=56)]
    assert kernels(dw) == [named("matmul_tn", m=40, n=56, k=24)]


def test_embeddings_scatter() -> None:
    ids = Tensor(rng.integers(0, 23, 31), range=(0, 22))
    (dt,) = vjp(lambda t: nn.embedding(t, ids), array(23, 19))[1](array(31, 19))
    assert kernels(dt) == [named("embedding_grad", v=23, n=31, d=19)]


def test_rows_and_windows_are_few_kernels() -> None:
    """softmax in one; layer_norm in its rows and the sums over rows; a convolution's gradients are two contractions."""
    assert len(kernels(*vjp(lambda x: x.softmax(-1), array(8, 33))[1](array(8, 33)))) == 1
    assert len(kernels(*vjp(nn.layer_norm, array(8, 6, 33), array(33), array(33))[1](array(8, 6, 33)))) <= 3
    found = vjp(lambda x, w: nn.conv(x, w, padding=1), array(2, 3, 10, 10), array(5, 3, 3, 3))[1](array(2, 5, 10, 10))
    calls = call_list([t.node for t in found]).calls
    assert len(calls) == 2 and [len(c.kernel.values) for c in calls if isinstance(c, KernelCall)] == [1, 1]
