"""What language models have in common: keys and values that are kept from token to token, and reading a file's config and tensors."""

from math import prod
from typing import NamedTuple

import numpy as np
import tilewright as tw
from tilewright import Tensor, xp

CHUNK = 512
"""Tokens that are read at once: longer prompts are read in parts of so many."""


def places(context):
    """Room for a chunk that begins at the last place, so that nothing must be known of where it ends."""
    return context + min(CHUNK, context)


class Kept(NamedTuple):
    """Keys and values of a layer, (heads, places, head) each, of the type that they are kept in. Captured functions update them in place."""

    k: Tensor
    v: Tensor

    @staticmethod
    def empty(heads, context, head, dtype="float32"):
        """Nothing is kept yet. Memory is taken when it is written."""
        return Kept(*(Tensor(xp.zeros((heads, places(context), head), dtype=dtype).numpy()) for _ in range(2)))

    def write(self, at, k, v):
        """Keys and values (heads, n, head) of the places from `at` on."""
        n = k.shape[1]
        self.k[:, at : at + n] = k.astype(self.k.dtype)
        self.v[:, at : at + n] = v.astype(self.v.dtype)

    def read(self, end):
        """(keys, values) of the places before `end`, (heads, 1, places, head): one head for a group of queries."""
        return tuple(x[:, :end].reshape(x.shape[0], 1, end, x.shape[2]).astype("float32") for x in self)


class KeptInt8(NamedTuple):
    """The same in int8, with a scale for each head and place."""

    k: Tensor
    v: Tensor
    k_scale: Tensor
    v_scale: Tensor

    @staticmethod
    def empty(heads, context, head):
        """Nothing is kept yet."""
        shape = (heads, places(context), head)
        return KeptInt8(
            *(Tensor(np.zeros(s, t)) for s, t in ((shape, "int8"), (shape, "int8"), (shape[:2], "float32"), (shape[:2], "float32")))
        )

    def write(self, at, k, v):
        """Keys and values (heads, n, head) of the places from `at` on."""
        n = k.shape[1]
        for x, kept, scales in ((k, self.k, self.k_scale), (v, self.v, self.v_scale)):
            scale = xp.maximum(abs(x).max(-1) / 127.0, 1e-12)
            kept[:, at : at + n] = xp.round(x / scale.reshape(*scale.shape, 1)).astype("int8")
            scales[:, at : at + n] = scale

    def read(self, end):
        """(keys, values) of the places before `end`, (heads, 1, places, head)."""
        pairs = ((self.k, self.k_scale), (self.v, self.v_scale))
        found = (x[:, :end].astype("float32") * s[:, :end].reshape(s.shape[0], end, 1) for x, s in pairs)
        return tuple(x.reshape(x.shape[0], 1, end, x.shape[2]) for x in found)


def seen(at, n, window=None):
    """Which of the places up to `at + n` each of n tokens sees, (n, at + n): those not after its own, and less than a window before."""
    own, key = (xp.arange(n) + at).reshape(n, 1), xp.arange(at + n)
    return (key <= own) & (key > own - window) if window else key <= own


def sizes(said, names):
    """Whole numbers of a config.json by name. Raises UsageError where one is missing or cannot be."""
    wrong = [f"{n} is {said.get(n)!r}" for n in names if type(said.get(n)) is not int or not 0 < said[n] < 1 << 31]
    if wrong:
        raise tw.UsageError(f"the config is not one of this kind of model: {', '.join(wrong)}")
    return [said[n] for n in names]


def check_shapes(found, shapes):
    """Raise UsageError where a tensor of a dict has another shape than the config says."""
    for name, shape in shapes.items():
        if tuple(found[name].shape) != shape:
            raise tw.UsageError(f"a tensor {name!r} has the shape {list(found[name].shape)}, and the config says {list(shape)}")


def in_float32(tree):
    """Vectors in float32, whatever they are stored in; matrices as they are."""
    return tw.tree_map(lambda x: x.astype("float32").realise() if x.ndim == 1 and x.dtype != "float32" else x, tree)


def bytes_of(tree):
    """Bytes of all tensors of a tree, each once."""
    found = {}
    tw.tree_map(lambda x: found.setdefault(id(x), prod(x.shape) * x.dtype.itemsize), tree)
    return sum(found.values())
