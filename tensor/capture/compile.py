"""From a captured graph to a program: found on disk, or partitioned, pulled, looked up, built and placed."""

from __future__ import annotations

from ..fusion.calls import CallList, KernelCall, call_list
from ..graph.checked import check_of
from ..graph.node import interned_in
from ..memory.buffers import BufferSpec
from ..memory.devices import rooms_of
from ..running.detached import detached
from ..running.observe import WATCH, timed
from . import warm
from .capture import ArraySource, CapturedGraph
from .lookup import looked_up, looked_up_again
from .options import JitOptions
from .place import place_of
from .places import placed
from .program import JitProgram
from .replay import LinkedCall, ReplayProgram
from .tuning import tune_beside, tune_now

COLD = ("require", "tune", "background", "record")
"""Modes that need kernels, and so a graph that is pulled, unless all answers of a warm start are exact."""


def compiled(graph: CapturedGraph, name: str, options: JitOptions, donated: frozenset[int]) -> JitProgram:
    """The program of a captured graph. Raises CacheMiss with tune="require", and what building kernels raises."""
    place = place_of(graph.device, options)
    with interned_in({}):  # nodes of its own: the constants of others may have memory
        outs, leaves = detached([*graph.outs, *check_of(graph.outs)])
    sources = [graph.leaves[id(n)] for n in leaves]
    key = warm.key_of_graph(outs, graph, sources, donated, place)
    found = None if options.checks else warm.load(key, place, outs, graph)
    if found is not None and WATCH.observer is None and (options.tune not in COLD or all(k.exact for k in found[2])):
        plan, linked, kernels, nodes = found
        specs = [BufferSpec(n.shape, n.dtype, graph.device, n.line) for n in nodes]
        return JitProgram(name, graph, plan, ReplayProgram(linked, plan, specs, graph.closures, graph.device), graph.device, kernels, True)
    with timed("graph", name):
        made = call_list(outs) if outs else CallList([], 0, [], ())
    by_place: list[ArraySource] = [sources[n.arg.number] for n in made.nodes[: made.leaves]]
    plan, calls = placed(made, graph, by_place, donated, rooms_of(graph.device) is not None)
    by_call, kernels = looked_up(calls, graph.device, place, options)
    if options.tune == "tune" and tune_now(kernels, place, options):
        changed = {id(k): k if k.exact else looked_up_again(k, graph.device, place) for k in kernels}
        by_call = {i: changed[id(k)] for i, k in by_call.items()}
        kernels = [changed[id(k)] for k in kernels]
        key = warm.key_of_graph(outs, graph, sources, donated, place)
    linked = [
        LinkedCall(c.inputs, c.outputs, c.kernel.name, by_call[i].executable, None, c.kernel)
        if isinstance(c, KernelCall)
        else LinkedCall(c.inputs, c.outputs, c.call.name, None, c.call)
        for i, c in enumerate(calls)
    ]
    warm.save(key, place, outs, made.nodes, plan, linked, by_call)
    specs = [BufferSpec(n.shape, n.dtype, graph.device, n.line) for n in made.nodes]
    program = JitProgram(name, graph, plan, ReplayProgram(linked, plan, specs, graph.closures, graph.device), graph.device, kernels)
    if options.tune == "background":
        program.tuner = tune_beside(program, place, options)
    return program
