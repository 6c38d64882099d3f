"""What data may say of padded rows, and which loops end where it says."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.ir import Node
from tilewright.ir.operators import cast
from tilewright.lower import Program
from tilewright.program.program import For, Instr, statements

Condition = Callable[[Node, Node, Node, Node], Node]
"""(place, its row, the row's number, whether an element counts) → what counts."""
CONDITIONS: dict[str, Condition] = {
    "before": lambda k, i, many, ok: k < cast(many, "int64"),
    "in its type": lambda k, i, many, ok: cast(k, many.dtype) < many,
    "up to": lambda k, i, many, ok: cast(k, "int64") <= cast(many, "int64"),
    "from": lambda k, i, many, ok: cast(many, "int64") <= k,
    "after": lambda k, i, many, ok: cast(many, "int64") < k,
    "steep": lambda k, i, many, ok: 2 * k + i < cast(many, "int64"),
    "with others": lambda k, i, many, ok: (k < cast(many, "int64")) & ok & (k >= 2),
    "with a triangle": lambda k, i, many, ok: (cast(k, "int64") < cast(many, "int64")) & (k <= i),
}
TYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def loops(program: Program, label: str) -> list[For]:
    """The loops of a part that do not end at a constant."""
    made = {s.out for p in program.phases for s in statements(p.body) if isinstance(s, Instr) and s.op == "const"}
    found = [s for p in program.phases for s in statements(p.body) if isinstance(s, For)]
    return [s for s in found if s.label == label and not {s.lo, s.hi} <= made]
