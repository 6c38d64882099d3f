"""Attention and its variants out of plain operations: one fold each, right whole and in tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from raw_kernels import Raw, agrees, fold_of, folded, numbers, wide
from tilewright.ir import Kernel, bool_, cast, const, exp, float32, log, tanh, where
from tilewright.ir.kernel import kernel_text
from tilewright.ir.normal_form import canonical
from tilewright.ir.skipped_tiles import skip_conditions

B, H, S, D = 2, 2, 20, 5
INF = float("inf")
pytestmark = pytest.mark.many


def attention(
    score: Callable[..., Any] = lambda s, r, b, h, i, j: s,
    group: int = 1,
    reciprocal: bool = False,
    lse: bool = False,
    maximum: bool = True,
    inside: Callable[..., Any] = lambda s: s,
    power: int = 1,
) -> Kernel:
    """softmax(score(q·kᵀ / √d))·v as it is pulled from plain operations."""
    r = Raw()
    q = r.input("q", B, H, S, D)
    k, v = (r.input(t, B, H // group, S, D) for t in "kv")
    dot = r.sum((B, H, S, S), D, lambda b, h, i, j, e: q[b, h, i, e] * k[b, h // group, j, e])
    extra = r.input("extra", H, S, S)
    mask = r.input("mask", S, S, dtype=bool_)

    def s(b, h, i, j):
        return score(dot(b, h, i, j) * 0.5, {"bias": extra, "mask": mask}, b, h, i, j)

    top = r.max((B, H, S), S, s) if maximum else None

    def e(b, h, i, j):
        return exp(inside(s(b, h, i, j) - top(b, h, i) if top else s(b, h, i, j)))

    total = r.sum((B, H, S), S, e)

    def p(b, h, i, j):
        one = e(b, h, i, j) * (1.0 / total(b, h, i)) if reciprocal else e(b, h, i, j) / total(b, h, i)
        return one if power == 1 else one * one

    out = r.sum((B, H, S, D), S, lambda b, h, i, c, j: p(b, h, i, j) * v[b, h // group, j, c])
    r.store("y", (B, H, S, D), out)
    if lse:
        r.store("lse", (B, H, S), lambda b, h, i: top(b, h, i) + log(total(b, h, i)))
    return r.build()


def reference(x: Any, score: Any, group: int = 1, inside: Any = lambda s: s, power: int = 1) -> dict[str, Any]:
    """The whole matrix at once, in float64."""
    k, v = (np.repeat(x[t], group, axis=1) for t in "kv")
    s = score(x["q"] @ k.swapaxes(-1, -2) * 0.5, x)
    top = s.max(-1, keepdims=True)
    e = np.exp(inside(s - top))
    p = e / e.sum(-1, keepdims=True)
    return {"y": p**power @ v, "lse": (top + np.log(e.sum(-1, keepdims=True)))[..., 0]}


I, J = np.arange(S)[:, None], np.arange(S)[None, :]
CAUSAL, WINDOW = J <= I, (J <= I) & (J > I - 5)


def masked(seen: Any) -> Callable[..., Any]:
    return lambda s, x: np.where(seen, s, -np.inf)


VARIANTS: dict[str, tuple[Callable[..., Any], Callable[..., Any], int]] = {
    "full": (lambda s, r, b, h, i, j: s, lambda s, x: s, 0),
    "causal": (lambda s, r, b, h, i, j: where(j <= i, s, -INF), masked(CAUSAL), 1),
    "filled": (lambda s, r, b, h, i, j: where(i < j, -INF, s), masked(CAUSAL), 1),
    "added": (
        lambda s, r, b, h, i, j: s + where(i < j, -INF, const(0.0)),
        masked(CAUSAL),
        0,
    ),  # a NaN that it hides must show
    "window": (lambda s, r, b, h, i, j: where((j <= i) & (j > i - 5), s, -INF), masked(WINDOW), 2),
    "nested": (lambda s, r, b, h, i, j: where(j > i - 5, where(j <= i, s, -INF), -INF), masked(WINDOW), 2),
    "blocks": (lambda s, r, b, h, i, j: where((j // 4).eq(i // 4), s, -INF), masked(J // 4 == I // 4), 0),
    "bias": (lambda s, r, b, h, i, j: s + r["bias"][h, i, j], lambda s, x: s + x["extra"], 0),
    "alibi": (
        lambda s, r, b, h, i, j: where(j <= i, s + cast(j - i, float32) * 0.25, -INF),
        lambda s, x: np.where(CAUSAL, s + (J - I) * 0.25, -np.inf),
        1,
    ),
    "soft cap": (
        lambda s, r, b, h, i, j: where(j <= i, tanh(s * 0.125) * 10.0, -INF),
        lambda s, x: masked(CAUSAL)(np.tanh(s * 0.125) * 10, x),
        1,
    ),
    "loaded mask": (
        lambda s, r, b, h, i, j: where(r["mask"][i, j] | j.eq(i), s, -INF),
        lambda s, x: np.where(x["mask"] | (I == J), s, -np.inf),
        0,
    ),
    "loaded and causal": (
        lambda s, r, b, h, i, j: where(r["mask"][i, j] & (j <= i), s, where(j.eq(i), s, -INF)),
        lambda s, x: np.where((x["mask"] & CAUSAL) | (I == J), s, -np.inf),
        0,
    ),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_variants(name: str) -> None:
    score, expected, skipped = VARIANTS[name]
    kernel = folded(attention(score, lse=True))
    inputs = numbers(kernel, scale=2.0)
    agrees(kernel, inputs, reference(wide(inputs), expected))
    assert len(skip_conditions(fold_of(kernel))) == skipped


@pytest.mark.parametrize("name", ["full", "causal"])
@pytest.mark.parametrize(
    ("how", "ours"),
    [
        ({"group": 2}, {"group": 2}),
        ({"reciprocal": True}, {}),
        ({"power": 2}, {"power": 2}),
        ({"inside": lambda s: s * 0.75}, {"inside": lambda s: s * 0.75}),
        ({"inside": lambda s: s / 1.5}, {"inside": lambda s: s / 1.5}),
        ({"inside": lambda s: 2.0 * s + 1.0}, {"inside": lambda s: 2.0 * s}),
    ],
    ids=["grouped", "reciprocal", "squared", "scaled", "divided", "affine"],
)
def test_ways_of_writing(name: str, how: dict[str, Any], ours: dict[str, Any]) -> None:
    score, expected, skipped = VARIANTS[name]
    kernel = folded(attention(score, **how))
    inputs = numbers(kernel)
    agrees(kernel, inputs, {"y": reference(wide(inputs), expected, **ours)["y"]})
    assert len(skip_conditions(fold_of(kernel))) == skipped


def test_without_a_maximum() -> None:
    kernel = folded(attention(maximum=False))
    inputs = numbers(kernel)
    agrees(kernel, inputs, {"y": reference(wide(inputs), lambda s, x: s)["y"]})


def test_large_scores_stay_finite() -> None:
    kernel = folded(attention(VARIANTS["causal"][0], lse=True))
    inputs = numbers(kernel, scale=60.0)
    agrees(kernel, inputs, reference(wide(inputs), VARIANTS["causal"][1]))


def test_a_row_that_sees_nothing_is_nan() -> None:
    """Also its log-sum-exp, for masks made of comparisons and for loaded ones."""
    for score, seen in (
        (lambda s, r, b, h, i, j: where(j < i, s, -INF), lambda x: J < I),
        (lambda s, r, b, h, i, j: where(r["mask"][i, j], s, -INF), lambda x: x["mask"]),
    ):
        kernel = folded(attention(score, lse=True))
        inputs = numbers(kernel)
        inputs["mask"][0] = False
        with np.errstate(invalid="ignore"):
            want = reference(wide(inputs), lambda s, x, seen=seen: np.where(seen(x), s, -np.inf))
        for y in want.values():
            assert np.isnan(y[:, :, 0]).all() and np.isfinite(y[:, :, 1:]).all()
        agrees(kernel, inputs, want)


def test_where_every_query_sees_a_key_nothing_is_added() -> None:
    kernel = folded(attention(VARIANTS["window"][0], lse=True))
    assert "- r1" not in kernel_text(kernel).split("lse[")[-1]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_special_scores_are_numpys(bad: float) -> None:
    kernel = folded(attention(VARIANTS["bias"][0]))
    inputs = numbers(kernel)
    inputs["extra"][0, 3, 4] = bad
    with np.errstate(invalid="ignore"):
        agrees(kernel, inputs, {"y": reference(wide(inputs), VARIANTS["bias"][1])["y"]})


def test_the_division_and_its_reciprocal_are_one_kernel() -> None:
    a, b = (canonical(folded(attention(VARIANTS["causal"][0], reciprocal=r))) for r in (False, True))
    assert a.hash == b.hash


def test_rank_three() -> None:
    """Heads as the first dimension, and y stored as (s, heads · d)."""
    r = Raw()
    q, k, v = (r.input(t, H, S, D) for t in "qkv")
    dot = r.sum((H, S, S), D, lambda h, i, j, e: q[h, i, e] * k[h, j, e])
    top = r.max((H, S), S, lambda h, i, j: where(j <= i, dot(h, i, j), -INF))
    e = lambda h, i, j: exp(where(j <= i, dot(h, i, j), -INF) - top(h, i))  # noqa: E731
    total = r.sum((H, S), S, e)
    out = r.sum((H, S, D), S, lambda h, i, c, j: e(h, i, j) / total(h, i) * v[h, j, c])
    h, i, c = r.axes("o", (H, S, D))
    r.kb.store("y", float32, (S, H * D), (h, i, c), out(h, i, c), indices=(i, h * D + c))
    kernel = folded(r.build())
    inputs = numbers(kernel)
    x = wide(inputs)
    s = np.where(CAUSAL, x["q"] @ x["k"].swapaxes(-1, -2), -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    want = (p / p.sum(-1, keepdims=True)) @ x["v"]
    agrees(kernel, inputs, {"y": want.transpose(1, 0, 2).reshape(S, H * D)})
