"""Matrices of few bits a number, kept packed.

A packed matrix is a named tuple of tensors, so it is part of a tree of parameters like any other. Its numbers are an ordinary expression over
its bytes, so a product with it is a kernel that reads the packed bytes. The formats are those of GGML's files (Q8_0, Q4_0, Q4_K, Q6_K), whose
blocks are taken apart into an array a field, and are as large as before. `Packed8` and `Packed4` hold other groups as well."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..ir.dtypes import bfloat16
from ..ir.errors import UsageError
from ..targets import host, instructions
from ..tensor import Tensor
from ..tensor.graph.symbolic_sizes import most
from ..tensor.trees import tree_map
from ..xp import arange, where
from ..xp import round as round_half_even
from .mapped_file import Room

Array = np.ndarray[Any, Any]


class PackedMatrix(tuple[Any, ...]):
    """What all packed matrices can do. Each field has the same leading dimensions, and then blocks of a row."""

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the numbers, (..., rows, columns)."""
        raise NotImplementedError

    @property
    def nbytes(self) -> int:
        """Bytes of all fields."""
        return sum(prod(f.shape) * f.dtype.itemsize for f in self)

    def decoded(self, dtype: str = "float32") -> Tensor:
        """All numbers as an expression: nothing is computed until somebody asks. float32 has the bits of the format's definition."""
        values = self._values().reshape(*self.shape)
        found: Tensor = values if dtype == "float32" else values.astype(dtype)
        return found

    def take(self, rows: Tensor) -> Tensor:
        """The numbers of some rows of a matrix, float32: an embedding."""
        taken: PackedMatrix = tree_map(lambda field: field[rows], self)
        return taken.decoded()

    def _values(self) -> Any:
        raise NotImplementedError

    def _parts(self) -> tuple[Any, Any] | None:
        """(whole numbers, int32; the scale of each), (..., rows, columns), where the numbers are products of these; else None."""
        return None


def is_packed(x: Any) -> bool:
    """Whether something is a packed matrix."""
    return isinstance(x, PackedMatrix)


def linear(x: Tensor, w: Any, bias: Tensor | None = None, act: str | None = None) -> Tensor:
    """x · wᵀ (+ bias). `x`: (..., inputs). `w`: (outputs, inputs), a tensor or packed; one of 16 or 8 bits is converted to x's type where it is
    read.

    `act` allows rounding where it makes the product faster. With "int8", and a matrix of Q8_0, Q4_0, int8 or int4, up to eight rows of x are
    rounded to 8 bits with a scale for each 32 numbers of a row. With "int8" or "bfloat16", more rows, and the numbers of a matrix that is packed
    or of bfloat16, are rounded to bfloat16 where the processor multiplies pairs of these, which is closer than 8 bits. Raises UsageError where
    there is no such `act`."""
    if act not in (None, "int8", "bfloat16"):
        raise UsageError(f"linear: activations cannot be {act!r}; act is 'int8', 'bfloat16', or None for those of x's own type")
    parts = w._parts() if act == "int8" and is_packed(w) and _is_few_rows(x) else None
    if parts is not None:
        y: Tensor = _of_bytes(x, *parts)
    else:
        kind = "bfloat16" if act is not None and not _is_few_rows(x) and _pairs(x) else x.dtype
        if is_packed(w):
            w = w.decoded(kind)
        if w.dtype == kind:
            x = x.astype(kind).astype(x.dtype)
        y = x @ (w if w.dtype == x.dtype else w.astype(x.dtype)).mT
    return y if bias is None else y + bias


GROUP = 32
"""Activations of 8 bits that have a scale in common, where rows are whole groups; else a row has one."""


FEW = 8
"""Rows of activations up to which products of bytes are faster: more would need a conversion for each group. Few rows by a matrix of floats wait
for memory, so that rounding them saves nothing."""


def _is_few_rows(x: Tensor) -> bool:
    return most(prod(x.shape[:-1])) <= FEW


def _pairs(x: Tensor) -> bool:
    """Whether products of bfloat16 are the faster ones."""
    return x.device == "cpu" and any(row.a is bfloat16 for row in instructions.available(host()))


def _of_bytes(x: Any, whole: Any, scales: Any) -> Any:
    """The product with activations of 8 bits, by the `_parts` of a matrix. What is whole in it is multiplied as whole numbers, so that a group's
    products may be added before they are scaled."""
    n = whole.shape[-1]
    groups = x.reshape(*x.shape[:-1], -1, GROUP if n % GROUP == 0 else n)
    step = abs(groups).max(-1) / 127.0
    q = round_half_even(groups / _last(where(step > 0, step, 1.0))).astype("int8").astype("int32").reshape(*x.shape[:-1], 1, n)
    whole, scales = (p.reshape(*p.shape[:-2], *([1] * (x.ndim > 1)), *p.shape[-2:]) if p.ndim > 2 else p for p in (whole, scales))
    return ((whole * q).astype("float32") * (scales * _spread(step, groups.shape[-1]).reshape(*x.shape[:-1], 1, n))).sum(-1)


def rows(w: Any, at: Tensor) -> Tensor:
    """Rows of a matrix, a tensor or packed, as float32."""
    found: Tensor = w.take(at) if is_packed(w) else w[at].astype("float32")
    return found


class _Fields8(NamedTuple):
    d: Any
    q: Any


class Packed8(_Fields8, PackedMatrix):
    """Q8_0 and its kin: d (..., groups) scales, q (..., groups, n) int8, for numbers d · q. Q8_0 has groups of 32 and float16 scales; int8 per
    channel has one group a row and float32 scales."""

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """(..., columns)."""
        return (*self.q.shape[:-2], self.q.shape[-2] * self.q.shape[-1])

    def _values(self) -> Any:
        return self.q.astype("float32") * _last(self.d)

    def _parts(self) -> tuple[Any, Any]:
        return self.q.astype("int32").reshape(*self.shape), _spread(self.d, self.q.shape[-1])


class Packed4(_Fields8, PackedMatrix):
    """Q4_0 and its kin: d (..., groups) scales, q (..., groups, n / 2) bytes, for numbers d · (nibble - 8). The low nibbles are the first half of
    a group. Q4_0 has groups of 32."""

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """(..., columns)."""
        return (*self.q.shape[:-2], self.q.shape[-2] * self.q.shape[-1] * 2)

    def _values(self) -> Any:
        return (_nibbles(self.q).astype("float32") - 8.0) * _last(self.d)

    def _parts(self) -> tuple[Any, Any]:
        return (_nibbles(self.q) - 8).reshape(*self.shape), _spread(self.d, 2 * self.q.shape[-1])


class _Fields4K(NamedTuple):
    d: Any
    dmin: Any
    scales: Any
    q: Any


class PackedQ4K(_Fields4K, PackedMatrix):
    """Q4_K: blocks of 256, each of eight groups of 32 with a scale and a least number of 6 bits. d and dmin (..., blocks) float16, scales (...,
    blocks, 12) bytes, q (..., blocks, 128) bytes."""

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """(..., columns)."""
        return (*self.q.shape[:-2], self.q.shape[-2] * 256)

    def _values(self) -> Any:
        lead = self.q.shape[:-1]
        parts = self.scales.astype("int32").reshape(*lead, 3, 1, 4)  # of scales, of least numbers, and four bits of the last four of each
        last = arange(2).reshape(2, 1) == 1

        def six_bits(low: Any, high: Any) -> Any:
            return where(last, high | ((low >> 2) & 48), low & 63).astype("float32").reshape(*lead, 8)

        scale = six_bits(parts[..., 0, :, :], parts[..., 2, :, :] & 15) * _last(self.d)
        least = six_bits(parts[..., 1, :, :], parts[..., 2, :, :] >> 4) * _last(self.dmin)
        q = _nibbles(self.q.reshape(*lead, 4, 32)).reshape(*lead, 8, 32)
        return q.astype("float32") * _last(scale) - _last(least)


class _Fields6K(NamedTuple):
    low: Any
    high: Any
    scales: Any
    d: Any


class PackedQ6K(_Fields6K, PackedMatrix):
    """Q6_K: blocks of 256, each of sixteen groups of 16 with a scale of 8 bits. low (..., blocks, 128) bytes, high (..., blocks, 64) bytes, scales
    (..., blocks, 16) int8, d (..., blocks) float16."""

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """(..., columns)."""
        return (*self.low.shape[:-2], self.low.shape[-2] * 256)

    def _values(self) -> Any:
        lead = self.low.shape[:-1]
        low = _nibbles(self.low.reshape(*lead, 2, 64)).reshape(*lead, 2, 128)
        high = _fields(self.high.reshape(*lead, 2, 32), 2).reshape(*lead, 2, 128)
        q = ((low | (high << 4)).astype("float32") - 32.0).reshape(*lead, 16, 16)
        return q * _last(self.scales.astype("float32") * _last(self.d))


def _last(x: Any) -> Any:
    return x.astype("float32").reshape(*x.shape, 1)


def _spread(d: Any, n: int) -> Any:
    """(..., groups) → (..., groups · n): each n times."""
    return _last(d).broadcast_to((*d.shape, n)).reshape(*d.shape[:-1], -1)


def _nibbles(q: Any) -> Any:
    """(..., n) bytes → (..., 2 n) numbers: the low halves, then the high ones."""
    return _fields(q, 4).reshape(*q.shape[:-1], 2 * q.shape[-1])


def _fields(q: Any, bits: int) -> Any:
    """(..., n) bytes → (..., 8 / bits, n) int32, the lowest bits first. Bytes are widened before, once for all that is in them."""
    shifts = (arange(8 // bits, dtype="int32") * bits).reshape(-1, 1)
    return (q.astype("int32").reshape(*q.shape[:-1], 1, q.shape[-1]) >> shifts) & ((1 << bits) - 1)


BLOCKS: dict[str, tuple[type[PackedMatrix], int, dict[str, tuple[Any, int]]]] = {
    "Q8_0": (Packed8, 32, {"d": (np.float16, 1), "q": (np.int8, 32)}),
    "Q4_0": (Packed4, 32, {"d": (np.float16, 1), "q": (np.uint8, 16)}),
    "Q4_K": (PackedQ4K, 256, {"d": (np.float16, 1), "dmin": (np.float16, 1), "scales": (np.uint8, 12), "q": (np.uint8, 128)}),
    "Q6_K": (PackedQ6K, 256, {"low": (np.uint8, 128), "high": (np.uint8, 64), "scales": (np.int8, 16), "d": (np.float16, 1)}),
}
"""GGML's formats: the class, the numbers of a block, and the fields of a block as they lie in a file (the order is the file's)."""


def block_bytes(form: str) -> int:
    """Bytes of a block."""
    return sum(np.dtype(kind).itemsize * n for kind, n in BLOCKS[form][2].values())


PART = 1 << 15
"""Blocks of a matrix that are taken apart at once."""


def from_blocks(form: str, raw: Array, shape: tuple[int, ...], empty: Callable[[int, Any], Array] = np.empty) -> PackedMatrix:
    """The matrix whose blocks lie in `raw` (bytes) as GGML keeps them. `empty`: (count, type) → an array for a field."""
    kind, size, fields = BLOCKS[form]
    # (a field of several numbers is copied as one thing of so many bytes, which is several times as fast)
    record = np.dtype([(name, f"V{n * np.dtype(t).itemsize}" if n > 1 else t) for name, (t, n) in fields.items()])
    blocks = raw.reshape(-1).view(record)
    taken = {name: empty(len(blocks), record[name]) for name in fields}

    def take(first: int) -> None:
        for name, field in taken.items():
            field[first : first + PART] = blocks[name][first : first + PART]

    parts = range(0, len(blocks), PART)
    if len(parts) < 2:
        list(map(take, parts))
    else:  # (what reads a part's second field finds it in a cache; copies of NumPy's run beside each other)
        with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
            list(pool.map(take, parts))
    lead = (*shape[:-1], shape[-1] // size)
    taken = {name: field.reshape(lead) for name, field in taken.items()}
    return kind(**{name: Tensor(taken[name].view((t, (n,))) if n > 1 else taken[name]) for name, (t, n) in fields.items()})


def to_blocks(form: str, w: PackedMatrix) -> Array:
    """The bytes of a matrix as GGML keeps them, (..., bytes of a row): what `from_blocks` reads."""
    fields = BLOCKS[form][2]
    parts = [np.ascontiguousarray(f.numpy()).view(np.uint8) for f in w]
    lead = w[0].shape[:-1] if next(iter(fields.values()))[1] == 1 else w[0].shape[:-2]
    blocks = [p.reshape(*lead, -1, np.dtype(t).itemsize * n) for p, (t, n) in zip(parts, fields.values())]
    return np.concatenate(blocks, axis=-1).reshape(*lead, -1)


_ROOM = Room()
"""Where packed matrices lie together: one of a megabyte by itself would get small pages, of which each costs a walk through tables."""


def quantize(x: Any, form: str, group: int | None = None) -> PackedMatrix:
    """A matrix of floats, (..., rows, columns), packed.

    `form`: q8_0, q4_0, q4_k or q6_k, which are GGML's (q8_0 and q4_0 have the bits that its own quantiser makes); int8, with a scale for each
    row; int4, with a scale for each `group` numbers of a row (32). Numbers that are not finite, and rows that are no whole blocks, are a UsageError."""
    a = np.asarray(x.numpy() if isinstance(x, Tensor) else x).astype(np.float32)
    named = form.lower()
    groups = {"q8_0": 32, "q4_0": 32, "q4_k": 256, "q6_k": 256, "int8": a.shape[-1] if a.ndim else 0, "int4": group or 32}
    if named not in groups:
        raise UsageError(f"quantize: there is no format {form!r}; the formats are {', '.join(groups)}")
    if group is not None and named != "int4":
        raise UsageError(f"quantize: the groups of {form} have {groups[named]} numbers; group= is for int4")
    n = groups[named]
    if a.ndim < 1 or n < 1 or a.shape[-1] % n or (named == "int4" and n % 2):
        raise UsageError(
            f"quantize: {form} has groups of {n} numbers, an even count that divides each row; a row of {list(a.shape)} has not (int8 has a scale for each row)"
        )
    if not np.isfinite(a).all():
        raise UsageError(f"quantize: {int((~np.isfinite(a)).sum())} of {a.size} numbers are NaN or infinite, which {form} cannot hold")
    blocks = a.reshape(*a.shape[:-1], a.shape[-1] // n, n)
    fields = {"q8_0": _q8, "int8": _int8, "q4_0": _q4, "int4": _q4, "q4_k": _q4k, "q6_k": _q6k}[named](blocks)
    packed: PackedMatrix = tree_map(lambda field: Tensor(_ROOM.copied(field)), fields)
    return packed


def _inverse(d: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.where(d == 0, np.float32(0), np.float32(1) / d)


def _q8(x: Array) -> PackedMatrix:
    d = np.abs(x).max(-1, keepdims=True) / np.float32(127)
    scaled = x * _inverse(d)
    q = np.trunc(scaled + np.copysign(np.float32(0.5), scaled))  # halves away from zero
    return Packed8(d[..., 0].astype(np.float16), q.astype(np.int8))


def _int8(x: Array) -> PackedMatrix:
    d = np.abs(x).max(-1, keepdims=True) / np.float32(127)
    return Packed8(d[..., 0], np.rint(x * _inverse(d)).astype(np.int8))


def _q4(x: Array) -> PackedMatrix:
    d = np.take_along_axis(x, np.abs(x).argmax(-1, keepdims=True), -1) / np.float32(-8)
    q = np.trunc(x * _inverse(d) + np.float32(8.5)).astype(np.uint8).clip(0, 15)
    return Packed4(d[..., 0].astype(np.float16), _two_a_byte(q))


def _two_a_byte(q: Array) -> Array:
    low, high = np.split(q, 2, axis=-1)
    packed: Array = low | (high << np.uint8(4))
    return packed


def _q4k(x: Array) -> PackedMatrix:
    groups = x.reshape(*x.shape[:-1], 8, 32)
    least = np.minimum(groups.min(-1), 0)
    scale = (groups.max(-1) - least) / np.float32(15)
    d, dmin = ((v.max(-1) / np.float32(63)).astype(np.float16) for v in (scale, -least))
    s, m = (np.rint(v * _inverse(u.astype(np.float32))[..., None]).clip(0, 63).astype(np.uint8) for v, u in ((scale, d), (-least, dmin)))
    step, low = s * d.astype(np.float32)[..., None], m * dmin.astype(np.float32)[..., None]
    q = np.rint((groups + low[..., None]) * _inverse(step)[..., None]).clip(0, 15).astype(np.uint8)
    a = (s[..., :4] & 63) | ((s[..., 4:] >> 4) << 6)
    b = (m[..., :4] & 63) | ((m[..., 4:] >> 4) << 6)
    c = (s[..., 4:] & 15) | ((m[..., 4:] & 15) << 4)
    packed = _two_a_byte(q.reshape(*x.shape[:-1], 4, 64)).reshape(*x.shape[:-1], 128)
    return PackedQ4K(d, dmin, np.concatenate([a, b, c], axis=-1), packed)


def _q6k(x: Array) -> PackedMatrix:
    groups = x.reshape(*x.shape[:-1], 16, 16)
    far = np.take_along_axis(groups, np.abs(groups).argmax(-1, keepdims=True), -1)[..., 0] / np.float32(-32)
    d = (np.abs(far).max(-1) / np.float32(127)).astype(np.float16)
    s = np.rint(far * _inverse(d.astype(np.float32))[..., None]).clip(-128, 127).astype(np.int8)
    step = s * d.astype(np.float32)[..., None]
    q = (np.rint(groups * _inverse(step)[..., None]).clip(-32, 31) + 32).astype(np.uint8).reshape(*x.shape[:-1], 2, 4, 32)
    low = _two_a_byte((q & 15).reshape(*x.shape[:-1], 2, 128)).reshape(*x.shape[:-1], 128)
    high = sum((q[..., i, :] >> 4) << np.uint8(2 * i) for i in range(4))
    return PackedQ6K(low, np.asarray(high, np.uint8).reshape(*x.shape[:-1], 64), s, d)
