"""Activations and softmax, as plain expressions: they fuse with what is before and behind them."""

from __future__ import annotations

import math

from ...ir.errors import UsageError
from ..graph.node import TensorNode
from ..graph.primitives import elementwise, expand, reduce, stop_gradient, with_gradient
from .elementwise import choose, clip, erf, exp, expm1, log, log1p, tanh, to_floats
from .movement import dims, kept
from .reduction import Axis, reduced


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


def sigmoid(x: TensorNode, /) -> TensorNode:
    """1 / (1 + e⁻ˣ)."""
    x = to_floats(x)
    return with_gradient(1.0 / (1.0 + exp(-x)), (x,), _sigmoid_gradient)


def _sigmoid_gradient(dy: TensorNode, y: TensorNode, x: TensorNode) -> tuple[TensorNode]:
    return (dy * (y * (1.0 - y)),)


def silu(x: TensorNode, /) -> TensorNode:
    """x · sigmoid(x)."""
    return to_floats(x) * sigmoid(x)


def softplus(x: TensorNode, /) -> TensorNode:
    """ln(1 + eˣ), without overflow."""
    x = to_floats(x)
    away = exp(-abs(x))
    return elementwise("max", x, 0.0) + log1p(away)


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
    """eˣ · (1 / Σ eˣ) along dimensions, by their largest element: one division a row."""
    far, over = _from_top(x, axis, "softmax")
    e = exp(far)
    total = reduced("add", e, over, False, "softmax")
    inverse = kept(1.0 / total, e.shape, over)
    return e * expand(inverse, e.shape)


def log_softmax(x: TensorNode, axis: Axis = -1) -> TensorNode:
    """x − ln Σ eˣ along dimensions."""
    far, over = _from_top(x, axis, "log_softmax")
    total = log(reduced("add", exp(far), over, True, "log_softmax"))
    return far - expand(total, far.shape)


def _from_top(x: TensorNode, axis: Axis, name: str) -> tuple[TensorNode, tuple[int, ...]]:
    x = to_floats(x)
    over = dims(x, axis, name)
    if any(x.shape[d] == 0 for d in over):
        return x, over
    top = stop_gradient(kept(reduce("max", x, over), x.shape, over))  # what is taken from all of a row changes nothing
    return x - expand(top, x.shape), over
