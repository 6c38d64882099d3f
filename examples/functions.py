"""Functions of tensors to look at: `tune graph examples/functions.py:attention`. docs/tensor.md quotes what it says."""

from typing import Annotated

from tilewright import Tensor, xp

Rows = Annotated[Tensor, (256, 128), "float32"]
Heads = Annotated[Tensor, (2, 4, 128, 32), "float32"]


def mlp(x: Rows, w1: Annotated[Tensor, (128, 512)], b1: Annotated[Tensor, (512,)], w2: Annotated[Tensor, (512, 128)]):
    """Two layers with a residual and a norm behind them."""
    y = x + (x @ w1 + b1).gelu() @ w2
    return (y - y.mean(-1, keepdims=True)) / (y.var(-1, keepdims=True) + 1e-5).sqrt()


def attention(q: Heads, k: Heads, v: Heads):
    """Causal attention, as one would write it in NumPy."""
    n = q.shape[-2]
    scores = q @ k.mT * q.shape[-1] ** -0.5
    causal = xp.arange(n).reshape(1, n) <= xp.arange(n).reshape(n, 1)
    return xp.where(causal, scores, -xp.inf).softmax(-1) @ v


def products(q: Heads, k: Heads, v: Heads):
    """Without a softmax the scores are an array."""
    return (q @ k.mT) @ v
