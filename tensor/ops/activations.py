"""Activations and softmax, as plain expressions: they fuse with what is before and behind them."""

from __future__ import annotations

from math import pi, sqrt

from ...ir.errors import UsageError
from ..graph.node import TensorNode
from ..graph.primitives import cast, elementwise, expand, reduce, stop_gradient, with_gradient
from ..graph.promotion import to_float
from .arithmetic import clip
from .elementary import times
from .elementwise import choose, like
from .movement import dims, kept
from .reduction import Axis, reduced


def _float(x: TensorNode) -> TensorNode:
    return cast(x, to_float(x.dtype))


def relu(x: TensorNode, /) -> TensorNode:
    """max(x, 0)."""
    return with_gradient(elementwise("max", x, like(x, 0)), (x,), _relu_gradient)


def _relu_gradient(dy: TensorNode, y: TensorNode, x: TensorNode) -> tuple[TensorNode]:
    return (choose(elementwise("le", x, like(x, 0)), 0.0, dy),)


def leaky_relu(x: TensorNode, /, slope: float = 0.01) -> TensorNode:
    """x above 0, slope·x below."""
    x = _float(x)
    return choose(elementwise("lt", like(x, 0), x), x, times(x, slope))


def elu(x: TensorNode, /, alpha: float = 1.0) -> TensorNode:
    """x above 0, alpha·(eˣ − 1) below."""
    x = _float(x)
    above = elementwise("lt", like(x, 0.0), x)
    return choose(above, x, times(elementwise("expm1", choose(above, 0.0, x)), alpha))


def sigmoid(x: TensorNode, /) -> TensorNode:
    """1 / (1 + e⁻ˣ)."""
    x = _float(x)
    one = like(x, 1.0)
    out = elementwise("div", one, elementwise("add", one, elementwise("exp", elementwise("neg", x))))
    return with_gradient(out, (x,), _sigmoid_gradient)


def _sigmoid_gradient(dy: TensorNode, y: TensorNode, x: TensorNode) -> tuple[TensorNode]:
    return (elementwise("mul", dy, elementwise("mul", y, elementwise("sub", like(y, 1.0), y))),)


def silu(x: TensorNode, /) -> TensorNode:
    """x · sigmoid(x)."""
    return elementwise("mul", _float(x), sigmoid(x))


def softplus(x: TensorNode, /) -> TensorNode:
    """ln(1 + eˣ), without overflow."""
    x = _float(x)
    away = elementwise("exp", elementwise("neg", elementwise("abs", x)))
    return elementwise("add", elementwise("max", x, like(x, 0.0)), elementwise("log1p", away))


def mish(x: TensorNode, /) -> TensorNode:
    """x · tanh(softplus(x))."""
    return elementwise("mul", _float(x), elementwise("tanh", softplus(x)))


def softsign(x: TensorNode, /) -> TensorNode:
    """x / (1 + |x|)."""
    x = _float(x)
    return elementwise("div", x, elementwise("add", like(x, 1.0), elementwise("abs", x)))


def hardswish(x: TensorNode, /) -> TensorNode:
    """x · clip(x + 3, 0, 6) / 6."""
    x = _float(x)
    gate = clip(elementwise("add", x, like(x, 3.0)), 0.0, 6.0)
    return with_gradient(times(elementwise("mul", x, gate), 1 / 6), (x,), _hardswish_gradient)


def _hardswish_gradient(dy: TensorNode, y: TensorNode, x: TensorNode) -> tuple[TensorNode]:
    slope = elementwise("add", times(x, 1 / 3), like(x, 0.5))
    slope = choose(elementwise("le", like(x, 3.0), x), 1.0, choose(elementwise("le", x, like(x, -3.0)), 0.0, slope))
    return (elementwise("mul", dy, slope),)


def gelu(x: TensorNode, /, approximate: str = "none") -> TensorNode:
    """x·Φ(x), by the error function, or with approximate="tanh" by Hendrycks and Gimpel's formula (arXiv 1606.08415)."""
    x = _float(x)
    half = times(x, 0.5)
    if approximate == "none":
        inner = elementwise("erf", times(x, 1 / sqrt(2.0)))
    elif approximate == "tanh":
        cube = elementwise("mul", elementwise("mul", x, x), x)
        inner = elementwise("tanh", times(elementwise("add", x, times(cube, 0.044715)), sqrt(2 / pi)))
    else:
        raise UsageError(f"gelu: approximate is 'none' or 'tanh', not {approximate!r}")
    return elementwise("mul", half, elementwise("add", like(x, 1.0), inner))


def softmax(x: TensorNode, axis: Axis = -1) -> TensorNode:
    """eˣ · (1 / Σ eˣ) along dimensions, by their largest element: one division a row."""
    far, over = _from_top(x, axis, "softmax")
    e = elementwise("exp", far)
    total = reduced("add", e, over, False, "softmax")
    inverse = kept(elementwise("div", like(total, 1.0), total), e.shape, over)
    return elementwise("mul", e, expand(inverse, e.shape))


def log_softmax(x: TensorNode, axis: Axis = -1) -> TensorNode:
    """x − ln Σ eˣ along dimensions."""
    far, over = _from_top(x, axis, "log_softmax")
    total = elementwise("log", reduced("add", elementwise("exp", far), over, True, "log_softmax"))
    return elementwise("sub", far, expand(total, far.shape))


def _from_top(x: TensorNode, axis: Axis, name: str) -> tuple[TensorNode, tuple[int, ...]]:
    x = _float(x)
    over = dims(x, axis, name)
    if any(x.shape[d] == 0 for d in over):
        return x, over
    top = stop_gradient(kept(reduce("max", x, over), x.shape, over))  # what is taken from all of a row changes nothing
    return elementwise("sub", x, expand(top, x.shape)), over
