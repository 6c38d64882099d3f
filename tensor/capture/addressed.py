"""Captured graphs that are called with addresses: for frameworks that keep their own arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from ...ir.dtypes import DTypeLike
from ...ir.dtypes import dtype as dtype_of
from ..graph.captured_numbers import NumberTape
from ..graph.nodes import Slot, make
from ..graph.symbolic_sizes import SymbolicSize
from ..running.current_capture import Capture, capturing
from ..tensor import Tensor
from ..trees import flatten
from .capture import GraphOfCapture
from .compiled_function import CompiledFunction
from .graph_compiler import compiled
from .jit_options import JitOptions


@dataclass(frozen=True)
class ResultPlace:
    """Where a result lies after a call: fresh array `at` (`kind` 'fresh'), or the memory of argument `at` ('given')."""

    kind: str
    at: int


class AddressedFunction:
    """A compiled graph that is called with addresses on the host, and the values of its symbols. `results`: where each is. `fresh`: how
    many arrays the caller provides beside the arguments. `updates`: of each update, where its new values lie; 'given' is in place."""

    def __init__(self, program: CompiledFunction, updates: int) -> None:
        self.program = program
        plan = program.plan
        self.fresh = len(plan.fresh)
        self.results: list[ResultPlace] = []
        for source in program.graph.results:
            if source.kind == "argument":
                self.results.append(ResultPlace("given", source.place))
            elif source.kind == "out":
                spot = plan.outs[source.place]
                self.results.append(ResultPlace(spot.kind, spot.at))
            else:
                raise NotImplementedError(f"a result that is a {source.kind}")
        by_place = {s.state.place: s for s in plan.states}
        self.updates = [
            ResultPlace("given", place) if by_place[place].fresh is None else ResultPlace("fresh", by_place[place].fresh or 0)
            for place in sorted(by_place)
        ]
        if len(by_place) != updates:
            raise NotImplementedError("an update of what is no argument")
        self.run = program.sequence.run_at
        self.sizes = program.sizes


class GraphRecorder:
    """Records expressions of arguments without values, and compiles parts of them. `slot` makes an argument, `compile` a function of
    some of the arguments; expressions are made while `recording()` is open. `symbols`: those that sizes are made of (others are numbers)."""

    def __init__(self, name: str, options: JitOptions, symbols: Iterable[int] = ()) -> None:
        self.name, self.options = name, options
        found = (s.node.arg for s in symbols if isinstance(s, SymbolicSize))
        self.symbols = tuple(sorted((info.name, info.lo, info.hi) for info in found))
        self._capture: Capture | None = None

    @contextmanager
    def recording(self) -> Iterator[None]:
        """While expressions are made."""
        with capturing(self.name) as made:
            self._capture = made
            yield

    def slot(self, shape: Sequence[int], dtype: DTypeLike | str) -> Tensor:
        """An argument."""
        node = make("slot", (), Slot.new(), tuple(shape), dtype_of(dtype))
        return Tensor.of(node, self.options.device or "cpu")

    def compile(
        self, slots: Sequence[Tensor], results: Sequence[Tensor], updates: Sequence[tuple[Tensor, Tensor]] = (), name: str = ""
    ) -> AddressedFunction:
        """The function of these arguments that computes `results`, and gives the arguments of `updates` new values, in their own
        memory where all reads allow that. Raises what building kernels raises."""
        assert self._capture is not None
        device = self.options.device or "cpu"
        nodes = [s.node for s in slots]
        graph = GraphOfCapture(self._capture, nodes, list(slots), device, NumberTape([], ()))
        leaves, structure = flatten(list(results))
        assigned: list[tuple[Any, Any, Any]] = [(old, old.node, new.node) for old, new in updates]
        captured = graph.finished(leaves, [t.node for t in results], structure, assigned, [])
        captured = replace(captured, symbols=self.symbols, checks=self._capture.checks)
        return AddressedFunction(compiled(captured, name or self.name, self.options, frozenset()), len(updates))
