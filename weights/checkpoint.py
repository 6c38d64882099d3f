"""A checkpoint: tensors by name, and what a file says about them. A tensor is made when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from ..ir.errors import UsageError


class UnknownTensorError(UsageError, KeyError):
    """A checkpoint has no tensor of this name."""

    __str__ = UsageError.__str__


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in a file: its shape, the file's name for its type, its bytes there, and how to get it (a tensor, or a packed matrix)."""

    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    read: Callable[[], Any]


class Checkpoint(Mapping[str, Any]):
    """Tensors by name. `stored`: what is known of each without reading it; `metadata`: what else the file says, as plain data."""

    def __init__(self, path: str, stored: Mapping[str, StoredTensor], metadata: Mapping[str, Any]) -> None:
        self.path, self.stored, self.metadata = path, dict(stored), dict(metadata)

    def __getitem__(self, name: str) -> Any:
        found = self.stored.get(name)
        if found is None:
            near = get_close_matches(name, self.stored, 3)
            hint = f"; near it are {', '.join(near)}" if near else ""
            raise UnknownTensorError(f"{self.path} has no tensor {name!r} among its {len(self.stored)}{hint}")
        return found.read()

    def __iter__(self) -> Iterator[str]:
        return iter(self.stored)

    def __len__(self) -> int:
        return len(self.stored)

    def __contains__(self, name: object) -> bool:
        return name in self.stored

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors as they are stored."""
        return sum(s.nbytes for s in self.stored.values())

    def renamed(self, names: Mapping[str, str], metadata: Mapping[str, Any]) -> Checkpoint:
        """The same tensors by other names: new name → name here."""
        return Checkpoint(self.path, {new: self.stored[old] for new, old in names.items()}, metadata)
