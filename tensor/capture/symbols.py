"""Symbolic sizes of captured functions: which dimensions of which arguments they are, and their values at a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ...ir import index as ix
from ...ir.errors import UsageError
from ...ir.node import Node, walk
from ..graph.symbols import SymbolicSize, concrete
from .arguments import Arguments, CallLayout, Static
from .options import JitOptions, collect

Place = tuple[int, int | None]
"""A tensor of a call and one of its dimensions, or a number of a call and None."""


class SymbolReader:
    """Reads the values of a function's symbols off its arguments. What a layout of arguments has where is found once."""

    def __init__(self, name: str, options: JitOptions) -> None:
        self.name, self.options = name, options
        self._places: dict[tuple[Any, ...], list[tuple[str, Place, SymbolicSize]]] = {}

    def read(self, given: Arguments) -> Arguments:
        """The arguments with symbolic shapes in their layout, `given.values` being those of the symbols. Raises UsageError where
        a size is out of range or two disagree."""
        if not self.options.symbols:
            return given
        places = self._found(given.layout)
        values: dict[Node, tuple[int, str]] = {}
        for who, place, n in sorted(places, key=lambda p: p[2].node.op != "sym"):  # expressions once symbols are known
            self._read(who, n, self._value(given, who, place), values)
        known = {s: v for s, (v, _) in values.items()}
        shapes = [list(b.shape) for b in given.buffers]
        numbers: dict[int, SymbolicSize] = {}
        for _, (i, d), n in places:
            if d is None:
                numbers[i] = n
            else:
                shapes[i][d] = n
        return replace(
            given, layout=_symbolic(given.layout, shapes, numbers), shapes=tuple(map(tuple, shapes)), values=known,
            numbers=tuple(v for i, v in enumerate(given.numbers) if i not in numbers),
        )  # fmt: skip

    def _read(self, who: str, n: SymbolicSize, size: int, values: dict[Node, tuple[int, str]]) -> None:
        if n.node.op == "sym":
            before, other = values.setdefault(n.node, (size, who))
            if before != size:
                raise UsageError(f"{self.name}: {n!r} is {before} by {other}, and {size} by {who}")
            if not n.node.arg.lo <= size <= n.node.arg.hi:
                raise UsageError(f"{self.name}: {n!r} is {size} by {who}, outside of its range {n.node.arg.lo} to {n.node.arg.hi}")
            return
        unknown = [s for s in walk(n.node) if s.op == "sym" and s not in values]
        if unknown:
            raise UsageError(
                f"{self.name}: nothing says what {unknown[0]!r} is: it must be a dimension of an argument by itself, or a number"
            )
        wanted = concrete([n], {s: v for s, (v, _) in values.items()})[0]
        if wanted != size:
            raise UsageError(f"{self.name}: {who} is {size}, where {n!r} is {wanted}")

    def _value(self, given: Arguments, who: str, place: Place) -> int:
        i, d = place
        if d is not None:
            shape = given.buffers[i].shape
            if not -len(shape) <= d < len(shape):
                raise UsageError(f"{self.name}: {who}, but its shape is {list(shape)}")
            return shape[d]
        value = given.numbers[i]
        if type(value) is not int:
            raise UsageError(f"{self.name}: {who} is {value!r}, and stands for a size: give a whole number")
        return value

    def _found(self, layout: CallLayout) -> list[tuple[str, Place, SymbolicSize]]:
        key = (layout.structure, tuple(k.__class__ is type or k.__class__ is Static for k in layout.kinds))
        if key not in self._places:
            count = len(layout.kinds)
            named = self.options.named(layout, range(count), [-1 - i for i in range(count)])
            self._places[key] = [p for name, what in self.options.symbols.items() for p in self._of(name, what, named.get(name))]
        return self._places[key]

    def _of(self, name: str, what: Any, tree: Any) -> list[tuple[str, Place, SymbolicSize]]:
        marks: set[int] = set()
        collect(tree, marks)
        if isinstance(what, SymbolicSize):
            return [(name, (-1 - i, None), what) for i in marks if i < 0]
        return [(f"dimension {d} of {name}", (i, d), n) for i in sorted(marks) if i >= 0 for d, n in what.items()]


def _symbolic(layout: CallLayout, shapes: list[list[Any]], numbers: Mapping[int, SymbolicSize]) -> CallLayout:
    """The layout with these shapes of its tensors, and with sizes for numbers."""
    tensors, count = iter(shapes), 0
    kinds: list[Any] = []
    for k in layout.kinds:
        if k.__class__ is Static:
            kinds.append(k)
        elif k.__class__ is type:
            kinds.append(Static(numbers[count]) if count in numbers else k)
            count += 1
        else:
            kinds.append((tuple(next(tensors)), *k[1:]))
    return CallLayout(layout.structure, tuple(kinds))


def check_symbols(symbols: Any, names: tuple[str, ...], function: Callable[..., Any]) -> None:
    """Raise UsageError where `jit(symbols=...)` is not {argument: {dimension: size}} or {argument: size}, or a symbol has two ranges."""
    ranges: dict[str, Node] = {}
    for name, what in symbols.items():
        if name not in names:
            raise UsageError(
                f"jit(symbols={{{name!r}: ...}}): {getattr(function, '__name__', 'the function')} has no such argument ({', '.join(names)})"
            )
        sizes = [what] if isinstance(what, SymbolicSize) else list(what.values()) if isinstance(what, Mapping) else [what]
        if not all(isinstance(n, SymbolicSize) for n in sizes):
            raise UsageError(
                f"jit(symbols={{{name!r}: {what!r}}}): give {{dimension: Var(...)}}, or a Var for an argument that is a number"
            )
        for s in (s for n in sizes for s in walk(n.node) if s.op == "sym"):
            if ranges.setdefault(s.arg.name, s) is not s:
                raise UsageError(f"jit(symbols=...): {s.arg.name} has the ranges {ix.bounds(ranges[s.arg.name])} and {ix.bounds(s)}")
