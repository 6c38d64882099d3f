"""Reads and writes at places that an array holds, and updates in place."""

from __future__ import annotations

from typing import Any

from .table import Drawn, Unfit, row


def taken(d: Any) -> Drawn:
    a = d.pick(lambda v: v.ndim > 0 and v.size)
    v = d.values[a]
    axis = d.n(v.ndim)
    return (a, d.places((1 + d.n(7),), v.shape[axis])), {"axis": axis}


def picked(d: Any) -> Drawn:
    a = d.pick(lambda v: v.ndim > 0 and v.size)
    v = d.values[a]
    axis = d.n(v.ndim)
    return (a, d.places(tuple(1 if e == axis else n for e, n in enumerate(v.shape)), v.shape[axis])), {"axis": axis}


def labelled(d: Any) -> Drawn:
    a = d.pick(lambda v: v.ndim == 2 and v.size and v.float)
    v = d.values[a]
    return (a, d.places((v.shape[0],), v.shape[1])), {}


def added(d: Any) -> Drawn:
    a = d.pick(lambda v: v.ndim > 0 and v.size and v.dtype != "bool")
    v = d.values[a]
    axis, n = d.n(v.ndim), 1 + d.n(6)
    rows = tuple(n if e == axis else m for e, m in enumerate(v.shape))
    return (a, d.places((n,), v.shape[axis]), d.some(rows, v.dtype)), {"axis": axis}


def written(d: Any) -> Drawn:
    a = d.pick(lambda v: v.ndim > 0)
    v = d.values[a]
    key = ", ".join(d.slice(n) for n in v.shape[: 1 + d.n(v.ndim)])
    return (a, d.some((), v.dtype) if d.n(2) else d.some(v.shape[-1:] if "," not in key and v.ndim > 1 else (), v.dtype)), {"key": key}


def masked(d: Any) -> Drawn:
    a = d.pick(lambda v: v.ndim > 0)
    v = d.values[a]
    return (a, d.some(v.shape, "bool")), {"k": d.one((0, 1, 2)) if v.dtype != "bool" else 1, "kind": v.dtype}


def classes(d: Any) -> Drawn:
    a = d.places((d.extent() or 1,), 5)
    if not d.values[a].size:
        raise Unfit
    return (a,), {"classes": 5}


row("taken", taken, 1.5, take=("{a}.take({b}, axis={axis})", "np.take({a}, {b}, {axis})"))
row("picked", picked, 0.8, take_along=("xp.take_along_axis({a}, {b}, axis={axis})", "np.take_along_axis({a}, {b}, {axis})"))
row("labelled", labelled, 1, cross_entropy=("nn.cross_entropy({a}, {b})", "cross_entropy({a}, {b})"))
row("added", added, 1.5, scatter_add=("{a}.scatter_add({b}, {c}, axis={axis})", "add_at({a}, {axis}, {b}, {c})"))
row("written", written, 2, put=("put({a}, np.s_[{key}], {b})", "put({a}, np.s_[{key}], {b})"))
row("masked", masked, 1, put_where=("put({a}, {b}, {k})", "np.where({b}, number({k}, '{kind}'), {a})"))
row("classes", classes, 0.4, one_hot=("nn.one_hot({a}, {classes}).astype('float32')", "cast(one_hot({a}, {classes}), 'float32')"))
