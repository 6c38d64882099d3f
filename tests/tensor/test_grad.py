"""grad, value_and_grad, vjp, jvp, stop_gradient, checkpoint and backward(): on tensors, with kernels."""

from __future__ import annotations

import copy
import gc
import weakref
from typing import Any

import numpy as np
import pytest
from node_values import value
from tilewright import jit, sparse, vmap, xp
from tilewright.ir.errors import UsageError
from tilewright.tensor import Tensor
from tilewright.tensor.fusion.call_list import call_list
from tilewright.tensor.gradients.grad import checkpoint, grad, jvp, stop_gradient, value_and_grad, vjp
from tilewright.tensor.gradients.rules import HOST_RULES
from tilewright.tensor.graph.nodes import HostCall, walk
from tilewright.tensor.graph.primitives import host
from tilewright.tensor.operations import register_gradient
from tilewright.tensor.running.realise import listed

pytestmark = pytest.mark.many
rng = np.random.default_rng(0)


def array(*shape: int) -> Any:
    return rng.standard_normal(shape).astype("f")


def values(*ts: Any) -> list[Any]:
    """By NumPy: fast, and apart from kernels."""
    memory: dict[int, Any] = {}
    return [value(t.node, memory) for t in ts]


def test_a_model_of_trees_with_kernels() -> None:
    """Values and gradients of a nested tree of parameters, computed by kernels, against the formula."""
    p = {"in": (Tensor(array(5, 7)), Tensor(array(7))), "out": [Tensor(array(7, 3)), None]}
    x, y = array(4, 5), array(4, 3)

    def loss(p: Any, x: Any) -> tuple[Any, Any]:
        h = (x @ p["in"][0] + p["in"][1]).tanh()
        out = h @ p["out"][0]
        return ((out - Tensor(y)) * (out - Tensor(y))).sum(), out

    (v, out), g = value_and_grad(loss, has_aux=True)(p, Tensor(x))
    (w, b), (u, none) = [t.numpy() for t in p["in"]], (p["out"][0].numpy(), g["out"][1])
    h = np.tanh(x @ w + b)
    d = 2 * (h @ u - y)
    dh = (d @ u.T) * (1 - h * h)
    np.testing.assert_allclose(out.numpy(), h @ u, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(v.item(), ((h @ u - y) ** 2).sum(), rtol=1e-5)
    for got, want in ((g["in"][0], x.T @ dh), (g["in"][1], dh.sum(0)), (g["out"][0], h.T @ d)):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-4)
    assert none is None


def test_uses_outside_of_the_argument_count_as_constants() -> None:
    x = Tensor(np.array([2.0, 3.0]))
    (one,) = values(grad(lambda a: (a * x).sum())(x))
    assert one.tolist() == [2, 3]
    (inner,) = values(grad(lambda a: (a * grad(lambda b: (b * b * a).sum())(x)).sum())(x))
    assert inner.tolist() == [4 * 4, 4 * 9]  # a · 2xa, by a
    a, b = values(*grad(lambda a, b: (a * b * b).sum(), (0, 1))(x, x))
    assert a.tolist() == [4, 9] and b.tolist() == [8, 18]


def test_derivatives_of_derivatives() -> None:
    x = Tensor(np.array(0.7))

    def f(x: Any) -> Any:
        return (x * x).exp()

    (second, third) = values(grad(grad(f))(x), grad(grad(grad(f)))(x))
    e = np.exp(0.49)
    np.testing.assert_allclose([second, third], [(2 + 4 * 0.49) * e, (12 * 0.7 + 8 * 0.343) * e])


def test_vjp_and_jvp_are_transposes() -> None:
    w, x = Tensor(rng.standard_normal((3, 4))), Tensor(rng.standard_normal(4))
    v, u = rng.standard_normal(4), rng.standard_normal(3)

    def f(w: Any, x: Any) -> Any:
        return (w @ x).tanh()

    y, pull = vjp(f, w, x)
    dw, dx = pull(u)
    out, dy = jvp(f, (w, x), (np.zeros((3, 4)), v))
    a, b, got, plain = values(dx, dy, out, y)
    jacobian = (1 - plain**2)[:, None] * w.numpy()
    np.testing.assert_allclose(a, u @ jacobian)
    np.testing.assert_allclose(b, jacobian @ v)
    np.testing.assert_allclose(got, plain)
    assert dw.shape == (3, 4)


FORWARD: dict[str, Any] = {
    "segments": lambda x, w: sparse.segment_sum(x, np.array([0, 2, 3])), "product": lambda x, w: x @ w, "of itself": lambda x, w: x @ x.mT, "repeated": lambda x, w: xp.repeat(x, 2, axis=0) ** 3,
}  # fmt: skip


@pytest.mark.parametrize("name", FORWARD)
def test_derivatives_of_derivatives_where_all_elements_are_equal(name: str) -> None:
    """jvp is a derivative with respect to cotangents that are 0, and arguments may be constants: each element has its own derivative."""
    w, v = Tensor(rng.standard_normal((4, 3))), Tensor(rng.standard_normal((3, 4)))
    row, h = xp.broadcast_to(Tensor(rng.standard_normal(4)), (3, 4)), 1e-6

    def f(x: Any) -> Any:
        return FORWARD[name](x, w)

    def slope(x: Any) -> Any:
        return grad(lambda x: (f(x) ** 2).sum())(x)

    for x in (xp.ones((3, 4), dtype=xp.float64) * 0.5, row):
        for g in (f, slope):
            want = (g(x + h * v) - g(x - h * v)) / (2 * h)
            np.testing.assert_allclose(jvp(g, (x,), (v,))[1].numpy(), want.numpy(), rtol=1e-6, atol=1e-6)
        twice = grad(lambda x: (slope(x) * v).sum())(x)
        np.testing.assert_allclose(twice.numpy(), want.numpy(), rtol=1e-6, atol=1e-6)


def test_stop_gradient_and_detach() -> None:
    x = Tensor(np.array([1.0, 2.0]))
    (g,) = values(grad(lambda a: (a * stop_gradient({"t": a})["t"] + a.detach() * a.detach()).sum())(x))
    assert g.tolist() == [1, 2]


def test_checkpoint_computes_again_and_gives_the_same() -> None:
    """Equal gradients; what is between is made anew, after the gradient of the region's result."""
    w1, w2, x = Tensor(rng.standard_normal((4, 6))), Tensor(rng.standard_normal((6, 4))), Tensor(rng.standard_normal((5, 4)))

    def layer(h: Any, w: Any) -> Any:
        return (h @ w).tanh() @ w2

    def loss(f: Any) -> Any:
        return lambda w1, x: (f(f(x, w1), w1) * f(x, w1)).sum()

    plain = value_and_grad(loss(layer), (0, 1))(w1, x)
    again = value_and_grad(loss(checkpoint(layer)), (0, 1))(w1, x)
    nested = value_and_grad(loss(checkpoint(lambda h, w: checkpoint(layer)(h, w) * 1.0)), (0, 1))(w1, x)
    for other in (again, nested):
        for a, b in zip(values(plain[0], *plain[1]), values(other[0], *other[1]), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
    behind = [n for t in again[1] for n in walk([t.node])]
    assert any(n.op == "after" for n in behind) and not any(n.op == "after" for t in plain[1] for n in walk([t.node]))
    assert len({id(n) for n in behind if n.arg == "tanh"}) == 6  # three calls, each made again


def test_checkpoint_with_kernels() -> None:
    """The second computation runs after what its gradient waits for, and the first one's results are gone by then."""
    w, x = Tensor(array(32, 32)), Tensor(array(32, 32))

    def layer(h: Any) -> Any:
        return (h @ w).tanh()

    f = checkpoint(lambda h: layer(layer(h)))
    (_, g), (_, want) = (value_and_grad(lambda h, f=f: (f(h) * f(h)).sum())(x) for f in (f, lambda h: layer(layer(h))))
    assert len(listed([g.node]).calls) > len(listed([want.node]).calls)
    np.testing.assert_allclose(g.numpy(), want.numpy(), rtol=1e-3, atol=1e-4)


def test_backward_adds_up() -> None:
    w, b = Tensor(np.array([1.0, 2.0]), requires_grad=True), Tensor(np.array([3.0]), requires_grad=True)
    for times in (1, 2):
        y = (w * w * b).sum()
        assert y.item() == 15  # computed before: its history is kept as long as w lives
        y.backward()
        got = values(w.grad, b.grad)
        assert got[0].tolist() == [6 * times, 12 * times] and got[1].tolist() == [5 * times]
    (w * b).backward(np.array([1.0, -1.0]))
    assert values(w.grad)[0].tolist() == [15, 21]
    with pytest.raises(UsageError, match="requires_grad"):
        (Tensor(np.ones(1)) * 2).backward()
    with pytest.raises(UsageError, match="no single number"):
        (w * 2).backward()


def test_what_was_computed_does_not_keep_its_past() -> None:
    """A loop that replaces its parameters holds those of one step only."""
    p = Tensor(np.ones(3))
    first = weakref.ref(p.node)
    for _ in range(3):
        p = p - 0.1 * grad(lambda q: (q * q).sum())(p)
        p.realise()
    gc.collect()
    assert first() is None and not p.node.src
    np.testing.assert_allclose(p.numpy(), 0.8**3)


def test_host_calls_can_be_given_a_gradient() -> None:
    call = HostCall("cube_for_test", lambda a: a**3)
    register_gradient("cube_for_test", lambda n, dy: [(Tensor.of(dy) * 3.0 * Tensor.of(n.src[0]) * Tensor.of(n.src[0])).node])
    try:
        (g,) = values(grad(lambda x: Tensor.of(host(call, (x.node,), x.shape, x.dtype)).sum())(Tensor(np.array([1.0, 2.0]))))
    finally:
        del HOST_RULES["cube_for_test"]
    assert g.tolist() == [3, 12]


def test_what_cannot_be_differentiated() -> None:
    x = Tensor(np.ones(3))
    with pytest.raises(UsageError, match="one float"):
        grad(lambda x: x * 2)(x)
    with pytest.raises(UsageError, match="one float"):
        grad(lambda x: (x > 0).sum())(x)
    with pytest.raises(UsageError, match="returned float"):
        grad(lambda x: 1.0)(x)
    with pytest.raises(UsageError, match="only floats"):
        grad(lambda x: x.sum())(Tensor(np.array([1, 2])))
    with pytest.raises(UsageError, match="argument 1"):
        grad(lambda x: x.sum(), 1)(x)
    with pytest.raises(UsageError, match="structure"):
        vjp(lambda x: (x, x), x)[1](x)


def held(calls: Any) -> int:
    """The most large arrays that are needed at one time, the gradients themselves apart."""
    last = {p: i for i, c in enumerate(calls.calls) for p in (*c.inputs, *c.outputs)}
    live: set[int] = set()
    most = 0
    for i, c in enumerate(calls.calls):
        live |= {p for p in c.outputs if calls.nodes[p].size > 1 and p not in calls.outs}
        most = max(most, len(live))
        live = {p for p in live if last[p] > i}
    return most


def test_weights_gradients_run_early_and_checkpoints_hold_less() -> None:
    """Of twelve layers, what is held is a forward pass and little more; with four checkpoints about a half of that."""
    ws, x = [Tensor(array(32, 32)) for _ in range(12)], Tensor(array(32, 32))

    def three(h: Any, *ws: Any) -> Any:
        for w in ws:
            h = (h @ w).tanh()
        return h

    def most(f: Any) -> int:
        def loss(ws: Any, x: Any) -> Any:
            for i in range(0, 12, 3):
                x = f(x, *ws[i : i + 3])
            return (x * x).sum()

        v, gs = value_and_grad(loss)(ws, x)
        return held(call_list([v.node, *(g.node for g in gs)]))

    assert most(three) <= 14 and most(checkpoint(three)) <= 8


def test_a_result_may_be_read_before_it_is_pulled_back() -> None:
    x, w = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3)), Tensor(np.ones((3, 2), np.float32))
    y, pull = vjp(lambda x, w: x @ w, x, w)
    assert y.numpy().tolist() == [[3.0, 3.0], [12.0, 12.0]]
    dx, dw = pull(Tensor(np.ones((2, 2), np.float32)))
    assert dx.numpy().tolist() == [[2.0] * 3] * 2 and dw.numpy().tolist() == [[3.0] * 2, [5.0] * 2, [7.0] * 2]


def test_a_function_may_write_to_what_the_gradient_is_with_respect_to() -> None:
    """The gradient is with respect to what was given, not to what the argument became."""

    def f(u: Tensor) -> Tensor:
        part = u[1:]
        part *= 2
        u[0] = u[1] * u[2]
        return (u * u).sum()

    x = np.array([3.0, 1.0, 2.0])
    a, b = x[1:]
    want = [0, 8 * a + 32 * a * b * b, 8 * b + 32 * a * a * b]  # of (4ab)² + 4a² + 4b²
    t = Tensor(x)
    for call in (grad(f), jit(grad(f)), lambda t: vjp(f, t)[1](Tensor(np.float64(1)))[0]):
        np.testing.assert_allclose(call(t).numpy(), want)
        assert t.tolist() == x.tolist()
    np.testing.assert_allclose(jvp(f, (t,), (Tensor(np.ones(3)),))[1].item(), sum(want))


def test_what_is_written_later_changes_no_gradient() -> None:
    """backward() of what was made before a write is with respect to the old values; of both, both count."""
    p = Tensor(np.array([1.0, 2.0, 3.0]), requires_grad=True)
    first = (p * p).sum()
    p[0] = 5.0
    first.backward()
    assert p.grad.tolist() == [2.0, 4.0, 6.0]
    p -= 1.0
    (first * 0.5 + (p * p).sum()).backward()
    assert p.grad.tolist() == [2 + 1 + 8, 4 + 2 + 2, 6 + 3 + 4]


THROUGH: dict[str, Any] = {
    "copy": lambda x: x.copy(),
    "np.copy": np.copy,
    "deepcopy": copy.deepcopy,
    "Tensor": Tensor,
    "Tensor of lists": lambda x: Tensor([[x[0, 0], x[0, 1]], [x[1, 0], x[1, 1]]]),
    "asarray of lists": lambda x: xp.asarray([x[0], x[1]], dtype="float64"),
    "asarray copied": lambda x: xp.asarray(x, copy=True),
    "astype": lambda x: x.astype("float64", copy=True),
    "copy of what is lazy": lambda x: (x * 1.0).copy(),
    "unique": lambda x: xp.unique_values(x),
}


@pytest.mark.parametrize("name", THROUGH)
def test_gradients_go_through_what_keeps_the_values(name: str) -> None:
    """Of a copy as of the tensor itself: eager and captured, backwards, forwards and under vmap; and its memory is its own."""
    f, x = THROUGH[name], np.array([[1.0, 2.0], [3.0, 5.0]])
    loss = lambda x: (f(x) ** 2).sum()  # noqa: E731
    assert grad(loss)(Tensor(x)).tolist() == (2 * x).tolist()
    assert jvp(loss, (Tensor(x),), (Tensor(np.ones_like(x)),))[1].item() == 2 * x.sum()
    if name == "unique":
        return
    assert jit(grad(loss))(x).tolist() == (2 * x).tolist()
    if name == "deepcopy":
        return
    w = Tensor(x.copy(), requires_grad=True)
    made = f(w)
    (made**2).sum().backward()
    assert w.grad.tolist() == (2 * x).tolist()
    made.numpy()[0, 0] = 7.0
    assert w.tolist() == x.tolist() or name == "Tensor"  # (which is the same tensor)
    assert vmap(lambda x: f(x).sum())(Tensor(np.stack([x, x]))).tolist() == [11.0, 11.0]


def test_an_array_of_what_is_differentiated_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"whose gradient is being taken.*detach"):
        grad(lambda x: (x * np.asarray(x)).sum())(Tensor(array(3)))
    assert grad(lambda x: (x * np.asarray(x.detach())).sum())(Tensor([2.0, 3.0])).tolist() == [2.0, 3.0]


def test_a_result_that_is_no_tensor_has_no_gradient() -> None:
    x = Tensor(np.arange(3, dtype=np.float32))
    value, pull = vjp(lambda a: np.float32(3), x)
    assert value.item() == 3 and (pull(Tensor(np.float32(1)))[0].numpy() == 0).all()
    (double, _), (moved, still) = jvp(lambda a: (a * 2, np.ones(2, np.float32)), [x], [x])
    assert (moved.numpy() == double.numpy()).all() and (still.numpy() == 0).all()


@pytest.mark.parametrize("kind", ["float16", "float64"])
def test_weights_of_a_softmax_that_are_converted_before_they_are_summed(kind: str) -> None:
    """The sums have another type than the weights, and so has their gradient."""
    x, v = array(3, 4), array(4, 2)
    w = np.exp(x.astype("d")) / np.exp(x.astype("d")).sum(1, keepdims=True)
    dw = np.ones((3, 2)) @ v.T.astype("d")
    found = grad(lambda x: (x.softmax(1).astype("float32") @ Tensor(v)).sum())(Tensor(x).astype(kind))
    assert str(found.dtype) == kind
    np.testing.assert_allclose(found.astype("float64").numpy(), w * (dw - (w * dw).sum(1, keepdims=True)), atol=3e-3)


def test_captured_functions_have_gradients() -> None:
    """Called before, or not: what a program computed was a constant, and its gradient 0."""
    f, x = jit(lambda v: (v * v).sum()), np.array([1.0, 2.0, 3.0], np.float32)
    for _ in range(2):
        assert grad(f)(x).numpy().tolist() == grad(checkpoint(f))(x).numpy().tolist() == [2.0, 4.0, 6.0]
        assert value_and_grad(lambda v: f(v) * 2)(Tensor(x))[1].numpy().tolist() == [4.0, 8.0, 12.0]
        assert vjp(f, x)[1](1.0)[0].numpy().tolist() == [2.0, 4.0, 6.0] and jvp(f, [x], [x])[1].item() == 28.0
        assert vmap(f)(np.stack([x, x])).numpy().tolist() == [14.0, 14.0]
        followed = Tensor(x, requires_grad=True)
        (f(followed) + f(followed * 2) + followed.sum()).backward()
        assert followed.grad.numpy().tolist() == [11.0, 21.0, 31.0]
        assert f(Tensor(x)).item() == f(followed.detach()).item() == 14.0
    assert len(f.programs) == 1


W = np.array([2.0, 3.0])
BATCH = np.array([[1.0, 2.0], [3.0, 5.0]])


def rows(x: Any, w: Any) -> Any:
    """Σ w³ x² of rows, with writes."""
    y = x * 1
    y *= x
    y[:1] = y[:1] * w[:1] ** 3
    y[1:] *= w[1:] ** 3
    return y.sum()


CALLED: dict[str, Any] = {
    "grad": lambda j: grad(lambda w: j(Tensor(BATCH[0]), w)),
    "value_and_grad": lambda j: lambda w: value_and_grad(j, 1)(Tensor(BATCH[0]), w)[1],
    "array": lambda j: grad(lambda w: j(BATCH[0], w)),
    "out": lambda j: grad(lambda w: j(BATCH[0], w, out=np.empty(()))),
    "vjp": lambda j: lambda w: vjp(j, Tensor(BATCH[0]), w)[1](Tensor(np.float64(1)))[1],
    "jvp": lambda j: (
        lambda w: Tensor([jvp(lambda w: j(Tensor(BATCH[0]), w), (w,), (Tensor(d),))[1].item() for d in np.eye(2)], dtype="float64")
    ),
    "checkpoint": lambda j: grad(checkpoint(lambda w: j(Tensor(BATCH[0]), w))),
    "outside": lambda j: grad(lambda w: jit(lambda x: j(x, w))(Tensor(BATCH[0]))),
    "beside": lambda j: grad(lambda w: j(Tensor(BATCH[0]), w) + (w * 0).sum()),
    "vmap": lambda j: lambda w: vmap(grad(j, 1), (0, None))(Tensor(BATCH), w)[0],
    "vmap in jit": lambda j: jit(lambda w: vmap(jit(grad(j, 1)), (0, None))(Tensor(BATCH), w)[0]),
    "through vmap": lambda j: grad(lambda w: jit(vmap(j, (0, None)))(Tensor(BATCH), w)[0]),
}


@pytest.mark.parametrize("way", CALLED)
def test_a_captured_function_is_a_part_of_what_is_differentiated_or_batched(way: str) -> None:
    found = CALLED[way](jit(rows))(Tensor(W))
    assert found.tolist() == (3 * W**2 * BATCH[0] ** 2).tolist()


def test_backward_goes_through_a_captured_function() -> None:
    """Through its arguments, what it takes from outside, and what began to require a gradient after it was captured."""
    x, late = Tensor(BATCH[0]), Tensor(W)
    reader = jit(lambda x: rows(x, late))
    assert reader(x).item() == reader(x).item() == (W**3 * BATCH[0] ** 2).sum()
    late.requires_grad_()
    w, outside = Tensor(W, requires_grad=True), Tensor(W, requires_grad=True)
    total = jit(rows)(x, w) + jit(lambda x: rows(x, outside))(x) + reader(x) + (w**2).sum()
    total.backward()
    wanted = 3 * W**2 * BATCH[0] ** 2
    assert (w.grad.tolist(), outside.grad.tolist(), late.grad.tolist()) == ((wanted + 2 * W).tolist(), wanted.tolist(), wanted.tolist())


def test_a_captured_training_step_stays_one() -> None:
    """What gives its parameters new values is no part of somebody's graph."""
    w = Tensor(W, requires_grad=True)

    @jit
    def step(x: Any) -> Any:
        total = rows(x, w)
        total.backward()
        w.assign(w - 0.125 * w.grad)
        return total

    step(Tensor(BATCH[0]))
    assert w.tolist() == (W - 0.125 * 3 * W**2 * BATCH[0] ** 2).tolist() and not step(Tensor(BATCH[0])).node.tracked
