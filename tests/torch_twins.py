"""The examples' models in PyTorch, from the same starts and data. `python tests/torch_twins.py` writes their losses to
`tests/torch_losses.json` (where PyTorch is installed, and Tilewright beside it, or found on PYTHONPATH)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
RECORDED = ROOT / "tests" / "torch_losses.json"

STEPS = {"train_mlp": 10, "train_convnet": 6, "char_mlp": 8, "gpt2": 20}
"""Steps that tests compare."""
SMALL = (1, 2, 16, 16, 128)
"""Layers, heads, width, context and tokens of the GPT-2 that tests compare; batches of 2."""


def descended(params: list[Any], optimiser: Any, batches: Any, loss_of: Callable[..., Any]) -> list[float]:
    """The loss after each step."""
    losses = []
    for batch in batches:
        optimiser.zero_grad()
        loss = loss_of(*batch)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def leaves(tree: Any) -> Any:
    """NumPy arrays as parameters."""
    import torch

    if isinstance(tree, dict):
        return {k: leaves(v) for k, v in tree.items()}
    if isinstance(tree, list):
        return [leaves(v) for v in tree]
    return torch.tensor(tree, requires_grad=True)


def flat(tree: Any) -> list[Any]:
    """The parameters of a tree."""
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else None
    return [tree] if parts is None else [p for t in parts for p in flat(t)]


def train_mlp(steps: int) -> list[float]:
    """`examples/train_mlp.py`."""
    import torch
    from tilewright.examples import train_mlp as example

    points, arms = (torch.tensor(a) for a in example.spirals())
    params = leaves(example.weights([2, 64, 64, 2]))

    def loss() -> Any:
        x = points
        for layer in params[:-1]:
            x = (x @ layer["w"] + layer["b"]).tanh()
        return torch.nn.functional.cross_entropy(x @ params[-1]["w"] + params[-1]["b"], arms)

    return descended(params, torch.optim.Adam(flat(params), 0.01), [()] * steps, loss)


def train_convnet(steps: int) -> list[float]:
    """`examples/train_convnet.py`."""
    import torch
    from tilewright.examples import train_convnet as example

    images, labels = (torch.tensor(a) for a in example.pictures())
    params = leaves(example.weights())
    F = torch.nn.functional

    def loss(x: Any, y: Any) -> Any:
        for name in ("first", "second"):
            x = F.max_pool2d(F.relu(F.conv2d(x, params[name]["w"], params[name]["b"], padding=1)), 2)
        return F.cross_entropy(F.linear(x.flatten(1), params["out"]["w"], params["out"]["b"]), y)

    places = [(i * 64) % len(images) for i in range(steps)]
    batches = [(images[at : at + 64], labels[at : at + 64]) for at in places]
    return descended(params, torch.optim.Adam(flat(params), 0.01), batches, loss)


def char_mlp(steps: int) -> list[list[float]]:
    """`examples/char_mlp.py`: both models."""
    import torch
    from tilewright.examples import char_mlp as example

    alphabet, text = example.letters()
    table, network = (leaves(w) for w in example.weights(len(alphabet)))
    F = torch.nn.functional

    def bigrams(x: Any, y: Any) -> Any:
        return F.cross_entropy(table["table"][x[:, -1]], y)

    def letters(x: Any, y: Any) -> Any:
        h = network["embedding"][x].reshape(len(x), -1)
        return F.cross_entropy((h @ network["w1"] + network["b1"]).tanh() @ network["w2"] + network["b2"], y)

    out = []
    for params, loss in ((table, bigrams), (network, letters)):
        adam = torch.optim.Adam(flat(params), 0.02)
        rate = torch.optim.lr_scheduler.LambdaLR(adam, lambda t: 0.1 + 0.9 * (1 + np.cos(np.pi * min(t / 300, 1))) / 2)
        losses = []
        for x, y in example.batches(text, steps, 256):
            losses += descended(params, adam, [(torch.tensor(x), torch.tensor(y))], loss)
            rate.step()
        out.append(losses)
    return out


def gpt2(steps: int, shapes: tuple[int, ...] = SMALL, batch: int = 2, total: int | None = None) -> list[float]:
    """`examples/gpt2.py`; `total`: the steps that the schedule counts."""
    import torch
    from tilewright.examples import gpt2 as example
    from tilewright.examples import made_text

    size = example.Size(*shapes)
    data = example.encode(made_text.text())
    params = leaves(example.weights(size))
    F = torch.nn.functional

    def norm(p: Any, x: Any) -> Any:
        return F.layer_norm(x, (size.width,), p["w"], p["b"])

    def dense(p: Any, x: Any) -> Any:
        return x @ p["w"] + p["b"]

    def loss_of(x: Any, y: Any) -> Any:
        b, n = x.shape
        h = params["tokens"][x] + params["places"][:n]
        for p in params["blocks"]:
            parts = dense(p["qkv"], norm(p["ln1"], h)).split(size.width, -1)
            q, k, v = (t.reshape(b, n, size.heads, -1).transpose(1, 2) for t in parts)
            y_ = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, -1)
            h = h + dense(p["out"], y_)
            h = h + dense(p["down"], F.gelu(dense(p["up"], norm(p["ln2"], h)), approximate="tanh"))
        h = norm(params["ln"], h).reshape(b * n, -1)
        return F.cross_entropy(h @ params["tokens"].T, y.reshape(-1))

    every = flat(params)
    groups = [
        {"params": [p for p in every if p.ndim > 1], "weight_decay": 0.1},
        {"params": [p for p in every if p.ndim == 1], "weight_decay": 0.0},
    ]
    rate, total = 3e-3, total or steps
    adamw = torch.optim.AdamW(groups, rate, betas=(0.9, 0.95))
    warm = max(1, total // 10)

    def scale(t: int) -> float:
        part = min(max((t - warm) / max(total - warm, 1), 0), 1)
        return (t + 1) / warm if t < warm else float(0.1 + 0.9 * 0.5 * (1 + np.cos(np.pi * part)))

    schedule = torch.optim.lr_scheduler.LambdaLR(adamw, scale)
    losses = []
    for x, y in example.batches(data, steps, batch, size.context):
        adamw.zero_grad()
        loss = loss_of(torch.tensor(x), torch.tensor(y))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(every, 1.0)
        adamw.step()
        schedule.step()
        losses.append(loss.item())
    return losses


TWINS: dict[str, Callable[[int], Any]] = {"train_mlp": train_mlp, "train_convnet": train_convnet, "char_mlp": char_mlp, "gpt2": gpt2}


def whole() -> dict[str, float]:
    """The average loss of the last ten steps of whole runs."""
    mean = lambda losses: float(np.mean(losses[-10:]))  # noqa: E731
    table, network = char_mlp(300)
    return {
        "train_mlp": mean(train_mlp(400)),
        "train_convnet": mean(train_convnet(150)),
        "bigrams": mean(table),
        "char_mlp": mean(network),
        "gpt2": mean(gpt2(150, (2, 4, 64, 64, 256), 8)),
    }


if __name__ == "__main__":
    record = {"first": {name: twin(STEPS[name]) for name, twin in TWINS.items()}, "whole": whole()}
    RECORDED.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record["whole"], indent=1))
