"""Two models of letters: which letter follows one (a table of bigrams), and which follows eight (embeddings and a hidden
layer; Bengio et al., 2003). `python -m tilewright.examples.char_mlp` trains both and writes a line of each."""

import argparse

import numpy as np
import tilewright as tw
from tilewright import Tensor, nn, optim

from . import made_text

CONTEXT, WIDTH, HIDDEN = 8, 16, 128


def letters():
    """(the alphabet, the text as numbers)."""
    text = made_text.text()
    alphabet = sorted(set(text))
    place = {c: i for i, c in enumerate(alphabet)}
    return alphabet, np.array([place[c] for c in text])


def weights(letters, seed=1):
    """(bigrams' table, the network's parameters)."""
    rng = np.random.default_rng(seed)

    def normal(*shape, scale):
        return (rng.standard_normal(shape) * scale).astype("float32")

    network = {
        "embedding": normal(letters, WIDTH, scale=1.0),
        "w1": normal(CONTEXT * WIDTH, HIDDEN, scale=(CONTEXT * WIDTH) ** -0.5),
        "b1": normal(HIDDEN, scale=0.01),
        "w2": normal(HIDDEN, letters, scale=0.01),
        "b2": normal(letters, scale=0.01),
    }
    return {"table": normal(letters, letters, scale=0.01)}, network


def bigrams(p, x):
    """Logits (n, letters) from the last letter of (n, 8)."""
    return nn.embedding(p["table"], x[:, -1])


def network(p, x):
    """Logits (n, letters) from all of (n, 8)."""
    h = nn.embedding(p["embedding"], x).reshape(-1, CONTEXT * WIDTH)
    return (h @ p["w1"] + p["b1"]).tanh() @ p["w2"] + p["b2"]


def batches(text, count, size, seed=3):
    """Windows of 8 letters and the letter after each."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        at = rng.integers(0, len(text) - CONTEXT, size)
        yield text[at[:, None] + np.arange(CONTEXT)], text[at + CONTEXT]


def train(model, params, text, steps, batch, say):
    """(parameters, the loss after each step)."""
    params = {k: Tensor(v) for k, v in params.items()}
    adam = optim.adam(optim.cosine(0.02, 300, end=0.002))
    state = adam.init(params)
    gradient = tw.value_and_grad(lambda p, x, y: nn.cross_entropy(model(p, x), y))

    @tw.jit(donate=("params", "state"))
    def step(params, state, x, y):
        loss, grads = gradient(params, x, y)
        return loss, *adam.update(params, grads, state)

    losses = []
    for i, (x, y) in enumerate(batches(text, steps, batch)):
        loss, params, state = step(params, state, Tensor(x), Tensor(y))
        losses.append(loss.item())
        if i % 50 == 0 or i == steps - 1:
            say(f"{model.__name__:8} step {i:4}  loss {losses[-1]:.4f}")
    return params, losses


def written(model, params, alphabet, start, count=60, seed=0):
    """Letters drawn one after the other."""
    rng = np.random.default_rng(seed)
    text = list(start)
    weights = tw.jit(lambda params, x: model(params, x).softmax())
    for _ in range(count):
        p = weights(params, Tensor(np.array([text[-CONTEXT:]]))).numpy()[0].astype("float64")
        text.append(rng.choice(len(p), p=p / p.sum()))
    return "".join(alphabet[i] for i in text[CONTEXT:])


def main(steps=300, batch=256, letters_written=60, say=print):
    """The losses of both models after each step."""
    alphabet, text = letters()
    losses = []
    for model, start in zip((bigrams, network), weights(len(alphabet))):
        params, found = train(model, start, text, steps, batch, say)
        losses.append(found)
        say(f"{model.__name__:8} writes {written(model, params, alphabet, text[:CONTEXT], letters_written)!r}")
    return losses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    main(parser.parse_args().steps)
