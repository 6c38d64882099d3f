"""GPT-2 (Radford et al., 2019) trained from nothing: `python -m tilewright.examples.gpt2`.

By default a small one, on letters of made-up sentences, in less than a minute on two cores. `--size 124M` has the shapes of
the model that was published, and `--text FILE` another text. The loss is the cross-entropy of h · Wᵀ, W being the
embedding; attention is written out, and becomes one kernel forward and three backward."""

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tilewright as tw
from tilewright import Tensor, nn, optim

from . import made_text


@dataclass(frozen=True)
class Size:
    """A model's shapes."""

    layers: int = 2
    heads: int = 4
    width: int = 64
    context: int = 64
    tokens: int = 256


SIZES = {"tiny": Size(), "124M": Size(12, 12, 768, 1024, 50257)}


def encode(text):
    """Bytes as tokens."""
    return np.frombuffer(text.encode(), np.uint8).astype("int64")


def decode(tokens):
    """The text of tokens."""
    return bytes(int(t) % 256 for t in tokens).decode(errors="replace")


def weights(size, seed=0):
    """Normal with deviation 0.02, less for what is added to the residual stream, as in GPT-2."""
    rng = np.random.default_rng(seed)
    d = size.width

    def normal(*shape, scale=0.02):
        return rng.normal(0, scale, shape).astype("float32")

    def layer(inputs, outputs, scale=0.02):
        return {"w": normal(inputs, outputs, scale=scale), "b": np.zeros(outputs, "float32")}

    def norm():
        return {"w": np.ones(d, "float32"), "b": np.zeros(d, "float32")}

    last = 0.02 / (2 * size.layers) ** 0.5
    block = [
        {
            "ln1": norm(),
            "qkv": layer(d, 3 * d),
            "out": layer(d, d, last),
            "ln2": norm(),
            "up": layer(d, 4 * d),
            "down": layer(4 * d, d, last),
        }
        for _ in range(size.layers)
    ]
    return {"tokens": normal(size.tokens, d), "places": normal(size.context, d), "blocks": block, "ln": norm()}


def norm(p, x):
    """Layer normalisation."""
    return nn.layer_norm(x, p["w"], p["b"])


def dense(p, x):
    """x · w + b."""
    return x @ p["w"] + p["b"]


def attention(q, k, v):
    """Causal attention of (batch, heads, sequence, width) tensors, as it is defined."""
    n, d = q.shape[-2:]
    at = Tensor(np.arange(n))
    scores = (at <= at.reshape(n, 1)).where(q @ k.mT * d**-0.5, float("-inf"))
    return scores.softmax(-1) @ v


def block(p, x, heads):
    """Attention and a perceptron, each added to its input."""
    b, n, c = x.shape
    q, k, v = (t.reshape(b, n, heads, c // heads).permute(0, 2, 1, 3) for t in dense(p["qkv"], norm(p["ln1"], x)).split(3, -1))
    x = x + dense(p["out"], attention(q, k, v).permute(0, 2, 1, 3).reshape(b, n, c))
    return x + dense(p["down"], nn.gelu(dense(p["up"], norm(p["ln2"], x)), approximate="tanh"))


def hidden(p, x, size):
    """(batch, sequence) tokens → (batch, sequence, width)."""
    h = nn.embedding(p["tokens"], x) + p["places"][: x.shape[1]]
    for layer in p["blocks"]:
        h = block(layer, h, size.heads)
    return norm(p["ln"], h)


def loss_of(p, x, y, size):
    """The cross-entropy of the next token, on average."""
    h = hidden(p, x, size).reshape(-1, size.width)
    return nn.cross_entropy(h @ p["tokens"].mT, y.reshape(-1))


def batches(data, count, batch, context, seed=1):
    """Windows of tokens, and the same ones a token on."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        at = rng.integers(0, len(data) - context, batch)[:, None] + np.arange(context)
        yield data[at], data[at + 1]


def trainer(size, steps, rate=3e-3):
    """(a step of training, the optimiser): parameters, state, tokens and next tokens → loss, parameters, state."""
    adamw = optim.adamw(
        optim.cosine(rate, steps, warmup=max(1, steps // 10), end=rate / 10), (0.9, 0.95), weight_decay=0.1, decays=lambda p: p.ndim > 1
    )
    gradient = tw.value_and_grad(lambda p, x, y: loss_of(p, x, y, size))

    @tw.jit(donate=("params", "state"))
    def step(params, state, x, y):
        loss, grads = gradient(params, x, y)
        grads, _ = optim.clip_by_global_norm(grads, 1.0)
        return loss, *adamw.update(params, grads, state)

    return step, adamw


def written(params, size, start, count):
    """`count` tokens after `start`, each the likeliest."""
    tokens = list(start)
    logits = tw.jit(lambda params, x: hidden(params, x, size)[0] @ params["tokens"].mT)
    for _ in range(count):
        seen = tokens[-size.context :]
        padded = np.array([seen + [0] * (size.context - len(seen))])  # one shape: one set of kernels
        tokens.append(int(logits(params, Tensor(padded)).numpy()[len(seen) - 1].argmax()))
    return decode(tokens)


def main(steps=600, size="tiny", batch=8, context=None, text=None, say=print, tokens_written=48):
    """The loss after each step. `size`: a name or a Size."""
    shapes = SIZES.get(size, size)
    data = encode(text or made_text.text())
    params = tw.tree_map(Tensor, weights(shapes))
    step, adamw = trainer(shapes, steps)
    state = adamw.init(params)
    losses = []
    for i, (x, y) in enumerate(batches(data, steps, batch, context or shapes.context)):
        began = time.perf_counter()
        loss, params, state = step(params, state, Tensor(x), Tensor(y))
        losses.append(loss.item())
        if i % 50 == 0 or i == steps - 1:
            say(f"step {i:4}  loss {losses[-1]:.4f}  {x.size / (time.perf_counter() - began):,.0f} tokens/s")
    say(repr(written(params, shapes, data[:16], tokens_written)))
    return losses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--context", type=int, default=None, help="tokens of a sequence (the model's own by default)")
    parser.add_argument("--text", type=Path, default=None, help="a file to learn instead of made-up sentences")
    given = parser.parse_args()
    main(given.steps, given.size, given.batch, given.context, given.text.read_text() if given.text else None)
