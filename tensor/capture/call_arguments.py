"""Arguments of captured functions: which are tensors, which are numbers, which are neither; and what equal calls share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...ir.errors import UsageError
from ...ir.node import Node
from ..graph.index_maps import Shape
from ..graph.source_lines import at, user_line
from ..leaves import array_class, gpu_of, lent, of_others
from ..running.buffers import TensorBuffer
from ..tensor import Tensor
from ..trees import Structure, unflatten

NUMBERS = (int, float)


@dataclass(frozen=True)
class Static:
    """An argument that is no tensor and no number, known by its value where it has one and else by itself."""

    value: Any

    def __hash__(self) -> int:
        try:
            return hash(self.value)
        except TypeError:
            return id(self.value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Static):
            return NotImplemented
        a, b = self.value, other.value
        return a is b or (type(a) is type(b) and _hashable(a) and bool(a == b))


def _hashable(x: Any) -> bool:
    try:
        hash(x)
    except TypeError:
        return False
    return True


@dataclass(frozen=True)
class CallLayout:
    """How a call's arguments are made of tensors, numbers and static values: equal for calls that differ in numbers and in
    the values of tensors only. `kinds`: a leaf each, a tensor's BufferKind, the type of a number, or Static."""

    structure: Structure
    kinds: tuple[Any, ...]

    def rebuilt(self, tensors: Sequence[Any], numbers: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments with these tensors and numbers."""
        t, n = iter(tensors), iter(numbers)
        leaves = [k.value if k.__class__ is Static else next(n) if k.__class__ is type else next(t) for k in self.kinds]
        args, kwargs = unflatten(self.structure, leaves)
        return args, kwargs


@dataclass(slots=True)
class Arguments:
    """One call's: `tensors` as they were given, their memory, and the numbers. `shapes`: those that the tensors are captured
    with, where sizes are symbolic; `values`: of the symbols."""

    layout: CallLayout
    tensors: list[Tensor]
    buffers: list[TensorBuffer]
    numbers: tuple[int | float, ...]
    shapes: tuple[Shape, ...] | None = None
    values: Mapping[Node, int] = field(default_factory=dict)


def read(leaves: Sequence[Any], structure: Structure, device: str | None) -> Arguments:
    """Read a call's arguments. Lazy tensors are computed now. NumPy arrays, of subclasses too, and memoryviews become tensors on
    their memory. Raises UsageError for masked arrays, and for what may change between calls and would not be looked at again."""
    tensors: list[Tensor] = []
    numbers: list[int | float] = []
    kinds: list[Any] = []
    for x in leaves:
        if is_array(x):
            x = Tensor(x, device=device or "cpu")
        if isinstance(x, Tensor):
            tensors.append(x)
            kinds.append(memory(x).kind)
        elif type(x) in NUMBERS:
            numbers.append(x)
            kinds.append(type(x))
        else:
            _refuse(x)
            kinds.append(Static(x))
    return Arguments(CallLayout(structure, tuple(kinds)), tensors, [memory(t) for t in tensors], tuple(numbers))


def taken(x: Any, device: str | None) -> Any:
    """An argument, as a tensor where another library's object is or becomes an array (PyTorch's tensors, data frames): on its memory where that is
    row-major, or in a GPU's. Raises UsageError for arrays of other things than numbers."""
    if isinstance(x, Tensor) or is_array(x):
        return x
    if gpu := gpu_of(x):
        return Tensor.of(lent(x, device or gpu), device or gpu)
    return Tensor(x, device=device or "cpu") if of_others(x) else x


def _refuse(x: Any) -> None:
    """Raise UsageError for what would stay as it was at the first call."""
    if isinstance(x, (set, bytearray)):
        frozen = "frozenset" if isinstance(x, set) else "bytes"
        raise UsageError(f"a {type(x).__name__} as an argument may change between calls: pass a {frozen} of it{at(user_line())}")
    if type(x).__module__.startswith("scipy.sparse"):
        raise UsageError(f"a {type(x).__name__} of SciPy as an argument: pass tilewright.sparse.CSR(A){at(user_line())}")


def memory(x: Tensor) -> TensorBuffer:
    """A tensor's memory, computed now where it has none. Raises UsageError where it has none any more."""
    made: TensorBuffer = x.node.data or x.computed().data  # (another thread may update it meanwhile)
    if made.gone:
        raise UsageError(made.gone + at(user_line()))
    return made


def is_array(x: Any) -> bool:
    """Whether an argument that is no tensor becomes one: NumPy's arrays and numbers, and memoryviews."""
    return isinstance(x, (memoryview, array_class())) or (type(x).__module__ == "numpy" and hasattr(x, "__array_interface__"))
