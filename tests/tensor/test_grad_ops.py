"""The gradient of every differentiable function of `ops` against central differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from differences import check
from tilewright.tensor import Tensor
from tilewright.tensor.graph.nodes import TensorNode
from tilewright.tensor.ops import convolution as P
from tilewright.tensor.ops import convolution as V
from tilewright.tensor.ops import creation as C
from tilewright.tensor.ops import elementwise as F
from tilewright.tensor.ops import elementwise as N
from tilewright.tensor.ops import indexing as I
from tilewright.tensor.ops import indexing as U
from tilewright.tensor.ops import joining as J
from tilewright.tensor.ops import linalg as L
from tilewright.tensor.ops import movement as M
from tilewright.tensor.ops import neural as A
from tilewright.tensor.ops import neural as S
from tilewright.tensor.ops import neural as W
from tilewright.tensor.ops import random as Z
from tilewright.tensor.ops import reduction as R
from tilewright.tensor.ops import sorting as T
from tilewright.tensor.ops.einsum import einsum
from tilewright.tensor.ops.elementwise import power

pytestmark = pytest.mark.many
rng = np.random.default_rng(0)
Case = tuple[Callable[..., TensorNode], list[Any]]


def apart(*shape: int, low: float = -1.4, high: float = 1.3) -> Any:
    """Values with distance from each other and from 0."""
    n = int(np.prod(shape))
    return rng.permutation(np.linspace(low, high, n)).reshape(shape)


def ids(*values: int) -> TensorNode:
    return Tensor(np.array(values)).node


UNIT = apart(2, 3, low=0.15, high=0.85)
X, POSITIVE, MORE = apart(2, 3), UNIT + 0.3, UNIT + 1.2
LABELS = ids(2, 0)
IMAGE = apart(1, 2, 4, 4)

CASES: dict[str, Case] = {
    **{n: (getattr(A, n), [X]) for n in ("relu", "leaky_relu", "elu", "sigmoid", "silu", "softplus", "mish", "softsign", "hardswish", "gelu")},
    "gelu tanh": (lambda x: A.gelu(x, "tanh"), [X]),
    "softmax": (A.softmax, [X]), "log_softmax": (A.log_softmax, [X]), "softmax axis 0": (lambda x: A.softmax(x, 0), [X]),
    **{n: (getattr(N, n), [X]) for n in ("negative", "absolute", "square", "reciprocal")},
    **{n: (getattr(N, n), [X, MORE]) for n in ("add", "subtract", "multiply", "divide", "maximum", "minimum", "hypot", "remainder")},
    "clip": (lambda x: N.clip(x, -0.5, 0.6), [X]),
    **{n: (getattr(F, n), [X]) for n in ("exp", "exp2", "expm1", "erf", "sin", "cos", "tan", "atan", "sinh", "cosh", "tanh", "asinh")},
    **{n: (getattr(F, n), [POSITIVE]) for n in ("log", "log1p", "log2", "log10", "rsqrt", "sqrt")},
    **{n: (getattr(F, n), [UNIT]) for n in ("asin", "acos", "atanh")},
    "acosh": (F.acosh, [MORE]), "atan2": (F.atan2, [X, MORE]), "logaddexp": (F.logaddexp, [X, MORE]),
    "power": (power, [POSITIVE, X]), "power 3": (lambda x: power(x, 3), [X]), "power -2": (lambda x: power(x, -2), [X]),
    "power 0.5": (lambda x: power(x, 0.5), [POSITIVE]), "power 1.7": (lambda x: power(x, 1.7), [POSITIVE]),
    "conv 1d": (lambda x, w, b: V.conv(x, w, b, stride=2, padding=1), [apart(1, 2, 5), apart(3, 2, 3), apart(3)]),
    "conv 2d": (lambda x, w: V.conv(x, w, padding=1), [IMAGE, apart(2, 2, 3, 3)]),
    "conv groups": (lambda x, w: V.conv(x, w, groups=2, dilation=2), [IMAGE, apart(4, 1, 2, 2)]),
    "conv_transpose": (lambda x, w: V.conv_transpose(x, w, stride=2), [apart(1, 2, 3), apart(2, 2, 2)]),
    "max_pool of one": (lambda x: P.max_pool(x, 1, stride=2), [IMAGE]), "max_pool": (lambda x: P.max_pool(x, 2), [IMAGE]), "max_pool overlapping": (lambda x: P.max_pool(x, 3, stride=1, padding=1), [IMAGE]),
    "avg_pool": (lambda x: P.avg_pool(x, 2), [IMAGE]), "global_avg_pool": (P.global_avg_pool, [IMAGE]),
    "tril": (C.tril, [apart(3, 3)]), "triu": (C.triu, [apart(3, 3)]),
    "take": (lambda x: I.take(x, ids(2, 0, 2), axis=1), [X]), "getitem": (lambda x: I.getitem(x, (1, slice(None, None, -2))), [X]),
    "integer index": (lambda x: I.getitem(x, ids(1, 0, 1)), [X]), "take_along_axis": (lambda x: I.take_along_axis(x, Tensor(np.array([[1], [0]])).node), [X]),
    "embedding": (lambda w: I.embedding(w, Tensor(np.array([[1, 0], [1, 1]])).node), [X]),
    "pad": (lambda x: J.pad(x, [(1, 0), (0, 2)], 3.0), [X]), "pad edge": (lambda x: J.pad(x, [(1, 1), (1, 2)], mode="edge"), [X]),
    "pad reflect": (lambda x: J.pad(x, [(1, 1), (1, 2)], mode="reflect"), [X]), "pad wrap": (lambda x: J.pad(x, [(1, 1), (1, 2)], mode="wrap"), [X]),
    "concat": (lambda x, y: J.concat([x, y], axis=1), [X, MORE]), "stack": (lambda x, y: J.stack([x, y], axis=1), [X, MORE]),
    "roll": (lambda x: J.roll(x, 1, axis=1), [X]), "tile": (lambda x: J.tile(x, (2, 2)), [X]), "repeat": (lambda x: J.repeat(x, 2, axis=0), [X]),
    "matmul": (L.matmul, [X, X.T.copy()]), "vecdot": (L.vecdot, [X, MORE]), "outer": (L.outer, [X[0], MORE[0]]),
    "tensordot": (lambda x, y: L.tensordot(x, y, axes=1), [X, X.T.copy()]), "trace": (L.trace, [apart(3, 3)]), "cross": (L.cross, [X, MORE]),
    "linear": (L.linear, [X, apart(2, 3), apart(2)]), "einsum": (lambda x, y, z: einsum("ij,jk,k->i", x, y, z), [X, apart(3, 2), apart(2)]),
    **{n: (getattr(S, n), [X, MORE]) for n in ("mse_loss", "l1_loss", "huber_loss")},
    "bce_loss": (S.bce_loss, [UNIT, UNIT[::-1].copy()]), "bce_with_logits": (S.bce_with_logits, [X, UNIT]),
    "kl_divergence": (S.kl_divergence, [X, UNIT]), "nll_loss": (lambda x: S.nll_loss(x, LABELS), [X]),
    "cross_entropy": (lambda x: S.cross_entropy(x, LABELS), [X]),
    "cross_entropy smoothed": (lambda x: S.cross_entropy(x, LABELS, label_smoothing=0.1, ignore_index=0), [X]),
    "cross_entropy of probabilities": (S.cross_entropy, [X, UNIT]),
    "squeeze": (lambda x: M.squeeze(M.expand_dims(x, axis=1)), [X]), "flip": (M.flip, [X]), "diagonal": (lambda x: M.diagonal(x, offset=1), [X]),
    "moveaxis": (lambda x: M.moveaxis(x, 0, 1), [X]), "split": (lambda x: M.split(x, [1, 2], 1)[1], [X]),
    "layer_norm": (W.layer_norm, [X, apart(3), apart(3)]), "rms_norm": (W.rms_norm, [X, apart(3)]),
    "group_norm": (lambda x, w, b: W.group_norm(x, 2, w, b), [IMAGE[..., :2, :2].copy(), apart(2), apart(2)]),
    "instance_norm": (W.instance_norm, [IMAGE[..., :2, :2].copy()]), "normalize": (W.normalize, [X]),
    "dropout": (lambda x: Z.dropout(x, 0.5, (7, 1)), [X]),
    "sum": (lambda x: R.sum(x, 0), [X]), "prod": (lambda x: R.prod(x, 1), [X]), "max": (lambda x: R.max(x, 1), [X]), "min": (R.min, [X]),
    "mean": (R.mean, [X]), "var": (lambda x: R.var(x, 1, 1.0), [X]), "std": (R.std, [X]), "logsumexp": (lambda x: R.logsumexp(x, 1), [X]),
    "cumulative_sum": (lambda x: R.cumulative_sum(x, axis=1, include_initial=True), [X]),
    "cumulative_prod": (lambda x: R.cumulative_prod(x, axis=1), [X]), "cumulative_max": (lambda x: R.cumulative_max(x, axis=1), [X]),
    "diff": (lambda x: J.diff(x, axis=1), [X]),
    "sort": (lambda x: T.sort(x, axis=0), [X]), "sort downwards": (lambda x: T.sort(x, descending=True), [X]), "topk": (lambda x: T.topk(x, 2)[0], [X]),
    "setitem": (lambda x, v: U.setitem(x, (slice(None), slice(0, 2)), v), [X, apart(2, 2)]),
    "setitem at integers": (lambda x, v: U.setitem(x, (slice(None), ids(2, 0)), v), [X, apart(2, 2)]),
    "scatter_add": (lambda x, v: U.scatter_add(x, Tensor(np.array([[0, 1, 1]])).node, v), [X, apart(1, 3)]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_against_differences(name: str) -> None:
    f, arrays = CASES[name]
    size = sum(a.size for a in arrays)
    check(f, *arrays, twice=size <= 12, tolerance=2e-5)
