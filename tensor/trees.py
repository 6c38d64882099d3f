"""Trees of tensors: lists, tuples (named ones too), dicts, dataclasses and None, nested as one likes; all else is a leaf, but for
settings in a dataclass (names, types, functions).

Functions of parameters take and return such trees. A dict's entries are taken in the order of its sorted keys, so that
two dicts with equal keys match."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any

from ..ir.dtypes import DType
from ..ir.errors import UsageError

Structure = Hashable
"""What a tree looks like without its leaves: equal for trees that match."""

_LEAF = ("leaf",)
CONTAINERS: dict[type, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {}
"""Classes whose objects are a leaf of another kind inside: (what gives the leaf, what makes an object of it)."""


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """(leaves in order, structure)."""
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves)


def _flatten(tree: Any, leaves: list[Any]) -> Structure:
    if tree is None:
        return ("none",)
    if isinstance(tree, dict):
        keys = sorted(tree, key=lambda k: (str(type(k)), k))
        return ("dict", tuple(keys), tuple(_flatten(tree[k], leaves) for k in keys))
    if isinstance(tree, (list, tuple)):
        return (type(tree), tuple(_flatten(t, leaves) for t in tree))
    if type(tree) in CONTAINERS:
        leaves.append(CONTAINERS[type(tree)][0](tree))
        return (type(tree),)
    names = _fields(type(tree))  # type: ignore[arg-type]
    if names is not None:
        return ("record", type(tree), names, tuple(_field(getattr(tree, name), leaves) for name in names))
    leaves.append(tree)
    return _LEAF


def _field(x: Any, leaves: list[Any]) -> Structure:
    """A field of a dataclass. A name, a type or a function is a setting, which belongs to the structure."""
    setting = isinstance(x, (str, bytes, Enum, DType)) or (callable(x) and type(x).__hash__ is not None and not is_dataclass(x))
    return ("setting", x) if setting else _flatten(x, leaves)


@cache
def _fields(cls: type[Any]) -> tuple[str, ...] | None:
    """The fields of a dataclass of the user's; None for another class."""
    if not is_dataclass(cls) or cls.__module__.partition(".")[0] == _PACKAGE:
        return None
    return tuple(f.name for f in fields(cls))


_PACKAGE = __name__.partition(".")[0]


def unflatten(structure: Structure, leaves: Iterable[Any]) -> Any:
    """The tree with these leaves."""
    return _unflatten(structure, iter(leaves))


def _unflatten(structure: Any, leaves: Iterator[Any]) -> Any:
    kind = structure[0]
    if kind == "leaf":
        return next(leaves)
    if kind == "none":
        return None
    if kind == "setting":
        return structure[1]
    if kind == "dict":
        return {k: _unflatten(s, leaves) for k, s in zip(structure[1], structure[2])}
    if kind == "record":
        return record(structure[1], {name: _unflatten(s, leaves) for name, s in zip(structure[2], structure[3])})
    if kind in CONTAINERS:
        return CONTAINERS[kind][1](next(leaves))
    parts = [_unflatten(s, leaves) for s in structure[1]]
    return parts if kind is list else kind(*parts) if hasattr(kind, "_fields") else kind(parts)


def ways(structure: Any, way: tuple[tuple[str, Any], ...] = ()) -> Iterator[tuple[tuple[str, Any], ...]]:
    """The way to each leaf, in order: ("field", name) of dataclasses and named tuples, ("key", key) of dicts, ("place", number) of others."""
    kind = structure[0]
    if kind in ("none", "setting"):
        return
    if kind == "leaf" or kind in CONTAINERS:
        yield way
        return
    fields = structure[2] if kind == "record" else getattr(kind, "_fields", None)
    keys = structure[1] if kind == "dict" else fields or range(len(structure[1]))
    what = "key" if kind == "dict" else "place" if fields is None else "field"
    for key, part in zip(keys, structure[-1], strict=True):
        yield from ways(part, (*way, (what, key)))


def record(cls: type, values: Mapping[str, Any]) -> Any:
    """An object of a dataclass with these fields. Its `__init__` is not called: it may convert or refuse what stands for an array."""
    made: Any = object.__new__(cls)
    for name, x in values.items():
        object.__setattr__(made, name, x)
    return made


def tree_map(f: Callable[..., Any], tree: Any, *more: Any) -> Any:
    """`f` of each leaf, with the leaves of trees of the same structure. Raises UsageError where one has another."""
    leaves, structure = flatten(tree)
    columns = [leaves]
    for t in more:
        others, shape = flatten(t)
        if shape != structure:
            raise UsageError(f"trees do not match: {shape} is not {structure}")
        columns.append(others)
    return unflatten(structure, [f(*row) for row in zip(*columns, strict=True)])
