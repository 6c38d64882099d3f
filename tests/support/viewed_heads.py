"""Every view of every head: pairs of a function of tensors and NumPy's of the same, and a list of kernels run by `evaluate`.

A *head* is what kernels are built around: products, convolutions, norms, scans, reads and writes by index. A *view* shows a
part of an array, or the same elements elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tilewright import Tensor, nn, xp
from tilewright.ir import index as ix
from tilewright.ir.evaluation import evaluate
from tilewright.tensor.fusion.call_list import KernelCall, call_list
from tilewright.tensor.graph import index_maps
from tilewright.tensor.graph.nodes import TensorNode
from tilewright.tensor.graph.primitives import view
from tilewright.tensor.ops.convolution import layout, windows
from tilewright.tensor.running.realise import detached

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
Pair = tuple[Callable[..., Any], Callable[..., Any]]


def by_kernels(outs: Sequence[TensorNode]) -> list[Array]:
    """The values of nodes as their kernels give them, each evaluated in float64; NaN where nothing was written."""
    copies, leaves = detached(outs)
    made = call_list(copies)
    places: list[Any] = [leaves[n.arg.number].data.array for n in made.nodes[: made.leaves]] + [None] * (len(made.nodes) - made.leaves)
    for call in made.calls:
        given = [places[p] for p in call.inputs]
        if isinstance(call, KernelCall):
            k = call.kernel
            found = evaluate(k, {b.name: a.reshape(b.shape) for b, a in zip(k.inputs, given, strict=True)})
            values = [found[b.name] for b in k.outputs]
        else:
            values = [call.call.function(*given)]
        for p, v in zip(call.outputs, values, strict=True):
            n = made.nodes[p]
            places[p] = np.asarray(v).reshape(n.shape).astype(n.dtype.np)
    return [places[p] for p in made.outs]


def same(f: Callable[[Any], Any]) -> Pair:
    """A function that is written the same way of tensors and of arrays."""
    return f, f


# views -------------------------------------------------------------------------------------------------------------------
def _banded(y: Any) -> Any:
    return y.tril() if isinstance(y, Tensor) else np.tril(y)


VIEWS: dict[str, Pair] = {
    "all": same(lambda y: y),
    "first rows": same(lambda y: y[:2]),
    "last rows": same(lambda y: y[2:]),
    "first columns": same(lambda y: y[..., :2]),
    "last columns": same(lambda y: y[..., 2:]),
    "one column": same(lambda y: y[..., 0]),
    "middle column": same(lambda y: y[..., 1:2]),
    "one row": same(lambda y: y[1]),
    "element": same(lambda y: y[1, ..., 2]),
    "strided": same(lambda y: y[::2, ..., ::3]),
    "flipped rows": (lambda y: y.flip(axis=0), lambda y: np.flip(y, 0)),
    "flipped strided": same(lambda y: y[::-1, ..., ::-2]),
    "diagonal": (lambda y: y.diagonal(), lambda y: np.diagonal(y, axis1=-2, axis2=-1)),
    "trace": (lambda y: y.diagonal().sum(-1), lambda y: np.trace(y, axis1=-2, axis2=-1)),
    "padded": (lambda y: y.pad([(1, 2)] * y.ndim), lambda y: np.pad(y, [(1, 2)] * y.ndim)),
    "broadcast": (lambda y: y[None].expand(3, *y.shape), lambda y: np.broadcast_to(y, (3, *y.shape))),
    "broadcast padded": (lambda y: y[None].expand(3, *y.shape).pad([(1, 2), *[(0, 1)] * y.ndim]),
                         lambda y: np.pad(np.broadcast_to(y, (3, *y.shape)), [(1, 2), *[(0, 1)] * y.ndim])),
    "rolled": (lambda y: y.roll(1, axis=-1), lambda y: np.roll(y, 1, -1)),
    "rolled rows": (lambda y: y.roll(2, axis=0), lambda y: np.roll(y, 2, 0)),
    "halves swapped": (lambda y: xp.concat([y[..., 2:], y[..., :2]], axis=-1), lambda y: np.concatenate([y[..., 2:], y[..., :2]], -1)),
    "joined": (lambda y: xp.concat([y[:1], y * 2, y[1:]], axis=0), lambda y: np.concatenate([y[:1], y * 2, y[1:]], 0)),
    "flat": same(lambda y: y.reshape(-1)),
    "reshaped part": same(lambda y: y[:2].reshape(-1, 2)),
    "transposed": same(lambda y: y.T if y.ndim == 2 else y.mT),
    "transposed part": same(lambda y: (y.T if y.ndim == 2 else y.mT)[..., :2]),
    "banded": (_banded, _banded),
    "picked": (lambda y: y.take(Tensor(np.array([2, 0, 2])), axis=0), lambda y: np.take(y, [2, 0, 2], 0)),
}  # fmt: skip
"""Of an array of at least 2 dimensions with at least 3 elements along the first and the last one."""


SOURCES: dict[str, tuple[Callable[[Shape], Shape], Callable[..., Any], Callable[..., Any]]] = {
    "first rows": (lambda s: (s[0] + 2, *s[1:]), *same(lambda x: x[:-2])),
    "last rows": (lambda s: (s[0] + 2, *s[1:]), *same(lambda x: x[2:])),
    "first columns": (lambda s: (*s[:-1], s[-1] + 3), *same(lambda x: x[..., :-3])),
    "last columns": (lambda s: (*s[:-1], s[-1] + 3), *same(lambda x: x[..., 3:])),
    "strided": (lambda s: (*s[:-1], 2 * s[-1]), *same(lambda x: x[..., ::2])),
    "flipped": (lambda s: s, *same(lambda x: x[::-1, ..., ::-1] if x.ndim > 1 else x[::-1])),
    "transposed": (lambda s: s[::-1], lambda x: x.permute(*range(x.ndim)[::-1]), lambda x: x.T),
    "padded": (lambda s: tuple(n - 1 for n in s), lambda x: x.pad([(1, 0)] * x.ndim), lambda x: np.pad(x, [(1, 0)] * x.ndim)),
    "rolled": (lambda s: s, lambda x: x.roll(2, axis=-1), lambda x: np.roll(x, 2, -1)),
    "rolled rows": (lambda s: s, lambda x: x.roll(1, axis=0), lambda x: np.roll(x, 1, 0)),
    "joined": (lambda s: s, lambda x: xp.concat([x[..., 1:], x[..., :1]], axis=-1), lambda x: np.concatenate([x[..., 1:], x[..., :1]], -1)),
    "picked": (lambda s: (s[0] + 1, *s[1:]), lambda x: x.take(Tensor(np.arange(x.shape[0] - 1)[::-1].copy()), axis=0), lambda x: x[-2::-1]),
    "banded": (lambda s: s, lambda x: x.tril() if x.ndim > 1 else x, lambda x: np.tril(x) if x.ndim > 1 else x),
}
"""By name: the shape of an array that a view gives a wanted shape of, and that view."""


# heads -------------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Head:
    """`tensors` and `arrays` compute one thing of arrays of `shapes`."""

    tensors: Callable[..., Any]
    arrays: Callable[..., Any]
    shapes: tuple[Shape, ...]


def _softmax(x: Array, axis: int = -1) -> Array:
    e = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(e / e.sum(axis, keepdims=True))


def _conv(x: Array, w: Array, stride: int = 1, padding: int = 0) -> Array:
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding)))
    taps = w.shape[-1]
    starts = range(0, x.shape[-1] - taps + 1, stride)
    return np.stack([np.einsum("bik,oik->bo", x[..., s : s + taps], w) for s in starts], -1)


def _conv2(x: Array, w: Array, stride: int) -> Array:
    h, v = w.shape[-2:]
    rows = [
        np.stack([np.einsum("bihv,oihv->bo", x[..., i : i + h, j : j + v], w) for j in range(0, x.shape[-1] - v + 1, stride)], -1)
        for i in range(0, x.shape[-2] - h + 1, stride)
    ]
    return np.stack(rows, -2)


def _conv_transpose(x: Array, w: Array, stride: int, padding: int = 0) -> Array:
    n, taps = x.shape[-1], w.shape[-1]
    out = np.zeros((x.shape[0], w.shape[1], (n - 1) * stride + taps))
    for i in range(n):
        out[..., i * stride : i * stride + taps] += np.einsum("bi,iok->bok", x[..., i], w)
    return out[..., padding : out.shape[-1] - padding]


def _windowed(x: Tensor, w: Tensor) -> Any:
    """A convolution of the first image whose gradients are those of its views."""
    seen = Tensor.of(windows(x.node, layout("windows", x.shape[-1:], w.shape[-1:], 1, 1, 1)))
    return xp.einsum("bcok,dck->bdo", seen, w)[0]


def _gaps(x: Tensor, step: int) -> Any:
    """Zeros between the neighbours of each row, by an index that is divided."""
    shape = (*x.shape[:-1], (x.shape[-1] - 1) * step + 1)
    axes = index_maps.placeholder_axes(shape)
    at = (*axes[:-1], ix.floordiv(axes[-1], step))
    return Tensor.of(view(x.node, index_maps.IndexMap(shape, x.shape, axes, at, ix.mod(axes[-1], step).eq(0))))


def _zeros_between(x: Array, step: int) -> Array:
    out = np.zeros((*x.shape[:-1], (x.shape[-1] - 1) * step + 1))
    out[..., ::step] = x
    return out


def _scattered(x: Array, at: Sequence[int], rows: int) -> Array:
    out = np.zeros((rows, x.shape[1]))
    np.add.at(out, list(at), x)
    return out


def _layer_norm(x: Array, axis: int = -1) -> Array:
    d = x - x.mean(axis, keepdims=True)
    return np.asarray(d / np.sqrt((d * d).mean(axis, keepdims=True) + 1e-5))


PICKS = (1, 3, 3, 0, 6)
M = (5, 7)

HEADS: dict[str, Head] = {
    "product": Head(lambda x, w: x @ w, lambda x, w: x @ w, (M, (7, 6))),
    "batched product": Head(lambda x, w: x @ w, lambda x, w: x @ w, ((3, 4, 5), (3, 5, 6))),
    "product of a transpose": Head(lambda x, w: x @ w.T, lambda x, w: x @ w.T, (M, (6, 7))),
    "einsum": Head(lambda x, w: xp.einsum("bij,kj->ibk", x, w), lambda x, w: np.einsum("bij,kj->ibk", x, w), ((3, 4, 5), (6, 5))),
    "network": Head(lambda x, w, v: (x @ w).tanh() @ v, lambda x, w, v: np.tanh(x @ w) @ v, (M, (7, 6), (6, 4))),
    "conv": Head(lambda x, w: nn.conv(x, w, padding=1)[0], lambda x, w: _conv(x, w, 1, 1)[0], ((1, 2, 7), (4, 2, 3))),
    "strided conv": Head(lambda x, w: nn.conv(x, w, stride=2), lambda x, w: _conv(x, w, 2), ((3, 2, 9), (3, 2, 3))),
    "conv of planes": Head(lambda x, w: nn.conv(x, w, stride=2)[0], lambda x, w: _conv2(x, w, 2)[0], ((1, 2, 7, 8), (3, 2, 3, 2))),
    "conv_transpose": Head(lambda x, w: nn.conv_transpose(x, w, stride=2)[0], lambda x, w: _conv_transpose(x, w, 2)[0], ((1, 2, 4), (2, 3, 3))),
    "conv_transpose padded": Head(
        lambda x, w: nn.conv_transpose(x, w, stride=3, padding=1), lambda x, w: _conv_transpose(x, w, 3, 1), ((3, 2, 4), (2, 3, 2))
    ),
    "windows": Head(lambda x, w: _windowed(x, w), lambda x, w: _conv(x, w, 1, 1)[0], ((1, 2, 7), (4, 2, 3))),
    "windows of gaps": Head(
        lambda x, w: _windowed(_gaps(x, 2), w), lambda x, w: _conv(_zeros_between(x, 2), w, 1, 1)[0], ((1, 2, 4), (3, 2, 3))
    ),
    "layer_norm": Head(lambda x, g: nn.layer_norm(x, g), lambda x, g: _layer_norm(x) * g, (M, (7,))),
    "column norm": Head(lambda x: _columns(x), lambda x: _layer_norm(x, 0), (M,)),
    "rms": Head(lambda x, g: x / ((x * x).mean(-1, keepdims=True) + 0.1).sqrt() * g,
                lambda x, g: x / np.sqrt((x * x).mean(-1, keepdims=True) + 0.1) * g, (M, (7,))),
    "group_norm": Head(lambda x: nn.group_norm(x, 2)[0], lambda x: _layer_norm(x.reshape(1, 2, -1)).reshape(x.shape)[0], ((1, 6, 5),)),
    "softmax": Head(lambda x: x.softmax(-1), _softmax, (M,)),
    "softmax of columns": Head(lambda x: x.softmax(0), lambda x: _softmax(x, 0), (M,)),
    "log_softmax": Head(lambda x: x.log_softmax(-1), lambda x: np.log(_softmax(x)), (M,)),
    "attention": Head(lambda q, k, v: (q @ k.T).softmax(-1) @ v, lambda q, k, v: _softmax(q @ k.T) @ v, ((5, 4), (6, 4), (6, 7))),
    "heads of attention": Head(lambda q, k, v: (q @ k.mT).softmax(-1) @ v, lambda q, k, v: _softmax(q @ k.swapaxes(-1, -2)) @ v,
                               ((3, 5, 2), (3, 4, 2), (3, 4, 6))),
    "share": Head(lambda x: x / ((x * x).sum(0) + 0.1), lambda x: x / ((x * x).sum(0) + 0.1), (M,)),
    "share of all": Head(lambda x: x / (x * x).sum(), lambda x: x / (x * x).sum(), (M,)),
    "norm": Head(lambda x: x * ((x * x).sum(-1, keepdims=True) + 0.1).sqrt(), lambda x: x * np.sqrt((x * x).sum(-1, keepdims=True) + 0.1), (M,)),
    "maximum": Head(lambda x: x - x.max(-1, keepdims=True), lambda x: x - x.max(-1, keepdims=True), (M,)),
    "maximum of columns": Head(lambda x: x * x.max(0), lambda x: x * x.max(0), (M,)),
    "variance": Head(lambda x: x.var((1,))[:, None] * x, lambda x: x.var(1)[:, None] * x, (M,)),
    "statistics": Head(lambda x: xp.stack([x.mean(-1), x.var((-1,)), x.max(-1)], axis=-1),
                       lambda x: np.stack([x.mean(-1), x.var(-1), x.max(-1)], -1), (M,)),
    "product of rows": Head(lambda x: x.prod(-1, keepdims=True) + x, lambda x: x.prod(-1, keepdims=True) + x, (M,)),
    "cumsum": Head(lambda x: (x * x).cumsum(-1), lambda x: np.cumsum(x * x, -1), (M,)),
    "cumsum of columns": Head(lambda x: x.cumsum(0) * x, lambda x: np.cumsum(x, 0) * x, (M,)),
    "cumprod": Head(lambda x: (x + 3).cumprod(-1), lambda x: np.cumprod(x + 3, -1), ((5, 4),)),
    "embedding": Head(lambda w: nn.embedding(w, Tensor(np.array(PICKS))) * 2, lambda w: w[list(PICKS)] * 2, ((7, 5),)),
    "embedded product": Head(lambda e, w: nn.embedding(e, Tensor(np.array(PICKS))) @ w, lambda e, w: e[list(PICKS)] @ w, ((7, 5), (5, 6))),
    "scatter": Head(lambda x: Tensor(np.zeros((7, 7))).scatter_add(Tensor(np.array(PICKS)), x) ** 2, lambda x: _scattered(x, PICKS, 7) ** 2, (M,)),
    "scattered product": Head(lambda x, w: Tensor(np.zeros((7, 6))).scatter_add(Tensor(np.array(PICKS)), x @ w),
                              lambda x, w: _scattered(x @ w, PICKS, 7), (M, (7, 6))),
    "max_pool": Head(lambda x: nn.max_pool(x, (2,), stride=1)[0], lambda x: np.maximum(x[0, :, :-1], x[0, :, 1:]), ((1, 4, 6),)),
    "outer": Head(lambda a, b: a[:, None] * b, lambda a, b: a[:, None] * b, ((5,), (6,))),
    "gram": Head(lambda x: x @ x.T, lambda x: x @ x.T, (M,)),
    "weighted gram": Head(lambda x, d: (x * d) @ x.T, lambda x, d: (x * d) @ x.T, (M, (7,))),
}  # fmt: skip


def _columns(x: Tensor) -> Tensor:
    d = x - x.mean(0, keepdims=True)
    return d / ((d * d).mean(0, keepdims=True) + 1e-5).sqrt()


def drawn(shapes: Sequence[Shape], seed: int = 0) -> list[Array]:
    """Arrays of normal numbers, no two of which are nearly equal."""
    rng = np.random.default_rng(seed)
    return [rng.permutation(np.linspace(-1.5, 1.5, int(np.prod(s)))).reshape(s) + rng.uniform(-0.01, 0.01, s) for s in shapes]
