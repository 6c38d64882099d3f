"""Reductions, scans and what is made of them: norms, softmax, places of extremes, sorts."""

from __future__ import annotations

from typing import Any

from .table import Drawn, Unfit, row


def over(d: Any, v: Any) -> Any:
    """An axis, two, or all of them."""
    how = d.n(5)
    if how == 0:
        return None
    if how == 1 and v.ndim > 1:
        return tuple(sorted({d.n(v.ndim), d.n(v.ndim)}))
    return d.n(v.ndim)


def counted(d: Any) -> Drawn:
    a = d.pick(lambda v: v.ndim > 0 and v.dtype != "bool")
    return (a,), {"axis": over(d, d.values[a]), "keep": bool(d.n(2))}


def filled(d: Any) -> Drawn:
    """Not of nothing."""
    a = d.pick(lambda v: v.ndim > 0 and v.size and v.dtype != "bool")
    return (a,), {"axis": over(d, d.values[a]), "keep": bool(d.n(2))}


def moments(d: Any) -> Drawn:
    a = d.pick(lambda v: v.ndim > 0 and v.size and v.float)
    return (a,), {"axis": over(d, d.values[a]), "keep": bool(d.n(2))}


def row_of(d: Any) -> Drawn:
    a = d.pick(lambda v: v.ndim > 0 and v.size and v.float)
    return (a,), {"axis": d.n(d.values[a].ndim)}


def place(d: Any) -> Drawn:
    a = d.pick(lambda v: v.ndim > 0 and v.size and v.dtype != "bool")
    return (a,), {"axis": d.n(d.values[a].ndim), "keep": bool(d.n(2))}


def along(d: Any) -> Drawn:
    a = d.pick(lambda v: v.ndim > 0 and v.dtype != "bool")
    return (a,), {"axis": d.n(d.values[a].ndim)}


def ordered(d: Any) -> Drawn:
    a = d.pick(lambda v: v.ndim > 0 and v.dtype != "bool" and v.size and v.finite)
    return (a,), {"axis": d.n(d.values[a].ndim)}


def truth(d: Any) -> Drawn:
    a = d.pick(lambda v: v.ndim > 0 and v.dtype == "bool")
    return (a,), {"axis": over(d, d.values[a])}


def normal(d: Any) -> Drawn:
    a = d.pick(lambda v: v.ndim > 0 and v.size and v.float)
    if d.values[a].shape[-1] < 2:
        raise Unfit
    return (a,), {}


row("sum", counted, 5, sum=("{a}.sum(axis={axis}, keepdims={keep})", "total({a}, {axis}, {keep})"))
row("prod", counted, 0.4, prod=("{a}.prod(axis={axis}, keepdims={keep})", "product({a}, {axis}, {keep})"))
row("extreme", filled, 3, max=("{a}.max(axis={axis}, keepdims={keep})", "top({a}, {axis}, {keep})"),
    min=("{a}.min(axis={axis}, keepdims={keep})", "bottom({a}, {axis}, {keep})"))  # fmt: skip
row("moments", moments, 5, mean=("{a}.mean(axis={axis}, keepdims={keep})", "mean({a}, {axis}, {keep})"),
    var=("{a}.var(axis={axis}, keepdims={keep})", "var({a}, {axis}, {keep})"), std=("{a}.std(axis={axis}, keepdims={keep})", "std({a}, {axis}, {keep})"),
    logsumexp=("{a}.logsumexp(axis={axis}, keepdims={keep})", "logsumexp({a}, {axis}, {keep})"))  # fmt: skip
row(
    "rows",
    row_of,
    4,
    softmax=("{a}.softmax({axis})", "softmax({a}, {axis})"),
    log_softmax=("{a}.log_softmax({axis})", "log_softmax({a}, {axis})"),
)
row("place", place, 1.5, argmax=("{a}.argmax(axis={axis}, keepdims={keep})", "np.argmax({a}, {axis}, keepdims={keep})"),
    argmin=("{a}.argmin(axis={axis}, keepdims={keep})", "np.argmin({a}, {axis}, keepdims={keep})"))  # fmt: skip
row("scan", along, 1.5, cumsum=("{a}.cumsum({axis})", "running({a}, {axis})"))
row(
    "sorted",
    ordered,
    0.7,
    sort=("xp.sort({a}, axis={axis})", "np.sort({a}, {axis})"),
    argsort=("{a}.argsort(axis={axis})", "np.argsort({a}, {axis}, kind='stable')"),
)
row("truth", truth, 1, any=("{a}.any(axis={axis})", "some({a}, {axis})"), all=("{a}.all(axis={axis})", "every({a}, {axis})"))
row("norm", normal, 3, layer_norm=("nn.layer_norm({a})", "layer_norm({a})"), rms_norm=("nn.rms_norm({a})", "rms_norm({a})"))
