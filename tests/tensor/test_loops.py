"""scan, fori_loop, while_loop and cond: values and gradients beside the same steps written out, and what is refused."""

from __future__ import annotations

import signal
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import OutOfRangeError, Tensor, UsageError, vmap, xp
from tilewright.ir.errors import OutOfTimeError

rng = np.random.default_rng(41)
STEPS = 5
XS = rng.standard_normal((STEPS, 3, 4))
H = rng.standard_normal((3, 4))
W = rng.standard_normal((4, 4)) * 0.4
B = rng.standard_normal(4)


def captured(f: Callable[..., Any]) -> Callable[..., Any]:
    """The function under jit."""
    return tw.jit(f)


def eager(f: Callable[..., Any]) -> Callable[..., Any]:
    """The function as it is."""
    return f


# bodies: (carry, x, weights) → (carry, y)
def plain(c: Any, x: Any, w: Any, b: Any) -> Any:
    h = (x + c @ w + b).tanh()
    return h, h


def other_ys(c: Any, x: Any, w: Any, b: Any) -> Any:
    h = (c @ w).tanh() * x + b
    return h, {"sum": (h * h).sum(), "x": x * 2}


def tree(c: Any, x: Any, w: Any, b: Any) -> Any:
    h = (x + c["h"] @ w + b).sigmoid()
    s = c["s"] * 0.5 + h.sum(0)
    return {"h": h, "s": s, "n": c["n"] + 1}, (s, h)


def swapped(c: Any, x: Any, w: Any, b: Any) -> Any:
    return (c[1], (c[0] @ w + x * b).sin()), c[0]


def sorts(c: Any, x: Any, w: Any, b: Any) -> Any:
    return c * 0.5 + xp.sort(x, axis=-1) @ w, c


FIRST: dict[str, Callable[[], Any]] = {
    "plain": lambda: Tensor(H),
    "other_ys": lambda: Tensor(H),
    "tree": lambda: {"h": Tensor(H), "s": Tensor(B), "n": Tensor(0)},
    "swapped": lambda: (Tensor(H), Tensor(H + 1)),
    "sorts": lambda: Tensor(H),
}
BODIES = {f.__name__: f for f in (plain, other_ys, tree, swapped, sorts)}


def written_out(f: Any, c: Any, xs: Any, reverse: bool) -> Any:
    """What scan does, step by step."""
    steps = range(xs.shape[0])
    ys: list[Any] = [None] * xs.shape[0]
    for t in reversed(steps) if reverse else steps:
        c, ys[t] = f(c, xs[t])
    return c, tw.tree_map(lambda *y: xp.stack(list(y), axis=0), ys[0], *ys[1:])


def close(a: Any, b: Any) -> None:
    """Equal trees, up to what sums are rounded by."""
    tw.tree_map(lambda x, y: np.testing.assert_allclose(x.numpy(), y.numpy(), 1e-11, 1e-12), a, b)


@pytest.mark.covering
@pytest.mark.slow
@pytest.mark.parametrize(("way", "body", "reverse"), list(product((captured, eager), BODIES, (False, True))))
def test_a_scan_is_its_steps(way: Any, body: str, reverse: bool) -> None:
    f = BODIES[body]
    w, b = Tensor(W), Tensor(B)
    found = way(lambda c, xs, w, b: tw.scan(lambda c, x: f(c, x, w, b), c, xs, reverse=reverse))(FIRST[body](), Tensor(XS), w, b)
    close(found, written_out(lambda c, x: f(c, x, w, b), FIRST[body](), Tensor(XS), reverse))


def loss_of(result: Any) -> Any:
    """A number of everything that has a gradient in a result."""
    found: list[Any] = []
    tw.tree_map(lambda t: found.append(t) if t.dtype.is_float else None, result)
    total = found[0].sin().sum()
    for i, t in enumerate(found[1:]):
        total = total + (t * (i + 0.5)).cos().sum()
    return total


@pytest.mark.covering
@pytest.mark.slow
@pytest.mark.parametrize(("way", "body", "reverse"), list(product((captured, eager), BODIES, (False, True))))
def test_gradients_are_those_of_the_steps(way: Any, body: str, reverse: bool) -> None:
    f, rest = BODIES[body], FIRST[body]()
    extra = {k: rest.pop(k) for k in ("n",)} if isinstance(rest, dict) else {}

    def loss(run: Any) -> Any:
        def total(c: Any, xs: Any, w: Any, b: Any) -> Any:
            return loss_of(run(lambda c, x: f(c, x, w, b), {**c, **extra} if extra else c, xs))

        return tw.grad(total, argnums=(0, 1, 2, 3))

    given = rest, Tensor(XS), Tensor(W), Tensor(B)
    found = way(loss(lambda g, c, xs: tw.scan(g, c, xs, reverse=reverse)))(*given)
    close(found, loss(lambda g, c, xs: written_out(g, c, xs, reverse))(*given))


@pytest.mark.slow
def test_gradients_of_gradients():
    def of(run: Any) -> Any:
        def loss(w: Any) -> Any:
            return loss_of(run(lambda c, x: plain(c, x, w, Tensor(B)), Tensor(H), Tensor(XS)))

        return tw.grad(lambda w: (tw.grad(loss)(w) ** 2).sum())(Tensor(W))

    close(of(tw.scan), of(lambda f, c, xs: written_out(f, c, xs, False)))


@pytest.mark.slow
def test_functions_of_functions_have_the_arguments_of_theirs() -> None:
    n = tw.Var("n", 1, 9)
    loss = lambda w, xs: tw.scan(lambda c, x: (c * w + x, None), 0.0, xs)[0]  # noqa: E731
    slope = tw.jit(tw.grad(tw.checkpoint(loss)), symbols={"xs": {0: n}})
    assert [slope(2.0, np.ones(k)).item() for k in (1, 3)] == [0.0, 5.0]
    assert tw.jit(tw.vmap(loss, in_axes=(0, None)), symbols={"xs": {0: n}})(np.ones(2), np.ones(5)).numpy().tolist() == [5.0, 5.0]


def test_a_symbolic_number_of_steps():
    n = tw.Var("n", 1, 9)
    w, b = Tensor(W), Tensor(B)

    def f(c: Any, xs: Any) -> Any:
        return tw.scan(lambda c, x: plain(c, x, w, b), c, xs)

    def gradient(c: Any, xs: Any) -> Any:
        return tw.grad(lambda c, xs: loss_of(f(c, xs)))(c, xs)

    known, slope = (tw.jit(g, symbols={"xs": {0: n}}) for g in (f, gradient))
    for steps in (1, 5, 3):
        close(known(Tensor(H), Tensor(XS[:steps])), f(Tensor(H), Tensor(XS[:steps])))
        close(slope(Tensor(H), Tensor(XS[:steps])), gradient(Tensor(H), Tensor(XS[:steps])))
    assert len(known.programs) == 1


@pytest.mark.slow
@pytest.mark.parametrize("in_axes", [(0, 0), (None, 0), (0, None)])
def test_vmap_of_a_scan(in_axes: Any) -> None:
    f = lambda c, xs: tw.scan(lambda c, x: plain(c, x, Tensor(W), Tensor(B)), c, xs)  # noqa: E731
    c, xs = Tensor(np.stack([H, H + 1])), Tensor(np.stack([XS, XS * 2]))
    last, ys = tw.vmap(f, in_axes=in_axes)(c if in_axes[0] == 0 else c[0], xs if in_axes[1] == 0 else xs[0])
    for i in range(2):
        close((last[i], ys[i]), f(c[i if in_axes[0] == 0 else 0], xs[i if in_axes[1] == 0 else 0]))


@pytest.mark.parametrize("value", [lambda i, x: i * 3, lambda i, x: x[i - 1] * 2 + i, lambda i, x: x[i] + x[0] + i])
def test_fori_loop_updates_its_array_in_place(value: Any) -> None:
    def fill(i: Any, x: Any) -> Any:
        x[i] = value(i, x)
        return x

    f = tw.jit(lambda x: tw.fori_loop(1, 5, fill, x))
    x, want = np.arange(6, dtype=np.int64), np.arange(6, dtype=np.int64)
    for i in range(1, 5):
        want[i] = value(i, want)
    assert f(x).numpy().tolist() == want.tolist()
    assert x.tolist() == [0, 1, 2, 3, 4, 5]  # the caller's array is as it was
    (call,) = f.programs[0].calls
    assert call.loop is not None and not call.loop.frame.carries  # one buffer


def test_fori_loop_over_bounds_that_are_tensors():
    f = tw.jit(lambda n, x: tw.fori_loop(0, n, lambda i, v: v + i, x))
    assert [f(Tensor(n), Tensor(1)).item() for n in (0, 1, 4)] == [1, 1, 7]


@pytest.mark.parametrize("way", [captured, eager])
def test_while_loop(way: Any) -> None:
    # Jacobi's iteration with a stopping rule
    a = np.eye(6) * 4 + rng.standard_normal((6, 6)) * 0.3
    right = rng.standard_normal(6)
    d, rest = np.diag(a).copy(), a - np.diag(np.diag(a))

    def solve(rest: Any, d: Any, right: Any) -> Any:
        step = lambda v: ((right - rest @ v[0]) / d, v[0], v[2] + 1)  # noqa: E731
        return tw.while_loop(lambda v: (v[0] - v[1]).abs().max() > 1e-12, step, (right / d, right * 0, 0))

    x, _, count = way(solve)(rest, d, right)
    np.testing.assert_allclose(x.numpy(), np.linalg.solve(a, right), 1e-10)
    assert 3 < count.item() < 60
    assert way(lambda x: tw.while_loop(lambda v: v < 0, lambda v: v + 1, x))(Tensor(3.0)).item() == 3


def test_vmap_of_while_loop_goes_on_for_each_until_its_own_end():
    f = tw.vmap(lambda x: tw.while_loop(lambda v: v[0] < 100, lambda v: (v[0] * 2, v[1] + 1), (x, 0)))
    x, count = f(Tensor([1.0, 60.0, 200.0]))
    assert (x.tolist(), count.tolist()) == ([128, 120, 200], [7, 1, 0])


@pytest.mark.parametrize("way", [captured, eager])
def test_cond(way: Any) -> None:
    def f(p: Any, x: Any, y: Any) -> Any:
        return tw.cond(p, lambda x, y: (x * y, x.sum()), lambda x, y: (x - y, y[0]), x, y)

    x, y = Tensor([1.0, 2.0]), Tensor([3.0, 5.0])
    g = way(tw.grad(lambda x, y, p: loss_of(f(p > 0, x, y)), argnums=(0, 1)))
    for p in (1.0, -1.0):
        want = (x * y, x.sum()) if p > 0 else (x - y, y[0])
        close(way(f)(Tensor(p) > 0, x, y), want)
        plainly = tw.grad(lambda x, y: loss_of((x * y, x.sum()) if p > 0 else (x - y, y[0])), argnums=(0, 1))  # noqa: B023
        tw.tree_map(lambda a, b: np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-5), g(x, y, Tensor(p)), plainly(x, y))


def test_loops_in_loops():
    def f(rows: Any) -> Any:
        inner = lambda c, row: (c + tw.scan(lambda d, x: (d * 0.5 + x, None), c * 0, row)[0], c)  # noqa: E731
        return tw.scan(inner, Tensor(0.0, dtype="float64"), rows)

    rows = rng.standard_normal((3, 4))
    c, want = 0.0, []
    for row in rows:
        want.append(c)
        d = 0.0
        for x in row:
            d = d * 0.5 + x
        c += d
    for way in (captured, eager):
        last, ys = way(f)(Tensor(rows))
        np.testing.assert_allclose([*ys.tolist(), last.item()], [*want, c], 1e-12)
    slope = tw.jit(tw.grad(lambda rows: f(rows)[0]))(Tensor(rows)).numpy()
    np.testing.assert_allclose(slope, np.tile(0.5 ** np.arange(4)[::-1], (3, 1)))


@pytest.mark.parametrize("way", [captured, eager])
def test_indices_are_checked_in_every_step(way: Any) -> None:
    f = way(lambda table, places: tw.scan(lambda c, i: (c + table[i], None), Tensor(np.zeros(2)), places)[0])
    table = Tensor(np.arange(8.0).reshape(4, 2))
    assert f(table, Tensor([0, 3, -1])).tolist() == [12, 15]
    with pytest.raises(OutOfRangeError, match="index 4 is out of range for dimension 0 of 4 elements"):
        f(table, Tensor([0, 4, 1])).numpy()


def test_another_process_would_pull_nothing():
    f = lambda c, xs: tw.scan(lambda c, x: plain(c, x, Tensor(W), Tensor(B)), c, xs)  # noqa: E731
    first, second = tw.jit(f), tw.jit(f)
    found = [g(Tensor(H), Tensor(XS)) for g in (first, second)]
    assert second.programs[0].warm
    close(*found)


def test_no_steps():
    c, ys = tw.scan(lambda c, x: (c + x, c), Tensor(2.0), Tensor(np.zeros(0, np.float32)))
    assert (c.item(), ys.shape) == (2.0, (0,))
    assert tw.fori_loop(3, 1, lambda i, v: v + 1, 7) == 7 or tw.fori_loop(3, 1, lambda i, v: v + 1, 7).item() == 7


def test_a_number_takes_the_type_of_the_steps():
    found, _ = tw.scan(lambda c, x: (c + x, None), 0, Tensor(np.array([0.5, 1.0])))
    assert (str(found.dtype), found.item()) == ("float64", 1.5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda x: tw.scan(lambda c, y: (c.astype("float64"), None), np.zeros(2, np.float32), x),
            r"carry begins as float32\[2\], and .* float64",
        ),
        (
            lambda x: tw.scan(lambda c, y: ({"h": c["h"][:1]}, None), {"h": x}, x),
            r"carry\['h'\] begins as float64\[3\], and .* float64\[1\]",
        ),
        (lambda x: tw.scan(lambda c, y: ((c, c), None), x, x), r"must keep its structure"),
        (lambda x: tw.scan(lambda c, y: c, x, x), "returns a pair"),
        (lambda x: tw.scan(lambda c, y: (c, y), x, (x, x[:2])), r"xs\[1\] has 2 elements along dimension 0, and xs\[0\] says 3"),
        (lambda x: tw.scan(lambda c, y: (c, y), x), "give length="),
        (lambda x: tw.scan(lambda c, y: (x.assign(x + 1), None), x, x), "assigns to a tensor"),
        (lambda x: tw.while_loop(lambda v: v > 0, lambda v: v - 1, x), "one bool is needed"),
        (
            lambda x: tw.cond(x.sum() > 0, lambda x: x, lambda x: x[:1], x),
            r"result is float64\[3\] by true_fun, and float64\[1\] by false_fun",
        ),
        (lambda x: tw.cond(x.sum() > 0, lambda x: x, lambda x: (x, x), x), "same structure"),
        (lambda x: tw.cond(x > 0, lambda x: x, lambda x: x, x), "one bool is needed"),
        (lambda x: tw.fori_loop(0, 1.5, lambda i, v: v, x), "no whole number"),
        (lambda x: tw.grad(lambda x: tw.while_loop(lambda v: v.sum() < 9, lambda v: v + 1, x).sum())(x), "use scan or fori_loop"),
        (lambda x: tw.scan(lambda c, y: (c + float(y), None), x, x), "compute with the tensor itself"),
    ],
)
def test_what_is_refused(call: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        call(Tensor(np.zeros(3)))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("body", ["kernels", "numpy"])
def test_rows_of_an_array_are_read_where_they_lie(body: str, reverse: bool) -> None:
    def both(x: Any, w: Any) -> Any:
        def step(c: Any, q: Any) -> Any:
            a, b, d = q
            c = xp.sort(c * w + a - b + d) if body == "numpy" else c * w + a - b + d
            return c, c

        return tw.scan(step, w * 0, (x[1:6], x[:10:2], x[::-1][2:7]), reverse=reverse)[1]

    x, w = np.random.default_rng(0).standard_normal((10, 3)), np.array([0.5, 0.25, 2.0])
    c, want, rows = w * 0, np.zeros((5, 3)), list(zip(x[1:6], x[:10:2], x[::-1][2:7], strict=True))
    for t in reversed(range(5)) if reverse else range(5):
        a, b, d = rows[t]
        c = np.sort(c * w + a - b + d) if body == "numpy" else c * w + a - b + d
        want[t] = c
    f = tw.jit(both)
    np.testing.assert_allclose(f(Tensor(x), Tensor(w)).numpy(), want)
    assert "copy" not in f.report()
    np.testing.assert_allclose(eager(both)(Tensor(x), Tensor(w)).numpy(), want)
    n = tw.Var("n", 2, 40)
    after = tw.jit(
        lambda x: tw.scan(lambda c, q: ((y := c * 0.5 + q[0] * q[1]), y), x[0], (x[1:], x[:-1]), reverse=reverse)[0], symbols={"x": {0: n}}
    )
    for k in (10, 2):
        c = x[0]
        for t in reversed(range(k - 1)) if reverse else range(k - 1):
            c = c * 0.5 + x[t + 1] * x[t]
        np.testing.assert_allclose(after(x[:k].copy()).numpy(), c)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("body", ["kernels", "numpy"])
def test_arrays_that_are_joined_are_read_where_they_lie(body: str, reverse: bool) -> None:
    """Pieces of one row and of several: an array, rows of one, what is computed; and a join that is wanted itself."""

    def sums(x: Any, y: Any, of: Any, run: Any) -> Any:
        after, around, wanted = (of.concat(a) for a in ([x[1:], y[:1] * 0.5], [y[2:3], x[2:6], y, x[:1]], [x[:6], x[::-1][1:4]]))
        padded, turned = of.pad(x[1:8], ((1, 1), (0, 0))), of.roll(x, -2, axis=0)

        def step(c: Any, q: Any) -> Any:
            c = c * 0.5 + q[0] - q[1] * q[2] + q[3] / (q[4] + 4)
            return of.sort(c) if body == "numpy" else c

        return run(step, x[0] * 0, (after, around, wanted, padded, turned)), wanted

    def steps(step: Any, c: Any, xs: Any) -> Any:
        found = np.zeros_like(xs[0])
        for t in reversed(range(9)) if reverse else range(9):
            c = found[t] = step(c, [x[t] for x in xs])
        return found

    loop = lambda step, c, xs: tw.scan(lambda c, q: ((y := step(c, q)), y), c, xs, reverse=reverse)[1]  # noqa: E731
    x, y = np.random.default_rng(0).standard_normal((9, 3)), np.random.default_rng(1).standard_normal((3, 3))
    f = tw.jit(lambda x, y: sums(x, y, xp, loop))
    for way in (f, f, lambda x, y: sums(x, y, xp, loop)):
        for got, want in zip(way(Tensor(x), Tensor(y)), sums(x, y, np, steps), strict=True):
            np.testing.assert_allclose(got.numpy(), want)
    assert f.report().count("where") == 1 and f.report().count("copy") == 1  # (the one that is wanted, and zeros)


def test_what_is_read_where_it_lies_may_be_wanted_as_well() -> None:
    x = np.arange(12.0).reshape(4, 3)
    made = tw.jit(
        lambda x: (
            x[1:],
            tw.scan(lambda c, r: (c + r, None), x[0], x[1:])[0],
            (x @ x.mT)[1:],
            tw.scan(lambda c, r: (c + r, None), x[:, 0], (x @ x.mT)[1:])[0],
        )
    )(x)
    for got, want in zip(made, (x[1:], x.sum(0), (x @ x.T)[1:], x[:, 0] + (x @ x.T)[1:].sum(0)), strict=True):
        np.testing.assert_allclose(got.numpy(), want)


def test_a_loop_whose_steps_change_nothing_is_refused():
    for step in (lambda v: v, lambda v: v * 1):
        with pytest.raises(UsageError, match="a step changes nothing"):
            tw.while_loop(lambda v: v < 3, step, Tensor(0.0))


def test_a_rule_of_a_gradient_may_take_arrays_from_outside_of_the_loop() -> None:
    import scipy.sparse

    w, xs, k = np.eye(3) * 0.5, np.arange(12.0).reshape(4, 3) / 12, np.array([1.0, 2.0, 3.0])

    def ours(w: Any, xs: Any, k: Any) -> Any:
        @tw.operation
        def same(x: Any) -> Any:
            kb = tw.KernelBuilder("same")
            i = kb.axis("n", 3)
            kb.store("y", "float64", (3,), (i,), kb.input("x", (3,), "float64")[i] * 1.5)
            return kb.build()

        tw.register_gradient(same, lambda dy, y, x: dy * (k * 2))
        return tw.scan(lambda h, x: ((y := x + same(h @ w)), y.sum()), xs[0] * 0, xs)[1].sum()

    want, h, d = np.zeros((3, 3)), [np.zeros(3)], np.zeros(3)
    for x in xs:
        h.append(x + 1.5 * (h[-1] @ w))
    for before in reversed(h[:-1]):
        d = (d + 1) * k * 2
        want += np.outer(before, d)
        d = w @ d
    for way in (captured, eager):
        np.testing.assert_allclose(way(tw.grad(ours))(*map(Tensor, (w, xs, k))).numpy(), want)
    s = scipy.sparse.csr_matrix(w + np.diag([1.0, 2.0], 1))
    product = lambda d: tw.scan(lambda v, _: (tw.sparse.CSR(s.indptr, s.indices, d, shape=(3, 3)) @ v, None), k, None, length=2)[0].sum()  # noqa: E731
    slope = tw.jit(tw.grad(product))(s.data).numpy()
    rows = np.repeat(np.arange(3), np.diff(s.indptr))
    np.testing.assert_allclose(slope, (np.ones(3) @ s)[rows] * k[s.indices] + (s @ k)[s.indices])


def test_a_loop_that_never_ends_has_a_time_limit():
    f = tw.jit(lambda x: tw.while_loop(lambda v: v >= 0, lambda v: v + 1, x, seconds=0.05))
    with pytest.raises(OutOfTimeError, match=r"while_loop has not ended within 0\.05 s"):
        f(Tensor(0))
    assert f(Tensor(-1)).item() == -1  # it still works


@pytest.mark.parametrize("way", [captured, eager])
def test_a_loop_that_never_ends_can_be_interrupted(way: Any) -> None:
    f = way(lambda x: tw.while_loop(lambda v: v[0] >= 0, lambda v: (v[0] + 1, tw.fori_loop(0, 5, lambda i, s: s + i, v[1])), (x, 0)))

    def rung(*_: Any) -> None:
        raise KeyboardInterrupt

    f(Tensor(-1))[0].numpy()  # compiled before the clock runs
    before = signal.signal(signal.SIGALRM, rung)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            f(Tensor(0))[0].numpy()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert f(Tensor(-5))[0].item() == -5


@pytest.mark.parametrize("batch", [slice(None), slice(1)])
def test_a_weights_gradient_is_one_product_behind_the_loop(batch: slice):
    """Of a batch of one, too, whose parts are products without a sum."""

    def gradient(run: Any) -> Any:
        return tw.grad(lambda w: loss_of(run(lambda c, x: plain(c, x, w, Tensor(B)), Tensor(H[batch]), Tensor(XS[:, batch]))))

    f = tw.jit(gradient(tw.scan))
    close(f(Tensor(W)), gradient(lambda f, c, xs: written_out(f, c, xs, False))(Tensor(W)))
    back = next(c for c in f.programs[0].calls if c.name == "scan gradient")
    assert back.loop is not None  # its carry is the gradient of the carry, and no weight's
    assert len(back.loop.frame.carries) + len(back.loop.frame.before) <= 1


def test_a_step_stores_what_a_stencil_would_compute_at_many_places():
    """Arrays that stay in the caches are read sooner than stages of stages are computed again."""

    def step(u: Any, roll: Any) -> Any:
        slope = lambda u: roll(u, 1) - 2 * u + roll(u, -1)  # noqa: E731
        a = slope(u)
        b = slope(u + 0.1 * a)
        c = slope(u + 0.1 * b)
        return u + 0.1 * (a + b + c + slope(u + 0.2 * c))

    u = np.random.default_rng(0).standard_normal(4096).astype("float32")
    f = tw.jit(lambda u: tw.fori_loop(0, 1, lambda i, u: step(u, xp.roll), u))
    np.testing.assert_allclose(f(u).numpy(), step(u, np.roll), 1e-4, 1e-5)
    assert len(f.programs[0].kernels) > 1


def test_a_number_that_changes_from_call_to_call_may_be_read_in_a_body() -> None:
    f = tw.jit(lambda x, k: tw.cond(x.sum() > 0, lambda v: tw.fori_loop(0, 2, lambda i, u: u * k + i, v), lambda v: v - k, x))
    for k in (1.5, 2.5, -3.0):
        assert np.allclose(f(Tensor(B), k).numpy(), (B * k * k + 1) if B.sum() > 0 else B - k)


def test_complex_arrays_and_numbers_are_what_they_are_everywhere() -> None:
    """As NumPy's arrays and numbers, and as Python's: in carries, elements, branches, batches, gradients and captured functions."""
    z = np.array([1 + 2j, 3 - 1j], np.complex64)
    steps = [z[0] * z[0], z[0] * z[0] * z[1]]
    for start in (z[0], Tensor(z[0]), complex(z[0])):
        for run in (lambda f: f, tw.jit):
            last, ys = run(lambda c, xs: tw.scan(lambda c, x: (c * x, c * x), c, xs))(start, z)
            assert ys.tolist() == steps and last.item() == steps[-1]
    assert tw.fori_loop(0, 2, lambda i, c: c * 1j, z).tolist() == (-z).tolist()
    assert tw.while_loop(lambda c: c.real < 4, lambda c: c + (1 + 1j), z[0]).item() == 4 + 5j
    assert tw.cond(Tensor(False), lambda z: z * 2, lambda z: z * 1j, z).tolist() == (z * 1j).tolist()
    assert vmap(lambda z: z * z)(z).tolist() == (z * z).tolist()
    assert tw.jit(lambda s, x: s * x)(z[1], np.ones(2, np.float32)).tolist() == [z[1], z[1]]
    for f in (lambda z: z, lambda z: Tensor(z), lambda z: z.copy()):
        assert tw.grad(lambda z: (f(z) * z.conj()).real.sum())(z).tolist() == (2 * z).tolist()  # noqa: B023


def test_loops_that_differ_by_marks_alone_are_one() -> None:
    """Two calls of a function with a checkpoint in a loop's body were two loops until marks went, and then one that wrote one of both results."""
    step = tw.checkpoint(lambda c, e: (c * 0.5 + e, c * e))
    loss = lambda body: lambda x: (tw.scan(body, x[0], x)[1] + 3 * tw.scan(body, x[0], x)[1]).sum()  # noqa: E731
    x = Tensor(np.arange(6.0).reshape(3, 2) - 2)
    wanted = tw.grad(loss(lambda c, e: (c * 0.5 + e, c * e)))(x).numpy()
    np.testing.assert_allclose(tw.grad(loss(step))(x).numpy(), wanted, rtol=1e-12)


def test_batches_of_loops_stack_what_became_simpler() -> None:
    def nested(x: Tensor) -> Any:
        return tw.scan(lambda c, e: (tw.scan(lambda d, f: (d * f + 0.1, d), c, x[:, 0])[0], c + e), x[0] * 1.0, x)[1]

    tangents = lambda x, v: tw.jvp(nested, (x,), (v,))[1]  # noqa: E731
    x, v = (Tensor(np.random.default_rng(n).standard_normal((2, 3, 2))) for n in range(2))
    found = tw.vmap(tangents)(x, v).numpy()
    np.testing.assert_allclose(found, [tangents(x[i], v[i]).numpy() for i in range(2)], rtol=1e-12)
