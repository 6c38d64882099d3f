"""What is certain of an element: its kind, such as a zero of one sign, an infinity, NaN, or an ordinary number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..dtypes import DType
from .algebra import Array
from .error_bound import Pair

Mask = Array | None
"""Booleans of the value's shape; None: false everywhere."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A value with its error, and in which elements what about it is in doubt. `made`: what every schedule computes, where that is
    certain to the bit: sums, differences and products of such values, each rounded once. (A product may still be part of a sum that is
    accumulated, which is why it has a value and an error beside.)"""

    pair: Pair
    loose: Mask = None
    unsure: Mask = None
    made: Array | None = None

    @property
    def settled(self) -> Kind:
        """The value as it is computed, for whoever reads that and nothing else."""
        return self if self.made is None else Kind(Pair(self.made, None), self.loose, None, self.made)


_ROUNDED = {"add": np.add, "sub": np.subtract, "mul": np.multiply}


def made(op: str, a: Kind, b: Kind, dtype: DType) -> Array | None:
    """What `op` of two values is that are certain to the bit; None for other values and operators."""
    if a.made is None or b.made is None or op not in _ROUNDED:
        return None
    kind = dtype.compute.np
    return np.asarray(_ROUNDED[op](a.made.astype(kind), b.made.astype(kind)).astype(np.float64))


def either(*masks: Any) -> Mask:
    """Where any of them holds; None where none does anywhere."""
    out: Mask = None
    for m in masks:
        if m is not None and np.any(m):
            out = np.asarray(m) if out is None else out | m
    return out


def less(mask: Mask, but: Mask) -> Mask:
    """`mask` without `but`."""
    return mask if mask is None or but is None else either(mask & ~but)


def chosen(cond: Array, a: Mask, b: Mask) -> Mask:
    """`a` where `cond`, else `b`."""
    return None if a is None and b is None else either(np.where(cond, False if a is None else a, False if b is None else b))


def full(mask: Mask, like: Array) -> Array:
    """A mask as an array of the shape of `like`."""
    return np.broadcast_to(False if mask is None else mask, like.shape)


def both(a: Any, b: Any) -> Mask:
    """Where both hold."""
    return None if a is None or b is None else either(a & b)


def any_of(mask: Mask, axes: tuple[int, ...]) -> Mask:
    """Where a mask holds anywhere along some axes."""
    return None if mask is None else either(mask.any(axis=axes))


def small(value: Array, error: Mask, slack: float, top: float) -> bool:
    """Nothing is near overflow, or not finite: soon seen, and the rule."""
    if not max(value.max(), -value.min()) < 0.5 * top:
        return False
    return error is None or bool(error.max() * slack < 0.25 * top)
