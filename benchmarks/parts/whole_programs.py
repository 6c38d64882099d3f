"""The programs of `whole_programs.py`: functions of tensors and their arguments. Four are cases of `tensor_vs.py`, four are not."""

from __future__ import annotations

from typing import Any

import numpy as np
from parts.tensor_cases import CASES, inputs, parameters
from parts.tensor_models import chain, outputs
from tilewright import Tensor, nn

NAMES = ("block_forward", "mlp_gradients", "convnet_gradients", "chain_gelu", "attention", "gated", "residual", "statistics")

_random = np.random.default_rng(3)
_by_name = {c.name: c for c in CASES}


def _normal(*shape: int, scale: float = 1.0) -> Any:
    return (scale * _random.standard_normal(shape)).astype(np.float32)


def _arguments(name: str) -> dict[str, Any]:
    return {"p": parameters(_by_name[name]), "x": inputs(_by_name[name])}


def block_forward(p: Tensor, x: Tensor) -> Any:
    """A transformer block."""
    return outputs(_by_name["block_forward"], p, x, {})


def block_forward_inputs() -> Any:
    """Of the case."""
    return _arguments("block_forward")


def mlp_gradients(p: Tensor, x: Tensor) -> Any:
    """A perceptron's loss and gradients."""
    from dataclasses import replace

    return outputs(replace(_by_name["mlp_step"], what="gradients"), p, x, {})


def mlp_gradients_inputs() -> Any:
    """Of the case."""
    return _arguments("mlp_step")


def convnet_gradients(p: Tensor, x: Tensor) -> Any:
    """A small network of convolutions: loss and gradients."""
    from dataclasses import replace

    return outputs(replace(_by_name["convnet_step"], what="gradients"), p, x, {})


def convnet_gradients_inputs() -> Any:
    """Of the case."""
    return _arguments("convnet_step")


def chain_gelu(x: Tensor, y: Tensor) -> Tensor:
    """Operations element by element."""
    return chain("chain_gelu", x, y)


def chain_gelu_inputs() -> Any:
    """Of the case."""
    return inputs(_by_name["chain_gelu"])


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention over 8 heads, 256 places and 64 features, written out."""
    mask = Tensor(np.triu(np.full((256, 256), -1e9, np.float32), 1))
    return ((q @ k.mT) * 0.125 + mask).softmax(-1) @ v


def attention_inputs() -> Any:
    """Queries, keys and values."""
    return tuple(_normal(8, 256, 64) for _ in range(3))


def gated(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """Two gated feed-forward layers, each behind a normalisation."""
    for _ in range(2):
        h = x * ((x * x).mean(-1, keepdims=True) + 1e-5) ** -0.5
        g = h @ gate
        x = x + (g * g.sigmoid() * (h @ up)) @ down
    return x


def gated_inputs() -> Any:
    """128 rows of 256 features, 768 inside."""
    return _normal(128, 256), _normal(256, 768, scale=0.05), _normal(256, 768, scale=0.05), _normal(768, 256, scale=0.05)


def residual(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """A residual block of two 3 x 3 convolutions, and the mean over places."""
    y = nn.relu(nn.conv(x, a, padding=1))
    return nn.relu(nn.conv(y, b, padding=1) + x).mean((2, 3))


def residual_inputs() -> Any:
    """Four pictures of 28 x 28 with 32 channels."""
    return _normal(4, 32, 28, 28), _normal(32, 32, 3, 3, scale=0.1), _normal(32, 32, 3, 3, scale=0.1)


def statistics(x: Tensor) -> Any:
    """Columns of a table, standardised, with their correlations and the norms of its rows."""
    z = (x - x.mean(0)) / ((x - x.mean(0)) ** 2).mean(0).sqrt()
    return z.mT @ z / 4096.0, (z * z).sum(1).sqrt(), z.max(0), z.min(0)


def statistics_inputs() -> Any:
    """4096 rows of 96 columns."""
    return (_normal(4096, 96),)
