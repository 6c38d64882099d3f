"""An LSTM learns to add: two marked numbers of a long sequence, the adding problem of S. Hochreiter and J. Schmidhuber (1997).

The steps are one `scan`: captured, compiled and tuned once, whatever the length. `python examples/lstm.py`, and
`tune graph examples/lstm.py:layer` shows the kernels of a step."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import tilewright as tw
from tilewright import Tensor, optim, xp

STEPS, BATCH, HIDDEN = 60, 32, 32


def layer(
    xs: Annotated[Tensor, (STEPS, BATCH, 2)], w: Annotated[Tensor, (2, 4 * HIDDEN)], u: Annotated[Tensor, (HIDDEN, 4 * HIDDEN)],
    b: Annotated[Tensor, (4 * HIDDEN,)],
) -> Any:  # fmt: skip
    """The last state of an LSTM over (steps, batch, features). What the inputs bring is one product before the loop."""

    def step(carry: Any, brought: Any) -> Any:
        h, c = carry
        i, f, new, o = (brought + h @ u).split(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * new.tanh()
        return (o.sigmoid() * c.tanh(), c), None

    zero = xp.zeros((xs.shape[1], u.shape[0]))
    (h, _), _ = tw.scan(step, (zero, zero), xs @ w + b)
    return h


def loss(params: Any, xs: Any, y: Any) -> Any:
    """Mean squared error of the sum."""
    h = layer(xs, params["w"], params["u"], params["b"])
    return ((h @ params["out"])[:, 0] - y).square().mean()


def batch(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Numbers, two of them marked, and their sum."""
    xs = np.zeros((STEPS, BATCH, 2), np.float32)
    xs[..., 0] = rng.uniform(0, 1, (STEPS, BATCH))
    for j in range(BATCH):
        xs[rng.choice(STEPS, 2, replace=False), j, 1] = 1
    return xs, (xs[..., 0] * xs[..., 1]).sum(0)


def train(steps: int = 1500, seed: int = 0) -> list[float]:
    """The loss of each step."""
    rng = np.random.default_rng(seed)
    sizes = {"w": (2, 4 * HIDDEN), "u": (HIDDEN, 4 * HIDDEN), "b": (4 * HIDDEN,), "out": (HIDDEN, 1)}
    params = {k: Tensor((rng.standard_normal(s) / np.sqrt(s[0])).astype(np.float32)) for k, s in sizes.items()}
    adam = optim.adam(3e-3)
    state = adam.init(params)

    @tw.jit
    def update(params: Any, state: Any, xs: Any, y: Any) -> Any:
        value, slope = tw.value_and_grad(loss)(params, xs, y)
        params, state = adam.update(params, slope, state)
        return value, params, state

    found = []
    for _ in range(steps):
        value, params, state = update(params, state, *batch(rng))
        found.append(value.item())
    return found


if __name__ == "__main__":
    losses = train()
    for at in range(0, len(losses), 100):
        print(f"step {at:5}  mean squared error {np.mean(losses[at : at + 100]):.4f}")
