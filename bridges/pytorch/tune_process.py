"""The process in which `tune model` loads and tunes a model: `python -m tilewright.bridges.pytorch.tune_process FILE FUNCTION OPTIONS`.

FUNCTION() returns a module and the inputs of a call: a tensor, a tuple of them, or a mapping by the names of arguments. OPTIONS is a JSON object. What happens is written to
standard output, a JSON object a line; what the file itself prints goes to standard error."""

from __future__ import annotations

import json
import os
import runpy
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch

from ...ir.errors import TilewrightError, UsageError
from ..model_tuning import EventLines
from .report import fallbacks
from .tuning import tune


def load(file: str, function: str) -> tuple[torch.nn.Module, tuple[Any, ...], Mapping[str, Any]]:
    """What a user's file makes: a module, and the arguments of a call by place and by name. Raises UsageError."""
    make = runpy.run_path(file).get(function)
    if not callable(make):
        raise UsageError(f"{file} has no function {function}: write one that returns (module, inputs)")
    made = make()
    if not isinstance(made, tuple) or len(made) != 2 or not callable(made[0]):
        raise UsageError(f"{function} of {file} returned {type(made).__name__}: return (module, inputs)")
    model, inputs = made
    if isinstance(inputs, Mapping):
        return model, (), inputs
    return model, tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,), {}


def main(arguments: Sequence[str]) -> int:
    """Tune; 0, or 2 where the file is not as it must be."""
    file, function, text = arguments
    options = json.loads(text)
    lines = EventLines(os.fdopen(os.dup(1), "w"))
    os.dup2(2, 1)
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    try:
        model, inputs, named = load(file, function)
        with torch.set_grad_enabled(bool(options.pop("training"))):
            tuned = tune(model, *inputs, kwargs=named, watcher=lines, **options)
    except TilewrightError as e:
        lines.say("failed", error=str(e))
        return 2
    ours = [asdict(f) for f in fallbacks()]
    lines.say("tuned", **asdict(tuned), fallbacks=ours)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
