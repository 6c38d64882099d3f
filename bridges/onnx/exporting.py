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

RECORDED = 3
"""A size of the recorded call, where its range has it."""


def export(
    folder: str | os.PathLike[str], source: str | os.PathLike[str] | bytes, feeds: Mapping[str, Any] | None = None, *,
    sizes: Mapping[str, int | tuple[int, int]] | None = None, name: str | None = None, target: str | None = None, **options: Any,
) -> list[str]:  # fmt: skip
    """Write a model as a library of C, for the shapes of `feeds`, or for inputs that are made up of `sizes` by name; returns the files'
    names. A size that is a pair, the least and the largest, is a parameter of the library's function. Weights go into a file beside the
    code. `target`: a processor by name; `options`: as for `load`. Raises UsageError for a model that draws random numbers, is run node by
    node, or needs NumPy."""
    ranges = {n: v for n, v in (sizes or {}).items() if not isinstance(v, int)}
    model = load(source, sizes=ranges, **options)
    values = {n: v if isinstance(v, int) else min(v[1], max(v[0], RECORDED)) for n, v in (sizes or {}).items()}
    given = made_up(model, values) | dict(feeds or {})
    function, inputs, outputs, symbols = model.captured(given)
    if RANDOM in inputs:
        raise UsageError("the model draws random numbers, which cannot be exported")
    title = name or (Path(source).stem if isinstance(source, (str, os.PathLike)) else "model")
    program = of_function(
        function, tuple(inputs.values()), name=title, names=(list(inputs), outputs), target=target, symbols=symbols, **options
    )
    return write_program(Path(folder), program)
