"""A user's own kernel: `my.py:function`, a function that returns a Kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..ir.dtypes import DType
from ..ir.dtypes import dtype as dtype_of
from ..ir.errors import KernelError, TilewrightError
from ..ir.kernel import Extent, Kernel
from .suggest import nearest


def is_path(name: str) -> bool:
    """Whether `name` means a file (`my.py:function` or `my.py`) and not a named kernel."""
    name = name.partition(":constant=")[0]
    return ":" in name or name.endswith(".py")


def load(path: str, shape: Mapping[str, Extent] | None = None, dtype: str | DType | None = None) -> Kernel:
    """Call the function behind `my.py:function` (default name: `make_kernel`).

    Sizes are passed as keyword arguments of the same name, `dtype` (a DType) where the function takes one. Raises KernelError when the file or
    function is not there, a size is not one of its arguments, it fails, or it returns something other than a Kernel.
    """
    function = _function(path)
    arguments = _arguments(path, function, dict(shape or {}), dtype)
    try:
        kernel = function(**arguments)
    except TilewrightError:
        raise
    except Exception as e:
        raise KernelError(f"{path} failed: {_where(e)}{type(e).__name__}: {e}") from e
    if not isinstance(kernel, Kernel):
        raise KernelError(f"{path} returned {type(kernel).__name__}; it must return a tilewright Kernel (KernelBuilder(...).build())")
    return kernel


def _function(path: str) -> Callable[..., Any]:
    import runpy
    from pathlib import Path

    file, _, name = path.rpartition(":")
    if not file:
        file, name = path, "make_kernel"
    if not Path(file).is_file():
        raise KernelError(f"there is no file {file}; write --kernel PATH.py:function")
    try:
        namespace = runpy.run_path(file)
    except TilewrightError:
        raise
    except Exception as e:
        raise KernelError(f"{file} cannot be run: {_where(e)}{type(e).__name__}: {e}") from e
    found = namespace.get(name)
    if not callable(found):
        functions = [k for k, v in namespace.items() if callable(v) and not k.startswith("_")]
        raise KernelError(f"{file} defines no function {name!r}{nearest(name, functions)}")
    return found  # type: ignore[no-any-return]


def _arguments(path: str, function: Callable[..., Any], shape: dict[str, Extent], dtype: str | DType | None) -> dict[str, Any]:
    import inspect

    parameters = inspect.signature(function).parameters
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    arguments: dict[str, Any] = dict(shape)
    if dtype is not None:
        if "dtype" not in parameters and not anything:
            raise KernelError(f"{path} takes no dtype; add an argument `dtype` or leave --dtype out")
        arguments["dtype"] = dtype_of(dtype)
    sizes = [p for p in parameters if p != "dtype"]
    for name in shape:
        if name not in parameters and not anything:
            raise KernelError(f"{path} has no size {name!r}{nearest(name, sizes)}; its arguments are {', '.join(sizes) or 'none'}")
    for name, p in parameters.items():
        if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL) and name not in arguments:
            raise KernelError(f"{path} needs {name}: give {'--dtype' if name == 'dtype' else f'--shape {name}=...'} or a default value")
    return arguments


def _where(e: BaseException) -> str:
    """`file:line: ` of the innermost frame of the user's code."""
    import traceback

    frames = traceback.extract_tb(e.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}: " if frames else ""
