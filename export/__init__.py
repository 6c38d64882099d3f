"""Programs without Python: a captured function, an ONNX model or a kernel as a library of C."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .. import tensor as _tensor  # noqa: F401
from .c_library import write as _write
from .gpu_files import check_gpu_kernel as check_gpu_kernel
from .gpu_files import write_gpu_kernel as write_gpu_kernel
from .loading import ExportedLibrary as ExportedLibrary
from .loading import check as check
from .loading import facts as facts
from .loading import load_exported as load_exported
from .loading import note_command as note_command
from .program import ExportedProgram as ExportedProgram
from .program import c_name as c_name
from .program import of_function as of_function
from .program import of_kernel as of_kernel

load = load_exported


def write(folder: str | os.PathLike[str], function: Callable[..., Any], *args: Any, name: str | None = None, **options: Any) -> list[str]:
    """Write a function of tensors as a library of C, for arguments like these; returns the files' names. Arrays and tensors in the arguments
    become the library's inputs, all else is constant. Tensors that the function finds outside become weights; those that it assigns to, the
    state of an instance. `options`: `target`, a processor by name; and `threads`, `cache`, `tune`,
    `numerics` as for `jit`. Raises UsageError for what
    needs Python, such as a call of NumPy's own code."""
    return _write(of_function(function, args, name=name, **options), Path(folder))


def write_program(folder: str | os.PathLike[str], program: ExportedProgram) -> list[str]:
    """The same for a program that `of_kernel`, `of_function` or a bridge made."""
    return _write(program, Path(folder))
