"""Losses. `reduction` is "mean", "sum" or "none"."""

from __future__ import annotations

from ...ir.dtypes import float16, int64
from ...ir.errors import UsageError
from ..graph.node import TensorNode
from ..graph.primitives import cast, const, elementwise, expand, reduce, reshape, stop_gradient, with_gradient
from ..graph.promotion import to_float
from .activations import log_softmax
from .creation import along
from .elementary import times
from .elementwise import Operand, choose, floats, like
from .indexing import take_along_axis, within
from .movement import dims, expand_dims
from .reduction import mean, reduced, sum


def _total(x: TensorNode, reduction: str) -> TensorNode:
    if reduction == "none":
        return x
    if reduction not in ("mean", "sum"):
        raise UsageError(f"a loss is reduced by 'mean', 'sum' or 'none', not {reduction!r}")
    return mean(x) if reduction == "mean" else sum(x)


def mse_loss(x: TensorNode, target: Operand, /, *, reduction: str = "mean") -> TensorNode:
    """(x − target)²."""
    a, b = floats("mse_loss", x, target)
    away = elementwise("sub", a, b)
    return _total(elementwise("mul", away, away), reduction)


def l1_loss(x: TensorNode, target: Operand, /, *, reduction: str = "mean") -> TensorNode:
    """|x − target|."""
    a, b = floats("l1_loss", x, target)
    return _total(elementwise("abs", elementwise("sub", a, b)), reduction)


def huber_loss(x: TensorNode, target: Operand, /, *, delta: float = 1.0, reduction: str = "mean") -> TensorNode:
    """Half the square up to `delta`, linear beyond."""
    a, b = floats("huber_loss", x, target)
    size = elementwise("abs", elementwise("sub", a, b))
    near = times(elementwise("mul", size, size), 0.5)
    far = times(elementwise("sub", size, like(size, 0.5 * delta)), delta)
    return _total(choose(elementwise("le", size, like(size, delta)), near, far), reduction)


def bce_loss(p: TensorNode, target: Operand, /, *, reduction: str = "mean") -> TensorNode:
    """−target·ln p − (1 − target)·ln(1 − p); logarithms are −100 at least."""
    a, t = floats("bce_loss", p, target)
    one, least = like(a, 1.0), like(a, -100.0)
    yes = elementwise("max", elementwise("log", a), least)
    no = elementwise("max", elementwise("log1p", elementwise("neg", a)), least)
    both = elementwise("add", elementwise("mul", t, yes), elementwise("mul", elementwise("sub", one, t), no))
    return _total(with_gradient(elementwise("neg", both), (a, t), _bce_gradient), reduction)


def _bce_gradient(dy: TensorNode, y: TensorNode, a: TensorNode, t: TensorNode) -> tuple[TensorNode, TensorNode]:
    least, eps = like(a, -100.0), 1e-12 if a.dtype is not float16 else 2.0**-24
    spread = elementwise("max", elementwise("mul", a, elementwise("sub", like(a, 1.0), a)), like(a, eps))
    yes = elementwise("max", elementwise("log", a), least)
    no = elementwise("max", elementwise("log1p", elementwise("neg", a)), least)
    slope = elementwise("div", elementwise("sub", a, t), spread)
    return elementwise("mul", dy, slope), elementwise("mul", dy, elementwise("sub", no, yes))


def bce_with_logits(x: TensorNode, target: Operand, /, *, reduction: str = "mean") -> TensorNode:
    """`bce_loss` of sigmoid(x), without overflow: max(x, 0) − x·target + ln(1 + e^−|x|)."""
    a, t = floats("bce_with_logits", x, target)
    tail = elementwise("log1p", elementwise("exp", elementwise("neg", elementwise("abs", a))))
    head = elementwise("sub", elementwise("max", a, like(a, 0.0)), elementwise("mul", a, t))
    return _total(elementwise("add", head, tail), reduction)


def kl_divergence(log_p: TensorNode, target: TensorNode, /, *, reduction: str = "mean") -> TensorNode:
    """target·(ln target − log_p), 0 where the target is 0."""
    a, t = floats("kl_divergence", log_p, target)
    each = elementwise("mul", t, elementwise("sub", elementwise("log", t), a))
    return _total(choose(elementwise("eq", t, like(t, 0)), 0.0, each), reduction)


def nll_loss(
    log_p: TensorNode, target: TensorNode, /, *, axis: int = 1, ignore_index: int | None = None, reduction: str = "mean"
) -> TensorNode:
    """−log_p at the target's class. log_p: classes along `axis`; target: integers of the other dimensions. What is
    `ignore_index` counts neither in the loss nor in the mean. Raises OutOfRangeError for another target that is no class."""
    (d,) = dims(log_p, axis if len(log_p.shape) > 1 else 0, "nll_loss")
    each = elementwise("neg", _at_target("nll_loss", log_p, target, d, ignore_index))
    return _counted(each, target, ignore_index, reduction)


def _at_target(name: str, x: TensorNode, target: TensorNode, d: int, ignore: int | None) -> TensorNode:
    """The elements of `x` at the targets' classes; where they are ignored, any."""
    rest = tuple(n for i, n in enumerate(x.shape) if i != d)
    if target.shape != rest or not target.dtype.is_int:
        raise UsageError(f"{name}: {target.dtype} targets of {list(target.shape)} for {list(x.shape)}: integers of {list(rest)} are needed")
    place = target if ignore is None else choose(elementwise("eq", target, like(target, ignore)), 0, target)
    place = within("label", name, place, d, x.shape[d])
    return reshape(take_along_axis(x, expand_dims(place, axis=d), axis=d), target.shape)


def _counted(each: TensorNode, target: TensorNode, ignore: int | None, reduction: str) -> TensorNode:
    """The losses of classes, without those that are ignored."""
    if ignore is None:
        return _total(each, reduction)
    counts = elementwise("ne", target, like(target, ignore))
    each = choose(counts, each, 0.0)
    if reduction != "mean":
        return _total(each, reduction)
    return elementwise("div", sum(each), cast(sum(cast(counts, int64)), each.dtype))


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
        goal = elementwise("add", times(goal, 1 - label_smoothing), like(goal, label_smoothing / logits.shape[d]))
    each = elementwise("neg", reduce("add", elementwise("mul", goal, log_p), (d,)))
    return _total(each, reduction)


def _logsumexp_less_target(logits: TensorNode, target: TensorNode, d: int, ignore: int | None) -> TensorNode:
    """ln Σ eˣ − x[target], by the largest element: −log_softmax at the target with one pass over what is summed."""
    x = cast(logits, to_float(logits.dtype))
    top = stop_gradient(reduced("max", x, d, True, "cross_entropy"))
    total = reduced("add", elementwise("exp", elementwise("sub", x, expand(top, x.shape))), d, False, "cross_entropy")
    picked = _at_target("cross_entropy", x, target, d, ignore)
    return elementwise("add", elementwise("log", total), elementwise("sub", reshape(top, total.shape), picked))


def _smoothed(hard: TensorNode, log_p: TensorNode, target: TensorNode, d: int, smoothing: float, how: tuple[int | None, str]) -> TensorNode:
    """A part of the target is spread over all classes."""
    ignore, reduction = how
    each = elementwise("neg", times(reduce("add", log_p, (d,)), 1 / log_p.shape[d]))
    if ignore is None:
        soft = _total(each, reduction)
    else:
        counts = elementwise("ne", target, like(target, ignore))
        each = choose(counts, each, 0.0)
        soft = _total(each, reduction if reduction == "none" else "sum")
        if reduction == "mean":
            soft = elementwise("div", soft, cast(sum(cast(counts, int64)), soft.dtype))
    return elementwise("add", times(hard, 1 - smoothing), times(soft, smoothing))


def one_hot(x: TensorNode, classes: int, /) -> TensorNode:
    """Integers as rows of `classes` int64 elements with a 1 at their place: a comparison, no array. Raises OutOfRangeError for
    integers that are no place."""
    shape, x = (*x.shape, classes), within("label", "one_hot", x, len(x.shape), classes)
    wide = expand(reshape(cast(x, int64), (*x.shape, 1)), shape)
    hit = elementwise("eq", wide, along(classes, shape, len(shape) - 1))
    return choose(hit, const(1, int64, shape), 0)
