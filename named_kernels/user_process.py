"""The process in which a user's kernel file runs: `python -m tilewright.named_kernels.user_process PARENT_PID`, asked by `user_file.load`.

Standard input has the question; the answer goes to what was standard output, which the file never sees: its prints go to standard error."""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ..ir.buffer import Extent
from ..ir.dtypes import DTypeLike
from ..ir.dtypes import dtype as dtype_of
from ..ir.errors import KernelError, TilewrightError
from ..ir.kernel import Kernel
from .definition import nearest, split_path
from .user_file import MOST_BYTES, dumps


def answer(path: str, shape: Mapping[str, Extent], dtype: DTypeLike | str | None) -> tuple[Any, ...]:
    """What `dumps` takes: the kernel's parts, or the error."""
    try:
        found = _call(path, shape, dtype)
        return ("kernel", found.name, found.body, found.stores, found.buffers, found.blocks, found.fixed)
    except TilewrightError as e:
        return ("error", type(e).__name__, str(e))
    except SystemExit as e:
        return ("error", "KernelError", f"{path} called sys.exit({e.code!r}); it must return a tilewright Kernel")
    except BaseException as e:
        return ("error", "KernelError", f"{path} failed: {_where(e)}{type(e).__name__}: {e}")


def _call(path: str, shape: Mapping[str, Extent], dtype: DTypeLike | str | None) -> Kernel:
    function = function_of(path, namespace_of(path))
    arguments = _arguments(path, function, dict(shape), dtype)
    try:
        kernel = function(**arguments)
    except TilewrightError:
        raise
    except Exception as e:
        raise KernelError(f"{path} failed: {_where(e)}{type(e).__name__}: {e}") from e
    if type(kernel).__name__ == "Tensor":
        raise KernelError(f"{path} is a function of tensors: annotate its arguments (x: Tensor), or give --shape x=64x128,float32")
    if not isinstance(kernel, Kernel):
        raise KernelError(f"{path} returned {type(kernel).__name__}; it must return a tilewright Kernel (KernelBuilder(...).build())")
    return kernel


def namespace_of(path: str) -> dict[str, Any]:
    """Run the file of `my.py:function`: its names. Raises KernelError."""
    import runpy

    file, _ = split_path(path)
    try:
        return runpy.run_path(file)
    except TilewrightError:
        raise
    except Exception as e:
        raise KernelError(f"{file} cannot be run: {_where(e)}{type(e).__name__}: {e}") from e


def function_of(path: str, namespace: Mapping[str, Any]) -> Callable[..., Any]:
    """The function of `my.py:function` among a file's names. Raises KernelError."""
    file, name = split_path(path)
    found: Callable[..., Any] | None = namespace.get(name)
    if not callable(found):
        functions = [k for k, v in namespace.items() if callable(v) and not k.startswith("_")]
        if not path.endswith(f":{name}"):
            own = [k for k in functions if getattr(namespace[k], "__module__", None) == namespace["__name__"]]
            raise KernelError(f"{path} names a file: name a function in it too, {file}:FUNCTION (it has {', '.join(own[:8]) or 'none'})")
        raise KernelError(f"{file} defines no function {name!r}{nearest(name, functions)}")
    return found


def _arguments(path: str, function: Callable[..., Any], shape: dict[str, Extent], dtype: DTypeLike | str | None) -> dict[str, Any]:
    import inspect

    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError) as e:
        raise KernelError(f"{path} cannot be asked for its arguments ({e}); write a function of your own around it") from None
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


def _die_with(parent: int) -> None:
    """An endless import does not outlive who asked (where the system can say so)."""
    if sys.platform.startswith("linux"):
        import ctypes
        import signal

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def main() -> None:
    """A kernel's file: read the question, run the file, answer."""
    serve(answer)


def serve(answers: Callable[..., tuple[Any, ...]]) -> None:
    """Read the question, answer with `answers(path, ...)`, and end without what the file registered to happen at exit."""
    _die_with(int(sys.argv[1]))
    found, path, *more = pickle.load(sys.stdin.buffer)
    out = os.dup(1)
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    me = os.getpid()
    sys.path[:] = found
    said = answers(path, *more)
    if os.getpid() != me:  # the file forked, and this is the copy
        os._exit(0)
    try:
        data = dumps(said)
        if len(data) > MOST_BYTES:
            raise ValueError(f"it takes more than {MOST_BYTES} bytes")
    except Exception as e:
        data = dumps(("error", "KernelError", f"{path} returned a Kernel that cannot be handed on ({type(e).__name__}: {e})"))
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # the file closed it
            stream.flush()
    view = memoryview(data)
    while view:
        view = view[os.write(out, view) :]
    os._exit(0)


if __name__ == "__main__":
    main()
