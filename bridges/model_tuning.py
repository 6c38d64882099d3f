"""Tuning the kernels of a model: those that a run finds are searched for, heaviest first and then where it pays, and what helps the model is kept."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TextIO

from ..tensor.capture.compiled_function import CompiledFunction, kernel_seconds
from ..tensor.capture.graph_compiler import build_place, seconds_of_budget, tuned_within
from ..tensor.capture.jit_options import JitOptions
from ..tensor.capture.kernel_lookup import CHOSEN, FoundKernel, looked_up_again
from ..tensor.capture.whole_program import accepted, changes_of, keep_choices

SHARE = 0.2
"""The part of a budget in which winners are compared in the model itself."""


@dataclass(frozen=True)
class TunedModel:
    """What `tune` did. `kernels`: distinct kernels of the model; `tuned`: how many were searched for now, `further` of these had a schedule;
    `before_s` and `after_s`: seconds of a call, measured in turns; `predicted_s`: what single kernels promised. `winners`: what became of each new schedule (see
    `search.whole.Judged.facts`)."""

    kernels: int
    tuned: int
    further: int
    before_s: float
    after_s: float
    predicted_s: float = 0.0
    winners: Sequence[Mapping[str, Any]] = ()

    def __str__(self) -> str:
        gain = self.before_s / self.after_s if self.after_s else 1.0
        kept = sum(w["kept"] for w in self.winners)
        said = f"{self.kernels} kernels, {self.tuned} tuned, {kept} of {len(self.winners)} new schedules kept"
        return f"{said}: {1e3 * self.before_s:.3f} ms -> {1e3 * self.after_s:.3f} ms a call, {gain:.2f} times as fast"


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

    def begins(self, name: str, seconds: float, further: bool) -> None:
        """A kernel is searched for, for so long; `further`: it was before."""

    def compares(self, schedules: int, seconds: float) -> None:
        """So many new schedules are compared in the model itself, in about so long."""


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

    def begins(self, name: str, seconds: float, further: bool) -> None:
        """A search."""
        self.say("begins", name=name, seconds=seconds, further=further)

    def compares(self, schedules: int, seconds: float) -> None:
        """The comparison of the whole."""
        self.say("compares", schedules=schedules, seconds=seconds)


@dataclass(frozen=True)
class Searched:
    """The functions of a model, its distinct kernels by artefact, and those of them that were searched for."""

    functions: Sequence[CompiledFunction]
    distinct: Mapping[str, FoundKernel]
    tuned: Sequence[FoundKernel]
    options: JitOptions

    def changes(self, refused: bool = False) -> Iterator[tuple[CompiledFunction, FoundKernel, FoundKernel]]:
        """The kernels of all functions that had no schedule of their own or were searched for, and what the cache has for each now. `refused`: also
        those whose answers the model refused before, with that answer: it may have been noise."""
        place = build_place("cpu", self.options)
        tuned = {k.key for k in self.tuned}
        for f in self.functions:
            for k in f.kernels:
                again = refused and k.origin == CHOSEN
                if (again or not k.exact or k.key in tuned) and k.kernel is not None:
                    yield f, k, looked_up_again(k, "cpu", place, "" if again else f.program)


def search(functions: Iterable[CompiledFunction], options: JitOptions, watcher: TuningWatcher | None) -> Searched:
    """Search for the kernels that have no schedule of their own, by their time in a call, and for others where that pays, within their part of
    `options.budget`. Symbolic sizes count with the most that they can be."""
    of = list(functions)
    distinct = {k.artefact: k for f in of for k in f.kernels}
    most = {name: high for f in of for name, _, high in f.graph.symbols}
    watcher = watcher or TuningWatcher()
    found = [(k, ModelKernel(k.name, k.calls, k.opts, k.origin, kernel_seconds(k, "cpu", most))) for k in distinct.values()]
    found.sort(key=lambda f: -f[1].calls * f[1].seconds)
    watcher.found([described for _, described in found])
    weighed = [(k, described.calls * described.seconds) for k, described in found if k.kernel is not None]
    seconds = (1 - SHARE) * seconds_of_budget(options)
    tuned = tuned_within(seconds, weighed, build_place("cpu", options), lambda k, seconds, more: watcher.begins(k.name, seconds, more))
    return Searched(of, distinct, tuned, options)


def accept(searched: Sequence[Searched], call: Callable[[], float], watcher: TuningWatcher | None) -> TunedModel:
    """Compare the model with each new schedule, and each that it refused before, and without it, let its functions run those that help, and let the cache remember which. `call`:
    seconds of a call of the model."""
    changes = changes_of(c for s in searched for c in s.changes(refused=True))
    seconds = SHARE * sum(seconds_of_budget(s.options) for s in searched)
    if watcher is not None:
        watcher.compares(len(changes), seconds)
    found = accepted(changes, call, seconds)
    if changes:
        keep_choices(build_place("cpu", searched[0].options).cache, changes, found)
    kernels = {k for s in searched for k in s.distinct}
    tuned = [k for s in searched for k in s.tuned]
    further = sum(k.exact for k in tuned)
    return TunedModel(len(kernels), len(tuned), further, found.before_s, found.after_s, found.predicted_s, [j.facts for j in found.judged])


def timed(call: Callable[[], object]) -> Callable[[], float]:
    """A call that returns its seconds."""

    def measured() -> float:
        begin = time.perf_counter()
        call()
        return time.perf_counter() - begin

    return measured
