"""A step of training, compiled: `python examples/pytorch/training.py`.

Forward and backward pass become two graphs of our kernels. The optimiser is PyTorch's."""

import tilewright.torch
import torch
from torch import nn
from torch.nn import functional as F


def main(steps=60, say=print):
    """The losses of the steps: a network learns which of two spirals a point lies on."""
    torch.manual_seed(0)
    arms = torch.arange(512) % 2
    along = torch.rand(512).sqrt() * 3 * torch.pi
    points = torch.stack([along * torch.cos(along + torch.pi * arms), along * torch.sin(along + torch.pi * arms)], 1) / 10
    model = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
    compiled = torch.compile(model, backend="tilewright")
    learning = torch.optim.AdamW(model.parameters(), 1e-2)
    losses = []
    for step in range(steps):
        learning.zero_grad()
        loss = F.cross_entropy(compiled(points), arms)
        loss.backward()
        learning.step()
        losses.append(loss.item())
        if step % 20 == 0:
            say(f"step {step:3}: {losses[-1]:.4f}")
    say(f"last loss: {losses[-1]:.4f}")
    say(tilewright.torch.report())
    return losses


if __name__ == "__main__":
    main()
