"""What the operations of a model's graph compute: on floats by this project's kernels, on integers by polynomials modulo 2^64 of which any order of
sums gives the same bits. A polynomial stands for what is no product (a normalisation, attention); it joins the same elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from ..captured_graph import OpKernel
from ..kernel_prices import product_shape
from ..shard_graph import ShardOp

Array = Any


def evaluate(op: ShardOp, arrays: Sequence[Array]) -> Array:
    """The part of an operation's result that its arrays give: `arrays` in the order of its reads."""
    if op.rule == "product":
        return _product(op, *arrays)
    if op.rule == "sum":
        return arrays[0] + arrays[1]
    whole = np.issubdtype(arrays[0].dtype, np.integer)
    return (_RING if whole else _FLOATS)[op.rule](*arrays)


_built: dict[tuple[Any, ...], tuple[Any, Any]] = {}


def by_kernel(found: OpKernel, op: ShardOp, local: Mapping[str, int], arrays: Sequence[Array]) -> Array:
    """The result of a function's own kernel on a part: `arrays` in the order of the operation's reads."""
    from ...plan import best

    key = (found, *sorted(local.items()))
    if key not in _built:
        kernel = found.on(local)
        _built[key] = kernel, best(kernel, threads=1)
    kernel, compiled = _built[key]
    reads = list(op.reads)
    shaped = [np.ascontiguousarray(arrays[reads.index(r)]).reshape([int(n) for n in b.shape]) for r, b in zip(found.inputs, kernel.inputs)]
    made = compiled(*shaped)
    return np.asarray((made if isinstance(made, tuple) else (made,))[found.place])


def _product(op: ShardOp, a: Array, b: Array) -> Array:
    (_, left), (_, right), (_, out) = *op.reads, op.writes
    both = [x for x in out if x in left and x in right]
    rows, columns = [x for x in out if x in left and x not in right], [x for x in out if x in right and x not in left]
    summed = [x for x in left if x not in out]
    extent = {**dict(zip(left, a.shape)), **dict(zip(right, b.shape))}

    def turned(array: Array, dims: Sequence[str], *groups: Sequence[str]) -> Array:
        order = [dims.index(x) for group in groups for x in group]
        return np.ascontiguousarray(array.transpose(order)).reshape([int(np.prod([extent[x] for x in group])) for group in groups])

    batch, m, n, k = product_shape(op, extent) or (1, 1, 1, 1)
    left_matrix, right_matrix = turned(a, left, both, rows, summed), turned(b, right, both, summed, columns)
    if a.dtype == np.float32:
        multiply = _matmul(m, n, k)
        product = np.stack([multiply(left_matrix[i], right_matrix[i]) for i in range(batch)])
    else:
        product = left_matrix @ right_matrix
    order = [*both, *rows, *columns]
    return product.reshape([extent[x] for x in order]).transpose([order.index(x) for x in out])


@cache
def _matmul(m: int, n: int, k: int) -> Callable[..., Any]:
    """The product that the plan was priced by: what the schedule cache knows of this shape, on one thread."""
    from ...plan import best

    return best("matmul", {"m": m, "n": n, "k": k}, "float32", threads=1)


def _heads(qkv: Array) -> tuple[Array, Array, Array]:
    return qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]


def _ring_attention(qkv: Array) -> Array:
    q, k, v = _heads(qkv)
    return q * (k * v).sum((1, 3), keepdims=True) + v


def _ring_attention_gradient(dy: Array, qkv: Array) -> Array:
    q, k, v = _heads(qkv)
    among = (dy * q).sum((1, 3), keepdims=True)
    return np.stack([dy * (k * v).sum((1, 3), keepdims=True), among * v, among * k + dy], axis=2)


_RING: dict[str, Callable[..., Array]] = {
    "norm": lambda x: x * x.sum(-1, keepdims=True) + x,
    "gradient of norm": lambda dy, x: dy * x.sum(-1, keepdims=True) + (dy * x).sum(-1, keepdims=True) + dy,
    "attention": _ring_attention,
    "gradient of attention": _ring_attention_gradient,
}


@cache
def _captured() -> dict[str, Callable[..., Any]]:
    from ...tensor import Tensor, grad, jit, nn

    def norm(x: Any) -> Any:
        return nn.layer_norm(x)

    def attention(qkv: Any) -> Any:
        q, k, v = (qkv[:, :, t].permute(0, 2, 1, 3) for t in range(3))
        n, d = q.shape[-2:]
        at = Tensor(np.arange(n))
        scores = (at <= at.reshape(n, 1)).where(q @ k.mT * d**-0.5, float("-inf"))
        return (scores.softmax(-1) @ v).permute(0, 2, 1, 3)

    found: dict[str, Callable[..., Any]] = {}
    for name, function in (("norm", norm), ("attention", attention)):
        found[name] = jit(function)
        found[f"gradient of {name}"] = jit(lambda dy, x, f=function: grad(lambda y: (f(y) * dy).sum())(x))
    return found


def _by_kernels(name: str) -> Callable[..., Array]:
    def run(*arrays: Array) -> Array:
        from ...tensor import Tensor

        return _captured()[name](*(Tensor(a) for a in arrays)).numpy()

    return run


_FLOATS = {name: _by_kernels(name) for name in _RING}
