"""What is exported: a list of kernels as C text, where their arrays lie, and the weights."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from hashlib import sha256
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..devices import get
from ..ir.dtypes import FORMATS, DType
from ..ir.errors import UsageError
from ..ir.index import bounds, upper
from ..ir.kernel import Kernel, kernel_text
from ..ir.node import Node
from ..measure.inputs import generate
from ..opts import Opt, parse, short
from ..plan import best
from ..targets.table import entry
from ..tensor import Tensor
from ..tensor.capture.call_arguments import is_array, read
from ..tensor.capture.capture import capture
from ..tensor.capture.compiled_function import CompiledFunction
from ..tensor.capture.graph_compiler import compiled
from ..tensor.capture.jit import SymbolReader, check_symbols
from ..tensor.capture.jit_options import JitOptions, own_numerics
from ..tensor.graph.index_checks import CHECK, outside_of
from ..tensor.graph.symbolic_sizes import extent, number
from ..tensor.loops import written_out
from ..tensor.trees import flatten, ways
from .kernel_text import KernelTexts

if TYPE_CHECKING:
    from ..devices import LoopCarry
    from ..program.program import Signature
    from ..targets import Target
    from ..tensor.capture.call_sequence import LinkedCall, LinkedLoop
    from ..tensor.graph.nodes import HostCall

Array = np.ndarray[Any, Any]
TAKEN = frozenset(
    ["m", "c", "rt", "dl", "pthread", "main", "auto", "bool", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern", "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short", "signed", "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while"]
)  # fmt: skip
"""Libraries that every program has, and words of C."""
LOCALS = frozenset(("it", "base", "arena", "state", "weights", "pool", "sizes", "arrays"))
"""What the library's function calls its own things."""
SHARED_S = 5e-6
"""Seconds on one thread up to which a kernel stays there: to hand work to another one, and to hear that it is done, costs a microsecond or more
where that one is awake. (A captured function times its short calls both ways.)"""
ALIGN = 64
"""Bytes: of every array in the weights and in an instance's memory."""

SORTS = ("sort", "argsort")
"""Steps of NumPy's that the runtime has too."""
LARGEST = {name: f.top if f.infinite else f.top - 1 for name, f in FORMATS.items()}
"""Bits of a type's largest number, an infinity where it has one: what is above is NaN."""


@dataclass(frozen=True)
class ExportedArray:
    """An argument of the library's function. `shape`: numbers, and what C writes of sizes that differ from call to call. `role`: 'input', 'output', or 'update' (read and written). `data`: what it was in the recorded
    call: of an input before it, of the others after it; `before`: of an update before it."""

    name: str
    dtype: DType
    shape: tuple[int | str, ...]
    role: str
    data: bytes
    before: bytes = b""


@dataclass(frozen=True)
class ExportedKernel:
    """A kernel for one of the targets, with the schedule `opts` from `origin`. `pointers`: C expressions of its arrays; `work`: of its
    workspace where that is packed weights, "" where calls write it; `shared`: whether threads share its items."""

    text: str
    signature: Signature
    pointers: tuple[str, ...]
    opts: str
    origin: str
    work: str = ""
    shared: bool = True


@dataclass(frozen=True)
class ExportedCall:
    """A kernel that runs, for each target, what is known of the schedule that it was captured with (`standing`, as `CompiledKernel` has it),
    and what it `computes`; or, without kernels, a copy of `nbytes` between `pointers`, tests that an index is
    `outside`, a `sort`, or a `loop`."""

    name: str
    kernels: tuple[ExportedKernel, ...] = ()
    standing: str = ""
    computes: str = ""
    pointers: tuple[str, ...] = ()
    nbytes: int | str = 0
    outside: tuple[str, ...] = ()
    sort: ExportedSort | None = None
    loop: ExportedLoop | None = None


@dataclass(frozen=True)
class ExportedSort:
    """How lines are sorted. `lines`: how many; `sizes`: as the runtime's `tw_sort` has them; `scratch`: bytes that a thread needs."""

    lines: int | str
    sizes: tuple[int | str, ...]
    scratch: int


@dataclass(frozen=True)
class ExportedLoop:
    """A loop over calls, whose pointers are words `w{depth}[…]` of it. `words`: (address, bytes that it moves after a step); `jumps`:
    (step, word, address in that step); the others as `devices.BoundLoop` has them, sizes and addresses as C expressions. `counts`: whether a call reads the number of the step."""

    depth: int
    calls: tuple[ExportedCall, ...]
    words: tuple[tuple[str, int | str], ...]
    jumps: tuple[tuple[int, int, str], ...]
    carries: tuple[LoopCarry, ...]
    before: tuple[tuple[int, int, int | str], ...]
    after: tuple[tuple[int, int, int | str], ...]
    trips: int | str
    start: int | str
    counts: bool
    gate: str = ""
    test: int | None = None


@dataclass(frozen=True)
class Schedule:
    """How a kernel was captured: options, where they come from, what is known of them, and for how many threads."""

    opts: tuple[Opt, ...]
    origin: str
    standing: str | None
    threads: int


@dataclass(frozen=True)
class ExportedSize:
    """A size that comes with each call: its `name` as a parameter, what the captured function calls it, its range, and its value in the
    recorded call."""

    name: str
    symbol: str
    low: int
    high: int
    value: int


@dataclass
class ExportedProgram:
    """A program without Python. `targets`: processors that it is for, the one with most instructions first. `symbols`: sizes that differ from call to call. `copies`: (to, from, bytes) after the kernels; `states`:
    (offset in the state memory, offset in the weights, bytes); `arena`, `state`: bytes of an instance."""

    name: str
    targets: tuple[Target, ...]
    arrays: list[ExportedArray] = field(default_factory=list)
    calls: list[ExportedCall] = field(default_factory=list)
    symbols: list[ExportedSize] = field(default_factory=list)
    copies: list[tuple[str, str, int | str]] = field(default_factory=list)
    states: list[tuple[int, int, int]] = field(default_factory=list)
    weights: bytearray = field(default_factory=bytearray)
    arena: int = 0
    state: int = 0
    _texts: dict[str, KernelTexts] = field(default_factory=dict)
    _kept: dict[bytes, int] = field(default_factory=dict)

    def exact(self, target: Target) -> bool:
        """Whether the recorded call has the bits of a target: it was made on that processor."""
        return target.name == get("cpu").target.name

    def parameter(self, text: str) -> str:
        """A name of C that no other array has."""
        name = c_name(text)
        taken = LOCALS | {self.name, *(a.name for a in self.arrays), *(s.name for s in self.symbols)}
        while name in taken:
            name += "_"
        return name

    def size(self, node: Node) -> int | str:
        """An index of the symbols, which is never negative where it is divided, as C."""
        if node.op == "const":
            return int(node.arg)
        if node.op == "sym":
            return next(s.name for s in self.symbols if s.symbol == node.arg.name)
        v = [str(self.size(s)) for s in node.src]
        if node.op == "sum":
            coeffs, c = node.arg
            return f"({' + '.join(x if k == 1 else f'{k} * {x}' for k, x in zip(coeffs, v, strict=True))}{f' + {c}' if c else ''})"
        if node.op == "prod":
            return f"({' * '.join(v)})"
        if node.op in ("div", "mod") and bounds(node.src[0])[0] >= 0:
            return f"({v[0]} {'/' if node.op == 'div' else '%'} {node.arg})"
        if node.op in ("min", "max"):
            return reduce(lambda a, b: f"tw_{node.op}({a}, {b})", v)
        raise UsageError(f"{self.name}: the size {node!r} cannot be exported")

    def shape_of(self, shape: Sequence[Any]) -> tuple[int | str, ...]:
        """A captured shape."""
        return tuple(self.size(number(n)) for n in shape)

    def nbytes(self, spec: Any) -> int | str:
        """The bytes of an array."""
        return times([spec.dtype.size, *self.shape_of(spec.shape)])

    def weight(self, data: bytes) -> int:
        """Keep bytes, equal ones once; returns their offset."""
        at = self._kept.setdefault(sha256(data).digest(), len(self.weights))
        if at == len(self.weights):
            self.weights += data + bytes(-len(data) % ALIGN)
        return at

    def every_call(self) -> Iterator[ExportedCall]:
        """The calls, those in loops too."""
        waiting = list(reversed(self.calls))
        while waiting:
            c = waiting.pop()
            yield c
            waiting += reversed(c.loop.calls) if c.loop is not None else ()

    def kernel(self, kernel: Kernel, schedule: Schedule, pointers: Sequence[str | bytes], name: str = "") -> ExportedCall:
        """A kernel that runs. `pointers`: C expressions of its arrays, or the contents of weights, of which the library keeps what its
        calls read: packed panels, or the arrays themselves."""
        constant = {i: p for i, p in enumerate(pointers) if isinstance(p, bytes)}
        made = []
        for target in self.targets:
            texts = self._texts.setdefault(target.name, KernelTexts(target))
            found = texts.of(kernel, schedule.opts, schedule.threads, constant)
            work = f"(weights + {self.weight(found.packed)})" if found.packed is not None else ""
            places = (
                p if isinstance(p, str) else f"(weights + {self.weight(p)})" if i in found.reads else "weights"
                for i, p in enumerate(pointers)
            )
            origin = schedule.origin if found.opts == schedule.opts else "start"
            made.append(
                ExportedKernel(found.text, found.signature, tuple(places), short(found.opts), origin, work, found.seconds > SHARED_S)
            )
        return ExportedCall(name or kernel.name, tuple(made), schedule.standing or "", kernel_text(kernel))


def times(factors: Sequence[int | str]) -> int | str:
    """A product of numbers and C expressions."""
    known, texts = prod(n for n in factors if isinstance(n, int)), [n for n in factors if isinstance(n, str)]
    return " * ".join([*texts, str(known)]) if texts and known else known


def c_targets(names: str | None) -> tuple[Target, ...]:
    """This machine's processor, or named ones (v2,v3,host), the one with most instructions first, with C as the language. Raises
    DeviceError for an unknown name, UsageError for names that one library cannot have."""
    words = [w.strip() for w in names.split(",")] if names else ["host"]
    found = {t.name: replace(t, lang="c") for t in (get("cpu").target if w == "host" else entry(w) for w in words)}
    if {t.kind for t in found.values()} != {"cpu"}:
        raise UsageError(f"a library of C is for processors, and {names} names a GPU")
    if len({t.arch for t in found.values()}) > 1:
        raise UsageError(
            f"one library cannot have code of several architectures: {', '.join(f'{t.name} is {t.arch}' for t in found.values())}"
        )
    return tuple(sorted(found.values(), key=lambda t: (-len(t.features), t.name)))


def target_name(target: Target) -> str:
    """What a library calls a processor."""
    return target.name if target.cpu == "generic" else target.cpu


def raw(x: Any) -> bytes:
    """The bytes of an array or tensor, row-major."""
    return np.ascontiguousarray(np.asarray(x.numpy() if hasattr(x, "numpy") else x)).tobytes()


def c_name(text: str) -> str:
    """A name of C."""
    name = re.sub(r"\W", "_", text, flags=re.ASCII)
    return f"_{name}" if not name or name[0].isdigit() else f"{name}_" if name in TAKEN else name


# a kernel -----------------------------------------------------------------------------------------------------------
def of_kernel(
    name: str, shape: Mapping[str, int] | None = None, dtype: Any = None, *, constants: Mapping[str, Array] | None = None,
    target: str | None = None, **options: Any,
) -> ExportedProgram:  # fmt: skip
    """A named kernel or one of a file, with the schedule that `best` gives it. `constants`: inputs that become weights."""
    made = best(name, dict(shape) if shape else None, dtype, device="cpu", **options)
    kernel = made.kernel
    if kernel.symbols:
        raise UsageError(f"{name} has sizes that calls give: name them with --shape")
    inputs = generate(kernel, {}, 0)
    given = [np.asarray((constants or {}).get(b.name, inputs[b.name])) for b in kernel.inputs]
    found = made(*given)
    outs = found if isinstance(found, tuple) else (found,)
    program = ExportedProgram(c_name(kernel.name), c_targets(target))
    pointers: list[str | bytes] = []
    for i, b in enumerate(kernel.buffers):
        if b.name in (constants or {}):
            pointers.append(raw(given[i]))
            continue
        is_input = i < len(given)
        data = raw(given[i] if is_input else outs[i - len(given)])
        shape_ = tuple(int(n) for n in b.shape)
        label = program.parameter(b.name)
        program.arrays.append(ExportedArray(label, b.dtype, shape_, "input" if is_input else "output", data))
        pointers.append(label)
    program.calls.append(program.kernel(kernel, Schedule(made.plan.opts, str(made.origin), made.standing, made.threads), pointers))
    return program


# a function of tensors ----------------------------------------------------------------------------------------------
def of_function(
    function: Callable[..., Any], args: Sequence[Any], *, name: str | None = None, names: tuple[Sequence[str], Callable[[], Sequence[str]]] | None = None,
    target: str | None = None, **options: Any,
) -> ExportedProgram:  # fmt: skip
    """A function of tensors, captured for these arguments: arrays and tensors in trees become inputs, all else constants. `names`: of the
    inputs, and of the results once they are captured, else those of the parameters, and y."""
    bare = inspect.unwrap(function)
    title = name or str(getattr(bare, "__name__", "function"))
    mode = options.get("tune", "list")  # (kernels that come from disk alone have no text)
    options = {"numerics": own_numerics(function), **options}
    if unknown := [k for k in options if k not in JitOptions.__dataclass_fields__]:
        raise UsageError(
            f"an export has no option {unknown[0]!r}: arguments of {title} are given by position, or wrap it in a function that names them"
        )
    settings = JitOptions(**{**options, "tune": "list" if mode == "use" else mode, "device": "cpu", "frozen": True}).of(bare)
    check_symbols(settings.symbols, settings.parameters, bare)
    given_leaves, structure = flatten(_bound(bare, args))
    leaves = [_copied(x) for x in given_leaves]  # what is updated is not the caller's
    labels = list(names[0]) if names else _labels(bare, structure)
    given = SymbolReader(title, settings).read(read(leaves, structure, "cpu"))
    graph = capture(bare, title, given, (), "cpu")
    program = compiled(graph, title, settings, frozenset())
    if any(c.loop is not None and not c.loop.native for c in program.calls):  # (with sorts, say)
        with written_out():
            graph = capture(bare, title, given, (), "cpu")
        program = compiled(graph, title, settings, frozenset())
    outs = names[1]() if names else None
    inputs = [n for n, x in zip(labels, leaves, strict=True) if isinstance(x, Tensor)]
    closures = [raw(c.buffer.array) for c in program.sequence.cells]
    recorded = Recorded(program, [raw(b.array) for b in given.buffers], closures, program.sizes(given.values))
    return of_compiled(recorded, title, list(zip(inputs, given.tensors, strict=True)), program.call(given), outs, target)


def _bound(function: Callable[..., Any], args: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments in the order of the parameters, of which the last may be by name only, as a call has them."""
    kinds = {n: p.kind for n, p in inspect.signature(function).parameters.items()}
    named = [n for n, kind in kinds.items() if kind is inspect.Parameter.KEYWORD_ONLY]
    plain = len(args) if inspect.Parameter.VAR_POSITIONAL in kinds.values() else len(kinds) - len(named)
    return tuple(args[:plain]), dict(zip(named, args[plain:]))


def _copied(x: Any) -> Any:
    """A copy of an array or of a number of NumPy's, as a tensor."""
    return Tensor(np.array(x.numpy() if isinstance(x, Tensor) else x)) if isinstance(x, Tensor) or is_array(x) else x


@dataclass(frozen=True)
class Recorded:
    """A compiled function, the bytes of its arguments and of the tensors from outside before its recorded call, and the values of its sizes."""

    compiled: CompiledFunction
    given: Sequence[bytes]
    closures: Sequence[bytes]
    sizes: tuple[int, ...] = ()


def _labels(function: Callable[..., Any], structure: Any) -> list[str]:
    """A name for each leaf of the arguments, as `_bound` has them."""
    parameters = list(inspect.signature(function).parameters)
    (_, plain), named = structure[1]
    paths = [parameters[i] if i < len(parameters) else f"a{i}" for i in range(len(plain))]
    return [name for path, part in zip(paths, plain) for name in _names(part, path)] + _names(named)


def _names(structure: Any, path: str = "") -> list[str]:
    """A name for each leaf of a tree of arguments: the parameter's, with the way to the leaf."""
    return ["_".join([*([path] if path else []), *(str(k) for _, k in way)]) for way in ways(structure)]


def of_compiled(
    recorded: Recorded, name: str, inputs: Sequence[tuple[str, Tensor]], result: Any, result_names: Sequence[str] | None, target: str | None
) -> ExportedProgram:
    """A captured function after its recorded call: `inputs` as they are after it, `result` what it returned. Raises UsageError for what
    cannot leave Python: NumPy's own code, sizes that calls give."""
    function = recorded.compiled
    plan, sequence = function.plan, function.sequence
    results = flatten(result)[0]
    named = result_names or [f"y{i}" if len(results) > 1 else "y" for i in range(len(results))]
    hosts = sorted({c.name for c in function.calls if c.host is not None and c.name not in ("copy", CHECK, *SORTS)})
    if hosts:
        raise UsageError(f"{name}: NumPy computes {', '.join(hosts)}, which cannot be exported")
    if function.graph.checks:
        raise UsageError(f"{name}: a size of 0 has no result, which calls find out: give a range that begins at 1")
    program = ExportedProgram(c_name(name), c_targets(target), arena=plan.memory.peak)
    for (symbol, low, high), value in zip(function.graph.symbols, recorded.sizes, strict=True):
        program.symbols.append(ExportedSize(program.parameter(symbol), symbol, low, high, value))
    where = Places(program, recorded.closures)
    in_place = {s.state.place for s in plan.states if s.state.kind == "argument"} | set(plan.donated.values())
    for i, ((label, x), data) in enumerate(zip(inputs, recorded.given, strict=True)):
        update, label = i in in_place, program.parameter(label)
        program.arrays.append(
            ExportedArray(
                label,
                x.dtype,
                program.shape_of(function.graph.slots[i].shape),
                "update" if update else "input",
                raw(x),
                data if update else b"",
            )
        )
        where["given", i] = label
    mutable = {s.state.place for s in plan.states if s.state.kind == "closure"}
    for i in sorted(mutable):
        data = recorded.closures[i]
        where["closure", i] = f"(state + {program.state})"
        program.states.append((program.state, program.weight(data), len(data)))
        program.state += -(-len(data) // ALIGN) * ALIGN
    _results(program, recorded, where, results, named)
    for place in range(len(plan.fresh)):
        if ("fresh", place) not in where:  # new values that could not be written in place
            spec = sequence.specs[plan.fresh[place]]
            nbytes = program.nbytes(spec)
            where["fresh", place] = f"(arena + {program.arena})"
            program.arena += -(-prod(upper(extent(n)) for n in spec.shape) * spec.dtype.size // ALIGN) * ALIGN
            for s in plan.states:
                if s.fresh == place:
                    kind = "given" if s.state.kind == "argument" else "closure"
                    program.copies.append((where[kind, s.state.place], where["fresh", place], nbytes))
    _calls(program, function, where)
    return program


@dataclass(frozen=True)
class ExportedArgument:
    """An array: the C expression of its place, and its contents if it is a `weight`."""

    place: Callable[[], str]
    weight: bytes | None = None

    def __call__(self) -> str:
        return self.place()


class Places(dict[tuple[str, int], str]):
    """C expressions of where arrays are. A tensor from outside that no call writes becomes a weight when somebody asks."""

    def __init__(self, program: ExportedProgram, closures: Sequence[bytes]) -> None:
        super().__init__()
        self._program, self._closures = program, closures

    def __missing__(self, key: tuple[str, int]) -> str:
        kind, at = key
        if kind == "arena":
            return f"(arena + {at})"
        if kind != "closure":
            raise KeyError(key)
        return f"(weights + {self._program.weight(self._closures[at])})"

    def argument(self, key: tuple[str, int]) -> ExportedArgument:
        """The argument of a kernel or a loop."""
        return ExportedArgument(partial(self.__getitem__, key), self._closures[key[1]] if key[0] == "closure" and key not in self else None)


def _results(program: ExportedProgram, recorded: Recorded, where: Places, results: Sequence[Any], names: Sequence[str]) -> None:
    """A parameter for each result; a fresh array is the first result that it is, others are copied."""
    function = recorded.compiled
    plan, fresh = function.plan, function.sequence.fresh_specs(recorded.sizes)
    late: list[tuple[str, tuple[str, int], int | str]] = []
    for source, value, label in zip(function.graph.results, results, names, strict=True):
        if source.kind in ("constant", "number", "value"):
            raise UsageError(f"{program.name}: the result {label} is no tensor: return tensors only")
        data, label = raw(value), program.parameter(label)
        graph, shape = function.graph, value.shape
        if source.kind in ("out", "argument"):
            shape = (graph.outs if source.kind == "out" else graph.slots)[source.place].shape
        program.arrays.append(ExportedArray(label, value.dtype, program.shape_of(shape), "output", data))
        if source.kind == "out":
            spot = plan.outs[source.place]
            key: tuple[str, int] = (spot.kind, spot.at)
            if spot.kind == "fresh" and key not in where and fresh[spot.at].nbytes == len(data):
                where[key] = label
                continue
        else:
            key = ("given" if source.kind == "argument" else "closure", source.place)
        late.append((label, key, times([value.dtype.size, *program.shape_of(shape)])))
    for label, key, nbytes in late:
        program.copies.append((label, where[key], nbytes))


def _calls(program: ExportedProgram, function: CompiledFunction, where: Places) -> None:
    plan, sequence = function.plan, function.sequence
    for c in function.calls:
        places = (*c.inputs, *c.outputs, *(() if c.loop is None else (c.loop.room,)))
        spots = [(s.kind, s.at) for s in (plan.spots[p] for p in places)]
        if c.host is None:
            program.calls.append(_native(program, function, c, [where.argument(s) for s in spots]))
            continue
        if c.host.name == CHECK:
            outside = tuple(outside_of(c.host, [where[s] for s in spots[: len(c.inputs)]]))
            program.calls.append(ExportedCall(CHECK, outside=outside))
            continue
        if c.host.name in SORTS:
            sort = _sort(program, sequence.specs[c.inputs[0]], sequence.specs[c.outputs[0]], c.host)
            program.calls.append(ExportedCall(c.host.name, pointers=tuple(where[s] for s in spots), sort=sort))
            continue
        nbytes = program.nbytes(sequence.specs[c.outputs[0]])
        program.calls.append(ExportedCall("copy", pointers=tuple(where[s] for s in spots), nbytes=nbytes))


def _native(
    program: ExportedProgram, function: CompiledFunction, c: LinkedCall, given: Sequence[ExportedArgument], depth: int = 0
) -> ExportedCall:
    """A kernel or a loop, of arguments in order."""
    if c.loop is not None:
        return _loop(program, function, c.loop, given, depth)
    found = next(k for k in function.kernels if k.executable is c.executable)
    if c.kernel is None:
        raise UsageError(f"{program.name}: the kernel {c.name} is known by its object only: clear the warm start and export again")
    schedule = Schedule(parse(found.opts), found.origin, found.standing, found.executable.threads)
    return program.kernel(c.kernel, schedule, [g() if g.weight is None else g.weight for g in given], c.name)


def _size(program: ExportedProgram, n: Any) -> int | str:
    """A number of a loop's frame, as C."""
    return n if isinstance(n, int) else program.size(n)


def _loop(
    program: ExportedProgram, function: CompiledFunction, loop: LinkedLoop, given: Sequence[ExportedArgument], depth: int
) -> ExportedCall:
    """A loop, of arguments in order; the words that calls read weights by are weights for them."""
    if loop.seconds is not None:
        raise UsageError(f"{program.name}: a {loop.name} with a limit of seconds cannot be exported")
    f = loop.frame
    size = partial(_size, program)
    moving = {i for i, w in enumerate(f.words) if w.stride != 0 or w.jumps} | {i for c in f.carries for i in (c.read, c.write)}
    used = {i for c in f.carries for i in (c.read, c.write, *(c.turns or ()))} | {
        i for c in (*f.before, *f.after) for i in (c.to, c.source)
    }
    used |= set() if f.test is None else {f.test}

    def word(i: int) -> str:
        used.add(i)
        return f"w{depth}[{i}]"

    arguments: list[dict[int, ExportedArgument]] = [{} for _ in loop.calls]
    for call, parameter, i in f.feeds:
        w = f.words[i]
        same = i not in moving and w.offset == 0
        arguments[call][parameter] = ExportedArgument(partial(word, i), given[w.parameter].weight if same else None)
    for call, parameter in f.counter:
        arguments[call][parameter] = ExportedArgument(lambda: f"(unsigned char *)&n{depth}")
    calls = tuple(
        _native(program, function, c, [of[j] for j in sorted(of)], depth + 1) for c, of in zip(loop.calls, arguments, strict=True)
    )

    def address(parameter: int, offset: Any) -> str:
        return f"(unsigned char *){given[parameter]()} + {size(offset)}"

    words = tuple((address(w.parameter, w.offset) if i in used else "", size(w.stride) if i in used else 0) for i, w in enumerate(f.words))
    jumps = tuple((step, i, address(p, offset)) for i, w in enumerate(f.words) if i in used for step, p, offset in w.jumps)
    before, after = (tuple((c.to, c.source, size(c.nbytes)) for c in copies) for copies in (f.before, f.after))
    gate = "" if f.gate is None else given[f.gate]()
    made = ExportedLoop(depth, calls, words, jumps, f.carries, before, after, size(f.trips), size(f.start), bool(f.counter), gate, f.test)
    return ExportedCall(loop.name, loop=made)


def _sort(program: ExportedProgram, spec: Any, out: Any, call: HostCall) -> ExportedSort:
    """A step that sorts an array along an axis, or finds the places that would, or the first of them."""
    axis, descending = call.key[:2]
    shape = program.shape_of(spec.shape)
    step = times(shape[len(shape) + axis + 1 :])
    most = LARGEST[spec.dtype.name] if spec.dtype.is_float else -(spec.dtype.kind == "i")
    sizes = (shape[axis], step, spec.dtype.size, most, int(descending), int(call.name == "argsort"), program.shape_of(out.shape)[axis])
    lines = times([*shape[: len(shape) + axis], step])
    return ExportedSort(lines, sizes, 32 * upper(extent(spec.shape[axis])))
