"""The beginnings of random graphs: tensors with their values by NumPy and bounds on their errors. `random_graphs` has the steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tilewright.tensor import Tensor

Array = np.ndarray[Any, Any]

FLOATS = {"float32": 2.0**-23, "float64": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7}
DTYPES = ("float32", "float32", "float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8", "int8", "bool")
SIZES = (1, 2, 3, 4, 5, 7, 8, 13)
MOST = 3000
"""Elements of a tensor."""


@dataclass
class Item:
    """A tensor, its value (floats in float64) and how far a float of it may be off; 0: not at all."""

    t: Tensor
    v: Array
    err: float = 0.0
    how: str = ""

    @property
    def name(self) -> str:
        return self.t.dtype.name

    @property
    def float(self) -> bool:
        return self.t.dtype.is_float

    @property
    def top(self) -> float:
        """The largest finite size."""
        return float(np.max(np.abs(self.v.astype(np.float64)), initial=0.0, where=np.isfinite(self.v)))


class Unfit(Exception):
    """The step does not fit what it was drawn for."""


class GraphInMaking:
    """Leaves, choices and what was made so far."""

    def __init__(self, seed: int, device: str = "cpu", special: bool = True) -> None:
        self.rng = np.random.default_rng(seed)
        self.device = device
        self.special = special and self.n(3) == 0
        self.items: list[Item] = []
        for _ in range(1 + self.n(3)):
            self.leaf()

    # choices ------------------------------------------------------------------------------------------------------
    def n(self, below: int) -> int:
        return int(self.rng.integers(below))

    def one(self, of: Sequence[Any]) -> Any:
        return of[self.n(len(of))]

    def pick(self, fits: Callable[[Item], bool] = lambda i: True) -> Item:
        """One of the items that fit; often a recent one."""
        found = [i for i in self.items if fits(i)]
        if not found:
            raise Unfit
        return found[-1] if self.n(3) == 0 else self.one(found)

    def shape(self) -> tuple[int, ...]:
        shape = tuple(int(self.one(SIZES)) for _ in range(self.n(4)))
        if shape and self.n(25) == 0:
            at = self.n(len(shape))
            shape = (*shape[:at], 0, *shape[at + 1 :])
        return shape

    def outputs(self) -> list[Item]:
        """What is asked for: the last item and up to three others."""
        made = [i for i in self.items if i.how != "leaf"] or self.items
        return [made[-1], *(made[self.n(len(made))] for _ in range(self.n(4)))]

    # growing ------------------------------------------------------------------------------------------------------
    def leaf(self, shape: tuple[int, ...] | None = None, dtype: str = "") -> Item:
        shape, dtype = self.shape() if shape is None else shape, dtype or str(self.one(DTYPES))
        low = 0 if dtype[0] in "ub" and dtype != "bfloat16" else -4
        v = self.rng.integers(low, 2 if dtype == "bool" else 5, shape)
        v = v.astype(np.float64 if dtype in FLOATS else dtype)
        if self.special and dtype in FLOATS and v.size:
            v.reshape(-1)[self.n(v.size)] = self.one((np.nan, np.inf, -np.inf, -0.0))
        return self.add(Tensor(v, dtype=dtype, device=self.device), v, 0.0, "leaf")

    def add(self, t: Tensor, v: Any, err: float, how: str) -> Item:
        v = np.asarray(v)
        item = Item(t, v, err, how)
        assert t.shape == v.shape, f"{how}: {t.shape}, not {v.shape}"
        if v.size > MOST or v.ndim > 6:
            raise Unfit
        if item.float:
            eps = FLOATS[item.name]
            if v.dtype == np.bool_ or item.top > min(1e4, 4 / eps) or err > 0.05 * max(1.0, item.top):
                raise Unfit  # it would overflow, or nothing could be told of it
            whole = err == 0.0 and bool(np.all(np.equal(np.trunc(v), v) | ~np.isfinite(v))) and item.top <= 0.5 / eps
            item.err = 0.0 if whole else err + 4 * eps * item.top
            item.v = v.astype(np.float64)
        else:
            assert t.dtype.np == v.dtype, f"{how}: {t.dtype}, not {v.dtype}"
        self.items.append(item)
        return item

    def like(self, a: Item) -> Item:
        """An operand that broadcasts with `a`, of its type."""
        fits = [b for b in self.items if b.name == a.name and broadcast(a.v.shape, b.v.shape)]
        if len(fits) > 1 and self.n(4):
            return self.one(fits)
        shape = tuple(1 if self.n(3) == 0 else s for s in a.v.shape)[self.n(len(a.v.shape) + 1) :]
        return self.leaf(shape, a.name)


def broadcast(*shapes: tuple[int, ...]) -> bool:
    try:
        return len(np.broadcast_shapes(*shapes)) <= 5
    except ValueError:
        return False


def agree(item: Item, found: Array, label: str) -> None:
    """Raise AssertionError where `found` is not the item's value."""
    if not item.float:
        np.testing.assert_array_equal(found, item.v, err_msg=label)
        return
    got = found.astype(np.float64)
    finite = np.isfinite(item.v)
    np.testing.assert_array_equal(np.where(finite, 0.0, got), np.where(finite, 0.0, item.v), err_msg=label)
    wrong = np.abs(np.where(finite, got - np.where(finite, item.v, 0.0), 0.0)) > item.err
    assert not wrong.any(), (
        f"{label}: {got[wrong][:4]}, not {item.v[wrong][:4]} within {item.err:.2g}, at {np.argwhere(wrong)[:2].tolist()}"
    )
