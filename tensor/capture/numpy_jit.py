"""`jit(numpy=True)`: a function of array expressions as one of NumPy arrays.

Calls whose arguments have the same types, ranks and dimensions of 0 or 1 are a class. The first sizes of a class are compiled as they are.
From the second on, the sizes that differed are symbols, equal where they were equal at every call, so one list of kernels serves all
sizes up to twice the next power of two of the largest; beyond that a list for larger ones is made. Where a function needs a size itself
(`range(n)`, `math.sqrt(n)`), every shape has a list of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import update_wrapper
from inspect import Parameter, Signature
from typing import Any

from ...devices.once import process_lock
from ...ir.errors import UsageError
from ...ir.kernel import Kernel
from ...log import logger
from ..graph.promotion import numpy_types
from ..graph.source_lines import at, user_line
from ..graph.symbolic_sizes import Var
from ..leaves import array_class, no_matrix
from ..running.current_capture import seen_through
from ..tensor import Tensor
from ..trees import Structure, flatten, tree_map, unflatten
from ..views import overlap
from .compiled_function import CompiledFunction
from .jit import Jitted, LikeFunction
from .jit_options import JitOptions

log = logger("tensor")

MOST_CALLS = 4096
"""Looks of arguments that a function remembers."""
FIRST_RANGE = 1 << 20
"""Elements of an array with a dimension for each symbol: those sizes are in the first range of symbols at least."""

Sizes = tuple[int, ...]
_PLAIN = frozenset({int, float, bool, complex, str})


class _Class:
    """Calls of one class. `seen`: sizes (of all dimensions of all arrays, in order) that made it more general; `symbolic`: whether sizes
    may be symbols; `made`: the function for all sizes since then, with the places of each symbol and their range."""

    def __init__(self) -> None:
        self.seen: list[Sizes] = []
        self.symbolic = True
        self.made: tuple[Jitted, list[tuple[list[int], int]]] | None = None

    def found(self, sizes: Sizes) -> Jitted | None:
        """The function that was made for sizes, if there is one."""
        if self.made is None:
            return None
        free: set[int] = set()
        for places, most in self.made[1]:
            n = sizes[places[0]]
            if n > most or any(sizes[p] != n for p in places):
                return None
            free.update(places)
        return self.made[0] if all(p in free or n == self.seen[0][p] for p, n in enumerate(sizes)) else None

    def groups(self, sizes: Sizes) -> list[tuple[list[int], int]]:
        """(places of equal sizes, the most that they may be) for each symbol, once `sizes` are among those seen."""
        columns: dict[Sizes, list[int]] = {}
        for place, column in enumerate(zip(*self.seen, sizes, strict=True)):
            if len(set(column)) > 1:
                columns.setdefault(column, []).append(place)
        least = int(FIRST_RANGE ** (1 / max(len(columns), 1)))
        return [(places, max(least, 2 << (max(column) - 1).bit_length())) for column, places in columns.items()]


class NumpyJitted(LikeFunction):
    """What `jit(numpy=True)` makes of a function: NumPy arrays in, NumPy arrays out. An argument that the function writes to is
    written to, as NumPy's are."""

    def __init__(self, function: Callable[..., Any], options: JitOptions) -> None:
        self._function, self.options = function, options
        self.name = getattr(function, "__name__", "function")
        self._calls: dict[Any, Jitted] = {}
        self._classes: dict[Any, _Class] = {}
        self._fixed: dict[Structure, Jitted] = {}
        self._all: list[Jitted] = []
        self._writers: set[int] = set()
        self._lock, self._array = process_lock(), array_class()
        self._leaves = _PLAIN | {self._array}
        update_wrapper(self, function, updated=())  # (what a callable object holds is its own)

    def __call__(self, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        if seen_through():
            if out is not None:
                kwargs["out"] = out
            if not any(isinstance(x, Tensor) for x in flatten((args, kwargs))[0]):
                return self._function(*args, **kwargs)
            with numpy_types():
                return Jitted(self._function, self.options)(*args, **kwargs)
        array = self._array
        leaves: Sequence[Any] = args
        structure: Structure | None = None
        if kwargs or not self._leaves.issuperset(map(type, args)):  # (trees, dataclasses among them)
            leaves, structure = flatten((args, kwargs))
        key = (structure, *[(x.dtype, x.shape) if type(x) is array else type(x) for x in leaves])
        made = self._calls.get(key)
        if made is None:
            return self._first(key, leaves, structure or flatten((args, kwargs))[1], out)
        if id(made) in self._writers:
            return self._writing(made, leaves, out)
        if out is not None:
            made(*leaves, out=out)
            return out
        return _result(made(*leaves))

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """A method: the object is an argument that is no array."""
        if instance is None:
            return self
        return update_wrapper(lambda *args, **kwargs: self(instance, *args, **kwargs), self._function)

    def _first(self, key: Any, leaves: Sequence[Any], structure: Structure, out: Any) -> Any:
        """A call with sizes that are new."""
        for x in leaves:
            if type(x) is not self._array:
                no_matrix(x)
        with self._lock:
            looks = tuple((k[0], tuple(min(n, 2) for n in k[1])) if type(k) is tuple else k for k in key[1:])
            family = self._classes.setdefault((structure, looks), _Class())
            sizes = tuple(n for x in leaves if type(x) is self._array for n in x.shape)
            made = family.found(sizes) if family.symbolic else None
            if made is None and family.symbolic and family.seen and (groups := family.groups(sizes)):
                made = self._generalised(family, groups, leaves, structure)
                try:
                    result = self._writing(made, leaves, out)
                except Exception as e:  # it needs a size, or is wrong for these arguments: then the call below raises the same
                    log.debug("%s with symbols for sizes: %s", self.name, e)
                    result = self._writing(self._of(structure), leaves, out)
                    family.symbolic = False
                    return result
                family.seen.append(sizes)
                family.made = made, groups
                self._all.append(made)
                self._keep(key, made)
                return result
            if made is not None:
                self._keep(key, made)
                return self(*leaves, out=out) if key[0] is None else self._writing(made, leaves, out)
            made = self._of(structure)
            result = self._writing(made, leaves, out)
            if not family.seen:
                family.seen.append(sizes)
            self._keep(key, made)
            return result

    def _keep(self, key: Any, made: Jitted) -> None:
        if len(self._calls) >= MOST_CALLS:
            self._calls.clear()
        self._calls[key] = made
        if any(s.kind == "argument" for p in made.programs for s in p.graph.states):
            self._writers.add(id(made))

    def _of(self, structure: Structure) -> Jitted:
        """The function for arguments of a structure, compiled for each shape."""
        if structure not in self._fixed:
            self._fixed[structure] = self._jitted(structure, self.options)
            self._all.append(self._fixed[structure])
        return self._fixed[structure]

    def _generalised(self, family: _Class, groups: list[tuple[list[int], int]], leaves: Sequence[Any], structure: Structure) -> Jitted:
        """The function with a symbol for each group of sizes."""
        at = [(i, d) for i, x in enumerate(leaves) if type(x) is self._array for d in range(x.ndim)]
        symbols: dict[str, dict[int, Any]] = {}
        for count, (places, most) in enumerate(groups):
            n = Var(f"n{count}", 2, most)
            for p in places:
                i, d = at[p]
                symbols.setdefault(f"a{i}", {})[d] = n
        names = tuple(f"a{i}" for i in range(len(leaves)))
        return self._jitted(structure, replace(self.options, numpy=False, symbols=symbols, parameters=names))

    def _jitted(self, structure: Structure, options: JitOptions) -> Jitted:
        """The function of the leaves of its arguments."""
        function = self._function

        def of_leaves(*leaves: Any) -> Any:
            args, kwargs = unflatten(structure, leaves)
            with numpy_types():
                return function(*args, **kwargs)

        update_wrapper(of_leaves, function)
        of_leaves.__signature__ = Signature([Parameter("leaves", Parameter.VAR_POSITIONAL)])  # type: ignore[attr-defined]
        return Jitted(of_leaves, options)

    def _writing(self, made: Jitted, leaves: Sequence[Any], out: Any) -> Any:
        """A call that may write to its arguments."""
        given = [Tensor(x) if type(x) is self._array else x for x in leaves]
        pairs = [(x, t, t.node) for x, t in zip(leaves, given, strict=True) if x is not t]
        found = made(*given) if out is None else made(*given, out=out)
        for n, (a, t, before) in enumerate(pairs):
            if t.node is before:
                continue
            if any(overlap(a, b) for i, (b, _, _) in enumerate(pairs) if i != n):
                what = f"{self.name} updates an array {a.dtype}{list(a.shape)} that has elements of another argument"
                raise UsageError(f"{what}, which would not see the update: pass a copy{at(user_line())}")
        for a, t, before in pairs:
            if t.node is not before:
                a[...] = t.numpy()
        return out if out is not None else _result(found)

    def report(self, measure: bool = False) -> str:
        """A line a kernel, of each list of kernels (`Jitted.report`)."""
        return "\n\n".join(j.report(measure) for j in self._all) or f"{self.name}: not called yet"

    def missing(self) -> list[Kernel]:
        """The kernels without a schedule that was measured for them, for `tilewright.tune`."""
        return [k for j in self._all for k in j.missing()]

    @property
    def programs(self) -> list[CompiledFunction]:
        """What was compiled so far."""
        return [p for j in self._all for p in j.programs]


def _result(found: Any) -> Any:
    """Results as NumPy's arrays, those without dimensions as NumPy's numbers."""
    if isinstance(found, Tensor):
        array = found.numpy()
        return array if array.ndim else array[()]
    kind = type(found)
    if kind is tuple or kind is list:
        return kind(map(_result, found))
    if kind is dict:  # (a tree's leaves are real, so each complex number is looked at before it is one's parts)
        return {k: _result(v) for k, v in found.items()}
    return tree_map(lambda x: _result(x) if isinstance(x, Tensor) else x, found)
