"""Tilewright: a kernel autotuner and program search.

`tune` searches for the fastest schedule of a kernel and remembers it; `best` gives the kernel as a callable, by what is remembered;
`KernelBuilder` writes kernels of your own. Names are loaded when they are first used: importing the package is light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .ir import Kernel, KernelBuilder
    from .ir.errors import (
        BuildError,
        CacheError,
        CacheMiss,
        DeviceError,
        KernelError,
        MeasureError,
        OptError,
        TilewrightError,
        UsageError,
        VerifyError,
    )
    from .plan import Prog, best
    from .search import Result, tune

__all__ = [
    "BuildError",
    "CacheError",
    "CacheMiss",
    "DeviceError",
    "Kernel",
    "KernelBuilder",
    "KernelError",
    "MeasureError",
    "OptError",
    "Prog",
    "Result",
    "TilewrightError",
    "UsageError",
    "VerifyError",
    "best",
    "tune",
]

_HOME = {"best": "plan", "Prog": "plan", "tune": "search", "Result": "search"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOME.get(name, 'ir')}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
