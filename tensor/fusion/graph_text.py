"""A graph as text: equal for graphs that become the same list of calls, in this process and the next. No memory, no lines and
no values of leaves are in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from ...ir.dtypes import DType
from ...ir.node import Node, SymInfo
from ...ir.node import walk as walk_indices
from ..graph.node import HostCall, Mark, Slot, TensorNode, walk
from ..graph.symbolic_sizes import SymbolicSize


class _Unknown(Exception):
    """Something that has no text which means the same in another process."""


def graph_text(outs: Sequence[TensorNode]) -> str | None:
    """The text of a detached graph (`detached`), or None where something in it has none."""
    writer = _Writer()
    try:
        return writer.graph(outs)
    except _Unknown:
        return None


class _Writer:
    def __init__(self) -> None:
        self.rows: list[str] = []
        self.indices: dict[Node, int] = {}
        self.marks: dict[int, int] = {}
        self.maps: dict[Any, int] = {}

    def graph(self, outs: Sequence[TensorNode]) -> str:
        number: dict[int, int] = {}
        for n in walk(outs):
            number[id(n)] = len(number)
            src = ",".join(str(number[id(s)]) for s in n.src)
            self.rows.append(f"{n.op}({src}) {self.arg(n.arg)} {n.shape} {n.dtype.name}")
        return "\n".join([*self.rows, str([number[id(o)] for o in outs])])

    def arg(self, x: Any) -> str:
        if x is None or isinstance(x, (bool, int, float, str)):
            return f"{type(x).__name__}:{x!r}"
        if isinstance(x, Slot):
            return f"slot {x.number} {x.range}"
        if isinstance(x, (tuple, list)):
            return f"({' '.join(self.arg(e) for e in x)})"
        if isinstance(x, DType):
            return x.name
        if isinstance(x, SymbolicSize):
            return self.index(x.node)
        if isinstance(x, Node):
            return self.index(x)
        if isinstance(x, HostCall):
            return f"host {x.name} {self.arg(x.key)}"
        if isinstance(x, Mark):
            return f"mark {self.marks.setdefault(id(x), len(self.marks))}"
        if is_dataclass(x) and not isinstance(x, type):
            return self._record(x)
        raise _Unknown

    def _record(self, x: Any) -> str:
        """A map, a gather or the like: written once, then by number."""
        known = self.maps.get(x)
        if known is None:
            known = self.maps[x] = len(self.maps)
            text = " ".join(f"{f.name}={self.arg(getattr(x, f.name))}" for f in fields(x))
            self.rows.append(f"map {known}: {type(x).__name__} {text}")
        return f"map{known}"

    def index(self, n: Node) -> str:
        """An index expression: each node of it is a row of its own, once."""
        for m in walk_indices(n):
            if m not in self.indices:
                src = ",".join(str(self.indices[s]) for s in m.src)
                at = self.indices[m] = len(self.indices)
                self.rows.append(f"index {at}: {m.op}({src}) {self._plain(m.arg)} {m.dtype.name}")
        return f"i{self.indices[n]}"

    def _plain(self, x: Any) -> str:
        if isinstance(x, (tuple, list)):
            return f"({' '.join(self._plain(e) for e in x)})"
        if isinstance(x, Node):
            return self.index(x)
        if x is None or isinstance(x, (bool, int, float, str, SymInfo)):
            return f"{type(x).__name__}:{x!r}"
        if is_dataclass(x):
            return " ".join(f"{f.name}={self._plain(getattr(x, f.name))}" for f in fields(x))
        raise _Unknown
