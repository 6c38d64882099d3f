"""An ONNX model as a library of C."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...export import of_function, write_program
from ...ir.errors import UsageError
from .evaluation import RANDOM
from .model import load
from .tuning import made_up


def export(
    folder: str | os.PathLike[str], source: str | os.PathLike[str] | bytes, feeds: Mapping[str, Any] | None = None, *,
    sizes: Mapping[str, int] | None = None, name: str | None = None, target: str | None = None, **options: Any,
) -> list[str]:  # fmt: skip
    """Write a model as a library of C, for the shapes of `feeds`, or for inputs that are made up of `sizes` by name; returns the files'
    names. Weights go into a file beside the code. `target`: a processor by name; `options`: as for `load`. Raises UsageError for a model
    that draws random numbers, is run node by node, or needs NumPy."""
    model = load(source, **options)
    given = made_up(model, sizes or {}) | dict(feeds or {})
    function, inputs, outputs = model.captured(given)
    if RANDOM in inputs:
        raise UsageError("the model draws random numbers, which cannot be exported")
    title = name or (Path(source).stem if isinstance(source, (str, os.PathLike)) else "model")
    program = of_function(function, tuple(inputs.values()), name=title, names=(list(inputs), outputs), target=target, **options)
    return write_program(Path(folder), program)
