"""vmap against loops, for every primitive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from node_values import value
from tilewright import xp
from tilewright.ir.errors import UsageError
from tilewright.tensor import Tensor, jit
from tilewright.tensor.gradients.grad import checkpoint, grad, vjp
from tilewright.tensor.gradients.vmap import vmap
from tilewright.tensor.graph import index_maps as maps
from tilewright.tensor.graph import primitives as P
from tilewright.tensor.graph.nodes import Gathered, HostCall, Loaded, Scattered, TensorNode
from tilewright.tensor.ops import elementwise as E
from tilewright.tensor.ops import linalg as L

pytestmark = pytest.mark.many
rng = np.random.default_rng(0)


def on_nodes(f: Callable[..., TensorNode]) -> Callable[..., Tensor]:
    return lambda *ts: Tensor.of(f(*(t.node for t in ts)))


def same(f: Callable[..., TensorNode], in_axes: Any, *arrays: Any) -> None:
    """vmap of `f`, against `f` on each element."""
    axes = [in_axes] * len(arrays) if in_axes is None or isinstance(in_axes, int) else in_axes
    size = next(a.shape[x] for a, x in zip(arrays, axes) if x is not None)
    given = [Tensor(a) for a in arrays]
    got = value(vmap(on_nodes(f), in_axes)(*given).node, {})
    for i in range(size):
        parts = [Tensor(np.ascontiguousarray(a if x is None else a.take(i, x))) for a, x in zip(arrays, axes)]
        np.testing.assert_allclose(got[i], value(f(*(p.node for p in parts)), {}), rtol=1e-12)


def rows(table: TensorNode, ids: TensorNode) -> TensorNode:
    shape = (ids.shape[0], table.shape[1])
    axes = maps.placeholder_axes(shape)
    index = P.view(ids, maps.IndexMap(shape, ids.shape, axes, (axes[0],)))
    return P.gather(table, Gathered(axes, (Loaded(0), axes[1])), (index,), shape)


def scattered(x: TensorNode, ids: TensorNode) -> TensorNode:
    (i,) = maps.placeholder_axes(x.shape)
    return P.scatter(x, Scattered("add", (i,), (Loaded(0),)), (ids,), (5,))


X, Y = rng.standard_normal((3, 4, 2)), rng.standard_normal((2, 3, 4))
IDS = rng.integers(0, 4, (3, 6))


@pytest.mark.parametrize("axes", [(0, 1), (0, None), (None, 1)])
def test_pointwise_and_products(axes: tuple[int | None, int | None]) -> None:
    x = X if axes[0] is not None else X[0]
    y = Y if axes[1] is not None else Y[:, 0]
    same(lambda x, y: E.floating("exp", E.binary("mul", x, P.view(y, maps.permute((2, 4), (1, 0))))), axes, x, y)
    same(lambda x, y: L.matmul(y, x), axes, x, y)


def test_movement_reductions_and_scans() -> None:
    same(lambda x: P.reshape(x, (8,)), 0, X)
    same(lambda x: P.view(x, maps.padded(x.shape, (1, 0), (0, 2))), 1, X)
    same(lambda x: P.view(x, maps.strided(x.shape, [(3, -2, 2), (0, 1, 1)])), 0, X)
    for combine in ("add", "max"):
        same(lambda x, c=combine: P.reduce(c, x, (1,)), 2, X)
        same(lambda x, c=combine: P.scan(c, x, 0), 0, X)


def test_indexed() -> None:
    same(rows, (0, 0), X, IDS)
    same(rows, (None, 0), X[0], IDS)
    same(rows, (0, None), X, IDS[0])
    same(scattered, (0, 0), rng.standard_normal((3, 6)), IDS)
    same(scattered, (None, 0), rng.standard_normal(6), IDS)


def test_numpy_calls_run_for_each_element() -> None:
    call = HostCall("sort_for_vmap", lambda a: np.sort(a, axis=0))
    same(lambda x: P.host(call, (x,), x.shape, x.dtype), 0, X)


def test_axes_of_results_and_nesting() -> None:
    x = Tensor(X)
    assert vmap(lambda t: t.mT, out_axes=-1)(x).shape == (2, 4, 3)
    got = vmap(vmap(lambda a, b: a * b, (0, None)), (None, 0))(Tensor(X[0, 0]), Tensor(X[0, :, 0]))
    np.testing.assert_allclose(value(got.node, {}), np.outer(X[0, :, 0], X[0, 0]))
    tree = vmap(lambda d: {"s": d["a"] + d["b"], "c": Tensor(1.0)})({"a": x, "b": x})
    assert tree["s"].shape == X.shape and tree["c"].shape == (3,)


def test_with_gradients() -> None:
    """Gradients of each element, also through a checkpoint; and the gradient of a batch."""
    x, w = Tensor(X[..., 0]), Tensor(rng.standard_normal(4))
    for inner in (lambda w, x: (w * x).exp().sum(), checkpoint(lambda w, x: (w * x).exp().sum())):
        each = vmap(grad(inner), (None, 0))(w, x)
        unit = vmap(lambda u, inner=inner: vjp(lambda w: inner(w, x[0]), w)[1](u)[0])(Tensor(np.arange(3.0)))
        np.testing.assert_allclose(unit.numpy(), np.arange(3.0)[:, None] * each.numpy()[0])
        want = np.exp(w.numpy() * x.numpy()) * x.numpy()
        np.testing.assert_allclose(value(each.node, {}), want)
        total = grad(lambda w, f=inner: vmap(f, (None, 0))(w, x).sum())(w)
        np.testing.assert_allclose(value(total.node, {}), want.sum(0))


def test_what_does_not_fit() -> None:
    with pytest.raises(UsageError, match="sizes"):
        vmap(lambda a, b: a + b)(Tensor(np.ones(3)), Tensor(np.ones(4)))
    with pytest.raises(UsageError, match="axis 2"):
        vmap(lambda a: a, 2)(Tensor(np.ones(3)))
    with pytest.raises(UsageError, match="no argument"):
        vmap(lambda a: a, None)(Tensor(np.ones(3)))
    with pytest.raises(UsageError, match="the function under vmap"):
        vmap(lambda a: a * a.numpy())(Tensor(np.ones(3)))


@pytest.mark.parametrize("descending", [False, True])
def test_gradients_pass_through_sorts_of_a_batch(descending: bool) -> None:
    x, c = Tensor(rng.standard_normal((3, 4, 2))), Tensor(rng.standard_normal((4, 2)))

    def loss(x: Any) -> Any:
        return (xp.sort(x, axis=0, descending=descending) * c).sum()

    got = grad(lambda x: vmap(loss)(x).sum())(x).numpy()
    np.testing.assert_allclose(got, np.stack([grad(loss)(x[i]).numpy() for i in range(3)]))
    np.testing.assert_allclose(vmap(grad(loss))(x).numpy(), got)


def test_results_without_a_batch_keywords_and_elements_of_an_element() -> None:
    x = np.arange(6.0).reshape(2, 3)
    same, number, listed = vmap(lambda x: (np.ones(2), 1.5, [sum(x)]))(Tensor(x))
    assert same.tolist() == [[1.0, 1.0], [1.0, 1.0]] and number.tolist() == [1.5, 1.5] and listed[0].tolist() == [3.0, 12.0]
    assert vmap(lambda x, *, by: x * by, in_axes=1)(Tensor(x), by=Tensor(np.arange(3.0))).tolist() == [[0, 0], [1, 4], [4, 10]]
    with pytest.raises(UsageError, match=r"the function under vmap branches on a tensor.*xp.where"):
        vmap(lambda x: x if x.sum() > 0 else -x)(Tensor(x))
    for axes, out in (({"a": 1}, 0), (0, (1, 0))):
        with pytest.raises(UsageError, match="give a dimension for each argument"):
            vmap(lambda x: x, in_axes=axes, out_axes=out)(Tensor(x))  # type: ignore[arg-type]


def test_what_each_element_has_of_its_own_is_not_written_outside() -> None:
    memory, x = Tensor(np.zeros(3, "f")), Tensor(np.arange(6, dtype="f").reshape(2, 3))
    part = memory[:2]

    def whole(r: Tensor) -> Tensor:
        memory.assign(r)
        return r

    def piece(r: Tensor) -> Tensor:
        part[0] = r[1]
        return r

    def element(r: Tensor) -> None:
        memory[1] = r[0]
        raise KeyError

    for f in (whole, piece):
        for call in (vmap(f), jit(vmap(f))):
            with pytest.raises(UsageError, match="writes to a tensor from outside"):
                call(x)
    with pytest.raises(KeyError):
        vmap(element)(x)
    assert not memory.numpy().any() and not part.numpy().any()

    def own(r: Tensor) -> Tensor:
        memory.assign(memory + 1)
        found = r * 1
        found[1:][0] = r[0]
        return found[1:]

    assert vmap(own)(x).tolist() == [[0, 2], [3, 5]] and memory.tolist() == [1, 1, 1]


def test_what_a_function_of_its_own_writes_to_is_no_tensor_from_outside_of_a_capture() -> None:
    def loss(x: Tensor) -> Tensor:
        y = xp.zeros(3, dtype="float64") + 0
        y[0] = x[0] * x[1]
        return (y * y).sum()

    x = rng.standard_normal((2, 3))
    wanted = [grad(loss)(Tensor(row)).numpy() for row in x]
    np.testing.assert_allclose(jit(lambda x: vmap(grad(loss))(x))(Tensor(x)).numpy(), wanted)
    outside = Tensor(np.zeros(3))
    with pytest.raises(UsageError, match="from outside"):
        jit(lambda x: vmap(lambda row: outside.assign(row).sum())(x))(Tensor(x))
