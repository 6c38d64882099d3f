"""A model as nodes whose operators we have, and which of its values must be known before anything is captured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, inliner

from ...ir.errors import UsageError
from .element_types import Array
from .model_file import array, names, opset
from .operators.table import KNOWN, OPERATORS

DOMAINS = {"": "", "ai.onnx": "", "com.microsoft": "com.microsoft"}
SHAPES = ("Shape", "Size")
"""Operators that ask for no element of their operand."""


@dataclass
class OperatorNode:
    """One call of an operator. `on_host`: its results are sizes, axes and such, which NumPy computes."""

    op: tuple[str, str]
    name: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any]
    proto: NodeProto
    graphs: dict[str, OperatorGraph] = field(default_factory=dict)
    on_host: bool = False

    @property
    def kind(self) -> str:
        """The operator's name, with its domain where that is not ONNX's own."""
        domain, name = self.op
        return f"{domain}.{name}" if domain else name

    @property
    def reads(self) -> set[str]:
        """The values from around it that the node needs, those of its inner graphs too."""
        found = set(self.inputs) - {""}
        for inner in self.graphs.values():
            made = {*inner.inputs, *inner.constants, *(o for node in inner.nodes for o in node.outputs)}
            found |= {name for node in inner.nodes for name in node.reads} - made | {*inner.outputs} - made
        return found

    def __str__(self) -> str:
        return f"{self.kind} ({self.name or 'node of ' + next((o for o in self.outputs if o), '?')})"


@dataclass
class OperatorGraph:
    """Nodes in the order in which they run. `constants`: initializers."""

    inputs: list[str]
    outputs: list[str]
    constants: dict[str, Array]
    nodes: list[OperatorNode]

    def walk(self) -> Iterator[OperatorNode]:
        """All nodes, those of inner graphs too."""
        for node in self.nodes:
            yield node
            for inner in node.graphs.values():
                yield from inner.walk()


def expanded(model: ModelProto) -> ModelProto:
    """The model with functions in the place of their calls: its own ones, and those that define operators which we do not have."""
    own = [("" if domain == "ai.onnx" else domain, name) for domain, name in OPERATORS]
    try:
        found: ModelProto = inliner.inline_selected_functions(model, own, exclude=True, inline_schema_functions=True)
    except (RuntimeError, ValueError) as e:
        raise UsageError(f"the model's functions cannot be expanded: {e}") from e
    return found


def types_of(model: ModelProto) -> dict[str, int]:
    """The element types of values, as far as the file and inference say."""
    try:
        inferred = onnx.shape_inference.infer_shapes(model)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError) as e:
        raise UsageError(f"the model's types contradict each other: {str(e).strip().splitlines()[0]}") from e
    found: dict[str, int] = {}
    waiting = [inferred.graph]
    while waiting:
        g = waiting.pop()
        found |= {t.name: t.data_type for t in g.initializer}
        found |= {v.name: v.type.tensor_type.elem_type for v in (*g.value_info, *g.input, *g.output) if v.type.HasField("tensor_type")}
        waiting += [a.g for n in g.node for a in n.attribute if a.HasField("g")]
    return {name: code for name, code in found.items() if code}


def parsed(model: ModelProto, weights: Mapping[str, Array]) -> OperatorGraph:
    """The model's graph. Raises UsageError with all operators that we do not have."""
    graph = _graph(model.graph, opset(model), weights)
    missing: dict[str, list[str]] = {}
    for node in graph.walk():
        if node.op not in OPERATORS:
            missing.setdefault(node.kind, []).append(node.name or next((o for o in node.outputs if o), "?"))
    if missing:
        listed = "; ".join(f"{kind} ({', '.join(where[:5])}{', …' if len(where) > 5 else ''})" for kind, where in sorted(missing.items()))
        raise UsageError(f"operators that are not supported, and their nodes: {listed}")
    return graph


def _graph(g: GraphProto, version: int, weights: Mapping[str, Array]) -> OperatorGraph:
    if g.sparse_initializer:
        raise UsageError(f"sparse initializers are not supported: {', '.join(t.values.name for t in g.sparse_initializer)}")
    constants = {t.name: weights[t.name] if t.name in weights else array(t, None) for t in g.initializer}
    inputs = [name for name in names(g.input) if name not in constants]
    return OperatorGraph(inputs, names(g.output), constants, [_node(n, version) for n in g.node])


def _node(p: NodeProto, version: int) -> OperatorNode:
    made = OperatorNode((DOMAINS.get(p.domain, p.domain), p.op_type), p.name, list(p.input), list(p.output), {}, p)
    for a in p.attribute:
        value = _attribute(a, p)
        if isinstance(value, GraphProto):
            made.graphs[a.name] = _graph(value, version, {})
        else:
            made.attributes[a.name] = value
    return made


def _attribute(a: AttributeProto, p: NodeProto) -> Any:
    if a.type in (AttributeProto.SPARSE_TENSOR, AttributeProto.TYPE_PROTO, AttributeProto.TENSORS, AttributeProto.GRAPHS):
        raise UsageError(f"attribute {a.name} of {p.op_type} ({p.name}) is of a kind that is not supported")
    value = onnx.helper.get_attribute_value(a)
    if isinstance(value, onnx.TensorProto):
        return array(value, None)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, list) and value and isinstance(value[0], bytes):
        return [v.decode(errors="replace") for v in value]
    return value


# what must be known -----------------------------------------------------------------------------------------------
def needed_values(graph: OperatorGraph) -> set[str]:
    """The values that sizes, axes and other parts of the program's form hang on. Nodes that make them are marked as the host's."""
    need: set[str] = set()
    before = -1
    while len(need) != before:  # what a loop carries is needed where its body needs it
        before = len(need)
        _look(graph, need)
    need.discard("")
    return need


def _look(graph: OperatorGraph, need: set[str]) -> None:
    for node in reversed(graph.nodes):
        kind = node.op[1]
        wanted = any(o in need for o in node.outputs)
        if kind == "If" and wanted:
            need.add(node.inputs[0])
            for inner in node.graphs.values():
                need |= {theirs for ours, theirs in zip(node.outputs, inner.outputs) if ours in need}
        for inner in node.graphs.values():
            _carried(node, inner, need)
            _look(inner, need)
            _carried(node, inner, need)
        if wanted and kind not in SHAPES and not node.graphs:
            need.update(node.inputs)
            node.on_host = True
        need.update(node.inputs[i] for i in KNOWN.get(node.op, ()) if i < len(node.inputs))


def _carried(node: OperatorNode, inner: OperatorGraph, need: set[str]) -> None:
    """What goes into and out of a loop's body under another name."""
    if node.op[1] not in ("Loop", "Scan"):
        return
    skip = 2 if node.op[1] == "Loop" else 0
    outs = inner.outputs[1:] if skip else inner.outputs
    for outside, inside in zip(node.inputs[skip:], inner.inputs[skip:]):
        if outside and inside in need:
            need.add(outside)
    carried = zip(outs, inner.inputs[skip:], node.outputs)
    need |= {theirs for theirs, inside, ours in carried if inside in need or ours in need}
