"""What arithmetic computes to the bit, beside what is certain in kind (`certainty`).

A sum, a difference or a product of numbers that are known is rounded once, in every schedule (docs/decisions/0047): so is everything
that is made of inputs by these. Thus a difference of equal products is 0, and its root too, where an error bound alone would leave open
whether there is one. Sums over axes, quotients and functions are not of that sort. A product may still be a term of a sum that is
accumulated, where it isn't rounded by itself: it keeps its value and error for that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..dtypes import OVERFLOW, DType
from .algebra import Array, narrows
from .certainty import Kinds
from .error_bound import Pair
from .kinds import Kind, either, full, less, made
from .npmath import narrowed


class Computed(Kinds):
    """Kinds with what is certain to the bit (`Kind.made`)."""

    def leaf(self, raw: Array, dtype: DType) -> Kind:
        return _given(super().leaf(raw, dtype), dtype)

    def number(self, value: Any, dtype: DType) -> Kind:
        return _given(super().number(value, dtype), dtype)

    def map(self, q: Kind, f: Callable[[Array], Array]) -> Kind:
        return replace(super().map(q, f), made=None if q.made is None else f(q.made))

    def unary(self, op: str, a: Kind, dtype: DType) -> Kind:
        if op in ("neg", "abs") and a.made is not None:
            return replace(super().unary(op, a, dtype), made=np.negative(a.made) if op == "neg" else np.abs(a.made))
        return super().unary(op, a.settled, dtype)

    def binary(self, op: str, a: Kind, b: Kind, dtype: DType) -> Kind:
        known = made(op, a, b, dtype)
        if op == "mul":
            return replace(super().binary(op, a, b, dtype), made=known)
        if known is None:
            return super().binary(op, a.settled, b.settled, dtype)
        sure = either(*(np.isnan(k.made) & ~full(k.loose, k.made) for k in (a, b) if k.made is not None))
        loose = less(either(a.loose, b.loose), sure)
        return Kind(Pair(known, None), None if loose is None else np.broadcast_to(loose, known.shape), None, known)

    def where(self, cond: Kind, a: Kind, b: Kind, dtype: DType) -> Kind:
        known: Array | None = None
        if cond.pair.error is None and a.made is not None and b.made is not None:
            known = np.where(cond.pair.value, a.made, b.made)
        return replace(super().where(cond, a, b, dtype), made=known)

    def cast(self, a: Kind, source: DType, to: DType) -> Kind:
        if a.made is None or not to.is_float:
            return super().cast(a.settled, source, to)
        if narrows(source, to):
            return replace(super().cast(a.settled, source, to), made=narrowed(a.made, to))
        return replace(super().cast(a, source, to), made=a.made)

    def about(self, a: Kind, to: DType, times: int) -> Kind:
        pair = self.errors.about(a.pair, to, times)
        finite = np.where(np.isfinite(pair.value), np.abs(pair.value) + self.slack * (0.0 if pair.error is None else pair.error), 0.0)
        return Kind(pair, either(a.loose, ~(finite < OVERFLOW[to.name])), a.unsure)

    def mask(self, keep: Array, a: Kind) -> Kind:
        return replace(super().mask(keep, a), made=None if a.made is None else np.where(keep, a.made, 0.0))


def _given(k: Kind, dtype: DType) -> Kind:
    return replace(k, made=k.pair.value if dtype.is_float else None)
