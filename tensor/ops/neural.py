"""Functions of neural networks as plain expressions, which fuse with what is before and behind them: activations, normalisations of rows
and channels, and losses. The `reduction` of a loss is "mean", "sum" or "none"."""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import prod

from ...ir.dtypes import float16, int64
from ...ir.errors import UsageError
from ..graph.nodes import TensorNode
from ..graph.primitives import cast, const, elementwise, expand, reduce, reshape, stop_gradient, with_gradient
from ..graph.promotion import promote
from .creation import along
from .elementwise import Operand, choose, clip, erf, exp, expm1, floats, length, log, log1p, rsqrt, sigmoid, tanh, to_floats
from .indexing import take_along_axis, within
from .movement import dims, expand_dims, keep_dims
from .reduction import Axis, mean, reduced, sum


# activations ------------------------------------------------------------------------------------------------------
def relu(x: TensorNode, /) -> TensorNode:
    """max(x, 0)."""
    return with_gradient(elementwise("max", x, 0), (x,), _relu_gradient)


def _relu_gradient(dy: TensorNode, y: TensorNode, x: TensorNode) -> tuple[TensorNode]:
    return (choose(x <= 0, 0.0, dy),)


def leaky_relu(x: TensorNode, /, slope: float = 0.01) -> TensorNode:
    """x above 0, slope·x below."""
    x = to_floats(x)
    return choose(x > 0, x, x * slope)


def elu(x: TensorNode, /, alpha: float = 1.0) -> TensorNode:
    """x above 0, alpha·(eˣ − 1) below."""
    x = to_floats(x)
    above = x > 0.0
    return choose(above, x, expm1(choose(above, 0.0, x)) * alpha)


def silu(x: TensorNode, /) -> TensorNode:
    """x · sigmoid(x)."""
    return to_floats(x) * sigmoid(x)


def softplus(x: TensorNode, /) -> TensorNode:
    """ln(1 + eˣ), without overflow."""
    x = to_floats(x)
    away = exp(-abs(x))
    return with_gradient(elementwise("max", x, 0.0) + log1p(away), (x,), _softplus_gradient)


def _softplus_gradient(dy: TensorNode, y: TensorNode, x: TensorNode) -> tuple[TensorNode]:
    return (dy * sigmoid(x),)


def mish(x: TensorNode, /) -> TensorNode:
    """x · tanh(softplus(x))."""
    return to_floats(x) * tanh(softplus(x))


def softsign(x: TensorNode, /) -> TensorNode:
    """x / (1 + |x|)."""
    x = to_floats(x)
    return x / (1.0 + abs(x))


def hardswish(x: TensorNode, /) -> TensorNode:
    """x · clip(x + 3, 0, 6) / 6."""
    x = to_floats(x)
    gate = clip(x + 3.0, 0.0, 6.0)
    return with_gradient(x * gate * (1 / 6), (x,), _hardswish_gradient)


def _hardswish_gradient(dy: TensorNode, y: TensorNode, x: TensorNode) -> tuple[TensorNode]:
    slope = x * (1 / 3) + 0.5
    slope = choose(x >= 3.0, 1.0, choose(x <= -3.0, 0.0, slope))
    return (dy * slope,)


def gelu(x: TensorNode, /, approximate: str = "none") -> TensorNode:
    """x·Φ(x), by the error function, or with approximate="tanh" by Hendrycks and Gimpel's formula (arXiv 1606.08415)."""
    x = to_floats(x)
    half = x * 0.5
    if approximate == "none":
        inner = erf(x * (1 / math.sqrt(2.0)))
    elif approximate == "tanh":
        cube = x * x * x
        inner = tanh((x + cube * 0.044715) * math.sqrt(2 / math.pi))
    else:
        raise UsageError(f"gelu: approximate is 'none' or 'tanh', not {approximate!r}")
    return half * (1.0 + inner)


def softmax(x: TensorNode, axis: Axis = -1) -> TensorNode:
    """eˣ · (1 / Σ eˣ) along dimensions, in the shape of `x`. The largest element is subtracted first, so nothing overflows."""
    far, over = _from_top(x, axis, "softmax")
    e = exp(far)
    total = reduced("add", e, over, False, "softmax")
    inverse = keep_dims(1.0 / total, e.shape, over)
    return e * expand(inverse, e.shape)


def log_softmax(x: TensorNode, axis: Axis = -1) -> TensorNode:
    """x − ln Σ eˣ along dimensions, in the shape of `x`."""
    far, over = _from_top(x, axis, "log_softmax")
    total = log(reduced("add", exp(far), over, True, "log_softmax"))
    return far - expand(total, far.shape)


def _from_top(x: TensorNode, axis: Axis, name: str) -> tuple[TensorNode, tuple[int, ...]]:
    x = to_floats(x)
    over = dims(x, axis, name)
    if any(x.shape[d] == 0 for d in over):
        return x, over
    top = stop_gradient(keep_dims(reduce("max", x, over), x.shape, over))  # what is taken from all of a row changes nothing
    return x - expand(top, x.shape), over


# losses -----------------------------------------------------------------------------------------------------------
LEAST = -100.0
"""The least logarithm in `bce_loss`."""


def _total(x: TensorNode, reduction: str) -> TensorNode:
    if reduction == "none":
        return x
    if reduction not in ("mean", "sum"):
        raise UsageError(f"a loss is reduced by 'mean', 'sum' or 'none', not {reduction!r}")
    return mean(x) if reduction == "mean" else sum(x)


def mse_loss(x: TensorNode, target: Operand, /, *, reduction: str = "mean") -> TensorNode:
    """(x − target)², of shapes that broadcast."""
    a, b = floats("mse_loss", x, target)
    away = a - b
    return _total(away * away, reduction)


def l1_loss(x: TensorNode, target: Operand, /, *, reduction: str = "mean") -> TensorNode:
    """|x − target|, of shapes that broadcast."""
    a, b = floats("l1_loss", x, target)
    return _total(abs(a - b), reduction)


def huber_loss(x: TensorNode, target: Operand, /, *, delta: float = 1.0, reduction: str = "mean") -> TensorNode:
    """Half the square of x − target up to `delta`, linear beyond."""
    a, b = floats("huber_loss", x, target)
    away = a - b
    size = abs(away)
    near = away * away * 0.5
    far = (size - 0.5 * delta) * delta
    return _total(choose(size < delta, near, far), reduction)


def bce_loss(p: TensorNode, target: Operand, /, *, reduction: str = "mean") -> TensorNode:
    """−target·ln p − (1 − target)·ln(1 − p) of probabilities p. A logarithm counts as −100 at least."""
    a, t = floats("bce_loss", p, target)
    yes = elementwise("max", log(a), LEAST)
    no = elementwise("max", log1p(-a), LEAST)
    both = t * yes + (1.0 - t) * no
    return _total(with_gradient(-both, (a, t), _bce_gradient), reduction)


def _bce_gradient(dy: TensorNode, y: TensorNode, a: TensorNode, t: TensorNode) -> tuple[TensorNode, TensorNode]:
    spread = elementwise("max", a * (1.0 - a), 1e-12 if a.dtype is not float16 else 2.0**-24)
    yes = elementwise("max", log(a), LEAST)
    no = elementwise("max", log1p(-a), LEAST)
    slope = (a - t) / spread
    return dy * slope, dy * (no - yes)


def bce_with_logits(x: TensorNode, target: Operand, /, *, reduction: str = "mean") -> TensorNode:
    """`bce_loss` of sigmoid(x), without overflow: max(x, 0) − x·target + ln(1 + e^−|x|)."""
    a, t = floats("bce_with_logits", x, target)
    tail = log1p(exp(-abs(a)))
    head = elementwise("max", a, 0.0) - a * t
    return _total(with_gradient(head + tail, (a, t), _logits_gradient), reduction)


def _logits_gradient(dy: TensorNode, y: TensorNode, a: TensorNode, t: TensorNode) -> tuple[TensorNode, TensorNode]:
    return dy * (sigmoid(a) - t), -(dy * a)


def kl_divergence(log_p: TensorNode, target: TensorNode, /, *, reduction: str = "mean") -> TensorNode:
    """target·(ln target − log_p), and 0 where the target is 0, of shapes that broadcast."""
    a, t = floats("kl_divergence", log_p, target)
    each = t * (log(t) - a)
    return _total(choose(t.eq(0), 0.0, each), reduction)


def nll_loss(
    log_p: TensorNode, target: TensorNode, /, *, axis: int = 1, ignore_index: int | None = None, reduction: str = "mean"
) -> TensorNode:
    """−log_p at the target's class. `log_p` has classes along `axis`; `target` has integers in the shape of the other dimensions. A target
    of `ignore_index` counts neither in the loss nor in the mean. Raises OutOfRangeError for any other target that is no class."""
    (d,) = dims(log_p, axis if len(log_p.shape) > 1 else 0, "nll_loss")
    each = -_at_target("nll_loss", log_p, target, d, ignore_index)
    return _counted(each, target, ignore_index, reduction)


def _at_target(name: str, x: TensorNode, target: TensorNode, d: int, ignore: int | None) -> TensorNode:
    """The elements of `x` at the targets' classes; where they are ignored, any."""
    rest = tuple(n for i, n in enumerate(x.shape) if i != d)
    if target.shape != rest or not target.dtype.is_int:
        raise UsageError(f"{name}: {target.dtype} targets of {list(target.shape)} for {list(x.shape)}: integers of {list(rest)} are needed")
    place = target if ignore is None else choose(target.eq(ignore), 0, target)
    place = within("label", name, place, d, x.shape[d])
    return reshape(take_along_axis(x, expand_dims(place, axis=d), axis=d), target.shape)


def _counted(each: TensorNode, target: TensorNode, ignore: int | None, reduction: str) -> TensorNode:
    """The losses of classes, without those that are ignored."""
    if ignore is None:
        return _total(each, reduction)
    counts = target.ne(ignore)
    each = choose(counts, each, 0.0)
    if reduction != "mean":
        return _total(each, reduction)
    return sum(each) / cast(sum(cast(counts, int64)), each.dtype)


def cross_entropy(
    logits: TensorNode, target: TensorNode, /, *, axis: int = 1, ignore_index: int | None = None, label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> TensorNode:  # fmt: skip
    """−Σ target·log_softmax(logits) along `axis`. `target` has classes as integers in the shape of the other dimensions, or probabilities
    in the shape of the logits. A target of `ignore_index` counts neither in the loss nor in the mean. Raises OutOfRangeError for any other
    target that is no class."""
    (d,) = dims(logits, axis if len(logits.shape) > 1 else 0, "cross_entropy")
    log_p = log_softmax(logits, d)
    if target.dtype.is_int:
        if not label_smoothing and logits.shape[d]:
            return _counted(_logsumexp_less_target(logits, target, d, ignore_index), target, ignore_index, reduction)
        hard = nll_loss(log_p, target, axis=d, ignore_index=ignore_index, reduction=reduction)
        if not label_smoothing:
            return hard
        return _smoothed(hard, log_p, target, d, label_smoothing, (ignore_index, reduction))
    if target.shape != logits.shape:
        raise UsageError(f"cross_entropy of {list(logits.shape)}: probabilities of {list(target.shape)} must have the same shape")
    goal = cast(target, log_p.dtype)
    if label_smoothing:
        goal = goal * (1 - label_smoothing) + label_smoothing / logits.shape[d]
    each = -reduce("add", goal * log_p, (d,))
    return _total(each, reduction)


def _logsumexp_less_target(logits: TensorNode, target: TensorNode, d: int, ignore: int | None) -> TensorNode:
    """ln Σ eˣ − x[target], by the largest element: −log_softmax at the target with one pass over what is summed."""
    x = to_floats(logits)
    top = stop_gradient(reduced("max", x, d, True, "cross_entropy"))
    total = reduced("add", exp(x - expand(top, x.shape)), d, False, "cross_entropy")
    picked = _at_target("cross_entropy", x, target, d, ignore)
    return log(total) + (reshape(top, total.shape) - picked)


def _smoothed(hard: TensorNode, log_p: TensorNode, target: TensorNode, d: int, smoothing: float, how: tuple[int | None, str]) -> TensorNode:
    """A part of the target is spread over all classes."""
    ignore, reduction = how
    each = -(reduce("add", log_p, (d,)) * (1 / log_p.shape[d]))
    if ignore is None:
        soft = _total(each, reduction)
    else:
        counts = target.ne(ignore)
        each = choose(counts, each, 0.0)
        soft = _total(each, reduction if reduction == "none" else "sum")
        if reduction == "mean":
            soft = soft / cast(sum(cast(counts, int64)), soft.dtype)
    return hard * (1 - smoothing) + soft * smoothing


def one_hot(x: TensorNode, classes: int, /) -> TensorNode:
    """Integers (…) as int64 (…, classes) with a 1 at each integer's place: a comparison, no array. Raises OutOfRangeError for
    integers that are no place."""
    shape, x = (*x.shape, classes), within("label", "one_hot", x, len(x.shape), classes)
    wide = expand(reshape(cast(x, int64), (*x.shape, 1)), shape)
    hit = wide.eq(along(classes, shape, len(shape) - 1))
    return choose(hit, const(1, int64, shape), 0)


# normalisations ---------------------------------------------------------------------------------------------------
def layer_norm(
    x: TensorNode, weight: TensorNode | None = None, bias: TensorNode | None = None, /, *, axis: int | Sequence[int] = -1,
    eps: float = 1e-5,
) -> TensorNode:  # fmt: skip
    """(x − mean) / √(variance + eps) · weight + bias, with mean and variance over dimensions; weight and bias broadcast to `x` (arXiv
    1607.06450). Raises UsageError where they do not."""
    return _scaled("layer_norm", _standard(x, axis, eps), weight, bias)


def rms_norm(x: TensorNode, weight: TensorNode | None = None, /, *, axis: int | Sequence[int] = -1, eps: float = 1e-6) -> TensorNode:
    """x / √(mean of x² + eps) · weight, with the mean over dimensions; the weight broadcasts to `x` (arXiv 1910.07467)."""
    x = to_floats(x)
    size = mean(x * x, axis, True)
    out = x * expand(rsqrt(size + eps), x.shape)
    return _scaled("rms_norm", out, weight, None)


def group_norm(
    x: TensorNode, groups: int, weight: TensorNode | None = None, bias: TensorNode | None = None, /, *, eps: float = 1e-5
) -> TensorNode:
    """`layer_norm` of x (batch, channels, …) over groups of channels and all dimensions behind them; weight and bias (channels) (arXiv
    1803.08494)."""
    if len(x.shape) < 2 or groups < 1 or x.shape[1] % groups:
        raise UsageError(f"group_norm of {list(x.shape)}: {groups} groups do not divide its channels")
    rows = reshape(x, (x.shape[0], groups, x.shape[1] // groups * prod(x.shape[2:])))
    out = reshape(_standard(rows, -1, eps), x.shape)
    return _scaled("group_norm", out, _channels(weight, x), _channels(bias, x))


def instance_norm(x: TensorNode, weight: TensorNode | None = None, bias: TensorNode | None = None, /, *, eps: float = 1e-5) -> TensorNode:
    """`group_norm` with a group for each channel."""
    return group_norm(x, x.shape[1] if len(x.shape) > 1 else 0, weight, bias, eps=eps)


def batch_norm(
    x: TensorNode, mean: TensorNode, variance: TensorNode, weight: TensorNode | None = None, bias: TensorNode | None = None, /, *,
    eps: float = 1e-5,
) -> TensorNode:  # fmt: skip
    """(x − mean) / √(variance + eps) · weight + bias of x (batch, channels, …), where each of the four is (channels)."""
    x = to_floats(x)
    inverse = rsqrt(variance + eps)
    away = x - expand(cast(_wide(mean, x), x.dtype), x.shape)
    out = away * expand(cast(_wide(inverse, x), x.dtype), x.shape)
    return _scaled("batch_norm", out, _channels(weight, x), _channels(bias, x))


def batch_statistics(x: TensorNode, /) -> tuple[TensorNode, TensorNode]:
    """(mean, variance), each (channels), of x (batch, channels, …) over all other dimensions: what training gives to `batch_norm`."""
    x = to_floats(x)
    over = (0, *range(2, len(x.shape)))
    middle = mean(x, over, True)
    away = x - expand(middle, x.shape)
    return reshape(middle, (x.shape[1],)), mean(away * away, over)


def _standard(x: TensorNode, axis: int | Sequence[int], eps: float) -> TensorNode:
    x = to_floats(x)
    away = x - expand(mean(x, axis, True), x.shape)
    size = mean(away * away, axis, True)
    return away * expand(rsqrt(size + eps), x.shape)


def _wide(v: TensorNode, x: TensorNode) -> TensorNode:
    if v.shape != (x.shape[1],):
        raise UsageError(f"a vector of {list(v.shape)} for the channels of {list(x.shape)}")
    return reshape(v, (1, v.shape[0], *(1 for _ in x.shape[2:])))


def _channels(v: TensorNode | None, x: TensorNode) -> TensorNode | None:
    return None if v is None else _wide(v, x)


def _scaled(name: str, x: TensorNode, weight: TensorNode | None, bias: TensorNode | None) -> TensorNode:
    for op, v in (("mul", weight), ("add", bias)):
        if v is None:
            continue
        lead = len(x.shape) - len(v.shape)
        if lead < 0 or any(n not in (1, m) for n, m in zip(v.shape, x.shape[lead:])):
            raise UsageError(f"{name} of {list(x.shape)}: a weight or bias of {list(v.shape)} does not fit")
        kind = promote(x.dtype, v.dtype)
        x = elementwise(op, cast(x, kind), expand(cast(v, kind), x.shape))
    return x


def normalize(x: TensorNode, /, *, axis: int | Sequence[int] = -1, eps: float = 1e-12) -> TensorNode:
    """x divided by its Euclidean length along dimensions. A length below `eps` counts as `eps`."""
    x = to_floats(x)
    size = length(reduced("add", x * x, axis, True, "normalize"))
    return x / expand(elementwise("max", size, eps), x.shape)
