"""Random kernels of two to four stores that combine into one output: gathered and affine places, masks, all combines and types."""

from __future__ import annotations

from random import Random
from typing import Any

from tilewright.ir import KernelBuilder, sym
from tilewright.ir.dtypes import DType, dtype
from tilewright.ir.functions import exp, where
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import Node, const
from tilewright.ir.operators import cast

POINTS, ROW = (1, 5, 13, 32, 37), (1, 3, 8, 11)
FLOATS = ("float32", "float32", "float64", "bfloat16", "float16")
WHOLE = ("int32", "int32", "uint8", "int16", "int64")


class Drawn:
    """The parts that a kernel's stores are drawn from, and what its symbols are. `known`: no sizes that are known only when it runs."""

    def __init__(self, seed: object, known: bool = False) -> None:
        self.dice = dice = Random(f"scattered {seed}")
        self.kb = kb = KernelBuilder("scattered")
        self.points, self.row, self.size = dice.choice(POINTS), dice.choice(ROW), dice.choice((7, 40, 80))
        self.vars: dict[str, int] = {}
        points: Any = self.points
        if not known and dice.random() < 0.15:
            points, self.vars = sym("m", 0, 37), {"m": dice.choice((0, self.points))}
            self.size = max(self.size, 40)
        self.e, self.j, self.i = kb.axis("e", points), kb.axis("j", self.row), kb.axis("i", self.size)
        self.extent = {self.e: points, self.j: self.row, self.i: self.size}
        self.rows = dice.random() < 0.4  # of a table
        self.of = dtype(dice.choice(FLOATS if dice.random() < 0.6 else WHOLE))
        self.combine = dice.choice(("add", "add", "max", "min") if self.of.is_float else ("add", "max", "min", "and", "or", "xor"))
        self.shared = kb.input("s", (points,), self.of)
        self.inputs = 0
        self.kept = None
        if self.of.is_float and dice.random() < 0.5:
            self.kept = kb.value("kept", (self.e,), exp(cast(self.shared[self.e], self.of.compute) * 0.25))

    def kernel(self) -> Kernel:
        """The kernel."""
        for _ in range(self.dice.choice((2, 2, 3, 4))):
            self.store()
        return self.kb.build()

    def read(self, axes: tuple[Node, ...], of: DType | str, **more: Any) -> Node:
        """An element of a new input over some axes."""
        self.inputs += 1
        return self.kb.input(f"x{self.inputs}", tuple(self.extent[a] for a in axes), of, **more)[axes]

    def store(self) -> None:
        """One more store to the output."""
        dice, e, j, i = self.dice, self.e, self.j, self.i
        axes = dice.choice(((e,), (e,), (e, j), (j, e), (i,)))
        if self.rows:
            axes = dice.choice(((e, j), (e, j), (j, e), (i, j), (e,)))
        place = self.place(axes)
        at = (place, j if j in axes and dice.random() < 0.8 else const(dice.randrange(self.row))) if self.rows else (place,)
        value = self.value(axes)
        mask = None
        how = dice.random()
        if how < 0.2:
            mask = self.read(axes, "int8") > 0
        elif how < 0.3:
            mask = axes[0] < max(1, self.points // 2)
        elif how < 0.4 and self.combine in ("add", "or", "xor"):
            value = where(self.read(axes, "int8") > 0, value, const(0, value.dtype))
        shape = (self.size, self.row) if self.rows else (self.size,)
        self.kb.store("y", self.of, shape, axes, value, at, combine=self.combine, mask=mask)

    def place(self, axes: tuple[Node, ...]) -> Node:
        """Where a point goes: read from memory, or computed of its axes."""
        dice, first = self.dice, axes[0]
        ways = ["read", "read", "read"]
        if self.i in axes:
            ways += ["itself", "back"]
            first = self.i
        elif self.e in axes and self.size >= 38:
            ways += ["itself", "next", *(["twice"] if self.size >= 75 else [])]
            first = self.e
        way = dice.choice(ways)
        if way == "read":
            by = axes if dice.random() < 0.5 else axes[:1]
            return cast(self.read(by, "int32", range=(0, self.size - 1)), "int64")
        return {"itself": first, "back": self.size - 1 - first, "next": first + 1, "twice": 2 * first}[way]

    def value(self, axes: tuple[Node, ...]) -> Node:
        """What a point adds."""
        dice = self.dice
        x = self.read(axes, self.of)
        if self.e in axes and dice.random() < 0.5:
            x = x * (self.kept[self.e] if self.kept is not None and dice.random() < 0.7 else self.shared[self.e])
        if self.of.is_float and dice.random() < 0.15:
            self.inputs += 1
            over = self.kb.axis(f"r{self.inputs}", 4)
            self.extent[over] = 4
            x = self.kb.sum(f"sum{self.inputs}", axes, over, cast(self.read((*axes, over), self.of), self.of.compute))[axes]
        return -x if dice.random() < 0.2 else x
