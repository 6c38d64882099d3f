"""How PyTorch's arrays lie in memory, and the row-major arrays behind them that kernels read and write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ...tensor import Tensor
from ...tensor.graph.symbolic_sizes import symbolic


@dataclass(frozen=True)
class ArrayLayout:
    """A tensor's `shape` and `strides` (in elements), and the axes `order` in which its memory is row-major: `stored` are their extents.
    An axis of stride 0 has an extent of 1 in memory. Sizes may be symbols of ours."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    order: tuple[int, ...]
    stored: tuple[int, ...]
    dtype: torch.dtype

    @property
    def symbolic(self) -> bool:
        """Whether a size is a symbol."""
        return symbolic(self.shape)

    def sized(self, shape: tuple[int, ...], stored: tuple[int, ...]) -> ArrayLayout:
        """The same axes with other extents."""
        strides, steps = [0] * len(shape), row_major(stored)
        for a, n, step in zip(self.order, stored, steps, strict=True):
            strides[a] = 0 if n == 1 and shape[a] != 1 else step
        return ArrayLayout(shape, tuple(strides), self.order, stored, self.dtype)

    @property
    def plain(self) -> bool:
        """Whether it is row-major itself."""
        return self.stored == self.shape and self.order == tuple(range(len(self.shape)))

    def view(self, stored: Tensor) -> Tensor:
        """The tensor of what lies in memory."""
        if self.plain:
            return stored
        back = sorted(range(len(self.order)), key=self.order.__getitem__)
        found = stored.permute(tuple(back)) if self.order != tuple(range(len(self.order))) else stored
        return found if found.shape == self.shape else found.expand(self.shape)

    def store(self, x: Tensor) -> Tensor:
        """What is written to memory, so that it is `x` there."""
        if self.plain:
            return x
        once = tuple(slice(0, 1) if self.stored[i] == 1 and self.shape[a] != 1 else slice(None) for a, i in self._places())
        stored: Tensor = (x[once] if slice(0, 1) in once else x).permute(self.order)
        return stored

    def _places(self) -> list[tuple[int, int]]:
        """(axis, its place in memory)."""
        return sorted((a, i) for i, a in enumerate(self.order))


def has_symbols(value: object) -> bool:
    """Whether a size is one of PyTorch's symbols: of a tensor, of one of several, or a size itself."""
    if isinstance(value, (tuple, list)):
        return any(map(has_symbols, value))
    return isinstance(value, torch.SymInt) or (isinstance(value, torch.Tensor) and any(isinstance(d, torch.SymInt) for d in value.shape))


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of an array without gaps, last axis innermost."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n or 1
    return tuple(reversed(strides))


def row_major_layout(shape: tuple[int, ...], dtype: torch.dtype) -> ArrayLayout:
    """An array without gaps, last axis innermost."""
    return ArrayLayout(shape, row_major(shape), tuple(range(len(shape))), shape, dtype)


def layout_of(shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype, writable: bool = False) -> ArrayLayout | None:
    """The layout of a tensor; None where its memory has gaps, or elements in several places, which an array without gaps has not.
    (`writable`: axes of stride 0 count as that.)"""
    plain = row_major_layout(shape, dtype)
    if 0 in shape or all(n == 1 or s == e for n, s, e in zip(shape, strides, plain.strides, strict=True)):
        return plain
    order = sorted(range(len(shape)), key=lambda a: (-strides[a], a) if shape[a] > 1 and strides[a] else (0, a))
    stored = tuple(1 if not strides[a] or shape[a] == 1 else shape[a] for a in order)
    if writable and any(not s and n > 1 for s, n in zip(strides, shape, strict=True)):
        return None
    expected = row_major(stored)
    if any(n > 1 and strides[a] != e for a, n, e in zip(order, stored, expected, strict=True)):
        return None
    return ArrayLayout(shape, strides, tuple(order), stored, dtype)
