"""Layers of usual models at their usual sizes, for `make ship`, which tunes every kernel that they become. Linear layers of
PyTorch's models have weights (outputs, inputs), GPT-2's (inputs, outputs). Batch norms are part of convolutions, as in
models that are served."""

from typing import Annotated

from tilewright import Tensor, nn, xp


def _attended(q: Tensor, k: Tensor, v: Tensor, heads: int, causal: bool) -> Tensor:
    """Attention of (batch, tokens, width) tensors."""
    b, n, c = q.shape
    q, k, v = (t.reshape(b, n, heads, c // heads).permute(0, 2, 1, 3) for t in (q, k, v))
    scores = q @ k.mT * (c // heads) ** -0.5
    if causal:
        scores = xp.where(xp.arange(n) <= xp.arange(n).reshape(n, 1), scores, -xp.inf)
    return (scores.softmax(-1) @ v).permute(0, 2, 1, 3).reshape(b, n, c)


Row = Annotated[Tensor, (768,), "float32"]
Square = Annotated[Tensor, (768, 768), "float32"]
Up = Annotated[Tensor, (3072, 768), "float32"]
UpBias = Annotated[Tensor, (3072,), "float32"]
Down = Annotated[Tensor, (768, 3072), "float32"]


def bert(
    x: Annotated[Tensor, (1, 128, 768), "float32"], q: Square, k: Square, v: Square, a: Row, b: Row, c: Row, o: Square, d: Row,
    up: Up, e: UpBias, down: Down, f: Row, scale1: Row, shift1: Row, scale2: Row, shift2: Row,
) -> Tensor:  # fmt: skip
    """A block of BERT-base, 128 tokens."""
    y = _attended(nn.linear(x, q, a), nn.linear(x, k, b), nn.linear(x, v, c), 12, False)
    x = nn.layer_norm(x + nn.linear(y, o, d), scale1, shift1)
    return nn.layer_norm(x + nn.linear(nn.gelu(nn.linear(x, up, e)), down, f), scale2, shift2)


def vit(
    x: Annotated[Tensor, (1, 197, 768), "float32"], q: Square, k: Square, v: Square, a: Row, b: Row, c: Row, o: Square, d: Row,
    up: Up, e: UpBias, down: Down, f: Row, scale1: Row, shift1: Row, scale2: Row, shift2: Row,
) -> Tensor:  # fmt: skip
    """A block of ViT-B/16, 224 by 224 pixels."""
    y = nn.layer_norm(x, scale1, shift1)
    x = x + nn.linear(_attended(nn.linear(y, q, a), nn.linear(y, k, b), nn.linear(y, v, c), 12, False), o, d)
    return x + nn.linear(nn.gelu(nn.linear(nn.layer_norm(x, scale2, shift2), up, e)), down, f)


def gpt2(
    x: Annotated[Tensor, (1, 128, 768), "float32"], qkv: Annotated[Tensor, (768, 2304), "float32"],
    a: Annotated[Tensor, (2304,), "float32"], o: Square, b: Row, up: Annotated[Tensor, (768, 3072), "float32"], c: UpBias,
    down: Annotated[Tensor, (3072, 768), "float32"], d: Row, scale1: Row, shift1: Row, scale2: Row, shift2: Row,
) -> Tensor:  # fmt: skip
    """A block of GPT-2 with 124 million parameters, 128 tokens."""
    q, k, v = (nn.layer_norm(x, scale1, shift1) @ qkv + a).split(3, -1)
    x = x + (_attended(q, k, v, 12, True) @ o + b)
    return x + (nn.gelu(nn.layer_norm(x, scale2, shift2) @ up + c, approximate="tanh") @ down + d)


def llama(
    x: Annotated[Tensor, (128, 768), "float32"],
    norm: Annotated[Tensor, (768,), "float32"],
    gate: Annotated[Tensor, (2048, 768), "float32"],
    up: Annotated[Tensor, (2048, 768), "float32"],
    down: Annotated[Tensor, (768, 2048), "float32"],
) -> Tensor:
    """The perceptron of a Llama of 110 million parameters, 128 tokens."""
    h = nn.rms_norm(x, norm, eps=1e-5)
    return x + nn.linear(nn.silu(nn.linear(h, gate)) * nn.linear(h, up), down)


def llama_token(
    x: Annotated[Tensor, (1, 768), "float32"],
    norm: Annotated[Tensor, (768,), "float32"],
    gate: Annotated[Tensor, (2048, 768), "float32"],
    up: Annotated[Tensor, (2048, 768), "float32"],
    down: Annotated[Tensor, (768, 2048), "float32"],
) -> Tensor:
    """The same for one token."""
    return llama(x, norm, gate, up, down)


def resnet50(
    x: Annotated[Tensor, (1, 256, 56, 56), "float32"],
    into: Annotated[Tensor, (64, 256, 1, 1), "float32"],
    middle: Annotated[Tensor, (64, 64, 3, 3), "float32"],
    out: Annotated[Tensor, (256, 64, 1, 1), "float32"],
    a: Annotated[Tensor, (64,), "float32"],
    b: Annotated[Tensor, (64,), "float32"],
    c: Annotated[Tensor, (256,), "float32"],
) -> Tensor:
    """A block of the first stage of ResNet-50."""
    y = nn.relu(nn.conv(x, into, a))
    y = nn.relu(nn.conv(y, middle, b, padding=1))
    return nn.relu(x + nn.conv(y, out, c))


def resnet50_late(
    x: Annotated[Tensor, (1, 1024, 14, 14), "float32"],
    into: Annotated[Tensor, (256, 1024, 1, 1), "float32"],
    middle: Annotated[Tensor, (256, 256, 3, 3), "float32"],
    out: Annotated[Tensor, (1024, 256, 1, 1), "float32"],
    a: Annotated[Tensor, (256,), "float32"],
    b: Annotated[Tensor, (256,), "float32"],
    c: Annotated[Tensor, (1024,), "float32"],
) -> Tensor:
    """A block of the third stage."""
    return resnet50(x, into, middle, out, a, b, c)
