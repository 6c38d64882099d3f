"""A graph's values node by node, in the oracle's arithmetic: what unfused operations give, with bounds. It says whether fusion
changed a result where NumPy has no text for it, as for gradients; whether the graph itself is right, others say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tilewright.tensor.graph.nodes import TensorNode, walk
from tilewright.tensor.running import numpy_evaluation as small

from . import noisy
from .oracle import Expected, summed_up, use

UFUNCS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def results(outs: Sequence[TensorNode], runs: int, scale: float = 1.0, seed: int = 0) -> list[Expected]:
    """What nodes whose leaves have memory may be."""
    found: list[list[Any]] = []
    with np.errstate(all="ignore"):
        for number in range(runs + 3):
            use(number, scale, seed)
            found.append(values(outs))
    expected = [summed_up([f[i] for f in found]) for i in range(len(outs))]
    for e in expected:  # 0 · ∞ of what is masked or stands between: a kernel that does not compute it is not wrong
        if e.kind in noisy.EPS:
            e.open = e.open | np.isnan(e.value)
    return expected


def values(outs: Sequence[TensorNode], exact: Mapping[int, Any] | None = None) -> list[Any]:
    """One run. `exact`: by the id of a leaf's memory other values than it has."""
    done: dict[int, Any] = {}
    for n in walk(outs):
        if exact and n.data is not None and id(n.data) in exact:
            done[id(n)] = noisy.noisy(exact[id(n.data)], "float64")
            continue
        done[id(n)] = _stored(n) if n.data is not None else _value(n, [done[id(s)] for s in n.src])
    return [done[id(o)] for o in outs]


def _stored(n: TensorNode) -> Any:
    return of(n, n.data.array)


def of(n: TensorNode, x: Any) -> Any:
    """An array as the oracle has those of the node's type."""
    return noisy.noisy(np.asarray(x).astype(np.float64), n.dtype.name) if n.dtype.is_float else np.asarray(x).astype(n.dtype.np, copy=False)


def _value(n: TensorNode, src: list[Any]) -> Any:
    raw = [np.asarray(s) for s in src]
    if n.op == "cast":
        return src[0] if n.arg is not None else _converted(src[0], n.dtype.name)
    if n.op == "elementwise" and n.arg == "rounded":
        return noisy.cast(src[0], n.dtype.name)
    if n.op == "after":
        return src[0]
    if n.op == "elementwise":
        return of(n, found) if not isinstance(found := small.operator(n.arg)(*src), noisy.Noisy) else found
    if n.op == "view":
        return of(n, small.viewed(raw[0], n.arg))
    if n.op in ("reduce", "scan"):
        combine, dims = n.arg
        call = UFUNCS[combine].reduce if n.op == "reduce" else UFUNCS[combine].accumulate
        return (
            of(n, found)
            if not isinstance(found := call(src[0], axis=dims, dtype=None if n.dtype.is_float else src[0].dtype), noisy.Noisy)
            else found
        )
    if n.op == "scatter":
        return _scattered(n, src)
    if n.op == "host":
        exact = noisy._now().number < 0  # no rounding, so that what is sorted is sorted as differences see it
        return of(n, n.arg.function(*[r if exact and x.dtype.is_float else r.astype(x.dtype.np) for r, x in zip(raw, n.src)]))
    return of(n, small.EVALUATE[n.op](n, raw))


def _converted(x: Any, to: str) -> Any:
    """A conversion inside of an operation: a kernel may leave the rounding out, and compute on in a wider type."""
    if to not in noisy.EPS or not isinstance(x, noisy.Noisy) or noisy.EPS[to] <= noisy.EPS[x.kind]:
        return noisy.cast(x, to)
    value = np.asarray(x)
    return noisy.noisy(noisy._now().result(value, to, noisy.EPS[to] * np.abs(value)), to)


def _scattered(n: TensorNode, src: list[Any]) -> Any:
    """As NumPy's evaluation does it, with the noise of its sums."""
    found = of(n, small.EVALUATE["scatter"](n, [np.asarray(s) for s in src]))
    if n.arg.combine != "add" or not n.dtype.is_float:
        return found
    sizes = np.asarray(small.EVALUATE["scatter"](n, [np.abs(np.asarray(src[0])), *[np.asarray(s) for s in src[1:]]]))
    kind = n.dtype.name
    amplitude = noisy._sum_eps(kind, 64) * sizes + noisy.EPS[kind] * np.abs(np.asarray(found))
    return of(n, noisy._now().result(np.asarray(found), kind, amplitude))
