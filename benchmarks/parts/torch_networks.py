"""Networks as people write them for PyTorch, for `compile_time.py`: residual, dense, mobile and cell networks for images, GPT-2 and BERT.

The networks for images follow their papers (He 2015, Huang 2016, Sandler 2018, Tan 2019, Zoph 2017) in widths, depths and order of
operations. Weights are random, which is all the same to a compiler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn


class Residual(nn.Module):
    """Convolutions beside a way around them."""

    def __init__(self, inside: nn.Module, around: nn.Module, after: nn.Module) -> None:
        super().__init__()
        self.inside, self.around, self.after = inside, around, after

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x` with both ways added."""
        return self.after(self.inside(x) + self.around(x))


def conv(i: int, o: int, k: int = 1, s: int = 1, groups: int = 1, act: Callable[[], nn.Module] | None = nn.ReLU) -> nn.Sequential:
    """A convolution, its norm, and what comes after."""
    made = [nn.Conv2d(i, o, k, s, k // 2, groups=groups, bias=False), nn.BatchNorm2d(o)]
    return nn.Sequential(*made, *([act()] if act else []))


def classifier(width: int, classes: int = 1000) -> list[nn.Module]:
    """The mean over all places, and a linear layer."""
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes)]


def resnet(depths: Sequence[int], bottleneck: bool) -> nn.Module:
    """ResNet of blocks of two convolutions, or of three."""
    layers: list[nn.Module] = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    width = 64
    for stage, depth in enumerate(depths):
        inner = 64 << stage
        out = inner * (4 if bottleneck else 1)
        for n in range(depth):
            s = 2 if stage and n == 0 else 1
            parts = [conv(width, inner), conv(inner, inner, 3, s)] if bottleneck else [conv(width, inner, 3, s)]
            parts.append(conv(inner, out, 1 if bottleneck else 3, act=None))
            around = nn.Identity() if width == out and s == 1 else conv(width, out, 1, s, act=None)
            layers.append(Residual(nn.Sequential(*parts), around, nn.ReLU()))
            width = out
    return nn.Sequential(*layers, *classifier(width))


class DenseBlock(nn.Module):
    """Layers of which each reads what all before it made."""

    def __init__(self, width: int, depth: int, growth: int) -> None:
        super().__init__()
        layers = []
        for n in range(depth):
            i = width + n * growth
            before = [nn.BatchNorm2d(i), nn.ReLU(), nn.Conv2d(i, 4 * growth, 1, bias=False)]
            after = [nn.BatchNorm2d(4 * growth), nn.ReLU(), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)]
            layers.append(nn.Sequential(*before, *after))
        self.layers = nn.ModuleList(layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x` and what each layer made, side by side."""
        found = [x]
        for layer in self.layers:
            found.append(layer(torch.cat(found, 1)))
        return torch.cat(found, 1)


def densenet(depths: Sequence[int], growth: int = 32, width: int = 64) -> nn.Module:
    """DenseNet with bottlenecks."""
    layers: list[nn.Module] = [conv(3, width, 7, 2), nn.MaxPool2d(3, 2, 1)]
    for n, depth in enumerate(depths):
        layers.append(DenseBlock(width, depth, growth))
        width += depth * growth
        layers += [nn.BatchNorm2d(width), nn.ReLU()]
        if n + 1 < len(depths):
            layers += [nn.Conv2d(width, width // 2, 1, bias=False), nn.AvgPool2d(2)]
            width //= 2
    return nn.Sequential(*layers, *classifier(width))


class Squeeze(nn.Module):
    """Channels weighted by their means."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.weights = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, inner, 1), nn.SiLU(), nn.Conv2d(inner, width, 1), nn.Sigmoid()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x` times its weights."""
        return x * self.weights(x)


def inverted(i: int, o: int, k: int, s: int, expand: int, squeeze: bool, act: Callable[[], nn.Module]) -> nn.Module:
    """A wide depthwise convolution between narrow products."""
    wide = i * expand
    parts = [] if expand == 1 else [conv(i, wide, act=act)]
    parts.append(conv(wide, wide, k, s, groups=wide, act=act))
    inside: list[nn.Module] = [*parts, *([Squeeze(wide, max(1, i // 4))] if squeeze else []), conv(wide, o, act=None)]
    return Residual(nn.Sequential(*inside), nn.Identity(), nn.Identity()) if i == o and s == 1 else nn.Sequential(*inside)


def mobile(rows: Sequence[tuple[int, int, int, int, int]], first: int, last: int, squeeze: bool, act: Callable[[], nn.Module]) -> nn.Module:
    """A network of inverted residuals; rows are (expansion, width, repeats, stride, window)."""
    layers: list[nn.Module] = [conv(3, first, 3, 2, act=act)]
    width = first
    for expand, out, repeats, stride, k in rows:
        for n in range(repeats):
            layers.append(inverted(width, out, k, stride if n == 0 else 1, expand, squeeze, act))
            width = out
    return nn.Sequential(*layers, conv(width, last, act=act), *classifier(last))


MOBILENET_V2 = [
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 32, 3, 2, 3),
    (6, 64, 4, 2, 3),
    (6, 96, 3, 1, 3),
    (6, 160, 3, 2, 3),
    (6, 320, 1, 1, 3),
]
EFFICIENTNET_B0 = [
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3),
]  # fmt: skip


class Cell(nn.Module):
    """Five pairs of operations on the last two cells' results, side by side."""

    def __init__(self, before: int, now: int, width: int, s: int, shrink: int) -> None:
        super().__init__()
        self.left, self.right = conv(before, width, 1, shrink), conv(now, width)

        def apart(k: int, stride: int) -> nn.Sequential:
            half = nn.Sequential(
                nn.ReLU(), nn.Conv2d(width, width, k, stride, k // 2, groups=width, bias=False), conv(width, width, act=None)
            )
            again = nn.Sequential(nn.ReLU(), nn.Conv2d(width, width, k, 1, k // 2, groups=width, bias=False), conv(width, width, act=None))
            return nn.Sequential(half, again)

        self.pairs = nn.ModuleList(
            nn.ModuleList(pair)
            for pair in (
                (apart(5, s), apart(3, s)),
                (apart(5, s), apart(3, s)),
                (nn.AvgPool2d(3, s, 1), nn.Identity() if s == 1 else nn.MaxPool2d(3, s, 1)),
                (nn.AvgPool2d(3, s, 1), nn.AvgPool2d(3, s, 1)),
                (apart(3, s), nn.Identity() if s == 1 else nn.MaxPool2d(3, s, 1)),
            )
        )

    def forward(self, before: torch.Tensor, now: torch.Tensor) -> torch.Tensor:
        """What the pairs make."""
        left, right = self.left(before), self.right(now)
        sides = ((right, left), (left, left), (right, left), (left, left), (right, right))
        return torch.cat([a(x) + b(y) for (a, b), (x, y) in zip(self.pairs, sides)], 1)


class Cells(nn.Module):
    """Cells in a row: where one halves the size, the next one's older input is halved as well."""

    def __init__(self, width: int, repeats: int) -> None:
        super().__init__()
        self.first = conv(3, width, 3, 2)
        cells, before, now, halved = [], width, width, 1
        for stage in range(3):
            for n in range(repeats + 1):
                s = 2 if n == 0 else 1
                cells.append(Cell(before, now, width << stage, s, halved))
                before, now, halved = now, 5 * (width << stage), s
        self.cells = nn.ModuleList(cells)
        self.last = nn.Sequential(nn.ReLU(), *classifier(now))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classes."""
        before = now = self.first(x)
        for cell in self.cells:
            before, now = now, cell(before, now)
        return self.last(now)


def gpt2(layers: int) -> nn.Module:
    """GPT-2's blocks by `transformers`, without a cache of keys."""
    from transformers import GPT2Config, GPT2Model

    return GPT2Model(GPT2Config(n_layer=layers, use_cache=False))


def bert(layers: int) -> nn.Module:
    """BERT by `transformers`."""
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(num_hidden_layers=layers))


def image(size: int) -> Callable[[], Any]:
    """One image."""
    return lambda: torch.randn(1, 3, size, size)


def words(n: int) -> Callable[[], Any]:
    """One text."""
    return lambda: torch.randint(0, 1000, (1, n))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Any]]] = {
    "resnet18": (lambda: resnet((2, 2, 2, 2), False), image(224)),
    "resnet50": (lambda: resnet((3, 4, 6, 3), True), image(224)),
    "densenet121": (lambda: densenet((6, 12, 24, 16)), image(224)),
    "densenet121-64": (lambda: densenet((6, 12, 24, 16)), image(64)),
    "densenet201": (lambda: densenet((6, 12, 48, 32)), image(224)),
    "mobilenet_v2": (lambda: mobile(MOBILENET_V2, 32, 1280, False, nn.ReLU6), image(224)),
    "efficientnet_b0": (lambda: mobile(EFFICIENTNET_B0, 32, 1280, True, nn.SiLU), image(224)),
    "nasnet": (lambda: Cells(32, 3), image(224)),
    "gpt2": (lambda: gpt2(12), words(128)),
    "bert": (lambda: bert(12), words(128)),
}
"""Each network, and what it is called with."""
