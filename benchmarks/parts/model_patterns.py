"""A layer followed by three to six operations, as public collections of PyTorch modules hold them: for `models_vs.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from parts.model_operations import ModelCase, normal
from torch import nn
from torch.nn import functional as F


class Pattern(nn.Module):
    """Layers by name, and what a call does with them."""

    def __init__(self, then: Callable[..., Any], layers: dict[str, Any]) -> None:
        super().__init__()
        self.then = then
        for name, value in layers.items():
            setattr(self, name, nn.Parameter(value) if isinstance(value, torch.Tensor) else value)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """What `then` makes of x."""
        result: torch.Tensor = self.then(self, x)
        return result


def pattern(name: str, shape: tuple[int, ...], layers: Callable[[], dict[str, Any]], then: Callable[..., Any]) -> ModelCase:
    """A case: the layers, and what follows."""
    return ModelCase(name, "pattern", lambda: (Pattern(then, layers()), (normal(*shape),)))


IMAGE, RAGGED, CUBE = (4, 16, 48, 48), (4, 16, 45, 51), (2, 8, 12, 24, 25)
ROWS, RAGGED_ROWS = (256, 512), (253, 511)


def _conv(**more: Any) -> dict[str, Any]:
    return {"conv": nn.Conv2d(16, 32, 3), **more}


def _up(**more: Any) -> dict[str, Any]:
    return {"conv": nn.ConvTranspose2d(16, 32, 3, 2, 1, output_padding=1), **more}


def _conv3(**more: Any) -> dict[str, Any]:
    return {"conv": nn.Conv3d(8, 16, 3), **more}


def _up3(**more: Any) -> dict[str, Any]:
    return {"conv": nn.ConvTranspose3d(8, 16, 3, 2, 1), **more}


def _linear(**more: Any) -> dict[str, Any]:
    return {"linear": nn.Linear(512, 1024), **more}


def _ragged(**more: Any) -> dict[str, Any]:
    return {"linear": nn.Linear(511, 770), **more}


def _bias(channels: int, n: int = 2) -> torch.Tensor:
    return normal(channels, *(1,) * n)


CONVOLUTIONS = [
    pattern("conv, relu, bias", IMAGE, lambda: _conv(bias=_bias(32)), lambda m, x: torch.relu(m.conv(x)) + m.bias),
    pattern("conv, minimum, tanh twice", RAGGED, _conv, lambda m, x: m.conv(x).min(1, keepdim=True)[0].tanh().tanh()),
    pattern("conv, subtract, hardswish, max pool, mish", IMAGE, _conv, lambda m, x: F.mish(F.max_pool2d(F.hardswish(m.conv(x) - 0.5), 2))),
    pattern(
        "conv, group norm, scale, max pool, clamp",
        IMAGE,
        lambda: _conv(norm=nn.GroupNorm(8, 32), scale=_bias(32)),
        lambda m, x: torch.clamp(F.max_pool2d(m.norm(m.conv(x)) * m.scale, 4), 0, 1),
    ),
    pattern("conv, average pool, sigmoid, sum", RAGGED, _conv, lambda m, x: F.avg_pool2d(m.conv(x), 4).sigmoid().sum((1, 2, 3))),
    pattern("conv, instance norm, divide", IMAGE, lambda: _conv(norm=nn.InstanceNorm2d(32)), lambda m, x: m.norm(m.conv(x)) / 2.0),
    pattern("conv, batch norm, scale", RAGGED, lambda: _conv(norm=nn.BatchNorm2d(32)), lambda m, x: m.norm(m.conv(x)) * 2.0),
    pattern(
        "conv, softplus, tanh, product, batch norm",
        IMAGE,
        lambda: _conv(norm=nn.BatchNorm2d(32)),
        lambda m, x: m.norm((c := m.conv(x)) * torch.tanh(F.softplus(c))),
    ),
    pattern(
        "conv, group norm, tanh, hardswish, residual, log of sums",
        RAGGED,
        lambda: _conv(norm=nn.GroupNorm(16, 32)),
        lambda m, x: torch.logsumexp((c := m.conv(x)) + F.hardswish(torch.tanh(m.norm(c))), 1, keepdim=True),
    ),
    pattern("conv, gelu, global pool", IMAGE, _conv, lambda m, x: F.adaptive_avg_pool2d(F.gelu(m.conv(x)), 1).flatten(1)),
    pattern("conv 3-D, softmax, max pool twice", CUBE, _conv3, lambda m, x: F.max_pool3d(F.max_pool3d(m.conv(x).softmax(1), 2), 2)),
    pattern(
        "conv 3-D, relu, leaky relu, gelu, sigmoid, bias",
        CUBE,
        lambda: _conv3(bias=_bias(16, 3)),
        lambda m, x: torch.sigmoid(F.gelu(F.leaky_relu(torch.relu(m.conv(x)), 0.01))) + m.bias,
    ),
    pattern(
        "conv 3-D, divide, max pool, global pool, bias, sum",
        CUBE,
        lambda: _conv3(bias=_bias(16, 3)),
        lambda m, x: (F.adaptive_avg_pool3d(F.max_pool3d(m.conv(x) / 2, 2), 1) + m.bias).sum(1),
    ),
    pattern(
        "conv 3-D, group norm, relu, mean",
        CUBE,
        lambda: _conv3(norm=nn.GroupNorm(4, 16)),
        lambda m, x: torch.relu(m.norm(m.conv(x))).mean((1, 2, 3, 4)),
    ),
    pattern("conv 3-D, minimum of depth, softmax", CUBE, _conv3, lambda m, x: m.conv(x).min(2)[0].softmax(1)),
    pattern(
        "transposed conv, bias, clamp, scale, clamp, divide",
        IMAGE,
        lambda: _up(bias=_bias(32)),
        lambda m, x: torch.clamp(torch.clamp(m.conv(x) + m.bias, 0, 1) * 2, 0, 1) / 2,
    ),
    pattern("transposed conv, softmax, bias, scale, sigmoid", RAGGED, _up, lambda m, x: torch.sigmoid((m.conv(x).softmax(1) + 0.1) * 2)),
    pattern(
        "transposed conv, global pool, bias, log of sums, sum",
        IMAGE,
        lambda: _up(bias=_bias(32)),
        lambda m, x: torch.logsumexp(m.conv(x).mean((2, 3), keepdim=True) + m.bias, 1, keepdim=True).sum((2, 3)) * 10,
    ),
    pattern(
        "transposed conv, minimum, sum, gelu, bias",
        RAGGED,
        _up,
        lambda m, x: F.gelu(m.conv(x).min(1, keepdim=True)[0].sum(2, keepdim=True)),
    ),
    pattern("transposed conv, mish, add, hardtanh, scale", IMAGE, _up, lambda m, x: F.hardtanh(F.mish(m.conv(x)) + 0.5, -1, 1) * 2),
    pattern(
        "transposed conv, max pool, hardtanh, mean, tanh",
        RAGGED,
        _up,
        lambda m, x: torch.tanh(F.hardtanh(F.max_pool2d(m.conv(x), 2)).mean((2, 3), keepdim=True)),
    ),
    pattern(
        "transposed conv, batch norm, tanh, max pool, group norm",
        IMAGE,
        lambda: _up(norm=nn.BatchNorm2d(32), group=nn.GroupNorm(4, 32)),
        lambda m, x: m.group(F.max_pool2d(torch.tanh(m.norm(m.conv(x))), 2)),
    ),
    pattern(
        "transposed conv 3-D, scale, batch norm, global pool",
        CUBE,
        lambda: _up3(norm=nn.BatchNorm3d(16)),
        lambda m, x: F.adaptive_avg_pool3d(m.norm(m.conv(x) * 2), 1),
    ),
    pattern(
        "transposed conv 3-D, sum, layer norm, average pool, gelu",
        CUBE,
        lambda: _up3(norm=nn.LayerNorm(49)),
        lambda m, x: F.gelu(F.avg_pool3d(m.norm(m.conv(x) + 1.0), 2)),
    ),
    pattern(
        "transposed conv 3-D, max, softmax, subtract, swish, max",
        CUBE,
        _up3,
        lambda m, x: F.silu(F.max_pool3d(m.conv(x), 2).softmax(1) - 0.1).max(1)[0],
    ),
]
"""Convolutions and what follows."""

PRODUCTS = [
    pattern("linear, sigmoid, sum", ROWS, _linear, lambda m, x: torch.sigmoid(m.linear(x)).sum(1, keepdim=True)),
    pattern("linear, divide, sum, scale", RAGGED_ROWS, _ragged, lambda m, x: (m.linear(x) / 2).sum(1, keepdim=True) * 1.5),
    pattern(
        "linear, sum, max, mean, log of sums twice",
        ROWS,
        _linear,
        lambda m, x: torch.logsumexp(
            torch.logsumexp(m.linear(x).sum(1, keepdim=True).max(1, keepdim=True)[0].mean(1, keepdim=True), 1, True), 1, True
        ),
    ),
    pattern(
        "linear, swish, divide, clamp, tanh, clamp",
        RAGGED_ROWS,
        _ragged,
        lambda m, x: torch.tanh(torch.clamp(F.silu(m.linear(x)) / 2, -1, 1)).clamp(-1, 1),
    ),
    pattern(
        "linear, group norm, leaky relu, sum",
        ROWS,
        lambda: _linear(norm=nn.GroupNorm(32, 1024)),
        lambda m, x: F.leaky_relu(m.norm(m.linear(x))) * 2,
    ),
    pattern(
        "linear, batch norm, gelu, relu",
        ROWS,
        lambda: _linear(norm=nn.BatchNorm1d(1024)),
        lambda m, x: torch.relu(F.gelu(m.norm(m.linear(x)))),
    ),
    pattern(
        "linear, batch norm, scale, softmax",
        RAGGED_ROWS,
        lambda: _ragged(norm=nn.BatchNorm1d(770), scale=normal(1)),
        lambda m, x: torch.softmax(m.scale * m.norm(m.linear(x)), 1),
    ),
    pattern("linear, max pool, sum, scale", ROWS, _linear, lambda m, x: F.max_pool1d(m.linear(x).unsqueeze(1), 2).squeeze(1).sum(1) * 0.5),
    pattern(
        "linear, average pool, gelu, scale, max",
        ROWS,
        _linear,
        lambda m, x: (F.gelu(F.avg_pool1d(m.linear(x).unsqueeze(1), 16).squeeze(1)) * 2).max(1)[0],
    ),
    pattern(
        "linear, subtract, global pool, log of sums, gelu, residual",
        RAGGED_ROWS,
        lambda: _ragged(shift=normal(770)),
        lambda m, x: x + F.gelu(torch.logsumexp((m.linear(x) - m.shift).mean(1, keepdim=True), 1, keepdim=True)),
    ),
    pattern("linear, gelu, softmax", RAGGED_ROWS, _ragged, lambda m, x: torch.softmax(F.gelu(m.linear(x)), 1)),
    pattern("linear, mish twice", ROWS, _linear, lambda m, x: F.mish(F.mish(m.linear(x)))),
    pattern(
        "linear, max, subtract mean, gelu",
        ROWS,
        _linear,
        lambda m, x: F.gelu((y := m.linear(x).max(1, keepdim=True)[0]) - y.mean(1, keepdim=True)),
    ),
    pattern(
        "bmm, instance norm, sum, residual, multiply",
        ROWS,
        lambda: {"linear": nn.Linear(512, 512), "norm": nn.InstanceNorm1d(512)},
        lambda m, x: (m.norm(m.linear(x).unsqueeze(1)).squeeze(1) + x) * x,
    ),
    pattern(
        "linear, scale, residual, clamp, log of sums, mish",
        ROWS,
        _linear,
        lambda m, x: (y := torch.logsumexp(torch.clamp((z := m.linear(x) * 2) + z, -10, 10), 1, True)) * F.mish(y),
    ),
]
"""Products and what follows."""

PATTERNS = [*CONVOLUTIONS, *PRODUCTS]
"""All of them."""
