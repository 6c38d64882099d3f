"""A captured list of calls that runs: replays of its kernels, with the calls of NumPy's code between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...devices.once import process_lock
from ...ir.dtypes import uint8
from ...ir.index import function
from ..fusion.joined_rows import JoinedRows, row_at
from ..graph.index_checks import CHECK
from ..graph.nodes import HostCall
from ..graph.symbolic_sizes import sized_shapes, symbolic
from ..running import buffers
from ..running.buffers import MOVES, BufferCell, BufferSpec, TensorBuffer, adopted, made
from ..running.observers import WATCH, timed
from ..running.pools import rooms_of
from .loop_memory import LoopFrame
from .memory_plan import PlacedCalls, Spot

if TYPE_CHECKING:
    from ...devices import BoundCall, BoundLoop, Executable, Packed
    from ...ir.kernel import Kernel
    from ...plan import Replay, usage
    from .kernel_lookup import FoundKernel


class SharedArena:
    """Memory for intermediate results. Calls that do not run at once share one, as large as the largest needs."""

    def __init__(self) -> None:
        self.buffer: TensorBuffer | None = None
        self.version = 0

    def fit(self, nbytes: int, device: str) -> int:
        """The address, after growing where that is needed. Raises TensorMemoryError."""
        if self.buffer is None or self.buffer.nbytes < nbytes:
            self.buffer = None  # first give, then take
            self.buffer = buffers.new((nbytes,), uint8, device, ("", 0))
            self.version += 1
        return self.buffer.address


_arenas: dict[str, list[SharedArena]] = {}


@dataclass(frozen=True, slots=True)
class LinkedCall:
    """A call of the list: of a kernel's executable, NumPy's code (`host`), or a loop. `name`: for people; `kernel`: where it is known; `kept`:
    else what a record kept of it."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    name: str
    executable: Executable | None = None
    host: HostCall | None = None
    kernel: Kernel | None = None
    loop: LinkedLoop | None = None
    kept: FoundKernel | None = None

    @property
    def native(self) -> bool:
        """Whether a replay makes it: a kernel, or a loop of such calls on the processor."""
        return self.executable is not None if self.loop is None else self.loop.native


@dataclass(frozen=True)
class LinkedLoop:
    """The calls of a step, and where their arrays lie. `room`: the place of the loop's own memory in the list that it is in; `steps`: what
    Python needs where it makes the steps, None where a replay does."""

    name: str
    calls: tuple[LinkedCall, ...]
    frame: LoopFrame
    room: int
    seconds: float | None = None
    steps: StepLayout | None = None

    @property
    def native(self) -> bool:
        """Whether a replay makes its steps."""
        return self.steps is None

    def bound(self, pointers: tuple[int, ...]) -> BoundLoop:
        """The loop with the addresses of its inputs, outputs and room."""
        from ...devices import BoundCall, BoundLoop

        calls: list[BoundCall | BoundLoop] = []
        for c in self.calls:
            none = (0,) * (len(c.inputs) + len(c.outputs) + (c.loop is not None))
            if c.loop is not None:
                calls.append(c.loop.bound(none))
            else:
                assert c.executable is not None
                calls.append(BoundCall(c.executable, none))
        f = self.frame
        return BoundLoop(
            self.name, tuple(calls), pointers, f.words, f.feeds, f.trips, f.carries, f.before, f.after, f.counter, f.start, f.gate, f.test,
            self.seconds,
        )  # fmt: skip


@dataclass(frozen=True)
class StepLayout:
    """A loop for Python to make its steps. `plan`, `specs`: of the calls of a step; `slots`: by parameter its spec in a step, `carries`: numbers of those that are
    computed, in the order of a step's outputs, then `stacks` outputs follow, then the test. `xs`: by parameter that the
    steps go along, where its rows are. `finals`, `rows`: by carry and stack the position among the loop's outputs."""

    plan: PlacedCalls
    specs: tuple[BufferSpec, ...]
    device: str
    slots: tuple[BufferSpec, ...]
    carries: tuple[int, ...]
    xs: Mapping[int, tuple[JoinedRows, ...]]
    finals: tuple[int | None, ...]
    rows: tuple[int, ...]
    counter: bool
    reverse: bool


def in_python(loop: LinkedLoop, symbols: Sequence[str], arrays: Sequence[Any], values: tuple[int, ...], shapes: Sequence[Any]) -> list[Any]:
    """The steps of a loop one by one: of bodies with NumPy's code, and on devices with memory of their own. `arrays`: what it begins with;
    `shapes`: (shape, type) of its outputs. Raises OutOfTimeError."""
    import time

    import numpy as np

    from ...ir.errors import OutOfTimeError

    lay, frame = loop.steps, loop.frame
    assert lay is not None
    body = CallSequence(loop.calls, lay.plan, lay.specs, [], lay.device, symbols)
    trips, start = (n if isinstance(n, int) else function([n], symbols)(*values)[0] for n in (frame.trips, frame.start))
    if frame.gate is not None and not bool(arrays[frame.gate]):
        trips = 0
    carry = {k: np.ascontiguousarray(arrays[k]) for k in lay.carries}
    outs = [np.zeros(shape, kind) for shape, kind in shapes]
    begin, step = time.monotonic(), 0
    sized = _Sized(lay.slots, tuple(symbols))
    whole = {r.parameter for rows in lay.xs.values() for r in rows} - {*lay.xs}  # (steps read them as rows of others)
    while step < trips:
        at = trips - 1 - step if lay.reverse else step
        given = []
        for p, spec in enumerate(sized.at(values)):
            if p in carry:
                found = carry[p]
            elif lay.counter and p == len(lay.slots) - 1:
                found = np.array(start + step, np.int64)
            else:
                found = arrays[p] if p not in lay.xs else row_at(lay.xs[p], arrays, at)
            found = np.ascontiguousarray(found)
            found = found if p in whole else found.reshape(spec.shape)
            given.append(buffers.adopt(found, spec.dtype, lay.device, spec.line))
        made = [b.array for b in body.run(given, values)]
        where = [made[lay.plan.outs[i].at] for i in range(len(lay.plan.outs))]
        carry = dict(zip(lay.carries, where))
        for row, value in zip(lay.rows, where[len(lay.carries) :]):
            outs[row][at] = value
        step += 1
        if frame.test is not None and not bool(where[-1]):
            break
        if loop.seconds is not None and time.monotonic() - begin > loop.seconds:
            raise OutOfTimeError(
                f"{loop.name} has not ended within {loop.seconds:g} s: raise its limit, or see why its condition stays true"
            )
    for k, out in zip(lay.carries, lay.finals):
        if out is not None:
            outs[out] = carry[k]
    return outs


class _Sized:
    """Specs with the values of symbols."""

    def __init__(self, specs: Sequence[BufferSpec], symbols: tuple[str, ...]) -> None:
        self._specs, self._shapes = specs, sized_shapes([s.shape for s in specs], symbols)

    def at(self, values: tuple[int, ...]) -> list[BufferSpec]:
        """The specs."""
        return [s.sized(shape) for s, shape in zip(self._specs, self._shapes(*values))]


class SizedSpecs:
    """Specs of a list's places with the values of its symbols: those of fresh arrays at every call, others only where NumPy's code or an
    observer asks."""

    def __init__(self, specs: Sequence[BufferSpec], fresh: Sequence[int], symbols: tuple[str, ...]) -> None:
        self._specs, self._symbols = list(specs), symbols
        self._fresh = [specs[p] for p in fresh]
        self._changing = [i for i, s in enumerate(self._fresh) if symbolic(s.shape)]
        self._shapes = sized_shapes([self._fresh[i].shape for i in self._changing], symbols)
        self._last: tuple[tuple[int, ...], list[BufferSpec]] = ((), self._fresh)
        self._one: dict[int, Callable[..., list[tuple[int, ...]]]] = {}

    def fresh(self, values: tuple[int, ...]) -> list[BufferSpec]:
        """Of the fresh arrays."""
        if not self._changing:
            return self._fresh
        before, found = self._last
        if values != before:
            found = list(self._fresh)
            for i, shape in zip(self._changing, self._shapes(*values), strict=True):
                found[i] = found[i].sized(shape)
            self._last = values, found
        return found

    def at(self, place: int, values: tuple[int, ...]) -> BufferSpec:
        """Of one place."""
        spec = self._specs[place]
        if not symbolic(spec.shape):
            return spec
        shapes = self._one.get(place)
        if shapes is None:
            shapes = self._one[place] = sized_shapes([spec.shape], self._symbols)
        return spec.sized(shapes(*values)[0])


class CallSequence:
    """A placed call list that runs. One run at a time; other threads wait."""

    def __init__(
        self,
        linked: Sequence[LinkedCall],
        plan: PlacedCalls,
        specs: Sequence[BufferSpec],
        cells: list[BufferCell],
        device: str,
        symbols: Sequence[str] = (),
    ) -> None:
        """`specs`: of each place; `cells`: where tensors from outside are; `symbols`: those whose values come with each run."""
        self.symbols = tuple(symbols)
        self._known = SizedSpecs(specs, plan.fresh, self.symbols)
        self.plan, self.specs, self.cells, self.device = plan, list(specs), cells, device
        self.calls = list(linked)
        self.linked = [c for c in linked if any(self.specs[p].nbytes != 0 for p in c.outputs)]
        self.poison = False
        self.counter: usage.RunCounter | None = None
        """Counts runs, where they are recorded."""
        self._given = 1 + max((s.at for s in plan.spots if s.kind == "given"), default=-1)
        self._chunks: list[TensorBuffer] = []
        self._segments: list[_NativeSegment | _NumpySegment | _LoopSegment] = []
        self._arena: SharedArena | None = None
        self._version = self._moves = -1
        self._ready = False
        self._base = 0
        self._free = _arenas.setdefault(device, [])
        self._direct: Callable[..., None] | None = None
        self._checks: list[_IndexCheck] = []
        self._lock = process_lock()

    def run(self, given: Sequence[TensorBuffer], values: tuple[int, ...] = ()) -> list[TensorBuffer]:
        """Make all calls. `given`: arguments, then numbers. `values`: of the symbols. Returns the fresh arrays."""
        if WATCH.observer is None and self._direct is not None:
            return self.run_direct([b._at or b.address for b in given], values)
        if self.counter is not None:
            self.counter.runs += 1
        with self._lock:
            fresh = [made(f) for f in self._known.fresh(values)]
            with self._memory(given):
                self._run([b.address for b in (*given, *fresh)], RunArrays(self, given, fresh, values))
        return fresh

    @property
    def direct(self) -> bool:
        """Whether a run is one call of a replay, which needs nothing but addresses, and checks of indices after it."""
        return self._direct is not None and WATCH.observer is None

    def fresh_specs(self, values: tuple[int, ...]) -> list[BufferSpec]:
        """Of the fresh arrays, with these values of the symbols."""
        return self._known.fresh(values)

    def run_direct(self, given: Sequence[int], values: tuple[int, ...], into: Sequence[int] | None = None) -> list[TensorBuffer]:
        """`run` where it is `direct`, with the addresses of what is given, on the host or handles, which somebody keeps alive. `into`: where
        the fresh arrays are, if they have memory already."""
        assert self._direct is not None
        if self.counter is not None:
            self.counter.runs += 1
        with self._lock:
            fresh = [made(f) for f in self._known.fresh(values)] if into is None else []
            memory = self._take(given)
            try:
                self._direct(*given, *([b._at or b.address for b in fresh] if into is None else into), *values)
                for check in self._checks:
                    check.look()
            finally:
                self._free.append(memory)
        return fresh

    def run_at(self, given: Sequence[int], fresh: Sequence[int], values: tuple[int, ...] = ()) -> None:
        """Make all calls on memory that the caller keeps: addresses of the arguments, and of the fresh arrays, each row-major and as
        large as the program says with these values of its symbols. The memory must be the host's."""
        if self.direct:
            self.run_direct(given, values, fresh)
            return
        if self.counter is not None:
            self.counter.runs += 1
        with self._lock, self._memory(given):
            self._run([*given, *fresh], RunArrays(self, given, fresh, values))

    @contextmanager
    def _memory(self, given: Sequence[Any]) -> Iterator[None]:
        """An arena of this run's own, with everything that stays in its place."""
        memory = self._take(given)
        try:
            yield
        finally:
            self._free.append(memory)

    def _take(self, given: Sequence[Any]) -> SharedArena:
        try:
            memory = self._free.pop()
        except IndexError:
            memory = SharedArena()
        try:
            if memory is not self._arena or memory.version != self._version or MOVES.count != self._moves:
                self._look(memory, given)
            if self.poison:
                self._fill()
        except BaseException:
            self._free.append(memory)
            raise
        return memory

    def _run(self, addresses: list[int], arrays: RunArrays) -> None:
        for segment in self._segments:
            (segment.run if WATCH.observer is None else segment.watched)(self, addresses, arrays)

    # addresses ----------------------------------------------------------------------------------------------------
    def _look(self, memory: SharedArena, given: Sequence[Any]) -> None:
        """Find out where everything lies now that stays there from call to call."""
        self._given = max(self._given, len(given))
        if self.plan.chunks and not self._chunks:
            self._chunks = [buffers.new((n,), uint8, self.device, ("", 0)) for n in self.plan.chunks]
        self._base = memory.fit(self.plan.memory.peak, self.device) if self.plan.memory.peak and not self.plan.chunks else 0
        self._arena, self._version = memory, memory.version
        while True:
            moves = MOVES.count
            where = [self._at(s) for s in self.plan.spots]
            if moves == MOVES.count:  # what was evicted has come back
                break
        self._moves = moves
        if not self._ready or any(s.repacks() for s in self._segments):
            self._segments = self._linked(where)
            self._checks = [s for s in self._segments if isinstance(s, _IndexCheck)]
            first = self._segments[0] if self._segments else None
            if (
                isinstance(first, _NativeSegment)
                and first.picks == list(range(self._given + len(self.plan.fresh)))
                and len(self._checks) == len(self._segments) - 1
            ):
                self._direct = first.replay.run
            self._ready = True
        for segment in self._segments:
            segment.patch(where)
        for check in self._checks:
            check.read(self)

    def _at(self, spot: Spot) -> int:
        """The address of what stays; 0 for what comes with a call."""
        if spot.kind == "closure":
            return self.cells[spot.at].buffer.address
        if spot.kind == "arena":
            return self._base + spot.at
        return self._chunks[spot.at].address if spot.kind == "chunk" else 0

    def slot(self, spot: Spot) -> int | None:
        """The position of a spot's address among those of a call; None for what stays."""
        return spot.at if spot.kind == "given" else self._given + spot.at if spot.kind == "fresh" else None

    def _linked(self, where: list[int]) -> list[_NativeSegment | _NumpySegment | _LoopSegment]:
        out: list[_NativeSegment | _NumpySegment | _LoopSegment] = []
        run: list[LinkedCall] = []
        for c in [*self.linked, None]:
            if c is not None and c.native:
                run.append(c)
                continue
            if run:
                out.append(_NativeSegment(self, run, where))
                run = []
            if c is not None:
                small = all(self.plan.spots[p].kind == "arena" for p in c.inputs)
                of_check = c.host is not None and c.host.name == CHECK and small
                out.append(_LoopSegment(c) if c.loop is not None else _IndexCheck(c) if of_check else _NumpySegment(c))
        return out

    # memory -------------------------------------------------------------------------------------------------------
    def _fill(self) -> None:
        """Poison: every byte of the arena is 0xFF, which is NaN as a float of any size."""
        for b in self._chunks:
            buffers.fill(b, 255)
        if self._arena is not None and self._arena.buffer is not None:
            self._arena.buffer.array[...] = 255


class RunArrays:
    """The arrays of one run, or where they are, for code that asks for them by place. `values`: of the symbols."""

    def __init__(
        self, program: CallSequence, given: Sequence[TensorBuffer | int], fresh: Sequence[TensorBuffer | int], values: tuple[int, ...]
    ) -> None:
        self.program, self.given, self.fresh, self.values = program, given, fresh, values

    def spec(self, place: int) -> BufferSpec:
        """What a place holds in this run."""
        return self.program._known.at(place, self.values)

    def buffer(self, place: int) -> TensorBuffer | None:
        """The buffer of a place that has one of its own; None in the arena."""
        spot = self.program.plan.spots[place]
        if spot.kind == "closure":
            return self.program.cells[spot.at].buffer
        if spot.kind == "chunk":
            return self.program._chunks[spot.at]
        if spot.kind not in ("given", "fresh"):
            return None
        found = (self.given if spot.kind == "given" else self.fresh)[spot.at]
        return adopted(self.spec(place), found) if isinstance(found, int) else found

    def array(self, place: int) -> Any:
        """A place as a NumPy array: its own memory on the host, else a copy."""
        spec, spot, arena = self.spec(place), self.program.plan.spots[place], self.program._arena
        found = self.buffer(place)
        if found is not None and spot.kind != "chunk":
            return found.array
        if found is None:
            assert arena is not None and arena.buffer is not None
            room = arena.buffer.array[spot.at : spot.at + spec.nbytes]
        else:
            room = found.copied()[: spec.nbytes]
        return room.view(spec.dtype.np).reshape(spec.shape)

    def store(self, place: int, values: Any) -> None:
        """Write what NumPy computed."""
        import numpy as np

        spec, found = self.spec(place), self.buffer(place)
        if found is None:
            self.array(place)[...] = values
        elif self.program.plan.spots[place].kind == "chunk":
            whole = np.ascontiguousarray(np.broadcast_to(np.asarray(values), spec.shape), spec.dtype.np)
            rooms = rooms_of(self.program.device)
            if rooms is not None and spec.nbytes:
                rooms.write(found.address, whole)
        else:
            buffers.fill(found, values)

    def written(self, call: LinkedCall) -> bool:
        """Whether a call has elements to write, with these values of the symbols."""
        return any(self.spec(p).nbytes for p in call.outputs)


class _NativeSegment:
    """Kernels in a row."""

    def __init__(self, program: CallSequence, linked: Sequence[LinkedCall], where: list[int]) -> None:
        from ...devices import BoundCall
        from ...plan import Replay

        self.linked = linked
        slots: dict[int, list[tuple[int, int]]] = {}
        self.stays: list[tuple[int, int, int]] = []
        self.sources: list[tuple[BufferCell, TensorBuffer]] = []
        calls: list[BoundCall | BoundLoop] = []
        for i, c in enumerate(linked):
            places = (*c.inputs, *c.outputs, *(() if c.loop is None else (c.loop.room,)))
            for j, p in enumerate(places):
                at = program.slot(program.plan.spots[p])
                if at is None:
                    self.stays.append((i, j, p))
                else:
                    slots.setdefault(at, []).append((i, j))
            pointers = tuple(where[p] for p in places)
            if c.loop is not None:
                calls.append(c.loop.bound(pointers))
            else:
                assert c.executable is not None
                calls.append(BoundCall(c.executable, pointers, packed=self._packed(program, c, where)))
        self.calls = calls
        self.picks = sorted(slots)
        self.replay: Replay = Replay(calls, [slots[at] for at in self.picks], program.symbols)
        self.known = {p: where[p] for _, _, p in self.stays}

    def _packed(self, program: CallSequence, call: LinkedCall, where: list[int]) -> Packed | None:
        """What a call keeps packed of frozen tensors. Their memory is not written in place from now on: who updates one gives it other
        memory, where it is packed anew."""
        assert call.executable is not None
        if not call.executable.signature.once:
            return None
        updated = {s.state.place for s in program.plan.states if s.state.kind == "closure"}
        spots = [program.plan.spots[p] for p in call.inputs]
        frozen = [program.cells[s.at] for s in spots if s.kind == "closure" and s.at not in updated]
        for cell in frozen:
            cell.buffer.foreign = True
            self.sources.append((cell, cell.buffer))
        anything = frozen[0].buffer.address  # (what packs reads frozen tensors alone)
        return call.executable.pack([where[p] or anything for p in (*call.inputs, *call.outputs)])

    def repacks(self) -> bool:
        """Whether what was packed is in other memory now."""
        return any(cell.buffer is not packed for cell, packed in self.sources)

    def run(self, program: CallSequence, addresses: list[int], arrays: RunArrays) -> None:
        """With a call's addresses."""
        self.replay.run(*[addresses[i] for i in self.picks], *arrays.values)

    def watched(self, program: CallSequence, addresses: list[int], arrays: RunArrays) -> None:
        """One by one, timed."""
        from ...devices import BoundLoop
        from ...plan import Replay

        known = dict(zip(program.symbols, arrays.values, strict=True))
        for c, bound in zip(self.linked, self.calls, strict=True):
            if not arrays.written(c):
                continue
            at = []
            for p in (*c.inputs, *c.outputs, *(() if c.loop is None else (c.loop.room,))):
                slot = program.slot(program.plan.spots[p])
                at.append(self.known[p] if slot is None else addresses[slot])
            if isinstance(bound, BoundLoop) or c.executable is None:
                assert c.loop is not None
                replay = Replay([c.loop.bound(tuple(at))], (), program.symbols)
                with timed("kernel", c.name, program.device):
                    replay.run(*arrays.values)
                continue
            call = c.executable.bind([known[s] for s in c.executable.signature.symbols], bound.packed)
            with timed("kernel", c.name, program.device, c.kernel or c.kept, c.executable.threads):
                call(*at)

    def patch(self, where: list[int]) -> None:
        """Take notice of what lies elsewhere now."""
        changed = {p for p, at in self.known.items() if where[p] != at}
        if changed:
            self.replay.patch((i, j, where[p]) for i, j, p in self.stays if p in changed)
            self.known.update((p, where[p]) for p in changed)


class _NumpySegment:
    """A call of NumPy's code."""

    def __init__(self, call: LinkedCall) -> None:
        self.call = call

    def run(self, program: CallSequence, addresses: list[int], arrays: RunArrays) -> None:
        """With a call's memory."""
        assert self.call.host is not None
        if arrays.written(self.call):
            arrays.store(self.call.outputs[0], self.call.host.function(*[arrays.array(p) for p in self.call.inputs]))

    def watched(self, program: CallSequence, addresses: list[int], arrays: RunArrays) -> None:
        """The same, timed."""
        with timed("numpy", self.call.name, program.device):
            self.run(program, addresses, arrays)

    def patch(self, where: list[int]) -> None:
        """Memory is looked up at every call."""

    def repacks(self) -> bool:
        """It packs nothing."""
        return False


class _IndexCheck(_NumpySegment):
    """A check of indices, whose numbers kernels leave in the arena."""

    def read(self, program: CallSequence) -> None:
        """Find the numbers in the arena as it is now."""
        assert program._arena is not None and program._arena.buffer is not None
        room, found = program._arena.buffer.array, [(program.specs[p], program.plan.spots[p].at) for p in self.call.inputs]
        self.numbers = [room[at : at + spec.nbytes].view(spec.dtype.np) for spec, at in found]

    def run(self, program: CallSequence, addresses: list[int], arrays: RunArrays) -> None:
        """As a segment among others."""
        self.look()

    def look(self) -> None:
        """Raise OutOfRangeError where an index was outside."""
        assert self.call.host is not None
        self.call.host.function(*[n[0] for n in self.numbers])


class _LoopSegment(_NumpySegment):
    """A loop whose steps Python makes."""

    def run(self, program: CallSequence, addresses: list[int], arrays: RunArrays) -> None:
        """With a call's memory."""
        c = self.call
        assert c.loop is not None
        if arrays.written(c):
            shapes = [(s.shape, s.np) for s in map(arrays.spec, c.outputs)]
            found = in_python(c.loop, program.symbols, [arrays.array(p) for p in c.inputs], arrays.values, shapes)
            for p, values in zip(c.outputs, found, strict=True):
                arrays.store(p, values)

    def watched(self, program: CallSequence, addresses: list[int], arrays: RunArrays) -> None:
        """The same; the kernels of the steps are timed."""
        self.run(program, addresses, arrays)
