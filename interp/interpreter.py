"""Runs Programs on NumPy arrays: the meaning of a Program, with every access checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np

from ..ir import index as ix
from ..ir.dtypes import bool_
from ..ir.errors import BuildError, VerifyError
from ..ir.node import Node
from ..program.hopper import MapNumbers, numbers
from ..program.ops import HOPPER, MATRIX_LOADS, PAGE
from ..program.program import Block, For, If, Instr, Mem, Phase, Program, Roles, Val, bodies, statements, touched
from .cluster import Cluster
from .generated_python import NESTED, Coder
from .group_memory import GroupMemory
from .hopper_batch import HopperBatch
from .hopper_memory import BoxMover, HopperMemory, aligned
from .ops import Array
from .tensor_core_units import multiplier
from .threads import ThreadBatch, batches
from .worker_memory import Clock, WorkerBuffer, WorkerMemory

# group code -------------------------------------------------------------------------------------------------
# Turns each phase of several threads into the source of a Python function over arrays of threads (see `threads`).


class GroupCoder(Coder):
    """Source text of a Program's phases of several threads: functions group0(batch, item, thread, *symbols) …"""

    prefix = "g"

    def __init__(self, program: Program, as_twin: bool) -> None:
        self.together: list[Instr] = []
        """Barriers, shuffles and instructions of tensor cores, by number."""
        self._on = "on0"
        super().__init__(program, as_twin)

    def _wants(self, phase: Phase) -> bool:
        return phase.threads > 1 and not phase.asynchronous

    def _head(self, i: int, phase: Phase) -> None:
        assert phase.thread is not None
        args = ", ".join(["batch", self._name(phase.item), self._name(phase.thread), *(self._name(v) for v in phase.vars)])
        self.lines.append(f"def group{i}({args}):")
        self._on = "on0"
        self._emit(1, "on0 = None")

    # statements ---------------------------------------------------------------------------------------------------
    def _if(self, s: If, depth: int, loops: int) -> None:
        outer, self._on = self._on, self._fresh("on")
        self._emit(depth, f"{self._on} = batch.narrow({outer}, {self._name(s.cond)})")
        self._emit(depth, f"if {self._on} is not False:")
        self._block(s.body, depth + 1, loops)
        self._emit(depth + 1, "pass")
        self._on = outer

    def _for(self, s: For, depth: int, loops: int) -> None:
        outer, self._on = self._on, self._fresh("on")
        for c, v in zip(s.carried, s.init, strict=True):
            self._emit(depth, f"{self._name(c)} = {self._name(v)}")
        self._emit(
            depth,
            f"for {self._name(s.var)}, {self._on} in batch.spans({outer}, {self._name(s.lo)}, {self._name(s.hi)}, {s.step}, {s.label!r}):",
        )
        self._block(s.body, depth + 1, loops + 1)
        if s.carried:
            old, new = (", ".join(map(self._name, vs)) + "," for vs in (s.carried, s.yields))
            wide = [v.lanes > 1 for v in s.carried]
            self._emit(depth + 1, f"if {self._on} is {outer}: {old} = {new}")
            self._emit(depth + 1, f"else: {old} = batch.merge({self._on}, ({new}), ({old}), {wide})")
        self._emit(depth + 1, "pass")
        for r, c in zip(s.results, s.carried, strict=True):
            self._emit(depth, f"{self._name(r)} = {self._name(c)}")
        self._on = outer

    def _together(self, s: Instr, depth: int, args: list[str]) -> None:
        if s.op in MATRIX_LOADS:
            return self._touch(s, depth, args)
        name = f"together{len(self.together)}"
        self.together.append(s)
        if s.op == "mma":
            self.globals[name] = multiplier(s, self.as_twin, self.program.generation)
            return self._emit(depth, f"{self._name(s.result)} = {name}(batch, {self._on}, {', '.join(args)})")
        self.globals[name] = s
        if s.out is None:
            return self._emit(depth, f"batch.barrier({self._on}, {name})")
        return self._emit(depth, f"{self._name(s.out)} = batch.shuffled({self._on}, {args[0]}, {s.attr}, {name})")

    def _asynchronous(self, s: Instr, depth: int, args: list[str]) -> None:
        if s.op == "copy_async":
            return self._touch(s, depth, args)
        return self._emit(depth, f"copies.{s.op}({', '.join([self._on, *([] if s.attr is None else [str(s.attr)])])})")

    def _access(self, f: str, args: list[str]) -> str:
        return f"{f}({', '.join([self._on, *args])})"

    # expressions --------------------------------------------------------------------------------------------------
    def _fma(self, s: Instr, out: Val, a: list[str]) -> str:
        dtype = s.args[0].dtype
        return f"ops.fma{8 * dtype.size}({', '.join(a)})" if dtype.is_float else super()._fma(s, out, a)

    def _wrapped(self, s: Instr, out: Val, text: str) -> str:
        return text  # NumPy's numbers, which wrap

    def _minmax(self, s: Instr, out: Val, a: list[str]) -> str:
        return f"np.{s.op}imum({a[0]}, {a[1]})"

    def _shl(self, s: Instr, out: Val, a: list[str]) -> str:
        return f"ops.shl({a[0]}, {a[1]})"

    def _not(self, s: Instr, out: Val, a: list[str]) -> str:
        return f"np.logical_not({a[0]})" if out.dtype is bool_ else f"~{a[0]}"

    def _bits(self, s: Instr, out: Val, a: list[str]) -> str:
        return f"ops.{s.op}({a[0]})"

    def _abs(self, s: Instr, out: Val, a: list[str]) -> str:
        return f"np.abs({a[0]})"

    def _select(self, s: Instr, out: Val, a: list[str]) -> str:
        cond = f"ops.column({a[0]})" if s.args[0].lanes < out.lanes else a[0]
        return f"np.where({cond}, {a[1]}, {a[2]})[()]"

    def _form(self, v: Val) -> int:
        return 0

    def _splat(self, s: Instr, out: Val, a: list[str]) -> str:
        return f"ops.spread({a[0]}, {out.lanes}, {self._dtype(out)})"

    def _extract(self, s: Instr, out: Val, a: list[str]) -> str:
        return f"{a[0]}[..., {s.attr}]"

    def _insert(self, s: Instr, out: Val, a: list[str]) -> str:
        return f"ops.insert_each({a[0]}, {a[1]}, {s.attr})"

    def _shuffle(self, s: Instr, out: Val, a: list[str]) -> str:
        wide = [v.lanes > 1 for v in s.args]
        return f"ops.joined({a[0]}, {a[1]}, {wide[0]}, {wide[1]})[..., {self._picks(s, out)}]"

    def _dtype(self, v: Val) -> str:
        """The name of a NumPy type of elements like those of `v`."""
        name = "U32" if self.as_twin and v.dtype.is_float else f"dtype_{v.dtype.name}"
        self.globals.setdefault(name, v.dtype.np)
        return name

    TABLE: ClassVar[dict[str, Callable[[Any, Instr, Val, list[str]], str]]] = {
        **Coder.TABLE,
        **dict.fromkeys(("max", "min"), _minmax),
        "fma": _fma,
        **dict.fromkeys(("popcount", "clz"), _bits),
        "shl": _shl,
        "not": _not,
        "abs": _abs,
        "select": _select,
        "splat": _splat,
        "extract": _extract,
        "insert": _insert,
        "shuffle": _shuffle,
    }


# hopper code ------------------------------------------------------------------------------------------------
# Turns each phase with asynchronous copies into the source of a coroutine: function hopper0(batch, item, thread,
# *symbols) …
#
# Statements are those of thread groups (`group_code`). A role is a coroutine inside it, which sees the values that were
# made before.


_WAITS = frozenset({"mbar_wait", "cluster_barrier"})
_MOVES = {"box_load": "load", "box_store": "store", "box_commit": "commit", "box_wait": "wait"}
_TOLD = frozenset({"mbar_init", "mbar_arrive", "mbar_expect", "mbar_wait", "box_load", "box_store", "wgmma"})
"""What gets its attribute too."""


class HopperCoder(GroupCoder):
    """Source text of a Program's phases with asynchronous copies."""

    prefix = "h"
    _role = "None"

    def _wants(self, phase: Phase) -> bool:
        return phase.threads > 1 and phase.asynchronous

    def _head(self, i: int, phase: Phase) -> None:
        assert phase.thread is not None
        args = ", ".join(["batch", "boxes", self._name(phase.item), self._name(phase.thread), *(self._name(v) for v in phase.vars)])
        self.lines.append(f"def hopper{i}({args}):")
        self._on = "on0"
        self._emit(1, "on0 = None")
        self._emit(1, "if False: yield")

    # statements ---------------------------------------------------------------------------------------------------
    def _block(self, block: Block, depth: int, loops: int) -> None:
        for s in block.stmts:
            if isinstance(s, Roles):
                self._roles(s, depth)
            elif (
                isinstance(s, For)
                and loops >= NESTED
                and any(isinstance(t, Instr) and t.op in _WAITS for b in bodies(s) for t in statements(b))
            ):
                f = self._fresh("nested")
                self._emit(depth, f"def {f}():")
                self._for(s, depth + 1, 0)
                self._emit(depth + 1, f"return ({''.join(self._name(v) + ', ' for v in s.results)})")
                results = "".join(self._name(v) + ", " for v in s.results)
                self._emit(depth, f"{f'({results}) = ' if results else ''}yield from {f}()")
            else:
                super()._block(Block([s]), depth, loops)

    def _roles(self, s: Roles, depth: int) -> None:
        outer, names = self._on, []
        for r in s.roles:
            f, self._on, self._role = self._fresh("role"), self._fresh("on"), self._fresh("r")
            self.globals[self._role] = r
            self._emit(depth, f"def {f}({self._on}):")
            self._emit(depth + 1, "if False: yield")
            self._block(r.body, depth + 1, 0)
            names.append(f)
        self._on, self._role = outer, "None"
        number = self._fresh("roles")
        self.globals[number] = s
        self._emit(depth, f"yield from batch.roles({number}, [{', '.join(names)}])")

    def _instr(self, s: Instr, depth: int) -> None:
        if s.op not in HOPPER:
            return super()._instr(s, depth)
        name = f"together{len(self.together)}_{self.prefix}"
        self.globals[name] = s
        self.together.append(s)
        args = [self._on, name]
        if s.op in _TOLD:
            args.append(f"{name}.attr")
        if s.op == "meet":
            args.insert(1, self._role)
        args += [self._name(a) for a in s.args]
        if s.op == "proxy_fence":
            return self._emit(depth, f"batch.memory.fence(batch.who({self._on}, {name}))")
        call = f"{'boxes' if s.op in _MOVES else 'batch'}.{_MOVES.get(s.op, s.op)}({', '.join(args)})"
        if s.op in _WAITS:
            call = f"yield from {call}"
        return self._emit(depth, call if s.out is None else f"{self._name(s.out)} = {call}")


# hopper run -------------------------------------------------------------------------------------------------
# Runs a phase with asynchronous copies, a cluster of groups at a time.


@dataclass(slots=True)
class HopperRun:
    """One phase. `scope`: what the code of every phase may call."""

    coder: HopperCoder
    memory: WorkerMemory
    phase: int
    warp: int
    races: bool
    scope: Mapping[str, Any]

    def run(self, order: Sequence[int], symbols: Mapping[Node, int]) -> None:
        """Run the groups with these grid indices, those of a cluster at once; clusters in the order of their first groups."""
        phase = self.coder.program.phases[self.phase]
        if len(order) % phase.cluster:
            raise VerifyError(f"{len(order)} groups are no whole number of clusters of {phase.cluster}")
        firsts = [i for i in order if i % phase.cluster == 0]
        backwards = len(order) > 1 and order[0] > order[-1]
        maps = self._maps(symbols)
        code = compile(self.coder.source, f"<program {self.coder.program.name}, asynchronous>", "exec")
        groups = [self._group(rank, maps, code) for rank in range(phase.cluster)]
        for first in firsts:
            items = [first + rank for rank in range(phase.cluster)]
            cluster = Cluster(self.coder.program, self.phase, items, phase.threads, self.memory.as_twin, backwards)
            for batch, own, boxes, function in groups:
                batch.enter(cluster)
                own.begin()
                cluster.add(self._whole(batch, own, boxes, function, tuple(symbols.values())), f"item {batch.items[0]}")
            cluster.run()

    @staticmethod
    def _whole(batch: HopperBatch, own: HopperMemory, boxes: BoxMover, function: Any, symbols: tuple[int, ...]) -> Any:
        yield from function(batch, boxes, batch.item, batch.thread, *symbols)
        own.copies.end()
        batch.finish()

    def _group(self, rank: int, maps: Sequence[MapNumbers], code: Any) -> tuple[HopperBatch, HopperMemory, BoxMover, Any]:
        """What the groups of this rank in their clusters run, and with what."""
        program = self.coder.program
        accesses = self.coder.accesses[self.phase]
        batch = HopperBatch(program, self.memory.clock, self.phase, program.phases[self.phase].threads, self.warp, rank)
        own = HopperMemory(self.memory, batch, [s for _, s in accesses], self.races)
        names = {**self.scope, **self.coder.globals}
        for name, s in accesses:
            names[name] = own.access(s)
        names["copies"] = own.copies
        exec(code, names)
        pieces = [own.piece(Mem("param", m.map.param, m.map.dtype)) for m in maps]
        return batch, own, BoxMover(batch, maps, pieces), names[f"hopper{self.phase}"]

    def _maps(self, symbols: Mapping[Node, int]) -> list[MapNumbers]:
        program, out = self.coder.program, []
        by_name = {s.arg.name: v for s, v in symbols.items()}
        for m in program.maps:
            name = program.params[m.param].name
            try:
                found = numbers(m, name, by_name)
            except BuildError as e:
                raise VerifyError(str(e)) from None
            aligned(self.memory.params[m.param].base, name)
            out.append(found)
        return out


# interpreter ------------------------------------------------------------------------------------------------
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

    `twin=True` runs the integer twin (`ir.evaluation.twin`): float parameters are uint32 arrays, and the Program must have been
    lowered with `expand=False`.

    Phases with Hopper's asynchronous units run a cluster at a time, roles as coroutines (`cluster`): boxes land as late as they may,
    and who touches shared memory must know of those before, by vector clocks (`cluster.SharedBytes`).

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
