"""Sequences of any length: `python examples/pytorch/dynamic_shapes.py`.

Dynamo takes one graph down, with the length as a symbol. Our kernels are made once, and run at every length."""

import tilewright.torch
import torch
from torch import nn
from torch.nn import functional as F


class Reader(nn.Module):
    """Causal attention over tokens (batch, length), and the next token's logits."""

    def __init__(self, tokens=200, width=64):
        super().__init__()
        self.table, self.norm = nn.Embedding(tokens, width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, tokens)

    def forward(self, tokens):
        x = self.table(tokens)
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        return self.out(x + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


def main(lengths=(12, 31, 20, 31), say=print):
    """The largest difference from PyTorch over all lengths."""
    torch.manual_seed(0)
    model = Reader().eval()
    compiled = torch.compile(model, backend="tilewright", dynamic=True)
    worst = 0.0
    with torch.no_grad():
        for length in lengths:
            tokens = torch.randint(0, 200, (2, length))
            worst = max(worst, float((compiled(tokens) - model(tokens)).abs().max()))
            say(f"length {length}: {len(tilewright.torch.report().splitlines())} lines of report, difference {worst:.1e}")
    return worst


if __name__ == "__main__":
    main()
