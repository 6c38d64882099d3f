"""Convolutions of 1 to 3 dimensions and their transposes: products over sliding windows, which the partition sees as
contractions. Layout: (batch, channels, space …); weights (out, in / groups, taps …)."""

from __future__ import annotations

from ...ir.errors import UsageError
from ..graph.node import TensorNode
from ..graph.primitives import cast, elementwise, expand, reduce, reshape
from ..graph.promotion import promote
from .joining import pad
from .movement import flip, part
from .movement import permute as _permute
from .windows import Padding, Sizes, WindowLayout, layout, several, spaced, windows


def conv(
    x: TensorNode, weight: TensorNode, bias: TensorNode | None = None, /, *, stride: Sizes = 1, padding: Padding = 0,
    dilation: Sizes = 1, groups: int = 1,
) -> TensorNode:  # fmt: skip
    """x (batch, in, space …) * weight (out, in / groups, taps …) + bias (out) → (batch, out, space …), 1 to 3 dimensions of
    space (without the batch's dimension it is one image). Taps are not turned around, as in all of machine learning."""
    rank = len(weight.shape) - 2
    if len(x.shape) == rank + 1:
        one = conv(reshape(x, (1, *x.shape)), weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups)
        return reshape(one, one.shape[1:])
    _check("conv", x, weight, bias, groups, weight.shape[0] if rank > 0 else 0, weight.shape[1] * groups if rank > 0 else 0)
    w = layout("conv", x.shape[2:], weight.shape[2:], stride, dilation, padding)
    kind = promote(x.dtype, weight.dtype)
    out = _contracted(cast(x, kind), cast(weight, kind), w, groups)
    return out if bias is None else _biased(out, bias)


def _check(name: str, x: TensorNode, weight: TensorNode, bias: TensorNode | None, groups: int, out: int, inner: int) -> None:
    rank = len(weight.shape) - 2
    shapes = f"{name} of {list(x.shape)} with weights {list(weight.shape)}"
    if not 1 <= rank <= 3 or len(x.shape) != rank + 2:
        raise UsageError(f"{shapes}: expected (batch, channels, 1 to 3 dimensions) and weights of as many dimensions")
    if groups < 1 or x.shape[1] % groups or weight.shape[0] % groups or x.shape[1] != inner:
        raise UsageError(f"{shapes}: {x.shape[1]} channels in {groups} groups do not meet weights of {inner} channels")
    if bias is not None and bias.shape != (out,):
        raise UsageError(f"{shapes}: the bias has shape {list(bias.shape)}, not [{out}]")


def _contracted(x: TensorNode, weight: TensorNode, w: WindowLayout, groups: int) -> TensorNode:
    """Σ over channels and taps, groups apart."""
    rank, batch = len(w.sizes), x.shape[0]
    outs, inner = weight.shape[0] // groups, weight.shape[1]
    seen = windows(x, w)
    seen = reshape(seen, (batch, groups, inner, *w.out, *w.kernel))
    order = (0, 1, *range(3, 3 + rank), 2, *range(3 + rank, 3 + 2 * rank))
    seen = _permute(seen, order)
    shape = (batch, groups, outs, *w.out, inner, *w.kernel)
    left = reshape(seen, (batch, groups, 1, *w.out, inner, *w.kernel))
    right = reshape(weight, (1, groups, outs, *(1 for _ in w.out), inner, *w.kernel))
    product = elementwise("mul", expand(left, shape), expand(right, shape))
    return reshape(reduce("add", product, range(3 + rank, len(shape))), (batch, groups * outs, *w.out))


def _biased(x: TensorNode, bias: TensorNode) -> TensorNode:
    kind = promote(x.dtype, bias.dtype)
    wide = reshape(cast(bias, kind), (1, bias.shape[0], *(1 for _ in x.shape[2:])))
    return elementwise("add", cast(x, kind), expand(wide, x.shape))


def conv_transpose(
    x: TensorNode, weight: TensorNode, bias: TensorNode | None = None, /, *, stride: Sizes = 1, padding: Sizes = 0,
    output_padding: Sizes = 0, dilation: Sizes = 1, groups: int = 1,
) -> TensorNode:  # fmt: skip
    """The transpose of `conv` as a linear map: x (batch, in, space …), weight (in, out / groups, taps …) → (batch, out,
    (space − 1)·stride − 2·padding + dilation·(taps − 1) + output_padding + 1)."""
    rank = len(weight.shape) - 2
    if len(x.shape) == rank + 1:
        options = {"stride": stride, "padding": padding, "dilation": dilation, "output_padding": output_padding}
        one = conv_transpose(reshape(x, (1, *x.shape)), weight, bias, groups=groups, **options)
        return reshape(one, one.shape[1:])
    name = "conv_transpose"
    _check(name, x, weight, bias, groups, weight.shape[1] * groups if rank > 0 else 0, weight.shape[0])
    s, d = several(name, stride, rank, "stride"), several(name, dilation, rank, "dilation")
    p, more = several(name, padding, rank, "padding", 0), several(name, output_padding, rank, "output_padding", 0)
    kernel = weight.shape[2:]
    around = [(b * (k - 1) - a, b * (k - 1) - a + m) for k, a, b, m in zip(kernel, p, d, more)]
    wide = spaced(x, rank, s)
    for at, (a, b) in enumerate(around):
        wide = _framed(wide, 2 + at, a, b)
    outs, inner = weight.shape[1], weight.shape[0] // groups
    turned = flip(weight, axis=tuple(range(2, 2 + rank)))
    turned = reshape(turned, (groups, inner, outs, *kernel))
    turned = reshape(_permute(turned, (0, 2, 1, *range(3, 3 + rank))), (groups * outs, inner, *kernel))
    return conv(wide, turned, bias, dilation=d, groups=groups)


def _framed(x: TensorNode, dim: int, before: int, after: int) -> TensorNode:
    """Zeros added on both sides of a dimension; where negative, elements dropped."""
    x = pad(x, [(max(before, 0), max(after, 0)) if d == dim else (0, 0) for d in range(len(x.shape))])
    start = max(-before, 0)
    length = x.shape[dim] - start - max(-after, 0)
    if length < 1:
        raise UsageError(f"conv_transpose: the padding leaves nothing along dimension {dim}")
    return part(x, dim, start, length) if length < x.shape[dim] else x
