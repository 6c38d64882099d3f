"""Our side of `tensor_vs.py`: each model as plain operations, and what a step of it returns."""

from __future__ import annotations

from typing import Any

from parts.tensor_cases import LEARNING, TensorCase
from tilewright import Tensor, nn
from tilewright.examples import gpt2 as example
from tilewright.tensor.gradients.grad import value_and_grad, vjp

Tensors = dict[str, Any]


def tree(p: Tensors) -> Any:
    """Parameters by dotted names as the nested ones of the example: "blocks.0.ln1.w" is p["blocks"][0]["ln1"]["w"]."""
    out: dict[str, Any] = {}
    for name, t in p.items():
        *path, last = name.split(".")
        at = out
        for part in path:
            at = at.setdefault(part, {})
        at[last] = t
    if "blocks" in out:
        out["blocks"] = [out["blocks"][str(n)] for n in range(len(out["blocks"]))]
    return out


def gpt2(p: Tensors, text: Any, labels: Any, s: dict[str, int]) -> Any:
    """The loss of the example, whose code this is."""
    return example.loss_of(tree(p), text, labels, example.Size(s["layers"], s["heads"], s["width"], s["seq"], s["vocabulary"]))


def block(p: Tensors, x: Any, heads: int) -> Any:
    """A block of the example."""
    return example.block(tree(p), x, heads)


def mlp(p: Tensors, x: Any, labels: Any) -> Any:
    """Two hidden layers with relu, and the cross-entropy of the classes."""
    for n in range(2):
        x = (x @ p[f"weight{n}"] + p[f"bias{n}"]).relu()
    return nn.cross_entropy(x @ p["weight2"] + p["bias2"], labels)


def convnet(p: Tensors, x: Any, labels: Any) -> Any:
    """Two convolutions with relu and pooling, and a linear layer."""
    for n in range(2):
        x = nn.max_pool((nn.conv(x, p[f"conv{n}"], p[f"bias{n}"], padding=1)).relu(), 2)
    return nn.cross_entropy(x.reshape(x.shape[0], -1) @ p["weight"] + p["bias"], labels)


def chain(model: str, x: Any, y: Any) -> Any:
    """Elementwise chains: of two operations, of a gelu's, of twelve."""
    if model == "chain_short":
        return x * y + 1.0
    if model == "chain_gelu":
        return x * 0.5 * (1.0 + (0.7978845608 * (x + 0.044715 * x * x * x)).tanh())
    for n in range(6):
        x = x * y + (0.1 * n) if n % 2 else (x - y) * 0.5
    return x


def loss(case: TensorCase, p: Tensors, given: Tensors) -> Any:
    """The number whose gradient is taken."""
    if case.model == "gpt2":
        return gpt2(p, given["text"], given["labels"], case.sizes)
    return {"mlp": mlp, "convnet": convnet}[case.model](p, given["x"], given["labels"])


def adamw(p: Any, g: Any, m: Any, v: Any, corrections: Any) -> tuple[Any, Any, Any]:
    """(parameter, first moment, second moment) after a step. `corrections`: 1 − β₁ᵗ and 1 − β₂ᵗ, as a tensor of two."""
    n = LEARNING
    m = m * n["beta1"] + g * (1 - n["beta1"])
    v = v * n["beta2"] + g * g * (1 - n["beta2"])
    step = (m / corrections[0]) / ((v / corrections[1]).sqrt() + n["eps"])
    return p * (1 - n["rate"] * n["decay"]) - step * n["rate"], m, v


def outputs(case: TensorCase, p: Tensors, given: Tensors, state: Tensors) -> dict[str, Any]:
    """What the case computes, by name. `state`: AdamW's moments, and `corrections`."""
    if case.model.startswith("chain"):
        return {"y": chain(case.model, given["x"], given["y"])}
    if case.what == "forward":
        return {"y": block(p, given["x"], case.sizes["heads"])} if case.model == "block" else {"loss": loss(case, p, given)}
    if case.model == "block":
        y, pull = vjp(lambda q: block(q, q["x"], case.sizes["heads"]), {**p, "x": given["x"]})
        return {"y": y, **{f"d {k}": g for k, g in pull(given["dy"])[0].items()}}
    value, found = value_and_grad(lambda q: loss(case, q, given))(p)
    if case.what == "gradients":
        return {"loss": value, **{f"d {k}": g for k, g in found.items()}}
    out: dict[str, Any] = {"loss": value}
    for k, g in found.items():
        new = adamw(p[k], g, state[f"m {k}"], state[f"v {k}"], state["corrections"])
        out |= zip((k, f"m {k}", f"v {k}"), new)
    return out


def tensors(arrays: dict[str, Any], case: TensorCase) -> Tensors:
    """Arrays as tensors on their own memory; integers with the range that they are declared to lie in."""
    most = {"text": case.sizes.get("vocabulary", 1), "labels": case.sizes.get("vocabulary", case.sizes.get("classes", 1))}
    return {k: Tensor(a, range=(0, most[k] - 1) if k in most else None) for k, a in arrays.items()}
