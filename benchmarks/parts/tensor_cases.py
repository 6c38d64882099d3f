"""The cases of `tensor_vs.py`: parameters and inputs of each model, as NumPy arrays made from a seed. It imports nothing
of Tilewright or of a rival, so that every contestant makes the same arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Arrays = dict[str, np.ndarray[Any, Any]]

SEED = 1


@dataclass(frozen=True, slots=True)
class TensorCase:
    """`model`: which functions play it; `what`: "forward", "gradients" (with the forward pass) or "step" (and AdamW).
    `sizes`: of the model. `tolerance`: of every gradient, relative to its largest element."""

    name: str
    model: str
    what: str
    sizes: dict[str, int]
    tolerance: float = 2e-4


GPT2 = {"batch": 4, "seq": 256, "width": 768, "heads": 12, "layers": 12, "vocabulary": 50257}
BLOCK = {**GPT2, "layers": 1}
MLP = {"batch": 128, "inputs": 784, "width": 512, "classes": 10}
CONVNET = {"batch": 32, "size": 28, "channels": 16, "classes": 10}
CHAIN = {"elements": 10_000}

CASES = (
    TensorCase("gpt2_forward", "gpt2", "forward", GPT2),
    TensorCase("gpt2_gradients", "gpt2", "gradients", GPT2, 1e-3),
    TensorCase("gpt2_step", "gpt2", "step", GPT2, 1e-3),
    TensorCase("block_forward", "block", "forward", BLOCK),
    TensorCase("block_gradients", "block", "gradients", BLOCK, 1e-3),
    TensorCase("mlp_step", "mlp", "step", MLP),
    TensorCase("convnet_step", "convnet", "step", CONVNET),
    TensorCase("chain_short", "chain_short", "forward", CHAIN),
    TensorCase("chain_gelu", "chain_gelu", "forward", CHAIN),
    TensorCase("chain_long", "chain_long", "forward", CHAIN),
)

LEARNING = {"rate": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "decay": 0.01}
"""AdamW's numbers (arXiv 1711.05101)."""


def small(case: TensorCase) -> TensorCase:
    """The same with fewer and smaller layers: to see in seconds whether everything runs."""
    less = {"batch": 2, "seq": 32, "width": 64, "heads": 2, "layers": 2, "vocabulary": 301}
    return replace(case, sizes={k: min(v, less.get(k, v)) for k, v in case.sizes.items()})


def parameters(case: TensorCase) -> Arrays:
    """The float32 parameters by name, in the order in which all contestants have them."""
    import numpy as np

    rng = np.random.default_rng(SEED)
    s = case.sizes

    def normal(*shape: int, deviation: float = 0.02) -> Any:
        return (rng.standard_normal(shape, dtype=np.float32) * np.float32(deviation)).astype(np.float32)

    def block(name: str) -> Arrays:
        c = s["width"]
        scale = 0.02 / (2 * s["layers"]) ** 0.5
        return {
            f"{name}ln1.w": 1 + normal(c), f"{name}ln1.b": normal(c), f"{name}qkv.w": normal(c, 3 * c), f"{name}qkv.b": normal(3 * c),
            f"{name}out.w": normal(c, c, deviation=scale), f"{name}out.b": normal(c), f"{name}ln2.w": 1 + normal(c), f"{name}ln2.b": normal(c),
            f"{name}up.w": normal(c, 4 * c), f"{name}up.b": normal(4 * c), f"{name}down.w": normal(4 * c, c, deviation=scale),
            f"{name}down.b": normal(c),
        }  # fmt: skip

    if case.model == "block":
        return block("")
    if case.model == "gpt2":
        c = s["width"]
        found = {"tokens": normal(s["vocabulary"], c), "places": normal(s["seq"], c)}
        for n in range(s["layers"]):
            found |= block(f"blocks.{n}.")
        return found | {"ln.w": 1 + normal(c), "ln.b": normal(c)}
    if case.model == "mlp":
        sizes = (s["inputs"], s["width"], s["width"], s["classes"])
        pairs = [(normal(a, b, deviation=(2 / a) ** 0.5), normal(b)) for a, b in pairwise(sizes)]
        return {f"{kind}{i}": a for i, pair in enumerate(pairs) for kind, a in zip(("weight", "bias"), pair)}
    if case.model == "convnet":
        c, left = s["channels"], s["size"] // 4
        return {
            "conv0": normal(c, 1, 3, 3, deviation=0.3), "bias0": normal(c), "conv1": normal(2 * c, c, 3, 3, deviation=0.1), "bias1": normal(2 * c),
            "weight": normal(2 * c * left * left, s["classes"], deviation=0.05), "bias": normal(s["classes"]),
        }  # fmt: skip
    return {}


def inputs(case: TensorCase) -> Arrays:
    """What a step reads beside the parameters: float32 arrays, tokens and labels as int64."""
    import numpy as np

    rng = np.random.default_rng(SEED + 1)
    s = case.sizes
    if case.model == "gpt2":
        text = rng.integers(0, s["vocabulary"], (s["batch"], s["seq"] + 1))
        return {"text": np.ascontiguousarray(text[:, :-1]), "labels": np.ascontiguousarray(text[:, 1:])}
    if case.model == "block":
        return {n: rng.standard_normal((s["batch"], s["seq"], s["width"]), dtype=np.float32) for n in ("x", "dy")}
    if case.model == "mlp":
        x = rng.standard_normal((s["batch"], s["inputs"]), dtype=np.float32)
    elif case.model == "convnet":
        x = rng.standard_normal((s["batch"], 1, s["size"], s["size"]), dtype=np.float32)
    else:
        return {n: rng.standard_normal(s["elements"], dtype=np.float32) for n in ("x", "y")}
    return {"x": x, "labels": rng.integers(0, s["classes"], s["batch"])}
