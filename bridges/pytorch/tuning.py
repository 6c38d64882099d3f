"""Tuning a model's kernels: a run finds them, then each is searched for, heaviest first."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from ...tensor.capture.compiled_function import kernel_seconds
from ...tensor.capture.graph_compiler import build_place, tune_now
from ...tensor.capture.jit_options import JitOptions
from ...tensor.capture.kernel_lookup import FoundKernel, looked_up_again
from .backend import GRAPHS, backend, threads
from .report import functions

LEAST, MOST, ENOUGH_S = 5, 200, 2.0
"""How many calls of each are timed, and the seconds after which five are enough."""


@dataclass(frozen=True)
class TunedModel:
    """What `tune` did. `kernels`: distinct kernels of the model; `tuned`: how many were searched for now; `before_s` and `after_s`: median seconds
    of a call, measured in turns."""

    kernels: int
    tuned: int
    before_s: float
    after_s: float

    def __str__(self) -> str:
        gain = self.before_s / self.after_s if self.after_s else 1.0
        return f"{self.kernels} kernels, {self.tuned} tuned: {1e3 * self.before_s:.3f} ms -> {1e3 * self.after_s:.3f} ms a call, {gain:.2f} times as fast"


@dataclass(frozen=True)
class ModelKernel:
    """A distinct kernel of a model: how often a call of the model runs it, its schedule and where that is from, and the seconds of one run."""

    name: str
    calls: int
    opts: str
    origin: str
    seconds: float


class TuningWatcher:
    """Is told what `tune` does; every method may be left as it is."""

    def found(self, kernels: Sequence[ModelKernel]) -> None:
        """Before the search: the kernels, the one that takes most of a call first."""

    def begins(self, name: str, seconds: float) -> None:
        """A kernel is searched for, for so long."""


def tune(
    model: Callable[..., Any], *inputs: Any, budget: float | str = "60s", watcher: TuningWatcher | None = None, **options: Any
) -> TunedModel:
    """Tune the kernels of `model(*inputs)`, heaviest first, until the budget is spent. What was found is in the cache, so every process that
    compiles the model after this runs it; graphs of this process that run these kernels change to it. Where an input or parameter needs a
    gradient, the backward pass is tuned too. `watcher` is told what happens; `options`: as for the backend."""
    first = len(GRAPHS)
    before = torch.compile(model, backend=partial(backend, options={**options, "tune": "record"}))
    _call(before, inputs)
    programs = [f for g in GRAPHS[first:] for p in g.programs.values() for f in functions(p)]
    distinct: dict[str, FoundKernel] = {k.artefact: k for f in programs for k in f.kernels}
    settings = JitOptions(**({"threads": threads(), "budget": budget} | {k: v for k, v in options.items() if k != "tune"}))
    place = build_place("cpu", settings)
    watcher = watcher or TuningWatcher()
    watcher.found(sorted((_described(k) for k in distinct.values()), key=lambda k: -k.calls * k.seconds))
    heaviest = sorted(distinct.values(), key=lambda k: -k.calls * (k.flops + 8 * k.nbytes))
    tuned = tune_now(heaviest, place, settings, lambda k, seconds: watcher.begins(k.name, seconds))
    again = {k.artefact: looked_up_again(k, "cpu", place) for k in distinct.values() if not k.exact and k.kernel is not None}
    after = torch.compile(model, backend=partial(backend, options={**options, "tune": "use"}))
    old, new = _in_turns(before, after, inputs)
    for f in [f for g in GRAPHS for p in g.programs.values() for f in functions(p)]:
        for k in list(f.kernels):
            if not k.exact and k.artefact in again:
                f.change(k, again[k.artefact])
    return TunedModel(len(distinct), tuned, old, new)


def _described(k: FoundKernel) -> ModelKernel:
    return ModelKernel(k.name, k.calls, k.opts, k.origin, kernel_seconds(k, "cpu"))


def _call(compiled: Callable[..., Any], inputs: Any) -> float:
    """Seconds of a call, with a backward pass where there is one."""
    begin = time.perf_counter()
    result = compiled(*inputs)
    if torch.is_grad_enabled():
        outs = [t for t in torch.utils._pytree.tree_leaves(result) if isinstance(t, torch.Tensor) and t.requires_grad]
        if outs:
            torch.autograd.backward(outs, [torch.ones_like(t) for t in outs])
    return time.perf_counter() - begin


def _in_turns(before: Callable[..., Any], after: Callable[..., Any], inputs: Any) -> tuple[float, float]:
    """The median seconds of each, in turns: whatever else the machine does is the same for both."""
    for compiled in (before, after, before, after):
        _call(compiled, inputs)
    times: tuple[list[float], list[float]] = ([], [])
    begin = time.monotonic()
    while len(times[0]) < LEAST or (len(times[0]) < MOST and time.monotonic() - begin < ENOUGH_S):
        for compiled, seconds in zip((before, after), times, strict=True):
            seconds.append(_call(compiled, inputs))
    return statistics.median(times[0]), statistics.median(times[1])
