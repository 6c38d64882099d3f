"""Capturing: a function is called once on arguments without values, and what it builds is taken down.

What comes of it is a graph whose leaves are the arguments (slots) and the tensors from outside that it read, the tensors
it assigned to, and the tree it returned."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import GeneratorType
from typing import Any

from ...ir.errors import UsageError
from ...ir.kernel import Kernel
from ..given_arrays import lineage, through
from ..graph import primitives as P
from ..graph.captured_numbers import NumberTape, captured, number_at
from ..graph.nodes import HostCall, Mark, Slot, TensorNode, make, walk
from ..graph.source_lines import at, user_line
from ..running.buffers import BufferCell, TensorBuffer
from ..running.current_capture import Capture, SizeCheck, capturing, collecting, outside
from ..running.realise import realise
from ..tensor import Tensor
from ..trees import Structure, flatten
from .call_arguments import Arguments


@dataclass(frozen=True)
class ArraySource:
    """Where an array of a call comes from. `kind`: 'argument' (a tensor of the call), 'number' (a value of the numbers' tape, as a
    tensor), 'value' (one as a number), 'closure' (a tensor from outside), 'out' (what is computed), 'constant' (no tensor at all: `value`)."""

    kind: str
    place: int = 0
    value: Any = None


@dataclass
class CapturedState:
    """A tensor that the function assigns to: argument `place`, or closure `place` with its `tensor`. `new`: the output
    that has its values afterwards."""

    kind: str
    place: int
    new: int
    tensor: Tensor | None = None


@dataclass
class CapturedGraph:
    """`outs`: nodes to compute. `leaves`: by the id of a leaf where its values are. `closures`: where tensors from outside
    are found. `results`: the leaves of what is returned, in `structure`. `numbers`: those that are parameters, and what is computed
    of them; `parameters`: the values of its tape that kernels get. `slots`: of tensors, then of parameters. `effects`: what runs beside that. `symbols`: names and
    ranges of symbolic sizes; `checks`: what must hold of their values. `read`: tensors from outside."""

    outs: list[TensorNode]
    leaves: dict[int, ArraySource]
    closures: list[BufferCell]
    results: list[ArraySource]
    structure: Structure
    states: list[CapturedState]
    device: str
    numbers: NumberTape
    parameters: list[int]
    slots: list[TensorNode] = field(default_factory=list)
    effects: list[TensorNode] = field(default_factory=list)
    symbols: tuple[tuple[str, int, int], ...] = ()
    checks: Sequence[SizeCheck] = ()
    read: Sequence[weakref.ref[Any]] = ()


def capture(function: Callable[..., Any], name: str, given: Arguments, dynamic: Sequence[int], default: str) -> CapturedGraph:
    """Call `function` once. `dynamic`: positions of the numbers that are parameters. `default`: the device where nothing says
    which. Raises UsageError where a value is asked for, and whatever the function raises."""
    device = _device(given.buffers, default)
    shapes = given.shapes if given.shapes is not None else [b.shape for b in given.buffers]
    slots = [make("slot", (), Slot.new(b.range), s, b.dtype) for s, b in zip(shapes, given.buffers, strict=True)]
    numbers: list[Any] = list(given.numbers)
    tape = NumberTape(numbers, dynamic)
    for place, i in enumerate(dynamic):
        numbers[i] = number_at(tape, place)
    placeholders = [Tensor.of(n, device) for n in slots]
    args, kwargs = given.layout.rebuilt(placeholders, numbers)
    with capturing(name) as made, collecting() as effects:
        result = function(*args, **kwargs)
        leaves, structure = flatten(result)
        if any(isinstance(x, Kernel) for x in leaves):
            raise UsageError(f"{name} returns a kernel: @tilewright.operation makes a function of tensors of it, and jit compiles those")
        if any(isinstance(x, GeneratorType) for x in leaves):
            raise UsageError(f"{name} returns a generator, which gives its values once: return a list of them{at(user_line())}")
        owners = {id(t.node): t for t in made.read.values()} | {id(n): t for n, t in zip(slots, placeholders, strict=True)}
        for x in leaves:
            if isinstance(x, Tensor):
                through(x)
        nodes = [_own(x, owners) if isinstance(x, Tensor) else None for x in leaves]
        last = list(effects[-1:])  # it comes after all others
        assigned = [(tensor, old, tensor.node) for tensor, old in made.assigned.values() if tensor.node is not old]
    graph = GraphOfCapture(made, slots, placeholders, device, tape)
    symbols = tuple(sorted((s.arg.name, s.arg.lo, s.arg.hi) for s in given.values))
    return replace(
        graph.finished(leaves, nodes, structure, assigned, last),
        symbols=symbols,
        checks=made.checks,
        read=tuple(map(weakref.ref, made.read.values())),
    )


def _device(buffers: Sequence[TensorBuffer], default: str) -> str:
    found = dict.fromkeys(b.device for b in buffers)
    if len(found) > 1:
        raise UsageError(f"arguments lie on different devices ({', '.join(found)}): move them to one with .to()")
    return next(iter(found), default)


def _own(x: Tensor, owners: dict[int, Tensor]) -> TensorNode:
    """The node of a result. Where its values are those of an argument, of a tensor from outside or of another result, and it is neither that
    tensor nor a view of it, it gets memory of its own."""
    root = lineage(x)[1]
    if owners.setdefault(id(x.node), root) is root:
        return x.node
    return P.marked(x.node, Mark("copy"))


class GraphOfCapture:
    """Puts together what a capture left."""

    def __init__(self, made: Capture, slots: list[TensorNode], placeholders: list[Tensor], device: str, numbers: NumberTape) -> None:
        self.made, self.slots, self.placeholders, self.device, self.numbers = made, slots, placeholders, device, numbers
        self.places = {id(n): ArraySource("argument", i) for i, n in enumerate(slots)}
        self.at = {id(n): place for (place, _), n in numbers.slots.items()}
        self.parameters: list[int] = []
        self.closures: list[BufferCell] = []
        self.known: dict[int, ArraySource] = {}
        self.outs: list[TensorNode] = []
        self.outputs: dict[int, int] = {}
        self.news: set[int] = set()
        self.inside = made.made()

    def finished(
        self, leaves: list[Any], nodes: list[TensorNode | None], structure: Structure,
        assigned: list[tuple[Tensor, TensorNode, TensorNode]], effects: list[TensorNode],
    ) -> CapturedGraph:  # fmt: skip
        self._compute_outside([n for n in nodes if n is not None] + [n for _, old, new in assigned for n in (old, new)] + effects)
        results = [self._result(x) if n is None else self._source(n) for x, n in zip(leaves, nodes, strict=True)]
        states = [s for a in assigned if (s := self._state(*a)) is not None]
        found: dict[int, ArraySource] = {}
        for n in walk([*self.outs, *effects]):
            if n.data is not None or n.op == "slot":
                found[id(n)] = self._source(n)
        placed = self._placed()
        return CapturedGraph(
            self.outs, found, self.closures, results, structure, states, placed, self.numbers, self.parameters, self.slots, effects
        )

    def _result(self, x: Any) -> ArraySource:
        """What is returned that is no tensor."""
        return ArraySource("value", x.place) if captured(x) else ArraySource("constant", 0, x)

    def _compute_outside(self, roots: list[TensorNode]) -> None:
        """What was made outside and not computed yet has its values now: later calls read them."""
        made = self.inside
        lazy = [n for n in walk(roots, lambda n: n.data is not None or id(n) not in made) if n.data is None and n.src and id(n) not in made]
        with outside():
            realise(lazy, self.device)

    def _source(self, n: TensorNode) -> ArraySource:
        """Where a node's values are found."""
        if id(n) in self.places:
            return self.places[id(n)]
        if id(n) in self.at:
            self.places[id(n)] = ArraySource("number", len(self.parameters))
            self.parameters.append(self.at[id(n)])
            self.slots.append(n)
            return self.places[id(n)]
        if n.data is not None:
            return self._closure(n.data)
        if id(n) not in self.outputs:
            self.outputs[id(n)] = len(self.outs)
            self.outs.append(n)
        return ArraySource("out", self.outputs[id(n)])

    def _closure(self, buffer: TensorBuffer) -> ArraySource:
        if buffer.cell is None:
            buffer.cell = BufferCell(buffer)
        cell = buffer.cell
        if id(cell) not in self.known:
            self.known[id(cell)] = ArraySource("closure", len(self.closures))
            self.closures.append(cell)
        return self.known[id(cell)]

    def _state(self, tensor: Tensor, old: TensorNode, new: TensorNode) -> CapturedState | None:
        """A tensor that was assigned to; None for one that was made in the capture, and ends with it."""
        where = self.places.get(id(old))
        if where is not None and not any(t is tensor for t in self.placeholders):
            return None
        if where is None:
            if id(old) in self.inside or old.data is None:
                return None
            where = self._closure(old.data)
        if new.data is not None or id(new) in self.places or id(new) in self.at or id(new) in self.news:
            new = P.host(HostCall("copy", _same, (len(self.news),)), (new,), new.shape, new.dtype)
        self.news.add(id(new))
        return CapturedState(where.kind, where.place, self._source(new).place, None if where.kind == "argument" else tensor)

    def _placed(self) -> str:
        """The one device of all leaves. Raises UsageError."""
        found = dict.fromkeys([*(c.buffer.device for c in self.closures), *([self.device] if self.slots else [])])
        if len(found) > 1:
            raise UsageError(f"{self.made.name} reads tensors on different devices ({', '.join(found)}): move them to one with .to()")
        return next(iter(found), self.device)


def _same(x: Any) -> Any:
    """NumPy's part of a copy: what it returns is written to memory of its own."""
    return x
