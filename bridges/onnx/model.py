"""A model that was read: called with arrays or tensors, captured once for each kind of them."""

from __future__ import annotations

import os
import re
import secrets
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import Parameter, Signature
from typing import Any

import numpy as np
from onnx import ModelProto, ValueInfoProto

from ...ir.errors import UsageError
from ...log import logger
from ...tensor import Tensor, Var, jit
from ...tensor.capture.bindings import given_arrays
from ...tensor.capture.compiled_function import CompiledFunction
from ...tensor.capture.jit import Jitted
from .element_types import NUMPY, PLAIN, Array, as_tensor, code_of, in_memory, storage, type_name, unstored
from .evaluation import RANDOM, Values, by_numpy, evaluate, is_symbolic
from .graph import OperatorGraph, OperatorNode, expanded, needed_values, parsed, types_of
from .integer_products import use_integer_products
from .model_file import opset, read

log = logger("onnx")
Places = dict[str, dict[int, Any]]
MOST_BAKED = 1024
"""Elements of inputs that sizes hang on: a program is captured for each of their values."""
MOST_PROGRAMS = 64
"""Functions that are kept for values of such inputs."""
FOLDED = ("Transpose", "Reshape", "Squeeze", "Unsqueeze", "Cast", "Concat", "Slice", "Gather", "Identity", "Flatten", "Split")
"""Operators that are computed when a model is read, where all operands are known: they move elements."""


RECURRENT = {("", name) for name in ("RNN", "GRU", "LSTM")}
DRAWS = {("", name) for name in ("RandomUniform", "RandomUniformLike", "RandomNormal", "RandomNormalLike", "Multinomial")}
"""Operators that give other results at each run."""


@dataclass(frozen=True)
class CapturedPart:
    """What was captured of a graph. `names`: of the values that the function returns; `known`: outputs, and what `late` nodes read, that
    are known without it. The `late` nodes hang on data: they are run one by one after it."""

    names: list[str]
    known: Values
    late: list[OperatorNode]


@dataclass(frozen=True)
class OnnxValue:
    """An input or output of a model. `shape`: whole numbers, names of sizes that calls give, None where nothing is said."""

    name: str
    dtype: str
    shape: tuple[int | str | None, ...] | None


class OnnxModel:
    """A model as a function: `model(x)`, `model(name=x)` or `model.run(["y"], {"x": x})`.

    `inputs`, `outputs`: what it takes and gives. Arrays of NumPy give arrays, tensors give tensors. Every set of shapes is captured and
    compiled once, as `tilewright.jit` does, with the options given to `load`."""

    def __init__(
        self,
        graph: OperatorGraph,
        model: ModelProto,
        types: Mapping[str, int],
        ranges: Mapping[str, tuple[int, int]],
        options: Mapping[str, Any],
    ) -> None:
        self._graph, self._types, self._version = graph, types, opset(model)
        self._options = {"frozen": True, **options}
        by_name = {v.name: v for v in (*model.graph.input, *model.graph.output)}
        self.inputs: tuple[OnnxValue, ...] = tuple(_described(by_name[n], True) for n in graph.inputs)
        self.outputs: tuple[OnnxValue, ...] = tuple(_described(by_name[n], False) for n in graph.outputs)
        self._ranges, self._symbols = dict(ranges), _symbols(self.inputs, ranges)
        self._need = needed_values(graph)
        _fold(graph, self._need, self._version)
        self._weights: Values = {}
        self._functions: OrderedDict[Any, tuple[Jitted, dict[Any, CapturedPart]]] = OrderedDict()
        self._seen: tuple[list[tuple[Any, tuple[int, ...]]], Jitted] | None = None
        self._random = any(node.op in DRAWS for node in graph.walk())
        self._seed, self._runs = secrets.randbits(32), 0
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        takes, gives = (", ".join(f"{v.name}: {v.dtype}{_text(v.shape)}" for v in values) for values in (self.inputs, self.outputs))
        return f"OnnxModel({takes} -> {gives}; {len(self._graph.nodes)} nodes)"

    def __call__(self, *args: Any, **feeds: Any) -> Any:
        """The outputs: one by itself, several as a tuple. Inputs by position or name; those with a default may be left out."""
        if len(args) > len(self.inputs):
            raise UsageError(f"the model takes {len(self.inputs)} inputs, and {len(args)} are given")
        given = {v.name: a for v, a in zip(self.inputs, args)}
        twice = given.keys() & feeds
        if twice:
            raise UsageError(f"input {sorted(twice)[0]!r} is given twice")
        found = self.run(None, {**given, **feeds})
        return found[0] if len(found) == 1 else tuple(found)

    def run(self, names: Sequence[str] | None, feeds: Mapping[str, Any], out: Mapping[str, Array] | None = None) -> list[Any]:
        """The outputs of these names (None: all), for inputs by name. `out`: arrays that outputs are written to, by name. Raises UsageError
        where an input is missing, unknown, or not of the type and shape that the model says, and for arrays that an output does not fit."""
        if out is None and (again := self._again(names, feeds)) is not None:
            return again
        values = {v.name: self._checked(v, feeds) for v in self.inputs}
        known = {v.name for v in self.inputs}
        for name in feeds:
            if name not in known:
                raise UsageError(f"the model has no input {name!r}; its inputs are {', '.join(sorted(known)) or 'none'}")
        _consistent(self.inputs, values, self._ranges)
        order = [v.name for v in self.outputs]
        bound = dict(out or {})
        for name in (*(names or ()), *bound):
            if name not in order:
                raise UsageError(f"the model has no output {name!r}; its outputs are {', '.join(order)}")
        given_arrays("run", list(bound.values()))
        tensors = any(isinstance(x, Tensor) for x in values.values())
        with self._lock:
            found = self._outputs(values, bound)
        results = {v.name: x if tensors and isinstance(x, Tensor) else self._array(v.name, x) for v, x in zip(self.outputs, found)}
        for name, array in bound.items():
            results[name] = _written(name, results[name], array)
        self._remember(values)
        return [results[name] for name in names or order]

    def _remember(self, values: Values) -> None:
        """Arrays like these need no look at them next time: they are used as they lie, and so are all results."""
        arrays = list(values.values())
        plain = all(isinstance(a, np.ndarray) and a.size > 1 and a.dtype.isnative and str(a.dtype) in PLAIN.values() for a in arrays)
        codes = [self._types.get(v.name, 0) for v in self.outputs]
        if not plain or self._random or len(self._functions) != 1 or not all(c in PLAIN for c in codes):
            return
        ((baked, (function, parts)),) = self._functions.items()
        if not baked and not any(p.known or p.late for p in parts.values()):
            self._seen = [(a.dtype, a.shape) for a in arrays], function

    def _again(self, names: Sequence[str] | None, feeds: Mapping[str, Any]) -> list[Any] | None:
        """The outputs for contiguous arrays of the types and shapes of the last call; None where they are others."""
        if self._seen is None or names is not None or len(feeds) != len(self.inputs):
            return None
        kinds, function = self._seen
        given = [feeds.get(v.name) for v in self.inputs]
        for a, (dtype, shape) in zip(given, kinds):
            if type(a) is not np.ndarray or a.shape != shape or a.dtype != dtype or not a.flags.c_contiguous:
                return None
        with self._lock:
            return [x.numpy() for x in function(*given)]

    @property
    def programs(self) -> list[CompiledFunction]:
        """What was compiled so far."""
        return [p for function, _ in self._functions.values() for p in function.programs if p.calls]

    @property
    def weights(self) -> Mapping[str, Any]:
        """Tensors by name, of a model that was called or captured; a single element is an array."""
        return self._weights

    def report(self) -> str:
        """The kernels with their schedules and where those come from, as `Jitted.report` has them."""
        if not self.programs:
            return "nothing was compiled: the model was not called, or is run node by node"
        return "\n\n".join(function.report() for function, _ in self._functions.values())

    def _array(self, name: str, x: Any) -> Array:
        code = self._types.get(name)
        array = x.numpy() if isinstance(x, Tensor) else np.asarray(x)
        return unstored(array, code) if code and isinstance(x, Tensor) else array

    def _checked(self, v: OnnxValue, feeds: Mapping[str, Any]) -> Any:
        if v.name not in feeds:
            raise UsageError(f"input {v.name!r} is missing: {v.dtype}{_text(v.shape)}")
        x = feeds[v.name]
        if not isinstance(x, Tensor):
            x = np.asarray(x)
        code = self._types.get(v.name)
        kind = code_of(x) if isinstance(x, np.ndarray) else None
        if code and (kind != code if kind is not None else x.dtype.name != storage(code)):
            raise UsageError(f"input {v.name!r} is of {v.dtype}, and {x.dtype} is given: convert it first")
        if v.shape is not None and (
            len(v.shape) != len(x.shape) or any(isinstance(n, int) and n != m for n, m in zip(v.shape, x.shape, strict=True))
        ):
            raise UsageError(f"input {v.name!r} has the shape {_text(v.shape)}, and {list(x.shape)} is given")
        return x

    # ways to run ----------------------------------------------------------------------------------------------------
    def _outputs(self, values: Values, bound: Mapping[str, Array]) -> list[Any]:
        baked, free = self._arguments(values)
        if sum(b.size for b in baked.values()) > MOST_BAKED:
            return self._node_by_node(self._graph, {**baked, **free})
        try:
            return self._captured(baked, free, bound)
        except UsageError as e:
            if not self._symbols:
                raise
            warnings.warn(
                f"the model is compiled for each set of sizes, since it cannot be for {', '.join(self._ranges)}: {e}", stacklevel=4
            )
            self._symbols = {}
            self._functions.clear()
            return self._outputs(values, bound)

    def _node_by_node(self, graph: OperatorGraph, values: Values) -> list[Any]:
        return evaluate(graph, {**self._weights, **values}, self._version, self._types)

    def _captured(self, baked: Values, free: Values, bound: Mapping[str, Array]) -> list[Any]:
        key = tuple((name, b.shape, b.tobytes()) for name, b in baked.items())
        if key not in self._functions:
            self._functions[key] = self._function(baked, list(free))
            while len(self._functions) > MOST_PROGRAMS:
                self._functions.popitem(last=False)
        self._functions.move_to_end(key)
        function, parts = self._functions[key]
        shapes = tuple(tuple(x.shape) for x in free.values())
        arrays = self._bound(bound, parts.get(shapes))
        found = function(*free.values()) if arrays is None else function(*free.values(), out=arrays)
        part = parts[shapes] if shapes in parts else next(iter(parts.values()))
        values = {**part.known, **dict(zip(part.names, found))}
        if part.late:
            return self._node_by_node(replace(self._graph, nodes=part.late), {**baked, **free, **values})
        return [values[name] for name in self._graph.outputs]

    def _function(self, baked: Values, names: list[str]) -> tuple[Jitted, dict[Any, CapturedPart]]:
        """The graph as a captured function of the other inputs, and by shapes what was captured."""
        function, parts, places = self._bare(baked, names)
        settings: dict[str, Any] = {**self._options, **({"symbols": places} if places else {})}
        return jit(function, **settings), parts

    def _bound(self, bound: Mapping[str, Array], part: CapturedPart | None) -> tuple[Array, ...] | None:
        """Arrays for all that the captured function returns, which writes there itself; None where one is missing, or would be converted."""
        if part is None or not bound or part.late:
            return None
        fits = all(n in bound and bound[n].dtype.name == storage(self._types.get(n, 0) or code_of(bound[n])) for n in part.names)
        return tuple(bound[n] for n in part.names) if fits else None

    def captured(self, feeds: Mapping[str, Any]) -> tuple[Callable[..., Any], Values, Callable[[], list[str]], Places]:
        """For inputs like these: a function of tensors, its arguments by name, once it was captured the names of what it returns, and where
        sizes with a range are, as `jit`'s `symbols`. Inputs that sizes hang on, and outputs that are known, are no part of it. Capturing
        raises UsageError where a size is data."""
        values = {v.name: self._checked(v, feeds) for v in self.inputs}
        _consistent(self.inputs, values, self._ranges)
        baked, free = self._arguments(values)
        function, parts, places = self._bare(baked, list(free), whole=True)
        return function, free, lambda: next(iter(parts.values())).names, places

    def _arguments(self, values: Values) -> tuple[Values, Values]:
        """The inputs that sizes hang on, as arrays, and the others, as tensors."""
        baked = {name: _host(x) for name, x in values.items() if name in self._need}
        free = {name: in_memory(x) for name, x in values.items() if name not in baked}
        if self._random:
            free[RANDOM] = Tensor(np.array([self._seed, self._runs], np.int64))
            self._runs += 1
        if not self._weights:
            constants = {name: c for name, c in self._graph.constants.items() if name not in self._need}
            self._weights = {name: as_tensor(c) if c.size != 1 else c for name, c in constants.items()}
        return baked, free

    def _bare(self, baked: Values, names: list[str], whole: bool = False) -> tuple[Callable[..., Any], dict[Any, CapturedPart], Places]:
        """`whole`: no node may be late."""
        parts: dict[Any, CapturedPart] = {}

        def onnx_model(*tensors: Tensor) -> tuple[Any, ...]:
            values = {**self._weights, **baked, **dict(zip(names, tensors))}
            late: list[OperatorNode] = []
            evaluate(self._graph, values, self._version, self._types, None if whole else late)
            if late:
                log.info("%d nodes hang on data, and are run one by one: %s", len(late), ", ".join(map(str, late[:8])))
            around = {*self._weights, *self._graph.constants, *baked, *names}
            read = sorted({name for node in late for name in node.reads} - around)
            kept = {name: values[name] for name in dict.fromkeys([*self._graph.outputs, *read]) if name in values}
            known = {name: x for name, x in kept.items() if not isinstance(x, Tensor)}
            if any(map(is_symbolic, known.values())):
                raise UsageError("a result is a size")
            outs = {name: x for name, x in kept.items() if isinstance(x, Tensor)}
            parts[tuple(tuple(t.shape) for t in tensors)] = CapturedPart(list(outs), known, late)
            given = {id(t) for t in tensors} | {id(w) for w in self._weights.values()}
            return tuple(o + 0 if id(o) in given and o.dtype.name != "bool" else o for o in outs.values())

        labels = [f"input_{i}" for i in range(len(names))]
        vars(onnx_model)["__signature__"] = Signature([Parameter(n, Parameter.POSITIONAL_OR_KEYWORD) for n in labels])
        return onnx_model, parts, {label: self._symbols[n] for label, n in zip(labels, names) if n in self._symbols}


def _written(name: str, found: Any, array: Array) -> Array:
    """An output in the caller's array."""
    here = found.numpy() if isinstance(found, Tensor) else np.asarray(found)
    if here is not array:
        if here.dtype != array.dtype or here.shape != array.shape:
            raise UsageError(f"output {name!r} is {here.dtype}{list(here.shape)}, and the array for it {array.dtype}{list(array.shape)}")
        array[...] = here
    return array


def load(
    source: str | os.PathLike[str] | bytes | ModelProto, *, sizes: Mapping[str, tuple[int, int]] | None = None, **options: Any
) -> OnnxModel:
    """A model from its file (with weights in files beside it, too), its bytes, or an `onnx.ModelProto`. `sizes`: for sizes that the model
    names, the least and the largest: it is compiled once for all of them. `options`: as for `tilewright.jit` (threads, tune, cache, budget,
    check). Raises UsageError for what is no valid model, and with all operators that are not supported."""
    model, weights = read(source)
    model = expanded(model)
    types = types_of(model)
    graph = parsed(model, weights)
    for name in graph.inputs:
        code = types.get(name)
        if not code:
            raise UsageError(f"input {name!r} is no tensor: sequences, maps and optional values are not supported")
        storage(code)
    return OnnxModel(graph, model, types, sizes or {}, options)


def _symbols(inputs: Sequence[OnnxValue], ranges: Mapping[str, tuple[int, int]]) -> dict[str, dict[int, Any]]:
    """By input, the dimensions that differ from call to call."""
    names = {n for v in inputs for n in v.shape or () if isinstance(n, str)}
    for name in ranges:
        if name not in names:
            raise UsageError(f"the model has no size {name!r}; its sizes are {', '.join(sorted(names)) or 'all known'}")
    made = {name: Var(label, low, high) for label, (name, (low, high)) in zip(_labels(ranges), ranges.items())}
    found = {v.name: {d: made[n] for d, n in enumerate(v.shape or ()) if isinstance(n, str) and n in made} for v in inputs}
    return {name: places for name, places in found.items() if places}


def _labels(names: Iterable[str]) -> list[str]:
    """Identifiers that differ, like these names."""
    found: list[str] = []
    for name in names:
        label = re.sub(r"\W", "_", name, flags=re.ASCII)
        label = label if label.isidentifier() else f"size_{label}"
        found.append(f"{label}_{len(found)}" if label in found else label)
    return found


def _fold(graph: OperatorGraph, need: set[str], version: int) -> None:
    """Compute what only moves known elements once, when the model is read."""
    left = []
    for node in graph.nodes:
        values = [graph.constants.get(name) if name else None for name in node.inputs]
        is_known = all(v is not None or not name for v, name in zip(values, node.inputs))
        if node.op == ("", "Constant") and "value" in node.attributes:
            graph.constants[node.outputs[0]] = node.attributes["value"]
        elif node.op[0] == "" and node.op[1] in FOLDED and node.inputs and is_known and not node.graphs:
            graph.constants.update(zip(node.outputs, by_numpy(node, version, values)))
        else:
            left.append(node)
    graph.nodes = left
    use_integer_products(graph)
    _turn_recurrent(graph)
    read_by = {name for node in graph.walk() for name in node.inputs} | {*graph.outputs}
    inner = {name for node in graph.walk() for g in node.graphs.values() for name in g.outputs}
    graph.constants = {name: c for name, c in graph.constants.items() if name in read_by or name in inner}


def _turn_recurrent(graph: OperatorGraph) -> None:
    """Known matrices of hidden states become (ways, hidden, gates): steps read vectors of gates then, for as many rows as there are."""
    for node in graph.nodes:
        r = graph.constants.get(node.inputs[2]) if node.op in RECURRENT else None
        if r is not None:
            node.inputs[2] += ", hidden rows first"
            node.attributes["rows_first"] = 1
            graph.constants[node.inputs[2]] = np.ascontiguousarray(r.swapaxes(1, 2))


def _host(x: Any) -> Array:
    return np.asarray(x.numpy() if isinstance(x, Tensor) else x)


def _consistent(inputs: Sequence[OnnxValue], values: Mapping[str, Any], ranges: Mapping[str, tuple[int, int]]) -> None:
    """Sizes of one name are equal, and inside of their range."""
    seen: dict[str, tuple[int, str]] = {}
    for v in inputs:
        for n, m in zip(v.shape or (), values[v.name].shape):
            if isinstance(n, str):
                low, high = ranges.get(n, (m, m))
                if not low <= m <= high:
                    raise UsageError(f"the size {n!r} is {m} by input {v.name!r}, outside of its range {low} to {high}")
                before, other = seen.setdefault(n, (m, v.name))
                if before != m:
                    raise UsageError(f"the size {n!r} is {before} by input {other!r}, and {m} by {v.name!r}")


def _described(v: ValueInfoProto, is_input: bool) -> OnnxValue:
    if not v.type.HasField("tensor_type"):
        return OnnxValue(v.name, v.type.WhichOneof("value") or "unknown", None)
    t = v.type.tensor_type
    shape: tuple[int | str | None, ...] | None = None
    if t.HasField("shape"):
        # (some exporters write an open size as -1)
        shape = tuple(d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else d.dim_param or None for d in t.shape.dim)
    kind = NUMPY.get(t.elem_type)
    return OnnxValue(v.name, str(kind) if kind is not None else type_name(t.elem_type), shape)


def _text(shape: Any) -> str:
    return "" if shape is None else "[" + ", ".join("?" if n is None else str(n) for n in shape) + "]"
