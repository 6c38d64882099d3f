"""What every tensor is before it has operators: a handle on a node, with a device, values, a gradient and the protocols of arrays."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import import_module
from math import prod, trunc
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ..devices.once import process_lock
from ..ir.dtypes import DType, DTypeLike, is_dtype
from ..ir.errors import UsageError
from .frontends.exchange import exported
from .frontends.habits import Elements
from .given_arrays import give, held, read_anew, shared, written_by_others
from .gradients.reverse import TRACKED, gradients, has_gradient, tracked_behind, with_gradients
from .graph.index_maps import Shape
from .graph.nodes import OpenArgument, TensorNode, constant_of, interned_in, walk
from .graph.nodes import leaf as bare_leaf
from .graph.primitives import cast, const, stop_gradient
from .graph.promotion import default_float, numpy_types
from .graph.source_lines import at, user_line
from .leaves import array_class, array_leaf, from_data, from_numpy, leaf
from .ops.complex_numbers import complex_memory
from .ops.elementwise import astype, binary
from .ops.joining import nested
from .running import buffers
from .running.assignment import fitting, followed, lock_of
from .running.current_capture import outside, thread
from .running.realise import copied, realise
from .trees import flatten
from .views import Links, spread, write

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


_NEW: Any = object.__new__
NAMESPACE_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")


class TensorHandle:
    """A node and the device it is computed on. `Tensor` is the class to use."""

    __slots__ = ("__weakref__", "constant", "deferred", "device", "grad", "known", "links", "node", "planes", "requires_grad")
    __array_priority__ = 100
    made_as: ClassVar[type[TensorHandle]]
    """The class of results."""
    complex_as: ClassVar[Any]
    """The class of complex results, whose nodes have a last dimension of 2."""
    complex_class: ClassVar[bool] = False

    def __init__(
        self,
        data: Any,
        dtype: DTypeLike | None = None,
        device: str = "cpu",
        range: tuple[int, int] | None = None,
        requires_grad: bool = False,
    ) -> None:
        self.node: TensorNode
        self.known: Array | None = None
        """The values, of a tensor that has no node yet: NumPy computed it at once, and no graph has read it."""
        self.deferred: Any = None
        """How such a tensor will be computed, where nobody has read it yet (`frontends.deferred`)."""
        self.constant: Constant | None
        """How such a tensor is made, where it is made of constants only and nobody saw its memory."""
        self.planes: Any
        """Of a complex tensor: a node that it had, and the parts that it was made of."""
        if dtype is None and range is None and type(data) is array_class() and data.dtype.kind != "c":
            self.node = array_leaf(data, device)
        else:
            pair = isinstance(data, TensorHandle) and data.complex_class
            found = None if range is not None or (pair and dtype is not None) else _of_tensors(data, device)
            if found is not None and pair:
                self.__class__, self.node = TensorHandle.complex_as, found
            elif found is not None:
                self.node = found if dtype is None else astype(found, dtype)
            else:
                data = data.numpy() if isinstance(data, TensorHandle) else data
                paired = complex_memory(data, dtype, device)
                if paired is not None:
                    self.__class__ = TensorHandle.complex_as
                self.node = from_data(data, dtype, device, range) if paired is None else paired
        self.device = device
        self.grad: Any = None
        self.links: Links | None = None
        self.requires_grad = False
        if requires_grad:
            self.requires_grad_()

    def __init_subclass__(cls) -> None:
        if cls.complex_class:
            TensorHandle.complex_as = cls
        else:
            TensorHandle.made_as = cls

    @classmethod
    def of(cls, node: TensorNode, device: str = "cpu") -> Self:
        """A handle on a node."""
        new = cls.__new__(cls)
        new.node, new.device, new.grad, new.links, new.requires_grad, new.known = node, device, None, None, False, None
        new.deferred = None
        return new

    @classmethod
    def of_array(cls, array: Array) -> Self:
        """A handle on what NumPy computed. It gets a node when it is asked for one."""
        new: Self = _NEW(cls)
        new.known, new.device, new.requires_grad = array, "cpu", False
        new.grad = new.links = new.constant = new.deferred = None
        return new

    @classmethod
    def of_deferred(cls, deferred: Any) -> Self:
        """A handle on what is computed when it is asked for its node."""
        new = cls.__new__(cls)
        new.known, new.device, new.grad, new.links, new.requires_grad, new.deferred = None, "cpu", None, None, False, deferred
        return new

    if not TYPE_CHECKING:  # type checkers say themselves where a name is not here

        def __getattr__(self, name: str) -> Any:
            if name == "node":
                return _noded(self)
            if name.startswith("__"):  # a protocol's question, asked of any object: NumPy asks two for each array
                raise AttributeError(f"'Tensor' object has no attribute {name!r}")
            from .frontends.habits import no_method

            raise no_method(name)

    # what it is ---------------------------------------------------------------------------------------------------
    @property
    def shape(self) -> Shape:
        """Its extents."""
        known = self.known
        if known is None:
            known = self.deferred
        return self.node.shape if known is None else known.shape

    @property
    def dtype(self) -> DType:
        """Its type."""
        known = self.known
        if known is None:
            known = self.deferred
        return self.node.dtype if known is None else buffers.TYPES[known.dtype.num]

    @property
    def ndim(self) -> int:
        """Dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Elements."""
        count = prod(self.shape)
        return Elements(count) if type(count) is int else count  # (a symbol is no int)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.size

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a tensor without dimensions has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        if self.known is None and self.node.data is None:
            return f"<Tensor {list(self.shape)} {self.dtype} on {self.device}, lazy>"
        import numpy as np

        text = np.array2string(self._values(), separator=", ", prefix="Tensor(", threshold=200)
        return f"Tensor({text}, {self.dtype})"

    # values -------------------------------------------------------------------------------------------------------
    def realise(self) -> Self:
        """Compute it now, if it was not yet."""
        self.computed()
        return self

    def computed(self) -> TensorNode:
        """A node that has the values of now, which this tensor stands for if nobody updated it meanwhile."""
        if self.known is not None and thread.capture is None:
            self.constant = None
        node = self.node
        if node.op == "buffer" and thread.capture is None:
            return node
        if node.op in ("buffer", "slot") or has_gradient(node):
            realise([node], self.device)
            return node
        viewing = self.links is not None and self.links.base is not None and written_by_others(self)
        # who makes the same constant gets memory of its own: this one's may be written to
        made = copied(node) if viewing or constant_of(node) is not None or node.op == "iota" else node
        if node.data is not None and node.data.cell is not None:
            found = followed(node.data, made)
        else:
            realise([made], self.device)
            found = leaf(made.data)  # so that what it was made from can go
        if not viewing:
            with lock_of(self):
                if self.node is node:
                    self.node = found
        return found

    def numpy(self) -> Array:
        """Its values as a NumPy array, which shares the tensor's memory: what is written to it, this tensor holds, and so do
        its views, what it is a view of, and every other tensor that is equal to it as an expression, unless it is a constant
        (zeros, ones, full). Where a view's memory is its own (it has requires_grad, a declared range, or a captured function reads it),
        nobody may write to the array."""
        if self.links is not None:
            found, shares = shared(self)
            if found is not None:
                whole: Array = found
                return whole
            if not shares:
                array = self._values().view()
                array.flags.writeable = False
                return array
        values = self._values()
        if self.known is None and self.deferred is None and (data := self.node.data) is not None:
            give(data)
        return values

    def to_numpy(self) -> Array:
        """`numpy()`, as libraries that take others' tables ask for it (matplotlib takes a matrix column by column then)."""
        return self.numpy()

    def _values(self) -> Array:
        """Its values as an array, in memory that may be theirs alone."""
        return self._memory()

    def _memory(self) -> Array:
        """The array of its node: of complex numbers, pairs of reals."""
        known = self.known
        if known is not None and thread.capture is None and known.flags.carray:
            self.constant = None
            return known
        array: Array = self.computed().data.array
        return array

    def show(self, array: Array | None, constant: Constant | None = None, deferred: Any = None) -> None:
        """Stand for what NumPy computed, or will be computed."""
        with _MAKING:
            noded = self.known is None and self.deferred is None
            self.known, self.constant, self.deferred = array, constant, deferred
            if noded:
                with suppress(AttributeError):  # (a live view has none)
                    del self.node
            if self.links is not None:
                self.links.live = False

    def assign(self, value: Any) -> Any:
        """Give this tensor other values: `value` broadcast to its shape and cast to its type. In a captured function that
        happens at every call, in the tensor's own memory where all reads of it allow that. What was computed of the tensor
        before keeps the old values; its parts (slices) and what it is a part of do not. Returns the tensor. Raises UsageError where shapes do not fit."""
        write(self, fitting(node_of(value), self))
        return self

    def become(self, node: TensorNode) -> None:
        """Stand for memory that holds new values."""
        self.node, self.known, self.deferred = node, None, None
        if self.requires_grad:
            node.tracked = True
            TRACKED[node] = weakref.ref(self)
        if self.links is not None:
            spread(self)

    def tolist(self) -> Any:
        """Its values as nested lists of Python numbers."""
        return self._values().tolist()

    def item(self, *at_place: Any) -> Any:
        """The one element as a Python number, or the one at a place: an index for each dimension, or one that counts row by row. Raises
        UsageError where there is not exactly one, OutOfRangeError for a place that there is not."""
        if at_place:
            place = at_place[0] if len(at_place) == 1 and isinstance(at_place[0], tuple) else at_place
            if len(place) == 1 and len(self.shape) != 1:
                return self.reshape(-1)[place[0]].item()  # type: ignore[attr-defined]
            return self[place].item()  # type: ignore[index]
        if self.size != 1:
            raise UsageError(f"the value of a tensor of shape {list(self.shape)}: only one of one element has a value{at(user_line())}")
        return self._values().item()

    def __bool__(self) -> bool:
        if self.size != 1:
            raise UsageError(f"the truth of a tensor of shape {list(self.shape)} is not one value: use any() or all(){at(user_line())}")
        return bool(self.item())

    def _scalar(self, what: str) -> Any:
        if self.size != 1:
            more = " (of all elements: xp.sin, not math.sin)" if what == "float()" else ""
            raise TypeError(f"{what} of a tensor of shape {list(self.shape)}: only one of one element has one{more}{at(user_line())}")
        return self.item()

    def __trunc__(self) -> int:
        whole: int = trunc(self._scalar("trunc()"))
        return whole

    def __int__(self) -> int:
        return int(self._scalar("int()"))

    def __float__(self) -> float:
        return float(self._scalar("float()"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex()"))

    def __index__(self) -> int:
        if not self.dtype.is_int:
            raise TypeError(f"a {self.dtype} tensor is no index: cast it to an integer type")
        if self.shape:
            raise TypeError(f"an index of a tensor of shape {list(self.shape)}: only one without dimensions is one{at(user_line())}")
        return int(self.item())

    def __hash__(self) -> int:
        """Of what has no dimensions and may be computed now, its number's, as equal numbers have one hash. Else which tensor it is."""
        if (
            self.shape
            or thread.capture is not None
            or self.requires_grad
            or (self.known is None and self.deferred is None and self.node.tracked)
        ):
            return id(self)
        return hash(self.item())

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled and deeply copied as values, not as the graph they come from: both are computed now."""
        array, data = self.numpy(), self.node.data  # (a view that is read anew has none)
        return _rebuilt, (array, self.dtype.name, self.device, None if data is None else data.range, self.requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if thread.capture is None and (self.known is not None or not self.node.tracked or self.requires_grad):
            make, (array, *others) = self.__reduce__()
            return make(array.copy(), *others)
        return self.copy()  # type: ignore[attr-defined]

    def __copy__(self) -> Any:
        if not self.requires_grad or thread.capture is not None:
            return self.copy()  # type: ignore[attr-defined]
        return type(self).of(leaf(self.node.data), self.device).copy().requires_grad_()  # type: ignore[attr-defined]

    # gradients ----------------------------------------------------------------------------------------------------
    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Compute this tensor now, and let `backward()` of what is made from it fill its `grad`. Raises UsageError for
        what is no float, and for False."""
        if not requires_grad:
            raise UsageError(f"requires_grad_(False): detach() is a tensor of which no gradient is taken{at(user_line())}")
        if not self.dtype.is_float:
            raise UsageError(f"a gradient with respect to {self.dtype}{list(self.shape)}: only floats have gradients{at(user_line())}")
        if not self.requires_grad:
            self.realise()
            if self.node.src or self.node in TRACKED:
                self.node = leaf(self.node.data)
            self.requires_grad = self.node.tracked = True
            TRACKED[self.node] = weakref.ref(self)
            if (cell := self.node.data.cell) is not None:
                cell.look_again()
        return self

    def detach(self) -> Self:
        """The same values, of which no gradient is taken."""
        return type(self).of(stop_gradient(self.node), self.device)

    def backward(self, gradient: Any = None) -> None:
        """Add to the `grad` of every tensor with requires_grad behind this one its gradient: of this tensor, which has one
        element, or of Σ tensor · `gradient`. Grads are lazy like any tensor. Raises UsageError where there is none."""
        found = tracked_behind(self.node)
        if not found:
            raise UsageError(f"backward() of {self!r}: no tensor that it was made from was made with requires_grad=True")
        if gradient is None and self.node.size != 1:
            raise UsageError(f"backward() of {self.dtype}{list(self.shape)}, which is no single number: pass a gradient of its shape")
        given = const(1, self.dtype, self.shape) if gradient is None else cast(node_of(gradient), self.dtype)
        if given.shape != self.shape:
            raise UsageError(f"backward() of {list(self.shape)} with a gradient of shape {list(given.shape)}")
        for (_, t), g in zip(found, gradients([self.node], [given], [n for n, _ in found]), strict=True):
            with lock_of(t):
                t.grad = type(self).of(g if t.grad is None else binary("add", t.grad.node, g), t.device)

    # protocols ----------------------------------------------------------------------------------------------------
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        known = self.known
        if known is not None and dtype is None and copy is None and not self.complex_class:
            return self.numpy()
        import numpy as np

        if known is None and _differentiated(self.node):
            raise UsageError(
                f"an array of a tensor whose gradient is being taken, which would have none: use the tensor, or .detach(){at(user_line())}"
            )
        return np.array(self.numpy(), dtype, copy=copy)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        if api_version is not None and api_version not in NAMESPACE_VERSIONS:
            raise ValueError(f"array API version {api_version!r}: known are {', '.join(NAMESPACE_VERSIONS)}")
        return _namespace()

    def __dlpack__(
        self, *, stream: Any = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:  # fmt: skip
        """The tensor's memory as a DLPack capsule, made by NumPy. `stream` is None: there are none here. Raises BufferError for what a
        consumer asks for and cannot have."""
        wanted: dict[str, Any] = {"max_version": max_version, "dl_device": dl_device, "copy": copy}  # which NumPy 2.0 does not know yet
        return exported(self.numpy(), self.dtype, stream=stream, **{k: v for k, v in wanted.items() if v is not None})

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """For PyTorch, CuPy, Numba and others: the memory of a tensor on an NVIDIA GPU, computed now. Raises AttributeError for others."""
        if self.node.data is None and self.device != "cpu":
            self.realise()
        if self.node.data is None:
            raise AttributeError("a tensor on cpu has no __cuda_array_interface__")
        told: dict[str, Any] = self.node.data.interface()
        return told

    def pyopencl(self) -> Any:
        """The memory of a tensor on an OpenCL device as a `pyopencl.array.Array`, computed now, without a copy. Raises UsageError for
        others."""
        if self.node.data is None:
            self.realise()
        return self.node.data.exported()

    def to_device(self, device: str, /, *, stream: Any = None) -> Self:
        """The same values on another device (where it is the same one, itself)."""
        if stream is not None:
            raise UsageError("to_device: streams are unknown here; pass stream=None")
        if device == self.device:
            return self
        if not isinstance(device, str) or is_dtype(device):
            raise UsageError(f"to({device!r}): give a device's name; astype(dtype) is the way to another type{at(user_line())}")
        if self.node.data is None:
            self.realise()
        return type(self).of(from_numpy(self.numpy().copy(), self.dtype, device), device)

    to = to_device


@cache
def _namespace() -> Any:
    """`tilewright.xp`, which is made of this class, so that it cannot be imported before. (Consumers ask for it in every function.)"""
    return import_module(__name__.split(".tensor.")[0] + ".xp")


_MAKING = process_lock()


def _noded(tensor: Any) -> TensorNode:
    """The node of a tensor that was computed at once or deferred, made now. Threads that ask meanwhile get the same one."""
    deferred = tensor.deferred
    array: Any = None if deferred is None else deferred.value()
    links, given = tensor.links, tensor.known is not None and held(tensor)
    if deferred is None and links is not None and links.base is not None and _is_live(tensor):
        return read_anew(tensor)
    with _MAKING:
        known = tensor.known
        if tensor.deferred is not None:
            tensor.node, tensor.deferred = bare_leaf(buffers.computed(array)), None
        if known is not None:
            constant = tensor.constant
            # (a node of its own: memory that it gets may be written to, and other formulas know the constant's)
            tensor.node = bare_leaf(buffers.computed(known)) if constant is None else copied(constant.node())
            if constant is None:
                tensor.node.data.given = given
            tensor.known = None
        node: TensorNode = vars(TensorHandle)["node"].__get__(tensor)
        return node


def _is_live(view: TensorHandle) -> bool:
    """Whether a view without a node has none of its own. (No name has its array here: who has it is counted.)"""
    if view.known is None:
        return True
    return thread.capture is None and not view.known.flags.c_contiguous and written_by_others(view)


class Constant:
    """How a tensor is made of nothing but numbers: by a function of nodes, of numbers and constants."""

    __slots__ = ("args", "depth", "floats", "function", "kwargs", "made")

    def __init__(self, function: Callable[..., TensorNode], args: list[Any], kwargs: dict[str, Any], depth: int) -> None:
        self.function, self.args, self.kwargs, self.depth, self.floats = function, args, kwargs, depth, default_float()
        self.made: TensorNode | None = None

    @classmethod
    def of(cls, function: Callable[..., TensorNode], args: list[Any], kwargs: dict[str, Any]) -> Constant | None:
        """A function of numbers and constants; None for what took so many steps that it is data."""
        depth = 1 + max((a.depth for a in args if type(a) is cls), default=0)
        return cls(function, args, kwargs, depth) if depth <= MOST_STEPS else None

    def node(self) -> TensorNode:
        """The graph, as it is outside of captured functions."""
        if self.made is None:
            with outside(), interned_in(), numpy_types(self.floats):
                self.made = self.function(*[a.node() if type(a) is Constant else a for a in self.args], **self.kwargs)
        return self.made


MOST_STEPS = 16
"""Operations one behind the other that make a constant."""


def _rebuilt(array: Array, dtype: DTypeLike, device: str, range: tuple[int, int] | None, requires_grad: bool) -> Any:
    """A tensor from its pickle."""
    return TensorHandle.made_as(array, dtype, device, range, requires_grad)


def _differentiated(node: TensorNode) -> bool:
    """Whether a node is made of an argument whose gradient is being taken."""
    return any(isinstance(n.arg, OpenArgument) and n.arg.open for n in walk([node] if node.tracked else [], lambda n: not n.tracked))


def _of_tensors(data: Any, device: str) -> TensorNode | None:
    """The node of what gradients and captured functions see through: a tensor without values of its own, or nested lists with tensors
    among them. None for anything else."""
    if isinstance(data, TensorHandle):
        known = data.known is not None or data.deferred is not None or (data.node.data is not None and not data.node.tracked)
        return None if (known and thread.capture is None) or data.device != device else data.node
    if not isinstance(data, (list, tuple)) or not _holds_tensors(data, device):
        return None
    return nested(data, lambda x: x.node if isinstance(x, TensorHandle) else x)


def _holds_tensors(data: Any, device: str) -> bool:
    """Whether real tensors of a device are among nested lists. (Long lists of numbers are looked through in C.)"""
    kinds = set(map(type, data))
    if any(issubclass(k, TensorHandle) for k in kinds):
        return all(not x.complex_class and x.device == device for x in data if isinstance(x, TensorHandle))
    return not kinds.isdisjoint((list, tuple)) and any(_holds_tensors(x, device) for x in data if isinstance(x, (list, tuple)))


def node_of(x: Any) -> TensorNode:
    """The node of a tensor, array, list or number."""
    if isinstance(x, TensorNode):
        return x
    return x.node if isinstance(x, TensorHandle) else from_data(x)


def compute(*trees: Any) -> None:
    """Compute every tensor of some trees now, those of one device in one go."""
    by: dict[str, list[TensorHandle]] = {}
    for t in flatten(list(trees))[0]:
        if isinstance(t, TensorHandle):
            by.setdefault(t.device, []).append(t)
    for device, tensors in by.items():
        nodes = [t.node for t in tensors]
        realise(nodes, device)
        keep = with_gradients(nodes)
        for t in tensors:
            if t.node.src and id(t.node) not in keep:
                t.node = leaf(t.node.data)  # what it was made from can go
