"""An image network at inference: `python examples/pytorch/inference.py`.

The first call compiles; the report tells which kernels the model became, and what PyTorch computes itself."""

import tilewright.torch
import torch
from torch import nn


def network():
    """A small residual network of pictures (batch, 3, 32, 32)."""

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.first, self.second = (nn.Conv2d(width, width, 3, padding=1) for _ in range(2))

        def forward(self, x):
            return torch.relu(x + self.second(torch.relu(self.first(x))))

    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)]
    return nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), Block(32), nn.MaxPool2d(2), Block(32), *head)


def main(say=print):
    """The largest difference from PyTorch, relative to the largest logit."""
    torch.manual_seed(0)
    model = network().eval()
    pictures = torch.randn(4, 3, 32, 32)
    compiled = torch.compile(model, backend="tilewright")
    with torch.no_grad():
        expected, found = model(pictures), compiled(pictures)
    say(tilewright.torch.report())
    difference = float((found - expected).abs().max() / expected.abs().max())
    say(f"largest difference from PyTorch: {difference:.1e} of the largest logit")
    return difference


if __name__ == "__main__":
    main()
