"""The process in which `tune model FILE.onnx` tunes a model: `python -m tilewright.bridges.onnx.tune_process FILE OPTIONS`.

OPTIONS is a JSON object. What happens is written to standard output, a JSON object a line."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict

from ...ir.errors import TilewrightError
from ..model_tuning import EventLines
from .tuning import tune


def main(arguments: Sequence[str]) -> int:
    """Tune; 0, or 2 where the model or what is asked of it is not as it must be."""
    file, text = arguments
    lines = EventLines(os.fdopen(os.dup(1), "w"))
    os.dup2(2, 1)
    try:
        tuned = tune(file, watcher=lines, **json.loads(text))
    except TilewrightError as e:
        lines.say("failed", error=str(e))
        return 2
    lines.say("tuned", **asdict(tuned), fallbacks=[])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
