"""Program number N of seed S. Each step is drawn from the table and tried by NumPy at once, so that every program means something.

Extents of a program are few (two or three, and 1), so that its arrays fit each other; they are ragged, tiny or empty, or neighbours
of the lengths of vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import oracle
from .leaves import WHAT
from .operations.table import OPERATIONS, Unfit
from .program import Leaf, Program, Step

EXTENTS = (2, 3, 3, 4, 5, 6, 7, 7, 8, 9, 11, 12, 13, 15, 16, 17, 18, 20, 23, 31, 32, 33, 34, 36, 47, 63, 64, 65, 66, 68, 90)
FLOATS = ("float32", "float32", "float32", "float32", "float64", "float16", "bfloat16")
OTHERS = ("int32", "int32", "int64", "uint8", "int8", "int16", "uint32", "bool", "bool")
MOST = 6000
"""Elements of one value."""
RANK = 5

_names = [o.name for o in OPERATIONS.values()]
_weights = np.array([o.weight for o in OPERATIONS.values()])


class Value:
    """What drawing asks of a value."""

    def __init__(self, array: Any) -> None:
        self.array = np.asarray(array)
        self.dtype: str = oracle.kind_of(array)
        self.shape = self.array.shape
        self.ndim, self.size = self.array.ndim, self.array.size
        self.float = self.array.dtype.kind == "f"

    @property
    def finite(self) -> bool:
        return bool(np.isfinite(self.array).all())

    @property
    def small(self) -> bool:
        return self.finite and bool((np.abs(self.array) < 100).all())

    @property
    def positive(self) -> bool:
        return bool((self.array >= 0).all())


class Drawing:
    """A program in the making."""

    def __init__(self, seed: int, number: int, steps: int = 0) -> None:
        self.rng = np.random.default_rng([seed, number])
        self.extents = [int(self.one(EXTENTS)) for _ in range(2 + self.n(2))] + [1]
        if self.n(25) == 0:
            self.extents[0] = 0
        mixed = self.n(3) == 0
        self.floats = [str(self.one(FLOATS))] if not mixed else list(FLOATS)
        self.dtypes = [*self.floats * (1 if mixed else 3), *OTHERS]
        self.what = [str(self.one(WHAT[:3]))] * 2 + [str(self.one(WHAT))]
        self.leaves: list[Leaf] = []
        self.steps: list[Step] = []
        self.values: list[Value] = []
        self.names = {**oracle.NAMES}
        self.arrays: list[Any] = []
        self.first: list[bool] = []
        oracle.use(0)
        for _ in range(1 + self.n(3)):
            self.leaf(self.shape(), str(self.one(self.floats)))
        for _ in range(steps or 2 + self.n(11)):
            self.step()

    # choices ------------------------------------------------------------------------------------------------------
    def n(self, below: int) -> int:
        return int(self.rng.integers(below))

    def one(self, of: Any) -> Any:
        return of[self.n(len(of))]

    def extent(self) -> int:
        return int(self.one(self.extents))

    def shape(self) -> tuple[int, ...]:
        found = tuple(self.extent() for _ in range(self.one((1, 2, 2, 2, 3, 3, 4))))
        return found if np.prod(found) <= MOST else found[:2]

    def pick(self, fits: Callable[[Value], bool] = lambda v: True) -> int:
        """The number of one of the values that fit; often a recent one."""
        found = [i for i, v in enumerate(self.values) if fits(v)]
        if not found:
            raise Unfit
        return found[-1 - self.n(min(2, len(found)))] if self.n(2) else int(self.one(found))

    def like(self, a: int) -> int:
        """One that broadcasts with value `a`, of its type."""
        v = self.values[a]
        found = [i for i, w in enumerate(self.values) if w.dtype == v.dtype and self.broadcast(v.shape, w.shape)]
        if len(found) > 1 and self.n(4):
            return int(self.one(found))
        return self.leaf(tuple(1 if self.n(3) == 0 else n for n in v.shape)[self.n(v.ndim + 1) :], v.dtype)

    def some(self, shape: tuple[int, ...], dtype: str) -> int:
        """One of this shape and type: there already, or a new leaf."""
        found = [i for i, w in enumerate(self.values) if w.dtype == dtype and w.shape == shape]
        return int(self.one(found)) if found and self.n(3) else self.leaf(shape, dtype)

    def places(self, shape: tuple[int, ...], below: int) -> int:
        """A leaf of indices."""
        return self._leaf(Leaf(f"below {below}", self.n(1 << 30), shape, "int64"))

    def broadcast(self, *shapes: tuple[int, ...]) -> bool:
        try:
            return len(np.broadcast_shapes(*shapes)) <= RANK
        except ValueError:
            return False

    def slice(self, size: int) -> str:
        how = self.n(6)
        if how == 0:
            return ":"
        low, high = sorted((self.n(size + 1), self.n(size + 1)))
        if how <= 3 or not size:
            return self.one((f"{low}:", f":{high}", f"{low}:{max(high, low + 1)}"))
        return self.one((f"{low}::2", "::-1", f":{high}:3", f"{high}:{low}:-1" if low else "::-2"))

    def factors(self, size: int) -> tuple[int, ...]:
        out, left = [], size
        while left > 1 and len(out) < 2:
            f = int(self.one([f for f in range(1, left + 1) if left % f == 0]))
            out.append(f)
            left //= f
        return (*out, left) if left != 1 or not out else tuple(out)

    # growing ------------------------------------------------------------------------------------------------------
    def leaf(self, shape: tuple[int, ...], dtype: str) -> int:
        return self._leaf(Leaf(str(self.one(self.what)), self.n(1 << 30), tuple(map(int, shape)), dtype))

    def _leaf(self, leaf: Leaf) -> int:
        self.leaves.append(leaf)
        return self._add(oracle.array(leaf), True)

    def _add(self, array: Any, leaf: bool) -> int:
        self.arrays.append(array)
        self.values.append(Value(array))
        self.first.append(leaf)
        self.names[f"v{len(self.values) - 1}"] = array
        return len(self.values) - 1

    def step(self) -> None:
        """One operation that fits."""
        for _ in range(30):
            o = OPERATIONS[_names[int(np.searchsorted(_cumulated, self.rng.uniform(0, _cumulated[-1]), side="right"))]]
            count, leaves = len(self.values), len(self.leaves)
            try:
                args, params = o.draw(self)
                s = Step(o.name, args, tuple(params.items()))
                with np.errstate(all="ignore"):
                    found = eval(s.text("np"), self.names)
                if np.size(found) > MOST or np.ndim(found) > RANK:
                    raise Unfit
                self.steps.append(s)
                self._add(found, False)
                return
            except (Unfit, ValueError, IndexError, ZeroDivisionError):
                del self.values[count:], self.arrays[count:], self.first[count:], self.leaves[leaves:]

    def program(self) -> Program:
        """Values in their final order: leaves first."""
        order = [i for i, leaf in enumerate(self.first) if leaf] + [i for i, leaf in enumerate(self.first) if not leaf]
        to = {v: i for i, v in enumerate(order)}
        steps = tuple(Step(s.op, tuple(to[a] for a in s.args), s.params) for s in self.steps)
        made = [to[i] for i, leaf in enumerate(self.first) if not leaf] or [0]
        unread = [v for v in made if not any(v in s.args for s in steps)]
        outs = [*unread[-3:], *(int(self.one(made)) for _ in range(self.n(3)))]
        return Program(tuple(self.leaves), steps, tuple(dict.fromkeys(outs))).live()


_cumulated = np.cumsum(_weights)


def drawn(seed: int, number: int) -> Program:
    """Program `number` of a seed."""
    return Drawing(seed, number).program()
