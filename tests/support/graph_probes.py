"""Small programs whose results are known: what finds a fault of the partition, the gradients or the capture.

A probe raises where a result is wrong. Most are a view of a head, a head of a view or two readers of a statistic, by name:
`head/view`, `source>head`, `statistic:reader+reader`. The others are functions here."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import tilewright as tw
from agreement import agrees, close
from capture_probes import CAPTURED
from read_in_parts import READERS, STATISTICS
from tilewright import Tensor, xp
from tilewright.tensor.gradients.reverse import gradients
from tilewright.tensor.graph.primitives import const
from tilewright.tensor.running import numpy_evaluation as small
from viewed_heads import HEADS, SOURCES, VIEWS, by_kernels, drawn

X = np.random.default_rng(5).uniform(1, 2, (9, 6)).astype(np.float32)


def run(probe: str) -> None:
    """Raise where what the probe computes is wrong."""
    if probe in PROBES:
        PROBES[probe]()
    elif "/" in probe:
        head, view = probe.split("/")
        h, (of_tensor, of_array) = HEADS[head], VIEWS[view]
        agrees(probe, lambda *a: of_tensor(h.tensors(*a)), lambda *a: of_array(h.arrays(*a)), drawn(h.shapes), range(3))
    elif ">" in probe:
        source, head = probe.split(">")
        h, (shape, of_tensor, of_array) = HEADS[head], SOURCES[source]
        given = drawn((shape(h.shapes[0]), *h.shapes[1:]))
        agrees(probe, lambda x, *a: h.tensors(of_tensor(x), *a), lambda x, *a: h.arrays(of_array(x), *a), given, range(3))
    elif ":" not in probe:
        raise NameError(f"there is no probe {probe!r}")
    else:
        statistic, readers = probe.split(":")
        of_tensor, of_array = STATISTICS[statistic]
        names = readers.split("+")
        p, want = of_tensor(Tensor(X.astype("d"))), of_array(X.astype("d"))
        for r, got in zip(names, by_kernels([READERS[r][0](p).node for r in names]), strict=True):
            close(got, READERS[r][1](want))


# gradients ---------------------------------------------------------------------------------------------------------------
def written_twice(f: Callable[..., Any], g: Callable[..., Any], *given: np.ndarray[Any, Any]) -> Callable[[], None]:
    """A function of tensors and of arrays."""
    return lambda: agrees("probe", f, g, given, range(3))


A, B, C = (np.random.default_rng(i).normal(size=s) for i, s in enumerate([(4, 5), (4, 5), (5,)]))


def _ties() -> None:
    g = tw.grad(lambda x: (x.max(-1) * 6).sum())(Tensor(np.array([[1.0, 2.0, 2.0], [3.0, 3.0, 3.0]])))
    close(by_kernels([g.node])[0], [[0, 3, 3], [2, 2, 2]])


def _checkpointed() -> None:
    def f(x: Any, y: Any) -> Any:
        return tw.checkpoint(lambda x: (x @ y.T).tanh())(x) * x.sum()

    agrees("checkpoint", f, lambda x, y: np.tanh(x @ y.T) * x.sum(), (A, B), range(3))


def _stopped() -> None:
    g = tw.grad(lambda x: (tw.stop_gradient(x) * x).sum())(Tensor(A))
    close(by_kernels([g.node])[0], A)


def _groups() -> None:
    x = np.random.default_rng(0).normal(size=(6, 40))
    mean = Tensor(x).reshape(2, 120).exp().mean(-1)
    made = Tensor(x) * mean.reshape(2, 1, 1).expand(2, 3, 40).reshape(6, 40)
    close(by_kernels([made.node])[0], x * np.repeat(np.exp(x).reshape(2, 120).mean(-1), 3)[:, None])


def _circle() -> None:
    """Rows' results that two outputs and a gradient share."""
    x = Tensor(np.random.default_rng(0).normal(size=(60, 70)))

    p = tw.nn.layer_norm(x.flip(axis=0)).roll(3, axis=-1)
    a, b = p[..., 35:] * 2, p * 2
    loss = a.sum() + (b * b).sum()
    nodes = [a.node, b.node, *gradients([loss.node], [const(1.0, loss.dtype)], [x.node])]
    for got, want in zip(by_kernels(nodes), small.evaluate(nodes), strict=True):
        close(got, want)


def _second() -> None:
    inner = tw.grad(lambda x: (tw.nn.conv_transpose(x, Tensor(np.ones((1, 1, 3))), stride=2) ** 2).sum())
    g = tw.grad(lambda x: (inner(x) ** 2).sum())(Tensor(np.ones((1, 1, 4))))
    # with s = 1 where a tap is one element's own and n neighbours share the others: the map is 2·AᵀA, twice
    m = np.zeros((9, 4))
    for i in range(4):
        m[2 * i : 2 * i + 3, i] = 1
    h = 2 * m.T @ m
    close(by_kernels([g.node])[0].ravel(), 2 * h @ h @ np.ones(4))


def _batched() -> None:
    w, x = np.random.default_rng(3).normal(size=(6, 4)), X.astype("d")
    one = tw.vmap(tw.grad(lambda r, w: (r.pad([(1, 0)])[:-1] @ w)[1:].sum()), in_axes=(0, None))
    want = np.concatenate([np.repeat(w[1:, 1:].sum(1)[None], 9, 0), np.zeros((9, 1))], 1)
    close(by_kernels([one(Tensor(x), Tensor(w)).node])[0], want)
    padded = tw.vmap(lambda r: r.pad([(1, 2)]) * 2)(Tensor(x))
    close(by_kernels([padded.node])[0], np.pad(x, [(0, 0), (1, 2)]) * 2)


def unchecked(probe: Callable[[], None]) -> Callable[[], None]:
    """A probe whose indices are not looked at: places outside are then dropped, and that is what the rules of scatters say."""

    def run() -> None:
        os.environ["TILEWRIGHT_INDEX_CHECKS"] = "0"
        try:
            probe()
        finally:
            del os.environ["TILEWRIGHT_INDEX_CHECKS"]

    return run


def _batched_reads() -> None:
    x, at = X.astype("d"), np.array([[0, 2], [5, 1], [3, 3]])
    got = tw.vmap(lambda r, i: (r - r.max()).take(i))(Tensor(x[:3]), Tensor(at))
    close(by_kernels([got.node])[0], np.take_along_axis(x[:3] - x[:3].max(-1, keepdims=True), at, 1))


@unchecked
def _outside() -> None:
    at, x = np.array([0, 7, 2, -9]), np.arange(8.0).reshape(4, 2)
    want = np.zeros((3, 2))
    want[0], want[2] = x[0], x[2]
    made = Tensor(np.zeros((3, 2))).scatter_add(Tensor(np.repeat(at[:, None], 2, 1)), Tensor(x))
    close(by_kernels([made.node])[0], want)
    close(small.evaluate([made.node])[0], want)


@unchecked
def _dropped() -> None:
    at = Tensor(np.array([[0], [7], [2], [-9]]))
    g = tw.grad(lambda x: (Tensor(np.ones((3, 1))).scatter_add(at, x) ** 2).sum())(Tensor(np.ones((4, 1))))
    close(by_kernels([g.node])[0].ravel(), [4, 0, 4, 0])


# keys of graphs -------------------------------------------------------------------------------------------------------
def _alike() -> None:
    """Graphs that differ in one thing only, one after the other."""
    x, y = Tensor(X.astype("d")), Tensor(X.astype("d") + 1)
    for f, want in (
        (lambda x, y: x * 2, X * 2.0), (lambda x, y: x * 3, X * 3.0), (lambda x, y: x * y, X * (X + 1.0)), (lambda x, y: x * x, X * (X * 1.0)),
        (lambda x, y: x[:6].sum(0), X[:6].sum(0)), (lambda x, y: x[:6].sum(1), X[:6].sum(1)), (lambda x, y: x[:3] * 2, X[:3] * 2),
        (lambda x, y: x[3:6] * 2, X[3:6] * 2),
        (lambda x, y: x - y, X * 0.0 - 1), (lambda x, y: y - x, X * 0.0 + 1),
    ):  # fmt: skip
        close(by_kernels([f(x, y).node])[0], want)


def _alike_eager() -> None:
    x, y = Tensor(X), Tensor(X + 1)
    for f, want in ((lambda x, y: x * 2, X * 2), (lambda x, y: x * 3, X * 3)):
        close(f(x, y), want)
    again = Tensor.of(tw.tensor.graph.nodes.leaf(x.node.data), "cpu")
    close(x * again, X * X)
    close(x * y, X * (X + 1))


PROBES: dict[str, Callable[[], None]] = {
    **CAPTURED,
    "ties": _ties, "checkpoint": _checkpointed, "stopped": _stopped, "second derivative": _second, "batched": _batched,
    "batched reads": _batched_reads, "outside": _outside, "groups": _groups, "circle": _circle, "dropped": _dropped, "alike": _alike, "alike eager": _alike_eager,
    "quotients": written_twice(lambda a, b, c: a / (b * b + 1) - c / (a * a + 2), lambda a, b, c: a / (b * b + 1) - c / (a * a + 2), A, B, C),
    "powers": written_twice(lambda a, b: (a * a + 0.5) ** b, lambda a, b: (a * a + 0.5) ** b, A, B),
    "functions": written_twice(lambda a: a.exp() + (a * a + 1).log() * a.tanh() + a.sin() / (a * a + 1).sqrt() + abs(a),
                               lambda a: np.exp(a) + np.log(a * a + 1) * np.tanh(a) + np.sin(a) / np.sqrt(a * a + 1) + np.abs(a), A),
    "choices": written_twice(lambda a, b: (a > b).where(a * 2, b * 3) + a.maximum(b * 0.5), lambda a, b: np.where(a > b, a * 2, b * 3) + np.maximum(a, b * 0.5), A, B),
    "means": written_twice(lambda a, b: a.mean(0) * b + b.mean() + (a * 0 + b[:1]).mean(-1)[:, None], lambda a, b: a.mean(0) * b + b.mean() + (a * 0 + b[:1]).mean(-1)[:, None], A, B),
    "masked softmax": written_twice(lambda a, b: (Tensor(np.tri(4, dtype=bool)).where(a @ b.T, float("-inf"))).softmax(-1) @ b,
                                    lambda a, b: _plain(np.where(np.tri(4, dtype=bool), a @ b.T, -np.inf)) @ b, A, B),
    "scaled differences": written_twice(lambda a, c: (a - c) * 3, lambda a, c: (a - c) * 3, A, C),
    "sorted": written_twice(lambda a: xp.sort(a, axis=0) * a, lambda a: np.sort(a, 0) * a, A),
    "diagonal of batches": written_twice(lambda s, v: (xp.einsum("iijk->ijk", s.softmax(-1)) @ v), lambda s, v: np.einsum("iijk->ijk", _plain(s)) @ v,
                                         np.random.default_rng(1).normal(size=(3, 3, 2, 4)), np.random.default_rng(2).normal(size=(3, 4, 2))),
    "rows of a softmax": written_twice(lambda s, v: s.softmax(-1)[:2] @ v, lambda s, v: _plain(s)[:2] @ v, A, A.T[:, :2].copy()),
    "zero in a product": written_twice(lambda a: a.cumprod(-1) + a.prod(0), lambda a: np.cumprod(a, -1) + a.prod(0), np.where(B > 0.8, 0, A)),
}  # fmt: skip


def _plain(s: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    e = np.exp(s - s.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))
