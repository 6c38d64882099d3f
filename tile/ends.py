"""Where a cell may end a loop."""

from __future__ import annotations

from ..ir.errors import KernelError
from ..ir.integer_ranges import value_range
from ..ir.node import Node, walk


def check_end(what: str, end: Node, extent: int) -> None:
    """Raise KernelError for an end that is read from memory and may lie past the loop's extent: the elements from there on would be
    left out without a word. (What is computed of places alone may: past the extent there is nothing.)"""
    if not any(n.op in ("load", "ref") for n in walk(end)):
        return
    most = value_range(end)[1]
    if most > extent:
        raise KernelError(
            f"{what}: its end is read from memory, and may be up to {most}, past its {extent} elements. State the range of the input, "
            f"t.input(..., range=(0, {extent})), which calls check; or give tile.minimum(end, {extent}) if the rest is to be left out"
        )
