"""Tuning sources that people have: C, C++, OpenCL and CUDA with parameters. `docs/sources.md` shows how."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .reading import spec_of as spec_of
    from .resolving import TunedSource as TunedSource
    from .resolving import best_source as best_source
    from .resolving import values_of as values_of
    from .spec import SourceSpec as SourceSpec
    from .tuning import tune_source as tune_source

_WHERE = {
    "tune_source": "tuning",
    "best_source": "resolving",
    "TunedSource": "resolving",
    "values_of": "resolving",
    "spec_of": "reading",
    "SourceSpec": "spec",
}

__all__ = [*_WHERE]


def __getattr__(name: str) -> Any:
    where = _WHERE.get(name)
    if where is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{where}", __name__), name)
