"""A model in bfloat16: `python examples/pytorch/bfloat16.py`.

Weights and activations are stored in 16 bits. Sums are float32, and each result is rounded once, where it is stored."""

import copy

import tilewright.torch
import torch
from torch import nn


def main(say=print):
    """The errors of PyTorch's bfloat16 and of ours, against float64, relative to the largest element."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.LayerNorm(256), nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 64)).eval().to(torch.bfloat16)
    x = torch.randn(32, 256, dtype=torch.bfloat16)
    compiled = torch.compile(model, backend="tilewright")
    with torch.no_grad():
        exact = copy.deepcopy(model).double()(x.double())
        errors = [float((y.double() - exact).abs().max() / exact.abs().max()) for y in (model(x), compiled(x))]
    say(f"error in bfloat16: PyTorch {errors[0]:.2e}, ours {errors[1]:.2e}")
    say(tilewright.torch.report())
    return errors


if __name__ == "__main__":
    main()
