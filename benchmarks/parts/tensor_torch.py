"""PyTorch's side of `tensor_vs.py`: each model as one would write it there, eager or compiled by Inductor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from parts.tensor_cases import LEARNING, TensorCase
from torch.nn import functional as F

Tensors = dict[str, Any]


def block(p: Tensors, x: Any, heads: int, name: str = "") -> Any:
    """A GPT-2 block of x (batch, seq, width)."""
    w = {k.removeprefix(name): v for k, v in p.items() if k.startswith(name)}
    b, s, c = x.shape
    h = F.layer_norm(x, (c,), w["ln1.w"], w["ln1.b"])
    q, k, v = _linear(h, w["qkv.w"], w["qkv.b"]).split(c, 2)
    q, k, v = (t.view(b, s, heads, c // heads).transpose(1, 2) for t in (q, k, v))
    h = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, s, c)
    x = x + _linear(h, w["out.w"], w["out.b"])
    h = F.gelu(_linear(F.layer_norm(x, (c,), w["ln2.w"], w["ln2.b"]), w["up.w"], w["up.b"]), approximate="tanh")
    return x + _linear(h, w["down.w"], w["down.b"])


def _linear(x: Any, w: Any, b: Any) -> Any:
    """x · w + b in one call, as Hugging Face's GPT-2 does with its weights of (inputs, outputs)."""
    return torch.addmm(b, x.reshape(-1, x.shape[-1]), w).view(*x.shape[:-1], w.shape[1])


def loss(case: TensorCase, p: Tensors, given: Tensors) -> Any:
    """What the gradient is taken of."""
    s = case.sizes
    if case.model == "gpt2":
        x = F.embedding(given["text"], p["tokens"]) + p["places"]
        for n in range(s["layers"]):
            x = block(p, x, s["heads"], f"blocks.{n}.")
        logits = F.linear(F.layer_norm(x, (s["width"],), p["ln.w"], p["ln.b"]), p["tokens"])
        return F.cross_entropy(logits.view(-1, s["vocabulary"]), given["labels"].view(-1))
    x = given["x"]
    if case.model == "mlp":
        for n in range(2):
            x = F.relu(torch.addmm(p[f"bias{n}"], x, p[f"weight{n}"]))
        return F.cross_entropy(torch.addmm(p["bias2"], x, p["weight2"]), given["labels"])
    for n in range(2):
        x = F.max_pool2d(F.relu(F.conv2d(x, p[f"conv{n}"], p[f"bias{n}"], padding=1)), 2)
    return F.cross_entropy(torch.addmm(p["bias"], x.flatten(1), p["weight"]), given["labels"])


def chain(model: str, x: Any, y: Any) -> Any:
    """Elementwise chains."""
    if model == "chain_short":
        return x * y + 1.0
    if model == "chain_gelu":
        return x * 0.5 * (1.0 + (0.7978845608 * (x + 0.044715 * x * x * x)).tanh())
    for n in range(6):
        x = x * y + (0.1 * n) if n % 2 else (x - y) * 0.5
    return x


def prepare(case: TensorCase, p: Tensors, given: Tensors, threads: int, compiled: bool) -> tuple[Callable[[], Any], Callable[[], Tensors]]:
    """(a call, what the first call found by name). Gradients are set to None before each step, as users do."""
    torch.set_num_threads(threads)
    p = {k: torch.from_numpy(a).requires_grad_(case.what != "forward") for k, a in p.items()}
    given = {k: torch.from_numpy(a) for k, a in given.items()}
    wrap = torch.compile if compiled else lambda f: f
    if case.what == "forward":
        if case.model == "block":
            f = wrap(lambda p, given: {"y": block(p, given["x"], case.sizes["heads"])})
        elif case.model.startswith("chain"):
            f = wrap(lambda p, given: {"y": chain(case.model, given["x"], given["y"])})
        else:
            f = wrap(lambda p, given: {"loss": loss(case, p, given)})

        def forward() -> Any:
            with torch.no_grad():
                return f(p, given)

        return forward, lambda: {k: v.numpy().copy() for k, v in forward().items()}
    if case.model == "block":
        x = given["x"].requires_grad_()
        whole = wrap(lambda p, x: block(p, x, case.sizes["heads"]))

        def gradients() -> Any:
            for t in (x, *p.values()):
                t.grad = None
            y = whole(p, x)
            y.backward(given["dy"])
            return y

        def found() -> Tensors:
            y = gradients()
            return {"y": y.detach().numpy().copy(), **{f"d {k}": t.grad.numpy().copy() for k, t in {**p, "x": x}.items()}}

        return gradients, found
    return _trained(case, p, given, wrap)


def _trained(case: TensorCase, p: Tensors, given: Tensors, wrap: Any) -> tuple[Callable[[], Any], Callable[[], Tensors]]:
    whole = wrap(lambda p, given: loss(case, p, given))
    n = LEARNING
    adam = (
        torch.optim.AdamW(p.values(), n["rate"], (n["beta1"], n["beta2"]), n["eps"], n["decay"], fused=True)
        if case.what == "step"
        else None
    )

    def step() -> Any:
        for t in p.values():
            t.grad = None
        value = whole(p, given)
        value.backward()
        if adam is not None:
            adam.step()
        return value

    def found() -> Tensors:
        value = step().detach().numpy().copy()
        if adam is not None:
            return {"loss": value, **{k: t.detach().numpy().copy() for k, t in p.items()}}
        return {"loss": value, **{f"d {k}": t.grad.numpy().copy() for k, t in p.items()}}

    return step, found
