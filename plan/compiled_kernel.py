"""A compiled kernel, as something to call on NumPy arrays."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..devices import AnyCall, BoundCall, BoundLoop, Executable, Places
from ..devices.bound_calls import QueuedCalls, check_address, place
from ..devices.cpu.executable import CpuExecutable
from ..devices.once import process_lock
from ..ir import index as ix
from ..ir import kernel
from ..ir.checks.operand_ranges import check_operands, highest, operand_ranges
from ..ir.errors import UsageError
from ..ir.kernel import Kernel
from ..ir.node import Node, walk
from ..opts import ShownSchedule, short
from .array_arguments import Binder, address, viewed
from .resolve import Origin, Plan

if TYPE_CHECKING:
    from ..cache import Standing
    from ..devices import DeviceArrays, Memory, Packed
    from ..opts import Opt
    from .artefacts import Built
    from .usage import RunCounter


# replay ---------------------------------------------------------------------------------------------------------------
#
# Replay: the native calling of a list of kernels whose buffers are known, again and again, with almost no overhead.


class Replay:
    """`replay()` makes all calls of a list in order, each complete before the next one, and returns when the last one
    is done. On the processor that is one native call, which costs some tens of nanoseconds a kernel beside the
    kernel's own work; on other devices a loop that queues the kernels and waits once.

    `calls`: see `CompiledKernel.bound` and `devices.BoundCall`; on the processor also loops of calls (`devices.BoundLoop`). All must be of
    one device. `slots`: addresses that are given with
    each run, such as those of arguments and of fresh outputs; slot i names every place (call, parameter) that gets
    the i-th address of `replay(address, ...)`. `symbols`: names of symbols whose values are given with each run, after the addresses, to
    all calls that have no `vars` of their own; a value that was never given costs some microseconds. (Of calls on memory without
    elements to write nothing runs.)

    The executables live as long as the replay. The memory at the addresses is the caller's to keep, unless a call
    keeps it. Safe to call from several threads; runs of one replay happen one at a time. On the processor, the first
    runs time short calls with one thread and with all, and settle on the quicker, for each power of two that a symbol
    has passed anew; results are the same.

    Raises UsageError for calls that do not fit their executables, for places that do not exist, for missing or
    misaligned addresses, and for calls of several devices."""

    def __init__(self, calls: Sequence[AnyCall], slots: Sequence[Places] = (), symbols: Sequence[str] = ()) -> None:
        from ..devices.cpu.native_calls import NativeCalls

        every = list(_kernels(calls))
        native = [isinstance(c.executable, CpuExecutable) for c in every]
        kinds = {type(c.executable) for c in every}
        if len(kinds) > 1 and not all(native):
            raise UsageError(f"calls of several devices ({', '.join(sorted(k.__name__ for k in kinds))}): make a replay for each")
        plain = [c for c in calls if isinstance(c, BoundCall)]
        if not all(native) and len(plain) < len(calls):
            raise UsageError(f"loops of calls run on the processor, not on {', '.join(sorted(k.__name__ for k in kinds))}")
        self._runner = NativeCalls(calls, slots, symbols) if all(native) else QueuedCalls(plain, slots, symbols)
        self.run = self._runner.run

    @property
    def calls(self) -> tuple[AnyCall, ...]:
        """The calls as they were given."""
        return self._runner.calls

    @property
    def threads(self) -> tuple[int, ...]:
        """How many threads each call uses."""
        return self._runner.threads

    def __len__(self) -> int:
        return len(self._runner.calls)

    def __call__(self, *words: int) -> None:
        """Run all, with an address for each slot, and then a value for each symbol. It checks their number only: wrong addresses crash
        the process."""
        self.run(*words)

    def patch(self, places: Iterable[tuple[int, int, int]]) -> None:
        """Change addresses for all runs to come: (position of the call, position of its parameter, at). Raises
        UsageError where there is no such parameter or an address cannot be one; then nothing was changed."""
        changes = list(places)
        for call, parameter, at in changes:
            place(self.calls, call, parameter)
            check_address(self.calls, call, parameter, at)
        for call, parameter, at in changes:
            self._runner.patch(call, parameter, at)


def _kernels(calls: Sequence[AnyCall]) -> Iterator[BoundCall]:
    """The calls of kernels, those in loops too."""
    for c in calls:
        if isinstance(c, BoundLoop):
            yield from _kernels(c.calls)
        else:
            yield c


# compiled kernel ------------------------------------------------------------------------------------------------------

# copying executable ---------------------------------------------------------------------------------------------------
#
# An executable of a device with memory of its own, called with host addresses: arguments are copied there and back,
# or used where they lie if the device can do that.


class Copying(Executable):
    """`run` takes host addresses. Buffers stay on the device between calls; calls run one at a time."""

    def __init__(self, inner: Executable, memory: Memory) -> None:
        self.inner, self.memory = inner, memory
        self.signature, self.threads = inner.signature, inner.threads
        self._buffers: list[tuple[int, int]] = [(0, 0)] * len(inner.signature.params)
        self._lock = process_lock()

    def sizes(self, vars: Sequence[int]) -> list[int]:
        """Bytes of each parameter for these values of the symbols."""
        values = dict(zip(self.signature.symbols, vars, strict=True))
        out = []
        for p in self.signature.params:
            extents = []
            for d in p.shape:
                symbols = {n: values[n.arg.name] for n in walk(d) if n.op == "sym"} if isinstance(d, Node) else {}
                extents.append(ix.evaluate(d, symbols) if isinstance(d, Node) else d)
            out.append(math.prod(extents) * p.dtype.size)
        return out

    def _handles(self, sizes: Sequence[int | None]) -> list[int]:
        for i, size in enumerate(sizes):
            handle, room = self._buffers[i]
            if size is not None and (not handle or room < size):
                if handle:
                    self.memory.free(handle)
                self._buffers[i] = (0, 0)
                self._buffers[i] = (self.memory.alloc(size), size)
        return [handle for handle, _ in self._buffers]

    def reserve(self) -> None:
        self.inner.reserve()

    def run(self, pointers: Sequence[int], vars: Sequence[int] = ()) -> None:
        self.bind(vars)(*pointers)

    def bind(self, vars: Sequence[int] = (), packed: Packed | None = None) -> Callable[..., None]:
        if packed is not None:
            return super().bind(vars, packed)
        sizes, roles = self.sizes(vars), [p.role for p in self.signature.params]

        def call(*pointers: int) -> None:
            with self._lock:
                shared = [self.memory.shared(address, size) for address, size in zip(pointers, sizes, strict=True)]
                try:
                    own = self._handles([None if s else size for s, size in zip(shared, sizes)])
                    handles = [s or h for s, h in zip(shared, own)]
                    for handle, s, address, size, role in zip(handles, shared, pointers, sizes, roles):
                        if role != "out" and not s:
                            self.memory.write(handle, address, size)
                    self.inner.run(handles, vars)
                    for handle, s, address, size, role in zip(handles, shared, pointers, sizes, roles):
                        if role != "in" and not s:
                            self.memory.read(handle, address, size)
                finally:
                    for s, size, role in zip(shared, sizes, roles):
                        if s:
                            self.memory.unshare(s, size, role != "in")

        return call

    def time(
        self, pointer_sets: Sequence[Sequence[int]], vars: Sequence[int] = (), repeats: int = 1, limit_s: float = math.inf
    ) -> list[float]:
        with self._lock:
            return self.inner.time([self._handles(self.sizes(vars))], vars, repeats, limit_s)

    def poison(self) -> None:
        self.inner.poison()

    def close(self) -> None:
        for handle, _ in self._buffers:
            if handle:
                self.memory.free(handle)
        self._buffers = [(0, 0)] * len(self._buffers)
        self.inner.close()


# compiled kernel ------------------------------------------------------------------------------------------------------

# same arrays ------------------------------------------------------------------------------------------------
# Arrays that a program is called with again and again: their checks are made once.


MOST_SETS = 64
"""Sets of arrays that are remembered."""
_CALLS = 3
"""Calls in a row with the same arrays before they are remembered. (Remembering costs as much as the checks of two
calls, and new arrays often have the place of those that died.)"""


class SameArrays:
    """Calls by the identity of their arrays. What is found is right: a set is forgotten when one of its arrays dies,
    and a weak reference keeps NumPy from moving an array's memory. Only how an array is seen, and whether it may be
    written, can change meanwhile."""

    __slots__ = ("_known", "_last", "_times")

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], _Known] = {}
        self._last: tuple[int, ...] = ()
        self._times = 0

    def find(self, key: tuple[int, ...], arrays: tuple[Any, ...], inputs: int) -> _Known | None:
        """What is known of these inputs and outputs, whose ids are `key`, if they still look as they did and outputs
        are writeable."""
        known = self._known.get(key)
        if known is None:
            return None
        for a, shape, strides, dtype in known.looks(arrays):
            if a.shape != shape or a.strides != strides or a.dtype is not dtype:
                return None
        for a in arrays[inputs:]:
            if not a.flags.writeable:
                return None
        return known

    def remember(self, key: tuple[int, ...], arrays: tuple[Any, ...], call: Callable[..., None], addresses: Sequence[int]) -> None:
        """These arrays passed every check; remember them if they did so a few times in a row and there is room."""
        if key != self._last:
            self._last, self._times = key, 1
            return
        self._times += 1
        if self._times < _CALLS or len(self._known) >= MOST_SETS:
            return
        known = self._known

        def forget(_: Any) -> None:
            known.pop(key, None)

        known[key] = _Known(arrays, call, tuple(addresses), [weakref.ref(a, forget) for a in arrays])

    def clear(self) -> None:
        """Forget all."""
        self._known.clear()
        self._last = ()


class _Known:
    __slots__ = ("_dtypes", "_references", "_shapes", "_strides", "addresses", "call")

    def __init__(
        self, arrays: tuple[Any, ...], call: Callable[..., None], addresses: tuple[int, ...], references: list[weakref.ref[Any]]
    ) -> None:
        self.call, self.addresses, self._references = call, addresses, references
        self._shapes, self._strides = [a.shape for a in arrays], [a.strides for a in arrays]
        self._dtypes = [a.dtype for a in arrays]

    def looks(self, arrays: tuple[Any, ...]) -> zip[tuple[Any, ...]]:
        return zip(arrays, self._shapes, self._strides, self._dtypes)


# constants --------------------------------------------------------------------------------------------------
# What a program keeps packed of its constant inputs, for as long as the arrays live.


Call = Callable[..., None]


class Constants:
    """Packed copies by the arrays they were made from. An array's death drops its copy; `clear` drops all, so that
    the next call packs anew."""

    def __init__(self, executable: Executable, bind: Callable[..., Call], places: Sequence[int]) -> None:
        """`bind`: what binds a call; `places`: the positions of constant inputs."""
        self._executable, self._bind, self._places = executable, bind, tuple(places)
        self._kept: dict[tuple[int, ...], _PackedCopy] = {}
        self._lock = process_lock()

    def call(self, inputs: Sequence[Any], addresses: Sequence[int], vars: tuple[int, ...]) -> Call:
        """A bound call for these constant inputs, packed now if they are not yet. `addresses` are those of all parameters."""
        key = tuple(addresses[i] for i in self._places)
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                packed = self._executable.pack(addresses, vars)
                # a weak reference also keeps NumPy from resizing the array
                kept = self._kept[key] = _PackedCopy(packed, [weakref.ref(inputs[i], self._forget(key)) for i in self._places])
            found = kept.calls.get(vars)
            if found is None:
                found = kept.calls[vars] = self._bind(vars, kept.packed)
            return found

    def _forget(self, key: tuple[int, ...]) -> Callable[[Any], object]:
        kept = self._kept
        return lambda _: kept.pop(key, None)

    def clear(self) -> None:
        """Forget what is packed."""
        with self._lock:
            self._kept.clear()


class _PackedCopy:
    """A packed copy, the calls bound to it, and the arrays it depends on."""

    __slots__ = ("calls", "packed", "references")

    def __init__(self, packed: Packed, references: list[weakref.ref[Any]]) -> None:
        self.packed, self.references = packed, references
        self.calls: dict[tuple[int, ...], Call] = {}


@dataclass(frozen=True, slots=True)
class SizePart:
    """A schedule for some sizes of a kernel with symbols. `ranges`: the least that hold all of these sizes, both ends included."""

    ranges: Mapping[str, tuple[int, int]]
    opts: tuple[Opt, ...]


# compiled -------------------------------------------------------------------------------------------------------
MEMO = 64
"""Combinations of shapes, and of the symbols' values, that a program remembers."""


class CompiledKernel:
    """A compiled kernel. `compiled(a, b)` returns the output (a tuple of them where the kernel has several); `compiled(a, b, out=c)` writes into
    `c` and returns it. Inputs and outputs are in the order of `kernel.inputs` and `kernel.outputs`; arrays must have the exact
    shape and dtype, be row-major contiguous, and no output may overlap another argument, but for one that may be written in place
    of an input (`ir.rewriter`): the same array is both then. Raises UsageError otherwise, and OutOfRangeError where an integer
    that is a place, or says how far a loop goes, lies outside of the range that its input states or its use implies.

    Symbolic extents take their values from the shapes; one that no shape tells is a keyword. Safe to call from several threads.

    A constant input (`conv2d:constant=weight`) keeps its contents from call to call: a schedule may pack it at the
    first call with an array, and read the packed copy as long as that array lives. After writing into such an array,
    call `repack()`."""

    def __init__(self, kernel: Kernel, plan: Plan, built: Built, executable: Executable, parts: tuple[SizePart, ...] = ()) -> None:
        self.kernel, self.plan, self.built = kernel, plan, built
        self.parts = parts
        """Schedules for parts of the symbols' ranges, which a tree of sizes chooses at each call."""
        self._executable = executable
        self.checked = plan.origin == "exact"
        """Whether its schedule was measured for this kernel, or checked before it answered (`plan.first_use_check`)."""
        self.counter: RunCounter | None = None
        """Counts calls, where they are recorded (before the first one). Those that a `Replay` makes are not."""
        self._binder = Binder(kernel, built.signature.symbols)
        self._calls: dict[tuple[int, ...], Callable[..., None]] = {}
        once = executable.signature.once
        self._constants = Constants(executable, self._bind, [i for i, b in enumerate(kernel.inputs) if b.constant]) if once else None
        self._inputs = len(kernel.inputs)
        self._ranges = operand_ranges(kernel)
        self._same = SameArrays()
        self._shaped: dict[tuple[tuple[int, ...], ...], _Shaped] = {}

    @property
    def opts(self) -> ShownSchedule:
        """The schedule, in the names of the kernel's normal form."""
        return ShownSchedule(self.plan.opts)

    @property
    def schedule(self) -> str:
        """The schedule as people read it: `Ud0:13 Ud1:32 Pd0`."""
        return short(self.opts)

    @property
    def origin(self) -> Origin:
        """Where the schedule comes from: 'exact', 'stale', 'tree', 'nearest', 'start' or 'given' (see `Plan`)."""
        return self.plan.origin

    @property
    def standing(self) -> Standing | None:
        """What is known here of a schedule that was measured for this very kernel: 'verified' (checked twice and
        timed on this machine), 'unconfirmed' (checked once) or 'unverified' (measured elsewhere); None for one that
        was not."""
        return self.plan.standing

    @property
    def source(self) -> str:
        """The rendered source."""
        return self.built.source.text

    @property
    def threads(self) -> int:
        """How many threads a call may use."""
        return self._executable.threads

    def __repr__(self) -> str:
        said = self.origin if self.standing in (None, "verified") else f"{self.origin}, {self.standing}"
        parts = "".join(f"; {', '.join(f'{n}={lo}..{hi}' for n, (lo, hi) in p.ranges.items())}: {short(p.opts)}" for p in self.parts)
        return f"<CompiledKernel {self._binder.usage()}: {short(self.opts)} ({said}){parts}>"

    def _repr_html_(self) -> str:
        """What it computes, where its schedule comes from, and its source, in a notebook."""
        buffers = {"inputs": self.kernel.inputs, "outputs": self.kernel.outputs}
        listed = {k: ", ".join(f"{b.name}: {b.dtype}{[*b.shape]}" for b in v) for k, v in buffers.items()}
        standing = "" if self.standing is None else f", {self.standing}"
        rows = [*listed.items(), ("schedule", short(self.opts)), ("from", f"{self.origin}{standing}"), ("threads", str(self.threads))]
        return kernel.table(rows, title=self.kernel.name) + kernel.folded("source", kernel.text(self.source))

    def __call__(self, *inputs: Any, out: Any = None, **symbols: int) -> Any:
        if out is None:
            arrays = inputs
        elif out.__class__ is tuple or out.__class__ is list:
            arrays = (*inputs, *out)
        else:
            arrays = (*inputs, out)
        if not symbols and len(inputs) == self._inputs:
            if out is not None:
                key = tuple(map(id, arrays))
                known = self._same.find(key, arrays, self._inputs)
                if known is not None:
                    known.call(*known.addresses)
                    return out
            try:
                shaped = self._shaped.get(tuple([a.shape for a in arrays]))
            except (AttributeError, TypeError):  # not an array: the slow way says so
                shaped = None
            if shaped is not None:
                addresses = self._binder.fast_addresses(arrays, shaped.sizes)
                if addresses is not None:
                    made: tuple[Any, ...] = ()
                    if self._ranges:
                        check_operands(self.kernel.name, self._ranges, shaped.high, inputs)
                    if out is None:
                        made = self._binder.allocate(shaped.out_shapes)
                        addresses += map(address, made)
                    call = shaped.call if self._constants is None else self._constants.call(inputs, addresses, shaped.vars)
                    call(*addresses)
                    if out is None:
                        return made if len(made) > 1 else made[0]
                    if not self._ranges:  # (contents are looked at in every call)
                        self._same.remember(key, arrays, call, addresses)
                    return out
        return self._first_call(inputs, out, symbols)

    def _first_call(self, inputs: tuple[Any, ...], out: Any, symbols: Mapping[str, int]) -> Any:
        """A call with arrays of shapes that are new, or with something wrong."""
        binder = self._binder
        outs = binder.outs(out)
        if isinstance(self._executable, Copying):
            lying = self._executable.memory.arrays((*inputs, *(outs or ())))
            if lying is not None:
                return self._launched(lying, inputs, out, outs, symbols)
        inputs, outs = viewed(inputs), None if outs is None else viewed(outs)
        binder.check(inputs, outs)
        env = binder.values(inputs, outs, symbols)
        shapes = binder.shapes(env)
        high = highest(self._ranges, env)
        check_operands(self.kernel.name, self._ranges, high, inputs)
        made = binder.allocate(shapes[len(inputs) :]) if outs is None else outs
        addresses = binder.addresses((*inputs, *made), shapes)
        vars = tuple(env[s] for s in binder.symbols)
        call = self._bound(vars)
        if not symbols:
            if len(self._shaped) >= MEMO:
                self._shaped.clear()
            given = shapes if outs is not None else shapes[: len(inputs)]
            self._shaped[given] = _Shaped(call, vars, shapes[len(inputs) :], [a.nbytes for a in (*inputs, *made)], high)
        if self._constants is not None:
            call = self._constants.call(inputs, addresses, vars)
        call(*addresses)
        return out if outs is not None else made if len(made) > 1 else made[0]

    def _launched(self, lying: DeviceArrays, inputs: tuple[Any, ...], out: Any, outs: Any, symbols: Mapping[str, int]) -> Any:
        """A call with arrays in the device's memory. What integers are places is not looked at."""
        binder = self._binder
        if self._ranges or self._constants is not None:
            raise UsageError(f"{binder.usage()} looks at what its arrays hold, so they must be NumPy's: pass x.get()")
        env, vars = binder.of_looks(lying.looks, len(inputs), outs is not None, symbols)
        for i, j, same in binder.pairs if outs is not None else ():
            if lying.overlap(i, j, same):
                raise UsageError(f"{binder.usage()}: an output overlaps another argument in memory; pass an out= array of its own")
        made = (
            tuple(lying.add(s, d) for s, d in zip(binder.shapes(env)[len(inputs) :], binder.dtypes[len(inputs) :])) if outs is None else ()
        )
        assert isinstance(self._executable, Copying)
        if self.counter is not None:
            self.counter.runs += 1
        lying.launch(self._executable.inner, vars, len(binder.outputs))
        return out if outs is not None else made if len(made) > 1 else made[0]

    def _bound(self, vars: tuple[int, ...]) -> Callable[..., None]:
        """The call with these values of the symbols. (One that packs constant inputs is bound with what it packed.)"""
        call = self._calls.get(vars)
        if call is None:
            if len(self._calls) >= MEMO:
                self._calls.clear()
            call = self._calls[vars] = self._bind(vars)
        return call

    def _bind(self, vars: tuple[int, ...], packed: Packed | None = None) -> Call:
        call = self._executable.bind(vars, packed)
        return call if self.counter is None else self.counter.counted(call)

    @property
    def executable(self) -> Executable:
        """What runs. On a device with memory of its own (`Device.memory`), it takes handles of that memory."""
        return self._executable.inner if isinstance(self._executable, Copying) else self._executable

    def bound(self, *arrays: Any, **symbols: int) -> BoundCall:
        """A call for a `Replay`, after every check: inputs, then outputs. It keeps the arrays. What a schedule packs of
        constant inputs is packed now. Raises UsageError as a call does, and on a device with memory of its own: make a
        BoundCall of `executable` and handles there. (What integers are places is looked at now, and not by a replay.)"""
        if isinstance(self._executable, Copying):
            raise UsageError(f"{self._binder.usage()}: arrays are not in this device's memory; make a BoundCall of handles")
        first = self._inputs
        arrays = viewed(arrays)
        outs = self._binder.outs(arrays[first:])
        inputs = arrays[:first]
        self._binder.check(inputs, outs)
        env = self._binder.values(inputs, outs, symbols)
        addresses = self._binder.addresses(arrays, self._binder.shapes(env))
        check_operands(self.kernel.name, self._ranges, highest(self._ranges, env), inputs)
        vars = tuple(env[s] for s in self._binder.symbols)
        packed = self._executable.pack(addresses, vars) if self._constants is not None else None
        return BoundCall(self._executable, addresses, vars, packed, arrays)

    def repack(self) -> None:
        """Forget what is packed of constant inputs, whose contents have changed."""
        self._same.clear()
        if self._constants is not None:
            self._constants.clear()


class _Shaped:
    """What is the same for all calls with arrays of the same shapes. `out_shapes`: of the outputs to make where none
    are given; `sizes`: bytes of each parameter; `high`: upper ends of the ranges that inputs must keep to."""

    __slots__ = ("call", "high", "out_shapes", "sizes", "vars")

    def __init__(
        self, call: Callable[..., None], vars: tuple[int, ...], out_shapes: tuple[tuple[int, ...], ...], sizes: list[int], high: list[int]
    ) -> None:
        self.call, self.vars, self.out_shapes, self.sizes, self.high = call, vars, out_shapes, sizes, high
