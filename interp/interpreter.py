"""Runs Programs on NumPy arrays: the meaning of a Program, with every access checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from ..ir import index as ix
from ..ir.errors import VerifyError
from ..ir.node import Node
from ..program.ops import PAGE
from ..program.program import Program, touched
from .code import Coder
from .group_code import GroupCoder
from .group_memory import GroupMemory
from .hopper_code import HopperCoder
from .hopper_run import HopperRun
from .memory import Clock, WorkerBuffer, WorkerMemory
from .ops import Array
from .threads import ThreadBatch, batches

Order = Callable[[int], Iterable[int]]


def run(
    program: Program,
    arrays: Sequence[Array] | Mapping[str, Array],
    vars: Sequence[int] = (),
    twin: bool = False,
    items: Order | None = None,
    warp: int = 32,
    races: bool = True,
) -> None:
    """Execute every phase on `arrays` (in parameter order, or by name), writing outputs in place.

    `vars` holds the symbols in order. Arrays are C-contiguous, of the parameters' types and element counts (bfloat16 as
    ml_dtypes' type or uint16 bits). `items` maps the number of grid items of a phase to the order they run in (default: all,
    ascending). float32 operations round to float32 each, fma rounds once; max and min propagate NaN.

    `twin=True` runs the integer twin (`ir.twin`): float parameters are uint32 arrays, and the Program must have been
    lowered with `expand=False`.

    Phases with Hopper's asynchronous units run a cluster at a time, roles as coroutines (`cluster`): boxes land as late as they may,
    and who touches shared memory must know of those before, by vector clocks (`shared_bytes`).

    Phases of several threads run many of them side by side; `warp` of them exchange values by shuffles. `races=False`
    is for Programs whose barriers are still to be placed: threads of one group run a statement at a time together,
    and are not held to have disturbed one another.

    Raises VerifyError naming buffer, index, statement, item and thread for an access outside its buffer, a wrong
    alignment claim, a read of memory nobody wrote (outputs, scratch, shared memory, workspace), a write to an input,
    two items of a phase of which one writes an element and the other reads or writes it, two threads of a group doing
    that with no barrier between, a barrier that some threads of a group do not come to, a shuffle that some threads
    of a warp do not come to or that reaches outside its warp or group, and a loop that would run zero times."""
    Interpreter(program, twin, warp, races).run(arrays, vars, items)


class Interpreter:
    """A Program compiled to Python once, to be run many times."""

    def __init__(self, program: Program, twin: bool = False, warp: int = 32, races: bool = True) -> None:
        self.program, self.twin, self.warp, self.races = program, twin, warp, races
        self.coders = (Coder(program, twin), GroupCoder(program, twin))
        self._code = compile("".join(c.source for c in self.coders), f"<program {program.name}>", "exec")
        self._hopper = HopperCoder(program, twin)
        coders = (*self.coders, self._hopper)
        self._accesses = [[x for some in found for x in some] for found in zip(*(c.accesses for c in coders), strict=True)]

    def run(self, arrays: Sequence[Array] | Mapping[str, Array], vars: Sequence[int] = (), items: Order | None = None) -> None:
        """As the module's `run`."""
        program = self.program
        if len(vars) != len(program.symbols):
            raise VerifyError(
                f"program {program.name} takes {len(program.symbols)} symbols ({', '.join(s.arg.name for s in program.symbols)}), not {len(vars)}"
            )
        symbols = {s: int(v) for s, v in zip(program.symbols, vars, strict=True)}
        clock = Clock()
        memory = WorkerMemory(program, self.twin, clock)
        memory.note([[m for _, s in found for m, _ in touched(s)] for found in self._accesses])
        memory.params = self._params(arrays, symbols, memory)
        scope: dict[str, Any] = {**self.coders[0].globals, **self.coders[1].globals, "empty_loop": self._empty_loop(clock)}
        scope["aligned"] = lambda param, size: memory.params[param].base % size == 0
        scope["apart"] = lambda a, b, first, size: (memory.params[a].base - memory.params[b].base - first) % PAGE >= size
        with np.errstate(all="ignore"):
            exec(self._code, scope)
            for i, phase in enumerate(program.phases):
                count = ix.evaluate(phase.items, dict(symbols))
                order = range(count) if items is None else items(count)
                memory.phase, clock.before = i, clock.now
                if phase.threads > 1 and phase.asynchronous:
                    HopperRun(self._hopper, memory, i, self.warp, self.races, scope).run(list(order), symbols)
                    continue
                (self._groups if phase.threads > 1 else self._workers)(i, order, tuple(symbols.values()), scope, memory)

    def _workers(self, i: int, order: Iterable[int], symbols: tuple[int, ...], scope: dict[str, Any], memory: WorkerMemory) -> None:
        for name, s in self._accesses[i]:
            scope[name] = memory.load(s) if s.out is not None else memory.store(s)
        body = scope[f"phase{i}"]
        for item in order:
            memory.next_item(f"phase {i}, item {item}")
            body(item, *symbols)

    def _groups(self, i: int, order: Iterable[int], symbols: tuple[int, ...], scope: dict[str, Any], memory: WorkerMemory) -> None:
        threads = self.program.phases[i].threads
        batch = ThreadBatch(self.program, memory.clock, i, threads, self.warp)
        group = GroupMemory(memory, batch, [s for _, s in self._accesses[i]], self.races)
        for name, s in self._accesses[i]:
            scope[name] = group.access(s)
        scope["copies"] = group.copies
        for some in batches(list(order), threads, self.program.shared + threads * self.program.scratch):
            batch.begin(some)
            group.begin()
            scope[f"group{i}"](batch, batch.item, batch.thread, *symbols)
            group.copies.end()

    def _params(self, arrays: Sequence[Array] | Mapping[str, Array], symbols: dict[Node, int], memory: WorkerMemory) -> list[WorkerBuffer]:
        program = self.program
        if isinstance(arrays, Mapping):
            missing = [p.name for p in program.params if p.name not in arrays]
            if missing:
                raise VerifyError(f"program {program.name}: no array for {', '.join(missing)}")
            arrays = [arrays[p.name] for p in program.params]
        if len(arrays) != len(program.params):
            raise VerifyError(
                f"program {program.name} takes {len(program.params)} arrays ({', '.join(p.name for p in program.params)}), not {len(arrays)}"
            )
        out = []
        for p, a in zip(program.params, arrays, strict=True):
            count = 1
            for d in p.shape:
                count *= d if isinstance(d, int) else ix.evaluate(d, dict(symbols))
            want = memory.storage(p.dtype)
            if a.dtype != want and p.dtype.foreign and a.dtype == np.dtype(f"u{p.dtype.size}"):
                a = a.view(want)
            if a.dtype != want or a.size != count or not a.flags.c_contiguous:
                raise VerifyError(f"parameter {p.name}: give a C-contiguous {want} array of {count} elements, not {a.dtype} {a.shape}")
            flat = a.reshape(-1)
            # a device gives a copy where an array does not begin at a multiple of what the Program asks for
            base = flat.ctypes.data if flat.ctypes.data % program.align == 0 else program.align
            out.append(WorkerBuffer(p.name, flat, base, stamps=None if p.role == "in" else np.zeros(count, np.int64)))
        return out

    def _empty_loop(self, clock: Clock) -> Callable[[str, int, int], NoReturn]:
        def fail(label: str, lo: int, hi: int) -> NoReturn:
            raise VerifyError(f"loop {label} from {lo} to {hi} would run zero times; guard it with an If ({clock.where})")

        return fail
