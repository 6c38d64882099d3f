"""Names outside of a captured function that stood for tensors which it read. A call reads the tensors that were captured; where
a name stands for another one since, that is said once."""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..graph.source_lines import user_line
from ..running.buffers import BufferCell
from ..tensor import Tensor

DEPTH, MOST = 5, 2000
"""How far containers, objects and functions are followed, and how many of them."""
OWN = __name__.split(".tensor.")[0]


class Bindings:
    """`items`: (what holds a tensor, its key there, the tensor, the name that a user knows); `cells`: the same of closures."""

    def __init__(self, name: str, items: list[tuple[Any, Any, Tensor, str]], cells: list[tuple[types.CellType, Tensor, str]]) -> None:
        self.name, self.items, self.cells = name, items, cells

    def check(self) -> None:
        """Warn of every name that stands for another tensor since the capture, once."""
        try:
            for held, key, tensor, _ in self.items:
                if held[key] is not tensor:
                    break
            else:
                for cell, tensor, _ in self.cells:
                    if cell.cell_contents is not tensor:
                        break
                else:
                    return
        except (LookupError, ValueError):  # there is nothing of that name any more
            pass
        self._warn()

    def _warn(self) -> None:
        changed = [text for held, key, tensor, text in self.items if _at(held, key) is not tensor]
        changed += [text for cell, tensor, text in self.cells if _inside(cell) is not tensor]
        self.items = [e for e in self.items if e[3] not in changed]
        self.cells = [e for e in self.cells if e[2] not in changed]
        file, line = user_line()
        for text in changed:
            warnings.warn_explicit(
                f"{text} is another tensor than when {self.name} was captured, which still reads the old one: change a tensor with "
                f"{text}.assign(...), or pass it as an argument",
                UserWarning, file, line,
            )  # fmt: skip


def bindings_of(function: Callable[..., Any], name: str, statics: Sequence[Any], closures: Sequence[BufferCell]) -> Bindings | None:
    """The names behind the tensors from outside that a capture read, in globals, closures, containers and attributes; None where there
    are none. `statics`: arguments that are no tensors, such as the object of a method."""
    if not closures:
        return None
    search = _NameSearch({id(c) for c in closures})
    search.function(function, 0)
    for s in statics:
        search.value(s, type(s).__name__, None, None, 0)
    return Bindings(name, search.items, search.cells) if search.items or search.cells else None


class _NameSearch:
    def __init__(self, wanted: set[int]) -> None:
        self.wanted = wanted
        self.items: list[tuple[Any, Any, Tensor, str]] = []
        self.cells: list[tuple[types.CellType, Tensor, str]] = []
        self.seen: dict[int, Any] = {}

    def value(self, x: Any, text: str, held: Any, key: Any, depth: int) -> None:
        """Look at a value, which `held` has at `key`."""
        if isinstance(x, Tensor):
            cell = getattr(x.node.data, "cell", None)
            if cell is not None and id(cell) in self.wanted:
                if isinstance(held, types.CellType):
                    self.cells.append((held, x, text))
                elif held is not None and not isinstance(held, tuple):
                    self.items.append((held, key, x, text))
            return
        if depth > DEPTH or id(x) in self.seen or len(self.seen) > MOST or isinstance(x, (str, bytes, int, float, type)):
            return
        self.seen[id(x)] = x
        if isinstance(x, dict):
            for k, v in list(x.items()):
                self.value(v, f"{text}[{k!r}]", x, k, depth + 1)
        elif isinstance(x, (list, tuple)):
            for i, v in enumerate(x):
                self.value(v, f"{text}[{i}]", x, i, depth + 1)
        elif callable(x) and hasattr(x, "__wrapped__"):
            self.function(x.__wrapped__, depth + 1)
        elif isinstance(x, (types.FunctionType, types.MethodType)):
            self.function(x, depth + 1)
        elif isinstance(getattr(x, "__dict__", None), dict) and not isinstance(x, types.ModuleType):
            for k, v in list(vars(x).items()):
                self.value(v, f"{text}.{k}", vars(x), k, depth + 1)

    def function(self, f: Any, depth: int) -> None:
        """Look at the globals that a function names, and at its closure."""
        if isinstance(f, types.MethodType):
            self.value(f.__self__, type(f.__self__).__name__, None, None, depth)
            f = f.__func__
        if hasattr(f, "func") and hasattr(f, "args"):  # functools.partial
            self.value(f.args, "args", None, None, depth)
            f = f.func
        if not isinstance(f, types.FunctionType) or (f.__module__ or "").split(".")[0] == OWN:
            return
        names = set(_names(f.__code__))
        for n in sorted(names & f.__globals__.keys()):
            found = f.__globals__[n]
            self.value(found, n, f.__globals__, n, depth)
            if isinstance(found, types.ModuleType):
                for m in sorted(names & vars(found).keys()):
                    if isinstance(vars(found)[m], (Tensor, dict, list)):
                        self.value(vars(found)[m], f"{n}.{m}", vars(found), m, depth + 1)
        for n, cell in zip(f.__code__.co_freevars, f.__closure__ or ()):
            self.value(_inside(cell), n, cell, None, depth)


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            yield from _names(c)


def _at(held: Any, key: Any) -> Any:
    try:
        return held[key]
    except LookupError:
        return None


def _inside(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return None
