"""Statistics of an array, and readers of parts: what two kernels want of one value is where a partition goes wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
from tilewright import xp
from viewed_heads import Array, Pair, same


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def _norm(x: Any, root: Any) -> Any:
    d = x - x.mean(-1, keepdims=True)
    return d / root((d * d).mean(-1, keepdims=True) + 0.1)


STATISTICS: dict[str, Pair] = {
    "by sums of columns": same(lambda x: x / x.sum(0)),
    "by sums of rows": same(lambda x: x / x.sum(-1, keepdims=True)),
    "by the sum of all": same(lambda x: x / x.sum()),
    "softmax": (lambda x: x.softmax(-1), _softmax),
    "less maxima of columns": same(lambda x: x - x.max(0)),
    "norm": (lambda x: _norm(x, lambda v: v.sqrt()), lambda x: _norm(x, np.sqrt)),
    "cumsum": (lambda x: x.cumsum(-1), lambda x: np.cumsum(x, -1)),
    "sums of rows": same(lambda x: (x * x).sum(-1)),
    "maxima of rows": same(lambda x: x.max(-1)),
    "roots of variances": (lambda x: 1 / x.var((-1,)).sqrt(), lambda x: 1 / np.sqrt(x.var(-1))),
    "logsumexp": (lambda x: x.logsumexp(-1), lambda x: np.log(np.exp(x).sum(-1))),
    "outer": same(lambda x: x.sum(0)[:, None] * x.sum(1)),
    "gram": same(lambda x: x @ x.T),
}
"""Of a positive matrix of at least 9 rows and 6 columns."""

READERS: dict[str, Pair] = {
    "all": same(lambda p: p * 2),
    "first rows": same(lambda p: p[:4] * 2),
    "last rows": same(lambda p: p[4:] * 2),
    "odd rows": same(lambda p: p[1::2] + 1),
    "one row": same(lambda p: p[3] * 3),
    "backwards": same(lambda p: p[::-1] * 2),
    "first columns": same(lambda p: p[..., :2] * 2),
    "last columns": same(lambda p: p[..., 2:] * 2),
    "one column": same(lambda p: p[..., 1] + 1),
    "transposed": same(lambda p: p.T * 2 if p.ndim == 2 else p * 3),
    "sum of squares": same(lambda p: (p * p).sum()),
    "row sums": same(lambda p: p.sum(-1)),
    "sums of some rows": same(lambda p: p[:3].sum(0)),
    "padded": (lambda p: p.pad([(1, 0)] * p.ndim), lambda p: np.pad(p, [(1, 0)] * p.ndim)),
    "product of some rows": same(lambda p: p[:3] @ p[:3].T if p.ndim == 2 else p * 2),
    "joined": (lambda p: xp.concat([p[4:], p[:4]]), lambda p: np.concatenate([p[4:], p[:4]])),
    "flat part": same(lambda p: p.reshape(-1)[:5]),
}
