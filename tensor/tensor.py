"""Tensor: a handle on a node, with NumPy's ways. Nothing is computed before a value is asked for."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..ir.dtypes import DType
from ..ir.dtypes import dtype as dtype_of
from ..ir.errors import UsageError
from . import buffers
from .lines import user_line
from .maps import Shape
from .node import Argument, TensorNode, make, walk
from .ops import elementwise as E
from .ops import linalg as L
from .ops import movement as M
from .ops import reduction as R
from .primitives import cast, const, stop_gradient
from .promotion import DEFAULT_FLOAT
from .reverse import gradients
from .run import realise

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_count = iter(range(1 << 62))


class Tensor:
    """An array of one type on one device, computed when it is needed.

    `data`: a NumPy array (used where it lies if it is row-major), a list, or a number; floats of lists become float32.
    `range`: the inclusive range of an integer tensor's elements, checked here; gathers by it need no clamping."""

    __slots__ = ("__weakref__", "device", "grad", "node", "requires_grad")
    __array_priority__ = 100

    def __init__(
        self,
        data: Any,
        dtype: str | DType | None = None,
        device: str = "cpu",
        range: tuple[int, int] | None = None,
        requires_grad: bool = False,
    ) -> None:
        import numpy as np

        array = np.asarray(data) if not isinstance(data, Tensor) else data.numpy()
        if dtype is None and array.dtype == np.float64 and not isinstance(data, (np.ndarray, np.generic)):
            array = array.astype(DEFAULT_FLOAT.np)
        kind = dtype_of(dtype) if dtype is not None else dtype_of(str(array.dtype))
        array = np.ascontiguousarray(array, kind.np).reshape(array.shape)
        self.node = leaf(buffers.adopt(array, kind, device, user_line(), range))
        self.device = device
        self.grad: Tensor | None = None
        self.requires_grad = False
        if requires_grad:
            self.requires_grad_()

    @classmethod
    def of(cls, node: TensorNode, device: str = "cpu") -> Tensor:
        """A handle on a node."""
        new = cls.__new__(cls)
        new.node, new.device, new.grad, new.requires_grad = node, device, None, False
        return new

    # what it is ---------------------------------------------------------------------------------------------------
    @property
    def shape(self) -> Shape:
        """Its extents."""
        return self.node.shape

    @property
    def dtype(self) -> DType:
        """Its type."""
        return self.node.dtype

    @property
    def ndim(self) -> int:
        """Dimensions."""
        return len(self.node.shape)

    def __repr__(self) -> str:
        return f"<Tensor {list(self.shape)} {self.dtype} on {self.device}{'' if self.node.data is not None else ', lazy'}>"

    # values -------------------------------------------------------------------------------------------------------
    def realise(self) -> Tensor:
        """Compute it now, if it was not yet."""
        realise([self.node], self.device)
        if self.node.src and not keeps(self.node):
            self.node = leaf(self.node.data)  # so that what it was made from can go
        return self

    def numpy(self) -> Array:
        """Its values as a NumPy array, which shares the tensor's memory."""
        array: Array = self.realise().node.data.array
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        import numpy as np

        return np.asarray(self.numpy(), dtype)

    def item(self) -> Any:
        """The one element as a Python number."""
        return self.numpy().item()

    # gradients ----------------------------------------------------------------------------------------------------
    def requires_grad_(self) -> Tensor:
        """Compute this tensor now, and let `backward()` of what is made from it fill its `grad`. Raises UsageError for
        what is no float."""
        if not self.dtype.is_float:
            raise UsageError(f"a gradient with respect to {self.dtype}{list(self.shape)}: only floats have gradients")
        if not self.requires_grad:
            self.realise()
            if self.node.src or self.node in LEAVES:
                self.node = leaf(self.node.data)
            self.requires_grad = self.node.tracked = True
            LEAVES[self.node] = weakref.ref(self)
        return self

    def detach(self) -> Tensor:
        """The same values, of which no gradient is taken."""
        return self._new(stop_gradient(self.node))

    def backward(self, gradient: Any = None) -> None:
        """Add to the `grad` of every tensor with requires_grad behind this one its gradient: of this tensor, which has one
        element, or of Σ tensor · `gradient`. Grads are lazy like any tensor. Raises UsageError where there is none."""
        found = behind(self.node)
        if not found:
            raise UsageError(f"backward() of {self!r}: no tensor that it was made from was made with requires_grad=True")
        if gradient is None and self.node.size != 1:
            raise UsageError(f"backward() of {self.dtype}{list(self.shape)}, which is no single number: pass a gradient of its shape")
        given = const(1, self.dtype, self.shape) if gradient is None else cast(as_node(gradient), self.dtype)
        if given.shape != self.shape:
            raise UsageError(f"backward() of {list(self.shape)} with a gradient of shape {list(given.shape)}")
        nodes = [t.node for t in found]
        for t, g in zip(found, gradients([self.node], [given], nodes), strict=True):
            t.grad = t._new(g if t.grad is None else E.binary("add", t.grad.node, g))

    # operators ----------------------------------------------------------------------------------------------------
    def __add__(self, other: Any) -> Tensor:
        return self._with("add", other)

    def __radd__(self, other: Any) -> Tensor:
        return self._with("add", other, True)

    def __sub__(self, other: Any) -> Tensor:
        return self._with("sub", other)

    def __rsub__(self, other: Any) -> Tensor:
        return self._with("sub", other, True)

    def __mul__(self, other: Any) -> Tensor:
        return self._with("mul", other)

    def __rmul__(self, other: Any) -> Tensor:
        return self._with("mul", other, True)

    def __truediv__(self, other: Any) -> Tensor:
        return self._new(E.divide(self.node, operand(other)))

    def __rtruediv__(self, other: Any) -> Tensor:
        return self._new(E.divide(operand(other), self.node))

    def __matmul__(self, other: Any) -> Tensor:
        return self._new(L.matmul(self.node, as_node(other)))

    def __neg__(self) -> Tensor:
        from .primitives import elementwise

        return self._new(elementwise("neg", self.node))

    def __le__(self, other: Any) -> Tensor:
        return self._with("le", other)

    def __lt__(self, other: Any) -> Tensor:
        return self._with("lt", other)

    def maximum(self, other: Any) -> Tensor:
        """The larger of both."""
        return self._with("max", other)

    def exp(self) -> Tensor:
        """e to the power of it."""
        return self._new(E.floating("exp", self.node))

    def log(self) -> Tensor:
        """The natural logarithm."""
        return self._new(E.floating("log", self.node))

    def sqrt(self) -> Tensor:
        """The square root."""
        return self._new(E.floating("sqrt", self.node))

    def erf(self) -> Tensor:
        """The error function."""
        return self._new(E.floating("erf", self.node))

    def tanh(self) -> Tensor:
        """The hyperbolic tangent."""
        return self._new(E.floating("tanh", self.node))

    def astype(self, dtype: str | DType) -> Tensor:
        """Converted to another type."""
        return self._new(cast(self.node, dtype_of(dtype)))

    # movement and reductions --------------------------------------------------------------------------------------
    def reshape(self, *shape: int | Sequence[int]) -> Tensor:
        """Row-major reshape; one dimension may be −1."""
        return self._new(M.reshape(self.node, _flat(shape)))

    def permute(self, *order: int | Sequence[int]) -> Tensor:
        """Dimension d of the result is dimension `order[d]`."""
        return self._new(M.permute(self.node, _flat(order)))

    @property
    def mT(self) -> Tensor:
        """The last two dimensions change places."""
        return self._new(M.transposed(self.node))

    def sum(self, axis: R.Axis = None, keepdims: bool = False) -> Tensor:
        """Σ over dimensions."""
        return self._new(R.sum(self.node, axis, keepdims))

    def max(self, axis: R.Axis = None, keepdims: bool = False) -> Tensor:
        """The largest over dimensions."""
        return self._new(R.max(self.node, axis, keepdims))

    def mean(self, axis: R.Axis = None, keepdims: bool = False) -> Tensor:
        """The average over dimensions."""
        return self._new(R.mean(self.node, axis, keepdims))

    def _with(self, op: str, other: Any, swapped: bool = False) -> Tensor:
        a, b = self.node, operand(other)
        return self._new(E.binary(op, b, a) if swapped else E.binary(op, a, b))

    def _new(self, node: TensorNode) -> Tensor:
        return Tensor.of(node, self.device)


LEAVES: weakref.WeakKeyDictionary[TensorNode, weakref.ref[Tensor]] = weakref.WeakKeyDictionary()
"""The tensors with requires_grad, by their nodes."""


def behind(node: TensorNode) -> list[Tensor]:
    """The live tensors with requires_grad that a node was made from."""
    held = [LEAVES[n]() for n in walk([node], lambda n: not n.tracked) if n in LEAVES]
    return [t for t in held if t is not None]


def keeps(node: TensorNode) -> bool:
    """Whether a gradient may still be asked for through a node: of a tensor with requires_grad, or of an argument of a
    function that is being differentiated."""
    return node.tracked and any(
        (isinstance(n.arg, Argument) and n.arg.open) or (n in LEAVES and LEAVES[n]() is not None)
        for n in walk([node], lambda n: not n.tracked)
    )


def leaf(buffer: buffers.TensorBuffer) -> TensorNode:
    """A node on memory that has values."""
    node = make("buffer", (), next(_count), buffer.shape, buffer.dtype)
    node.data = buffer
    return node


def as_node(x: Any) -> TensorNode:
    """The node of a tensor, array, list or number."""
    return x.node if isinstance(x, Tensor) else Tensor(x).node


def operand(x: Any) -> E.Operand:
    """A node, or a Python number as it is."""
    if isinstance(x, (bool, int, float)):
        return x
    return as_node(x)


def _flat(given: tuple[int | Sequence[int], ...]) -> tuple[int, ...]:
    if len(given) == 1 and not isinstance(given[0], int):
        return tuple(given[0])
    return tuple(int(g) for g in given)  # type: ignore[arg-type]
