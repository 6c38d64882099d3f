"""`operation`: a kernel of the user's as a function of tensors, in eager code and in captured functions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..devices.once import process_lock
from ..ir.buffer import Buffer
from ..ir.dtypes import DType
from ..ir.errors import UsageError
from ..ir.kernel import Kernel
from ..ir.node import Node
from .gradients.rules import HOST_RULES, HostRule
from .gradients.vmap import vmap
from .graph import own_kernels
from .graph.captured_numbers import plain
from .graph.nodes import HostCall, TensorNode, range_of
from .graph.own_kernels import OwnKernel
from .graph.primitives import host
from .graph.source_lines import at, user_line
from .graph.symbolic_sizes import extents, symbolic
from .leaves import array_class
from .lift import one_device
from .tensor import Tensor, as_tensor

Rule = Callable[..., Any]
MOST_KERNELS = 256
"""Kernels that an operation remembers."""


@dataclass(frozen=True)
class ArraySpec:
    """What an operation's function gets for a tensor: its `shape` (numbers, or what `KernelBuilder` takes for sizes that differ from call to
    call) and `dtype`."""

    shape: tuple[int | Node, ...]
    dtype: DType

    def _no_value(self, *_: Any) -> Any:
        raise UsageError(
            f"an operation's function gets the shape and dtype of a tensor, and no values: read it in the kernel (kb.input), or give the "
            f"operation a number of Python's{at(user_line())}"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __pow__ = __neg__ = _no_value
    __index__ = __int__ = __float__ = __bool__ = __getitem__ = __lt__ = __gt__ = __le__ = __ge__ = _no_value
    __iter__ = None


class SourceFunction(Protocol):
    """A source that was built: a function of its input arrays to its outputs. (`sources` has these, and `best_source` says which.)"""

    name: str
    key: tuple[Any, ...]
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]

    def __call__(self, *arrays: Any) -> tuple[Any, ...]: ...


class Operation:
    """What `operation` makes of a function. `gradient`: its rule, or None."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.name: str = getattr(function, "__name__", "operation")
        self.gradient: Rule | None = None
        self._make, self._signature = function, inspect.signature(function)
        self._made: dict[Any, tuple[Any, _Called]] = {}
        self._lock = process_lock()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as e:
            raise UsageError(f"{self.name}: {e}{at(user_line())}") from None
        names, tensors = [], []
        given: dict[str, Any] = {}
        for name, x in bound.arguments.items():
            if isinstance(x, (Tensor, array_class())):
                names.append(name)
                tensors.append(as_tensor(x))
            elif self._signature.parameters[name].kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
                raise UsageError(f"{self.name}: an operation's arguments have names of their own, not *{name}{at(user_line())}")
            else:
                given[name] = plain(x)
        if not tensors:
            raise UsageError(f"{self.name}: no argument is a tensor or an array{at(user_line())}")
        device = one_device([t.device for t in tensors])
        src = [t.node for t in tensors]
        found, called = self._kernel(names, src, given, device)
        if isinstance(found, OwnKernel):
            places = _places(self.name, [b.name for b in found.kernel.inputs], names)
            src, names = [src[i] for i in places], [names[i] for i in places]
            own_kernels.check(found, names, src)
            outs = own_kernels.outputs(found, src)
        else:
            outs = _hosted(self.name, found, called, names, src, device)
        results = tuple(Tensor.of(n, device) for n in outs)
        return results if len(results) > 1 else results[0]

    def _kernel(self, names: Sequence[str], src: Sequence[TensorNode], given: Mapping[str, Any], device: str) -> tuple[Any, _Called]:
        """What the function returns for such arguments, called once for each kind of them."""
        key = (tuple((name, n.shape, n.dtype, range_of(n)) for name, n in zip(names, src)), repr(sorted(given.items())), device)
        with self._lock:
            if key in self._made:
                return self._made[key]
        specs = {name: ArraySpec(extents(n.shape), n.dtype) for name, n in zip(names, src)}
        made = self._make(**specs, **given)
        called = _Called(self, dict(given), device)
        found: Any
        if isinstance(made, Kernel):
            found = OwnKernel(made, called, tuple(sorted(given.items())))
        elif hasattr(made, "loaded"):
            found = made.loaded()
        else:
            raise UsageError(
                f"{self.name} returned {type(made).__name__}: an operation's function returns the Kernel for its arguments' shapes, or what "
                f"best_source gives{at(user_line())}"
            )
        with self._lock:
            if len(self._made) >= MOST_KERNELS:
                self._made.clear()
            return self._made.setdefault(key, (found, called))


def operation(function: Callable[..., Any]) -> Operation:
    """A kernel of yours as a function of tensors, which works wherever those do: in eager code, `jit`, `grad`, `vmap` and loops.

    `function` gets the shape and type of each tensor (`x.shape`, `x.dtype`), and other arguments as they are. It returns the `Kernel` for
    them (of a `KernelBuilder`, or in tiles), or what `best_source` gives for a source in C or C++. The kernel's inputs take the tensors of
    their names; where the names differ, in order. The operation returns a tensor for each output, one or a tuple. `function` is called once
    for each kind of arguments.

    `register_gradient(operation, rule)` gives it a gradient. Raises UsageError where a kernel takes other shapes or types, writes in place,
    or leaves elements of an output unwritten."""
    if not callable(function):
        raise UsageError(f"operation is for functions, not {type(function).__name__}")
    return Operation(function)


def register_gradient(name: str | Operation, rule: Rule | HostRule) -> None:
    """Let an operation have a gradient: `rule(dy, y, *inputs, **others)` returns the gradient of each input (None for one without), one or a
    tuple. `dy` and `y` are tensors, or tuples of them where it has several outputs; `others` are the arguments that are no tensors.

    With a name, NumPy's own code of that name has one: `rule(node, dy)` returns nodes for its sources (or None)."""
    if isinstance(name, Operation):
        name.gradient = rule
    elif isinstance(name, str):
        HOST_RULES[name] = rule
    else:
        what = getattr(name, "__name__", type(name).__name__)
        raise UsageError(
            f"register_gradient: {what} is no operation: make one with @tilewright.operation, or give the name of NumPy's code{at(user_line())}"
        )


# gradients --------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class _Called:
    """An operation with arguments beside its tensors: how its gradient follows."""

    operation: Operation
    given: Mapping[str, Any]
    device: str

    def pull(
        self, n: TensorNode, src: Sequence[TensorNode], outs: Sequence[TensorNode], dys: Sequence[TensorNode]
    ) -> list[TensorNode | None]:
        """The gradients of sources, of the outputs' ones. Raises UsageError where the operation has none, or its rule gives something else."""
        tensors = [[Tensor.of(x, self.device) for x in xs] for xs in (src, outs, dys)]
        found = self.gradients(n, *tensors)
        for x, g in zip(src, found, strict=True):
            if g is not None and (g.shape != x.shape or g.dtype is not x.dtype):
                raise UsageError(
                    f"{self.operation.name}: its gradient rule gives {g.dtype}{list(g.shape)} for an input {x.dtype}{list(x.shape)}{at(n.line)}"
                )
        return [None if g is None else g.node for g in found]

    def gradients(self, n: TensorNode, given: Sequence[Tensor], ys: Sequence[Tensor], dys: Sequence[Tensor]) -> Sequence[Tensor | None]:
        """The same of tensors."""
        op = self.operation
        if op.gradient is None:
            raise UsageError(
                f"{op.name} is an operation of yours without a gradient{at(n.line)}: give it one with tilewright.register_gradient({op.name}, "
                f"rule), or put stop_gradient() around it"
            )
        one = len(ys) == 1
        found = op.gradient(dys[0] if one else tuple(dys), ys[0] if one else tuple(ys), *given, **self._others(len(given), n))
        found = tuple(found) if isinstance(found, (tuple, list)) else (found,)
        if len(found) != len(given):
            raise UsageError(f"{op.name}: its gradient rule returns {len(found)} gradients for {len(given)} inputs{at(n.line)}")
        return found

    def _others(self, inputs: int, n: TensorNode) -> dict[str, Any]:
        """What the gradient rule gets beside tensors: what the operation was given, and its defaults where the rule asks for them. Raises
        UsageError where the rule cannot be called so."""
        op = self.operation
        assert op.gradient is not None
        rule = inspect.signature(op.gradient)
        defaults = {k: p.default for k, p in op._signature.parameters.items() if p.default is not p.empty and k in rule.parameters}
        others = {**defaults, **self.given}
        try:
            rule.bind(*[None] * (2 + inputs), **others)
        except TypeError as e:
            asked = ", ".join(("dy", "y", *(f"input {i + 1}" for i in range(inputs)), *(f"{k}={v!r}" for k, v in others.items())))
            raise UsageError(f"{op.name}: its gradient rule is called with ({asked}), and takes {rule}: {e}{at(n.line)}") from None
        return others

    @functools.cached_property
    def _batched(self) -> dict[tuple[bool, ...], _Batched]:
        return {}

    def batched(self, flags: Sequence[bool]) -> _Batched:
        """The same for a batch. `flags`: which of the inputs have its dimension in front."""
        return self._batched.setdefault(tuple(flags), _Batched(self, tuple(flags)))


class _Batched(_Called):
    """The operation of each element of a batch."""

    def __init__(self, each: _Called, flags: tuple[bool, ...]) -> None:
        super().__init__(each.operation, each.given, each.device)
        self.__dict__.update(each=each, flags=flags)

    each: _Called
    flags: tuple[bool, ...]

    def gradients(self, n: TensorNode, given: Sequence[Tensor], ys: Sequence[Tensor], dys: Sequence[Tensor]) -> Sequence[Tensor | None]:
        held: list[bool] = []

        def one(given: Any, ys: Any, dys: Any) -> Any:
            found = self.each.gradients(n, given, ys, dys)
            held[:] = [g is not None for g in found]
            return [g for g in found if g is not None]

        size = ys[0].shape[0]
        wide = [x if f else x.expand((size, *x.shape)) for x, f in zip(given, self.flags, strict=True)]
        made = iter(vmap(one)(wide, list(ys), list(dys)))
        found = [next(made) if h else None for h in held]
        return [g if g is None or f else g.sum(0) for g, f in zip(found, self.flags, strict=True)]


# sources ----------------------------------------------------------------------------------------------------
def _hosted(
    name: str, source: SourceFunction, called: _Called, names: Sequence[str], src: Sequence[TensorNode], device: str
) -> list[TensorNode]:
    """The outputs of a source. Several are one array of bytes until they are told apart."""
    if any(symbolic(n.shape) for n in src):
        raise UsageError(f"{name}: a source is built for sizes that are numbers; capture it in a function of its own{at(user_line())}")
    places = _places(name, [b.name for b in source.inputs], names)
    src = [src[i] for i in places]
    for i, b, n in zip(places, source.inputs, src, strict=True):
        if b.dtype is not n.dtype or tuple(b.shape) != n.shape:
            raise UsageError(
                f"{source.name}: the argument {b.name} is {b.dtype}{list(b.shape)}, and {names[i]} is {n.dtype}{list(n.shape)}{at(user_line())}"
            )
    outs = []
    for i, b in enumerate(source.outputs):
        call = HostCall(
            source.name, lambda *arrays, i=i: source(*arrays)[i], (*source.key, i), called if len(source.outputs) == 1 else None
        )
        outs.append(host(call, tuple(src), tuple(int(n) for n in b.shape), b.dtype))
    return outs


def _places(name: str, wanted: Sequence[str], names: Sequence[str]) -> list[int]:
    """By input of a kernel, the place of its tensor among the arguments."""
    if set(wanted) == set(names):
        return [names.index(w) for w in wanted]
    if len(wanted) != len(names):
        raise UsageError(
            f"{name}: the kernel takes {len(wanted)} inputs ({', '.join(wanted)}), and {len(names)} arguments are tensors "
            f"({', '.join(names)}){at(user_line())}"
        )
    return list(range(len(names)))
