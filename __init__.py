"""Tilewright: a kernel autotuner and program search.

    result = tilewright.tune("matmul", shape={"m": 1024, "n": 1024, "k": 1024}, budget="20s")
    compiled = tilewright.best("matmul", shape={"m": 1024, "n": 1024, "k": 1024})
    c = compiled(a, b)

Names are loaded when they are first used, so that `import tilewright` stays light."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import export as export
    from . import tile as tile
    from . import xp as xp
    from .export import load_exported as load_exported
    from .ir import BuildError as BuildError
    from .ir import CacheError as CacheError
    from .ir import CacheMiss as CacheMiss
    from .ir import DeviceError as DeviceError
    from .ir import Kernel as Kernel
    from .ir import KernelBuilder as KernelBuilder
    from .ir import KernelError as KernelError
    from .ir import MeasureError as MeasureError
    from .ir import NotANumberError as NotANumberError
    from .ir import OptError as OptError
    from .ir import OutOfRangeError as OutOfRangeError
    from .ir import TilewrightError as TilewrightError
    from .ir import UsageError as UsageError
    from .ir import VerifyError as VerifyError
    from .opts import Opt as Opt
    from .plan import best as best
    from .plan import empty as empty
    from .search import Result as Result
    from .search import tune as tune
    from .sources import best_source as best_source
    from .sources import tune_source as tune_source
    from .tensor import Tensor as Tensor
    from .tensor import Var as Var
    from .tensor import checkpoint as checkpoint
    from .tensor import compute as compute
    from .tensor import cond as cond
    from .tensor import debug as debug
    from .tensor import fori_loop as fori_loop
    from .tensor import grad as grad
    from .tensor import jit as jit
    from .tensor import jvp as jvp
    from .tensor import memory_cap as memory_cap
    from .tensor import nn as nn
    from .tensor import operation as operation
    from .tensor import optim as optim
    from .tensor import register_gradient as register_gradient
    from .tensor import report as report
    from .tensor import scan as scan
    from .tensor import set_default_float as set_default_float
    from .tensor import sparse as sparse
    from .tensor import stop_gradient as stop_gradient
    from .tensor import tree_map as tree_map
    from .tensor import value_and_grad as value_and_grad
    from .tensor import vjp as vjp
    from .tensor import vmap as vmap
    from .tensor import while_loop as while_loop
    from .weights import quantize as quantize

__version__ = "0.1.0"

_WHERE = {
    "tune": "search",
    "Result": "search",
    "best": "plan",
    "empty": "plan",
    "Opt": "opts",
    "KernelBuilder": "ir",
    "tune_source": "sources",
    "best_source": "sources",
    "load_exported": "export",
    "quantize": "weights",
    **dict.fromkeys(
        (
            "Tensor", "Var", "checkpoint", "compute", "cond", "debug", "fori_loop", "grad", "jit", "jvp", "memory_cap", "nn", "operation", "optim",
            "register_gradient", "report", "scan", "set_default_float", "sparse", "stop_gradient", "tree_map", "value_and_grad", "vjp", "vmap", "while_loop",
        ),
        "tensor",
    ),
    **dict.fromkeys(
        (
            "BuildError", "CacheError", "CacheMiss", "DeviceError", "Kernel", "KernelError", "MeasureError", "NotANumberError", "OptError",
            "OutOfRangeError", "TilewrightError", "UsageError", "VerifyError",
        ),
        "ir",
    ),
}  # fmt: skip

_MODULES = ("export", "tile", "xp")
__all__ = ["__version__", *_MODULES, *_WHERE]


if os.environ.get("TILEWRIGHT_LOG"):
    from .log.begin import begin

    begin()


if not TYPE_CHECKING:  # type checkers know the names from above, and then say where one is misspelt

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f".{name}", __name__)
        where = _WHERE.get(name)
        if where is None:
            if name.startswith("_") or find_spec(f"{__name__}.{name}"):  # (asked of any module, and before a folder is imported)
                raise AttributeError(f"module {__name__!r} has no attribute {name!r}: import {__name__}.{name} has it")
            raise import_module(".tensor.frontends.habits", __name__).no_name(__name__, name)
        found = globals()[name] = getattr(import_module(f".{where}", __name__), name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *_WHERE})
