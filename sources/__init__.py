"""Tuning sources that people have: C, C++, OpenCL and CUDA with parameters. `docs/sources.md` shows how."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .. import search as _search  # noqa: F401

if TYPE_CHECKING:
    from .reading import spec_of as spec_of
    from .source_spec import SourceSpec as SourceSpec
    from .tuning import TunedSource as TunedSource
    from .tuning import best_source as best_source
    from .tuning import tune_source as tune_source
    from .tuning import values_of as values_of

_WHERE = {
    "tune_source": "tuning",
    "best_source": "tuning",
    "TunedSource": "tuning",
    "values_of": "tuning",
    "spec_of": "reading",
    "SourceSpec": "source_spec",
}

__all__ = [*_WHERE]


def __getattr__(name: str) -> Any:
    where = _WHERE.get(name)
    if where is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{where}", __name__), name)
