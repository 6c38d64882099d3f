"""Options of captured functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..ir.errors import UsageError
from .jit_arguments import CallLayout

MODES = ("use", "require", "record", "tune", "background")
SHAPES = ("recapture", "error")


@dataclass(frozen=True)
class JitOptions:
    """See `jit`. `manifest`: the file that 'record' writes; `parameters`: the names of the function's arguments."""

    tune: str = "use"
    shapes: str = "recapture"
    donate: tuple[str, ...] = ()
    device: str | None = None
    threads: int | None = None
    cache: Any = None
    budget: float | str | None = None
    manifest: str = "tilewright.kernels.json"
    parameters: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.tune not in MODES:
            raise UsageError(f"jit(tune={self.tune!r}): give one of {', '.join(MODES)}")
        if self.shapes not in SHAPES:
            raise UsageError(f"jit(shapes={self.shapes!r}): give one of {', '.join(SHAPES)}")
        object.__setattr__(self, "donate", (self.donate,) if isinstance(self.donate, str) else tuple(self.donate))

    def of(self, function: Callable[..., Any]) -> JitOptions:
        """The options for one function. Raises UsageError for a name in `donate` that is no argument."""
        if not self.donate:
            return self
        names = tuple(inspect.signature(function).parameters)
        for name in self.donate:
            if name not in names:
                raise UsageError(
                    f"jit(donate={name!r}): {getattr(function, '__name__', 'the function')} has no such argument ({', '.join(names)})"
                )
        return replace(self, parameters=names)

    def donated(self, layout: CallLayout) -> frozenset[int]:
        """Positions of the tensors in donated arguments."""
        if not self.donate:
            return frozenset()
        marks = layout.rebuilt(range(len(layout.kinds)), [None] * len(layout.kinds))
        args, kwargs = marks
        named = {**dict(zip(self.parameters, args)), **kwargs}
        found: set[int] = set()
        for name in self.donate:
            _collect(named.get(name), found)
        return frozenset(found)


def _collect(tree: Any, into: set[int]) -> None:
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, (list, tuple)):
        for t in tree:
            _collect(t, into)
    elif type(tree) is int:
        into.add(tree)
