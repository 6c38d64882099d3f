"""Tuning the kernels of a model: those that a run finds are searched for, heaviest first, and the model is timed before and after."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TextIO

from ..tensor.capture.compiled_function import CompiledFunction, kernel_seconds
from ..tensor.capture.graph_compiler import build_place, tune_now
from ..tensor.capture.jit_options import JitOptions
from ..tensor.capture.kernel_lookup import FoundKernel, looked_up_again

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


class EventLines(TuningWatcher):
    """Writes what happens as a JSON object a line, for the process that shows it."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def say(self, event: str, **what: Any) -> None:
        """Write one event."""
        print(json.dumps({"event": event, **what}), file=self.stream, flush=True)

    def found(self, kernels: Sequence[ModelKernel]) -> None:
        """The kernels."""
        self.say("found", kernels=[asdict(k) for k in kernels])

    def begins(self, name: str, seconds: float) -> None:
        """A search."""
        self.say("begins", name=name, seconds=seconds)


@dataclass(frozen=True)
class Searched:
    """The distinct kernels of functions, by artefact, and how many of them were searched for."""

    distinct: Mapping[str, FoundKernel]
    tuned: int
    options: JitOptions

    def change(self, functions: Iterable[CompiledFunction]) -> None:
        """Let functions of this process run the schedules that are in the cache now."""
        place = build_place("cpu", self.options)
        again = {k.artefact: looked_up_again(k, "cpu", place) for k in self.distinct.values() if not k.exact and k.kernel is not None}
        for f in functions:
            for k in list(f.kernels):
                if not k.exact and k.artefact in again:
                    f.change(k, again[k.artefact])


def search(functions: Iterable[CompiledFunction], options: JitOptions, watcher: TuningWatcher | None) -> Searched:
    """Search for the kernels that have no schedule of their own, heaviest first, within `options.budget`. Symbolic sizes count with the most
    that they can be."""
    of = list(functions)
    distinct = {k.artefact: k for f in of for k in f.kernels}
    most = {name: high for f in of for name, _, high in f.graph.symbols}
    watcher = watcher or TuningWatcher()
    watcher.found(sorted((_described(k, most) for k in distinct.values()), key=lambda k: -k.calls * k.seconds))
    heaviest = sorted(distinct.values(), key=lambda k: -k.calls * (k.flops + 8 * k.nbytes))
    tuned = tune_now(heaviest, build_place("cpu", options), options, lambda k, seconds: watcher.begins(k.name, seconds))
    return Searched(distinct, tuned, options)


def _described(k: FoundKernel, symbols: Mapping[str, int]) -> ModelKernel:
    return ModelKernel(k.name, k.calls, k.opts, k.origin, kernel_seconds(k, "cpu", symbols))


def in_turns(before: Callable[[], float], after: Callable[[], float]) -> tuple[float, float]:
    """The median seconds of each, in turns: whatever else the machine does is the same for both."""
    for call in (before, after, before, after):
        call()
    times: tuple[list[float], list[float]] = ([], [])
    begin = time.monotonic()
    while len(times[0]) < LEAST or (len(times[0]) < MOST and time.monotonic() - begin < ENOUGH_S):
        for call, seconds in zip((before, after), times, strict=True):
            seconds.append(call())
    return statistics.median(times[0]), statistics.median(times[1])
