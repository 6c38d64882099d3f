"""A convolutional network that tells small pictures apart: `python -m tilewright.examples.train_convnet`.

The pictures (12 × 12, with noise) show a horizontal bar, a vertical bar, a cross or a square, anywhere."""

import argparse

import numpy as np
import tilewright as tw
from tilewright import Tensor, nn, optim

SIDE, CLASSES = 12, 4


def pictures(n=512, seed=0):
    """(n, 1, 12, 12) float32 and the classes (n,)."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 0.3, (n, 1, SIDE, SIDE)).astype("float32")
    labels = rng.integers(0, CLASSES, n)
    for image, label in zip(x[:, 0], labels):
        r, c = rng.integers(0, SIDE - 5, 2)
        shape = image[r : r + 5, c : c + 5]
        if label in (0, 2):
            shape[2] += 1
        if label in (1, 2):
            shape[:, 2] += 1
        if label == 3:
            shape[[0, -1]] += 1
            shape[1:-1, [0, -1]] += 1
    return x, labels


def weights(seed=1):
    """Uniform in ±1/√inputs, as PyTorch's layers start."""
    rng = np.random.default_rng(seed)

    def layer(shape, inputs):
        b = inputs**-0.5
        return {"w": rng.uniform(-b, b, shape).astype("float32"), "b": rng.uniform(-b, b, shape[0]).astype("float32")}

    return {"first": layer((8, 1, 3, 3), 9), "second": layer((16, 8, 3, 3), 72), "out": layer((CLASSES, 144), 144)}


def model(p, x):
    """Logits (n, 4)."""
    x = nn.max_pool(nn.relu(nn.conv(x, p["first"]["w"], p["first"]["b"], padding=1)), 2)
    x = nn.max_pool(nn.relu(nn.conv(x, p["second"]["w"], p["second"]["b"], padding=1)), 2)
    return nn.linear(x.flatten(1), p["out"]["w"], p["out"]["b"])


def main(steps=150, batch=64, say=print):
    """The loss after each step."""
    images, labels = pictures()
    params = {k: {n: Tensor(v) for n, v in layer.items()} for k, layer in weights().items()}
    adam = optim.adam(0.01)
    state = adam.init(params)
    gradient = tw.value_and_grad(lambda p, x, y: nn.cross_entropy(model(p, x), y))

    @tw.jit(donate=("params", "state"))
    def step(params, state, x, y):
        loss, grads = gradient(params, x, y)
        return loss, *adam.update(params, grads, state)

    losses = []
    for i in range(steps):
        at = (i * batch) % len(images)
        loss, params, state = step(params, state, Tensor(images[at : at + batch]), Tensor(labels[at : at + batch]))
        losses.append(loss.item())
        if i % 10 == 0 or i == steps - 1:
            say(f"step {i:4}  loss {losses[-1]:.4f}")
    fresh, truth = pictures(256, seed=2)
    right = (model(params, Tensor(fresh)).argmax(1) == Tensor(truth)).sum().item() / len(truth)
    say(f"right on pictures never seen: {right:.1%}")
    return losses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=150)
    main(parser.parse_args().steps)
