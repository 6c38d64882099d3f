"""Tensors of complex numbers: a tensor whose node is real, with a last dimension of 2 for the parts, as NumPy's memory has them.

So fusion, kernels, captured functions, assignment and gradients know nothing of complex numbers: they see real nodes. Functions of tensors get
pairs of real nodes instead (`ops.complex_numbers`); the parts that a tensor was made of are kept beside its node until it has values."""

from __future__ import annotations

from collections.abc import Iterator
from types import EllipsisType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ...ir.dtypes import DType
from ...ir.errors import UsageError
from ..graph.promotion import dtype_of
from ..graph.source_lines import at, user_line
from ..leaves import array_class
from ..lift import lifted, lowered
from ..ops import indexing as I
from ..ops.complex_numbers import COMPLEX, ComplexParts, apart, as_complex, astype, both, interleaved
from ..ops.movement import broadcast_to
from ..running.assignment import lock_of
from ..running.buffers import TYPES
from ..running.current_capture import thread
from ..running.numpy_evaluation import kernels_only
from ..tensor import Tensor
from ..trees import CONTAINERS
from ..views import Sliced, at_once, basic, is_part, link, pythons, write, written

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


class ComplexTensor(Tensor):
    """What `Tensor` is of complex data. Slices, parts and moved dimensions write through. Gradients are those of the parts: of a real loss L
    with respect to x + iy, dL/dx + i dL/dy."""

    __slots__ = ()
    __hash__ = Tensor.__hash__
    complex_class: ClassVar[bool] = True

    @classmethod
    def of_pair(cls, pair: ComplexParts, device: str) -> Self:
        """A tensor of parts."""
        made = cls.of(interleaved(pair), device)
        made.planes = made.node, pair
        return made

    @property
    def pair(self) -> ComplexParts:
        """Its parts."""
        node = self.node
        known = getattr(self, "planes", None)
        if known is None or known[0] is not node:
            known = self.planes = node, apart(node)
        found: ComplexParts = known[1]
        return found

    @property
    def reals(self) -> Tensor:
        """A real tensor with the parts in a last dimension of 2."""
        return Tensor.of(self.node, self.device)

    @classmethod
    def of_reals(cls, reals: Tensor) -> Any:
        """The complex tensor of a real one with a last dimension of 2, or the complex array of a real one. (Where trees hold something
        else in the place of a tensor, that.)"""
        if isinstance(reals, Tensor):
            return cls.of(reals.node, reals.device)
        return as_complex(reals) if isinstance(reals, array_class()) else reals

    # what it is ---------------------------------------------------------------------------------------------------
    @property
    def shape(self) -> Any:
        """Its extents."""
        return (self.node if self.known is None else self.known).shape[:-1]

    @property
    def dtype(self) -> DType:
        """complex64 or complex128."""
        return COMPLEX[self.node.dtype if self.known is None else TYPES[self.known.dtype.num]]

    @property
    def ndim(self) -> int:
        """Dimensions."""
        return len(self.shape)

    def _values(self) -> Array:
        return as_complex(self._memory())

    def copy(self, order: str = "C") -> Tensor:
        """The same values in memory of their own."""
        known = self.known
        if known is not None and thread.capture is None:
            return type(self).of_array(known.copy())
        viewing = self.links is not None and self.links.base is not None and thread.capture is None
        reals = Tensor.of(self.computed(), self.device) if viewing else self.reals
        return type(self).of(reals.copy().node, self.device)

    def view(self, *shape: Any) -> Tensor:
        """`Tensor.view`."""
        if len(shape) != 1 or not self.shape or COMPLEX.get(_type_or_none(shape[0])) is not self.dtype:
            return super().view(*shape)
        parts: Tensor = self.reals.reshape(*self.shape[:-1], 2 * self.shape[-1])
        return parts

    def to_device(self, device: str, /, *, stream: Any = None) -> Any:
        """The same values on another device."""
        return self if device == self.device else type(self).of(self.reals.to_device(device, stream=stream).node, device)

    to = to_device

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Raises UsageError: `tw.grad` gives gradients with respect to complex arguments."""
        raise UsageError(f"requires_grad of {self.dtype}: use tw.grad of a function of it, or gradients of its parts{at(user_line())}")

    # parts and writes ---------------------------------------------------------------------------------------------
    def __getitem__(self, key: Any) -> Tensor:
        key = pythons(key)
        known = self.known
        found = None if known is None or kernels_only() or thread.capture is not None else _pairs_at(known, key)
        part: Tensor = _getitem(self, key) if found is None else type(self).of_array(found)
        if is_part(key, self.ndim):
            link(part, self, Sliced(_of_node(key)))
        return part

    def __setitem__(self, key: Any, value: Any) -> None:
        links = value.links if isinstance(value, Tensor) else None
        if links is not None and links.base is self and type(links.place) is Sliced and links.place.key == _of_node(key):
            return  # x[key] += y: the part was written to already
        value = Tensor(value) if isinstance(value, list) else value
        with lock_of(self):
            if not (at_once(self) and written(self, key, value)):
                write(self, interleaved(_setitem(self.pair, lowered(key, []), lowered(_tensor(value), []))))

    def assign(self, value: Any) -> Any:
        """Give this tensor other values, broadcast to its shape."""
        x: Any = astype(lowered(Tensor(value, self.dtype) if isinstance(value, (int, float, complex)) else _tensor(value), []), self.dtype)
        write(self, interleaved(ComplexParts(broadcast_to(x.re, self.shape), broadcast_to(x.im, self.shape))))
        return self

    def __iter__(self) -> Iterator[Tensor]:
        if not self.shape:
            raise TypeError("a tensor without dimensions cannot be iterated over")
        return map(self.__getitem__, range(self.shape[0]))


def _pairs_at(known: Array, key: Any) -> Array | None:
    """The pairs that a key of numbers and slices names, without gaps; None for other keys."""
    if not basic(key) or sum(k is not None and k is not Ellipsis for k in (key if type(key) is tuple else (key,))) >= known.ndim:
        return None
    try:
        found: Array = known[_of_node(key)]
    except (IndexError, ValueError):
        return None
    return (found if is_part(key, known.ndim - 1) else found.copy()) if found.flags.c_contiguous else None


def _type_or_none(x: Any) -> Any:
    return dtype_of(x) if isinstance(x, (type, str)) or hasattr(x, "kind") else None


def _of_node(key: Any) -> Any:
    """A key of slices and numbers as one of the node, whose last dimension is whole."""
    items = key if type(key) is tuple else (key,)
    return (*items, slice(None)) if any(type(k) is EllipsisType for k in items) else key


def _tensor(value: Any) -> Any:
    return value if isinstance(value, (Tensor, int, float, complex)) else Tensor(value)


_getitem = lifted(I.getitem)
_setitem = both(I.setitem, 0, 2)
CONTAINERS[ComplexTensor] = (lambda t: t.reals, ComplexTensor.of_reals)
