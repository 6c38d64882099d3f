"""From a captured graph to a compiled function: found on disk, or partitioned, pulled, looked up, built and placed; and its kernels
tuned, now or in the background."""

from __future__ import annotations

import gc
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from ...cache.keys import Numerics
from ...ir import index as ix
from ...ir.errors import OutOfTimeError
from ...ir.kernel import Kernel
from ...ir.rewriter import with_constants, without_aliases
from ...opts.analysis.structure import contractions
from ...plan import usage
from ...search.background import BackgroundTuner
from ...search.parallel_builds import BuildHelpers, BuildPlace
from ..fusion.call_list import NUMERICS, Call, CallList, KernelCall, NumpyCall, call_list
from ..graph.index_checks import CHECK, check_of
from ..graph.nodes import TensorNode, interned_in, walk
from ..partition import HOST
from ..running.observers import WATCH, timed
from ..running.pools import rooms_of
from ..running.realise import detached
from . import graph_records as warm
from .call_sequence import CallSequence
from .capture import ArraySource, CapturedGraph
from .compiled_function import CompiledFunction, kernel_calls, linked_calls, specs_of
from .jit_options import JitOptions
from .kernel_lookup import CHECKING, FoundKernel, looked_up, looked_up_again
from .loop_memory import placed_loops, rooms_for
from .memory_plan import StatePlan, placed

if TYPE_CHECKING:
    pass


def build_place(device: str, options: JitOptions) -> BuildPlace:
    """The place that options name. Raises DeviceError, UsageError."""
    from ...cache import Cache
    from ...cache import open as opened
    from ...devices import get
    from ...plan import Artefacts

    found = get(device)
    found.check()
    threads = options.threads or found.threads
    found.check_threads(threads)
    if isinstance(options.cache, Cache):
        return BuildPlace(found, threads, options.cache, Artefacts.default(), options.cache.location)
    return BuildPlace(found, threads, opened(options.cache), Artefacts.default(), None if options.cache is None else str(options.cache))


# tuning -----------------------------------------------------------------------------------------------------------
DEFAULT_S = 30.0
LEAST_S = 1.0
"""Seconds that a kernel gets at least."""


def seconds_of_budget(options: JitOptions) -> float:
    """Seconds of the budget, or of the default one."""
    from ...search import parse_seconds

    return parse_seconds(options.budget if options.budget is not None else DEFAULT_S)


def shares(kernels: Sequence[FoundKernel], options: JitOptions) -> list[tuple[FoundKernel, float]]:
    """The kernels that have no exact answer, heaviest first, and the seconds that each gets: by the work of all its calls."""
    total = seconds_of_budget(options)
    wanted = [k for k in kernels if not k.exact and k.kernel is not None]
    weights = [k.calls * (k.flops + 8 * k.nbytes) + 1 for k in wanted]
    return [(k, max(LEAST_S, total * w / sum(weights))) for k, w in zip(wanted, weights, strict=True)]


def tune_now(kernels: Sequence[FoundKernel], place: BuildPlace, options: JitOptions) -> int:
    """Tune the kernels that have no exact answer, heaviest first, until the budget is spent. Returns how many were tuned. What
    was found is in the cache; Ctrl-C keeps that, and ends the call."""
    todo = shares(kernels, options)
    done = tuned_within(sum(s for _, s in todo), todo, place)
    if todo and not done:
        spent = sum(s for _, s in todo)
        warnings.warn(f'no kernel was tuned in {spent:.3g} s: give jit a longer budget=, such as "30s"', stacklevel=2)
    return len(done)


def tuned_within(
    total: float,
    todo: Sequence[tuple[FoundKernel, float]],
    place: BuildPlace,
    begins: Callable[[FoundKernel, float, bool], None] = lambda k, seconds, more: None,
) -> list[FoundKernel]:
    """Tune kernels within `total` seconds, and return those for which there was time. `todo`: each with its weight; one that has an answer goes
    on where that is expected to gain enough. `begins`: called with a kernel, the seconds that it gets, and whether it was searched for before."""
    from ...search import tune
    from ...search.outlook import Spending
    from ...search.warm_start import next_minute

    end = time.monotonic() + total
    done: dict[int, FoundKernel] = {}
    answers = {n: place.cache.best(k.key) if k.key else None for n, (k, _) in enumerate(todo) if k.exact}
    earlier = {n: next_minute(row) if row else None for n, row in answers.items()}
    spending = Spending([w for _, w in todo], lambda: end - time.monotonic(), earlier)
    for turn, (number, seconds, more) in enumerate(spending):
        k = todo[number][0]
        if turn and time.monotonic() + LEAST_S > end:
            break
        assert k.kernel is not None and seconds is not None
        begins(k, seconds, more)
        try:
            found = tune(
                without_aliases(k.kernel),
                device=place.device,
                threads=place.threads,
                cache=place.cache,
                budget=max(LEAST_S, seconds),
                retune=more,
            )
        except OutOfTimeError:  # a busy machine: the next kernel has more, and may be a smaller one
            spending.failed(number, seconds)
            continue
        spending.minute[number] = found.minute
        done[number] = k
    return list(done.values())


def tune_in_background(program: CompiledFunction, place: BuildPlace, options: JitOptions) -> BackgroundTuner | None:
    """Tune in the background. When a kernel is done, the program's next call runs it with the new schedule."""
    todo = shares(program.kernels, options)
    if not todo:
        return None

    def done(i: int) -> None:
        k = todo[i][0]
        program.change(k, looked_up_again(k, program.device, place, program.program))

    return BackgroundTuner([without_aliases(k.kernel) for k, _ in todo if k.kernel is not None], place, [s for _, s in todo], done)


def counted(kernels: Sequence[FoundKernel], place: BuildPlace) -> usage.RunCounter:
    """A counter of a program's runs, for `tune run --recorded`."""
    device = place.device.spec or place.device.name
    ran = [(k.kernel, k.calls) for k in kernels if k.kernel is not None and k.origin != CHECKING and not k.kernel.fixed]
    found = [(usage.UsedKernel(without_aliases(kernel), "", device, place.threads), calls) for kernel, calls in ran]
    return usage.recorder(place.cache).counter(found)


# compiling ----------------------------------------------------------------------------------------------------------
COLD = ("require", "tune", "background")
"""Modes that need kernels, and so a graph that is pulled, unless all answers of a warm start are exact."""


@contextmanager
def without_collections() -> Iterator[None]:
    """No search for cycles of garbage inside: beside a large library's modules, such as PyTorch's, each takes a quarter of a second."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def compiled(graph: CapturedGraph, name: str, options: JitOptions, donated: frozenset[int]) -> CompiledFunction:
    """The program of a captured graph. Raises CacheMiss with tune="require", and what building kernels raises."""
    place = build_place(graph.device, options)
    with without_collections():
        with interned_in({}):  # nodes of its own: the constants of others may have memory
            outs, leaves = detached([*graph.outs, *graph.effects, *check_of([*graph.outs, *graph.effects])])
        sources = [graph.leaves[id(n)] for n in leaves]
        digest = warm.program_of_graph(outs, graph, sources, donated, options)
        key = warm.record_key(digest, place)
        recording = options.tune == "record" or usage.wanted()
        found = None if options.checks or recording or options.tune == "list" else warm.load(key, place, outs, graph)
    if found is not None and WATCH.observer is None and (options.tune not in COLD or all(k.exact for k in found[2])):
        plan, linked, kernels, nodes, rooms = found
        specs = specs_of(nodes, graph.device, rooms)
        sequence = CallSequence(linked, plan, specs, graph.closures, graph.device, [name for name, _, _ in graph.symbols])
        return CompiledFunction(name, graph, plan, sequence, graph.device, kernels, True, program=digest)
    with BuildHelpers(place) as helpers, without_collections():
        helpers.expect(len({n.shape for n in walk(outs) if n.src}) // 2)  # kernels that differ make arrays that do, as a rule
        with timed("graph", name):
            made = copy_context().run(_listed, outs, options.numerics, graph.device) if outs else CallList([], 0, [], ())
        if not graph.states and not graph.effects and not donated:
            made = replace(made, calls=checked_last(made.calls))
        by_place: list[ArraySource] = [sources[n.arg.number] for n in made.nodes[: made.leaves]]
        handles = rooms_of(graph.device) is not None
        loops = placed_loops(made.calls, graph.device, handles)
        plan, calls = placed(made, graph, by_place, donated, handles, rooms_for(loops))
        if options.frozen:
            calls = with_frozen(calls, by_place, plan.states)
        every = list(kernel_calls(calls, loops))
        by_call, kernels = looked_up(every, graph.device, place, options, helpers, digest)
    if options.tune == "tune" and tune_now(kernels, place, options):
        changed = {id(k): k if k.exact else looked_up_again(k, graph.device, place, digest) for k in kernels}
        by_call = {i: changed[id(k)] for i, k in by_call.items()}
        kernels = [changed[id(k)] for k in kernels]
        key = warm.record_key(digest, place)
    executables = iter([by_call[i].executable for i in range(len(every))])
    linked = linked_calls(calls, loops, graph.device, len(made.nodes), executables)
    rooms = list(rooms_for(loops).values())
    warm.save(key, place, outs, made.nodes, plan, rooms, linked, by_call)
    specs = specs_of(made.nodes, graph.device, rooms)
    sequence = CallSequence(linked, plan, specs, graph.closures, graph.device, [name for name, _, _ in graph.symbols])
    program = CompiledFunction(name, graph, plan, sequence, graph.device, kernels, program=digest)
    if recording:
        sequence.counter = counted(kernels, place)
    if options.tune == "background":
        program.tuner = tune_in_background(program, place, options)
    return program


def _listed(outs: Sequence[TensorNode], numerics: Numerics, device: str) -> CallList:
    NUMERICS.set(numerics)
    HOST.set(rooms_of(device) is None)
    return call_list(outs)


def checked_last(calls: Sequence[Call]) -> list[Call]:
    """The calls with the check of indices behind all kernels, which then are one native call: they read nothing outside of an array, and write
    to nothing that was there before. As they are where other calls are not kernels (one might not end, or fail, for a wrong index), and where
    a kernel of the user's relies on a range: it reads wherever its input says."""
    checks = [c for c in calls if isinstance(c, NumpyCall) and c.name == CHECK]
    kernels = [c for c in calls if isinstance(c, KernelCall)]
    relies = any(b.range is not None or b.ascending for c in kernels for b in c.kernel.inputs)
    return list(calls) if relies or len(kernels) + len(checks) < len(calls) else [*kernels, *checks]


# frozen weights -------------------------------------------------------------------------------------------------------
# Weights that keep their contents: tensors from outside of a function that was captured as frozen are constant inputs of its kernels, so
# that schedules may pack them once.


USES = 8
"""Products that each element of a weight is in, from which a packed copy is worth its memory."""


def with_frozen(calls: Sequence[Call], leaves: Sequence[ArraySource], states: Sequence[StatePlan]) -> list[Call]:
    """The calls, with kernels that know which of their inputs are constant. `leaves`: where the arrays of the list's first places come from;
    `states`: what the function updates, which is not."""
    updated = {s.state.place for s in states if s.state.kind == "closure"}
    fixed = {p for p, s in enumerate(leaves) if s.kind == "closure" and s.place not in updated}
    return [_frozen(c, fixed) for c in calls]


def _frozen(call: Call, fixed: set[int]) -> Call:
    if not isinstance(call, KernelCall) or call.kernel.symbols or call.kernel.blocks is not None:
        return call
    known = {b.name for b, p in zip(call.kernel.inputs, call.inputs, strict=True) if p in fixed}
    names = sorted(known & _operands(call.kernel)) if known else []
    return replace(call, kernel=with_constants(call.kernel, names)) if names else call


def _operands(kernel: Kernel) -> set[str]:
    """The inputs of sums of products of which each element is in several products."""
    out = set()
    for c in contractions(kernel):
        products = prod(ix.upper(a.arg.extent) for a in (*c.nest.axes, *c.reduce))
        out |= {b.name for b in (c.wide, c.tall) if products >= USES * prod(ix.upper(d) for d in b.shape)}
    return out
