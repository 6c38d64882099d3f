"""Metamorphic rules: what holds of a function whatever it computes. Each is one graph that computes both sides, so that kernels
read the same things in two ways, and the two sides must agree: exactly where the arithmetic is the same, else as two orders of
a sum may."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tilewright as tw
from tilewright import nn, xp

from . import ways

Function = Callable[[Any, Any, Any], Any]
"""Of x (n, m), w (m, k) and b (m)."""

ROWS: dict[str, Function] = {
    "softmax": lambda x, w, b: x.softmax(-1),
    "log_softmax": lambda x, w, b: x.log_softmax(-1),
    "layer_norm": lambda x, w, b: nn.layer_norm(x, b),
    "rms_norm": lambda x, w, b: nn.rms_norm(x) * b,
    "share": lambda x, w, b: x / x.sum(-1, keepdims=True),
    "centred": lambda x, w, b: (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + 1),
    "product": lambda x, w, b: x @ w,
    "gelu of a product": lambda x, w, b: (x @ w).gelu() + 1,
    "softmax of a product": lambda x, w, b: ((x + b) @ w).softmax(-1),
    "product of a softmax": lambda x, w, b: x.softmax(-1) @ w,
    "attention": lambda x, w, b: ((x @ w) @ w.mT / 3).softmax(-1) @ w,
    "logsumexp": lambda x, w, b: x.logsumexp(-1, keepdims=True) + b,
    "running": lambda x, w, b: x.cumsum(-1) * b,
    "extremes": lambda x, w, b: x.max(-1, keepdims=True) - x.min(-1, keepdims=True) + b,
    "places": lambda x, w, b: x.argmax(-1, keepdims=True).astype("float32") + x,
    "flipped": lambda x, w, b: x.flip(axis=1) * x.roll(1, axis=1),
}
"""Functions of each row for itself."""
LINEAR: dict[str, Function] = {
    "sum": lambda x, w, b: x.sum(-1),
    "mean": lambda x, w, b: x.mean(0),
    "product": lambda x, w, b: x @ w,
    "running": lambda x, w, b: x.cumsum(0),
    "windows": lambda x, w, b: nn.conv(
        x[None], w[:3, :2][None].expand(x.shape[0], x.shape[0], 3, 2).reshape(x.shape[0], x.shape[0], 6)[:, :, :2]
    ),
    "differences": lambda x, w, b: x - x.mean(-1, keepdims=True),
    "joined": lambda x, w, b: xp.concat([x[:, 1:], x[:, :1] * b[0]], axis=1),
    "positive": lambda x, w, b: (x.relu() + x.max(0)).tril(),
}
"""Functions f with f(2 x) = 2 f(x)."""


def permuted(f: Function, x: Any, w: Any, b: Any) -> tuple[Any, Any]:
    """Rows in another order give rows in that order."""
    order = tw.Tensor(np.random.default_rng(1).permutation(x.shape[0]))
    return f(x.take(order, axis=0), w, b), f(x, w, b).take(order, axis=0)


def halves(f: Function, x: Any, w: Any, b: Any) -> tuple[Any, Any]:
    """Two parts, joined, are the whole."""
    h = x.shape[0] // 3
    return xp.concat([f(x[:h], w, b), f(x[h:], w, b)], axis=0), f(x, w, b)


def parts(f: Function, x: Any, w: Any, b: Any) -> tuple[Any, Any]:
    """Parts of the whole are the function of the parts."""
    h, whole = x.shape[0] // 3, f(x, w, b)
    return xp.concat([whole[:h] * 2, whole[h:] * 2], axis=0), xp.concat([f(x[:h], w, b), f(x[h:], w, b)], axis=0) * 2


def batch_of_one(f: Function, x: Any, w: Any, b: Any) -> tuple[Any, Any]:
    """A batch of one is what is in it."""
    return tw.vmap(f, in_axes=(0, None, None))(x[None], w, b)[0], f(x, w, b)


def each_row(f: Function, x: Any, w: Any, b: Any) -> tuple[Any, Any]:
    """A batch of rows is what each row is."""
    return tw.vmap(lambda row, w, b: f(row[None], w, b)[0], in_axes=(0, None, None))(x, w, b), f(x, w, b)


def turned_twice(f: Function, x: Any, w: Any, b: Any) -> tuple[Any, Any]:
    """Transposed twice is as it was, at either end."""
    return f((x.mT * 1).mT, w, b).mT.mT, f(x, w, b)


def turned_over(f: Function, x: Any, w: Any, b: Any) -> tuple[Any, Any]:
    """Rows backwards give rows backwards."""
    return f(x[::-1], w, b), f(x, w, b)[::-1]


def scaled(f: Function, x: Any, w: Any, b: Any) -> tuple[Any, Any]:
    """A power of two passes through, exactly."""
    return f(x * 4, w, b), f(x, w, b) * 4


RULES: dict[str, tuple[Callable[..., tuple[Any, Any]], dict[str, Function], bool]] = {
    "permuted rows": (permuted, ROWS, False), "joined halves": (halves, ROWS, False), "parts of the whole": (parts, ROWS, False),
    "a batch of one": (batch_of_one, ROWS, False), "each row": (each_row, ROWS, False), "turned twice": (turned_twice, ROWS, False),
    "turned over": (turned_over, ROWS, False), "scaled by 4": (scaled, LINEAR, True),
}  # fmt: skip
"""By name: the rule, the functions that it is for, and whether it is exact."""
NEAR = {"float32": 3e-5, "float64": 1e-12, "float16": 2e-2, "bfloat16": 1.5e-1}


def cases() -> list[tuple[str, str]]:
    """(rule, function) of every case."""
    return [(rule, name) for rule, (_, functions, _) in RULES.items() for name in functions]


def check(rule: str, name: str, shape: tuple[int, int], dtype: str = "float32", engine: str = "evaluate") -> str:
    """What is wrong with a rule; '' where it holds."""
    law, functions, exact = RULES[rule]
    exact = exact and engine == "native"
    rng = np.random.default_rng([*shape, len(name)])
    n, m = shape
    given = [tw.Tensor(rng.uniform(0.5, 2, s)).astype(dtype).realise() for s in ((n, m), (m, 6), (m,))]
    f = functions[name]
    one, other = law(tw.jit(f) if exact else f, *given)  # exact where one kernel computes both
    a, b = ways.evaluated([one.node, other.node]) if engine == "evaluate" else ways.native([one, other])
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if a.shape != b.shape or one.dtype is not other.dtype:
        return f"{one.dtype}{list(a.shape)} and {other.dtype}{list(b.shape)}"
    near = 0.0 if exact else NEAR[dtype]
    wrong = ~(np.abs(a - b) <= near * (1 + np.abs(b)))
    return f"{int(wrong.sum())} of {wrong.size} elements differ: {a[wrong][0]} and {b[wrong][0]}" if wrong.any() else ""
