"""Tuning a PyTorch model's kernels."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from ...tensor.capture.jit_options import JitOptions
from ..model_tuning import TunedModel, TuningWatcher, accept, search
from .backend import GRAPHS, backend, threads
from .report import functions


def tune(
    model: Callable[..., Any], *inputs: Any, kwargs: Mapping[str, Any] | None = None, budget: float | str = "60s",
    watcher: TuningWatcher | None = None, **options: Any,
) -> TunedModel:  # fmt: skip
    """Tune the kernels of `model(*inputs, **kwargs)`, heaviest first, until the budget is spent. What was found is in the cache, so every
    process that compiles the model after this runs it; graphs of this process that run these kernels change to it. Where an input or
    parameter needs a gradient, the backward pass is tuned too. `watcher` is told what happens; `options`: as for the backend."""
    first = len(GRAPHS)
    before = torch.compile(model, backend=partial(backend, options={**options, "tune": "list"}))
    call = partial(_call, partial(before, *inputs, **(kwargs or {})))
    call()
    programs = [f for g in GRAPHS[first:] for p in g.programs.values() for f in functions(p)]
    settings = JitOptions(**({"threads": threads(), "budget": budget} | {k: v for k, v in options.items() if k != "tune"}))
    searched = search(programs, settings, watcher)
    tuned = accept([searched], call, watcher)
    others = [f for g in GRAPHS[:first] for p in g.programs.values() for f in functions(p)]
    for f, old, new in replace(searched, functions=others).changes():
        f.change(old, new)
    return tuned


def _call(compiled: Callable[[], Any]) -> float:
    """Seconds of a call, with a backward pass where there is one."""
    begin = time.perf_counter()
    result = compiled()
    if torch.is_grad_enabled():
        outs = [t for t in torch.utils._pytree.tree_leaves(result) if isinstance(t, torch.Tensor) and t.requires_grad]
        if outs:
            torch.autograd.backward(outs, [torch.ones_like(t) for t in outs])
    return time.perf_counter() - begin
