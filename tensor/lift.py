"""Functions of nodes as functions of tensors: the one way in which tensors' methods and `tilewright.xp` call `ops`, so that
devices are checked and errors get the user's line in one place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, wraps
from inspect import Signature, signature
from types import EllipsisType, NoneType
from typing import Any

from ..ir.dtypes import DType
from ..ir.errors import DTypeError, TilewrightError, UsageError
from .frontends.habits import argument
from .given_arrays import through
from .graph.captured_numbers import holds, plain
from .graph.nodes import TensorNode, constant_of
from .graph.primitives import rounded
from .graph.source_lines import at, user_line, with_line
from .graph.symbolic_sizes import SymbolicSize, symbolic
from .handle import TensorHandle
from .leaves import as_array, from_numpy, leaf, no_matrix, of_others
from .ops.complex_numbers import ComplexParts, apart, complex_rule, is_complex, memory_of
from .ops.elementwise import multiply
from .running.assignment import lock_of
from .running.current_capture import check_captured, current, thread
from .running.numpy_evaluation import SMALL_ARRAY, kernels_only
from .running.observers import WATCH
from .running.realise import realise
from .views import at_once, write, written


def lowered(x: Any, devices: list[str]) -> Any:
    """Tensors, NumPy arrays and memoryviews as nodes, also inside lists, tuples and slices; anything else as it is."""
    if isinstance(x, TensorHandle):
        devices.append(x.device)
        if thread.capture is not None:
            through(x)
        return TensorHandle.complex_as.pair.fget(x) if x.complex_class else x.node
    if type(x) in (int, float, bool, str) or x is None:
        return x
    if isinstance(x, (list, tuple)):
        if symbolic(x):
            check_captured(x)
        return (list if isinstance(x, list) else tuple)(lowered(e, devices) for e in x) if any(_holds(e) for e in x) else x
    if isinstance(x, SymbolicSize):
        check_captured(x)
    if not _is_array(x):
        return x
    no_matrix(x)
    array = as_array(x)
    if array.dtype.kind == "c":
        return apart(memory_of(array))
    return from_numpy(array, device=devices[0] if devices else "cpu")


def _devices(args: tuple[Any, ...]) -> Iterator[str]:
    """The devices of tensors among arguments, and in lists of them."""
    for a in args:
        if isinstance(a, TensorHandle):
            yield a.device
        elif isinstance(a, (list, tuple)):
            yield from (e.device for e in a if isinstance(e, TensorHandle))


def _holds(x: Any) -> bool:
    return isinstance(x, TensorHandle) or _is_array(x) or (isinstance(x, (list, tuple)) and any(map(_holds, x)))


def _is_array(x: Any) -> bool:
    return isinstance(x, memoryview) or (
        hasattr(x, "__array_interface__") and any(c.__module__.startswith("numpy") for c in type(x).__mro__)
    )


def raised(x: Any, device: str) -> Any:
    """Nodes as tensors, also inside lists and (named) tuples."""
    if isinstance(x, TensorNode):
        return TensorHandle.made_as.of(x, device)
    if isinstance(x, ComplexParts):
        return TensorHandle.complex_as.of_pair(x, device)
    if isinstance(x, tuple):
        parts = [raised(e, device) for e in x]
        return type(x)(*parts) if hasattr(x, "_fields") else tuple(parts)
    return [raised(e, device) for e in x] if isinstance(x, list) else x


def one_device(devices: list[str]) -> str:
    """The device that all operands share. Raises UsageError."""
    if len(set(devices)) > 1:
        raise UsageError(f"tensors on different devices ({', '.join(sorted(set(devices)))}): move them to one with .to()")
    return devices[0] if devices else "cpu"


@dataclass(frozen=True)
class _Parameters:
    """What a function's parameters take, as their annotations say. `numbers`: those that take a number which kernels may get as a
    parameter; `arrays`: those that take tensors. All others are Python's own: sizes, axes, counts, names. `positional`: of each
    parameter in order, whether it takes tensors; `rest`: of those that `*` gathers."""

    signature: Signature
    numbers: frozenset[str]
    arrays: frozenset[str]
    positional: tuple[bool, ...]
    rest: bool

    @classmethod
    def of(cls, function: Callable[..., Any]) -> _Parameters:
        found = signature(function)
        words = {n: str(p.annotation) for n, p in found.parameters.items()}
        numbers = frozenset(n for n, w in words.items() if any(x in w for x in ("Operand", "Scalar", "float", "Key", "Any")))
        arrays = frozenset(n for n, w in words.items() if n != "key" and any(x in w for x in ("TensorNode", "Operand", "Any")))
        spread = [n for n, p in found.parameters.items() if p.kind is p.VAR_POSITIONAL]
        return cls(found, numbers, arrays, tuple(n in arrays for n in words if n not in spread), not spread or spread[0] in arrays)


_parameters = cache(_Parameters.of)
KINDS = "buifc"
"""Kinds of types, each of which holds those before."""
_OWN = frozenset({int, float, bool, str, NoneType, slice, EllipsisType, DType})


def _own(x: Any) -> bool:
    """Whether something is Python's own already."""
    return type(x) in _OWN or (type(x) is tuple and all(type(e) in _OWN for e in x))


def _python(x: Any, key: bool) -> Any:
    """Sizes, axes and counts as Python's numbers, whatever they came in: NumPy's numbers and, but in a key, arrays and tensors."""
    if isinstance(x, (list, tuple)) and not symbolic(x):
        parts = [_python(e, key) for e in x]
        return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)
    if isinstance(x, slice):
        return slice(*(None if v is None else _python(v, False) for v in (x.start, x.stop, x.step)))
    if not key and isinstance(x, TensorHandle):
        return x.tolist()
    if _is_array(x) and not isinstance(x, memoryview):
        import numpy as np

        return x.tolist() if not key or isinstance(x, np.generic) else x
    return plain(x)


def _sizes_known(found: _Parameters, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call, of which those that are sizes, axes or places are Python's own numbers."""
    bound = found.signature.bind(*args, **kwargs)
    for n, x in bound.arguments.items():
        if n not in found.arrays:
            bound.arguments[n] = x if holds(x) and n in found.numbers else _python(x, n == "key")
        elif n not in found.numbers:
            bound.arguments[n] = plain(x)
    return bound.args, bound.kwargs


def _small(function: Callable[..., Any], direct: Callable[..., Any]) -> Callable[..., Any] | None:
    """What computes a function of small tensors at once. (It imports NumPy.)"""
    from .frontends.small_operations import prepared
    from .frontends.small_rules import RULES

    return prepared(function, RULES[direct]) if direct in RULES else None


def lifted(function: Callable[..., Any], direct: Callable[..., Any] | None = None, lazy: bool = False) -> Callable[..., Any]:
    """`function` of nodes as one of tensors. Errors get the user's line. Small operations are computed at once,
    by the rule of `small_operations` for `direct` (None: for `function`), unless `lazy`."""
    rule: Callable[..., Any] | None = None
    asked = lazy
    new = function.__module__.endswith(".elementwise")  # (whose results are never an argument's memory)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal rule, asked
        if not WATCH.busy or thread.capture is None:
            if not asked:
                rule, asked = _small(function, direct or function), True
            if rule is not None:
                made = rule(args, kwargs)
                if made is not None:
                    return made
        devices = list(_devices(args))  # (where arrays among them go)
        found = _parameters(function)
        takes = found.positional
        try:
            if (
                (current() is not None and (holds(args) or holds(tuple(kwargs.values()))))
                or any(not (takes[i] if i < len(takes) else found.rest) and not _own(a) for i, a in enumerate(args))
                or any(k not in found.arrays and not _own(v) for k, v in kwargs.items())
            ):
                args, kwargs = _sizes_known(found, args, kwargs)
            nodes = [lowered(a, devices) for a in args]
            named = {k: lowered(v, devices) for k, v in kwargs.items()}
            device = one_device(devices)
            if any(map(is_complex, nodes)) or any(map(is_complex, named.values())):
                return raised(complex_rule(function)(*nodes, **named), device)
            out = function(*nodes, **named)
            if new and type(out) is TensorNode and out.data is not None and thread.capture is None and any(out is n for n in nodes):
                return raised(out, device).copy()
            if devices and thread.capture is None and not lazy and device == "cpu":
                out = _settled(out, (nodes, named))
            return raised(out, device)
        except (TilewrightError, IndexError) as e:
            raise with_line(e) from e.__cause__
        except TypeError as e:
            if "out" in kwargs and kwargs["out"] is None:  # (libraries pass on what NumPy's functions call a method with)
                return call(*args, **{k: v for k, v in kwargs.items() if k != "out"})
            raise argument(e, function.__name__, found.signature) from e.__cause__
        except (AttributeError, ValueError) as e:
            sizes = [a for a, array in zip(args, takes) if array and isinstance(a, tuple) and all(type(n) is int for n in a)]
            if sizes and isinstance(e, AttributeError):  # (as of PyTorch's layer_norm(x, shape))
                wrong = TypeError(f"{function.__name__}() got {sizes[0]} for an array")
                raise argument(wrong, function.__name__, found.signature) from e
            foreign = next((a for a, array in zip(args, takes) if array and not isinstance(a, TensorHandle) and of_others(a)), None)
            if foreign is not None and not _is_array(foreign):
                what = f"{type(foreign).__module__.partition('.')[0]}.{type(foreign).__name__}"
                raise TypeError(f"{function.__name__}() of a {what}: give tilewright.xp.asarray(it){at(user_line())}") from e
            if not any(isinstance(a, str) for a in args):
                raise
            raise TypeError(f"{function.__name__} of text, which is no number{at(user_line())}") from e

    return call


def _settled(out: Any, given: Any) -> Any:
    """The results of a function, computed now if they and all that it was given are small, and known but for them: else every small operation
    behind one that `direct` has no rule for would become a graph."""
    found = list(_nodes_in(given))
    if kernels_only() or not found or any(n.data is None or n.tracked for n in found) or sum(n.size for n in found) > SMALL_ARRAY:
        return out
    wanted = [n for n in _nodes_in(out) if n.data is None]
    if not wanted or any(constant_of(n) is not None or n.op == "iota" or n.size > SMALL_ARRAY for n in wanted):
        return out
    realise(wanted)
    return _replaced(out)


def _nodes_in(x: Any) -> Iterator[TensorNode]:
    if isinstance(x, TensorNode):
        yield x
    elif isinstance(x, (list, tuple)):
        for e in x:
            yield from _nodes_in(e)
    elif isinstance(x, dict):
        yield from _nodes_in(list(x.values()))


def _replaced(x: Any) -> Any:
    """Nodes with values as leaves, so that what they were made from can go."""
    if isinstance(x, TensorNode):
        return leaf(x.data) if x.src and x.data is not None else x
    if isinstance(x, tuple):
        parts = [_replaced(e) for e in x]
        return type(x)(*parts) if hasattr(x, "_fields") else tuple(parts)
    return [_replaced(e) for e in x] if isinstance(x, list) else x


def _quick(function: Callable[..., Any], swapped: bool, slow: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    from .frontends.small_operations import quick

    return quick(function, swapped, slow)


def _in_memory(function: Callable[..., Any]) -> Callable[[Any, Any], bool]:
    from .frontends.small_operations import in_memory

    return in_memory(function)


def all_lifted(*functions: Callable[..., Any]) -> tuple[Callable[..., Any], ...]:
    """Several functions, `lifted`."""
    return tuple(map(lifted, functions))


def operator(function: Callable[..., Any], swapped: bool = False) -> Callable[..., Any]:
    """A binary operator of tensors; NotImplemented where the other operand is no array and no number."""
    call = lifted(function)
    quick: Callable[[Any, Any], Any] | None = None

    def method(self: Any, other: Any) -> Any:
        nonlocal quick
        if self.known is None:
            return slow(self, other)
        if quick is None:
            quick = _quick(function, swapped, slow)
        return quick(self, other)

    def slow(self: Any, other: Any) -> Any:
        if not isinstance(other, (TensorHandle, bool, int, float, complex, SymbolicSize)):
            if isinstance(other, (list, tuple)):
                if function is multiply and not self.shape and self.dtype.is_int:  # (a number of times, as NumPy's integers have it)
                    return NotImplemented
                other = TensorHandle.made_as(other)
            elif not _is_array(other):
                library = type(other).__module__.partition(".")[0]
                if library in ("torch", "jax", "jaxlib"):
                    raise TypeError(
                        f"{function.__name__} of a Tensor and a {library}.{type(other).__name__}: make both of one library, "
                        "with tilewright.xp.from_dlpack(other), which shares its memory"
                    )
                return NotImplemented
        return call(other, self) if swapped else call(self, other)

    method.__doc__ = function.__doc__
    return method


def in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """An operator whose result becomes the tensor's own value, in the tensor's type where that is of the result's kind. Raises UsageError where
    the shape would change, DTypeError where the type would."""
    call = operator(function)
    done: Callable[[Any, Any], bool] | None = None

    def method(self: Any, other: Any) -> Any:
        nonlocal done
        if done is None:
            done = _in_memory(function)
        with lock_of(self):
            if done(self, other):
                return self
            out = call(self, other)
            if out is NotImplemented:
                return out
            found, known = out.known, self.known
            if (
                found is not None and known is not None and found.dtype is known.dtype and found.shape == known.shape
                and type(out) is type(self) and at_once(self)
            ):  # fmt: skip
                known = None  # (who has the array is counted)
                if self.links is None:
                    self.show(found, out.constant)
                elif not written(self, ..., out):
                    write(self, out.node)
                return self
            if out.dtype is not self.dtype and KINDS.index(out.dtype.kind) <= KINDS.index(self.dtype.kind):
                out = out.astype(self.dtype) if self.complex_class else raised(rounded(out.node, self.dtype), out.device)
            if out.shape != self.shape or out.dtype is not self.dtype:
                change = f"{self.dtype}{list(self.shape)} would become {out.dtype}{list(out.shape)}"
                kind = UsageError if out.dtype is self.dtype else DTypeError
                raise kind(f"{function.__name__} in place: {change}{at(user_line())}")
            if (out.known is None and out.deferred is None) or not at_once(self) or (self.known is None and self.deferred is None):
                write(self, out.node)
            elif self.links is None:
                self.show(out.known, None if out.known is None else out.constant, out.deferred)
            elif not written(self, ..., out):
                write(self, out.node)
        return self

    method.__doc__ = f"In place: {function.__doc__}"
    return method
