"""The quick way of a call that is like an earlier one: generated code takes its arguments apart.

A `QuickReader` is for arguments of one structure in which each leaf is of one class. Its code checks both, and collects what
distinguishes programs (the kinds of tensors, the looks of arrays, static values), the values of symbolic sizes, and the address of each
tensor. Where anything is otherwise, it gives None, and the call goes the long way, which says what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from ctypes import addressof, c_char
from dataclasses import dataclass
from typing import Any

from ...ir.errors import UsageError
from ...ir.node import Node, walk
from ..graph.symbolic_sizes import SymbolicSize
from ..handle import TensorHandle
from ..leaves import array_class, gpu_of, of_others
from ..tensor import Tensor
from ..trees import CONTAINERS, Structure
from .call_arguments import Static

Place = tuple[str, int, int | None, SymbolicSize]
"""(what it is for people, a tensor's or a number's place among those of a call, its dimension or None for a number, the size)."""

Found = tuple[tuple[Any, ...], tuple[int, ...], list[int], tuple[Any, ...], tuple[Any, ...]]
"""(what distinguishes programs, values of symbols, addresses, tensors and arrays as they were given, what keeps their memory alive)."""

MOST_PROGRAMS = 4096
"""Programs and looks of arguments that a reader remembers."""
MOST_READERS = 8
"""Structures of arguments of one function that have a reader."""


@dataclass
class QuickReader:
    """`pattern`: the structure, and the class of each leaf; `read`: a call's arguments apart; `programs`: by what distinguishes them."""

    pattern: tuple[Any, ...]
    read: Callable[[tuple[Any, ...], dict[str, Any]], Found | None]
    programs: dict[tuple[Any, ...], Any]


def pattern_of(structure: Structure, leaves: Sequence[Any]) -> tuple[Any, ...] | None:
    """What a reader is for; None where a leaf is nothing that a reader reads."""
    classes = [_class(x) for x in leaves]
    return None if None in classes else (structure, *classes)


def _class(x: Any) -> str | None:
    if type(x) is Tensor:
        return "tensor"
    if type(x) is array_class():
        return "array"
    if type(x) in (int, float):
        return "number"
    others = of_others(x) or hasattr(type(x), "__dlpack_device__") or gpu_of(x)
    return None if isinstance(x, memoryview) or others else "static"


def reader(pattern: tuple[Any, ...], places: Sequence[Place], symbols: Sequence[str]) -> QuickReader | None:
    """A reader for arguments like these. `places`: where symbolic sizes are; `symbols`: in which order their values are wanted. None
    where a number is no symbol: it may be a constant or a parameter, which a program decides."""
    writer = _ReaderText(pattern[1:], places)
    source = writer.written(pattern[0], symbols)
    if source is None:
        return None
    exec(compile(source, "<arguments of a captured function>", "exec"), writer.names)
    return QuickReader(pattern, writer.names["read"], {})


class _ReaderText:
    def __init__(self, classes: Sequence[str], places: Sequence[Place]) -> None:
        self.classes, self.places = classes, places
        self.names: dict[str, Any] = {
            "static": _static, "address": array_address, "Array": array_class(), "UsageError": UsageError,
        }  # fmt: skip
        self.lines: list[str] = []
        self.leaves: list[str] = []
        self.count = 0

    def name(self, value: Any = None) -> str:
        """A new name; of a constant where one is given."""
        self.count += 1
        if value is not None:
            self.names[f"c{self.count}"] = value
            return f"c{self.count}"
        return f"v{self.count}"

    def refuse(self, condition: str) -> None:
        self.lines.append(f"if {condition}: return None")

    def written(self, structure: Any, symbols: Sequence[str]) -> str | None:
        """The text of `read`."""
        _, (args, kwargs) = structure
        self.apart(args, "args")
        self.apart(kwargs, "kwargs")
        sizes: dict[tuple[str, int], list[tuple[int | None, SymbolicSize]]] = {}
        for _, place, d, n in self.places:
            sizes.setdefault(("number" if d is None else "tensor", place), []).append((d, n))
        key: list[str] = []
        found: list[tuple[str, SymbolicSize]] = []
        addresses: list[str] = []
        given: list[str] = []
        held: list[str] = []
        tensors = numbers = 0
        for kind, x in zip(self.classes, self.leaves, strict=True):
            if kind == "number":
                own = sizes.get(("number", numbers))
                numbers += 1
                if own is None:
                    return None
                self.refuse(f"type({x}) is not int")
                found += [(x, n) for _, n in own]
            elif kind == "static":
                key.append(f"static({x})")
            else:
                own = sizes.get(("tensor", tensors), [])
                tensors += 1
                look, memory, at = self._tensor(x) if kind == "tensor" else self._array(x)
                shape = f"{look}.shape"
                if own:
                    shape = self.name()
                    self.lines.append(f"{shape} = {look}.shape")
                    key += [f"len({shape})", *(f"{look}.{f}" for f in (("dtype", "device", "range") if kind == "tensor" else ("dtype",)))]
                    dims = {d: n for d, n in own if d is not None}
                    found += [(f"{shape}[{d}]", n) for d, n in dims.items()]
                    key.append(self._rest(shape, dims))
                elif kind == "tensor":
                    key.append(look)
                else:
                    key += [f"{look}.dtype", shape]
                addresses.append(at)
                given.append(x)
                held.append(memory)
        values = self._values(found, symbols)
        if values is None:
            return None
        parts = [f"({''.join(f'{t}, ' for t in part)})" for part in (key, values, given, held)]
        body = "\n        ".join([*self.lines, f"return {parts[0]}, {parts[1]}, [{', '.join(addresses)}], {parts[2]}, {parts[3]}"])
        return (
            f"def read(args, kwargs):\n    try:\n        {body}\n"
            "    except (AttributeError, LookupError, TypeError, ValueError, UsageError):\n        return None\n"
        )

    def apart(self, structure: Any, x: str) -> None:
        """Take `x` apart, whose structure this is (`tensor/trees.py`)."""
        kind = structure[0]
        if kind == "leaf":
            self.leaves.append(x)
        elif kind == "none":
            self.refuse(f"{x} is not None")
        elif kind == "setting":
            self.refuse(f"{x} != {self.name(structure[1])}")
        elif kind == "dict":
            self.refuse(f"not isinstance({x}, dict) or len({x}) != {len(structure[1])}")
            for key, inner in zip(structure[1], structure[2], strict=True):
                part = self.name()
                self.lines.append(f"{part} = {x}[{repr(key) if type(key) is str else self.name((key,)) + '[0]'}]")
                self.apart(inner, part)
        elif kind == "record":
            self.refuse(f"type({x}) is not {self.name(structure[1])}")
            for field, inner in zip(structure[2], structure[3], strict=True):
                part = self.name()
                self.lines.append(f"{part} = {x}.{field}")
                self.apart(inner, part)
        elif kind in CONTAINERS:
            part = self.name()
            self.refuse(f"type({x}) is not {self.name(kind)}")
            self.lines.append(f"{part} = {self.name(CONTAINERS[kind][0])}({x})")
            self.leaves.append(part)
        else:
            parts = [self.name() for _ in structure[1]]
            self.refuse(f"type({x}) is not {self.name(kind)} or len({x}) != {len(parts)}")
            if parts:
                self.lines.append(f"{', '.join(parts)}, = {x}")
            for part, inner in zip(parts, structure[1], strict=True):
                self.apart(inner, part)

    def _tensor(self, x: str) -> tuple[str, str, str]:
        """(its kind, its memory, its address)."""
        memory, look = self.name(), self.name()
        self.refuse(f"{x}.complex_class or {x}.node.tracked")  # (whose memory looks like a real tensor's; who may want a gradient)
        self.lines += [f"{memory} = {x}.node.data", f"{look} = {memory}.kind"]
        return look, memory, f"{memory}._at or {memory}.address"

    def _array(self, x: str) -> tuple[str, str, str]:
        """The same of an array, which is used where it lies if it is row-major and aligned."""
        at = self.name()
        self.refuse(f"type({x}) is not Array")
        self.lines.append(f"{at} = address({x})")
        self.refuse(f"{at} % {x}.itemsize")
        return x, x, at

    def _rest(self, shape: str, dims: Mapping[int, SymbolicSize]) -> str:
        """The extents that are no symbols."""
        negative, positive = {d for d in dims if d < 0}, {d for d in dims if d >= 0}
        self.names.setdefault("rest", _rest)
        if not negative and positive == {0}:
            return f"{shape}[1:]"
        return f"rest({shape}, {self.name(frozenset(dims))})"

    def _values(self, found: Sequence[tuple[str, SymbolicSize]], symbols: Sequence[str]) -> list[str] | None:
        """The values of the symbols, after their checks; None where an argument does not say one."""
        known: dict[Node, str] = {}
        for text, n in found:
            if n.node.op != "sym":
                continue
            if n.node in known:
                self.refuse(f"{known[n.node]} != {text}")
                continue
            value = known[n.node] = self.name()
            self.lines.append(f"{value} = {text}")
            self.refuse(f"not {n.node.arg.lo} <= {value} <= {n.node.arg.hi}")
        by_name = {s.arg.name: value for s, value in known.items()}
        for text, n in found:
            if n.node.op != "sym":
                if any(s.op == "sym" and s not in known for s in walk(n.node)):
                    return None
                self.refuse(f"{self.name(_size_of(n, tuple(by_name)))}({', '.join(by_name.values())})[0] != {text}")
        return [by_name[s] for s in symbols] if set(symbols) <= set(by_name) else None


def _static(x: Any) -> Static:
    """A leaf that is no tensor, array or number. Raises TypeError where it is one, or no leaf."""
    if isinstance(x, (dict, list, tuple, type(None), TensorHandle)) or _class(x) != "static":
        raise TypeError
    return Static(x)


def _size_of(n: SymbolicSize, symbols: tuple[str, ...]) -> Callable[..., tuple[int, ...]]:
    from ...ir.index import function

    return function([n.node], symbols)


def _rest(shape: tuple[int, ...], dims: frozenset[int]) -> tuple[int, ...]:
    return tuple([n for d, n in enumerate(shape) if d not in dims and d - len(shape) not in dims])


from_buffer = c_char.from_buffer


def array_address(a: Any) -> int:
    """Where an array's memory begins. Raises ValueError where its elements have gaps between them, or another order."""
    try:
        return addressof(from_buffer(a))
    except (TypeError, ValueError, BufferError):  # read-only, not contiguous, or empty
        if not a.flags.c_contiguous:
            raise ValueError from None
        at: int = a.__array_interface__["data"][0]
        return at
