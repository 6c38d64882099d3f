"""Derived folds have the keys of the named kernels, and so their schedules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from raw_kernels import Raw, folded
from tilewright import named_kernels
from tilewright.ir import Kernel, cast, exp, float32, int32, log, where
from tilewright.ir.normal_form import canonical, tidy
from tilewright.named_kernels.attention import MASK_SIZES

B, H, S, D = 2, 4, 24, 8
SHAPE = {"b": B, "h": H, "s": S, "d": D}


def attention(group: int = 1, window: int | None = None, causal: bool = True, lse: bool = False) -> Kernel:
    """softmax(q·kᵀ / √d)·v from plain operations; grouped heads have an axis of their own, as a reshape gives them."""
    r = Raw()
    outer = (B, H // group, group) if group > 1 else (B, H)
    n = len(outer)
    q, k, v = r.input("q", B, H, S, D), r.input("k", B, H // group, S, D), r.input("v", B, H // group, S, D)

    def query(at: Any) -> Any:
        return (at[0], at[1] * group + at[2]) if group > 1 else tuple(at[:2])

    dot = r.sum((*outer, S, S), D, lambda *a: q[(*query(a), a[n], a[n + 2])] * k[(*a[:2], a[n + 1], a[n + 2])])

    def score(*a: Any) -> Any:
        s, i, j = dot(*a) * D**-0.5, a[n], a[n + 1]
        if not causal:
            return s
        return where(j <= i if window is None else (j <= i) & (j > i - window), s, float("-inf"))

    top = r.max((*outer, S), S, score)
    total = r.sum((*outer, S), S, lambda *a: exp(score(*a) - top(*a[:-1])))

    def weight(row: Any, j: Any) -> Any:
        return exp(score(*row, j) - top(*row)) / total(*row)

    out = r.sum((*outer, S, D), S, lambda *a: weight(a[: n + 1], a[n + 2]) * v[(*a[:2], a[n + 2], a[n + 1])])
    axes = r.axes("y", (*outer, S, D))
    r.kb.store("y", float32, (B, H, S, D), axes, out(*axes), indices=(*query(axes), *axes[n:]))
    if lse:
        axes = r.axes("lse", (*outer, S))
        r.kb.store("lse", float32, (B, H, S), axes, top(*axes) + log(total(*axes)), indices=(*query(axes), axes[n]))
    return r.build()


def argmax() -> Kernel:
    """The first place of a row's maximum, a NaN being the largest."""
    r = Raw()
    x = r.input("x", 11, 23)
    top = r.max((11,), 23, lambda i, j: x[i, j])

    def place(i: Any, j: Any) -> Any:
        return where(x[i, j].eq(top(i)) | x[i, j].ne(x[i, j]), cast(j, int32), 2**31 - 1)

    r.store("y", (11,), r.reduce("min", (11,), 23, place), int32)
    return r.build()


@pytest.mark.parametrize(
    ("name", "shape", "make"),
    [
        ("attention", SHAPE, attention),
        ("attention_full", SHAPE, lambda: attention(causal=False)),
        ("attention_window", {**SHAPE, "w": 5}, lambda: attention(window=5)),
        ("attention_grouped", {**SHAPE, "hk": 2}, lambda: attention(group=2)),
        ("attention_lse", {**MASK_SIZES, **SHAPE}, lambda: attention(lse=True)),
        ("argmax", {"m": 11, "n": 23}, argmax),
    ],
)
def test_keys(name: str, shape: dict[str, Any], make: Callable[[], Kernel]) -> None:
    ours, named = canonical(tidy(folded(make()))), canonical(named_kernels.make(name, shape, "float32"))
    assert ours.text == named.text and ours.hash == named.hash
