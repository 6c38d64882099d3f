"""Where the arrays of loops lie: what a step reads and writes in terms of the arrays that the loop is called with.

An element of what the loop goes along is the row of its step, of one array or of several, one after the other; so is what a step adds to a stack. A carry that is written over itself stays
in one buffer. Another one is written to two buffers in turns, or, where it is stacked as well, into its row, where the next step reads it.
Everything else that a step computes lies in one room, beside those buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ...devices import LoopCarry, LoopCopy, LoopWord, Places, Size
from ...ir import index as ix
from ...ir.node import Node, const
from ..fusion.call_list import Call, KernelCall, LoopBody, LoopCall
from ..fusion.joined_rows import JoinedRows
from ..graph.captured_numbers import NumberTape
from ..graph.nodes import TensorNode
from ..graph.symbolic_sizes import number
from .capture import ArraySource, CapturedGraph, CapturedState
from .memory_plan import PlacedCalls, placed, rounded


@dataclass(frozen=True)
class LoopFrame:
    """A loop but for its calls and addresses: fields as `devices.BoundLoop` has them."""

    words: tuple[LoopWord, ...]
    feeds: tuple[tuple[int, int, int], ...]
    carries: tuple[LoopCarry, ...]
    before: tuple[LoopCopy, ...]
    after: tuple[LoopCopy, ...]
    counter: Places
    trips: Size
    start: Size
    gate: int | None
    test: int | None


@dataclass
class PlacedLoop:
    """A loop whose arrays have places. `calls`: of a step; `inner`: the loops among them, by position; `plan`: where a step's arrays lie;
    `room`: bytes of the room. `native`: a replay makes the steps; else Python does, and everything that leaves a step is new."""

    call: LoopCall
    calls: list[Call]
    inner: dict[int, PlacedLoop]
    plan: PlacedCalls
    native: bool
    room: int
    frame: LoopFrame


def placed_loops(calls: Sequence[Call], device: str, handles: bool) -> dict[int, PlacedLoop]:
    """The loops among some calls, by position. `handles`: memory has no addresses to count from."""
    return {i: _placed_loop(c, device, handles) for i, c in enumerate(calls) if isinstance(c, LoopCall)}


def rooms_for(loops: dict[int, PlacedLoop]) -> dict[int, int]:
    """By the position of a loop the bytes of its room."""
    return {i: p.room for i, p in loops.items()}


def _placed_loop(call: LoopCall, device: str, handles: bool) -> PlacedLoop:
    body = call.body
    inner = placed_loops(body.made.calls, device, handles)
    sources = [ArraySource("argument", p) for p in body.leaves]
    rooms = rooms_for(inner)
    native = not handles and all(isinstance(c, KernelCall) or (i in inner and inner[i].native) for i, c in enumerate(body.made.calls))
    plan, calls = placed(body.made, _graph(body, device, native), sources, frozenset(), handles, rooms)
    frame = _Frame(call, plan, calls)
    made = frame.made() if native else frame.bare()
    return PlacedLoop(call, calls, inner, plan, native, frame.room if native else 0, made)


def _graph(body: LoopBody, device: str, states: bool) -> CapturedGraph:
    """A step as a captured function: carries are arguments that it updates, where they are no rows of a stack."""
    updated = [(n, k) for n, k in enumerate(body.carries) if states and k not in body.shared]
    kept = {n for n, _ in updated}
    results = [ArraySource("out", n) for n in range(len(body.made.outs)) if n not in kept]
    changed = [CapturedState("argument", k, n) for n, k in updated]
    return CapturedGraph([], {}, [], results, ("none",), changed, device, NumberTape([], []), [], list(body.loop.parameters))


def _nbytes(n: TensorNode) -> Node:
    """Bytes of a node's elements."""
    out = const(n.dtype.size)
    for e in n.shape:
        out = ix.mul(out, number(e))
    return out


def _plain(n: Node) -> Size:
    return int(n.arg) if n.op == "const" else n


@dataclass
class _Frame:
    """Gives every array of a step an address."""

    call: LoopCall
    plan: PlacedCalls
    calls: Sequence[Call]
    words: list[LoopWord] = field(default_factory=list)
    carries: list[LoopCarry] = field(default_factory=list)
    before: list[LoopCopy] = field(default_factory=list)
    after: list[LoopCopy] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.body, self.loop = self.call.body, self.call.body.loop
        self.room = self.plan.memory.peak
        self.outputs = {(n.arg.kind, n.arg.at): len(self.call.inputs) + j for j, n in enumerate(self.call.nodes)}
        self.space = len(self.call.inputs) + len(self.call.outputs)
        self.fixed: dict[LoopWord, int] = {}
        self.at: dict[int, int] = {}
        self.test: int | None = None

    def made(self) -> LoopFrame:
        loop, made = self.loop, self.body.made
        reads: dict[int, int] = {}  # by parameter of the loop
        for i, k in enumerate(self.body.carries):
            reads[k] = self._carry(k, made.outs[i])
        for i, at in enumerate(self.body.stacks):
            place = made.outs[len(self.body.carries) + i]
            if place not in self.at:
                self.at[place] = self._row(self._output("stack", at), loop.order[at])
        tested = loop.test is not None
        for place in made.outs[len(self.body.carries) + len(self.body.stacks) : len(made.outs) - tested]:
            n = made.nodes[place]
            self.at.setdefault(place, self._fixed(LoopWord(self.space, self._take(n.size * n.dtype.size))))
        if tested:
            self.test = self.at[made.outs[-1]] = self._fixed(LoopWord(self.space, self._take(1)))
        for k in range(loop.carries, loop.carries + loop.xs):
            reads[k] = self._read_rows(self.body.rows_of(k), loop.slots[k])
        counting = len(loop.slots) if loop.counter is not None else -1
        feeds, counter = [], []
        workspaces = iter(range(len(made.nodes), len(self.plan.spots)))
        for i, c in enumerate(self.calls):
            places = [*c.inputs, *c.outputs, *([next(workspaces)] if isinstance(c, LoopCall) else [])]
            for j, p in enumerate(places):
                if p < made.leaves and self.body.leaves[p] == counting:
                    counter.append((i, j))
                else:
                    feeds.append((i, j, self._word(p, reads)))
        return replace(
            self.bare(), words=tuple(self.words), feeds=tuple(feeds), carries=tuple(self.carries), before=tuple(self.before),
            after=tuple(self.after), counter=tuple(counter), test=self.test,
        )  # fmt: skip

    def bare(self) -> LoopFrame:
        """What Python needs to know."""
        loop = self.loop
        gate = len(self.call.inputs) - 1 if loop.gated else None
        test = None if loop.test is None else 0
        return LoopFrame((), (), (), (), (), (), _plain(number(loop.trips)), _plain(number(loop.start)), gate, test)

    def _word(self, place: int, reads: dict[int, int]) -> int:
        if place < self.body.made.leaves:
            parameter = self.body.leaves[place]
            found = reads.get(parameter)
            return self._fixed(LoopWord(parameter)) if found is None else found
        if place in self.at:
            return self.at[place]
        spot = self.plan.spots[place]
        assert spot.kind == "arena", spot
        return self._fixed(LoopWord(self.space, spot.at))

    def _carry(self, k: int, place: int) -> int:
        """Where a carry is read; where it is written goes to `at`."""
        loop, nbytes = self.loop, _plain(_nbytes(self.loop.slots[k]))
        size = rounded(loop.slots[k].size * loop.slots[k].dtype.size)
        out = self._output("final", k)
        state = next((s for s in self.plan.states if s.state.place == k), None)
        shared = self.body.shared.get(k)
        home = -1
        if out is not None or shared is None:
            home = self._fixed(LoopWord(self.space, self._take(size)) if out is None else LoopWord(out))
        first = self._fixed(LoopWord(k))
        if state is not None and state.fresh is None:
            self.before.append(LoopCopy(home, first, nbytes))
            self.at[place] = home
            return home
        read = self._moving(LoopWord(k))
        if shared is None:
            other = self._fixed(LoopWord(self.space, self._take(size)))
            write = self._moving(self.words[home])
            self.carries.append(LoopCarry(read, write, (home, other)))
        else:
            write = self._row(self._output("stack", self.body.stacks[shared]), loop.outs[k])
            self.carries.append(LoopCarry(read, write))
        self.at[place] = write
        if out is not None:
            self.after.append(LoopCopy(home, read, nbytes))
        return read

    def _output(self, kind: str, at: int) -> int | None:
        """The parameter that an output is; None for one that nobody wants."""
        return self.outputs.get((kind, at))

    def _row(self, parameter: int | None, element: TensorNode) -> int:
        """The row of an array that is a step's."""
        assert parameter is not None
        return self._read_rows((JoinedRows(parameter, self.loop.trips),), element)

    def _read_rows(self, rows: Sequence[JoinedRows], element: TensorNode) -> int:
        """The row that is a step's, of arrays one after the other."""
        row, starts, step = _nbytes(element), [], 0
        for r in reversed(rows) if self.loop.reverse else rows:
            last = ix.mul(const(r.every), ix.add(number(r.count), const(-1)))
            at = ix.add(const(r.first), last) if self.loop.reverse else const(r.first)
            starts.append((step, r.parameter, _plain(ix.mul(row, at))))
            step += r.count if len(rows) > 1 else 0
        stride = ix.mul(row, const(-rows[0].every if self.loop.reverse else rows[0].every))
        return self._moving(LoopWord(*starts[0][1:], _plain(stride), tuple(starts[1:])))

    def _take(self, nbytes: int) -> int:
        at = self.room = rounded(self.room) if self.room else 0
        self.room += rounded(nbytes)
        return at

    def _moving(self, word: LoopWord) -> int:
        self.words.append(word)
        return len(self.words) - 1

    def _fixed(self, word: LoopWord) -> int:
        found = self.fixed.get(word)
        if found is None:
            found = self.fixed[word] = self._moving(word)
        return found
