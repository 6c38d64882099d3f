"""A captured function, compiled: what a call does with its tensors before and after its kernels run, and the report about it."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ...devices.once import process_lock
from ...ir.dtypes import uint8
from ...ir.errors import UsageError
from ...ir.index import upper
from ...ir.node import Node, sym
from ...ir.units import counted, duration
from ...search.background import BackgroundTuner
from ..fusion.call_list import Call, KernelCall, LoopCall
from ..graph.loop_nodes import NEVER
from ..graph.nodes import TensorNode, leaf
from ..graph.source_lines import Line, at, user_line, with_line
from ..graph.symbolic_sizes import most, symbolic
from ..running import buffers
from ..running.assignment import updating
from ..running.buffers import MOVES, BufferSpec, TensorBuffer, mb
from ..running.pools import rooms_of
from ..tensor import Tensor
from ..trees import unflatten
from ..views import met, relatives
from .bindings import Bindings, check_fits, copied_into, places_for, tensors_on
from .call_arguments import Arguments, memory
from .call_sequence import CallSequence, LinkedCall, LinkedLoop, StepLayout
from .capture import ArraySource, CapturedGraph
from .kernel_lookup import FoundKernel
from .loop_memory import PlacedLoop, rooms_for
from .memory_plan import PlacedCalls, StatePlan
from .quick_calls import Found

if TYPE_CHECKING:
    from ...devices import Executable, Limits


# from calls that have places to calls that run, those in loops too ----------------------------------------------------

UNKNOWN_TRIPS = 100
"""How often a loop that only its test ends is thought to go round, where kernels are weighed."""


def kernel_calls(calls: Sequence[Call], loops: Mapping[int, PlacedLoop], times: int = 1) -> Iterator[tuple[KernelCall, int]]:
    """The calls of kernels in order, those in loops too, and how often each is made."""
    for i, c in enumerate(calls):
        if isinstance(c, KernelCall):
            yield c, times
        elif isinstance(c, LoopCall):
            trips = c.body.loop.trips
            yield from kernel_calls(loops[i].calls, loops[i].inner, times * (UNKNOWN_TRIPS if trips == NEVER else max(1, most(trips))))


def linked_calls(
    calls: Sequence[Call], loops: Mapping[int, PlacedLoop], device: str, places: int, executables: Iterator[Executable]
) -> list[LinkedCall]:
    """The calls with their executables, which come in the order of `kernel_calls`. `places`: how many places arrays have; rooms of loops have
    those behind them."""
    rooms = iter(range(places, places + len(loops)))
    out = []
    for i, c in enumerate(calls):
        if isinstance(c, KernelCall):
            out.append(LinkedCall(c.inputs, c.outputs, c.kernel.name, next(executables), None, c.kernel))
        elif isinstance(c, LoopCall):
            loop = _linked(loops[i], device, next(rooms), executables)
            out.append(LinkedCall(c.inputs, c.outputs, c.name, None, None, None, loop))
        else:
            out.append(LinkedCall(c.inputs, c.outputs, c.call.name, None, c.call))
    return out


def _linked(p: PlacedLoop, device: str, room: int, executables: Iterator[Executable]) -> LinkedLoop:
    body, loop = p.call.body, p.call.body.loop
    calls = linked_calls(p.calls, p.inner, device, len(body.made.nodes), executables)
    steps = None
    if not p.native:
        outputs = {(n.arg.kind, n.arg.at): j for j, n in enumerate(p.call.nodes)}
        steps = StepLayout(
            p.plan, tuple(specs_of(body.made.nodes, device, list(rooms_for(p.inner).values()))), device,
            tuple(_spec(n, device) for n in loop.parameters), body.carries,
            {k: body.rows_of(k) for k in range(loop.carries, loop.carries + loop.xs)},
            tuple(outputs.get(("final", k)) for k in body.carries), tuple(outputs["stack", at] for at in body.stacks),
            loop.counter is not None, loop.reverse,
        )  # fmt: skip
    return LinkedLoop(loop.name, tuple(calls), p.frame, room, loop.seconds, steps)


def _spec(n: TensorNode, device: str) -> BufferSpec:
    return BufferSpec(n.shape, n.dtype, device, n.line)


def specs_of(nodes: Sequence[TensorNode], device: str, rooms: Sequence[int]) -> list[BufferSpec]:
    """What buffers are of the arrays of a list, and then of the rooms of its loops, of so many bytes."""
    return [*(_spec(n, device) for n in nodes), *(BufferSpec((n,), uint8, device, ("", 0)) for n in rooms)]


def with_executable(calls: Sequence[LinkedCall], old: Executable, new: Executable) -> list[LinkedCall]:
    """The calls, of which those of one executable run another one."""
    out = []
    for c in calls:
        if c.loop is not None:
            c = replace(c, loop=replace(c.loop, calls=tuple(with_executable(c.loop.calls, old, new))))
        out.append(replace(c, executable=new) if c.executable is old else c)
    return out


def count_kernels(calls: Sequence[LinkedCall]) -> int:
    """Calls of kernels in a list and in the steps of its loops."""
    return sum(count_kernels(c.loop.calls) if c.loop is not None else c.executable is not None for c in calls)


# compiled function ----------------------------------------------------------------------------------------------------


@dataclass
class CompiledFunction:
    """`plan`: where arrays lie; `sequence`: what runs; `kernels`: the distinct ones, heaviest first; `warm`: they came from
    disk; `tuner`: who tunes them in the background; `bindings`: names of tensors from outside, which must still be theirs; `program`: the digest
    of its graph, by which the cache knows what was chosen for it, '' where it has none."""

    name: str
    graph: CapturedGraph
    plan: PlacedCalls
    sequence: CallSequence
    device: str
    kernels: list[FoundKernel] = field(default_factory=list)
    warm: bool = False
    tuner: BackgroundTuner | None = None
    bindings: Bindings | None = None
    program: str = ""

    def __post_init__(self) -> None:
        self._changing = process_lock()
        first = len(self.graph.slots) - len(self.graph.parameters)
        self._parameters = [(p, n.dtype) for p, n in zip(self.graph.parameters, self.graph.slots[first:], strict=True)]
        results = self.graph.results
        self._plain = not self.plan.states and not self.plan.donated
        self._by_address = self._plain and not any(s.kind in ("argument", "number") for s in results)
        alone = self._by_address and self.graph.structure == ("leaf",) and results[0].kind == "out"
        self._single = self.plan.outs[results[0].place].at if alone else None
        fresh = [self.plan.outs[s.place].at for s in results if s.kind == "out"]
        apart = self._by_address and len(set(fresh)) == len(results) and rooms_of(self.device) is None
        self._into = fresh if apart else []  # by result a fresh array of its own, on the host
        self._symbols = [sym(*s) for s in self.graph.symbols]
        self._apart: tuple[Any, list[int]] = (None, [])
        self._varying = any(symbolic(n.shape) for n in self.graph.slots)
        self._read = {id(t): r for r in self.graph.read if (t := r()) is not None}
        self._returned = {s.place for s in results if s.kind == "out"}
        self._why = f"this tensor's memory was written in place by {self.name}: use the tensor that was updated, or copy it before the call"

    def differentiable(self, tensors: Sequence[Tensor]) -> bool:
        """Whether `backward()` may ask for gradients through the results of a call with these arguments: through it or a tensor from
        outside, unless the function gives such tensors new values, as a training step does."""
        seen = [*tensors, *(t for r in self._read.values() if (t := r()) is not None)]
        updated = [tensors[s.place] if s.tensor is None else s.tensor for s in self.graph.states]
        return any(map(_tracked, seen)) and not any(map(_tracked, updated))

    def sizes(self, values: Mapping[Node, int]) -> tuple[int, ...]:
        """The values of the symbols in the program's order. Raises UsageError for sizes that it is no function of."""
        self._check(values)
        known = {s.arg.name: v for s, v in values.items()}
        return tuple([known[name] for name in self.sequence.symbols])

    def _check(self, values: Mapping[Node, int]) -> None:
        try:
            for check in self.graph.checks:
                check(values)
        except UsageError as e:
            raise with_line(e) from None

    @property
    def calls(self) -> list[LinkedCall]:
        """Kernels and NumPy's calls, in order."""
        return self.sequence.linked

    def change(self, old: FoundKernel, new: FoundKernel) -> None:
        """Run another schedule of a kernel from the next call on. Calls that run now end with the old one."""
        with self._changing:
            self.kernels = [new if k is old else k for k in self.kernels]
            self.sequence = self.varied([(old.executable, new.executable)])

    def varied(self, changes: Iterable[tuple[Executable, Executable]]) -> CallSequence:
        """What runs, with other executables in the place of some."""
        old = self.sequence
        calls = old.calls
        for before, after in changes:
            calls = with_executable(calls, before, after)
        found = CallSequence(calls, self.plan, old.specs, old.cells, self.device, old.symbols)
        found.poison, found.counter = old.poison, old.counter
        return found

    def call_quick(self, found: Found) -> Any:
        """A call whose arguments a reader took apart: tensors that have memory, and arrays."""
        _, sizes, addresses, given, _ = found
        if self.bindings is not None:
            self.bindings.check()
        if self.graph.checks:
            self._check({s: v for s, v in zip(self._symbols, sizes, strict=True)})
        if self._by_address and self.sequence.direct:
            fresh = self.sequence.run_direct(addresses, sizes)
            if self._single is not None:
                return Tensor.of(leaf(fresh[self._single]), self.device)
            return self._result((), [], fresh)
        tensors = [x if isinstance(x, Tensor) else Tensor(x, device=self.device) for x in given]
        buffers = [t.node.data or memory(t) for t in tensors]
        if self._plain:
            return self._result(tensors, buffers, self.sequence.run(buffers, sizes))
        return self._updating(tensors, buffers, sizes)

    def call_into(self, found: Found, arrays: Sequence[Any]) -> Any:
        """`call_quick` with results in arrays: written there by the kernels where they may, else copied."""
        _, sizes, addresses, _, held = found
        sequence = self.sequence
        if self._by_address and sequence.direct and self._into:
            specs = sequence.fresh_specs(sizes)
            wanted = [specs[at] for at in self._into]
            if len(arrays) != len(wanted) or any([a.shape != s.shape or a.dtype != s.np for a, s in zip(arrays, wanted)]):
                check_fits(self.name, arrays, wanted)
            outside = [(c.buffer.address, c.buffer) for c in sequence.cells]
            places = places_for(arrays, wanted, [*zip(addresses, held), *outside])
            if places is not None:
                if self.bindings is not None:
                    self.bindings.check()
                if self.graph.checks:
                    self._check({s: v for s, v in zip(self._symbols, sizes, strict=True)})
                if len(places) > 1:
                    into = dict(zip(self._into, places, strict=True))
                    places = [into[at] for at in range(len(into))]
                sequence.run_direct(addresses, sizes, places)
                return tensors_on(arrays, self.graph.structure)
        return copied_into(self.name, self.call_quick(found), arrays)

    def call(self, arguments: Arguments) -> Any:
        """A call, whatever its arguments are; its numbers are the values of the tape."""
        if self.bindings is not None:
            self.bindings.check()
        given = list(arguments.buffers)
        line = user_line()
        for place, dtype in self._parameters:
            b = buffers.new((), dtype, self.device, line)
            buffers.fill(b, arguments.numbers[place])
            given.append(b)
        sizes = self.sizes(arguments.values)
        if self._plain:
            return self._result(arguments.tensors, given, self.sequence.run(given, sizes), arguments.numbers)
        return self._updating(arguments.tensors, given, sizes, arguments.numbers)

    def _updating(self, tensors: Sequence[Tensor], given: list[TensorBuffer], sizes: tuple[int, ...], numbers: Sequence[Any] = ()) -> Any:
        """A call that updates tensors, of which other threads may have updated some since the arguments were read."""
        line = user_line()
        updated = [s.state.tensor if s.state.tensor is not None else tensors[s.state.place] for s in self.plan.states]
        if self._may_meet(updated, tensors, given):
            self._check_disjoint(updated, tensors, line)
        with updating(updated):
            for t, s in zip(updated, self.plan.states):
                if s.state.kind == "argument":
                    given[s.state.place] = memory(t)
            return self._updated(tensors, given, sizes, numbers, line)

    def _may_meet(self, updated: Sequence[Tensor], tensors: Sequence[Tensor], given: Sequence[TensorBuffer]) -> bool:
        """Whether a tensor that is updated may have elements of another argument, or of one that is read from outside."""
        known = set(map(id, tensors))
        return len(known) < len(tensors) or any(
            t.links is not None or (id(t) in known if s.state.kind == "closure" else given[s.state.place].cell is not None)
            for t, s in zip(updated, self.plan.states)
        )

    def _check_disjoint(self, updated: Sequence[Tensor], tensors: Sequence[Tensor], line: Line) -> None:
        """Raise UsageError where a tensor that is updated has elements that another argument, another updated tensor or one that is read from
        outside has as well."""
        known = Counter(map(id, tensors))
        viewed = [x for x in tensors if x.links is not None]
        for n, (t, s) in enumerate(zip(updated, self.plan.states)):
            argument = s.state.kind == "argument"
            if known[id(t)] > argument:
                self._refuse_shared(t, "that it is also given as another argument", line)
            if t.links is not None:
                if met(t, [x for x in viewed if x is not t]) is not None:
                    self._refuse_shared(t, "that has elements of another argument", line)
                if met(t, updated[:n]) is not None:
                    self._refuse_shared(t, "that has elements of another one that it updates", line)
            if argument and met(t, [x for x in relatives(t) if self._reads(x)]) is not None:
                self._refuse_shared(t, "that it also reads from outside", line)

    def _reads(self, t: Tensor) -> bool:
        """Whether a tensor is one that was read from outside."""
        found = self._read.get(id(t))
        return found is not None and found() is t

    def _refuse_shared(self, t: Tensor, how: str, line: Line) -> None:
        what = f"{self.name} updates a tensor {t.dtype}{list(t.shape)} {how}"
        raise UsageError(f"{what}, which would not see the update: pass a copy{at(line)}")

    def _updated(
        self, tensors: Sequence[Tensor], given: list[TensorBuffer], sizes: tuple[int, ...], numbers: Sequence[Any], line: Line
    ) -> Any:
        """The call itself. Memory that is written in place is our own, and nobody else's argument."""
        for s in self.plan.states:
            if s.state.kind == "closure":
                self._refresh_cell(s)
        for s in self.plan.states:
            if s.fresh is None:
                self._owned(s.state.kind, s.state.place, given, line)
        for place in self.plan.donated.values():
            self._owned("argument", place, given, line)
        self._unshare(given, sizes, line)
        fresh = self.sequence.run(given, sizes)
        result = self._result(tensors, given, fresh, numbers)  # before tensors change: what was made of one keeps its old values
        for s in self.plan.states:
            self._update(s, tensors, given, fresh)
        return result

    # memory that is written in place ------------------------------------------------------------------------------
    def _refresh_cell(self, s: StatePlan) -> None:
        """A tensor from outside may have got other memory in ways that its cell did not see."""
        assert s.state.tensor is not None
        cell, now = self.sequence.cells[s.state.place], memory(s.state.tensor)
        if now is not cell.buffer:
            cell.buffer, now.cell = now, cell
            MOVES.moved()

    def _owned(self, kind: str, place: int, given: list[TensorBuffer], line: Line) -> None:
        old = self.sequence.cells[place].buffer if kind == "closure" else given[place]
        if not old.seen:
            return
        new = _copied(old, line)
        new.cell, old.cell = old.cell, None
        if new.cell is not None:
            new.cell.buffer = new
            MOVES.moved()
        if kind != "closure":
            given[place] = new

    def _unshare(self, given: list[TensorBuffer], sizes: tuple[int, ...], line: Line) -> None:
        """Other arguments on memory that is written in place are copied. Who was apart at the last call, and lies where it lay, still is."""
        written = self._written(given)
        if not written:
            return
        lies = sizes if self._varying else (), [b._at or b.address for _, b in written]
        addresses = [b._at or b.address for b in given]
        before = self._apart[1] if self._apart[0] == lies else None
        if before == addresses:
            return
        known: dict[int, int] = {}
        for i, b in written:
            other = known.setdefault(b.address, i)
            if other != i:  # a tensor from outside (−1) keeps its memory
                given[max(i, other)] = _copied(b, line)
                known[b.address] = min(i, other)
        own = {i for i, _ in written}
        spans = sorted((b.address, b.address + b.nbytes) for _, b in self._written(given))
        starts = [first for first, _ in spans]
        for i, b in enumerate(given):
            if i in own or (before is not None and before[i] == addresses[i]):
                continue
            last = bisect_right(starts, max(b.address, b.address + b.nbytes - 1)) - 1
            if last >= 0 and b.address < max(spans[last][1], spans[last][0] + 1):
                given[i] = _copied(b, line)
        self._apart = (lies, addresses) if addresses == [b._at or b.address for b in given] else (None, [])

    def _written(self, given: Sequence[TensorBuffer]) -> list[tuple[int, TensorBuffer]]:
        """(position among what is given, −1 for tensors from outside; memory) of what is written in place."""
        out = [(place, given[place]) for place in self.plan.donated.values()]
        for s in self.plan.states:
            if s.fresh is None:
                at = s.state.place
                out.append((-1, self.sequence.cells[at].buffer) if s.state.kind == "closure" else (at, given[at]))
        return out

    # results ------------------------------------------------------------------------------------------------------
    def _update(self, s: StatePlan, tensors: Sequence[Tensor], given: list[TensorBuffer], fresh: Sequence[TensorBuffer]) -> None:
        """Give an updated tensor its new memory."""
        state = s.state
        tensor = state.tensor if state.tensor is not None else tensors[state.place]
        old = self.sequence.cells[state.place].buffer if state.kind == "closure" else given[state.place]
        if s.fresh is None:
            new = old.taken(self._why)
            if state.kind != "closure":
                given[state.place] = new
        else:
            new = fresh[s.fresh]
            new.cell, old.cell = old.cell, None
            if new.cell is not None:
                new.cell.buffer = new
                MOVES.moved()
            if state.new in self._returned:
                new.foreign = True
        tensor.become(leaf(new))

    def _result(
        self, tensors: Sequence[Tensor], given: list[TensorBuffer], fresh: Sequence[TensorBuffer], numbers: Sequence[Any] = ()
    ) -> Any:
        taken: dict[int, TensorBuffer] = {}
        leaves = [numbers[s.place] if s.kind == "value" else self._leaf(s, tensors, given, fresh, taken) for s in self.graph.results]
        return unflatten(self.graph.structure, leaves)

    def _leaf(
        self,
        s: ArraySource,
        tensors: Sequence[Tensor],
        given: list[TensorBuffer],
        fresh: Sequence[TensorBuffer],
        taken: dict[int, TensorBuffer],
    ) -> Any:
        if s.kind == "constant":
            return s.value
        if s.kind == "argument":
            return Tensor.of(tensors[s.place].node, self.device)
        if s.kind == "closure":
            return Tensor.of(leaf(self.sequence.cells[s.place].buffer), self.device)
        if s.kind == "number":
            return Tensor.of(leaf(given[len(tensors) + s.place]), self.device)
        donor = self.plan.donated.get(s.place)
        if donor is None:
            return Tensor.of(leaf(fresh[self.plan.outs[s.place].at]), self.device)
        if donor not in taken:
            taken[donor] = given[donor].taken(f"this tensor was donated to {self.name}: its memory holds a result")
        return Tensor.of(leaf(taken[donor]), self.device)


def _copied(old: TensorBuffer, line: Line) -> TensorBuffer:
    new = buffers.new(old.shape, old.dtype, old.device, line, old.range)
    buffers.fill(new, old.array)
    return new


# report -----------------------------------------------------------------------------------------------------------
REPEATS = 20
"""Calls that are timed of a kernel, the best of which counts."""


def report(name: str, programs: Sequence[CompiledFunction], measure: bool) -> str:
    """A text about every program: what it was captured for, its kernels (heaviest first) and its memory."""
    if not programs:
        return f"{name}: not called yet"
    return "\n\n".join(_program(p, measure) for p in programs)


def _program(p: CompiledFunction, measure: bool) -> str:
    from ...devices import get

    device = get(p.device)
    limits = device.limits()
    rows = [("kernel", "calls", "schedule", "from", *(("time", "% of roofline") if measure else ()))]
    for k in p.kernels:
        said = f"{k.origin}, {k.standing}" if k.standing and k.standing != "verified" else k.origin
        rows.append((k.name, str(k.calls), k.opts, said, *(_timed(k, p, limits) if measure else ())))
    memory = p.plan.memory
    used = f"intermediates {mb(memory.peak)} in one arena, {mb(memory.total)} without sharing"
    updated = sum(s.fresh is None for s in p.plan.states)
    states = f"; {updated} of {len(p.plan.states)} updated tensors in place" if p.plan.states else ""
    hosted = sum(c.host is not None for c in p.calls)
    numpy = f", {hosted} call{'s' * (hosted > 1)} of code on the host (NumPy's, or a source's)" if hosted else ""
    shapes = ", ".join(f"{n.dtype}{list(n.shape)}" for n in p.graph.slots)
    loops = sum(c.loop is not None for c in p.calls)
    kernels = count_kernels(p.calls)
    looped = f", {loops} loop{'s' * (loops > 1)}" if loops else ""
    head = f"{p.name}({shapes}) on {p.device}: {counted(kernels, 'kernel')}, {len(p.kernels)} of them distinct{looped}{numpy}"
    return "\n".join([head, *_table(rows), f"{used}{states}" + ("; from disk" if p.warm else "")])


def _timed(k: FoundKernel, p: CompiledFunction, limits: Limits | None) -> tuple[str, str]:
    seconds = kernel_seconds(k, p.device, {name: high for name, _, high in p.graph.symbols})
    if limits is None or not seconds or not k.nbytes:
        return duration(seconds), ""
    least = max(k.flops / limits.peak(k.executable.threads), k.nbytes / limits.bandwidth(k.executable.threads))
    return duration(seconds), f"{100 * least / seconds:.0f} %"


def kernel_seconds(k: FoundKernel, device: str, symbols: Mapping[str, int] | None = None) -> float:
    """Seconds of the quickest of some calls: see `seconds_of`."""
    return seconds_of(k.executable, device, symbols)


def seconds_of(executable: Executable, device: str, symbols: Mapping[str, int] | None = None) -> float:
    """Seconds of the quickest of some calls, on memory of zeros. `symbols`: the values of symbolic sizes, which are the largest
    in memory."""
    from math import prod

    from ...ir.dtypes import uint8
    from ..running import buffers

    arrays = []
    for param in executable.signature.params:
        b = buffers.new((max(prod(_extents(param.shape)) * param.dtype.size, 1),), uint8, device, ("", 0))
        buffers.fill(b, 0)
        arrays.append(b)
    vars = [(symbols or {})[s] for s in executable.signature.symbols]
    return min(executable.time([[b.address for b in arrays]], vars, REPEATS, 0.2))


def _extents(shape: Iterable[Any]) -> list[int]:
    return [upper(d) for d in shape]


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    return ["  " + "  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in rows]


def _tracked(tensor: Tensor) -> bool:
    return tensor.known is None and tensor.deferred is None and tensor.node.tracked
