"""Products of matrices, convolutions, pools and attention."""

from __future__ import annotations

import math
from typing import Any

import torch

from .... import xp
from ....tensor import Tensor, nn, vjp
from ....tensor.ops.convolution import layout, windows
from .table import as_result, of_one_type, operator, operators, refuse, spread, wide


def _ours(x: Tensor, *others: Any) -> None:
    """Leave products of several types to PyTorch, and products of bfloat16 to PyTorch where the processor multiplies tiles of it (AMX), by instructions that kernels here have not."""
    of_one_type(x, *others)
    if _by_onednn(x, "amx_tile"):
        refuse("a product of bfloat16, which PyTorch computes by AMX")


def _by_onednn(x: Tensor, instructions: str) -> bool:
    """Whether PyTorch multiplies x, of bfloat16, by oneDNN with some instructions of this processor."""
    return x.dtype.name == "bfloat16" and getattr(torch.cpu, f"_is_{instructions}_supported", bool)() and torch.backends.mkldnn.enabled


@operator("mm", "bmm", "matmul")
def mm(out: Any, /, a: Tensor, b: Tensor) -> Any:
    """A product of matrices, one each of a batch."""
    _ours(a, b)
    return a @ b


@operator("mv")
def mv(out: Any, /, a: Tensor, x: Tensor) -> Any:
    """A product of a matrix and a vector."""
    of_one_type(a, x)
    return a @ x


@operator("dot", "vdot")
def dot(out: Any, /, a: Tensor, b: Tensor) -> Any:
    """A product of vectors."""
    of_one_type(a, b)
    return (a * b).sum()


@operator("_trilinear")
def trilinear(
    out: Any, /, a: Tensor, b: Tensor, c: Tensor, expand1: Any, expand2: Any, expand3: Any, sumdim: Any, unroll_dim: int = 1
) -> Any:
    """The sum over axes `sumdim` of a product of three tensors, each repeated along axes that it lacks (`expand1` to `expand3`)."""
    of_one_type(a, b, c)
    total = a.ndim + len(expand1)
    axes = [[d for d in range(total) if d not in lacked] for lacked in (expand1, expand2, expand3)]
    kept = [d for d in range(total) if d not in sumdim]
    terms = ["".join(chr(97 + d) for d in found) for found in (*axes, kept)]
    return xp.einsum(f"{terms[0]},{terms[1]},{terms[2]}->{terms[3]}", wide(a), wide(b), wide(c))


@operator("addmm", "baddbmm", "addmv")
def addmm(out: Any, /, c: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta · c + alpha · a @ b; c is not read where beta is 0."""
    of_one_type(a, b, c)
    if b.ndim > 1:
        _ours(a)
    product = a @ b if alpha == 1 else wide(a @ b) * alpha
    return product if beta == 0 else product + (c if beta == 1 else c * beta)


def conv(
    x: Tensor, w: Tensor, b: Tensor | None, stride: Any, padding: Any, dilation: Any, transposed: bool, extra: Any, groups: int
) -> Any:
    """A convolution as ATen names its arguments. (Our windows do not read two neighbours of bfloat16 at once, as the instruction does.)"""
    _ours(x, w, b)
    n, alone = w.ndim - 2, groups == w.shape[0] if transposed else w.shape[1] == 1
    if not alone and any(k != 1 for k in w.shape[2:]) and _by_onednn(x, "avx512_bf16"):
        refuse("a convolution of bfloat16, which PyTorch computes by pairs (AVX512_BF16)")
    where = {"stride": spread(stride, n), "padding": spread(padding, n), "dilation": spread(dilation, n), "groups": groups}
    if transposed:
        return nn.conv_transpose(x, w, b, output_padding=spread(extra, n) if extra else (0,) * n, **where)
    return nn.conv(x, w, b, **where)


@operator("convolution")
def convolution(out: Any, /, x: Tensor, w: Tensor, b: Tensor | None, *how: Any) -> Any:
    """A convolution of one to three dimensions."""
    if x.ndim != w.ndim:
        refuse("a convolution without a batch")
    return conv(x, w, b, *how)


@operator("convolution_backward")
def convolution_backward(out: Any, /, grad: Tensor, x: Tensor, w: Tensor, bias_sizes: Any, *how: Any) -> Any:
    """The gradients of input, weight and bias, those that the last argument asks for."""
    *how_, mask = how
    _, pull = vjp(lambda x, w: conv(x, w, None, *how_), x, w)
    of_x, of_w = pull(grad)
    of_b = grad.sum(axis=(0, *range(2, grad.ndim))) if mask[2] else None
    return of_x if mask[0] else None, of_w if mask[1] else None, of_b


def _pool_sizes(x: Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> tuple[Any, ...]:
    """(kernel, stride, dilation, (before, after) of padding) of each dimension; `ceil_mode` pads more at the end."""
    n = len(kernel) if isinstance(kernel, (list, tuple)) and len(kernel) > 1 else max(1, x.ndim - 2)
    kernel, stride, padding, dilation = (spread(v, n) for v in (kernel, stride or kernel, padding, dilation))
    pads = []
    for k, s, p, d, size in zip(kernel, stride, padding, dilation, x.shape[x.ndim - n :], strict=True):
        reach, after = d * (k - 1) + 1, p
        if ceil_mode:
            count = -(-(size + 2 * p - reach) // s) + 1
            if (count - 1) * s >= size + p:
                count -= 1
            after = max(p, (count - 1) * s + reach - size - p)
        pads.append((p, after))
    return kernel, stride, dilation, tuple(pads)


def pooled(x: Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Any:
    """Maxima of windows."""
    kernel, stride, dilation, pads = _pool_sizes(x, kernel, stride, padding, dilation, ceil_mode)
    return nn.max_pool(x, kernel, stride=stride, padding=pads, dilation=dilation)


@operator("max_pool2d", "max_pool1d", "max_pool3d")
def max_pool(out: Any, /, x: Tensor, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Any:
    """Maxima of windows."""
    return pooled(x, kernel, stride, padding, dilation, ceil_mode)


def _windows(x: Tensor, sizes: tuple[Any, ...], fill: Any) -> Any:
    """The elements of each window as a last axis; `fill` in the padding. A view: nothing is copied."""
    kernel, stride, dilation, pads = sizes
    lead = x.ndim - len(kernel)
    padded = x.pad([(0, 0)] * lead + list(pads), fill) if any(p != (0, 0) for p in pads) else x
    made = windows(padded.node, layout("max_pool", padded.shape[lead:], kernel, stride, dilation, 0))
    return Tensor.of(made).reshape((*made.shape[: lead + len(kernel)], math.prod(kernel)))


@operator("max_pool2d_with_indices", "max_pool3d_with_indices")
def max_pool_with_indices(
    out: Any, /, x: Tensor, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Any:
    """Maxima of windows, and where in the last axes, taken as one, each lies."""
    n = max(len(spread(kernel, 1)), 2)
    sizes = _pool_sizes(x, spread(kernel, n), stride, padding, dilation, ceil_mode)
    if not x.dtype.is_float:
        refuse("places of the maxima of integers")
    above = x if not any(p != (0, 0) for p in sizes[3]) else x.maximum(float(torch.finfo(out[0].dtype).min))  # the padding is below
    places = _windows(above, sizes, -math.inf).argmax(axis=-1)
    inner = x.shape[x.ndim - n :]
    flat: Any = xp.zeros((), dtype="int64")
    for axis in range(n):
        kernels, strides, dilations, pads = sizes
        inside = places // math.prod(kernels[axis + 1 :]) % kernels[axis]
        own = [1] * n
        own[axis] = places.shape[x.ndim - n + axis]
        first = xp.arange(own[axis]).reshape(tuple(own)) * strides[axis] - pads[axis][0]
        flat = flat * inner[axis] + first + inside * dilations[axis]
    return pooled(x, kernel, stride, padding, dilation, ceil_mode), flat


@operator("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward")
def max_pool_backward(
    out: Any, /, grad: Tensor, x: Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, indices: Tensor
) -> Any:
    """Each gradient at the place of its maximum."""
    n = max(len(spread(kernel, 1)), 2)
    kernel, stride, padding = (spread(v, n) for v in (kernel, stride or kernel, padding))
    lead, inner = x.shape[: x.ndim - n], x.shape[x.ndim - n :]
    if kernel == stride and not any(padding) and all(a % k == 0 for a, k in zip(inner, kernel, strict=True)):
        for axis, k in enumerate(kernel):  # windows do not overlap: an element looks at its own
            grad, indices = (v.repeat(k, axis=len(lead) + axis) for v in (grad, indices))
        return xp.where(indices == xp.arange(math.prod(inner)).reshape(inner), grad, xp.zeros((), dtype=grad.dtype))
    flat = (*lead, math.prod(grad.shape[len(lead) :]))
    empty = xp.zeros((*lead, math.prod(inner)), dtype=grad.dtype)
    return empty.scatter_add(indices.reshape(flat), grad.reshape(flat), axis=-1).reshape(x.shape)


def averaged(x: Tensor, kernel: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool, divisor: Any) -> Any:
    """Means of windows."""
    kernel, stride, _, pads = _pool_sizes(x, kernel, stride, padding, 1, ceil_mode)
    uneven = any(before != after for before, after in pads)
    if uneven and count_include_pad and any(before for before, _ in pads):
        refuse("an average that counts padding but not what ceil_mode adds")
    found = nn.avg_pool(x, kernel, stride=stride, padding=pads, count_padding=(count_include_pad and not uneven) or divisor is not None)
    return found if divisor is None else found * (math.prod(kernel) / divisor)


@operator("avg_pool1d", "avg_pool2d", "avg_pool3d")
def avg_pool(
    out: Any, /, x: Tensor, kernel: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True,
    divisor_override: Any = None,
) -> Any:  # fmt: skip
    """Means of windows."""
    return averaged(x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)


@operator("avg_pool2d_backward", "avg_pool3d_backward")
def avg_pool_backward(out: Any, /, grad: Tensor, x: Tensor, *how: Any) -> Any:
    """The gradient of means of windows."""
    return vjp(lambda x: averaged(x, *how), x)[1](grad)[0]


def _shares(x: Tensor, axis: int, m: int) -> Any:
    """Sums of the m windows of an axis of x that adaptive pools cut it into: [i·n/m rounded down, (i + 1)·n/m rounded up)."""
    n, after = x.shape[axis], (1,) * (x.ndim - axis - 1)
    first, end = _bounds(n, m)
    steps = max(-(-(i + 1) * n // m) - i * n // m for i in range(m))
    at = first.reshape((m, 1)) + xp.arange(steps)
    taken = x[(*(slice(None),) * axis, xp.minimum(at, n - 1))]
    return xp.where((at < end.reshape((m, 1))).reshape((m, steps, *after)), taken, 0).sum(axis=axis + 1)


def _bounds(n: int, m: int) -> tuple[Any, Any]:
    """Where the windows of an axis of n elements begin and end."""
    i = xp.arange(m)
    return i * n // m, ((i + 1) * n + m - 1) // m


def _lengths(inner: Any, size: Any) -> Any:
    """How many elements are in each window."""
    found: Any = 1
    for at, (n, m) in enumerate(zip(inner, size, strict=True)):
        first, end = _bounds(n, m)
        found = found * (end - first).reshape((m,) + (1,) * (len(size) - at - 1))
    return found


def _adaptive(inner: Any, size: Any) -> bool:
    """Whether windows are of several lengths. Symbolic sizes are left to PyTorch."""
    if any(not isinstance(n, int) for n in (*inner, *size)):
        refuse("adaptive windows of symbolic sizes")
    return any(n % m for n, m in zip(inner, size, strict=True) if m)


@operator("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d")
def adaptive_avg_pool(out: Any, /, x: Tensor, size: Any) -> Any:
    """Means of the windows that an axis is cut into, one axis after the other where they are of several lengths."""
    inner = x.shape[x.ndim - len(size) :]
    if not _adaptive(inner, size):
        return nn.avg_pool(x, tuple(n // m for n, m in zip(inner, size, strict=True)))
    sums = wide(x)
    for axis, m in enumerate(size, x.ndim - len(size)):
        sums = _shares(sums, axis, m)
    return sums / _lengths(inner, size).astype(sums.dtype)


operators(
    {
        "_adaptive_avg_pool2d_backward": lambda out, /, grad, x: _spread_means(out, grad, x, 2),
        "_adaptive_avg_pool3d_backward": lambda out, /, grad, x: _spread_means(out, grad, x, 3),
    }
)


def _spread_means(out: Any, grad: Tensor, x: Tensor, dimensions: int) -> Any:
    """Each element's shares of `grad`. The windows that it is in are those of the axes with their lengths exchanged."""
    first = x.ndim - dimensions
    inner, size = x.shape[first:], grad.shape[first:]
    if not _adaptive(inner, size):
        return vjp(lambda x: adaptive_avg_pool(out, x, size), x)[1](grad)[0]
    sums = wide(grad)
    sums = sums / _lengths(inner, size).astype(sums.dtype)
    for axis, n in enumerate(inner, first):
        sums = _shares(sums, axis, n)
    return sums


def _scores(q: Tensor, k: Tensor, is_causal: bool, attn_mask: Any, scale: float | None) -> Any:
    scores = (q @ k.mT) * (scale if scale is not None else 1 / math.sqrt(q.shape[-1]))
    if is_causal:
        scores = xp.where(xp.arange(q.shape[-2]).reshape((-1, 1)) >= xp.arange(k.shape[-2]), scores, -math.inf)
    if attn_mask is not None:
        scores = xp.where(attn_mask, scores, -math.inf) if attn_mask.dtype.name == "bool" else scores + attn_mask
    return scores


def _weights(scores: Tensor, masked: bool) -> Any:
    """softmax(scores); 0 in rows of which a mask hides everything."""
    weights = scores.softmax(-1)
    return xp.where(scores.max(axis=-1, keepdims=True) == -math.inf, 0.0, weights) if masked else weights


@operator("_scaled_dot_product_flash_attention_for_cpu")
def attention(
    out: Any, /, q: Tensor, k: Tensor, v: Tensor, dropout_p: float = 0.0, is_causal: bool = False, *, attn_mask: Any = None,
    scale: float | None = None,
) -> Any:  # fmt: skip
    """Attention and the logarithm of its denominators."""
    _ours(q, k, v)
    if dropout_p:
        refuse("attention with dropout")
    scores = _scores(q, k, is_causal, attn_mask, scale)
    return as_result(_weights(scores, attn_mask is not None) @ v, out[0]), as_result(scores, out[1]).logsumexp(axis=-1)


@operator("_scaled_dot_product_flash_attention_for_cpu_backward")
def attention_backward(
    out: Any, /, grad: Tensor, q: Tensor, k: Tensor, v: Tensor, result: Tensor, logsumexp: Tensor, dropout_p: float, is_causal: bool,
    *, attn_mask: Any = None, scale: float | None = None,
) -> Any:  # fmt: skip
    """The gradients of queries, keys and values (Dao et al., "FlashAttention", 2022): the weights are computed again from the logarithms
    of their denominators, which are −∞ in rows of which a mask hides everything."""
    _ours(q, k, v)
    if dropout_p:
        refuse("attention with dropout")
    denominators = logsumexp.reshape((*q.shape[:-1], 1))
    if attn_mask is not None:
        denominators = xp.where(denominators == -math.inf, 0.0, denominators)
    weights = (_scores(q, k, is_causal, attn_mask, scale) - denominators).exp()
    rows = (grad * result).sum(axis=-1, keepdims=True)
    of_scores = weights * (grad @ v.mT - rows) * (scale if scale is not None else 1 / math.sqrt(q.shape[-1]))
    return of_scores @ k, of_scores.mT @ q, weights.mT @ grad
