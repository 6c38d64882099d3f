"""Losses. `reduction` is "mean", "sum" or "none"."""

from __future__ import annotations

from ...ir.dtypes import float16, int64
from ...ir.errors import UsageError
from ..graph.node import TensorNode
from ..graph.primitives import cast, const, elementwise, expand, reduce, reshape, stop_gradient, with_gradient
from .activations import log_softmax
from .creation import along
from .elementwise import Operand, choose, exp, floats, log, log1p, to_floats
from .indexing import take_along_axis, within
from .movement import dims, expand_dims
from .reduction import mean, reduced, sum

LEAST = -100.0
"""The least logarithm in `bce_loss`."""


def _total(x: TensorNode, reduction: str) -> TensorNode:
    if reduction == "none":
        return x
    if reduction not in ("mean", "sum"):
        raise UsageError(f"a loss is reduced by 'mean', 'sum' or 'none', not {reduction!r}")
    return mean(x) if reduction == "mean" else sum(x)


def mse_loss(x: TensorNode, target: Operand, /, *, reduction: str = "mean") -> TensorNode:
    """(x − target)²."""
    a, b = floats("mse_loss", x, target)
    away = a - b
    return _total(away * away, reduction)


def l1_loss(x: TensorNode, target: Operand, /, *, reduction: str = "mean") -> TensorNode:
    """|x − target|."""
    a, b = floats("l1_loss", x, target)
    return _total(abs(a - b), reduction)


def huber_loss(x: TensorNode, target: Operand, /, *, delta: float = 1.0, reduction: str = "mean") -> TensorNode:
    """Half the square up to `delta`, linear beyond."""
    a, b = floats("huber_loss", x, target)
    size = abs(a - b)
    near = size * size * 0.5
    far = (size - 0.5 * delta) * delta
    return _total(choose(size <= delta, near, far), reduction)


def bce_loss(p: TensorNode, target: Operand, /, *, reduction: str = "mean") -> TensorNode:
    """−target·ln p − (1 − target)·ln(1 − p); logarithms are −100 at least."""
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
    return _total(head + tail, reduction)


def kl_divergence(log_p: TensorNode, target: TensorNode, /, *, reduction: str = "mean") -> TensorNode:
    """target·(ln target − log_p), 0 where the target is 0."""
    a, t = floats("kl_divergence", log_p, target)
    each = t * (log(t) - a)
    return _total(choose(t.eq(0), 0.0, each), reduction)


def nll_loss(
    log_p: TensorNode, target: TensorNode, /, *, axis: int = 1, ignore_index: int | None = None, reduction: str = "mean"
) -> TensorNode:
    """−log_p at the target's class. log_p: classes along `axis`; target: integers of the other dimensions. What is
    `ignore_index` counts neither in the loss nor in the mean. Raises OutOfRangeError for another target that is no class."""
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
    """−Σ target·log_softmax(logits) along `axis`. `target`: classes as integers, or probabilities in the shape of the logits. What is
    `ignore_index` counts neither in the loss nor in the mean. Raises OutOfRangeError for another target that is no class."""
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
    """Integers as rows of `classes` int64 elements with a 1 at their place: a comparison, no array. Raises OutOfRangeError for
    integers that are no place."""
    shape, x = (*x.shape, classes), within("label", "one_hot", x, len(x.shape), classes)
    wide = expand(reshape(cast(x, int64), (*x.shape, 1)), shape)
    hit = wide.eq(along(classes, shape, len(shape) - 1))
    return choose(hit, const(1, int64, shape), 0)
