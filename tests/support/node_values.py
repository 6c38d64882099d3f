"""What nodes mean, in NumPy: no partition, no kernels. Tests of gradients evaluate the same graph hundreds of times."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import erf
from typing import Any

import numpy as np
from tilewright.ir.node import Node
from tilewright.tensor.graph.index_maps import IndexMap, Indices
from tilewright.tensor.graph.nodes import Loaded, TensorNode, walk

Array = np.ndarray[Any, Any]
_REDUCE = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
_NUMPY: dict[str, Any] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum, "min": np.minimum,
    "pow": np.power, "remainder": np.remainder, "where": np.where, "lt": np.less, "le": np.less_equal, "eq": np.equal,
    "ne": np.not_equal, "and": np.bitwise_and, "or": np.bitwise_or, "not": np.logical_not, "neg": np.negative, "abs": np.abs,
    "shl": np.left_shift, "shr": np.right_shift, "xor": np.bitwise_xor, "floordiv": np.floor_divide,
    "erf": np.vectorize(erf, otypes=[float]),
}  # fmt: skip


def place(node: Node, env: dict[Node, Array]) -> Any:
    """An index or a mask for arrays of axes."""
    if node in env:
        return env[node]
    if node.op == "const":
        return node.arg
    v = [place(s, env) for s in node.src]
    match node.op:
        case "sum":
            return sum((k * x for k, x in zip(node.arg[0], v, strict=True)), node.arg[1])
        case "prod":
            return np.prod(np.broadcast_arrays(*v), axis=0)
        case "div":
            return v[0] // node.arg
        case "mod":
            return v[0] % node.arg
    return _NUMPY[node.op](*v)


def value(node: TensorNode, memory: dict[int, Array]) -> Array:
    """The values of a node; `memory` has those of leaves by id, and gets what is computed."""
    with np.errstate(all="ignore"):
        for n in walk([node], lambda n: id(n) in memory):
            if id(n) not in memory:
                out = np.asarray(_value(n, [memory[id(s)] for s in n.src]))
                assert out.shape == n.shape, (n, out.shape)
                memory[id(n)] = out.astype(n.dtype.np)
    return memory[id(node)]


def _value(n: TensorNode, src: list[Array]) -> Any:
    match n.op:
        case "buffer":
            return n.data.array
        case "const":
            return n.arg
        case "given":
            return n.arg[1]
        case "iota":
            return np.arange(n.shape[0])
        case "cast" | "after":
            return src[0]
        case "elementwise":
            return _NUMPY.get(n.arg, getattr(np, n.arg, None))(*src)
        case "view":
            return _view(n, src[0])
        case "reduce":
            return _REDUCE[n.arg[0]].reduce(src[0], axis=n.arg[1])
        case "scan":
            return _REDUCE[n.arg[0]].accumulate(src[0], axis=n.arg[1])
        case "gather":
            at = _places(n.arg.axes, n.arg.indices, n.shape, src[1:])
            return src[0][tuple(np.clip(i, 0, e - 1) for i, e in zip(at, src[0].shape))]
        case "scatter":
            return _scatter(n, src)
        case "host":
            return n.arg.function(*src)
    raise AssertionError(n)


def _env(axes: Indices, shape: tuple[int, ...]) -> dict[Node, Array]:
    return {a: g for a, g in zip(axes, np.indices(shape, sparse=True)) if a.op == "axis"}


@lru_cache(maxsize=256)
def _read(view: IndexMap, shape: tuple[int, ...], source: tuple[int, ...]) -> tuple[Array, tuple[Array, ...]]:
    """Where a view reads, and at which places of its source."""
    env = _env(view.axes, shape)
    keep = np.broadcast_to(True if view.mask is None else place(view.mask, env), shape)
    at = [np.broadcast_to(place(i, env), shape) for i in view.indices]
    assert all(((i >= 0) & (i < e))[keep].all() for i, e in zip(at, source)), f"{view} reads outside of its source"
    return keep, tuple(np.where(keep, i, 0) for i in at)


def _view(n: TensorNode, x: Array) -> Array:
    keep, at = _read(n.arg, n.shape, x.shape)
    if 0 in x.shape:
        return np.zeros(n.shape)
    return np.where(keep, x[at] if at else x, 0)


def _places(axes: Indices, indices: Sequence[Any], shape: tuple[int, ...], loaded: Sequence[Array]) -> list[Array]:
    env = _env(axes, shape)
    return [np.broadcast_to(loaded[i.place] if isinstance(i, Loaded) else place(i, env), shape) for i in indices]


def _scatter(n: TensorNode, src: list[Array]) -> Array:
    combine = n.arg.combine
    start = {"add": 0, "mul": 1, "max": -np.inf, "min": np.inf}[combine]
    out = np.full(n.shape, start, n.dtype.np)
    at = _places(n.arg.axes, n.arg.indices, src[0].shape, src[1:])
    inside = np.broadcast_to(True, src[0].shape)
    for i, e in zip(at, n.shape):
        inside = inside & (i >= 0) & (i < e)
    _REDUCE[combine].at(out, tuple(i[inside] for i in at), src[0][inside])
    return out
