"""A multilayer perceptron on two spirals: `python -m tilewright.examples.train_mlp`.

A step of training (forward, backward, Adam) is one graph of a few kernels."""

import argparse
import itertools
import sys

import numpy as np
import tilewright as tw
from tilewright import Tensor, nn, optim


def spirals(n=512, seed=0):
    """Points of two arms (n, 2), and which arm each is of (n,)."""
    rng = np.random.default_rng(seed)
    arm = np.arange(n) % 2
    t = np.sqrt(rng.random(n)) * 3 * np.pi
    x = np.stack([t * np.cos(t + np.pi * arm), t * np.sin(t + np.pi * arm)], 1) / 10
    return (x + rng.normal(0, 0.02, x.shape)).astype("float32"), arm


def weights(sizes, seed=1):
    """Uniform in ±1/√inputs, as PyTorch's Linear starts."""
    rng = np.random.default_rng(seed)
    bounds = [(i**-0.5, i, o) for i, o in itertools.pairwise(sizes)]
    return [{"w": rng.uniform(-b, b, (i, o)).astype("float32"), "b": rng.uniform(-b, b, o).astype("float32")} for b, i, o in bounds]


def model(layers, x):
    """Logits (n, 2)."""
    for layer in layers[:-1]:
        x = (x @ layer["w"] + layer["b"]).tanh()
    return x @ layers[-1]["w"] + layers[-1]["b"]


def main(steps=400, say=print):
    """The loss after each step."""
    points, arms = spirals()
    x, y = Tensor(points), Tensor(arms)
    params = [{k: Tensor(v) for k, v in layer.items()} for layer in weights([2, 64, 64, 2])]
    adam = optim.adam(0.01)
    state = adam.init(params)
    gradient = tw.value_and_grad(lambda p, x, y: nn.cross_entropy(model(p, x), y))

    @tw.jit(donate=("params", "state"))
    def step(params, state, x, y):
        loss, grads = gradient(params, x, y)
        return loss, *adam.update(params, grads, state)

    losses = []
    for i in range(steps):
        loss, params, state = step(params, state, x, y)
        losses.append(loss.item())
        if i % 50 == 0 or i == steps - 1:
            right = (model(params, x).argmax(1) == y).sum().item() / len(arms)
            say(f"step {i:4}  loss {losses[-1]:.4f}  right {right:.1%}")
    return losses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    sys.exit(0 if main(parser.parse_args().steps) else 1)
