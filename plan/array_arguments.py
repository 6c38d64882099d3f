"""Checks of the arrays a kernel is called with, and the values of its symbols taken from their shapes."""

from __future__ import annotations

import operator
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from ctypes import addressof, c_char
from itertools import count
from math import prod
from operator import index
from typing import TYPE_CHECKING, Any

from ..ir.buffer import Buffer
from ..ir.dtypes import DType
from ..ir.dtypes import dtype as dtype_of
from ..ir.errors import KernelError, UsageError
from ..ir.index import evaluate
from ..ir.kernel import Kernel
from ..ir.node import Node, walk
from ..targets.free_memory import require_room

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


LINE = 64
SMALL = 1 << 14
"""Bytes below which it does not matter, and NumPy alone is quicker."""


def masked(x: Any) -> bool:
    """Whether it is one of NumPy's masked arrays. There is none before their module is loaded, which would be new to most programs."""
    return isinstance(x, getattr(sys.modules.get("numpy.ma"), "MaskedArray", ()))


PAGE = 4096
_PLACES = count(step=17 * LINE)
"""Where arrays begin in a page, one after the other. Processors compare accesses by their places in a page first, and an allocator places all
large arrays alike."""


def empty(shape: int | Sequence[int], dtype: Any = "float32") -> Array:
    """An uninitialised row-major array that begins at a multiple of 64 bytes. NumPy's own large arrays begin 16 bytes
    into a line: every whole vector of them lies on two, and stores past the caches are not possible. That costs
    little where memory is waited for, a tenth in caches and half or more of a transpose. `dtype`: what `numpy.dtype`
    takes, an element type, or a name such as "bfloat16"."""
    import numpy as np

    kind = _type(dtype)
    shape = tuple(map(index, shape)) if isinstance(shape, Sequence) else (index(shape),)
    size = prod(shape) * kind.itemsize
    if size < SMALL or min(shape) < 0:
        return np.empty(shape, kind)
    require_room(size, f"an array of {size} bytes")
    room = np.empty(size + LINE + PAGE, np.uint8)
    start = -room.__array_interface__["data"][0] % LINE + next(_PLACES) % PAGE
    return room[start : start + size].view(kind).reshape(shape)


def _type(dtype: Any) -> np.dtype[Any]:
    import numpy as np

    if isinstance(dtype, DType):
        return dtype.np
    if not isinstance(dtype, str):
        given: np.dtype[Any] = np.dtype(dtype)
        return given
    try:
        named: np.dtype[Any] = dtype_of(dtype).np
        return named
    except KernelError:
        with suppress(TypeError):
            return np.dtype(dtype)  # "f4", "double"
        raise


from_buffer = c_char.from_buffer
_ADDED = 2
"""What `dtype.isbuiltin` is of a type that NumPy does not know by itself, such as bfloat16: the buffer protocol has none of them."""


class Binder:
    """Knows a kernel's parameters; turns arrays into addresses or says what is wrong with them (UsageError)."""

    def __init__(self, kernel: Kernel, symbols: Sequence[str]) -> None:
        import numpy as np

        self.kernel = kernel
        self.inputs, self.outputs = kernel.inputs, kernel.outputs
        self.dtypes = [b.dtype.np for b in kernel.buffers]
        self._by_name = {s.arg.name: s for s in kernel.symbols}
        self.symbols = tuple(self._by_name[n] for n in symbols)
        self._static = None if kernel.symbols else tuple(shape_of(b, {}) for b in kernel.buffers)
        bytes_ = [prod(s) * d.itemsize for s, d in zip(self._static or (), self.dtypes)][len(self.inputs) :]
        self._makers = [np.empty if n < SMALL else empty for n in bytes_] or [empty] * len(self.outputs)

        self._kinds = frozenset({np.ndarray})
        self._plain = all(d.isbuiltin != _ADDED for d in self.dtypes)
        self._input_dtypes = self.dtypes[: len(self.inputs)]
        self._unaligned = max((d.alignment for d in self.dtypes), default=1) - 1
        first = len(self.inputs)
        names = [b.name for b in kernel.buffers]
        self.pairs = [(i, j, names[j] == kernel.buffers[i].alias) for i in range(first, len(names)) for j in range(i)]

    def usage(self) -> str:
        """How to call it, e.g. `matmul(a, b, out=c)`."""
        outs = ", ".join(b.name for b in self.outputs)
        return f"{self.kernel.name}({', '.join(b.name for b in self.inputs)}, out={f'({outs})' if len(self.outputs) > 1 else outs})"

    def values(self, inputs: Sequence[Any], outs: Sequence[Any] | None, given: Mapping[str, int]) -> dict[Node, int]:
        """The value of every symbol: from the shapes, else from `given` keywords."""
        known: dict[Node, int] = {}
        if self._static is not None and not given:
            return known
        for name, value in given.items():
            if name not in self._by_name:
                raise UsageError(f"{self.kernel.name} has no symbol {name!r} (symbols: {', '.join(self._by_name) or 'none'})")
            try:
                known[self._by_name[name]] = operator.index(value)
            except TypeError:
                raise UsageError(f"{self.kernel.name}: {name} must be a whole number, not {value!r}") from None
        arrays = [*zip(self.inputs, inputs, strict=True), *(zip(self.outputs, outs, strict=True) if outs is not None else ())]
        for buffer, array in arrays:
            if array.ndim != len(buffer.shape):
                raise UsageError(
                    f"{self.usage()}: {buffer.name} has {array.ndim} dimensions, it must have {len(buffer.shape)}: {list(buffer.shape)}"
                )
            for position, dim in enumerate(buffer.shape):
                if isinstance(dim, Node) and not _solve(dim, array.shape[position], known):
                    raise UsageError(
                        f"{self.usage()}: {buffer.name} has shape {array.shape}, but its extent {position} is {dim!r}, which is never {array.shape[position]}"
                    )
        for name, s in self._by_name.items():
            if s not in known:
                raise UsageError(
                    f"the value of {name} does not follow from the shapes of the arrays: give it, as in {self.kernel.name}(..., {name}=16)"
                )
            if not s.arg.lo <= known[s] <= s.arg.hi:
                raise UsageError(
                    f"{self.kernel.name}: {name} is {known[s]}, outside of the range {s.arg.lo} .. {s.arg.hi} it was compiled for"
                )
        return known

    def outs(self, out: Any) -> tuple[Array, ...] | None:
        """`out=` as one array for each output; None where it was not given."""
        if out is None:
            return None
        outs = tuple(out) if isinstance(out, (tuple, list)) else (out,)
        if len(outs) != len(self.outputs):
            raise UsageError(f"{self.usage()}: out= takes {len(self.outputs)} array{'s' * (len(self.outputs) != 1)}, not {len(outs)}")
        return outs

    def check(self, inputs: Sequence[Any], outs: Sequence[Any] | None) -> None:
        """Count and types, before anything is asked of the arrays."""
        import numpy as np

        if len(inputs) != len(self.inputs):
            raise UsageError(f"{self.usage()} takes {len(self.inputs)} input array{'s' * (len(self.inputs) != 1)}, not {len(inputs)}")
        for buffer, a in [*zip(self.inputs, inputs, strict=True), *zip(self.outputs, outs or (), strict=False)]:
            if not isinstance(a, np.ndarray) or isinstance(a, np.matrix) or masked(a):
                library = type(a).__module__.partition(".")[0]
                kind = f"{library}.{type(a).__name__}" if library in ("torch", "jaxlib", "cupy") else type(a).__name__
                raise UsageError(
                    f"{self.usage()}: {buffer.name} is a {kind}; pass a NumPy array, numpy.ascontiguousarray(x, {buffer.dtype.name!r})"
                )

    def fast_addresses(self, arrays: Sequence[Any], sizes: Sequence[int]) -> list[int] | None:
        """The addresses of arrays that have the right shapes (inputs, or inputs and outputs), after every other check;
        None where something is wrong or odd, which `check` and `addresses` then look at. `sizes`: bytes of each parameter."""
        given = len(arrays) > len(self.inputs)
        if not self._kinds.issuperset(map(type, arrays)) or [a.dtype for a in arrays] != (self.dtypes if given else self._input_dtypes):
            return None
        try:
            found = [addressof(from_buffer(a)) for a in arrays] if self._plain else [_buffer_address(a) for a in arrays]
        except (TypeError, ValueError, BufferError):  # read-only, not contiguous or empty
            if not all(a.flags.c_contiguous for a in arrays) or not all(a.flags.writeable for a in arrays[len(self.inputs) :]):
                return None
            found = [address(a) for a in arrays]
        bits = 0
        for at in found:
            bits |= at
        if bits & self._unaligned:
            return None
        if given:
            for i, j, same in self.pairs:
                if found[i] < found[j] + sizes[j] and found[j] < found[i] + sizes[i] and not (same and found[i] == found[j]):
                    return None
        return found

    def of_looks(
        self, looks: Sequence[tuple[tuple[int, ...] | None, Any, int]], inputs: int, outs: bool, given: Mapping[str, int]
    ) -> tuple[dict[Node, int], tuple[int, ...]]:
        """The values of symbols for arrays in a device's memory (`DeviceArrays.looks`), after the checks that can be made there; those
        without a shape need enough bytes."""
        if inputs != len(self.inputs):
            raise UsageError(f"{self.usage()} takes {len(self.inputs)} input array{'s' * (len(self.inputs) != 1)}, not {inputs}")
        if any(shape is None for shape, _, _ in looks) and self._static is None:
            raise UsageError(f"{self.usage()} has sizes that follow from shapes, and a buffer has none: pass pyopencl.array.Array")
        shown = [_KnownShape(s if s is not None else t) for (s, _, _), t in zip(looks, self._static or [()] * len(looks))]
        env = self.values(shown[:inputs], shown[inputs:] if outs else None, given)
        for buffer, dtype, (shape, kind, nbytes), want in zip(self.kernel.buffers, self.dtypes, looks, self.shapes(env)):
            if kind is not None and kind != dtype:
                raise UsageError(
                    f"{self.usage()}: {buffer.name} is {kind}, it must be {buffer.dtype.name}; convert it with .astype({str(dtype)!r})"
                )
            if shape is not None and shape != want:
                raise UsageError(f"{self.usage()}: {buffer.name} has shape {shape}, it must be {want}")
            if nbytes < prod(want) * dtype.itemsize:
                raise UsageError(f"{self.usage()}: {buffer.name} has {nbytes} bytes, it must have {prod(want) * dtype.itemsize}")
        return env, tuple(env[s] for s in self.symbols)

    def shapes(self, env: Mapping[Node, int]) -> tuple[tuple[int, ...], ...]:
        """The shape of every parameter."""
        return self._static or tuple(shape_of(b, env) for b in self.kernel.buffers)

    def allocate(self, shapes: Sequence[tuple[int, ...]]) -> tuple[Array, ...]:
        """Fresh outputs of these shapes."""
        return tuple(make(s, d) for make, s, d in zip(self._makers, shapes, self.dtypes[len(self.inputs) :]))

    def addresses(self, arrays: Sequence[Array], shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        """One address for each parameter, after every check."""
        spans: list[tuple[int, int]] = []
        for buffer, dtype, a, want in zip(self.kernel.buffers, self.dtypes, arrays, shapes, strict=True):
            if a.dtype != dtype:
                raise UsageError(
                    f"{self.usage()}: {buffer.name} is {a.dtype}, it must be {buffer.dtype.name}; convert it with .astype({str(dtype)!r})"
                )
            if a.shape != want:
                raise UsageError(f"{self.usage()}: {buffer.name} has shape {a.shape}, it must be {want}")
            if not a.flags.c_contiguous:
                fix = "numpy.ascontiguousarray(x)" if buffer.role == "in" else "a new array from tilewright.empty"
                raise UsageError(f"{self.usage()}: {buffer.name} is not contiguous in row-major order (strides {a.strides}); pass {fix}")
            if buffer.role == "out" and not a.flags.writeable:
                raise UsageError(f"{self.usage()}: {buffer.name} is read-only; pass a writable array as out=")
            at = address(a)
            if at % dtype.alignment:
                raise UsageError(
                    f"{self.usage()}: {buffer.name} does not begin at a multiple of {dtype.alignment} bytes; pass a copy, x.copy()"
                )
            spans.append((at, at + a.nbytes))
        for i, j, same in self.pairs:
            if spans[i][0] < spans[j][1] and spans[j][0] < spans[i][1] and not (same and spans[i] == spans[j]):
                names = self.kernel.buffers[i].name, self.kernel.buffers[j].name
                fix = f"pass {names[1]} itself as out=, or" if same else "pass"
                raise UsageError(f"{self.usage()}: output {names[0]} overlaps {names[1]} in memory; {fix} an out= array of its own")
        return tuple(at for at, _ in spans)


class _KnownShape:
    """An array of which only the shape is known."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape, self.ndim = shape, len(shape)


def viewed(arrays: Sequence[Any]) -> tuple[Any, ...]:
    """Memoryviews as arrays on their memory; anything else as it is."""
    import numpy as np

    return tuple(np.asarray(a) if isinstance(a, memoryview) else a for a in arrays)


def _buffer_address(a: Any) -> int:
    """Where an array's memory begins, for one that can be written, is contiguous and is not empty; another raises."""
    return addressof(from_buffer(a.view(f"u{a.itemsize}") if a.dtype.isbuiltin == _ADDED else a))


def address(a: Any) -> int:
    """Where an array's memory begins."""
    try:
        return _buffer_address(a)
    except (TypeError, ValueError, BufferError):  # read-only, not contiguous or empty
        at: int = a.__array_interface__["data"][0]
        return at


def shape_of(buffer: Buffer, env: Mapping[Node, int]) -> tuple[int, ...]:
    """A buffer's shape with symbols replaced by their values."""
    table = dict(env)
    return tuple(evaluate(d, table) if isinstance(d, Node) else d for d in buffer.shape)


def _solve(dim: Node, size: int, known: dict[Node, int]) -> bool:
    """Add the symbol of `dim` = `size` where it is the only unknown and appears linearly; False where no value of it fits. (What
    contradicts symbols that are known is found by comparing shapes.)"""
    unknown = [n for n in walk(dim) if n.op == "sym" and n not in known]
    if len(unknown) != 1:
        return True
    s = unknown[0]
    at = [evaluate(dim, {**known, s: v}) for v in (0, 1, 2)]
    slope = at[1] - at[0]
    if slope == 0 or at[2] - at[1] != slope:
        return True
    value, rest = divmod(size - at[0], slope)
    if rest or value < 0:
        return False
    if evaluate(dim, {**known, s: value}) == size:
        known[s] = value
    return True
