"""GPT-2 (Radford et al., 2019) from its files: `python -m tilewright.examples.gpt2_text FOLDER_OR_GGUF "prompt" --tokens 200`.

`gpt2.py` trains such a model. Here it reads and writes text, with keys and values kept from token to token."""

from dataclasses import dataclass

import numpy as np
import tilewright as tw
from tilewright import Tensor, io, nn

from . import generate, language


@dataclass(frozen=True)
class Config:
    """A model's shapes. `hidden`: 0 for four times the width; `scales`: what queries of each layer are multiplied by beside 1 / √head."""

    layers: int = 2
    heads: int = 4
    width: int = 64
    tokens: int = 256
    context: int = 128
    eps: float = 1e-5
    hidden: int = 0
    scales: tuple[float, ...] = ()
    act: str | None = None

    @property
    def kv_heads(self):
        """Each head has keys of its own."""
        return self.heads

    @property
    def head(self):
        """Numbers of a head."""
        return self.width // self.heads


SIZES = {"tiny": Config(), "124M": Config(12, 12, 768, 50257, 1024)}


def config_of(said, context=None):
    """The shapes that a config.json gives. `context`: at most so many places. Raises UsageError where it is no GPT-2."""
    if said.get("model_type") != "gpt2":
        raise tw.UsageError(f"the architecture is {said.get('model_type')!r}; this program runs gpt2")
    if said.get("activation_function", "gelu_new") != "gelu_new":
        raise tw.UsageError(f"the activation is {said['activation_function']!r}; models of this kind have gelu_new")
    heads, width, tokens, places = language.sizes(said, ("n_head", "n_embd", "vocab_size", "n_positions"))
    layers = language.layers(said, "n_layer")
    if width % heads:
        raise tw.UsageError(f"{heads} heads do not divide a width of {width}")
    (eps,) = language.numbers(said, ("layer_norm_epsilon",), 1e-5)
    hidden = language.sizes(said, ("n_inner",))[0] if said.get("n_inner") is not None else 0
    scales = [
        (1.0 if said.get("scale_attn_weights", True) else (width // heads) ** 0.5)
        / (i + 1 if said.get("scale_attn_by_inverse_layer_idx") else 1)
        for i in range(layers)
    ]
    return Config(layers, heads, width, tokens, min(places, context or places), eps, hidden, tuple(scales))


def params_of(tensors, config):
    """The tree of parameters, of a file's tensors. Hugging Face's matrices are (inputs, outputs), those of GGUF and llm.c the other way round."""
    prefix = "transformer." if "transformer.wte.weight" in tensors else ""

    def dense(name, inputs, outputs):
        turned = f"{name}.weight.T" in tensors
        w, b = tensors[f"{name}.weight{'.T' if turned else ''}"], tensors[f"{name}.bias"]
        language.check_shapes(
            {name: w, f"{name}.bias": b}, {name: (outputs, inputs) if turned else (inputs, outputs), f"{name}.bias": (outputs,)}
        )
        return {"wT" if turned else "w": w, "b": b}

    def norm(name):
        p = {"w": tensors[f"{name}.weight"], "b": tensors[f"{name}.bias"]}
        language.check_shapes(p, {"w": (config.width,), "b": (config.width,)})
        return p

    def layer(i):
        at, d, hidden = f"{prefix}h.{i}.", config.width, config.hidden or 4 * config.width
        return {
            "ln1": norm(at + "ln_1"), "qkv": dense(at + "attn.c_attn", d, 3 * d), "out": dense(at + "attn.c_proj", d, d), "ln2": norm(at + "ln_2"),
            "up": dense(at + "mlp.c_fc", d, hidden), "down": dense(at + "mlp.c_proj", hidden, d),
        }  # fmt: skip

    embed = tensors[f"{prefix}wte.weight"]
    tree = {
        "embed": embed,
        "places": tensors[f"{prefix}wpe.weight"],
        "layers": [layer(i) for i in range(config.layers)],
        "ln": norm(f"{prefix}ln_f"),
    }
    if embed.shape[0] < config.tokens or tree["places"].shape[0] < config.context:
        raise tw.UsageError(f"{embed.shape[0]} tokens and {tree['places'].shape[0]} places are fewer than the config says")
    head = tensors.get("lm_head.weight", embed)
    return language.in_float32(tree) | {"head": head}


def init(config, seed=0, pack=lambda w: w):
    """Parameters of random numbers, of deviation 0.02. `pack`: what becomes of each matrix, (outputs, inputs)."""
    rng = np.random.default_rng(seed)
    d = config.width

    def matrix(*shape):
        w = rng.standard_normal(shape, dtype="float32")
        w *= 0.02
        return pack(Tensor(w))

    def dense(inputs, outputs):
        return {"wT": matrix(outputs, inputs), "b": Tensor(np.zeros(outputs, "float32"))}

    def norm():
        return {"w": Tensor(np.ones(d, "float32")), "b": Tensor(np.zeros(d, "float32"))}

    layers = [
        {"ln1": norm(), "qkv": dense(d, 3 * d), "out": dense(d, d), "ln2": norm(), "up": dense(d, 4 * d), "down": dense(4 * d, d)}
        for _ in range(config.layers)
    ]
    embed = matrix(config.tokens, d)
    return {"embed": embed, "places": matrix(config.context, d), "layers": layers, "ln": norm(), "head": embed}


def norm(p, x, config):
    """Layer normalisation."""
    return nn.layer_norm(x, p["w"], p["b"], eps=config.eps)


def dense(p, x, act):
    """x · w + b."""
    if "wT" in p:
        return io.linear(x, p["wT"], p["b"], act)
    return x @ (p["w"].decoded() if io.is_packed(p["w"]) else p["w"].astype(x.dtype)) + p["b"]


def attention(p, x, cache, at, config, scale=1.0):
    """Queries of x (n, width) on all keys up to their own place. Keys and values are put into the cache."""
    n = x.shape[0]
    q, k, v = (t.reshape(n, config.heads, config.head).permute(1, 0, 2) for t in dense(p["qkv"], x, config.act).split(3, -1))
    return dense(p["out"], cache.attended(at, q if scale == 1 else q * scale, k, v), config.act)


def model(p, caches, tokens, at, config, last=slice(-1, None)):
    """Logits of tokens (n,) that stand at the places `at` and after (or at `language.Places`); `last`: of which tokens, the last one by default."""
    places = at.place if isinstance(at, language.Places) else tw.xp.minimum(tw.xp.arange(tokens.shape[0]) + at, config.context - 1)
    x = io.rows(p["embed"], tokens) + io.rows(p["places"], places)
    for layer, cache, scale in zip(p["layers"], caches, config.scales or [1.0] * config.layers, strict=True):
        x = x + attention(layer, norm(layer["ln1"], x, config), cache, at, config, scale)
        up = dense(layer["up"], norm(layer["ln2"], x, config), config.act)
        x = x + dense(layer["down"], nn.gelu(up, approximate="tanh"), config.act)
    return io.linear(norm(p["ln"], x[last], config), p["head"], act=config.act)[:, : config.tokens]


if __name__ == "__main__":
    generate.main(__doc__, config_of, params_of, init, model, SIZES)
