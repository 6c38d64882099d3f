"""Probes of captured functions: numbers that change, tensors that are updated, memory that is used in turn, records on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tilewright as tw
from agreement import close
from tilewright import Tensor, xp
from tilewright.tensor.running import compiled_kernels as programs

X = np.random.default_rng(5).uniform(1, 2, (9, 6)).astype(np.float32)


def _numbers() -> None:
    f = tw.jit(lambda x, k: x * k + 1)
    for k in (2.0, 3.0, 2.0, -4.0):
        close(f(Tensor(X), k), X * k + 1)


def _zeros() -> None:
    f = tw.jit(lambda x, k: x.copysign(k) if hasattr(x, "copysign") else xp.copysign(x, xp.full(x.shape, k)))
    for k in (0.0, -0.0):
        close(f(Tensor(X), k), np.copysign(X, k))


def _statics() -> None:
    f = tw.jit(lambda x, how: x * 2 if how == "double" else x + 1)
    close(f(Tensor(X), "double"), X * 2)
    close(f(Tensor(X), "more"), X + 1)


def _results() -> None:
    f = tw.jit(lambda x, y: {"b": x + y, "a": (x - y, x * 2, 7)})
    made = f(Tensor(X), Tensor(X[::-1].copy()))
    close(made["b"], X + X[::-1])
    close(made["a"][0], X - X[::-1])
    close(made["a"][1], X * 2)
    assert made["a"][2] == 7


def _one_array_twice() -> None:
    f = tw.jit(lambda x, y: (x - 2 * y).sum(0))
    a, b = Tensor(X), Tensor(X + 3)
    close(f(a, b), (X - 2 * (X + 3)).sum(0), 1e-4)
    close(f(b, a), (X + 3 - 2 * X).sum(0), 1e-4)


def _assigned() -> None:
    w = (Tensor(X) + 0.0).realise()
    f = tw.jit(lambda x: (w.assign(w * 2 + x), w + 1)[1])
    want = X.copy()
    for _ in range(3):
        want = want * 2 + X
        close(f(Tensor(X)), want + 1)
        close(w, want)


def _assigned_in_order() -> None:
    a, b = ((Tensor(X) + k).realise() for k in (0.0, 5.0))

    def step(x: Tensor) -> None:
        old = a + 0.0
        a.assign(b + x)
        b.assign(old)

    f, u, v = tw.jit(step), X.copy(), X + 5
    for _ in range(3):
        f(Tensor(X))
        u, v = v + X, u
        close(a, u)
        close(b, v)


def _read_before_it_is_written() -> None:
    w = (Tensor(X) + 0.0).realise()
    f = tw.jit(lambda x: (w.sum(0), w.assign(w + x))[0])
    want = X.copy()
    for _ in range(2):
        close(f(Tensor(X)), want.sum(0), 1e-4)
        want = want + X
        close(w, want)


def _neighbours() -> None:
    w = (Tensor(np.arange(5000, dtype=np.float32)) + 0.0).realise()
    f = tw.jit(lambda: w.assign(w.flip() * 0.5) is None)
    want = np.arange(5000, dtype=np.float32)
    for _ in range(2):
        f()
        want = want[::-1] * np.float32(0.5)
        close(w, want)


def _users_memory() -> None:
    mine = X.copy()
    t = Tensor(mine)
    f = tw.jit(lambda t: t.assign(t * 3) is None)
    f(t)
    close(t, X * 3)
    assert (mine == X).all(), "the array of a user was written"


def _two_names() -> None:
    """An argument on the memory of another one, which is written before it is read."""
    big = np.random.default_rng(4).uniform(0, 1, (300, 300)).astype(np.float32)
    x = (Tensor(big) + 0.0).realise()
    y = Tensor.of(tw.tensor.graph.nodes.leaf(x.node.data), "cpu")
    f = tw.jit(lambda x, y: (x.assign(x.exp().sin()), x @ x + y)[1])
    new = np.sin(np.exp(big))
    close(f(x, y), new @ new + big, 1e-3)


def _moved_outside() -> None:
    w = (Tensor(X) + 0.0).realise()
    f = tw.jit(lambda x: x + w)
    for k in range(3):
        close(f(Tensor(X)), X + (X if not k else 10 * k))
        w.assign(Tensor(np.full_like(X, 10 * (k + 1))))


def _donated() -> None:
    f = tw.jit(lambda x, y: (x * 2 + y, x.sum(0)), donate=("x",))
    x = (Tensor(X) + 0.0).realise()
    a, b = f(x, Tensor(X))
    close(a, X * 3)
    close(b, X.sum(0), 1e-4)


def _returned() -> None:
    w = (Tensor(X) + 0.0).realise()
    f = tw.jit(lambda x: (Tensor.of(w.node, "cpu"), w.assign(w + x), x)[::2])
    old, x = f(Tensor(X))
    close(x, X)
    close(w, X * 2)
    close(old, X)


def _steps() -> None:
    """Many arrays between kernels: what one memory serves in turn."""
    rng = np.random.default_rng(2)
    ws = [rng.normal(size=(40, 40)).astype(np.float32) / 6 for _ in range(5)]

    def deep(x: Tensor, *ws: Tensor) -> Any:
        kept = x
        for w in ws:
            x = (x @ w).softmax(-1) @ w.T + kept.sum(0)
            kept = kept @ w
        return x, kept

    x = want = rng.normal(size=(40, 40)).astype(np.float32)
    kept = want = want.astype("d")
    for w in ws:
        e = np.exp(want @ w)
        want = e / e.sum(-1, keepdims=True) @ w.T + kept.sum(0)
        kept = kept @ w
    f = tw.jit(deep)
    for _ in range(2):
        a, b = f(Tensor(x), *map(Tensor, ws))
        close(a, want, 1e-3)
        close(b, kept, 1e-3)


def _turns() -> None:
    """Products that read columns of the one before."""
    ws = [np.random.default_rng(k).normal(size=(70, 70)).astype(np.float32) / 8 for k in range(5)]
    want = ws[0].astype("d")
    for w in ws:
        want = want.T @ w

    def turned(x: Tensor, *ws: Tensor) -> Tensor:
        for w in ws:
            x = x.T @ w
        return x

    close(tw.jit(turned)(Tensor(ws[0]), *map(Tensor, ws)), want, 1e-3)


def _narrow() -> None:
    x = X.astype(np.float16)
    m = x.astype("d").mean(-1)
    for f, want in (
        (lambda x: (x.mean(-1) * 3 + 1, x - x.mean(-1, keepdims=True), xp.sort(x.mean(-1))), (m * 3 + 1, x - m[:, None], np.sort(m))),
        (lambda x: (x.mean(-1) * 3 + 1, x.mean(-1)), (m * 3 + 1, m)),
    ):
        for _ in range(2):
            programs._programs.clear()
            for got, w in zip(tw.jit(f)(Tensor(x)), want, strict=True):
                assert got.dtype.name == "float16"
                close(got, w, 5e-3)


def _warm() -> None:
    for k in (2.0, 2.0, 3.0):
        programs._programs.clear()
        f = tw.jit(lambda x, y, k=k: (x * k - y, x + y))
        a, b = f(Tensor(X), Tensor(X + 1))
        close(a, X * k - X - 1)
        close(b, 2 * X + 1)


def _sized() -> None:
    n = tw.Var("n", 1, 64)
    f = tw.jit(lambda x: (x / x.sum(0), x[:1] * 2, x.sum(-1)), symbols={"x": {0: n}})
    for rows in (9, 3, 5):  # the largest first, so that a fault does not write past an array
        x = X[:rows]
        for got, want in zip(f(Tensor(x.copy())), (x / x.sum(0), x[:1] * 2, x.sum(-1)), strict=True):
            close(got, want)


def _view_after_arrays() -> None:
    """A tensor that is updated in place before another argument is read, which comes to lie in its memory."""
    big = np.random.default_rng(4).uniform(0, 1, (300, 300)).astype(np.float32)
    x = (Tensor(big) + 0.0).realise()
    f = tw.jit(lambda x, y: (x.assign(x.exp().sin()), x @ x + y)[1])
    for _ in range(3):
        old, big = big, np.sin(np.exp(big))
        close(f(x, old), big @ big + old, 1e-3)
    y = x.numpy()
    new = np.sin(np.exp(big))
    close(f(x, y), new @ new + big, 1e-3)


def _shapes_in_turn() -> None:
    f = tw.jit(lambda x: x * 2)
    for x in (X, X, X[:3], X[:3]):
        close(f(x), x * 2)


def _structures_in_turn() -> None:
    def of_both(t: Any) -> Any:
        return t[0] - t[1] * (2 if isinstance(t, list) else 3)

    f = tw.jit(of_both)
    for t in ([X, X + 1], (X + 1, X), [X + 2, X + 1]):
        for _ in range(2):
            close(f(t), of_both(t))


def _sizes_and_shapes() -> None:
    f = tw.jit(lambda x: x.sum(0) * 2, symbols={"x": {0: tw.Var("n", 1, 64)}})
    for x in (X, X[:, :2].copy(), X[:3], X[:5, :2].copy()):
        close(f(x), x.sum(0) * 2)


def _kinds() -> None:
    f = tw.jit(lambda x: x * 2)
    close(f(Tensor(X)), X * 2)
    i = np.arange(6)
    made = f(Tensor(i))
    assert made.dtype.name == "int64"
    close(made, i * 2)


def _numbers_in_turn() -> None:
    """A number that stays, and one that changes."""
    f = tw.jit(lambda x, k, n: (x * k).reshape(n, -1))
    for k, n in ((2.0, 9), (2.0, 6), (3.0, 6), (3.0, 9)):
        close(f(Tensor(X), k, n), (X * k).reshape(n, -1))


def _assigned_twice() -> None:
    w = (Tensor(X) + 0.0).realise()

    def step(x: Tensor) -> Tensor:
        w.assign(w + x)
        w.assign(w * 2)
        return w.sum(0)

    f, want = tw.jit(step), X.copy()
    for _ in range(2):
        want = (want + X) * 2
        close(f(Tensor(X)), want.sum(0), 1e-4)
        close(w, want)


CAPTURED: dict[str, Callable[[], None]] = {
    "numbers": _numbers,
    "zeros": _zeros,
    "statics": _statics,
    "results": _results,
    "one array twice": _one_array_twice,
    "assigned": _assigned,
    "assigned in order": _assigned_in_order,
    "read before it is written": _read_before_it_is_written,
    "neighbours": _neighbours,
    "users memory": _users_memory,
    "two names": _two_names,
    "moved outside": _moved_outside,
    "donated": _donated,
    "returned": _returned,
    "steps": _steps,
    "turns": _turns,
    "narrow": _narrow,
    "warm": _warm,
    "sized": _sized,
    "a view after arrays": _view_after_arrays,
    "shapes in turn": _shapes_in_turn,
    "structures in turn": _structures_in_turn,
    "sizes and shapes": _sizes_and_shapes,
    "kinds": _kinds,
    "numbers in turn": _numbers_in_turn,
    "assigned twice": _assigned_twice,
}
