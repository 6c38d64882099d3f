"""A user's own kernel: `my.py:function`, a function that returns a Kernel.

The file runs in a process of its own (`contained`), which hands the Kernel back as data: it may exit, print, close
its output, fork or never return, and whoever asked goes on. That is containment of mistakes, not a sandbox: the file
can do whatever its user can, so nothing loads one that its user did not name."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ..ir import errors
from ..ir.buffer import Extent
from ..ir.dtypes import DTypeLike
from ..ir.errors import KernelError, TilewrightError
from ..ir.kernel import Kernel


def is_path(name: str) -> bool:
    """Whether `name` means a file (`my.py:function` or `my.py`) and not a named kernel."""
    name = name.partition(":constant=")[0]
    return ":" in name or name.endswith(".py")


def split_path(name: str) -> tuple[str, str]:
    """(file, function) of `my.py:function`; the function is `make_kernel` where none is named."""
    file, _, function = name.rpartition(":")
    return (file, function) if file else (name, "make_kernel")


def load(path: str, shape: Mapping[str, Extent] | None = None, dtype: DTypeLike | str | None = None) -> Kernel:
    """Call the function behind `my.py:function` (default name: `make_kernel`) in a process of its own. What it prints
    goes to standard error.

    Sizes are passed as keyword arguments of the same name, `dtype` (a DType) where the function takes one. Raises
    KernelError when the file or function is not there, a size is not one of its arguments, it fails, exits, does not
    return in time, or returns something other than a Kernel."""
    file, _ = split_path(path)
    if "\0" in path or not os.path.isfile(file):
        raise KernelError(f"there is no file {file}; write --kernel PATH.py:function")
    from . import contained, sent

    answer = contained.ask(path, (path, dict(shape or {}), dtype))
    try:
        kind, *parts = sent.loads(answer)
        if kind == "kernel":
            return Kernel(*parts)
        raised, text = parts
    except TilewrightError:
        raise
    except Exception as e:  # whatever bytes the file put in place of an answer
        raise KernelError(f"{path} did not hand back a Kernel that can be read ({type(e).__name__}: {e})") from None
    known = getattr(errors, str(raised), KernelError)
    raise (known if isinstance(known, type) and issubclass(known, TilewrightError) else KernelError)(str(text))
