"""What a function does beside its results: calls of NumPy's code that must run, in order (`debug.print`)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ..graph.nodes import TensorNode

PRINT = "debug.print"
"""The name of the call that prints."""


class _Open(threading.local):
    found: list[TensorNode] | None = None


_open = _Open()


def effects() -> list[TensorNode] | None:
    """The effects so far of what is being captured, batched or made a loop's body; None where values are known."""
    return _open.found


@contextmanager
def collecting() -> Iterator[list[TensorNode]]:
    """Collect effects on this thread."""
    before, _open.found = _open.found, []
    try:
        yield _open.found
    finally:
        _open.found = before


def happen(made: Sequence[TensorNode], compute: Callable[[Sequence[TensorNode]], None]) -> None:
    """Effects of a part of a function, such as one that was batched, are the function's; computed now where values are known."""
    if _open.found is not None:
        _open.found += made
    elif made:
        compute(made)


def after_others(src: Sequence[TensorNode], known: Sequence[TensorNode]) -> tuple[TensorNode, ...]:
    """Sources of a further effect, which comes after the others."""
    return (*src, *known[-1:])
