"""Products: of matrices, batched, by einsum, and convolutions."""

from __future__ import annotations

from typing import Any

from .table import Drawn, Unfit, row


def matrices(d: Any) -> Drawn:
    a = d.pick(lambda v: v.float and v.ndim >= 2)
    v = d.values[a]
    lead = v.shape[:-2] if d.n(2) else ()
    if d.n(4) == 0:
        lead = tuple(1 if d.n(2) else n for n in lead)
    return (a, d.some((*lead, v.shape[-1], d.extent()), v.dtype)), {}


def rows(d: Any) -> Drawn:
    a = d.pick(lambda v: v.float and v.ndim >= 2)
    v = d.values[a]
    return (a, d.some((d.extent(), v.shape[-1]), v.dtype)), {}


def itself(d: Any) -> Drawn:
    return (d.pick(lambda v: v.float and v.ndim >= 2),), {}


def vector(d: Any) -> Drawn:
    a = d.pick(lambda v: v.float and v.ndim >= 2)
    v = d.values[a]
    return (a, d.some((v.shape[-1],), v.dtype)), {}


def heads(d: Any) -> Drawn:
    a = d.pick(lambda v: v.float and v.ndim == 3)
    b, _, c = d.values[a].shape
    return (a, d.some((b, d.extent(), c), d.values[a].dtype)), {}


def windows(d: Any) -> Drawn:
    a = d.pick(lambda v: v.float and v.ndim == 3 and v.size)
    v = d.values[a]
    stride, padding, dilation, taps = d.one((1, 1, 2, 3)), d.n(3), d.one((1, 1, 2)), d.one((1, 2, 3, 5))
    if v.shape[2] + 2 * padding <= (taps - 1) * dilation:
        raise Unfit
    return (a, d.some((d.one((1, 2, 3, 8)), v.shape[1], taps), v.dtype)), {"stride": stride, "padding": padding, "dilation": dilation}


def spread(d: Any) -> Drawn:
    a = d.pick(lambda v: v.float and v.ndim == 3 and v.size)
    v = d.values[a]
    return (a, d.some((v.shape[1], d.one((1, 2, 3)), d.one((1, 2, 3, 4))), v.dtype)), {"stride": d.one((1, 1, 2, 3))}


def pooled(d: Any) -> Drawn:
    a = d.pick(lambda v: v.float and v.ndim == 3 and v.size and v.shape[2] > 2)
    return (a,), {"size": d.one((1, 2, 3)), "stride": d.one((1, 2, 3))}


row("matrices", matrices, 4, matmul="{a} @ {b}")
row("rows_of", rows, 1.5, matmul_nt=("{a} @ {b}.mT", "{a} @ np.swapaxes({b}, -1, -2)"))
row("itself", itself, 1, gram=("{a} @ {a}.mT", "{a} @ np.swapaxes({a}, -1, -2)"))
row("vector", vector, 1, matvec="{a} @ {b}")
row("heads", heads, 2, einsum=("xp.einsum('btc,bsc->bts', {a}, {b})", "np.einsum('btc,bsc->bts', {a}, {b})"),
    einsum_sum=("xp.einsum('btc,bsc->ts', {a}, {b})", "np.einsum('btc,bsc->ts', {a}, {b})"),
    attend=("({a} @ {b}.mT / 2).softmax(-1) @ {b}", "softmax({a} @ np.swapaxes({b}, -1, -2) / 2, -1) @ {b}"))  # fmt: skip
row("windows", windows, 2.5, conv=("nn.conv({a}, {b}, stride={stride}, padding={padding}, dilation={dilation})",
    "conv({a}, {b}, {stride}, {padding}, {dilation})"))  # fmt: skip
row("spread", spread, 1, conv_transpose=("nn.conv_transpose({a}, {b}, stride={stride})", "conv_transpose({a}, {b}, {stride})"))
row("pooled", pooled, 1, max_pool=("nn.max_pool({a}, ({size},), stride=({stride},))", "pool({a}, {size}, {stride}, 'max')"),
    avg_pool=("nn.avg_pool({a}, ({size},), stride=({stride},))", "pool({a}, {size}, {stride}, 'mean')"))  # fmt: skip
