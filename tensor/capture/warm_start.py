"""Warm starts: what a captured graph became, on disk, so that the next process pulls and names nothing.

A record is found by the graph's text, how its tensors are used, the target, the threads, the code of this tool and the state
of the cache. It holds the list of calls: where the store keeps each kernel's object, and where each array lies. Nothing in
it is unpickled: it is JSON whose every number is checked, and objects come from the artefact store, which checks them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ...log import logger
from ...search.parallel_builds import BuildPlace
from ..fusion.graph_text import graph_text
from ..graph.node import HostCall, TensorNode, walk
from ..graph.primitives import cast
from .call_sequence import LinkedCall
from .capture import ArraySource, CapturedGraph
from .kernel_lookup import FoundKernel
from .memory_plan import MemoryPlan, PlacedCalls, Spot, StatePlan

log = logger("tensor")

VERSION = 2
KIND = "jit"
"""Records' place in the artefact store."""


WarmParts = tuple[PlacedCalls, list[LinkedCall], list[FoundKernel], list[TensorNode]]


@cache
def code_version() -> str:
    """A digest of the code that turns graphs into calls: this package's folders that do, and the tool's own."""
    from ...cache import tool_version

    h = hashlib.sha256(tool_version().encode())
    root = Path(__file__).resolve().parents[2]
    for path in sorted(p for folder in ("tensor", "plan") for p in (root / folder).rglob("*.py")):
        h.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return h.hexdigest()


def key_of_graph(
    outs: Sequence[TensorNode], graph: CapturedGraph, sources: Sequence[ArraySource], donated: frozenset[int], place: BuildPlace
) -> str:
    """Where the record of a detached graph is, or an empty text where none can be."""
    text = graph_text(outs)
    stamp = cache_stamp(place)
    if text is None or stamp is None:
        return ""
    use = [(s.kind, s.place) for s in sources], [(r.kind, r.place) for r in graph.results], [(s.kind, s.place, s.new) for s in graph.states]
    slots = [(n.shape, n.dtype.name, str(n.arg.range)) for n in graph.slots]
    target = f"{place.device.name} {place.device.target.key} {place.threads} {place.device.compiler_id()}"
    parts = VERSION, code_version(), target, stamp, use, slots, graph.symbols, sorted(donated), graph.device, text
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def cache_stamp(place: BuildPlace) -> str | None:
    """Changes when the cache does; None for caches that are no file, which are always asked."""
    return None if place.cache.path is None else f"{place.cache.path} {place.cache.stamp()}"


def save(
    key: str,
    place: BuildPlace,
    outs: Sequence[TensorNode],
    nodes: Sequence[TensorNode],
    plan: PlacedCalls,
    linked: Sequence[LinkedCall],
    found: dict[int, FoundKernel],
) -> None:
    """Keep what a graph became. `nodes`: by place a node of the graph."""
    if not key:
        return
    number = {id(n): i for i, n in enumerate(walk(outs))}
    kernels = list({id(k): k for k in found.values()}.values())
    at = {id(k): i for i, k in enumerate(kernels)}
    hosts = {c.outputs[0]: number[id(nodes[c.outputs[0]])] for c in linked if c.host is not None}
    data = {
        "kernels": [[k.name, k.calls, k.opts, k.origin, k.standing, k.flops, k.nbytes, k.artefact] for k in kernels],
        "calls": [
            [c.inputs, c.outputs, c.name, at[id(found[i])] if i in found else -1, hosts.get(c.outputs[0], -1)] for i, c in enumerate(linked)
        ],
        "nodes": [_node_row(n, number) for n in nodes],
        "spots": [[s.kind, s.at] for s in plan.spots],
        "fresh": plan.fresh,
        "states": [s.fresh for s in plan.states],
        "donated": sorted(plan.donated.items()),
        "memory": [plan.memory.peak, plan.memory.total],
        "chunks": plan.chunks,
        "outs": [[n, s.kind, s.at] for n, s in plan.outs.items()],
    }
    place.store.put_record(KIND, key, json.dumps(data, separators=(",", ":")))


def _node_row(n: TensorNode, number: dict[int, int]) -> tuple[int, str]:
    """(a node's number in the graph, the type of its elements in memory). What is kept in a wider type than its own is a
    conversion that the partition put behind the graph's node."""
    return number[id(n if id(n) in number else n.src[0])], n.dtype.name


def load(key: str, place: BuildPlace, outs: Sequence[TensorNode], graph: CapturedGraph) -> WarmParts | None:
    """What `save` kept, with every kernel loaded: (plan, calls, kernels, nodes by place). None where there is no record, or
    something that it needs is gone."""
    text = place.store.record(KIND, key) if key else None
    if text is None:
        return None
    try:
        return _decoded(json.loads(text), place, list(walk(outs)), graph)
    except (ValueError, TypeError, KeyError, IndexError) as e:
        log.debug("a record of a captured function is left out: %s", e)
        return None


def _decoded(data: dict[str, Any], place: BuildPlace, nodes: list[TensorNode], graph: CapturedGraph) -> WarmParts:
    kernels = [_kernel(k, place) for k in data["kernels"]]
    by_place = [_node(nodes[_index(i, nodes)], dtype) for i, dtype in data["nodes"]]
    spots = [Spot(_kind(kind), _natural(at)) for kind, at in data["spots"]]
    if len(spots) != len(by_place) or len(data["states"]) != len(graph.states):
        raise ValueError("the record does not fit the graph")
    linked = []
    for inputs, outputs, name, kernel, host in data["calls"]:
        read, written = (tuple(_index(p, spots) for p in ps) for ps in (inputs, outputs))
        if kernel >= 0:
            k = kernels[_index(kernel, kernels)]
            if len(inputs) + len(outputs) != len(k.executable.signature.params):
                raise ValueError("a call does not fit its kernel")
            linked.append(LinkedCall(read, written, str(name), k.executable))
        else:
            call = nodes[_index(host, nodes)].arg
            if not isinstance(call, HostCall):
                raise ValueError("a call of NumPy's code is none")
            linked.append(LinkedCall(read, written, str(name), None, call))
    peak, total = map(_natural, data["memory"])
    _fits(spots, by_place, peak)
    states = [StatePlan(s, None if f is None else _natural(f)) for s, f in zip(graph.states, data["states"], strict=True)]
    memory = MemoryPlan({p: s.at for p, s in enumerate(spots) if s.kind == "arena"}, peak, total)
    outs = {_natural(n): Spot(_kind(kind), _natural(at)) for n, kind, at in data["outs"]}
    fresh = [_index(p, spots) for p in data["fresh"]]
    plan = PlacedCalls(
        spots, fresh, states, {_natural(a): _natural(b) for a, b in data["donated"]}, memory, tuple(map(_natural, data["chunks"])), outs
    )
    return plan, linked, kernels, by_place


def _node(n: TensorNode, dtype: str) -> TensorNode:
    """A node with the type that its elements have in memory."""
    return cast(n, {t.name: t for t in (n.dtype, n.dtype.compute)}[dtype])


def _fits(spots: Sequence[Spot], nodes: Sequence[TensorNode], peak: int) -> None:
    for s, n in zip(spots, nodes, strict=True):
        if s.kind == "arena" and s.at + n.size * n.dtype.size > peak:
            raise ValueError("an array lies outside of the arena")


def _kernel(row: Sequence[Any], place: BuildPlace) -> FoundKernel:
    name, calls, opts, origin, standing, flops, nbytes, artefact = row
    head = place.store.head(str(artefact))
    if head is None:
        raise ValueError("a kernel's source is gone")
    sha, signature = head
    obj = place.store.object(sha, place.device.compiler_id())
    if obj is None:
        raise ValueError("a kernel's object is gone")
    executable = place.device.load(obj, signature, place.threads)
    return FoundKernel(str(name), int(calls), str(opts), str(origin), str(standing), int(flops), int(nbytes), str(artefact), executable)


def _natural(x: Any) -> int:
    if type(x) is not int or x < 0:
        raise ValueError(f"{x!r} is no number from 0 on")
    return x


def _index(x: Any, of: Sequence[Any]) -> int:
    if _natural(x) >= len(of):
        raise ValueError(f"there is no {x}")
    return int(x)


def _kind(x: Any) -> Any:
    if x not in ("given", "closure", "fresh", "arena", "chunk"):
        raise ValueError(f"{x!r} is no kind of memory")
    return x
