"""Warm starts: what a captured graph became, on disk, so that the next process pulls and names nothing.

A record is found by the graph's text, how its tensors are used, the target, the threads, the code of this tool and the state
of the cache. It holds the list of calls: where the store keeps each kernel's object, and where each array lies. Nothing in
it is unpickled: it is JSON whose every number is checked, and objects come from the artefact store, which checks them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ...cache.version import start_version
from ...devices import LoopCarry, LoopCopy, LoopWord
from ...devices.cpu.executable import ChosenExecutable
from ...ir.dtypes import DType
from ...ir.dtypes import dtype as type_of
from ...ir.node import Node, SymInfo
from ...ir.node import walk as walk_indices
from ...log import logger
from ...search.parallel_builds import BuildPlace
from ..graph.loop_nodes import NEVER, GraphLoop, LoopOutput
from ..graph.nodes import HostCall, Mark, Slot, TensorNode, make, walk
from ..graph.own_kernels import OwnOutput
from ..graph.primitives import cast
from ..graph.symbolic_sizes import SymbolicSize
from .call_sequence import LinkedCall, LinkedLoop
from .capture import ArraySource, CapturedGraph
from .jit_options import JitOptions
from .kernel_lookup import FoundKernel
from .loop_memory import LoopFrame
from .memory_plan import MemoryPlan, PlacedCalls, Spot, StatePlan


class _Unknown(Exception):
    """Something that has no text which means the same in another process."""


def graph_text(outs: Sequence[TensorNode]) -> str | None:
    """The text of a detached graph (`detached`), or None where something in it has none."""
    writer = _Writer()
    try:
        return writer.graph(outs)
    except _Unknown:
        return None


class _Writer:
    def __init__(self) -> None:
        self.rows: list[str] = []
        self.indices: dict[Node, int] = {}
        self.marks: dict[int, int] = {}
        self.maps: dict[Any, int] = {}

    def graph(self, outs: Sequence[TensorNode]) -> str:
        number: dict[int, int] = {}
        for n in walk(outs):
            number[id(n)] = len(number)
            src = ",".join(str(number[id(s)]) for s in n.src)
            self.rows.append(f"{n.op}({src}) {self.arg(n.arg)} {n.shape} {n.dtype.name}")
        return "\n".join([*self.rows, str([number[id(o)] for o in outs])])

    def arg(self, x: Any) -> str:
        if x is None or isinstance(x, (bool, int, float, str)):
            return f"{type(x).__name__}:{x!r}"
        if isinstance(x, Slot):
            return f"slot {x.number} {x.range}"
        if isinstance(x, (tuple, list)):
            return f"({' '.join(self.arg(e) for e in x)})"
        if isinstance(x, DType):
            return x.name
        if isinstance(x, SymbolicSize):
            return self.index(x.node)
        if isinstance(x, Node):
            return self.index(x)
        if isinstance(x, HostCall):
            return f"host {x.name} {self.arg(x.key)}"
        if isinstance(x, OwnOutput):
            return f"own {x.own.identity} {x.at}"
        if isinstance(x, LoopOutput):
            return f"{self._loop(x.loop)} {x.kind} {x.at}"
        if isinstance(x, Mark):
            return f"mark {self.marks.setdefault(id(x), len(self.marks))}"
        if is_dataclass(x) and not isinstance(x, type):
            return self._record(x)
        raise _Unknown

    def _record(self, x: Any) -> str:
        """A map, a gather or the like: written once, then by number."""
        known = self.maps.get(x)
        if known is None:
            known = self.maps[x] = len(self.maps)
            text = " ".join(f"{f.name}={self.arg(getattr(x, f.name))}" for f in fields(x))
            self.rows.append(f"map {known}: {type(x).__name__} {text}")
        return f"map{known}"

    def _loop(self, loop: GraphLoop) -> str:
        """A loop (without marks): its body written once, then by number."""
        known = self.maps.get(loop)
        if known is None:
            inner = _Writer()
            text = inner.graph(loop.roots)
            known = self.maps[loop] = len(self.maps)
            slots = [(s.shape, s.dtype.name, s.arg.range) for s in loop.parameters]
            facts = loop.name, loop.trips, loop.carries, loop.xs, loop.counter is None, loop.start, loop.test is None
            more = loop.gated, loop.reverse, loop.seconds, [(k, row.key) for k, row in loop.checks]
            self.rows.append(f"loop {known}: {facts} {more} {slots}\n{text}\nend")
        return f"loop{known}"

    def index(self, n: Node) -> str:
        """An index expression: each node of it is a row of its own, once."""
        for m in walk_indices(n):
            if m not in self.indices:
                src = ",".join(str(self.indices[s]) for s in m.src)
                at = self.indices[m] = len(self.indices)
                self.rows.append(f"index {at}: {m.op}({src}) {self._plain(m.arg)} {m.dtype.name}")
        return f"i{self.indices[n]}"

    def _plain(self, x: Any) -> str:
        if isinstance(x, (tuple, list)):
            return f"({' '.join(self._plain(e) for e in x)})"
        if isinstance(x, Node):
            return self.index(x)
        if x is None or isinstance(x, (bool, int, float, str, SymInfo)):
            return f"{type(x).__name__}:{x!r}"
        if is_dataclass(x):
            return " ".join(f"{f.name}={self._plain(getattr(x, f.name))}" for f in fields(x))
        raise _Unknown


log = logger("tensor")

VERSION = 4
KIND = "jit"
"""Records' place in the artefact store."""


WarmParts = tuple[PlacedCalls, list[LinkedCall], list[FoundKernel], list[TensorNode], list[int]]
"""(plan, calls, kernels, nodes by place, bytes of the rooms of loops)."""


@cache
def code_version() -> str:
    """A digest of the code that turns graphs into calls: this package's folders that do, the tool's own, and what chooses
    start schedules."""
    h = hashlib.sha256(start_version().encode())
    root = Path(__file__).resolve().parents[2]
    for path in sorted(p for folder in ("tensor", "plan") for p in (root / folder).rglob("*.py")):
        h.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return h.hexdigest()


def program_of_graph(
    outs: Sequence[TensorNode],
    graph: CapturedGraph,
    sources: Sequence[ArraySource],
    donated: frozenset[int],
    options: JitOptions,
) -> str:
    """What is the same for programs of one graph whose tensors are used alike, whoever captures them; an empty text where a graph has no
    text."""
    text = graph_text(outs)
    if text is None:
        return ""
    use = [(s.kind, s.place) for s in sources], [(r.kind, r.place) for r in graph.results], [(s.kind, s.place, s.new) for s in graph.states]
    slots = [(n.shape, n.dtype.name, str(n.arg.range)) for n in graph.slots]
    parts = use, slots, graph.symbols, sorted(donated), options.frozen, options.numerics, graph.device, text
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def record_key(program: str, place: BuildPlace) -> str:
    """Where the record of a program is, or an empty text where none can be."""
    stamp = cache_state(place)
    if not program or stamp is None:
        return ""
    target = f"{place.device.name} {place.device.target.key} {place.threads} {place.device.compiler_id()}"
    return hashlib.sha256(repr((VERSION, code_version(), target, stamp, program)).encode()).hexdigest()


def cache_state(place: BuildPlace) -> str | None:
    """Changes when the cache does; None for caches that are no file, which are always asked."""
    return None if place.cache.path is None else f"{place.cache.path} {place.cache.stamp()}"


def save(
    key: str,
    place: BuildPlace,
    outs: Sequence[TensorNode],
    nodes: Sequence[TensorNode],
    plan: PlacedCalls,
    rooms: Sequence[int],
    linked: Sequence[LinkedCall],
    found: dict[int, FoundKernel],
) -> None:
    """Keep what a graph became. `nodes`: by place a node of the graph; `rooms`: bytes of the rooms of loops; `found`: kernels, call by call, those of loops in their places."""
    if not key or any(isinstance(k.executable, ChosenExecutable) for k in found.values()):  # (its code is of several kernels)
        return
    number = {id(n): i for i, n in enumerate(walk(outs))}
    kernels = list({id(k): k for k in found.values()}.values())
    at = {id(k): i for i, k in enumerate(kernels)}
    hosts = {c.outputs[0]: number[id(nodes[c.outputs[0]])] for c in linked if c.host is not None}
    numbers = iter([at[id(found[i])] for i in range(len(found))])
    calls: list[list[Any]] = []
    for c in linked:
        loop = None if c.loop is None else loop_row(c.loop, numbers)
        if c.loop is not None and loop is None:
            return
        calls.append([c.inputs, c.outputs, c.name, next(numbers) if c.executable is not None else -1, hosts.get(c.outputs[0], -1), loop])
    rows = [_node_row(n, number) for n in nodes]
    if any(isinstance(e, SymbolicSize) for of, _ in rows if isinstance(of, list) for e in of):
        return
    data = {
        "kernels": [[k.name, k.calls, k.opts, k.origin, k.standing, k.flops, k.nbytes, k.artefact] for k in kernels],
        "calls": calls,
        "rooms": list(rooms),
        "nodes": rows,
        "spots": [[s.kind, s.at] for s in plan.spots],
        "fresh": plan.fresh,
        "states": [s.fresh for s in plan.states],
        "donated": sorted(plan.donated.items()),
        "memory": [plan.memory.peak, plan.memory.total],
        "chunks": plan.chunks,
        "outs": [[n, s.kind, s.at] for n, s in plan.outs.items()],
    }
    place.store.put_record(KIND, key, json.dumps(data, separators=(",", ":")))


def _node_row(n: TensorNode, number: dict[int, int]) -> tuple[int | list[Any], str]:
    """(a node's number in the graph, the type of its elements in memory). What is kept in a wider type than its own is a
    conversion that the partition put behind the graph's node. Of a piece that only a loop goes along, its shape instead."""
    known = number.get(id(n)) if id(n) in number or n.op != "cast" else number.get(id(n.src[0]))
    return list(n.shape) if known is None else known, n.dtype.name


def load(key: str, place: BuildPlace, outs: Sequence[TensorNode], graph: CapturedGraph) -> WarmParts | None:
    """What `save` kept, with every kernel loaded. None where there is no record, or
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
    by_place = [_piece(i, dtype) if isinstance(i, list) else _node(nodes[_index(i, nodes)], dtype) for i, dtype in data["nodes"]]
    spots = [Spot(_kind(kind), _natural(at)) for kind, at in data["spots"]]
    rooms = [_natural(n) for n in data["rooms"]]
    if len(spots) != len(by_place) + len(rooms) or len(data["states"]) != len(graph.states):
        raise ValueError("the record does not fit the graph")
    linked = []
    sizes = [*(n.size * n.dtype.size for n in by_place), *rooms]
    for inputs, outputs, name, kernel, host, loop in data["calls"]:
        read, written = (tuple(_index(p, spots) for p in ps) for ps in (inputs, outputs))
        if loop is not None:
            room = _index(loop[-2], spots)
            made = loop_of(loop, kernels, [sizes[p] for p in (*read, *written, room)])
            linked.append(LinkedCall(read, written, str(name), loop=made))
        elif kernel >= 0:
            k = kernels[_index(kernel, kernels)]
            if len(inputs) + len(outputs) != len(k.executable.signature.params):
                raise ValueError("a call does not fit its kernel")
            linked.append(LinkedCall(read, written, str(name), k.executable, kept=k))
        else:
            call = nodes[_index(host, nodes)].arg
            if not isinstance(call, HostCall):
                raise ValueError("a call of NumPy's code is none")
            linked.append(LinkedCall(read, written, str(name), None, call))
    peak, total = map(_natural, data["memory"])
    _fits(spots, sizes, peak)
    states = [StatePlan(s, None if f is None else _natural(f)) for s, f in zip(graph.states, data["states"], strict=True)]
    memory = MemoryPlan({p: s.at for p, s in enumerate(spots) if s.kind == "arena"}, peak, total)
    outs = {_natural(n): Spot(_kind(kind), _natural(at)) for n, kind, at in data["outs"]}
    fresh = [_index(p, spots) for p in data["fresh"]]
    plan = PlacedCalls(
        spots, fresh, states, {_natural(a): _natural(b) for a, b in data["donated"]}, memory, tuple(map(_natural, data["chunks"])), outs
    )
    return plan, linked, kernels, by_place, rooms


def _node(n: TensorNode, dtype: str) -> TensorNode:
    """A node with the type that its elements have in memory."""
    return cast(n, {t.name: t for t in (n.dtype, n.dtype.compute)}[dtype])


def _piece(shape: Sequence[Any], dtype: str) -> TensorNode:
    return make("slot", (), Slot.new(None), tuple(map(_natural, shape)), type_of(dtype))


def _fits(spots: Sequence[Spot], sizes: Sequence[int], peak: int) -> None:
    for s, nbytes in zip(spots, sizes, strict=True):
        if s.kind == "arena" and s.at + nbytes > peak:
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


# loop records ---------------------------------------------------------------------------------------------------------
# Loops in the records of warm starts: calls of a step, and where their arrays lie, as lists of numbers.


def loop_row(loop: LinkedLoop, numbers: Iterator[int]) -> list[Any] | None:
    """A loop for JSON; None for one whose numbers are known at each call only, or whose steps Python makes. `numbers`: of the kernels, call by
    call."""
    if not loop.native:
        return None
    f = loop.frame
    calls: list[Any] = []
    for c in loop.calls:
        inner = None if c.loop is None else loop_row(c.loop, numbers)
        if c.loop is not None and inner is None:
            return None
        calls.append([c.inputs, c.outputs, c.name, next(numbers) if c.loop is None else -1, inner])
    words = [[w.parameter, w.offset, w.stride, w.jumps] for w in f.words]
    carries = [[c.read, c.write, c.turns] for c in f.carries]
    copies = [[[c.to, c.source, c.nbytes] for c in found] for found in (f.before, f.after)]
    row = [loop.name, calls, words, f.feeds, carries, *copies, f.counter, f.trips, f.start, f.gate, f.test, loop.room, loop.seconds]
    return row if _plain(row) else None


def _plain(x: Any) -> bool:
    if isinstance(x, (list, tuple)):
        return all(map(_plain, x))
    return x is None or isinstance(x, (bool, int, float, str))


def loop_of(row: Sequence[Any], kernels: Sequence[FoundKernel], sizes: Sequence[int]) -> LinkedLoop:
    """The loop of a row. `sizes`: bytes of its inputs, outputs and room. Raises ValueError, TypeError and IndexError for what is none."""
    name, calls, words, feeds, carries, before, after, counter, trips, start, gate, test, room, seconds = row
    made = [_call(kernels, *c) for c in calls]
    counts = [len(c.inputs) + len(c.outputs) + (c.loop is not None) for c in made]
    found = tuple(_loop_word(w, max(_whole(trips), 1), sizes) for w in words)
    word: Callable[[Any], int] = lambda i: _below(i, found)  # noqa: E731
    fed = tuple((_below(c, made), _in(p, counts[_below(c, made)]), word(w)) for c, p, w in feeds)
    counted = tuple((_below(c, made), _in(p, counts[_below(c, made)])) for c, p in counter)
    if len({*((c, p) for c, p, _ in fed), *counted}) != sum(counts):
        raise ValueError("an array of a step has no address")
    moved = tuple(LoopCarry(word(r), word(w), None if turns is None else (word(turns[0]), word(turns[1]))) for r, w, turns in carries)
    copies = [tuple(LoopCopy(word(to), word(source), _in(n, 1 << 62)) for to, source, n in cs) for cs in (before, after)]
    frame = LoopFrame(
        found, fed, moved, copies[0], copies[1], counted, _whole(trips), _whole(start), None if gate is None else _below(gate, sizes),
        None if test is None else word(test),
    )  # fmt: skip
    return LinkedLoop(str(name), tuple(made), frame, _whole(room), None if seconds is None else float(seconds))


def _loop_word(row: Sequence[Any], trips: int, sizes: Sequence[int]) -> LoopWord:
    p, first, stride, jumps = row
    at = [(0, _below(p, sizes), _whole(first)), *((_whole(step), _below(q, sizes), _whole(offset)) for step, q, offset in jumps)]
    for (step, parameter, offset), end in zip(at, [*(step for step, _, _ in at[1:]), trips], strict=True):
        ends = offset, offset + _whole(stride) * (end - step - 1)
        if not (step < end and 0 <= min(ends) <= max(ends) <= sizes[parameter]) or (stride and trips == NEVER):
            raise ValueError("a loop's array lies outside of its memory")
    return LoopWord(*at[0][1:], _whole(stride), tuple(at[1:]))


def _call(kernels: Sequence[FoundKernel], inputs: Any, outputs: Any, name: Any, kernel: Any, inner: Any) -> LinkedCall:
    read, written = tuple(map(_whole, inputs)), tuple(map(_whole, outputs))
    if inner is not None:
        count = len(read) + len(written) + 1  # (what an inner loop's arrays are was checked when the record was made)
        return LinkedCall(read, written, str(name), loop=loop_of(inner, kernels, [1 << 62] * count))
    k = kernels[_below(kernel, kernels)]
    if len(read) + len(written) != len(k.executable.signature.params):
        raise ValueError("a call does not fit its kernel")
    return LinkedCall(read, written, str(name), k.executable)


def _whole(x: Any) -> int:
    if type(x) is not int:
        raise ValueError(f"{x!r} is no whole number")
    return x


def _in(x: Any, count: int) -> int:
    if not 0 <= _whole(x) < count:
        raise ValueError(f"there is no {x}")
    return int(x)


def _below(x: Any, of: Sequence[Any]) -> int:
    return _in(x, len(of))
