"""Running a graph node by node, on tensors (which a captured function records) and on arrays that are known."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from operator import add, mul, sub
from typing import Any
from zlib import crc32

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from ...ir.errors import TilewrightError, UsageError
from ...tensor import Tensor
from ...tensor.graph.symbolic_sizes import SymbolicSize, most
from .element_types import NUMPY, Array, as_tensor, code_of
from .graph import SHAPES, OperatorGraph, OperatorNode
from .operators.indexing import known
from .operators.table import KNOWN, OPERATORS, DataDependentError, whole_numbers

# symbolic values ------------------------------------------------------------------------------------------------------
#
# Arithmetic of sizes that are known at each call only: what NumPy computes for known ones, on arrays of Python
# objects.


def is_symbolic(x: Any) -> bool:
    """Whether an array holds sizes without values."""
    return isinstance(x, np.ndarray) and x.dtype == object


def _elementwise(f: Callable[[Any, Any], Any]) -> Callable[..., Array]:
    return lambda node, *xs: _objects(reduce(np.frompyfunc(f, 2, 1), xs))


def _objects(x: Any) -> Array:
    """An array of objects, of numbers where no size is left in it."""
    found = np.asarray(x, object)
    if any(isinstance(v, SymbolicSize) for v in found.reshape(-1)):
        return found
    return found.astype(bool if found.size and isinstance(found.reshape(-1)[0], bool) else np.int64)


def _divided(a: Any, b: Any) -> Any:
    return a // b


def _axes(node: OperatorNode, given: Sequence[Array]) -> tuple[int, ...]:
    return tuple(whole_numbers(given[0] if given else node.attributes.get("axes")) or ())


def _slice(node: OperatorNode, x: Array, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None) -> Array:
    first, last = whole_numbers(starts) or [], whole_numbers(ends) or []
    over, by = whole_numbers(axes) or list(range(len(first))), whole_numbers(steps) or [1] * len(first)
    key = [slice(None)] * x.ndim
    for a, b, axis, step in zip(first, last, over, by):
        key[axis] = slice(a, b, step)
    return x[tuple(key)]


RULES: dict[str, Callable[..., Array]] = {
    "Add": _elementwise(add),
    "Sub": _elementwise(sub),
    "Mul": _elementwise(mul),
    "Div": _elementwise(_divided),
    "Equal": _elementwise(lambda a, b: bool(a == b)),
    "Where": lambda node, test, a, b: _objects(np.where(test, np.asarray(a, object), np.asarray(b, object))),
    "Identity": lambda node, x: x,
    "Cast": lambda node, x: x,
    "Gather": lambda node, x, at: _objects(np.take(x, np.asarray(at, np.int64), axis=node.attributes.get("axis", 0))),
    "Concat": lambda node, *xs: _objects(np.concatenate([np.asarray(x, object) for x in xs], axis=node.attributes["axis"])),
    "Reshape": lambda node, x, shape: x.reshape(whole_numbers(shape) or ()),
    "Unsqueeze": lambda node, x, *given: np.expand_dims(x, _axes(node, given)),
    "Squeeze": lambda node, x, *given: np.squeeze(x, _axes(node, given) or None),
    "Slice": lambda node, *xs: _objects(_slice(node, *xs)),
    "ReduceProd": lambda node, x, *given: _objects(reduce(mul, x.reshape(-1))).reshape((1,) if node.attributes.get("keepdims", 1) else ()),
}
"""What is done with sizes on the way from `Shape` to where they are used."""


def computed(node: OperatorNode, inputs: Sequence[Any]) -> list[Array]:
    """The result of a node of sizes. Raises UsageError where it asks what holds for some sizes only, or is no arithmetic of sizes."""
    rule = RULES.get(node.op[1])
    if rule is None or node.op[0]:
        raise UsageError(f"{node.kind} of sizes that calls give is not supported")
    return [np.asarray(rule(node, *inputs))]


# evaluation -----------------------------------------------------------------------------------------------------------

Values = dict[str, Any]
RANDOM = "random\0key"
"""The name of a value that no model has: the seed and the number of the run, for random numbers."""
MOST_ELEMENTS = 2**34
"""Of a result: a kernel that fuses it away would still count through it."""
HOST_BYTES = 2**24
"""Of a result that NumPy computes for sizes and axes: more is a file's fault."""


@dataclass
class NodeCall:
    """A node that is run, as its operator sees it."""

    node: OperatorNode
    version: int
    inputs: Sequence[Any]
    values: Values
    types: Mapping[str, int]

    @property
    def wanted(self) -> int:
        """How many results the node names."""
        return len(self.node.outputs)

    @property
    def kind(self) -> str:
        """The operator's name."""
        return self.node.op[1]

    def code(self, index: int) -> int:
        """The ONNX type of an input."""
        x = self.inputs[index]
        if isinstance(x, np.ndarray):
            return int(onnx.TensorProto.INT64) if is_symbolic(x) else code_of(x)
        return self.types.get(self.node.inputs[index]) or next(code for code, t in NUMPY.items() if t == x.dtype.np)

    def constant(self, index: int) -> float | None:
        """The only element of an input that is known without axes; None for others."""
        x = self.inputs[index]
        return x.item() if isinstance(x, np.ndarray) and x.ndim == 0 and x.dtype.kind in "fiu" else None

    def key(self, seed: float | None) -> Any:
        """The key of the node's random numbers at this run."""
        own = crc32(next(o for o in self.node.outputs if o).encode())
        words = self.values[RANDOM]
        first = words[0] if seed is None else crc32(struct.pack("<d", seed))
        return (first + own if seed is None else (first + own) % 2**32, words[1])

    def run(self, graph: str, inputs: Sequence[Any]) -> list[Any]:
        """The results of an inner graph, which sees the values around it."""
        inner = self.node.graphs[graph]
        return evaluate(inner, {**self.values, **dict(zip(inner.inputs, inputs))}, self.version, self.types)


def evaluate(
    graph: OperatorGraph, values: Values, version: int, types: Mapping[str, int], late: list[OperatorNode] | None = None
) -> list[Any]:
    """The values of a graph's results. Errors name the node. `late`: gets the nodes that hang on data which is not known yet, and those
    that read what they make; then results of theirs are None."""
    values.update((name, c) for name, c in graph.constants.items() if name not in values)
    for node in graph.nodes:
        if late and not node.reads <= values.keys():
            late.append(node)
            continue
        inputs = [values[name] if name else None for name in node.inputs]
        try:
            found = _results(NodeCall(node, version, inputs, values, types))
        except TilewrightError as e:
            if late is not None and isinstance(e, DataDependentError):
                late.append(node)
                continue
            if str(e).startswith("in node "):
                raise
            raise type(e)(f"in node {node}: {e}") from e
        except (TypeError, ValueError, IndexError, KeyError, ZeroDivisionError, OverflowError, AttributeError) as e:
            raise UsageError(f"in node {node}: its operands or attributes are not as {node.kind} needs them: {e}") from e
        values.update((name, v) for name, v in zip(node.outputs, found) if name)
    return [values.get(name) if late else values[name] for name in graph.outputs]


def _results(call: NodeCall) -> Sequence[Any]:
    node, inputs = call.node, call.inputs
    if any(map(is_symbolic, inputs)) and node.op[1] in RULES and not any(isinstance(x, Tensor) for x in inputs):
        return computed(node, inputs)
    if node.on_host and node.op[1] not in SHAPES and not any(isinstance(x, Tensor) for x in inputs):
        return by_numpy(node, call.version, inputs)
    wanted = KNOWN.get(node.op, ())
    given = [
        x if x is None or node.graphs or node.op[1] in SHAPES else known(x) if i in wanted else as_tensor(x) for i, x in enumerate(inputs)
    ]
    operator: Callable[..., Any] = OPERATORS[node.op]
    found = operator(call, *given, **node.attributes)
    found = found if isinstance(found, (tuple, list)) else (found,)
    for x in found:
        if isinstance(x, Tensor) and prod(map(most, x.shape)) > MOST_ELEMENTS:
            raise UsageError(f"a result of the shape {list(x.shape)} is too large")
    return found


def by_numpy(node: OperatorNode, version: int, inputs: Sequence[Any]) -> Sequence[Array]:
    """The results of a node, by the reference implementation of the onnx package."""
    _check_size(node, inputs)
    ins = [onnx.helper.make_empty_tensor_value_info(n) for n in dict.fromkeys(node.inputs) if n]
    outs = [onnx.helper.make_empty_tensor_value_info(o) for o in node.outputs if o]
    graph = onnx.helper.make_graph([node.proto], "one", ins, outs)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(node.proto.domain, version)])
    with np.errstate(all="ignore"):
        try:
            found = ReferenceEvaluator(model).run(None, {n: a for n, a in zip(node.inputs, inputs) if n})
        except (RuntimeError, NotImplementedError, AttributeError) as e:
            raise UsageError(f"NumPy cannot compute it: {e}") from e
    results = iter(np.asarray(f) for f in found)
    return [next(results) if o else np.empty(0) for o in node.outputs]


def _check_size(node: OperatorNode, inputs: Sequence[Any]) -> None:
    """What a few numbers make large is refused before it is made."""
    kind = node.op[1]
    if kind in ("ConstantOfShape", "Expand", "Tile") and (which := inputs[-1 if kind != "ConstantOfShape" else 0]) is not None:
        sizes = [float(abs(int(n))) for n in np.asarray(which).reshape(-1)]
        count = float(np.prod(sizes)) * (inputs[0].size if kind == "Tile" else 1)
    elif kind == "Range":
        start, stop, step = (float(np.asarray(x).reshape(-1)[0]) for x in inputs[:3])
        count = abs((stop - start) / step) if step else np.inf
    elif kind in ("Pad", "OneHot", "Resize"):
        count = max(
            (float(np.max(np.abs(x), initial=0)) for x in inputs[1:] if x is not None and np.asarray(x).dtype.kind in "iuf"), default=0.0
        )
    else:
        return
    if not count <= HOST_BYTES / 8:
        raise UsageError(f"{kind} would make {count:.3g} elements that sizes hang on")
