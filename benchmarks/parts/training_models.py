"""Six small networks for one step of training, in PyTorch: what is trained, one batch, and the loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass(frozen=True)
class TrainingCase:
    """`network()` makes the module, `batch()` the input and what is wanted: classes, or an array of the result's shape."""

    name: str
    network: Callable[[], nn.Module]
    batch: Callable[[], tuple[torch.Tensor, torch.Tensor]]


def loss_of(result: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of classes, else the mean squared difference."""
    return F.mse_loss(result, wanted) if wanted.is_floating_point() else F.cross_entropy(result, wanted)


def mlp() -> nn.Module:
    """Three linear layers."""
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))


class ResidualBlock(nn.Module):
    """Two convolutions with BatchNorm around which the input is added, then a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(32, 32, 3, padding=1, bias=False) for _ in range(2))
        self.norm1, self.norm2 = nn.BatchNorm2d(32), nn.BatchNorm2d(32)
        self.head = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm1(self.first(x)))
        y = F.relu(self.norm2(self.second(y)) + x)
        return self.head(y.mean((2, 3)))


class TransformerBlock(nn.Module):
    """Attention and a feed-forward network, each behind a LayerNorm."""

    def __init__(self, width: int = 128, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, e = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, s, 3, self.heads, e // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, s, e)
        x = x + self.out(y)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Recurrent(nn.Module):
    """An LSTM over the steps of a sequence, written out, and a classifier of its last state."""

    def __init__(self, inputs: int = 64, width: int = 128) -> None:
        super().__init__()
        self.of_input, self.of_state = nn.Linear(inputs, 4 * width), nn.Linear(width, 4 * width, bias=False)
        self.head, self.width = nn.Linear(width, 10), width

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = c = x.new_zeros(x.shape[0], self.width)
        for t in range(x.shape[1]):
            i, f, g, o = (self.of_input(x[:, t]) + self.of_state(h)).chunk(4, dim=1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return self.head(h)


class Depthwise(nn.Module):
    """Two depthwise-separable blocks of MobileNet's kind."""

    def __init__(self) -> None:
        super().__init__()
        widths = [(32, 64), (64, 128)]
        self.blocks = nn.ModuleList(
            nn.ModuleList(
                [
                    nn.Conv2d(a, a, 3, padding=1, groups=a, bias=False),
                    nn.BatchNorm2d(a),
                    nn.Conv2d(a, b, 1, bias=False),
                    nn.BatchNorm2d(b),
                ]
            )
            for a, b in widths
        )
        self.head = nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for depthwise, norm1, pointwise, norm2 in self.blocks:
            x = F.relu6(norm1(depthwise(x)))
            x = F.relu6(norm2(pointwise(x)))
        return self.head(x.mean((2, 3)))


class VisionTransformer(nn.Module):
    """Patches of an image, two transformer blocks, and a classifier of their mean."""

    def __init__(self, width: int = 96, patches: int = 36) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, width, 8, stride=8)
        self.place = nn.Parameter(torch.randn(1, patches, width) * 0.02)
        self.blocks = nn.Sequential(*(TransformerBlock(width, 3) for _ in range(2)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2) + self.place
        return self.head(self.norm(self.blocks(x)).mean(1))


def _classes(*shape: int) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    return lambda: (torch.randn(shape), torch.randint(0, 10, (shape[0],)))


CASES = [
    TrainingCase("mlp", mlp, _classes(64, 784)),
    TrainingCase("resnet_block", ResidualBlock, _classes(8, 32, 28, 28)),
    TrainingCase("transformer_block", TransformerBlock, lambda: (torch.randn(4, 128, 128), torch.randn(4, 128, 128))),
    TrainingCase("lstm", Recurrent, _classes(16, 8, 64)),
    TrainingCase("depthwise", Depthwise, _classes(8, 32, 24, 24)),
    TrainingCase("vit", VisionTransformer, _classes(8, 3, 48, 48)),
]
