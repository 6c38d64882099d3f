"""How PyTorch takes operators apart before they reach our table: into Core ATen, except what is one expression here."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any
from unittest import mock

import torch
from torch._decomp import core_aten_decompositions, decomposition_table
from torch._decomp import decompositions as of_pytorch
from torch._prims_common import suggest_memory_format
from torch.nn import functional as F

from .grid_sampling import sampled, sampled_gradients
from .operators.table import overload

WHOLE = [
    "hardtanh",
    "elu",
    "gelu",
    "silu",
    "mish",
    "softplus",
    "hardswish",
    "hardsigmoid",
    "leaky_relu",
    "addcmul",
    "addcdiv",
    "lerp.Scalar",
    "lerp.Tensor",
    "native_layer_norm",
    "native_group_norm",
    "roll",
    "unfold_backward",
    "im2col",
    "col2im",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention_for_cpu_backward",
]
"""Operators that are kept whole, since they are one expression here. (PyTorch's decomposition of attention gives its gradient, which
stays whole, something else than the logarithms of the denominators that it reads.)"""
APART = [
    "native_dropout",
    "upsample_bilinear2d",
    "upsample_trilinear3d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
]
"""Operators that Core ATen keeps whole and that are taken apart here, by decompositions of PyTorch's."""

_CUBIC = of_pytorch.upsample_bicubic2d_default


def decompositions() -> dict[Any, Any]:
    """PyTorch's decompositions into Core ATen, without those of operators that are one expression here, and some of our own."""
    found = dict(core_aten_decompositions())
    found |= {whole: decomposition_table[whole] for whole in map(overload, APART) if whole in decomposition_table}
    for name in WHOLE:
        found.pop(overload(name), None)
    own = {"_transformer_encoder_layer_fwd": encoder_layer, "_cdist_forward": distances, "_cdist_backward": distances_gradient}
    own |= {"index_add": index_add, "diagonal_scatter": diagonal_scatter, "upsample_bicubic2d": cubic}
    own |= {"_embedding_bag_backward": bags_gradient, "_embedding_bag_per_sample_weights_backward": bag_weights_gradient}
    own |= {"full_like": full_like, "zeros_like": zeros_like, "ones_like": ones_like}
    own |= {f"grid_sampler_{n}d": sampled for n in (2, 3)} | {f"grid_sampler_{n}d_backward": sampled_gradients for n in (2, 3)}
    return found | {overload(name): function for name, function in own.items()}


@contextmanager
def resizing() -> Iterator[None]:
    """Within, PyTorch takes linear and cubic interpolation apart by `resized`. (Its own decompositions, which are applied before our table
    is asked, compute the places of 16-bit floats as such floats.)"""
    with mock.patch.object(of_pytorch, "_upsample_linear", resized), mock.patch.object(of_pytorch, "upsample_bicubic2d_default", cubic):
        yield


def cubic(x: torch.Tensor, sizes: Sequence[int], align_corners: bool, *scales: float | None) -> torch.Tensor:
    """Cubic interpolation: of whole numbers as PyTorch takes it apart, but an axis whose length stays is copied."""
    if not x.is_floating_point():
        scales = tuple(None if n == size else scale for n, size, scale in zip(x.shape[2:], sizes, scales))
    found: torch.Tensor = (resized if x.is_floating_point() else _CUBIC)(x, sizes, align_corners, *(scales or (None, None)))
    return found


def resized(x: torch.Tensor, sizes: Sequence[int], align_corners: bool, *scales: Any) -> torch.Tensor:
    """PyTorch's interpolation of x (batch, channels, *places) to `sizes`: linear with a list of scales, cubic with a scale for each
    axis. Places are computed in float32 or wider. One axis is resized after the other: each has one gather, and its gradient
    one scatter, where all corners at once would have 2^n or 4^n of them."""
    cubic, dtype = not isinstance(scales[0], Sequence), torch.promote_types(x.dtype, torch.float32)
    found = x.to(dtype)
    for axis, (n, size, scale) in enumerate(zip(x.shape[2:], sizes, scales if cubic else scales[0], strict=True), 2):
        copied = not cubic and scale is not None and 1 < scale < 2 and n == size  # as PyTorch's kernels do, whatever the scale
        ratio = of_pytorch._compute_scale(n, size, align_corners, 1.0 if copied else scale)
        place = of_pytorch._compute_source_index(ratio, torch.arange(size, device=x.device).to(dtype), align_corners)
        place = place if cubic else place.clamp(min=0)
        low = place.floor()
        share = (place - low).clamp(0, 1)
        weights = of_pytorch._upsample_get_cubic_coefficients(share) if cubic else (1 - share, share)
        places = torch.stack([(low.to(torch.int64) + d).clamp(0, n - 1) for d in (range(-1, 3) if cubic else range(2))])
        rows = torch.ops.aten._unsafe_index(found, [None] * axis + [places]).unbind(axis)
        found = reduce(torch.add, (row * w.reshape(-1, *[1] * (x.ndim - 1 - axis)) for row, w in zip(rows, weights, strict=True)))
    found = (found if x.is_floating_point() else found.round()).to(x.dtype)
    return found.contiguous(memory_format=suggest_memory_format(x))


def encoder_layer(
    x: torch.Tensor, width: int, heads: int, qkv_weight: Any, qkv_bias: Any, out_weight: Any, out_bias: Any, use_gelu: bool, norm_first: bool,
    eps: float, norm_weight_1: Any, norm_bias_1: Any, norm_weight_2: Any, norm_bias_2: Any, up_weight: Any, up_bias: Any, down_weight: Any,
    down_bias: Any, mask: Any = None, mask_type: int | None = None,
) -> torch.Tensor:  # fmt: skip
    """PyTorch's encoder layer at inference, which it keeps as one operator. x: (batch, places, width). `mask`: what attention leaves out,
    by two places (type 0), by batch and place (type 1), or by batch, head and two places (type 2)."""
    batch, places, _ = x.shape

    def attend(x: torch.Tensor) -> torch.Tensor:
        q, k, v = F.linear(x, qkv_weight, qkv_bias).view(batch, places, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) * (width // heads) ** -0.5
        if mask is not None:
            hidden = mask.to(torch.bool)
            scores = scores.masked_fill(hidden[:, None, None, :] if mask_type == 1 else hidden, -math.inf)
        return F.linear((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, places, width), out_weight, out_bias)

    def feed(x: torch.Tensor) -> torch.Tensor:
        wide = F.linear(x, up_weight, up_bias)
        return F.linear(F.gelu(wide) if use_gelu else F.relu(wide), down_weight, down_bias)

    def first(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (width,), norm_weight_1, norm_bias_1, eps)

    def second(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (width,), norm_weight_2, norm_bias_2, eps)

    if norm_first:
        x = x + attend(first(x))
        return x + feed(second(x))
    x = first(x + attend(x))
    return second(x + feed(x))


def distances(a: torch.Tensor, b: torch.Tensor, p: float, compute_mode: int | None = None) -> torch.Tensor:
    """Distances of all rows of a to all rows of b in the norm of order p."""
    apart = (a.unsqueeze(-2) - b.unsqueeze(-3)).abs()
    if p == 2:
        return apart.square().sum(-1).sqrt()
    if p == 0:
        return (apart != 0).to(apart.dtype).sum(-1)
    if p == 1 or not apart.shape[-1]:
        return apart.sum(-1)
    return apart.amax(-1) if math.isinf(p) else (apart**p).sum(-1) ** (1 / p)


def distances_gradient(grad: torch.Tensor, a: torch.Tensor, b: torch.Tensor, p: float, found: torch.Tensor) -> torch.Tensor:
    """The gradient of `distances` for the rows of a, for all of its batch; `found` is what it gave. Equal rows have none."""
    apart, order = a.unsqueeze(-2) - b.unsqueeze(-3), p - 1
    grad, found = grad.unsqueeze(-1), found.unsqueeze(-1)
    if p == 0:
        each = torch.zeros_like(apart)
    elif p == 1:
        each = apart.sign() * grad
    elif math.isinf(p):
        each = torch.where(apart.abs() == found, apart.sign(), 0) * grad
    else:
        slope = apart if p == 2 else apart.sign() * apart.abs() ** order
        scale = torch.where(found == 0, 0, grad / (found if p == 2 else found**order))
        each = slope * scale if p >= 1 else torch.where(apart == 0, 0, slope * scale)
    return each.sum(-2)


def bags_gradient(
    grad: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor, bags: torch.Tensor, sizes: torch.Tensor, largest: torch.Tensor,
    rows: int, by_frequency: bool, mode: int, sparse: bool, weights: torch.Tensor | None, padding: int = -1,
) -> Any:  # fmt: skip
    """The gradient of a table of which rows were added (mode 0) or averaged (1) in bags: each element of a bag adds to its row."""
    if mode == 2 or sparse or by_frequency or padding >= 0:
        return NotImplemented
    each = (grad / sizes.clamp(min=1).unsqueeze(-1).to(grad.dtype) if mode else grad)[_bags(indices, offsets, bags)]
    each = each if weights is None else each * weights.unsqueeze(-1)
    return grad.new_zeros(rows, grad.shape[1]).index_add(0, indices, each)


def bag_weights_gradient(
    grad: torch.Tensor, table: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor, bags: torch.Tensor, mode: int, padding: int = -1
) -> Any:
    """The gradient of the numbers that the elements of bags are multiplied by."""
    return NotImplemented if padding >= 0 else (grad[_bags(indices, offsets, bags)] * table[indices]).sum(-1)


def _bags(indices: torch.Tensor, offsets: torch.Tensor, bags: torch.Tensor) -> torch.Tensor:
    """The bag of each element, which PyTorch leaves out where its own gradient does not read it."""
    if bags.shape[0] == indices.shape[0]:
        return bags
    begun = offsets.new_zeros(indices.shape[0] + 1).index_add(0, offsets, torch.ones_like(offsets))
    return begun[:-1].cumsum(0) - 1


def index_add(x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, *, alpha: Any = 1) -> Any:
    """x with rows of `source` added. (PyTorch's own decomposition broadcasts a source that the operator refuses.)"""
    if x.ndim > 0 and source.ndim > 0:
        fits = list(x.shape)
        fits[dim] = index.numel()
        torch._check(list(source.shape) == fits, lambda: f"index_add: the source is {list(source.shape)}; give {fits}")
    torch._check(x.dtype == source.dtype, lambda: f"index_add: {x.dtype} and a source of {source.dtype}; give one type")
    return decomposition_table[overload("index_add")](x, dim, index, source, alpha=alpha)


def full_like(x: torch.Tensor, value: Any, **how: Any) -> Any:
    """An array of one number in the shape of x. It reads nothing, so the forward pass does not keep it for the backward pass. (An x that is
    not contiguous says how the array lies.)"""
    layout = how.pop("layout", None) or x.layout
    if layout is not torch.strided or how.pop("memory_format", None) not in (None, torch.preserve_format, torch.contiguous_format):
        return NotImplemented
    if not x.is_contiguous():
        return NotImplemented
    return torch.full(x.shape, value, dtype=how.get("dtype") or x.dtype, device=how.get("device") or x.device)


def zeros_like(x: torch.Tensor, **how: Any) -> Any:
    """As `full_like`."""
    return full_like(x, 0, **how)


def ones_like(x: torch.Tensor, **how: Any) -> Any:
    """As `full_like`."""
    return full_like(x, 1, **how)


def diagonal_scatter(x: torch.Tensor, src: torch.Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> torch.Tensor:
    """x with `src` on a diagonal of two axes. (PyTorch's own decomposition writes to a copy, which AOTAutograd refuses.)"""
    wanted = x.diagonal(offset, dim1, dim2).shape
    torch._check(src.shape == wanted, lambda: f"diagonal_scatter: the source is {list(src.shape)}; give {list(wanted)}")
    moved = x.movedim((dim1, dim2), (-2, -1))
    rows, columns = (torch.arange(n, device=x.device) for n in moved.shape[-2:])
    first = max(-offset, 0)
    by_row = F.pad(src.to(x.dtype), (first, rows.shape[0] - first - src.shape[-1])).unsqueeze(-1)
    return torch.where(columns - rows[:, None] == offset, by_row, moved).movedim((-2, -1), (dim1, dim2))
