"""Tuning an ONNX model's kernels."""

from __future__ import annotations

import os
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from ...ir.errors import UsageError
from ...tensor.capture.jit_options import JitOptions
from ..model_tuning import TunedModel, TuningWatcher, accept, search, timed
from .element_types import NUMPY, Array
from .model import OnnxModel, OnnxValue, load

UNKNOWN = 1
"""A size that neither the model nor the caller says."""
MOST_MADE_UP = 2**28
"""Elements of an input for which numbers are made up."""


def tune(
    source: str | os.PathLike[str] | bytes, feeds: Mapping[str, Any] | None = None, *, sizes: Mapping[str, int] | None = None,
    budget: float | str = "60s", watcher: TuningWatcher | None = None, **options: Any,
) -> TunedModel:  # fmt: skip
    """Tune the kernels of a model, heaviest first, until the budget is spent. `feeds`: inputs by name, made up where none are given, of
    `sizes` by name (else 1). What was found is in the cache, so every process that loads the model after this runs it. `options`: as for
    `load`. Raises UsageError where the model cannot be captured."""
    before = load(source, **{**options, "tune": "list"})
    given = made_up(before, sizes or {}) | dict(feeds or {})
    before.run(None, given)
    if not before.programs:
        raise UsageError("the model is run node by node, since sizes in it hang on data: it has no kernels of its own to tune")
    settings = JitOptions(**({"budget": budget} | {k: v for k, v in options.items() if k != "tune"}))
    searched = search(before.programs, settings, watcher)
    return accept([searched], timed(lambda: before.run(None, given)), watcher)


def made_up(model: OnnxModel, sizes: Mapping[str, int]) -> dict[str, Array]:
    """Inputs of the right types and shapes: normal numbers; 0 and 1 for integers, which are most often places. Raises UsageError for a size
    that the model does not have."""
    names = {n for v in model.inputs for n in v.shape or () if isinstance(n, str)}
    for name in sizes:
        if name not in names:
            raise UsageError(f"the model has no size {name!r}; its sizes are {', '.join(sorted(names)) or 'all known'}")
    random = np.random.default_rng(0)
    return {v.name: _made_up(v, sizes, random) for v in model.inputs}


def _made_up(v: OnnxValue, sizes: Mapping[str, int], random: np.random.Generator) -> Array:
    if v.shape is None:
        raise UsageError(f"the model does not say how many axes {v.name!r} has: give it as a feed")
    shape = [n if isinstance(n, int) else sizes.get(n or "", UNKNOWN) for n in v.shape]
    kind = next(t for t in NUMPY.values() if str(t) == v.dtype)
    if prod(shape) > MOST_MADE_UP:
        raise UsageError(f"{v.name!r} has {' × '.join(map(str, shape))} elements, more than can be made up here: give it as a feed")
    if kind.kind in "iub":
        return random.integers(0, 2, shape).astype(kind)
    return random.standard_normal(shape).astype(np.float32).astype(kind)
