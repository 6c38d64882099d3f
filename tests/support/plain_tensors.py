"""Plain expressions of tensors that several tests use, and NumPy's values of them."""

import numpy as np
from tilewright.tensor.fusion.call_list import call_list
from tilewright.tensor.graph import index_maps as maps
from tilewright.tensor.graph import primitives as T
from tilewright.tensor.ops.elementwise import where
from tilewright.tensor.tensor import Tensor

rng = np.random.default_rng(0)


def array(*shape):
    return Tensor(rng.standard_normal(shape).astype("f") * np.float32(0.1))


def f64(t):
    return t.numpy().astype("d")


def listed(*outs):
    return call_list([o.node for o in outs])


def layernorm(x, w, b):
    d = x - x.mean(-1, True)
    return d * (1 / ((d * d).mean(-1, True) + 1e-5).sqrt()) * w + b


def gelu(x):
    return x * 0.5 * ((x * 0.7071067811865476).erf() + 1.0)


def softmax(x):
    e = (x - x.max(-1, True)).exp()
    return e * (1 / e.sum(-1, True))


def part(x, start, stop):
    """x[..., start:stop]."""
    picks = [(0, 1, n) for n in x.shape[:-1]] + [(start, 1, stop - start)]
    return Tensor.of(T.view(x.node, maps.strided(x.shape, picks)))


def causal(s):
    i = T.iota(s)
    return Tensor.of(T.reshape(i, (1, s))) <= Tensor.of(T.reshape(i, (s, 1)))


def scores(q, k, masked=True):
    s = (q @ k.mT) * (q.shape[-1] ** -0.5)
    return Tensor.of(where(causal(q.shape[-2]).node, s.node, float("-inf"))) if masked else s


def block(x, p, heads):
    """A GPT-2 block, forward."""
    b, s, c = x.shape
    qkv = layernorm(x, p["l1"], p["b1"]) @ p["wq"] + p["bq"]
    q, k, v = (part(qkv, i * c, (i + 1) * c).reshape(b, s, heads, c // heads).permute(0, 2, 1, 3) for i in range(3))
    o = (softmax(scores(q, k)) @ v).permute(0, 2, 1, 3).reshape(b, s, c)
    x = x + (o @ p["wo"] + p["bo"])
    return x + (gelu(layernorm(x, p["l2"], p["b2"]) @ p["w1"] + p["c1"]) @ p["w2"] + p["c2"])


def parameters(c):
    shapes = {
        "l1": (c,), "b1": (c,), "wq": (c, 3 * c), "bq": (3 * c,), "wo": (c, c), "bo": (c,), "l2": (c,), "b2": (c,),
        "w1": (c, 4 * c), "c1": (4 * c,), "w2": (4 * c, c), "c2": (c,),
    }  # fmt: skip
    return {n: array(*s) for n, s in shapes.items()}
