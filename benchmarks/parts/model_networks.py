"""Whole networks as public collections of PyTorch modules hold them, in small sizes: for `models_vs.py`."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from parts.model_operations import ModelCase, normal, whole
from torch import nn
from torch.nn import functional as F


class Flow(nn.Module):
    """Layers, and what a call does with them."""

    def __init__(self, then: Callable[..., Any], **layers: Any) -> None:
        super().__init__()
        self.then = then
        for name, value in layers.items():
            setattr(self, name, nn.Parameter(value) if isinstance(value, torch.Tensor) else value)

    def forward(self, *inputs: Any) -> Any:
        """What `then` makes of the inputs."""
        return self.then(self, *inputs)


def network(
    name: str, build: Callable[[], nn.Module], *inputs: tuple[int, ...] | Callable[[], torch.Tensor], train: bool = False
) -> ModelCase:
    """A case of a network at inference, or (`train`) with the batch's own statistics."""

    def make() -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return build().train(train), tuple(x() if callable(x) else normal(*x) for x in inputs)

    return ModelCase(name, "network", make)


def residual(*layers: nn.Module) -> nn.Module:
    """x + layers(x)."""
    return Flow(lambda m, x: x + m.body(x), body=nn.Sequential(*layers))


def join(*branches: nn.Module) -> nn.Module:
    """Branches side by side, joined along channels."""
    return Flow(lambda m, x: torch.cat([b(x) for b in m.branches], 1), branches=nn.ModuleList(branches))


def unit(c: int, k: int, size: int, stride: int = 1, groups: int = 1, act: Callable[[], nn.Module] | None = nn.ReLU) -> nn.Sequential:
    """Convolution, batch normalisation, activation."""
    conv = nn.Conv2d(c, k, size, stride, size // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(k), *([act()] if act else []))


def head(channels: int, classes: int = 100) -> list[nn.Module]:
    """Global pool and classes."""
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]


def mlp(*widths: int) -> nn.Module:
    """Linear layers with relu between."""
    pairs = itertools.pairwise(widths)
    return nn.Sequential(*[x for a, b in pairs for x in (nn.Linear(a, b), nn.ReLU())][:-1])


# convolutional networks ---------------------------------------------------------------------------------------------
def lenet() -> nn.Module:
    """LeNet-5."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), mlp(400, 120, 84, 10)
    )


def alexnet() -> nn.Module:
    """AlexNet of an eighth of the last layers' widths."""
    return nn.Sequential(
        nn.Conv2d(3, 96, 11, 4, 2), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Conv2d(96, 256, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Conv2d(256, 384, 3, padding=1), nn.ReLU(), nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Flatten(),
        nn.Dropout(0.0), mlp(256 * 36, 512, 512, 100),
    )  # fmt: skip


def vgg(plan: tuple[int, ...] = (32, 0, 64, 0, 128, 128, 0, 256, 256, 0)) -> nn.Module:
    """VGG with these widths; 0 is a pool."""
    layers: list[nn.Module] = []
    c = 3
    for k in plan:
        layers += [nn.Conv2d(c, k, 3, padding=1), nn.ReLU()] if k else [nn.MaxPool2d(2)]
        c = k or c
    return nn.Sequential(*layers, nn.Flatten(), mlp(c * 49, 512, 100))


def _basic(c: int, k: int, stride: int) -> nn.Module:
    short = unit(c, k, 1, stride, act=None) if stride > 1 or c != k else nn.Identity()
    return Flow(
        lambda m, x: torch.relu(m.body(x) + m.short(x)), body=nn.Sequential(unit(c, k, 3, stride), unit(k, k, 3, act=None)), short=short
    )


def _bottleneck(c: int, k: int, stride: int) -> nn.Module:
    short = unit(c, 4 * k, 1, stride, act=None) if stride > 1 or c != 4 * k else nn.Identity()
    body = nn.Sequential(unit(c, k, 1), unit(k, k, 3, stride), unit(k, 4 * k, 1, act=None))
    return Flow(lambda m, x: torch.relu(m.body(x) + m.short(x)), body=body, short=short)


def resnet_basic() -> nn.Module:
    """A ResNet-18 of half width."""
    blocks = [
        _basic(c, k, s) for c, k, s in [(32, 32, 1), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2)]
    ]
    return nn.Sequential(unit(3, 32, 7, 2), nn.MaxPool2d(3, 2, 1), *blocks, *head(256))


def resnet_bottleneck() -> nn.Module:
    """Five bottleneck blocks."""
    blocks = [_bottleneck(c, k, s) for c, k, s in [(32, 32, 1), (128, 32, 1), (128, 64, 2), (256, 64, 1), (256, 128, 2)]]
    return nn.Sequential(unit(3, 32, 7, 2), nn.MaxPool2d(3, 2, 1), *blocks, *head(512))


def mobilenet_v1() -> nn.Module:
    """Depthwise separable units."""
    plan = [(16, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2)]
    return nn.Sequential(unit(3, 16, 3, 2), *[u for c, k, s in plan for u in (unit(c, c, 3, s, c), unit(c, k, 1))], *head(256))


def _inverted(c: int, k: int, stride: int, expand: int = 6) -> nn.Module:
    body = nn.Sequential(
        unit(c, c * expand, 1, act=nn.ReLU6),
        unit(c * expand, c * expand, 3, stride, c * expand, nn.ReLU6),
        unit(c * expand, k, 1, act=None),
    )
    return residual(body) if stride == 1 and c == k else body


def mobilenet_v2() -> nn.Module:
    """Inverted residuals."""
    plan = [(16, 24, 2), (24, 24, 1), (24, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1)]
    return nn.Sequential(unit(3, 16, 3, 2, act=nn.ReLU6), *[_inverted(*p) for p in plan], *head(64))


def _squeeze(c: int, r: int) -> nn.Module:
    gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, r, 1), nn.SiLU(), nn.Conv2d(r, c, 1), nn.Sigmoid())
    return Flow(lambda m, x: x * m.gate(x), gate=gate)


def _mbconv(c: int, k: int, size: int, stride: int) -> nn.Module:
    e = 6 * c
    body = nn.Sequential(unit(c, e, 1, act=nn.SiLU), unit(e, e, size, stride, e, nn.SiLU), _squeeze(e, c // 4), unit(e, k, 1, act=None))
    return residual(body) if stride == 1 and c == k else body


def efficientnet() -> nn.Module:
    """MBConv blocks with squeeze and excitation."""
    plan = [(16, 24, 3, 2), (24, 24, 3, 1), (24, 40, 5, 2), (40, 40, 5, 1), (40, 80, 3, 2), (80, 80, 3, 1)]
    return nn.Sequential(unit(3, 16, 3, 2, act=nn.SiLU), *[_mbconv(*p) for p in plan], *head(80))


def _dense(c: int, growth: int, layers: int) -> nn.Module:
    def step(c: int) -> nn.Module:
        body = nn.Sequential(nn.BatchNorm2d(c), nn.ReLU(), nn.Conv2d(c, growth, 3, padding=1, bias=False))
        return Flow(lambda m, x: torch.cat((x, m.body(x)), 1), body=body)

    return nn.Sequential(*[step(c + n * growth) for n in range(layers)])


def densenet() -> nn.Module:
    """Two dense blocks and a transition."""
    between = nn.Sequential(nn.BatchNorm2d(128), nn.ReLU(), nn.Conv2d(128, 64, 1, bias=False), nn.AvgPool2d(2))
    return nn.Sequential(unit(3, 32, 7, 2), nn.MaxPool2d(3, 2, 1), _dense(32, 16, 6), between, _dense(64, 16, 6), *head(160))


def inception() -> nn.Module:
    """A stem and two modules of GoogLeNet."""

    def module(c: int, a: int, b: int, d: int) -> nn.Module:
        pool = nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(c, d, 1))
        three, five = (
            nn.Sequential(nn.Conv2d(c, r, 1), nn.ReLU(), nn.Conv2d(r, k, s, padding=s // 2)) for r, k, s in ((a, b, 3), (d, d, 5))
        )
        return join(nn.Conv2d(c, a, 1), three, five, pool)

    return nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(3, 2, 1), module(64, 48, 96, 24), module(192, 64, 128, 32), *head(256)
    )


def squeezenet() -> nn.Module:
    """Fire modules."""

    def fire(c: int, s: int, e: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(c, s, 1),
            nn.ReLU(),
            join(nn.Sequential(nn.Conv2d(s, e, 1), nn.ReLU()), nn.Sequential(nn.Conv2d(s, e, 3, padding=1), nn.ReLU())),
        )

    return nn.Sequential(
        nn.Conv2d(3, 64, 7, 2),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, ceil_mode=True),
        fire(64, 16, 64),
        fire(128, 16, 64),
        nn.MaxPool2d(3, 2, ceil_mode=True),
        fire(128, 32, 128),
        *head(256),
    )


def _shuffled(x: torch.Tensor, groups: int) -> torch.Tensor:
    b, c, h, w = x.shape
    return x.view(b, groups, c // groups, h, w).transpose(1, 2).reshape(b, c, h, w)


def shufflenet() -> nn.Module:
    """Grouped pointwise convolutions with shuffled channels."""

    def block(c: int, groups: int) -> nn.Module:
        return Flow(
            lambda m, x: torch.relu(x + m.last(m.middle(_shuffled(m.first(x), groups)))),
            first=unit(c, c // 4, 1, groups=groups), middle=unit(c // 4, c // 4, 3, groups=c // 4, act=None), last=unit(c // 4, c, 1, groups=groups, act=None),
        )  # fmt: skip

    return nn.Sequential(
        unit(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1), unit(24, 240, 1), block(240, 3), block(240, 3), block(240, 3), *head(240)
    )


def regnet() -> nn.Module:
    """Stages of grouped convolutions."""
    return nn.Sequential(
        *[x for c, k in ((3, 32), (32, 64), (64, 128)) for x in (unit(c, k, 3), unit(k, k, 3, groups=8), nn.MaxPool2d(2))], *head(128)
    )


def unet() -> nn.Module:
    """Two levels down and up."""

    def two(c: int, k: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(c, k, 3, padding=1), nn.BatchNorm2d(k), nn.Softmax(-1), nn.Conv2d(k, k, 3, padding=1), nn.BatchNorm2d(k), nn.ReLU()
        )

    def flow(m: Any, x: torch.Tensor) -> torch.Tensor:
        a = m.down1(x)
        b = m.down2(F.max_pool2d(a, 2))
        c = m.middle(F.max_pool2d(b, 2))
        b = m.up2(torch.cat((m.grow2(c), b), 1))
        return m.last(m.up1(torch.cat((m.grow1(b), a), 1)))

    return Flow(
        flow, down1=two(8, 16), down2=two(16, 32), middle=two(32, 64), grow2=nn.ConvTranspose2d(64, 32, 2, 2), up2=two(64, 32),
        grow1=nn.ConvTranspose2d(32, 16, 2, 2), up1=two(32, 16), last=nn.Conv2d(16, 4, 1),
    )  # fmt: skip


def convnext() -> nn.Module:
    """Depthwise 7 x 7, norm of channels, pointwise by linear layers."""

    def block(c: int) -> nn.Module:
        def flow(m: Any, x: torch.Tensor) -> torch.Tensor:
            y = m.norm(m.deep(x).permute(0, 2, 3, 1))
            return x + (m.scale * m.down(F.gelu(m.up(y)))).permute(0, 3, 1, 2)

        return Flow(
            flow,
            deep=nn.Conv2d(c, c, 7, padding=3, groups=c),
            norm=nn.LayerNorm(c),
            up=nn.Linear(c, 4 * c),
            down=nn.Linear(4 * c, c),
            scale=torch.full((c,), 0.1),
        )

    return nn.Sequential(nn.Conv2d(3, 64, 4, 4), block(64), block(64), nn.Conv2d(64, 128, 2, 2), block(128), block(128), *head(128))


# attention ------------------------------------------------------------------------------------------------------------
def _attention_block(c: int, heads: int, causal: bool, act: type[nn.Module] = nn.GELU) -> nn.Module:
    def flow(m: Any, x: torch.Tensor) -> torch.Tensor:
        b, s, _ = x.shape
        q, k, v = m.qkv(m.norm1(x)).view(b, s, 3, heads, c // heads).permute(2, 0, 3, 1, 4)
        x = x + m.out(F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).reshape(b, s, c))
        return x + m.feed(m.norm2(x))

    feed = nn.Sequential(nn.Linear(c, 4 * c), act(), nn.Linear(4 * c, c))
    return Flow(flow, qkv=nn.Linear(c, 3 * c), out=nn.Linear(c, c), norm1=nn.LayerNorm(c), norm2=nn.LayerNorm(c), feed=feed)


def vit() -> nn.Module:
    """A ViT of four blocks."""

    def flow(m: Any, x: torch.Tensor) -> torch.Tensor:
        x = m.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat((m.token.expand(x.shape[0], -1, -1), x), 1) + m.places
        return m.head(m.norm(m.blocks(x))[:, 0])

    blocks = nn.Sequential(*[_attention_block(192, 3, False) for _ in range(4)])
    return Flow(
        flow,
        patch=nn.Conv2d(3, 192, 16, 16),
        token=normal(1, 1, 192),
        places=normal(1, 197, 192),
        blocks=blocks,
        norm=nn.LayerNorm(192),
        head=nn.Linear(192, 100),
    )


def gpt() -> nn.Module:
    """A GPT of four blocks, with its own attention by a mask and tanh's GELU."""

    def attend(m: Any, x: torch.Tensor) -> torch.Tensor:
        b, s, c = x.shape
        q, k, v = (t.view(b, s, 6, c // 6).transpose(1, 2) for t in m.qkv(x).split(c, 2))
        scores = (q @ k.transpose(-2, -1)) * (c // 6) ** -0.5
        scores = scores.masked_fill(m.mask[:, :, :s, :s] == 0, float("-inf"))
        return m.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, s, c))

    def block(c: int) -> nn.Module:
        attention = Flow(attend, qkv=nn.Linear(c, 3 * c), out=nn.Linear(c, c))
        attention.register_buffer("mask", torch.tril(torch.ones(256, 256)).view(1, 1, 256, 256))
        feed = nn.Sequential(nn.Linear(c, 4 * c), nn.GELU(approximate="tanh"), nn.Linear(4 * c, c))
        return nn.Sequential(residual(nn.LayerNorm(c), attention), residual(nn.LayerNorm(c), feed))

    def flow(m: Any, tokens: torch.Tensor) -> torch.Tensor:
        return m.head(m.norm(m.blocks(m.table(tokens) + m.places[: tokens.shape[1]])))

    return Flow(
        flow,
        table=nn.Embedding(1000, 192),
        places=normal(256, 192),
        blocks=nn.Sequential(*[block(192) for _ in range(4)]),
        norm=nn.LayerNorm(192),
        head=nn.Linear(192, 1000, bias=False),
    )


def swin() -> nn.Module:
    """Attention in windows of 7, shifted in every second block."""

    def attend(m: Any, x: torch.Tensor) -> torch.Tensor:
        b, h, w, c = x.shape
        if m.shift:
            x = torch.roll(x, (-m.shift, -m.shift), (1, 2))
        x = x.view(b, h // 7, 7, w // 7, 7, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 49, c)
        q, k, v = m.qkv(x).reshape(-1, 49, 3, 3, c // 3).permute(2, 0, 3, 1, 4)
        scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1) * m.scale.clamp(max=4.6).exp() + m.bias
        x = m.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(-1, 49, c))
        x = x.view(b, h // 7, w // 7, 7, 7, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        return torch.roll(x, (m.shift, m.shift), (1, 2)) if m.shift else x

    def block(c: int, shift: int) -> nn.Module:
        attention = Flow(attend, qkv=nn.Linear(c, 3 * c), out=nn.Linear(c, c), scale=normal(3, 1, 1), bias=normal(1, 3, 49, 49))
        attention.shift = shift
        return nn.Sequential(residual(attention, nn.LayerNorm(c)), residual(mlp(c, 4 * c, c), nn.LayerNorm(c)))

    def flow(m: Any, x: torch.Tensor) -> torch.Tensor:
        return m.head(m.blocks(m.patch(x).permute(0, 2, 3, 1)).mean((1, 2)))

    return Flow(flow, patch=nn.Conv2d(3, 96, 4, 4), blocks=nn.Sequential(block(96, 0), block(96, 3)), head=nn.Linear(96, 100))


def encoder() -> nn.Module:
    """PyTorch's own encoder layer."""
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True), 2, enable_nested_tensor=False)


# sequences ------------------------------------------------------------------------------------------------------------
def recurrent(kind: type[nn.Module], layers: int = 2, both: bool = False) -> Callable[[], nn.Module]:
    """Layers of a recurrent kind and a linear one."""

    def build() -> nn.Module:
        net = kind(64, 96, layers, batch_first=True, bidirectional=both)
        return Flow(lambda m, x: m.last(m.net(x)[0][:, -1]), net=net, last=nn.Linear(192 if both else 96, 10))

    return build


def cell() -> nn.Module:
    """A recurrent cell, sixteen times."""

    def flow(m: Any, x: torch.Tensor) -> torch.Tensor:
        h = torch.zeros(x.shape[1], 128)
        found = []
        for step in x:
            h = torch.tanh(m.inner(torch.cat((step, h), 1)))
            found.append(m.outer(h))
        return torch.stack(found)

    return Flow(flow, inner=nn.Linear(64 + 128, 128), outer=nn.Linear(128, 32))


def mamba() -> nn.Module:
    """State-space sums in chunks: products with decays from segment sums."""

    def sums(x: torch.Tensor) -> torch.Tensor:
        n = x.shape[-1]
        total = torch.cumsum(x, -1)
        found = total[..., :, None] - total[..., None, :]
        return found.masked_fill(~torch.tril(torch.ones(n, n, dtype=torch.bool)), -torch.inf)

    def flow(m: Any, x: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        b, length, h, p = x.shape
        c = length // 32
        x, bs, cs = (t.reshape(b, c, 32, h, -1) for t in (x, m.b.expand(b, -1, -1, -1), m.c.expand(b, -1, -1, -1)))
        a = -F.softplus(a).reshape(b, c, 32, h).permute(0, 3, 1, 2)
        total = torch.cumsum(a, -1)
        inside = torch.einsum("bclhn,bcshn,bhcls,bcshp->bclhp", cs, bs, torch.exp(sums(a)), x)
        states = torch.einsum("bclhn,bhcl,bclhp->bchpn", bs, torch.exp(total[..., -1:] - total), x)
        states = torch.cat((torch.zeros_like(states[:, :1]), states), 1)
        decay = torch.exp(sums(F.pad(total[..., -1], (1, 0))))
        states = torch.einsum("bhzc,bchpn->bzhpn", decay, states)[:, :-1]
        return (inside + torch.einsum("bclhn,bchpn,bhcl->bclhp", cs, states, torch.exp(total))).reshape(b, length, h, p)

    return Flow(flow, b=normal(1, 128, 4, 16), c=normal(1, 128, 4, 16))


def netvlad() -> nn.Module:
    """Descriptors by soft assignment to clusters."""

    def flow(m: Any, x: torch.Tensor) -> torch.Tensor:
        assign = torch.softmax(m.norm(x.reshape(-1, 64) @ m.clusters), 1)[:, :16].view(x.shape[0], -1, 16)
        a = assign.sum(1, keepdim=True) * m.centres
        found = torch.matmul(assign.transpose(1, 2), x).transpose(1, 2) - a
        return F.normalize(F.normalize(found).reshape(-1, 64 * 16))

    return Flow(flow, clusters=normal(64, 18) / 8, norm=nn.BatchNorm1d(18), centres=normal(1, 64, 16) / 8)


def autoencoder() -> nn.Module:
    """Strided convolutions down and transposed ones up."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 4, 2, 1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 4, 2, 1),
        nn.ReLU(),
        nn.ConvTranspose2d(64, 32, 4, 2, 1),
        nn.ReLU(),
        nn.ConvTranspose2d(32, 3, 4, 2, 1),
        nn.Sigmoid(),
    )


NETWORKS = [
    network("MLP", lambda: mlp(784, 1000, 500, 10), (64, 784)),
    network("MLP, deep and narrow", lambda: mlp(256, *[128] * 8, 10), (127, 256)),
    network("LeNet", lenet, (64, 1, 32, 32)),
    network("AlexNet", alexnet, (2, 3, 224, 224)),
    network("VGG", vgg, (2, 3, 112, 112)),
    network("ResNet, basic", resnet_basic, (2, 3, 128, 128)),
    network("ResNet, basic, training statistics", resnet_basic, (2, 3, 115, 120), train=True),
    network("ResNet, bottleneck", resnet_bottleneck, (2, 3, 128, 128)),
    network("MobileNet V1", mobilenet_v1, (2, 3, 128, 128)),
    network("MobileNet V2", mobilenet_v2, (2, 3, 128, 128)),
    network("EfficientNet", efficientnet, (2, 3, 112, 112)),
    network("EfficientNet, training statistics", efficientnet, (2, 3, 109, 111), train=True),
    network("DenseNet", densenet, (2, 3, 112, 112)),
    network("DenseNet block, training statistics", lambda: _dense(32, 16, 6), (2, 32, 57, 57), train=True),
    network("Inception", inception, (2, 3, 112, 112)),
    network("SqueezeNet", squeezenet, (2, 3, 127, 127)),
    network("ShuffleNet", shufflenet, (2, 3, 112, 112)),
    network("RegNet", regnet, (2, 3, 64, 63)),
    network("UNet", unet, (1, 8, 64, 96), train=True),
    network("ConvNeXt", convnext, (2, 3, 128, 128)),
    network("autoencoder", autoencoder, (4, 3, 64, 64)),
    network("ViT", vit, (1, 3, 224, 224)),
    network("Swin", swin, (1, 3, 224, 224)),
    network("GPT", gpt, whole(0, 1000, 2, 127)),
    network("transformer encoder", encoder, (4, 100, 128)),
    network("LSTM", recurrent(nn.LSTM), (8, 50, 64)),
    network("LSTM, both ways", recurrent(nn.LSTM, 1, True), (8, 33, 64)),
    network("GRU", recurrent(nn.GRU), (8, 50, 64)),
    network("RNN cell", cell, (16, 32, 64)),
    network("state-space sums", mamba, (2, 128, 4, 32), (2, 128, 4)),
    network("NetVLAD", netvlad, (8, 100, 64)),
]
"""All of them."""
