"""Movement: what reads the same elements elsewhere, and what puts arrays together."""

from __future__ import annotations

from typing import Any

from .table import Drawn, Unfit, row


def some(d: Any) -> tuple[int, Any]:
    a = d.pick(lambda v: v.ndim > 0)
    return a, d.values[a]


def part(d: Any) -> Drawn:
    a, v = some(d)
    return (a,), {"key": ", ".join(d.slice(n) for n in v.shape[: 1 + d.n(v.ndim)])}


def element(d: Any) -> Drawn:
    a, v = some(d)
    at = d.n(v.ndim)
    if not v.shape[at]:
        raise Unfit
    return (a,), {"key": ", ".join([":"] * at + [str(d.one((0, -1, d.n(v.shape[at]))))])}


def order(d: Any) -> Drawn:
    a = d.pick(lambda v: v.ndim > 1)
    axes = [int(i) for i in d.rng.permutation(d.values[a].ndim)]
    return (a,), {"order": tuple(axes)}


def turned(d: Any) -> Drawn:
    a = d.pick(lambda v: v.ndim > 1)
    return (a,), {}


def shape(d: Any) -> Drawn:
    a = d.pick()
    return (a,), {"shape": d.factors(d.values[a].size)}


def merged(d: Any) -> Drawn:
    """Two neighbouring dimensions as one: the rest as it is."""
    a = d.pick(lambda v: v.ndim > 1)
    s = d.values[a].shape
    at = d.n(len(s) - 1)
    return (a,), {"shape": (*s[:at], s[at] * s[at + 1], *s[at + 2 :])}


def grown(d: Any) -> Drawn:
    a = d.pick()
    s = tuple(d.extent() if n == 1 else n for n in d.values[a].shape)
    return (a,), {"shape": (*([d.one((1, 2, 3))] * d.n(2)), *s)}


def axis(d: Any) -> Drawn:
    a, v = some(d)
    return (a,), {"axis": d.n(v.ndim), "shift": d.one((1, 2, -1)), "back": v.ndim - 1}


def new(d: Any) -> Drawn:
    a = d.pick()
    return (a,), {"at": d.n(d.values[a].ndim + 1)}


def widths(d: Any) -> Drawn:
    a, v = some(d)
    return (a,), {"widths": tuple((d.n(3), d.n(3)) for _ in v.shape)}


def joined(d: Any) -> Drawn:
    a, v = some(d)
    at = d.n(v.ndim)
    b = d.pick(
        lambda w: w.dtype == v.dtype and w.ndim == v.ndim and all(m == n or e == at for e, (m, n) in enumerate(zip(w.shape, v.shape)))
    )
    return (a, b), {"axis": at}


def stacked(d: Any) -> Drawn:
    a = d.pick()
    v = d.values[a]
    b = d.pick(lambda w: w.dtype == v.dtype and w.shape == v.shape)
    return (a, b), {"axis": d.n(v.ndim + 1)}


def square(d: Any) -> Drawn:
    a = d.pick(lambda v: v.ndim > 1 and v.shape[-1] and v.shape[-2])
    return (a,), {"k": d.one((0, 0, 1, -1))}


row("part", part, 5, part="{a}[{key}]")
row("element", element, 1.5, element="{a}[{key}]")
row("order", order, 1.5, permute=("{a}.permute(*{order})", "{a}.transpose({order})"))
row("turned", turned, 1.5, mT=("{a}.mT", "np.swapaxes({a}, -1, -2)"))
row("shape", shape, 1.5, reshape=("{a}.reshape(*{shape})", "{a}.reshape({shape})"))
row("merged", merged, 1, merge=("{a}.reshape(*{shape})", "{a}.reshape({shape})"))
row("grown", grown, 1.5, expand=("{a}.expand(*{shape})", "np.broadcast_to({a}, {shape})"))
row("axis", axis, 2, flip=("{a}.flip(axis={axis})", "np.flip({a}, {axis})"), roll=("{a}.roll({shift}, axis={axis})", "np.roll({a}, {shift}, {axis})"),
    repeat=("{a}.repeat(2, axis={axis})", "np.repeat({a}, 2, {axis})"))  # fmt: skip
row("new", new, 1, newaxis=("xp.expand_dims({a}, axis={at})", "np.expand_dims({a}, {at})"))
row("widths", widths, 1.5, pad=("{a}.pad({widths})", "np.pad({a}, {widths})"))
row("joined", joined, 2, concat=("xp.concat([{a}, {b}], axis={axis})", "np.concatenate([{a}, {b}], {axis})"))
row("stacked", stacked, 0.7, stack=("xp.stack([{a}, {b}], axis={axis})", "np.stack([{a}, {b}], {axis})"))
row("square", square, 1, diagonal=("{a}.diagonal(offset={k})", "np.diagonal({a}, {k}, -2, -1)"), tril=("{a}.tril(k={k})", "np.tril({a}, {k})"),
    triu=("{a}.triu(k={k})", "np.triu({a}, {k})"))  # fmt: skip
