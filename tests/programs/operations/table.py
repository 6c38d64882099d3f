"""The table of operations: a name, a text in both languages, and a function that draws arguments and parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Drawn = tuple[tuple[int, ...], dict[str, Any]]
"""Arguments (values) and parameters."""


class Unfit(Exception):
    """What was drawn does not fit together: draw again."""


@dataclass(frozen=True)
class Operation:
    """`tw` and `np` are texts with {a}, {b}, {c} for arguments, {args} for all of them, and parameters by name. `weight`: how often it is drawn.
    `groups`: for choosing parts of the table."""

    name: str
    tw: str
    np: str
    draw: Callable[[Any], Drawn]
    weight: float
    group: str


OPERATIONS: dict[str, Operation] = {}


def row(group: str, draw: Callable[[Any], Drawn], weight: float, **texts: str | tuple[str, str]) -> None:
    """Rows of the table: by name one text for both languages, or (tilewright's, NumPy's)."""
    for name, text in texts.items():
        tw, np = (text, text) if isinstance(text, str) else text
        assert name not in OPERATIONS, name
        OPERATIONS[name] = Operation(name, tw, np, draw, weight / len(texts), group)
