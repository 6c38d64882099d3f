"""What every tensor is before it has operators: a handle on a node, with a device, values, and the protocols of arrays.

`lifted` makes a function of nodes one of tensors. It is the only way in which tensors' methods and `tilewright.xp` call
`ops`, so that errors get the user's line in one place."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

from ..ir.dtypes import DType
from ..ir.errors import TilewrightError, UsageError
from .leaves import from_data, from_numpy
from .lines import at, user_line
from .maps import Shape
from .node import TensorNode
from .run import realise

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

NAMESPACE_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")


class TensorHandle:
    """A node and the device it is computed on. `Tensor` is the class to use."""

    __slots__ = ("__weakref__", "device", "node")
    __array_priority__ = 100
    made_as: ClassVar[type[TensorHandle]]
    """The class of results."""

    def __init__(self, data: Any, dtype: str | DType | None = None, device: str = "cpu", range: tuple[int, int] | None = None) -> None:
        self.node: TensorNode = from_data(data.numpy() if isinstance(data, TensorHandle) else data, dtype, device, range)
        self.device = device

    def __init_subclass__(cls) -> None:
        TensorHandle.made_as = cls

    @classmethod
    def of(cls, node: TensorNode, device: str = "cpu") -> Any:
        """A handle on a node."""
        new = cls.__new__(cls)
        new.node, new.device = node, device
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

    @property
    def size(self) -> int:
        """Elements."""
        return prod(self.node.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.size

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a tensor without dimensions has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        if self.node.data is None:
            return f"<Tensor {list(self.shape)} {self.dtype} on {self.device}, lazy>"
        import numpy as np

        text = np.array2string(self.numpy(), separator=", ", prefix="Tensor(", threshold=200)
        return f"Tensor({text}, {self.dtype})"

    # values -------------------------------------------------------------------------------------------------------
    def realise(self) -> Any:
        """Compute it now, if it was not yet."""
        realise([self.node], self.device)
        return self

    def numpy(self) -> Array:
        """Its values as a NumPy array, which shares the tensor's memory."""
        array: Array = self.realise().node.data.array
        return array

    def tolist(self) -> Any:
        """Its values as nested lists of Python numbers."""
        return self.numpy().tolist()

    def item(self) -> Any:
        """The one element as a Python number. Raises UsageError where there is not exactly one."""
        if self.size != 1:
            raise UsageError(f"the value of a tensor of shape {list(self.shape)}: only one of one element has a value{at(user_line())}")
        return self.numpy().item()

    def _scalar(self, what: str) -> Any:
        if self.shape:
            raise TypeError(f"{what} of a tensor of shape {list(self.shape)}: only one without dimensions has one{at(user_line())}")
        return self.item()

    def __bool__(self) -> bool:
        if self.size != 1:
            raise UsageError(f"the truth of a tensor of shape {list(self.shape)} is not one value: use any() or all(){at(user_line())}")
        return bool(self.item())

    def __int__(self) -> int:
        return int(self._scalar("int()"))

    def __float__(self) -> float:
        return float(self._scalar("float()"))

    def __index__(self) -> int:
        if not self.dtype.is_int:
            raise TypeError(f"a {self.dtype} tensor is no index: cast it to an integer type")
        return int(self._scalar("an index"))

    def __hash__(self) -> int:
        return id(self)

    # protocols ----------------------------------------------------------------------------------------------------
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        import numpy as np

        return np.array(self.numpy(), dtype, copy=copy)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        if api_version is not None and api_version not in NAMESPACE_VERSIONS:
            raise ValueError(f"array API version {api_version!r}: known are {', '.join(NAMESPACE_VERSIONS)}")
        return import_module(__name__.split(".tensor.")[0] + ".xp")  # the namespace is made of this class, so it cannot be imported here

    def __dlpack__(self, **options: Any) -> Any:
        """The tensor's memory as a DLPack capsule (NumPy's options). bfloat16, which NumPy cannot export, raises UsageError."""
        if self.dtype.name == "bfloat16":
            raise UsageError("DLPack of a bfloat16 tensor: NumPy, which makes the capsule, does not know the type; cast it to float32")
        stream = options.pop("stream", None)
        return self.numpy().__dlpack__(stream=stream, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def to_device(self, device: str, /, *, stream: Any = None) -> Any:
        """The same values on another device (where it is the same one, itself)."""
        if stream is not None:
            raise UsageError("to_device: streams are unknown here; pass stream=None")
        if device == self.device:
            return self
        if self.node.data is None:
            self.realise()
        return type(self).of(from_numpy(self.numpy().copy(), self.dtype, device), device)

    to = to_device


def node_of(x: Any) -> TensorNode:
    """The node of a tensor, array, list or number."""
    if isinstance(x, TensorNode):
        return x
    return x.node if isinstance(x, TensorHandle) else from_data(x)


def lowered(x: Any, devices: list[str]) -> Any:
    """Tensors and NumPy arrays as nodes, also inside lists, tuples and slices; anything else as it is."""
    if isinstance(x, TensorHandle):
        devices.append(x.device)
        return x.node
    if type(x) in (int, float, bool, str) or x is None:
        return x
    if isinstance(x, (list, tuple)):
        return type(x)(lowered(e, devices) for e in x) if any(_holds(e) for e in x) else x
    return from_numpy(_array(x)) if _is_array(x) else x


def _holds(x: Any) -> bool:
    return isinstance(x, TensorHandle) or _is_array(x) or (isinstance(x, (list, tuple)) and any(map(_holds, x)))


def _is_array(x: Any) -> bool:
    return type(x).__module__.startswith("numpy") and hasattr(x, "__array_interface__")


def _array(x: Any) -> Array:
    import numpy as np

    return np.asarray(x)


def raised(x: Any, device: str) -> Any:
    """Nodes as tensors, also inside lists and (named) tuples."""
    if isinstance(x, TensorNode):
        return TensorHandle.made_as.of(x, device)
    if isinstance(x, tuple):
        parts = [raised(e, device) for e in x]
        return type(x)(*parts) if hasattr(x, "_fields") else tuple(parts)
    return [raised(e, device) for e in x] if isinstance(x, list) else x


def one_device(devices: list[str]) -> str:
    """The device that all operands share. Raises UsageError."""
    if len(set(devices)) > 1:
        raise UsageError(f"tensors on different devices ({', '.join(sorted(set(devices)))}): move them to one with .to()")
    return devices[0] if devices else "cpu"


def lifted(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` of nodes as one of tensors. Errors are told the user's line."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        devices: list[str] = []
        try:
            nodes = [lowered(a, devices) for a in args]
            named = {k: lowered(v, devices) for k, v in kwargs.items()}
            device = one_device(devices)
            return raised(function(*nodes, **named), device)
        except TilewrightError as e:
            raise with_line(e) from e.__cause__

    return call


def with_line(e: TilewrightError) -> TilewrightError:
    """The error, its text with the user's line if it has none."""
    text = str(e)
    where = at(user_line())
    if where and " (at " not in text:
        e.args = (text + where, *e.args[1:])
    return e


def operator(function: Callable[..., Any], swapped: bool = False) -> Callable[..., Any]:
    """A binary operator of tensors; NotImplemented beside what is no array and no number."""
    call = lifted(function)

    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, (TensorHandle, bool, int, float)):
            if isinstance(other, list):
                other = TensorHandle.made_as(other)
            elif not _is_array(other):
                return NotImplemented
        return call(other, self) if swapped else call(self, other)

    method.__doc__ = function.__doc__
    return method


def in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """An operator whose result becomes the tensor's own value. Raises UsageError where shape or type would change."""
    call = operator(function)

    def method(self: Any, other: Any) -> Any:
        out = call(self, other)
        if out is NotImplemented:
            return out
        if out.shape != self.shape or out.dtype is not self.dtype:
            change = f"{self.dtype}{list(self.shape)} would become {out.dtype}{list(out.shape)}"
            raise UsageError(f"{function.__name__} in place: {change}{at(user_line())}")
        self.node = out.node
        return self

    method.__doc__ = f"In place: {function.__doc__}"
    return method


