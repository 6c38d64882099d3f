"""Loops as nodes: a body, which is a graph of its own on slots, and outputs, each a node of one loop.

The sources of an output are what the loop starts from: the first values of its carries, then arrays of which each step sees one
element along dimension 0, then arrays that all steps see, then (where `gated`) a bool that says whether there are steps at all.
Outputs are the last values of carries, and stacks: what any node of the body is in each step. So whoever needs more of a loop than its
results, as a gradient does, asks for another stack; nothing else changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from .nodes import Slot, TensorNode, differentiated, interned_in, make, range_of, walk

NEVER = 1 << 62
"""Steps of a loop that only its test ends."""


@dataclass(frozen=True, eq=False)
class GraphLoop:
    """A loop. `slots` of the body: of carries, of elements, then of what all steps see. `outs`: the carries' new values, each a node of its
    slot's shape and type, then whatever else the body makes. `test`: a bool in each step that says whether there is another one.
    `counter`: a slot that counts steps from `start`. `reverse`: the last element comes first. `seconds`: how long it may take. `checks`: carries that hold how far
    outside the furthest index was, each with a row of `index_checks`. `joins`: by parameter that goes along several arrays, one after the
    other, the parameter of each and how many rows of it there are."""

    name: str
    trips: int
    carries: int
    xs: int
    slots: tuple[TensorNode, ...]
    outs: tuple[TensorNode, ...]
    test: TensorNode | None = None
    counter: TensorNode | None = None
    start: int = 0
    gated: bool = False
    reverse: bool = False
    seconds: float | None = None
    checks: tuple[tuple[int, Any], ...] = ()
    joins: tuple[tuple[int, tuple[tuple[int, int], ...]], ...] = ()

    @cached_property
    def roots(self) -> tuple[TensorNode, ...]:
        """What the body makes."""
        return (*self.outs, *(() if self.test is None else (self.test,)))

    @cached_property
    def order(self) -> list[TensorNode]:
        """The nodes of the body, sources first: stacks are numbered by it."""
        return list(walk(self.roots, lambda n: not n.src, differentiated))

    @cached_property
    def place(self) -> dict[int, int]:
        """The number of a node of the body, by its id."""
        return {id(n): i for i, n in enumerate(self.order)}

    @property
    def parameters(self) -> tuple[TensorNode, ...]:
        """All slots."""
        return (*self.slots, *(() if self.counter is None else (self.counter,)))

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """Equal for loops that compute the same, with equal marks."""
        slot = {id(s): i for i, s in enumerate(self.parameters)}
        rows: list[Any] = [("slot", s.shape, s.dtype, range_of(s)) for s in self.parameters]
        for n in self.order:
            if id(n) in slot:
                rows.append(slot[id(n)])
            else:
                arg = (type(n.arg), repr(n.arg)) if n.op == "const" else n.arg
                rows.append((n.op, tuple(self.place[id(s)] for s in n.src), arg, n.shape, n.dtype))
        ends = tuple(self.place[id(r)] for r in self.roots)
        counts = self.carries, self.xs, self.counter is None, self.start, self.test is None
        checks = tuple((k, row.key) for k, row in self.checks)
        return self.name, self.trips, counts, self.gated, self.reverse, self.seconds, checks, self.joins, tuple(rows), ends

    @cached_property
    def _hash(self) -> int:
        return hash(self.key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, GraphLoop) and self._hash == other._hash and self.key == other.key)

    @cached_property
    def plain(self) -> GraphLoop:
        """The same without marks, which say something of gradients only, and with slots that are numbered."""
        table: dict[int, TensorNode] = {}
        with interned_in({}):
            for i, s in enumerate(self.parameters):
                table[id(s)] = make("slot", (), Slot(i, range_of(s)), s.shape, s.dtype)
                table[id(s)].line = s.line
            for n in self.order:
                if id(n) not in table:
                    arg = None if n.op == "cast" else n.arg.plain if n.op == "loop" else n.arg
                    new = make(n.op, tuple(table[id(s)] for s in n.src), arg, n.shape, n.dtype)
                    new.line = n.line
                    table[id(n)] = new
        slots = tuple(table[id(s)] for s in self.slots)
        test, counter = (None if n is None else table[id(n)] for n in (self.test, self.counter))
        found = replace(self, slots=slots, outs=tuple(table[id(o)] for o in self.outs), test=test, counter=counter)
        found.__dict__.update(order=[table[id(n)] for n in self.order], plain=found)
        return found


@dataclass(frozen=True)
class LoopOutput:
    """The `arg` of an output. `kind`: 'final', the last value of carry `at`, or 'stack', node `at` of the body's order in all steps."""

    loop: GraphLoop
    kind: str
    at: int

    @property
    def plain(self) -> LoopOutput:
        """The same of the loop without marks."""
        return replace(self, loop=self.loop.plain)


def final(loop: GraphLoop, src: Sequence[TensorNode], carry: int) -> TensorNode:
    """The last value of a carry; the first one where there is no step."""
    slot = loop.slots[carry]
    return make("loop", tuple(src), LoopOutput(loop, "final", carry), slot.shape, slot.dtype)


def stack(loop: GraphLoop, src: Sequence[TensorNode], node: TensorNode) -> TensorNode:
    """What a node of the body is in all steps, along a new dimension 0, where the elements of these steps are."""
    return make("loop", tuple(src), LoopOutput(loop, "stack", loop.place[id(node)]), (loop.trips, *node.shape), node.dtype)
