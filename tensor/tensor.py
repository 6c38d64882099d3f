"""Tensor: a handle on a node, with NumPy's ways. Nothing is computed before a value is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from operator import mul
from typing import Any, cast

from ..ir.dtypes import DType
from ..ir.errors import UsageError
from .elements import chosen, element, known_item, stored
from .frontends import moved as V
from .frontends.einops_backend import register
from .frontends.habits import answered
from .frontends.numpy_functions import array_function, array_ufunc, reduction, rounded_to
from .given_arrays import copy_later, through
from .graph.nodes import Mark, Slot, make
from .graph.primitives import as_typed, marked
from .graph.promotion import dtype_of
from .graph.source_lines import at, user_line
from .handle import TensorHandle, node_of
from .leaves import leaf
from .lift import all_lifted, in_place, lifted, operator
from .ops import complex_numbers as Z
from .ops import elementwise as E
from .ops import indexing as I
from .ops import joining as J
from .ops import linalg as L
from .ops import movement as M
from .ops import neural as A
from .ops import reduction as R
from .ops import sorting as S
from .ops.creation import tril, triu
from .running import buffers
from .running.assignment import lock_of
from .running.current_capture import current, thread
from .trees import Structure, flatten, unflatten
from .views import Sliced, at_once, flattened, is_part, link, pythons, write, written

as_node = node_of


def _clip(x: Any, min: Any = None, max: Any = None) -> Any:
    """Kept in [min, max]."""
    return E.clip(x, min, max)


class Tensor(TensorHandle):
    """An array of one type on one device, computed when it is needed.

    `data`: a NumPy array (used where it lies if it is row-major), a list, or a number; floats of lists become float32.
    `range`: the inclusive range of an integer tensor's elements, checked here; gathers by it need no clamping.

    In-place operators and `x[key] = value` change this tensor, its parts (slices) and what it is a part of, as in NumPy; what was
    computed of the old values stays as it was."""

    __slots__ = ()
    __hash__ = TensorHandle.__hash__

    # operators ----------------------------------------------------------------------------------------------------
    __add__, __radd__, __iadd__ = operator(E.add), operator(E.add, True), in_place(E.add)
    __sub__, __rsub__, __isub__ = operator(E.subtract), operator(E.subtract, True), in_place(E.subtract)
    __mul__, __rmul__, __imul__ = operator(E.multiply), operator(E.multiply, True), in_place(E.multiply)
    __truediv__, __rtruediv__, __itruediv__ = operator(E.divide), operator(E.divide, True), in_place(E.divide)
    __floordiv__, __rfloordiv__, __ifloordiv__ = operator(E.floor_divide), operator(E.floor_divide, True), in_place(E.floor_divide)
    __mod__, __rmod__, __imod__ = operator(E.remainder), operator(E.remainder, True), in_place(E.remainder)
    __pow__, __rpow__, __ipow__ = operator(E.power), operator(E.power, True), in_place(E.power)
    __matmul__, __rmatmul__, __imatmul__ = operator(L.matmul), operator(L.matmul, True), in_place(L.matmul)
    __and__, __rand__, __iand__ = operator(E.bitwise_and), operator(E.bitwise_and, True), in_place(E.bitwise_and)
    __or__, __ror__, __ior__ = operator(E.bitwise_or), operator(E.bitwise_or, True), in_place(E.bitwise_or)
    __xor__, __rxor__, __ixor__ = operator(E.bitwise_xor), operator(E.bitwise_xor, True), in_place(E.bitwise_xor)
    __lshift__, __rlshift__ = operator(E.bitwise_left_shift), operator(E.bitwise_left_shift, True)
    __rshift__, __rrshift__ = operator(E.bitwise_right_shift), operator(E.bitwise_right_shift, True)
    __ilshift__, __irshift__ = in_place(E.bitwise_left_shift), in_place(E.bitwise_right_shift)
    __lt__, __le__, __gt__, __ge__ = operator(E.less), operator(E.less_equal), operator(E.greater), operator(E.greater_equal)
    __eq__, __ne__ = operator(E.equal), operator(E.not_equal)
    __neg__, __pos__, __abs__ = lifted(E.negative), lifted(E.positive), lifted(E.absolute)
    __invert__ = lifted(E.bitwise_invert)

    def __getitem__(self, key: Any) -> Tensor:
        known: Tensor | None = known_item(self, key)
        if known is not None:
            return known
        if type(key) is Tensor or (type(key) is tuple and Tensor in map(type, key)):
            known = chosen(self, key)
            return known if known is not None else cast(Tensor, _getitem(self, key))
        key = pythons(key)
        if is_part(key, len(self.shape)):
            part: Tensor = _getitem(self, key)
            link(part, self, Sliced(key))
            return part
        found: Tensor | None = element(self, key) if self.known is None and type(key) in (int, tuple) and at_once(self) else None
        return found if found is not None else _getitem(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        if stored(self, key, value):
            return
        links = value.links if isinstance(value, Tensor) else None
        if links is not None and links.base is self and type(links.place) is Sliced and links.place.key == key:
            return  # x[key] += y: the part was written to already
        if isinstance(value, list):
            listed = Tensor(value)
            value = Tensor(value, dtype=self.dtype) if listed.dtype.is_int and self.dtype.is_int else listed
        with lock_of(self):
            if not (at_once(self) and written(self, key, value)):
                write(self, _setitem(self, key, value).node)

    def __iter__(self) -> Iterator[Tensor]:
        if not self.shape:
            raise TypeError("a tensor without dimensions cannot be iterated over")
        if thread.capture is not None or thread.batches:
            return map(self.__getitem__, range(len(self)))
        return _parts(self)

    # elementwise --------------------------------------------------------------------------------------------------
    clip, pow = lifted(_clip, E.clip), lifted(E.power)
    abs, sign, square, reciprocal = lifted(E.absolute), lifted(E.sign), lifted(E.square), lifted(E.reciprocal)
    maximum, minimum = lifted(E.maximum), lifted(E.minimum)
    floor, ceil, trunc = lifted(E.floor), lifted(E.ceil), lifted(E.trunc)
    round = rounded_to
    exp, exp2, expm1, log, log1p, log2, log10 = all_lifted(E.exp, E.exp2, E.expm1, E.log, E.log1p, E.log2, E.log10)
    sqrt, rsqrt, erf = lifted(E.sqrt), lifted(E.rsqrt), lifted(E.erf)
    sin, cos, tan, asin, acos, atan = all_lifted(E.sin, E.cos, E.tan, E.asin, E.acos, E.atan)
    sinh, cosh, tanh, asinh, acosh, atanh = all_lifted(E.sinh, E.cosh, E.tanh, E.asinh, E.acosh, E.atanh)
    isnan, isinf, isfinite = lifted(E.isnan), lifted(E.isinf), lifted(E.isfinite)
    logical_not = lifted(E.logical_not)
    relu, gelu, silu, sigmoid, softplus, elu = all_lifted(A.relu, A.gelu, A.silu, E.sigmoid, A.softplus, A.elu)
    leaky_relu, mish, hardswish, softsign = all_lifted(A.leaky_relu, A.mish, A.hardswish, A.softsign)

    def astype(self, dtype: Any, copy: bool = True) -> Tensor:
        """Converted to another type, in memory of its own unless `copy` is False. What is computed in a wider type is rounded, also to its
        own."""
        if dtype_of(dtype) is not self.dtype or (self.dtype.narrow and self.known is None and as_typed(self.node) is not self.node):
            out: Tensor = _astype(self, dtype)
            return out
        if not copy:
            return self
        return self.copy()

    # movement -----------------------------------------------------------------------------------------------------
    reshape, permute, expand = V.reshape, V.permute, V.expand
    transpose, broadcast_to = permute, expand
    swapaxes, moveaxis, squeeze = V.swapaxes, V.moveaxis, V.squeeze
    flip, unstack, split, diagonal = V.flip, lifted(M.unstack), lifted(M.split), lifted(M.diagonal)
    pad, roll, tile, repeat = lifted(J.pad), lifted(J.roll), lifted(J.tile), lifted(J.repeat)
    tril, triu = lifted(tril), lifted(triu)

    def view(self, *shape: Any) -> Tensor:
        """`reshape`; without a shape or of the tensor's own type, as NumPy has it, itself once more. Complex numbers as their parts, which follow each other in
        the last dimension, and the other way round, are values. Raises UsageError for other types."""
        if len(shape) != 1 or not (isinstance(shape[0], (type, str)) or hasattr(shape[0], "kind")):
            out: Tensor = self.reshape(*(shape or self.shape))
            return out
        kind = dtype_of(shape[0])
        if Z.COMPLEX.get(self.dtype) is kind and self.shape and self.shape[-1] % 2 == 0:
            made: Tensor = TensorHandle.complex_as.of_reals(self.reshape(*self.shape[:-1], self.shape[-1] // 2, 2))
            return made
        if kind is not self.dtype:
            raise UsageError(f"view of {self.dtype} as {shape[0]}: memory is read as one type; use astype{at(user_line())}")
        out = self.reshape(self.shape)
        return out

    def unsqueeze(self, axis: int) -> Tensor:
        """A dimension of size 1 before dimension `axis` of the result."""
        out: Tensor = V.expand_dims(self, axis=axis)
        return out

    @property
    def mT(self) -> Tensor:
        """The last two dimensions change places."""
        out: Tensor = V.transposed(self)
        return out

    @property
    def T(self) -> Tensor:
        """The two dimensions change places. Raises UsageError for other ranks than 2 (use mT or permute)."""
        out: Tensor = V.two_transposed(self)
        return out

    # reductions ---------------------------------------------------------------------------------------------------
    sum, prod, max, min, mean = (reduction(R.sum), reduction(R.prod), reduction(R.max), reduction(R.min), reduction(R.mean))
    var, std, any, all, logsumexp = (reduction(R.var), reduction(R.std), reduction(R.any), reduction(R.all), reduction(R.logsumexp))
    argmax, argmin, count_nonzero = map(reduction, (R.argmax, R.argmin, R.count_nonzero))
    cumsum, cumprod = map(reduction, (R.cumsum, R.cumprod))
    softmax, log_softmax = lifted(A.softmax), lifted(A.log_softmax)

    # indexing, sorting, products ----------------------------------------------------------------------------------
    take, take_along_axis, gather = lifted(I.take), lifted(I.take_along_axis), lifted(I.take_along_axis)
    scatter_add, index_put = lifted(I.scatter_add), lifted(I.index_put)
    argsort, topk, nonzero, searchsorted = all_lifted(S.argsort, S.topk, S.nonzero, S.searchsorted)
    dot, matmul, vecdot = lifted(L.matmul), lifted(L.matmul), lifted(L.vecdot)

    def sort(
        self, axis: int = -1, kind: str | None = None, order: None = None, *, descending: bool = False, stable: bool | None = None
    ) -> None:
        """Sort this tensor along a dimension, in place, as NumPy's method does; `xp.sort(x)` is a sorted copy. Equal elements
        keep their order, whatever `kind` and `stable` say."""
        self[...] = _sort(self, axis=axis, descending=descending)

    def where(self, a: Any, b: Any) -> Tensor:
        """`a` where this holds, else `b`."""
        out: Tensor = _where(self, a, b)
        return out

    # NumPy's ways -------------------------------------------------------------------------------------------------
    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return array_function(function, args, kwargs)

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        return array_ufunc(ufunc, method, args, kwargs)

    def __format__(self, form: str) -> str:
        if self.size == 1 and (form or (not self.shape and current() is None)):
            return format(self.item(), form)
        if form:
            raise TypeError(f"the format {form!r} of a tensor of shape {list(self.shape)}: only one of one element has one")
        return str(self)

    def __round__(self, digits: int | None = None) -> Any:
        return rounded_to(self, digits or 0) if self.shape or digits is not None else round(self.item())

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    def __buffer__(self, flags: int) -> memoryview:
        return self.numpy().data

    def copy(self, order: str = "C") -> Tensor:
        """The same values in memory of their own: what is computed in a wider type is rounded to this one."""
        if current() is not None:
            through(self)
            return Tensor.of(as_typed(self.node) if self.dtype.narrow else self.node, self.device)
        if self.known is not None and self.constant is None:
            return Tensor.of_array(self.known.copy())
        lazy = self.node.data is None and (self.links is None or self.links.base is None)
        if self.node.tracked or thread.batches or lazy:
            copied = copy_later(self.node) if lazy and not (self.node.tracked or thread.batches) else marked(self.node, Mark("copy"))
            return Tensor.of(as_typed(copied) if self.dtype.narrow else copied, self.device)
        new = buffers.new(self.shape, self.dtype, self.device, self.node.line)
        buffers.fill(new, self._memory())
        return Tensor.of(leaf(new), self.device)

    def ravel(self, order: str = "C") -> Tensor:
        """All elements in one dimension: row by row, with the order "F" column by column. Raises UsageError for other orders."""
        if order not in ("C", "F", "K", "A"):
            raise UsageError(f"ravel: the order {order!r} is none of C, F, K and A{at(user_line())}")
        out: Tensor = V.ravel(self.permute() if order == "F" else self)
        return out

    @answered
    def flatten(self, start: Any = 0, stop: int = -1, order: str = "C") -> Tensor:
        """Dimensions `start` to `stop`, which is one of them, as one, in memory of their own; or, with an order as the first argument, all
        of them, as `ravel` has it."""
        order = start if isinstance(start, str) else order
        out: Tensor = _flatten(self, start, stop) if order == "C" and start != "C" else self.ravel(order).copy()
        return out

    @property
    def flat(self) -> Tensor:
        """All elements in one dimension, row by row; what is written to it is written here. A value that is assigned to `flat` is flat
        as well, or broadcast. Raises UsageError where its size is neither 1 nor this tensor's."""
        out: Tensor = flattened(self)
        return out

    @flat.setter
    def flat(self, value: Any) -> None:
        self.flat[...] = (value if isinstance(value, Tensor) else Tensor(value)).ravel()

    def tobytes(self) -> bytes:
        """The bytes of all elements, row by row."""
        return self.numpy().tobytes()

    __bytes__ = tobytes

    def trace(self, offset: int = 0) -> Tensor:
        """The sum of the diagonals of the last two dimensions."""
        out: Tensor = _trace(self, offset=offset)
        return out

    conj = conjugate = lifted(Z.conj)

    @property
    def real(self) -> Tensor:
        """The real part, which may be written to: itself, where numbers are real."""
        out: Tensor = V.real(self) if self.complex_class else self
        return out

    @real.setter
    def real(self, value: Any) -> None:
        self.real[...] = value

    @property
    def imag(self) -> Tensor:
        """The imaginary part, which may be written to; zeros, where numbers are real."""
        out: Tensor = V.imag(self)
        return out

    @imag.setter
    def imag(self, value: Any) -> None:
        if not self.complex_class:
            raise UsageError(f"the imaginary part of {self.dtype} has no place: make it complex first{at(user_line())}")
        self.imag[...] = value

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next of each dimension, row by row."""
        sizes = accumulate(reversed((*self.shape[1:], self.dtype.size) if self.shape else ()), mul)
        return tuple(reversed(tuple(sizes)))

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.size

    def contiguous(self) -> Tensor:
        """Itself: movement is never memory here."""
        return self


_astype = lifted(E.astype)
_getitem, _setitem, _where = lifted(I.getitem), lifted(I.setitem), lifted(E.where)
_trace, _flatten, _sort = lifted(L.trace), lifted(M.flatten), lifted(S.sort)


def _parts(tensor: Tensor) -> Iterator[Tensor]:
    """A tensor's parts along its first dimension. Its values are computed when the first one is asked for."""
    whole = tensor if tensor.known is not None else tensor.realise()
    for i in range(len(whole)):
        yield whole[i]


def as_tensor(x: Any) -> Tensor:
    """`x` itself where it is a tensor, else a tensor of it."""
    return x if isinstance(x, Tensor) else Tensor(x)


def leaves_of(tree: Any) -> tuple[list[Any], Structure]:
    """`flatten` of a tree in which complex arrays and numbers may be: these are tensors first, so that both their parts are seen."""
    leaves, structure = flatten(tree)
    paired = [isinstance(x, complex) or getattr(getattr(x, "dtype", None), "kind", "") == "c" for x in leaves]
    return (
        flatten(unflatten(structure, [Tensor(x) if c else x for x, c in zip(leaves, paired, strict=True)]))
        if any(paired)
        else (leaves, structure)
    )


def placeholder(shape: tuple[int, ...], dtype: DType, device: str = "cpu") -> Any:
    """A tensor of a shape and a type that has no values, and never will."""
    return Tensor.of(make("slot", (), Slot.new(), shape, dtype), device)


register()

__all__ = ["Tensor", "as_node", "as_tensor", "leaf", "placeholder"]
