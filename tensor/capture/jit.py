"""`Jitted`: a function of tensors, captured once for each kind of arguments and replayed with almost no overhead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, update_wrapper
from inspect import Parameter, signature
from typing import Any, Self

from ...devices.once import process_lock, undivided
from ...ir import index as ix
from ...ir.errors import UsageError
from ...ir.kernel import Kernel
from ...ir.node import Node, walk
from ...log import logger
from ..graph.captured_numbers import exact_number
from ..graph.symbolic_sizes import SymbolicSize, concrete
from ..handle import compute
from ..leaves import array_class
from ..running.buffers import BufferKind
from ..running.current_capture import seen_through
from ..running.observers import NANS
from ..running.pools import rooms_of
from ..tensor import Tensor
from ..trees import flatten, unflatten
from .bindings import bindings_of, copied_into, given_arrays
from .call_arguments import Arguments, CallLayout, Static, read, taken
from .capture import CapturedGraph, capture
from .compiled_function import CompiledFunction, report
from .graph_compiler import compiled
from .jit_options import JitOptions, collect
from .quick_calls import MOST_PROGRAMS, MOST_READERS, QuickReader, pattern_of, reader

# symbols ----------------------------------------------------------------------------------------------------
# Symbolic sizes of captured functions: which dimensions of which arguments they are, and their values at a call.


Place = tuple[int, int | None]
"""A tensor of a call and one of its dimensions, or a number of a call and None."""


class SymbolReader:
    """Reads the values of a function's symbols off its arguments. What a layout of arguments has where is found once."""

    def __init__(self, name: str, options: JitOptions) -> None:
        self.name, self.options = name, options
        self._places: dict[tuple[Any, ...], list[tuple[str, Place, SymbolicSize]]] = {}

    def read(self, given: Arguments) -> Arguments:
        """The arguments with symbolic shapes in their layout, `given.values` being those of the symbols. Raises UsageError where
        a size is out of range or two disagree."""
        if not self.options.symbols:
            return given
        places = self.found(given.layout)
        values: dict[Node, tuple[int, str]] = {}
        for who, place, n in sorted(places, key=lambda p: p[2].node.op != "sym"):  # expressions once symbols are known
            self._read(who, n, self._value(given, who, place), values)
        known = {s: v for s, (v, _) in values.items()}
        shapes = [list(b.shape) for b in given.buffers]
        numbers: dict[int, SymbolicSize] = {}
        for _, (i, d), n in places:
            if d is None:
                numbers[i] = n
            else:
                shapes[i][d] = n
        return replace(
            given, layout=_symbolic(given.layout, shapes, numbers), shapes=tuple(map(tuple, shapes)), values=known,
            numbers=tuple(v for i, v in enumerate(given.numbers) if i not in numbers),
        )  # fmt: skip

    def _read(self, who: str, n: SymbolicSize, size: int, values: dict[Node, tuple[int, str]]) -> None:
        if n.node.op == "sym":
            before, other = values.setdefault(n.node, (size, who))
            if before != size:
                raise UsageError(f"{self.name}: {n!r} is {before} by {other}, and {size} by {who}")
            if not n.node.arg.lo <= size <= n.node.arg.hi:
                raise UsageError(f"{self.name}: {n!r} is {size} by {who}, outside of its range {n.node.arg.lo} to {n.node.arg.hi}")
            return
        unknown = [s for s in walk(n.node) if s.op == "sym" and s not in values]
        if unknown:
            raise UsageError(
                f"{self.name}: nothing says what {unknown[0]!r} is: it must be a dimension of an argument by itself, or a number"
            )
        wanted = concrete([n], {s: v for s, (v, _) in values.items()})[0]
        if wanted != size:
            raise UsageError(f"{self.name}: {who} is {size}, where {n!r} is {wanted}")

    def _value(self, given: Arguments, who: str, place: Place) -> int:
        i, d = place
        if d is not None:
            shape = given.buffers[i].shape
            if not -len(shape) <= d < len(shape):
                raise UsageError(f"{self.name}: {who}, but its shape is {list(shape)}")
            return shape[d]
        value = given.numbers[i]
        if type(value) is not int:
            raise UsageError(f"{self.name}: {who} is {value!r}, and stands for a size: give a whole number")
        return value

    def found(self, layout: CallLayout) -> list[tuple[str, Place, SymbolicSize]]:
        """Where symbols are in arguments of a layout."""
        key = (layout.structure, tuple(k.__class__ is type or k.__class__ is Static for k in layout.kinds))
        if key not in self._places:
            count = len(layout.kinds)
            named = self.options.named(layout, range(count), [-1 - i for i in range(count)])
            self._places[key] = [p for name, what in self.options.symbols.items() for p in self._of(name, what, named.get(name))]
        return self._places[key]

    def _of(self, name: str, what: Any, tree: Any) -> list[tuple[str, Place, SymbolicSize]]:
        marks: set[int] = set()
        collect(tree, marks)
        if isinstance(what, SymbolicSize):
            return [(name, (-1 - i, None), what) for i in marks if i < 0]
        return [(f"dimension {d} of {name}", (i, d), n) for i in sorted(marks) if i >= 0 for d, n in what.items()]


def _symbolic(layout: CallLayout, shapes: list[list[Any]], numbers: Mapping[int, SymbolicSize]) -> CallLayout:
    """The layout with these shapes of its tensors, and with sizes for numbers."""
    tensors, count = iter(shapes), 0
    kinds: list[Any] = []
    for k in layout.kinds:
        if k.__class__ is Static:
            kinds.append(k)
        elif k.__class__ is type:
            kinds.append(Static(numbers[count]) if count in numbers else k)
            count += 1
        else:
            kinds.append(BufferKind.of(tuple(next(tensors)), k.dtype, k.device, k.range))
    return CallLayout(layout.structure, tuple(kinds))


def check_symbols(symbols: Any, names: tuple[str, ...], function: Callable[..., Any]) -> None:
    """Raise UsageError where `jit(symbols=...)` is not {argument: {dimension: size}} or {argument: size}, or a symbol has two ranges."""
    ranges: dict[str, Node] = {}
    for name, what in symbols.items():
        if name not in names:
            raise UsageError(
                f"jit(symbols={{{name!r}: ...}}): {getattr(function, '__name__', 'the function')} has no such argument ({', '.join(names)})"
            )
        sizes = [what] if isinstance(what, SymbolicSize) else list(what.values()) if isinstance(what, Mapping) else [what]
        if not all(isinstance(n, SymbolicSize) for n in sizes):
            raise UsageError(
                f"jit(symbols={{{name!r}: {what!r}}}): give {{dimension: Var(...)}}, or a Var for an argument that is a number"
            )
        for s in (s for n in sizes for s in walk(n.node) if s.op == "sym"):
            if ranges.setdefault(s.arg.name, s) is not s:
                raise UsageError(f"jit(symbols=...): {s.arg.name} has the ranges {ix.bounds(ranges[s.arg.name])} and {ix.bounds(s)}")


# decorator --------------------------------------------------------------------------------------------------
log = logger("tensor")

MOST_BRANCHES = 32
"""Programs that differ in the answers to a function's questions about its numbers; then these numbers are constants."""


class _Family:
    """Calls of one layout: they differ in their numbers only. `dynamic`: positions of numbers that have changed, and are
    parameters since; `fixed`: those whose values the function needs while it is captured. Programs of one key were captured
    for different answers to the questions that the function asks of its parameters."""

    def __init__(self) -> None:
        self.dynamic: set[int] = set()
        self.fixed: set[int] = set()
        self.first: tuple[Any, ...] | None = None
        self.programs: dict[tuple[Any, ...], list[CompiledFunction]] = {}

    def key(self, numbers: Sequence[int | float]) -> tuple[Any, ...]:
        """What distinguishes programs."""
        found = tuple(map(exact_number, numbers))
        if self.first is None:
            self.first = found
        for i, (a, b) in enumerate(zip(self.first, found, strict=True)):
            if a != b and i not in self.fixed:
                self.dynamic.add(i)
        return (tuple(sorted(self.dynamic)), *(x for i, x in enumerate(found) if i not in self.dynamic))

    def found(self, numbers: Sequence[int | float]) -> tuple[CompiledFunction, list[Any]] | None:
        """The program of a call, and what it computes of the numbers."""
        for p in self.programs.get(self.key(numbers), ()):
            values = p.graph.numbers.run(numbers)
            if values is not None:
                return p, values
        return None

    def fix(self, positions: Iterable[int]) -> None:
        """These numbers are constants of the function from now on."""
        self.fixed.update(positions)
        self.dynamic -= self.fixed

    def keep(self, numbers: Sequence[int | float], program: CompiledFunction) -> None:
        """Remember a program. Numbers that the function asked for are constants from now on, as are those that it branches on
        in too many ways."""
        self.fix(program.graph.numbers.read)
        kept = self.programs.setdefault(self.key(numbers), [])
        kept.append(program)
        if len(kept) >= MOST_BRANCHES:
            self.fix(program.graph.numbers.guarded)


class LikeFunction:
    """What is copied and pickled as a function is: by itself, and by its name."""

    __qualname__: str

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def __reduce__(self) -> str:
        return self.__qualname__


class Jitted(LikeFunction):
    """What `jit` makes of a function. It is called as the function is; `report()` says what its kernels are."""

    def __init__(self, function: Callable[..., Any], options: JitOptions) -> None:
        self._function, self.options = function, options
        check_symbols(options.symbols, options.parameters, function)
        self._symbols = SymbolReader(getattr(function, "__name__", "function"), options)
        self._families: dict[CallLayout, _Family] = {}
        self.readers: tuple[QuickReader, ...] = ()
        self._lock = process_lock()
        self.name = getattr(function, "__name__", "function")
        update_wrapper(self, function, updated=())  # (what a callable object holds is its own)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if seen_through() or NANS.on:
            return self._uncaptured(args, kwargs, later=seen_through())
        if "out" in kwargs and not self._takes_out:
            return self._call_into(args, kwargs, kwargs.pop("out"))
        for r in self.readers:
            found = r.read(args, kwargs)
            if found is not None:
                program = r.programs.get(found[0])
                if program is not None:
                    return program.call_quick(found)
        return self._call(args, kwargs)

    def _uncaptured(self, args: tuple[Any, ...], kwargs: dict[str, Any], later: bool) -> Any:
        """The function as it is written: a part of the graph that is being made (`later`), or its results computed."""
        out = None if self._takes_out else kwargs.pop("out", None)
        device = self.options.device
        leaves, structure = flatten((args, kwargs))
        given = [Tensor(x, device=device or "cpu") if isinstance(x, array_class()) else taken(x, device) for x in leaves]
        if any(x is not y for x, y in zip(leaves, given, strict=True)):
            args, kwargs = unflatten(structure, given)
        result = self._function(*args, **kwargs)
        if later:
            if out is not None:
                copied_into(self.name, result, given_arrays(self.name, out))
            return result
        compute(result)
        return result if out is None else copied_into(self.name, result, given_arrays(self.name, out))

    def _call_into(self, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
        """A call whose results go to arrays."""
        if out is None:
            return self(*args, **kwargs)
        arrays = given_arrays(self.name, out)
        for r in self.readers:
            found = r.read(args, kwargs)
            if found is not None:
                program = r.programs.get(found[0])
                if program is not None:
                    return program.call_into(found, arrays)
        return copied_into(self.name, self._call(args, kwargs), arrays)

    @cached_property
    def _takes_out(self) -> bool:
        """Whether the function has an argument of the name `out` of its own."""
        parameters = signature(self._function).parameters
        return "out" in parameters or any(p.kind is Parameter.VAR_KEYWORD for p in parameters.values())

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """A method: the object is an argument that is no tensor."""
        if instance is None:
            return self

        def method(*args: Any, **kwargs: Any) -> Any:
            return self(instance, *args, **kwargs)

        return update_wrapper(method, self._function)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        leaves, structure = flatten((args, kwargs))
        leaves = [taken(x, self.options.device) for x in leaves]
        paired = [getattr(getattr(x, "dtype", None), "kind", "") == "c" for x in leaves]
        if any(paired):  # (arrays, and NumPy's numbers)
            args, kwargs = unflatten(
                structure, [Tensor(x) if c or isinstance(x, array_class()) else x for x, c in zip(leaves, paired, strict=True)]
            )
            leaves, structure = flatten((args, kwargs))
        plain = read(leaves, structure, self.options.device)
        given = self._symbols.read(plain)
        with self._lock:
            program = self._program(given)
            tracked = program.differentiable(given.tensors)
            if not given.numbers and not tracked:
                self._remember(pattern_of(structure, leaves), plain.layout, program, args, kwargs)
        return self._uncaptured(args, kwargs, later=True) if tracked else program.call(given)

    def _remember(
        self, pattern: tuple[Any, ...] | None, layout: CallLayout, program: CompiledFunction, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """The next call like this one goes the quick way."""
        if pattern is None or ("array" in pattern and rooms_of(program.device) is not None):
            return
        made = next((r for r in self.readers if r.pattern == pattern), None)
        if made is None:
            places = [(who, i, d, n) for who, (i, d), n in self._symbols.found(layout)] if self.options.symbols else []
            made = reader(pattern, places, [name for name, _, _ in program.graph.symbols])
            if made is None:
                return
            self.readers = (made, *self.readers[: MOST_READERS - 1])
        for cell in program.graph.closures:
            cell.functions.add(self)
        found = made.read(args, kwargs)
        if found is not None:
            if len(made.programs) >= MOST_PROGRAMS:
                made.programs.clear()
            made.programs[found[0]] = program

    def _program(self, given: Arguments) -> CompiledFunction:
        """The program of a call, which takes the values of the program's tape for numbers from here on."""
        family = self._families.get(given.layout)
        if family is None:
            if self.options.shapes == "error" and self._families:
                self._refuse(given.layout)
            family = self._families[given.layout] = _Family()
        found = family.found(given.numbers)
        if found is None:
            with undivided():
                graph = self._captured(given, family)
                made = compiled(graph, self.name, self.options, self.options.donated(given.layout))
                statics = [k.value for k in given.layout.kinds if isinstance(k, Static)]
                made.bindings = bindings_of(self._function, self.name, statics, graph.closures)
                family.keep(given.numbers, made)
            found = made, graph.numbers.values
        given.numbers = tuple(found[1])
        return found[0]

    def _captured(self, given: Arguments, family: _Family) -> CapturedGraph:
        """The graph of a call. Where capturing fails, which a parameter may be the cause of, so does the function with plain
        numbers; if it does not, whole numbers (sizes, most likely) are constants from now on, then all."""
        while family.dynamic:
            try:
                return self._capture(given, family.dynamic)
            except Exception as e:
                log.debug("%s with numbers as parameters: %s", self.name, e)
            self._capture(given, ())
            family.fix({i for i in family.dynamic if isinstance(given.numbers[i], int)} or set(family.dynamic))
        return self._capture(given, ())

    def _capture(self, given: Arguments, dynamic: Iterable[int]) -> CapturedGraph:
        return capture(self._function, self.name, given, sorted(dynamic), self.options.device or "cpu")

    def _refuse(self, layout: CallLayout) -> None:
        known = ", ".join(sorted({str([k.shape for k in f.kinds if isinstance(k, BufferKind)]) for f in self._families}))
        got = [k.shape for k in layout.kinds if isinstance(k, BufferKind)]
        raise UsageError(f'{self.name} was captured for shapes {known}, and is called with {got}; shapes="recapture" captures anew')

    def report(self, measure: bool = False) -> str:
        """A line a kernel: its name, how often it is called, its schedule and where that comes from ('exact', 'nearest',
        'start'), and memory. With `measure`, each kernel is timed now (on zeros), and compared with the machine's limits."""
        return report(self.name, self.programs, measure)

    def missing(self) -> list[Kernel]:
        """The kernels without a schedule that was measured for them, heaviest first, for `tilewright.tune`. Kernels that
        came from disk are known with tune="list" only."""
        found = [k for p in self.programs for k in p.kernels if not k.exact and k.kernel is not None]
        return [k.kernel for k in sorted(found, key=lambda k: -k.calls * (k.flops + 8 * k.nbytes)) if k.kernel is not None]

    @property
    def programs(self) -> list[CompiledFunction]:
        """What was compiled so far."""
        with self._lock:
            return [p for f in self._families.values() for ps in f.programs.values() for p in ps]
