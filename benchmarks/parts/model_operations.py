"""Single operations as public collections of PyTorch modules hold them, in small sizes, a third of them ragged: for `models_vs.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

ScaledAttention = F.scaled_dot_product_attention


@dataclass(frozen=True)
class ModelCase:
    """`make()` gives what is compiled, and its inputs. `group`: operation, pattern, network or transformers."""

    name: str
    group: str
    make: Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]


def normal(*shape: int) -> torch.Tensor:
    """An array of normal numbers."""
    return torch.randn(*shape)


def operation(name: str, function: Callable[..., Any], *inputs: tuple[int, ...] | Callable[[], torch.Tensor]) -> ModelCase:
    """A case of a function or layer; inputs are shapes, or make themselves."""

    def make() -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return function, tuple(x() if callable(x) else normal(*x) for x in inputs)

    return ModelCase(name, "operation", make)


def layer(name: str, build: Callable[[], nn.Module], *inputs: tuple[int, ...] | Callable[[], torch.Tensor]) -> ModelCase:
    """A case of a layer with parameters."""

    def make() -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return build(), tuple(x() if callable(x) else normal(*x) for x in inputs)

    return ModelCase(name, "operation", make)


def whole(low: int, high: int, *shape: int) -> Callable[[], torch.Tensor]:
    """Whole numbers from `low` up to `high`."""
    return lambda: torch.randint(low, high, shape)


def _gelu_by_hand(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * x * (1.0 + torch.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def _diagonal_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.diag(a) @ b


def _exclusive_sum(x: torch.Tensor) -> torch.Tensor:
    return torch.cumsum(torch.cat((torch.zeros_like(x[:, :1]), x), dim=1)[:, :-1], dim=1)


PRODUCTS = [
    operation("product square", torch.matmul, (512, 512), (512, 512)),
    operation("product ragged", torch.matmul, (391, 517), (517, 443)),
    operation("product large depth", torch.matmul, (64, 8192), (8192, 64)),
    operation("product small depth", torch.matmul, (1024, 32), (32, 1024)),
    operation("product tall and skinny", torch.matmul, (4096, 24), (24, 48)),
    operation("product matrix and vector", torch.matmul, (1024, 4099), (4099, 1)),
    operation("product 3-D and matrix", torch.matmul, (8, 128, 256), (256, 192)),
    operation("product 4-D and matrix", lambda a, b: torch.einsum("bijl,lk->bijk", a, b), (4, 16, 32, 64), (64, 96)),
    operation("product batched", torch.bmm, (24, 128, 65), (24, 65, 127)),
    operation("product of diagonal", _diagonal_product, (1024,), (1024, 777)),
    operation("product of symmetric", lambda a: (a + a.T) @ (a - a.T), (400, 400)),
    operation("product of upper triangles", lambda a, b: torch.triu(torch.triu(a) @ torch.triu(b)), (384, 384), (384, 384)),
    operation("product of lower triangles", lambda a, b: torch.tril(torch.tril(a) @ torch.tril(b)), (333, 333), (333, 333)),
    operation("product of transposed first", lambda a, b: a.T @ b, (512, 384), (512, 256)),
    operation("product of transposed second", lambda a, b: a @ b.T, (384, 500), (256, 500)),
    operation("product of both transposed", lambda a, b: a.T @ b.T, (300, 256), (384, 300)),
    operation("product by a number", lambda a: a * 3.14, (1024, 1021)),
    operation("outer product sums", lambda a, b: torch.einsum("bi,bj->ij", a, b), (2048, 63), (2048, 65)),
]
"""Products of matrices."""

WIDE = (128, 8191)
ELEMENTWISE = [
    operation("relu", torch.relu, WIDE),
    operation("leaky relu", lambda x: F.leaky_relu(x, 0.01), WIDE),
    operation("sigmoid", torch.sigmoid, WIDE),
    operation("tanh", torch.tanh, WIDE),
    operation("softmax", lambda x: torch.softmax(x, 1), WIDE),
    operation("log softmax", lambda x: torch.log_softmax(x, 1), (512, 1000)),
    operation("softmax of the first axis", lambda x: torch.softmax(x, 0), (500, 1200)),
    operation("swish", lambda x: x * torch.sigmoid(x), WIDE),
    operation("gelu", F.gelu, WIDE),
    operation("gelu by hand", _gelu_by_hand, WIDE),
    operation("selu", torch.selu, WIDE),
    operation("hard sigmoid", F.hardsigmoid, WIDE),
    operation("softplus", F.softplus, WIDE),
    operation("softsign", lambda x: x / (1 + x.abs()), WIDE),
    operation("elu", lambda x: F.elu(x, alpha=1.3), WIDE),
    operation("hard tanh", lambda x: F.hardtanh(x, -1, 1), WIDE),
    operation("mish", F.mish, WIDE),
    operation("prelu", lambda x, w: F.prelu(x, w), (16, 64, 33, 33), (64,)),
    operation("glu", lambda x: F.glu(x, -1), (512, 2046)),
    operation("dropout at inference", lambda x: F.dropout(x, 0.5, training=False) + 1, (512, 1024)),
]
"""Activations."""

IMAGE = (8, 32, 62, 63)
NORMS = [
    layer("batch norm", lambda: nn.BatchNorm2d(32), IMAGE),
    layer("batch norm, inference", lambda: nn.BatchNorm2d(32).eval(), IMAGE),
    layer("instance norm", lambda: nn.InstanceNorm2d(32), IMAGE),
    layer("group norm", lambda: nn.GroupNorm(8, 32), IMAGE),
    layer("layer norm", lambda: nn.LayerNorm((32, 62, 63)), IMAGE),
    layer("layer norm of rows", lambda: nn.LayerNorm(768), (4, 197, 768)),
    operation("RMS norm", lambda x: x / torch.sqrt((x**2).mean(1, keepdim=True) + 1e-5), IMAGE),
    operation("Frobenius norm", lambda x: x / torch.norm(x, p="fro"), IMAGE),
    operation("L1 norm", lambda x: x / x.abs().sum(1, keepdim=True), WIDE),
    operation("L2 norm", lambda x: x / torch.norm(x, p=2, dim=1, keepdim=True), WIDE),
]
"""Normalisation."""

POOLS = [
    layer("max pool 1-D", lambda: nn.MaxPool1d(8, 1, 4, 3), (16, 64, 1001)),
    layer("max pool 2-D", lambda: nn.MaxPool2d(4, 1, 1), (8, 32, 65, 65)),
    layer("max pool 3-D", lambda: nn.MaxPool3d(3, 2, 1, 3), (2, 16, 33, 33, 33)),
    layer("average pool 1-D", lambda: nn.AvgPool1d(8, 1, 4), (16, 64, 1001)),
    layer("average pool 2-D", lambda: nn.AvgPool2d(11), (8, 64, 132, 132)),
    layer("average pool 3-D", lambda: nn.AvgPool3d(3, 2, 1), (2, 16, 32, 33, 34)),
    layer("global average pool", lambda: nn.AdaptiveAvgPool2d(1), (16, 256, 14, 14)),
    layer("adaptive average pool", lambda: nn.AdaptiveAvgPool2d((5, 7)), (8, 64, 33, 41)),
]
"""Pools."""

REDUCTIONS = [
    operation("sum of an axis", lambda x: x.sum(1, keepdim=True), (16, 256, 255)),
    operation("mean of an axis", lambda x: x.mean(1), (16, 256, 255)),
    operation("maximum of an axis", lambda x: torch.max(x, 1)[0], (16, 256, 256)),
    operation("minimum of an axis", lambda x: torch.min(x, 2)[0], (16, 256, 256)),
    operation("argmax of an axis", lambda x: torch.argmax(x, 1), (16, 256, 255)),
    operation("argmin of the last axis", lambda x: torch.argmin(x, -1), (16, 256, 255)),
    operation("product of an axis", lambda x: x.prod(1), (16, 256, 250)),
    operation("cumulative sum", lambda x: x.cumsum(1), (256, 4000)),
    operation("cumulative product", lambda x: x.cumprod(1), (256, 4000)),
    operation("cumulative sum, reverse", lambda x: x.flip(1).cumsum(1).flip(1), (256, 4000)),
    operation("cumulative sum, exclusive", _exclusive_sum, (256, 4000)),
    operation("cumulative sum, masked", lambda x, m: (x * m).cumsum(1), (256, 4000), lambda: torch.rand(256, 4000) > 0.5),
    operation("variance of the first axis", lambda x: x.var(0), (1000, 777)),
    operation("log of sums of exponentials", lambda x: torch.logsumexp(x, -1), (512, 1003)),
]
"""Reductions and scans."""

LABELS = whole(0, 100, 4096)
LOSSES = [
    operation("squared error", lambda a, b: ((a - b) ** 2).mean(), WIDE, WIDE),
    operation("cross entropy", F.cross_entropy, (4096, 100), LABELS),
    operation("Huber loss", F.smooth_l1_loss, WIDE, WIDE),
    operation(
        "divergence",
        lambda a, b: F.kl_div(torch.log_softmax(a, -1), torch.softmax(b, -1), reduction="batchmean"),
        (128, 4099),
        (128, 4099),
    ),
    operation("triplet loss", lambda a, b, c: F.triplet_margin_loss(a, b, c), WIDE, WIDE, WIDE),
    operation("hinge loss", lambda a, b: torch.clamp(1 - a * b.sign(), min=0).mean(), WIDE, WIDE),
    operation("cosine loss", lambda a, b: (1 - F.cosine_similarity(a, b, dim=1)).mean(), WIDE, WIDE),
]
"""Losses."""

CONVOLUTIONS = [
    layer("conv 1-D", lambda: nn.Conv1d(32, 64, 3), (8, 32, 1024)),
    layer("conv 1-D dilated, strided", lambda: nn.Conv1d(32, 64, 3, 3, 0, 4), (8, 32, 1021)),
    layer("conv 2-D", lambda: nn.Conv2d(32, 64, 3, padding=1), (4, 32, 56, 56)),
    layer("conv 2-D of 11", lambda: nn.Conv2d(3, 96, 11, 4, 2), (4, 3, 224, 224)),
    layer("conv 2-D pointwise", lambda: nn.Conv2d(64, 128, 1), (4, 64, 57, 55)),
    layer("conv 2-D asymmetric", lambda: nn.Conv2d(16, 32, (5, 7), (2, 3), (1, 2), (2, 1)), (4, 16, 64, 97)),
    layer("conv 2-D grouped", lambda: nn.Conv2d(64, 64, 3, padding=1, groups=8), (4, 64, 40, 40)),
    layer("conv 2-D depthwise", lambda: nn.Conv2d(64, 64, 3, groups=64), (4, 64, 57, 57)),
    layer("conv 2-D depthwise of (3, 1)", lambda: nn.Conv2d(48, 48, (3, 1), groups=48), (4, 48, 64, 65)),
    layer(
        "conv 2-D separable",
        lambda: nn.Sequential(nn.Conv2d(32, 32, 3, padding=1, groups=32, bias=False), nn.Conv2d(32, 64, 1, bias=False)),
        (4, 32, 57, 59),
    ),
    layer("conv 3-D", lambda: nn.Conv3d(3, 32, 3), (2, 3, 16, 33, 33)),
    layer("conv 3-D asymmetric", lambda: nn.Conv3d(8, 24, (3, 5, 7)), (2, 8, 12, 20, 31)),
    layer("transposed conv 1-D", lambda: nn.ConvTranspose1d(32, 16, 5, 2, 1, dilation=2), (8, 32, 257)),
    layer("transposed conv 2-D", lambda: nn.ConvTranspose2d(32, 32, 3), (4, 32, 40, 41)),
    layer("transposed conv 2-D strided", lambda: nn.ConvTranspose2d(32, 16, 4, 2, 1), (4, 32, 32, 32)),
    layer("transposed conv 2-D grouped", lambda: nn.ConvTranspose2d(32, 64, (3, 5), (2, 3), (1, 2), groups=4), (4, 32, 24, 23)),
    layer("transposed conv 3-D", lambda: nn.ConvTranspose3d(16, 8, 3, 2, 1, output_padding=1), (2, 16, 8, 12, 13)),
]
"""Convolutions."""

ATTENTION = [
    operation("attention", ScaledAttention, (2, 8, 256, 64), (2, 8, 256, 64), (2, 8, 256, 64)),
    operation("attention, causal", lambda q, k, v: ScaledAttention(q, k, v, is_causal=True), *[(1, 8, 197, 64)] * 3),
    layer("embedding", lambda: nn.Embedding(5000, 128), whole(0, 5000, 16, 256)),
]
"""Attention and tables."""

OPERATIONS = [*PRODUCTS, *ELEMENTWISE, *NORMS, *POOLS, *REDUCTIONS, *LOSSES, *CONVOLUTIONS, *ATTENTION]
"""All of them."""
