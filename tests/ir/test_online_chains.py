"""Random chains out of the rule's grammar are folded, and right whole and in tiles; a wrong merge never is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from raw_kernels import TILES, Raw, fold_of, folded, numbers
from tilewright.ir import Kernel, Node, exp, log, sqrt, where
from tilewright.ir.body import Fold
from tilewright.ir.evaluation import evaluate
from tilewright.ir.kernel import kernel_text
from tilewright.ir.node import walk
from tilewright.ir.operators import substitute

M, N, C = 3, 16, 4  # 1 / N is exact
INF = float("inf")
At = Callable[..., Node]


class Chain:
    """A kernel that grows by one reduction of random form at a time; all are over j, and stored by row."""

    def __init__(self, draw: Any) -> None:
        self.draw, self.r = draw, Raw()
        h, g, w, x = self.r.input("h", M, C), self.r.input("g", M, C), self.r.input("w", N, C), self.r.input("x", M, N)
        products = [self.r.sum((M, N), C, lambda i, j, e, a=a: a[i, e] * w[j, e]) for a in (h, g)]
        self.scores: list[At] = [*products, lambda i, j: products[0](i, j) * 0.5 + x[i, j]]
        self.plain: list[At] = [lambda i, j: x[i, j], lambda i, j: where(j < i + 9, 1.0, 0.5)]
        self.extremes: list[tuple[At, At, str]] = []
        self.weights: list[tuple[At, At | None]] = []
        self.results: list[At] = []

    def pick(self, choices: list[Any]) -> Any:
        return self.draw(st.sampled_from(choices))

    def score(self) -> At:
        """A product, under a mask or not; row i sees column i at least."""
        s = self.pick(self.scores)
        mask = self.pick([None, lambda i, j: j <= i + 2, lambda i, j: (j <= i + 5) & (j > i - 2)])
        return s if mask is None else lambda i, j: where(mask(i, j), s(i, j), -INF)

    def extreme(self) -> None:
        """max s, or min s; of which weights are made."""
        s = self.score()
        top = self.r.max((M,), N, s)
        self.extremes.append((s, top, "max"))
        self.results.append(top)
        k = self.pick([1.0, 0.5, 2.0])
        self.weights.append((lambda i, j: exp((s(i, j) - top(i)) * k), None))

    def low(self) -> None:
        """min s, and exp(min s − s)."""
        s = self.pick(self.scores)
        least = self.r.reduce("min", (M,), N, s)
        self.results.append(least)
        self.weights.append((lambda i, j: exp(least(i) - s(i, j)), None))

    def total(self) -> None:
        """Σ of a weight, which makes probabilities of it."""
        if not self.weights:
            return self.extreme()
        k = self.draw(st.integers(0, len(self.weights) - 1))
        e, _ = self.weights[k]
        total = self.r.sum((M,), N, e)
        self.weights[k] = (e, total)
        self.results.append(lambda i: log(total(i)))
        return None

    def weight(self) -> At:
        """A weight, divided by its sum where there is one."""
        e, total = self.pick(self.weights)
        return e if total is None or self.draw(st.booleans()) else lambda i, j: e(i, j) / total(i)

    def shift(self) -> At:
        """A difference from a mean, from a mean under weights, or from a maximum."""
        x = self.pick([*self.scores, *self.plain])
        kind = self.pick(["mean", "scaled", *(["weighted"] if any(t for _, t in self.weights) else [])])
        if kind == "weighted":
            e, n = self.pick([w for w in self.weights if w[1] is not None])
            total = self.r.sum((M,), N, lambda i, j: e(i, j) * x(i, j))
            return lambda i, j: x(i, j) - total(i) / n(i)
        total = self.r.sum((M,), N, x)
        if kind == "scaled":
            return lambda i, j: (x(i, j) - total(i) * (1.0 / N)) / sqrt(total(i) * total(i) + 1.0)
        return lambda i, j: x(i, j) - total(i) / float(N)

    def moment(self) -> None:
        """A sum of a product of weights, differences and loaded factors."""
        parts: list[At] = [self.pick(self.plain)]
        if self.weights and self.draw(st.booleans()):
            parts.append(self.weight())
        for _ in range(self.draw(st.integers(0, 2))):
            d = self.shift()
            parts += [d] * self.draw(st.integers(1, 2))
        mask = self.pick([None, lambda i, j: j < i + 11])

        def element(i: Node, j: Node) -> Node:
            out = parts[0](i, j)
            for p in parts[1:]:
                out = out * p(i, j)
            return out if mask is None else where(mask(i, j), out, 0.0)

        self.results.append(self.r.sum((M,), N, element))

    def entropy(self) -> None:
        """Σ p·log p."""
        found = [w for w in self.weights if w[1] is not None]
        if not found:
            return self.total()
        e, total = self.pick(found)
        p = lambda i, j: e(i, j) / total(i)  # noqa: E731
        unmasked = self.r.sum((M,), N, lambda i, j: p(i, j) * log(p(i, j)))
        self.results.append(unmasked)
        return None

    def build(self) -> Kernel:
        """Every result as an output."""
        for n, r in enumerate(self.results):
            self.r.store(f"y{n}", (M,), r)
        return self.r.build()


@st.composite
def chains(draw: Any) -> Kernel:
    """Two to five reductions after the first maximum."""
    c = Chain(draw)
    c.extreme()
    for _ in range(draw(st.integers(1, 4))):
        getattr(c, draw(st.sampled_from(["extreme", "low", "total", "total", "moment", "moment", "entropy"])))()
    return c.build()


def outputs(kernel: Kernel, inputs: Any, tile: int | None) -> list[Any]:
    return list(evaluate(kernel, inputs, tile=tile).values())


def close(got: list[Any], want: list[Any]) -> bool:
    return all(np.allclose(g, w, rtol=1e-7, atol=1e-9, equal_nan=True) for g, w in zip(got, want, strict=True))


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(chains(), st.integers(0, 5))
def test_random_chains(kernel: Kernel, seed: int) -> None:
    note(kernel_text(kernel))
    inputs = numbers(kernel, seed)
    want = outputs(kernel, inputs, None)
    made = folded(kernel, rows=True)
    for tile in TILES:
        assert close(outputs(made, inputs, tile), want), tile


# mutants -------------------------------------------------------------------------------------------------------------
def statistics() -> Kernel:
    """A softmax's product, entropy and variance, and a covariance."""
    r = Raw()
    h, w, v, x = r.input("h", M, C), r.input("w", N, C), r.input("v", N, 2), r.input("x", M, N)
    s = r.sum((M, N), C, lambda i, j, e: h[i, e] * w[j, e])
    m = r.max((M,), N, s)
    total = r.sum((M,), N, lambda i, j: exp(s(i, j) - m(i)))
    p = lambda i, j: exp(s(i, j) - m(i)) / total(i)  # noqa: E731
    out = r.sum((M, 2), N, lambda i, c, j: p(i, j) * v[j, c])
    entropy = r.sum((M,), N, lambda i, j: p(i, j) * log(p(i, j)))
    a, b = r.sum((M,), N, s), r.sum((M,), N, lambda i, j: x[i, j])
    cov = r.sum((M,), N, lambda i, j: (s(i, j) - a(i) / float(N)) * (x[i, j] - b(i) / float(N)))
    three = r.sum((M,), N, lambda i, j: p(i, j) * (x[i, j] - b(i) / float(N)) * (x[i, j] - b(i) / float(N)))
    at = r.reduce("min", (M,), N, lambda i, j: where(s(i, j).eq(m(i)), j, 2**31 - 1))
    r.store("y", (M, 2), out)
    for n, result in enumerate((entropy, cov, three)):
        r.store(f"y{n}", (M,), result)
    r.store("at", (M,), at, at(*r.axes("type", (M,))).dtype)
    return r.build()


def mutants(fold: Fold) -> Iterator[tuple[str, Fold]]:
    """The fold with one operation of a merge gone, or one side's state taken for the other's."""
    for k, (name, merge) in enumerate(zip(fold.components, fold.monoid.merge, strict=True)):
        for n in walk(merge):
            changes: list[Node] = []
            if n.op in ("mul", "add", "sub", "max", "min", "div") and all(s.op != "const" for s in n.src):
                changes += n.src
            if n.op == "arg":
                changes.append(substitute(n, {n: replaced(n)}))
            for new in changes:
                merges = (*fold.monoid.merge[:k], substitute(merge, {n: new}), *fold.monoid.merge[k + 1 :])
                yield f"{name}: {n} as {new}", replace(fold, monoid=replace(fold.monoid, merge=merges))


def replaced(n: Node) -> Node:
    from tilewright.ir.node import placeholder

    side, name = str(n.arg).split(".", 1)
    return placeholder(f"{'b' if side == 'a' else 'a'}.{name}", n.dtype)


@pytest.mark.slow
def test_a_wrong_merge_is_seen() -> None:
    kernel = folded(statistics())
    inputs = numbers(kernel, scale=1.5)
    want = outputs(kernel, inputs, None)
    assert close(outputs(kernel, inputs, 5), want)
    fold = fold_of(kernel)
    missed, count = [], 0
    for what, wrong in mutants(fold):
        count += 1
        other = Kernel("wrong", tuple(wrong if i is fold else i for i in kernel.body), kernel.stores, kernel.buffers)
        if close(outputs(other, inputs, 5), want):
            missed.append(what)
    assert not missed and count > 60
