"""Names outside of a captured function that stood for tensors or numbers which it read. A call reads what was captured; where a name
stands for another tensor or number since, that is said once."""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dis import get_instructions
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ...ir.errors import UsageError
from ...plan.array_arguments import address
from ..graph.source_lines import at, user_line
from ..leaves import array_class
from ..ops.complex_numbers import as_reals
from ..running.buffers import BufferCell
from ..tensor import Tensor
from ..trees import Structure, flatten, unflatten
from ..views import overlap

# `out=` of captured functions: results in arrays that the caller has --------------------------------------------------

if TYPE_CHECKING:
    import numpy as np

    from ..running.buffers import BufferSpec

    Array = np.ndarray[Any, Any]


def given_arrays(name: str, out: Any) -> list[Array]:
    """`out` as a list of arrays: one, or a tree of them. Raises UsageError for what is no array that may be written."""
    kind, paired = array_class(), False
    arrays = [out] if type(out) is kind else flatten(out)[0]
    for a in arrays:
        if type(a) is not kind or not a.flags.writeable:
            what = "an array that is read-only" if isinstance(a, kind) else f"a {type(a).__name__}"
            raise UsageError(f"{name}(out=...): {what}; give NumPy arrays that may be written{at(user_line())}")
        if a.dtype.kind == "c":
            paired = True
            if not a.flags.c_contiguous:
                raise UsageError(f"{name}(out=...): a complex array with gaps; give one that is contiguous{at(user_line())}")
    for i, a in enumerate(arrays[1:], 1):
        if any(overlap(a, b) for b in arrays[:i]):
            raise UsageError(f"{name}(out=...): two arrays that share elements, which would keep one result only{at(user_line())}")
    return [as_reals(a) if a.dtype.kind == "c" else a for a in arrays] if paired else arrays


def check_fits(name: str, arrays: Sequence[Array], results: Sequence[Any]) -> None:
    """Raise UsageError where there is not an array of the shape and type of each result (a tensor, or a spec)."""
    if len(arrays) != len(results):
        raise UsageError(f"{name}(out=...): {len(arrays)} arrays for {len(results)} results{at(user_line())}")
    for a, r in zip(arrays, results, strict=True):
        if a.shape != r.shape or a.dtype != r.dtype.np:
            raise UsageError(f"{name}(out=...): an array {a.dtype}{list(a.shape)} for a result {r.dtype}{list(r.shape)}{at(user_line())}")


def copied_into(name: str, result: Any, arrays: Sequence[Array]) -> Any:
    """A result, copied to arrays; the same tree of tensors on them. Raises UsageError."""
    leaves, structure = flatten(result)
    if not all(isinstance(x, Tensor) for x in leaves):
        raise UsageError(f"{name}(out=...): a result is no tensor{at(user_line())}")
    check_fits(name, arrays, leaves)
    found = [x.numpy() for x in leaves]
    import numpy as np

    if any(np.may_share_memory(a, x) for i, a in enumerate(arrays) for j, x in enumerate(found) if i != j):
        found = [x.copy() for x in found]
    for a, x in zip(arrays, found, strict=True):
        a[...] = x
    return tensors_on(arrays, structure)


def tensors_on(arrays: Sequence[Array], structure: Structure) -> Any:
    """Tensors on the memory of arrays (a copy of one with gaps), in a structure."""
    return unflatten(structure, [Tensor.of_array(a) if a.flags.carray else Tensor(a) for a in arrays])


def places_for(arrays: Sequence[Array], specs: Sequence[BufferSpec], read: Iterable[tuple[int, Any]]) -> list[int] | None:
    """Where kernels may write results, whose specs these are: the addresses of the arrays; None where one has gaps or lies in the memory of
    another one, or of what kernels `read`: (address, buffer or array)."""
    places: list[int] = []
    for a in arrays:
        if not a.flags.carray:
            return None
        places.append(address(a))
    for first, b in read:
        end = first + b.nbytes
        for place, spec in zip(places, specs):
            if place < end and first < place + spec.nbytes:
                return None
    if len(places) > 1:
        ordered = sorted((at, at + spec.nbytes) for at, spec in zip(places, specs))
        if any(a[1] > b[0] for a, b in pairwise(ordered)):
            return None
    return places


# bindings -------------------------------------------------------------------------------------------------------------

DEPTH, MOST = 5, 2000
"""How far containers, objects and functions are followed, and how many of them."""
OWN = __name__.split(".tensor.")[0]
NUMBERS = (int, float, bool, complex)


class Bindings:
    """`items`: (what holds a tensor or number, its key there, it, the name that a user knows); `cells`: the same of closures."""

    def __init__(self, name: str, items: list[tuple[Any, Any, Any, str]], cells: list[tuple[types.CellType, Any, str]]) -> None:
        self.name, self.items, self.cells = name, items, cells

    def check(self) -> None:
        """Warn of every name that stands for another tensor, array or number since the capture, once."""
        try:
            for held, key, tensor, _ in self.items:
                if held[key] is not tensor:
                    break
            else:
                for cell, tensor, _ in self.cells:
                    if cell.cell_contents is not tensor:
                        break
                else:
                    return
        except (LookupError, ValueError):  # there is nothing of that name any more
            pass
        self._warn()

    def _warn(self) -> None:
        now = [(text, old, _at(held, key)) for held, key, old, text in self.items] + [
            (text, old, _inside(cell)) for cell, old, text in self.cells
        ]
        changed = {text: old for text, old, new in now if not _same(old, new)}
        # (an equal number may be another object)
        self.items = [(held, key, _at(held, key), text) for held, key, _, text in self.items if text not in changed]
        self.cells = [(cell, _inside(cell), text) for cell, _, text in self.cells if text not in changed]
        file, line = user_line()
        for text, old in changed.items():
            kind, way = ("array" if isinstance(old, array_class()) else "number"), ""
            if isinstance(old, Tensor):
                kind, way = "tensor", f"change a tensor with {text}.assign(...), or "
            warnings.warn_explicit(
                f"{text} is another {kind} than when {self.name} was captured, which still reads the old one: {way}pass it as an argument",
                UserWarning, file, line,
            )  # fmt: skip


def bindings_of(function: Callable[..., Any], name: str, statics: Sequence[Any], closures: Sequence[BufferCell]) -> Bindings | None:
    """The names behind the tensors and arrays from outside that a capture read, in globals, closures, containers and attributes, and behind numbers in
    globals, closures and attributes of objects that it names; None where there are none. `statics`: arguments that are no tensors, such as the object of a method."""
    memory = {c.buffer.address for c in closures if c.buffer.device.startswith("cpu")}
    search = _NameSearch({id(c) for c in closures}, memory, _attributes(function))
    search.function(function, 0)
    for s in statics:
        search.value(s, type(s).__name__, None, None, 0)
    return Bindings(name, search.items, search.cells) if search.items or search.cells else None


class _NameSearch:
    def __init__(self, wanted: set[int], memory: set[int], attributes: set[str]) -> None:
        self.wanted, self.memory, self.attributes = wanted, memory, attributes
        self.items: list[tuple[Any, Any, Any, str]] = []
        self.cells: list[tuple[types.CellType, Any, str]] = []
        self.seen: dict[int, Any] = {}

    def value(self, x: Any, text: str, held: Any, key: Any, depth: int) -> None:
        """Look at a value, which `held` has at `key`."""
        array = isinstance(x, array_class())
        if array or isinstance(x, Tensor):
            cell = None if array else getattr(x.node.data, "cell", None)
            if x.ctypes.data in self.memory if array else cell is not None and id(cell) in self.wanted:
                if isinstance(held, types.CellType):
                    self.cells.append((held, x, text))
                elif held is not None and not isinstance(held, tuple):
                    self.items.append((held, key, x, text))
            return
        if depth > DEPTH or id(x) in self.seen or len(self.seen) > MOST or isinstance(x, (str, bytes, int, float, type)):
            return
        self.seen[id(x)] = x
        if isinstance(x, dict):
            for k, v in list(x.items()):
                self.value(v, f"{text}[{k!r}]", x, k, depth + 1)
        elif isinstance(x, (list, tuple)):
            for i, v in enumerate(x):
                self.value(v, f"{text}[{i}]", x, i, depth + 1)
        elif callable(x) and hasattr(x, "__wrapped__"):
            self.function(x.__wrapped__, depth + 1)
        elif isinstance(x, (types.FunctionType, types.MethodType)):
            self.function(x, depth + 1)
        elif isinstance(getattr(x, "__dict__", None), dict) and not isinstance(x, types.ModuleType):
            for k, v in list(vars(x).items()):
                if type(v) in NUMBERS and k in self.attributes and depth <= 1:
                    self.items.append((vars(x), k, v, f"{text}.{k}"))
                self.value(v, f"{text}.{k}", vars(x), k, depth + 1)

    def function(self, f: Any, depth: int) -> None:
        """Look at the globals that a function names, and at its closure."""
        if isinstance(f, types.MethodType):
            self.value(f.__self__, type(f.__self__).__name__, None, None, depth)
            f = f.__func__
        if hasattr(f, "func") and hasattr(f, "args"):  # functools.partial
            self.value(f.args, "args", None, None, depth)
            f = f.func
        if hasattr(f, "__wrapped__"):
            self.function(f.__wrapped__, depth)
        if not isinstance(f, types.FunctionType) or str(f.__globals__.get("__name__")).split(".")[0] == OWN:
            return
        names = set(_names(f.__code__))
        read = {i.argval for i in get_instructions(f.__code__) if i.opname == "LOAD_GLOBAL"} if depth <= 1 else set()
        for n in sorted(names & f.__globals__.keys()):
            found = f.__globals__[n]
            if type(found) in NUMBERS and n in read:
                self.items.append((f.__globals__, n, found, n))
            self.value(found, n, f.__globals__, n, depth)
            if isinstance(found, types.ModuleType):
                for m in sorted(names & vars(found).keys()):
                    if isinstance(vars(found)[m], (Tensor, dict, list)):
                        self.value(vars(found)[m], f"{n}.{m}", vars(found), m, depth + 1)
        for n, cell in zip(f.__code__.co_freevars, f.__closure__ or ()):
            if type(_inside(cell)) in NUMBERS and depth <= 1:
                self.cells.append((cell, _inside(cell), n))
            self.value(_inside(cell), n, cell, None, depth)


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            yield from _names(c)


def _attributes(f: Any) -> set[str]:
    """The attributes that a function reads, by name."""
    f = getattr(f, "func", f)  # (functools.partial)
    f = getattr(f, "__func__", getattr(f, "__wrapped__", f))
    return {i.argval for i in get_instructions(f.__code__) if i.opname in ("LOAD_ATTR", "LOAD_METHOD")} if hasattr(f, "__code__") else set()


def _same(old: Any, new: Any) -> bool:
    """Whether a name stands for what it stood for: a tensor, or an equal number."""
    return old is new or (type(old) is type(new) and type(old) in NUMBERS and repr(old) == repr(new))


def _at(held: Any, key: Any) -> Any:
    try:
        return held[key]
    except LookupError:
        return None


def _inside(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return None
