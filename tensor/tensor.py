"""Tensor: a handle on a node, with NumPy's ways. Nothing is computed before a value is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..ir.dtypes import DTypeLike
from ..ir.dtypes import dtype as dtype_of
from .graph.primitives import rounded
from .graph.symbols import SymbolicSize, size
from .handle import TensorHandle, node_of
from .leaves import leaf
from .lift import all_lifted, in_place, lifted, operator
from .ops import activations as A
from .ops import arithmetic as N
from .ops import comparison as C
from .ops import elementary as F
from .ops import elementwise as E
from .ops import indexing as I
from .ops import joining as J
from .ops import linalg as L
from .ops import movement as M
from .ops import reduction as R
from .ops import sorting as S
from .ops import updating as U
from .ops.creation import tril, triu
from .ops.powers import power
from .running.assigning import assign, lock_of

as_node = node_of


def _astype(x: Any, dtype: DTypeLike) -> Any:
    """Converted to another type."""
    to = dtype_of(dtype)
    return E.truth(x) if to.kind == "b" else rounded(x, to)


def _reshape(x: Any, *shape: int | Sequence[int]) -> Any:
    """Row-major reshape; one dimension may be −1."""
    return M.reshape(x, flat(shape))


def _permute(x: Any, *order: int | Sequence[int]) -> Any:
    """Dimension d of the result is dimension `order[d]`; without an order they are reversed."""
    return M.permute(x, flat(order) or tuple(reversed(range(len(x.shape)))))


def _expand(x: Any, *shape: int | Sequence[int]) -> Any:
    """Repeated along new dimensions and those of size 1."""
    return M.broadcast_to(x, flat(shape))


def _clip(x: Any, min: Any = None, max: Any = None) -> Any:
    """Kept in [min, max]."""
    return N.clip(x, min, max)


def flat(given: tuple[int | Sequence[int], ...]) -> tuple[int, ...]:
    """`f(2, 3)` and `f((2, 3))` alike."""
    if len(given) == 1 and not isinstance(given[0], (int, SymbolicSize)):
        return tuple(size(g) for g in given[0])
    return tuple(size(g) for g in given)


class Tensor(TensorHandle):
    """An array of one type on one device, computed when it is needed.

    `data`: a NumPy array (used where it lies if it is row-major), a list, or a number; floats of lists become float32.
    `range`: the inclusive range of an integer tensor's elements, checked here; gathers by it need no clamping.

    In-place operators and `x[key] = value` change what this handle stands for; tensors that were read from it before stay
    as they were."""

    __slots__ = ()
    __hash__ = TensorHandle.__hash__

    # operators ----------------------------------------------------------------------------------------------------
    __add__, __radd__, __iadd__ = operator(N.add), operator(N.add, True), in_place(N.add)
    __sub__, __rsub__, __isub__ = operator(N.subtract), operator(N.subtract, True), in_place(N.subtract)
    __mul__, __rmul__, __imul__ = operator(N.multiply), operator(N.multiply, True), in_place(N.multiply)
    __truediv__, __rtruediv__, __itruediv__ = operator(E.divide), operator(E.divide, True), in_place(E.divide)
    __floordiv__, __rfloordiv__, __ifloordiv__ = operator(N.floor_divide), operator(N.floor_divide, True), in_place(N.floor_divide)
    __mod__, __rmod__, __imod__ = operator(N.remainder), operator(N.remainder, True), in_place(N.remainder)
    __pow__, __rpow__, __ipow__ = operator(power), operator(power, True), in_place(power)
    __matmul__, __rmatmul__, __imatmul__ = operator(L.matmul), operator(L.matmul, True), in_place(L.matmul)
    __and__, __rand__, __iand__ = operator(C.bitwise_and), operator(C.bitwise_and, True), in_place(C.bitwise_and)
    __or__, __ror__, __ior__ = operator(C.bitwise_or), operator(C.bitwise_or, True), in_place(C.bitwise_or)
    __xor__, __rxor__, __ixor__ = operator(C.bitwise_xor), operator(C.bitwise_xor, True), in_place(C.bitwise_xor)
    __lshift__, __rlshift__ = operator(C.bitwise_left_shift), operator(C.bitwise_left_shift, True)
    __rshift__, __rrshift__ = operator(C.bitwise_right_shift), operator(C.bitwise_right_shift, True)
    __ilshift__, __irshift__ = in_place(C.bitwise_left_shift), in_place(C.bitwise_right_shift)
    __lt__, __le__, __gt__, __ge__ = operator(C.less), operator(C.less_equal), operator(C.greater), operator(C.greater_equal)
    __eq__, __ne__ = operator(C.equal), operator(C.not_equal)
    __neg__, __pos__, __abs__ = lifted(N.negative), lifted(N.positive), lifted(N.absolute)
    __invert__ = lifted(C.bitwise_invert)
    __getitem__ = lifted(I.getitem)

    def __setitem__(self, key: Any, value: Any) -> None:
        value = Tensor(value) if isinstance(value, list) else value
        with lock_of(self):
            assign(self, _setitem(self, key, value).node)

    def __iter__(self) -> Iterator[Tensor]:
        if not self.shape:
            raise TypeError("a tensor without dimensions cannot be iterated over")
        return iter(self.unstack())

    # elementwise --------------------------------------------------------------------------------------------------
    astype, clip, pow = lifted(_astype), lifted(_clip), lifted(power)
    abs, sign, square, reciprocal = lifted(N.absolute), lifted(N.sign), lifted(N.square), lifted(N.reciprocal)
    maximum, minimum = lifted(N.maximum), lifted(N.minimum)
    floor, ceil, round, trunc = lifted(N.floor), lifted(N.ceil), lifted(N.round), lifted(N.trunc)
    exp, exp2, expm1, log, log1p, log2, log10 = all_lifted(F.exp, F.exp2, F.expm1, F.log, F.log1p, F.log2, F.log10)
    sqrt, rsqrt, erf = lifted(F.sqrt_), lifted(F.rsqrt), lifted(F.erf)
    sin, cos, tan, asin, acos, atan = all_lifted(F.sin, F.cos, F.tan, F.asin, F.acos, F.atan)
    sinh, cosh, tanh, asinh, acosh, atanh = all_lifted(F.sinh, F.cosh, F.tanh, F.asinh, F.acosh, F.atanh)
    isnan, isinf, isfinite = lifted(C.isnan), lifted(C.isinf), lifted(C.isfinite)
    logical_not = lifted(C.logical_not)
    relu, gelu, silu, sigmoid, softplus, elu = all_lifted(A.relu, A.gelu, A.silu, A.sigmoid, A.softplus, A.elu)
    leaky_relu, mish, hardswish, softsign = all_lifted(A.leaky_relu, A.mish, A.hardswish, A.softsign)

    # movement -----------------------------------------------------------------------------------------------------
    reshape, permute, transpose, expand = lifted(_reshape), lifted(_permute), lifted(_permute), lifted(_expand)
    view, broadcast_to = reshape, expand
    swapaxes, moveaxis, squeeze, flatten = lifted(M.swapaxes), lifted(M.moveaxis), lifted(M.squeeze), lifted(M.flatten)
    flip, unstack, split, diagonal = lifted(M.flip), lifted(M.unstack), lifted(M.split), lifted(M.diagonal)
    pad, roll, tile, repeat = lifted(J.pad), lifted(J.roll), lifted(J.tile), lifted(J.repeat)
    tril, triu = lifted(tril), lifted(triu)

    def unsqueeze(self, axis: int) -> Tensor:
        """A dimension of size 1 before dimension `axis` of the result."""
        out: Tensor = _expand_dims(self, axis=axis)
        return out

    @property
    def mT(self) -> Tensor:
        """The last two dimensions change places."""
        out: Tensor = _transposed(self)
        return out

    @property
    def T(self) -> Tensor:
        """The two dimensions change places. Raises UsageError for other ranks than 2 (use mT or permute)."""
        out: Tensor = _two_transposed(self)
        return out

    # reductions ---------------------------------------------------------------------------------------------------
    sum, prod, max, min, mean = lifted(R.sum), lifted(R.prod), lifted(R.max), lifted(R.min), lifted(R.mean)
    var, std, any, all, logsumexp = lifted(R.var), lifted(R.std), lifted(R.any), lifted(R.all), lifted(R.logsumexp)
    argmax, argmin, count_nonzero = lifted(R.argmax), lifted(R.argmin), lifted(R.count_nonzero)
    cumsum, cumprod = lifted(R.cumsum), lifted(R.cumprod)
    softmax, log_softmax = lifted(A.softmax), lifted(A.log_softmax)

    # indexing, sorting, products ----------------------------------------------------------------------------------
    take, take_along_axis, gather = lifted(I.take), lifted(I.take_along_axis), lifted(I.take_along_axis)
    scatter_add, index_put = lifted(U.scatter_add), lifted(U.index_put)
    sort, argsort, topk, nonzero = lifted(S.sort), lifted(S.argsort), lifted(S.topk), lifted(S.nonzero)
    dot, matmul, vecdot = lifted(L.matmul), lifted(L.matmul), lifted(L.vecdot)

    def where(self, a: Any, b: Any) -> Tensor:
        """`a` where this holds, else `b`."""
        out: Tensor = _where(self, a, b)
        return out

    def contiguous(self) -> Tensor:
        """Itself: movement is never memory here."""
        return self


_setitem, _where, _expand_dims, _transposed = lifted(U.setitem), lifted(E.where), lifted(M.expand_dims), lifted(M.transposed)
_two_transposed = lifted(M.two_transposed)

__all__ = ["Tensor", "as_node", "leaf"]
