"""Llama and its kin (Touvron et al., 2023): RMSNorm, rotary places, grouped queries, SwiGLU. Also Mistral (a window), Qwen 2 (biases) and Qwen 3
(norms of queries and keys).

    python -m tilewright.examples.llama FOLDER_OR_GGUF "prompt" --tokens 200
    python -m tilewright.examples.llama --random 1.1B --quant q4_0 --bench

Nothing here is about speed: `model` says what is computed, and the compiler makes kernels of it."""

from dataclasses import dataclass

import numpy as np
import tilewright as tw
from tilewright import Tensor, io, nn

from . import generate, language, rotary


@dataclass(frozen=True)
class Config:
    """A model's shapes. `windows`: how many places each layer sees, None for all; `scaled`: how the angles of rotary places are scaled, and `scaling`: by which numbers, as Hugging Face's config.json says it; `factors`: what each angle is
    divided by, of a GGUF file; `interleaved`: the two numbers that are turned together lie side by side; `act`: which rounding of activations is allowed (`io.linear`)."""

    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    width: int = 64
    head: int = 16
    hidden: int = 128
    tokens: int = 256
    context: int = 128
    theta: float = 10000.0
    eps: float = 1e-5
    windows: tuple[int | None, ...] = ()
    scaled: str = "default"
    scaling: tuple[tuple[str, float], ...] = ()
    factors: tuple[float, ...] = ()
    interleaved: bool = False
    act: str | None = None


SIZES = {
    "tiny": Config(),
    "110M": Config(12, 12, 12, 768, 64, 2048, 32000, 1024),
    "0.5B": Config(24, 14, 2, 896, 64, 4864, 151936, 2048, 1e6, 1e-6),
    "1.1B": Config(22, 32, 4, 2048, 64, 5632, 32000, 2048),
}
"""Known shapes: llama2.c's largest, Qwen 2.5's smallest, TinyLlama."""

KINDS = ("llama", "mistral", "qwen2", "qwen3")
NAMES = {
    "norm1": "input_layernorm.weight", "norm2": "post_attention_layernorm.weight", "q": "self_attn.q_proj.weight", "k": "self_attn.k_proj.weight",
    "v": "self_attn.v_proj.weight", "o": "self_attn.o_proj.weight", "gate": "mlp.gate_proj.weight", "up": "mlp.up_proj.weight",
    "down": "mlp.down_proj.weight",
}  # fmt: skip
OPTIONAL = {
    "q_bias": "self_attn.q_proj.bias", "k_bias": "self_attn.k_proj.bias", "v_bias": "self_attn.v_proj.bias", "o_bias": "self_attn.o_proj.bias",
    "q_norm": "self_attn.q_norm.weight", "k_norm": "self_attn.k_norm.weight", "gate_bias": "mlp.gate_proj.bias", "up_bias": "mlp.up_proj.bias",
    "down_bias": "mlp.down_proj.bias",
}  # fmt: skip
"""Names of a layer's tensors here → in Hugging Face's files."""


def config_of(said, context=None):
    """The shapes that a config.json gives. `context`: at most so many places. Raises UsageError where it is no model of this kind."""
    kind = said.get("model_type")
    if kind not in KINDS:
        raise tw.UsageError(f"the architecture is {kind!r}; this program runs {', '.join(KINDS)}")
    if said.get("hidden_act", "silu") != "silu":
        raise tw.UsageError(f"the activation is {said['hidden_act']!r}; models of this kind have silu")
    width, hidden, heads, tokens = language.sizes(said, ("hidden_size", "intermediate_size", "num_attention_heads", "vocab_size"))
    layers = language.layers(said, "num_hidden_layers")
    theta, scaled, scaling = rotary.scaling_of(said)
    kv, head = said.get("num_key_value_heads") or heads, said.get("head_dim") or width // heads
    if type(kv) is not int or kv < 1 or heads % kv or type(head) is not int or head < 2 or head % 2:
        raise tw.UsageError(f"{heads} heads of {str(head)[:50]} numbers for {str(kv)[:50]} of keys do not fit together")
    full = said.get("max_window_layers", 28) if kind.startswith("qwen") else 0  # the first layers see all
    kinds = said.get("layer_types") or ["full_attention" if type(full) is int and i < full else "sliding_attention" for i in range(layers)]
    if not isinstance(kinds, list) or len(kinds) != layers or any(k not in ("full_attention", "sliding_attention") for k in kinds):
        raise tw.UsageError(f"layer_types is {str(kinds)[:50]}: {layers} layers of full_attention or sliding_attention are known")
    windowed = said.get("sliding_window") is not None and said.get("use_sliding_window", kind == "mistral")
    window = language.sizes(said, ("sliding_window",))[0] if windowed else None
    (places,) = language.sizes({"max_position_embeddings": 2048} | said, ("max_position_embeddings",))
    (eps,) = language.numbers(said, ("rms_norm_eps",), 1e-6)
    return Config(
        layers, heads, kv, width, head, hidden, tokens, min(places, context or places), theta, eps,
        tuple(window if k == "sliding_attention" else None for k in kinds), scaled, scaling,
        rotary.factors_of(said, head), bool(said.get("rope_interleaved")),
    )  # fmt: skip


def matrices(config):
    """The shapes of a layer's matrices, (outputs, inputs)."""
    q, kv, d, hidden = config.heads * config.head, config.kv_heads * config.head, config.width, config.hidden
    return {"q": (q, d), "k": (kv, d), "v": (kv, d), "o": (d, q), "gate": (hidden, d), "up": (hidden, d), "down": (d, hidden)}


def params_of(tensors, config):
    """The tree of parameters, of a file's tensors. Matrices stay as they are stored. Raises UsageError where one is missing or has another shape."""

    def layer(i):
        at = f"model.layers.{i}."
        found = {ours: tensors[at + name] for ours, name in NAMES.items()}
        return found | {ours: tensors[at + name] for ours, name in OPTIONAL.items() if at + name in tensors}

    embed = tensors["model.embed_tokens.weight"]
    head = tensors.get("lm_head.weight", embed)
    tree = {"embed": embed, "layers": [layer(i) for i in range(config.layers)], "norm": tensors["model.norm.weight"], "head": head}
    d = config.width
    shapes = matrices(config)
    vectors = {f"{name}_bias": shape[:1] for name, shape in shapes.items()} | {"q_norm": (config.head,), "k_norm": (config.head,)}
    for p in tree["layers"]:
        language.check_shapes(p, shapes | {"norm1": (d,), "norm2": (d,)} | {name: v for name, v in vectors.items() if name in p})
    language.check_shapes(tree, {"embed": (config.tokens, d), "head": (config.tokens, d), "norm": (d,)})
    return language.in_float32(tree) | rotary.angles(config)


def init(config, seed=0, pack=lambda w: w):
    """Parameters of random numbers, of deviation 0.02. `pack`: what becomes of each matrix."""
    rng = np.random.default_rng(seed)
    d = config.width

    def matrix(*shape):
        w = rng.standard_normal(shape, dtype="float32")
        w *= 0.02
        return pack(Tensor(w))

    def layer():
        norms = {name: Tensor(np.ones(d, "float32")) for name in ("norm1", "norm2")}
        return norms | {name: matrix(*shape) for name, shape in matrices(config).items()}

    embed = matrix(config.tokens, d)
    tree = {"embed": embed, "layers": [layer() for _ in range(config.layers)], "norm": Tensor(np.ones(d, "float32")), "head": embed}
    return tree | rotary.angles(config)


def attention(p, x, cache, at, cos, sin, config, window=None):
    """Queries of x (n, width) on all keys up to their own place. Keys and values are put into the cache."""
    n = x.shape[0]

    def heads(name):
        y = io.linear(x, p[name], p.get(f"{name}_bias"), config.act).reshape(n, -1, config.head)
        return (nn.rms_norm(y, p[f"{name}_norm"], eps=config.eps) if f"{name}_norm" in p else y).permute(1, 0, 2)

    q, k = (rotary.turned(heads(name), cos, sin, config.interleaved) for name in "qk")
    return io.linear(cache.attended(at, q, k, heads("v"), window), p["o"], p.get("o_bias"), config.act)


def feed_forward(p, x, act):
    """SwiGLU."""
    gate, up = (io.linear(x, p[name], p.get(f"{name}_bias"), act) for name in ("gate", "up"))
    return io.linear(nn.silu(gate) * up, p["down"], p.get("down_bias"), act)


def model(p, caches, tokens, at, config, last=slice(-1, None)):
    """Logits of tokens (n,) that stand at the places `at` and after (or at `language.Places`); `last`: of which tokens, the last one by default."""
    n = tokens.shape[0]
    x = io.rows(p["embed"], tokens)
    cos, sin = (language.rows_at(p[name], at, n) for name in ("cos", "sin"))
    for layer, cache, window in zip(p["layers"], caches, config.windows or [None] * config.layers, strict=True):
        x = x + attention(layer, nn.rms_norm(x, layer["norm1"], eps=config.eps), cache, at, cos, sin, config, window)
        x = x + feed_forward(layer, nn.rms_norm(x, layer["norm2"], eps=config.eps), config.act)
    return io.linear(nn.rms_norm(x[last], p["norm"], eps=config.eps), p["head"], act=config.act)


if __name__ == "__main__":
    generate.main(__doc__, config_of, params_of, init, model, SIZES)
