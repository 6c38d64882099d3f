"""What language models have in common: keys and values that are kept from token to token, attention to them, and reading a file's config and
tensors."""

from math import prod
from typing import NamedTuple

import ml_dtypes  # noqa: F401  (NumPy knows bfloat16 by its name then)
import tilewright as tw
from tilewright import Tensor, xp
from tilewright.weights.mapped_file import zero_pages

CHUNK = 512
"""Tokens that are read at once: longer prompts are read in parts of so many."""


def places(context):
    """Room for a chunk that begins at the last place, so that nothing must be known of where it ends."""
    return context + min(CHUNK, context)


def nothing_kept(shape, dtype):
    """Zeros whose memory is taken as they are written: rows of a few tokens lie far apart, a run for each head."""
    found = Tensor(zero_pages(shape, dtype))
    found.node.data.foreign = False  # nobody else has the array, so that it is updated in place
    return found


class Attended:
    """Attention of one sequence to what is kept of it."""

    __slots__ = ()

    def attended(self, at, q, k, v, window=None):
        """Queries (heads, n, head) on all keys up to their own place, (n, heads · head). Keys and values (kv heads, n, head) are kept first."""
        heads, n, head = q.shape
        self.write(at, k, v)
        keys, values = self.read(at + n)  # (kv heads, 1, places, head)
        scores = q.reshape(k.shape[0], heads // k.shape[0], n, head) @ keys.mT * head**-0.5
        if n != 1 or window is not None:  # a single token sees all that is kept
            scores = seen(at, n, window).where(scores, float("-inf"))
        return (scores.softmax(-1) @ values).permute(2, 0, 1, 3).reshape(n, heads * head)


class _Fields(NamedTuple):
    k: Tensor
    v: Tensor


class Kept(_Fields, Attended):
    """Keys and values of a layer, (heads, places, head) each, of the type that they are kept in. Captured functions update them in place."""

    __slots__ = ()

    @staticmethod
    def empty(heads, context, head, dtype="float32"):
        """Nothing is kept yet. Memory is taken when it is written."""
        return Kept(*(nothing_kept((heads, places(context), head), dtype) for _ in range(2)))

    def write(self, at, k, v):
        """Keys and values (heads, n, head) of the places from `at` on."""
        n = k.shape[1]
        self.k[:, at : at + n] = k.astype(self.k.dtype)
        self.v[:, at : at + n] = v.astype(self.v.dtype)

    def read(self, end):
        """(keys, values) of the places before `end`, (heads, 1, places, head): one head for a group of queries."""
        return tuple(x[:, :end].reshape(x.shape[0], 1, end, x.shape[2]).astype("float32") for x in self)


class _FieldsInt8(NamedTuple):
    k: Tensor
    v: Tensor
    k_scale: Tensor
    v_scale: Tensor


class KeptInt8(_FieldsInt8, Attended):
    """The same in int8, with a scale for each head and place."""

    __slots__ = ()

    @staticmethod
    def empty(heads, context, head):
        """Nothing is kept yet."""
        shape = (heads, places(context), head)
        return KeptInt8(
            *(nothing_kept(s, t) for s, t in ((shape, "int8"), (shape, "int8"), (shape[:2], "float32"), (shape[:2], "float32")))
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


class Places(NamedTuple):
    """Where the tokens of several sequences stand: `slot` (n,), the sequence of each, `place` (n,), where in it, and `end`, a number that no
    place reaches."""

    slot: Tensor
    place: Tensor
    end: object


class KeptTogether(_Fields):
    """Keys and values of a layer of several sequences, (slots, places, kv heads, head) each."""

    __slots__ = ()

    @staticmethod
    def empty(slots, heads, context, head, dtype="float32"):
        """Nothing is kept yet. Memory is taken when it is written."""
        return KeptTogether(*(nothing_kept((slots, context, heads, head), dtype) for _ in range(2)))

    def attended(self, at, q, k, v, window=None):
        """Queries (heads, n, head) on all keys of their own sequences up to their own places, (n, heads · head), as `Attended` has it."""
        heads, n, head = q.shape
        for kept, new in zip(self, (k, v)):
            kept[at.slot, at.place] = new.permute(1, 0, 2).astype(kept.dtype)
        keys, values = (x[at.slot, : at.end].astype("float32") for x in self)  # (n, places, kv heads, head)
        scores = q.permute(1, 0, 2).reshape(n, k.shape[0], -1, head) @ keys.permute(0, 2, 3, 1) * head**-0.5
        key, own = xp.arange(at.end), at.place.reshape(n, 1, 1, 1)
        sees = (key <= own) & (key > own - window) if window else key <= own
        y = sees.where(scores, float("-inf")).softmax(-1) @ values.permute(0, 2, 1, 3)
        return y.reshape(n, heads * head)


def rows_at(table, at, n):
    """The rows of a table that tokens (n,) have by their places."""
    return table[at.place] if isinstance(at, Places) else table[at : at + n]


def seen(at, n, window=None):
    """Which of the places up to `at + n` each of n tokens sees, (n, at + n): those not after its own, and less than a window before."""
    own, key = (xp.arange(n) + at).reshape(n, 1), xp.arange(at + n)
    return (key <= own) & (key > own - window) if window else key <= own


def sizes(said, names):
    """Whole numbers of a config.json by name. Raises UsageError where one is missing or cannot be."""
    wrong = [f"{n} is {str(said.get(n))[:50]}" for n in names if type(said.get(n)) is not int or not 0 < said[n] < 1 << 31]
    if wrong:
        raise tw.UsageError(f"the config is not one of this kind of model: {', '.join(wrong)}")
    return [said[n] for n in names]


MOST_LAYERS = 1 << 16
"""A config that says more layers is damaged: each would get an entry in lists before a tensor is looked for."""


def layers(said, name):
    """The number of layers that a config.json says. Raises UsageError where it cannot be."""
    (count,) = sizes(said, (name,))
    if count > MOST_LAYERS:
        raise tw.UsageError(f"the config is not one of this kind of model: {name} is {count}")
    return count


def numbers(said, names, usual=None):
    """Numbers of a config.json by name, all above 0; `usual`: what one is that is missing. Raises UsageError where one is missing or cannot be."""
    found = [usual if said.get(n) is None else said[n] for n in names]
    wrong = [f"{n} is {str(v)[:50]}" for n, v in zip(names, found) if type(v) not in (int, float) or not 0 < v < 1e30]
    if wrong:
        raise tw.UsageError(f"the config is not one of this kind of model: {', '.join(wrong)}")
    return [float(v) for v in found]


def object_of(said, name):
    """An object in a config.json; an empty one where it is missing. Raises UsageError where it is something else."""
    if not isinstance(found := said.get(name) or {}, dict):
        raise tw.UsageError(f"the config is not one of this kind of model: {name} is {str(found)[:50]}")
    return found


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
