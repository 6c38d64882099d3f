"""Products in quantised models as products of bytes: between conversions (QDQ), and in operators on integers.

Σ (x − zero) · w is Σ x · w, less zero · Σ w, which is known where the weights are. What is left is a product of bytes, which one instruction
adds in fours. Convolutions get their weights with the channels last."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir.errors import UsageError
from .element_types import Array
from .graph import OperatorGraph, OperatorNode

BYTES = (np.dtype(np.int8), np.dtype(np.uint8))

IMAGES = ("tilewright", "IntegerConv")
FIRST, ALL = slice(1), slice(None)
SAME_PLACES = {
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear", "Relu", "Clip", "Sigmoid", "HardSigmoid", "HardSwish", "LeakyRelu"), FIRST),
    **dict.fromkeys(("PRelu", "Elu", "Tanh", "Gelu", "Identity", "BatchNormalization", "InstanceNormalization", "Conv"), FIRST),
    **dict.fromkeys(("MaxPool", "AveragePool", "GlobalAveragePool", "Resize", "Upsample", "Split"), FIRST),
    **dict.fromkeys(("QLinearSigmoid", "QLinearLeakyRelu", "QLinearAveragePool", "QLinearGlobalAveragePool"), FIRST),
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Concat"), ALL), **dict.fromkeys(("QLinearAdd", "QLinearMul"), slice(0, 4, 3)),
    "QLinearConcat": slice(2, None, 3),
}  # fmt: skip
"""Operators whose results lie as operands do, and which operands those are."""
LAID_OUT = ("QuantizeLinear", "QLinearAdd", "QLinearMul", "QLinearConcat", "MaxPool", "Concat", "Resize", "Upsample")
"""Operators that may be told that their results have channels last."""
MOVES = (
    "Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Slice", "Gather", "Expand", "Tile", "Split", "Identity", "DepthToSpace",
    "SpaceToDepth",
)  # fmt: skip
"""Operators whose results are elements of their first operand."""


def use_integer_products(graph: OperatorGraph) -> None:
    """Replace the nodes of a graph that can be products of bytes."""
    _Rewriter(graph).run()


@dataclass(frozen=True)
class Quantised:
    """The bytes that numbers are stored as: the name of their values, or the values, a scale (float32), and a zero point."""

    name: str
    scale: Array
    zero: Array
    axis: int


class _Rewriter:
    def __init__(self, graph: OperatorGraph) -> None:
        self.graph, self.constants = graph, graph.constants
        self.made_by = {o: n for n in graph.nodes for o in n.outputs if o}
        self.count = 0

    def run(self) -> None:
        self._move_bytes()
        rules: dict[str, Callable[[OperatorNode], list[OperatorNode] | None]] = {
            "Conv": self._conv, "MatMul": self._matmul, "Gemm": self._matmul, "QLinearConv": self._qlinear, "QLinearMatMul": self._qlinear,
            "ConvInteger": self._whole, "MatMulInteger": self._whole, "ConvTranspose": self._in_floats,
        }  # fmt: skip
        nodes: list[OperatorNode] = []
        for n in self.graph.nodes:
            try:
                found = rules[n.op[1]](n) if n.op[0] == "" and n.op[1] in rules else None
            except (TypeError, ValueError, IndexError) as e:
                raise UsageError(f"in node {n}: its operands or attributes are not as {n.kind} needs them: {e}") from e
            nodes += found or [n]
        if len(nodes) != len(self.graph.nodes) or any(n is not m for n, m in zip(nodes, self.graph.nodes)):
            self.graph.nodes = nodes
            self._drop_unread()
            self._lay_out()

    def _move_bytes(self) -> None:
        """Bytes are moved before they become numbers, and numbers that are rounded to the bytes that they come from are these bytes."""
        nodes: list[OperatorNode] = []
        for n in self.graph.nodes:
            x = self._dequantised(n.inputs[0]) if n.op[0] == "" and n.inputs and not n.on_host else None
            if x is None or x.name in self.constants or x.scale.size != 1 or x.zero.size != 1:
                nodes.append(n)
                continue
            before = self.made_by[n.inputs[0]]
            made = [n]
            if n.op[1] in MOVES or (n.op[1] == "MaxPool" and len(n.outputs) == 1):
                bytes_of = {o: f"{o}\0bytes" for o in n.outputs if o}
                made = [
                    OperatorNode(n.op, n.name, [x.name, *n.inputs[1:]], [bytes_of.get(o, "") for o in n.outputs], n.attributes, n.proto)
                ]
                made += [OperatorNode(before.op, n.name, [b, *before.inputs[1:]], [o], {}, before.proto) for o, b in bytes_of.items()]
            elif n.op[1] == "QuantizeLinear" and self._same_bytes(n, x):
                made = [OperatorNode(("", "Identity"), n.name, [x.name], n.outputs, {}, n.proto)]
            nodes += made
            self.made_by.update((o, m) for m in made for o in m.outputs if o)
        self.graph.nodes = nodes
        self._drop_unread()

    def _same_bytes(self, node: OperatorNode, x: Quantised) -> bool:
        """(b − zero) · scale / scale is within a rounding of b − zero."""
        scale, zero = self._known(node, 1), self._known(node, 2)
        if scale is None or zero is None or zero.dtype != x.zero.dtype or not {*node.attributes} <= {"axis", "saturate"}:
            return False
        ordinary = bool(1e-30 < x.scale.reshape(-1)[0] < 1e30)
        return ordinary and scale.dtype == np.float32 and [*scale.flat] == [*x.scale.flat] and [*zero.flat] == [*x.zero.flat]

    def _lay_out(self) -> None:
        """Bytes around convolutions lie in memory with their channels last, as these read and make them."""
        above: dict[str, str] = {}  # (values that lie alike are trees)

        def top(name: str) -> str:
            found = name
            while found in above:
                found = above[found]
            while name != found:
                above[name], name = found, above[name]
            return found

        for n in self.graph.nodes:
            if n.op[1] in SAME_PLACES and (not n.op[1].endswith("Concat") or n.attributes.get("axis") == 1):
                names = (*n.inputs[SAME_PLACES[n.op[1]]], *n.outputs)
                tops = {top(name) for name in names if name and name not in self.constants}
                first = tops.pop()
                above.update(dict.fromkeys(tops, first))
        images = {top(name) for n in self.graph.nodes if n.op == IMAGES for name in (n.inputs[0], n.outputs[0])}
        for n in self.graph.nodes:
            if n.op[1] in LAID_OUT and top(n.outputs[0]) in images and (not n.op[1].endswith("Concat") or n.attributes.get("axis") == 1):
                n.attributes = {**n.attributes, "channels_last": 1}

    def _drop_unread(self) -> None:
        """Conversions that nobody reads any more."""
        read = {name for n in self.graph.walk() for name in n.inputs} | {*self.graph.outputs}
        read |= {name for n in self.graph.walk() for g in n.graphs.values() for name in g.outputs}
        self.graph.nodes = [n for n in self.graph.nodes if n.op[1] != "DequantizeLinear" or any(o in read for o in n.outputs)]

    # what nodes read ------------------------------------------------------------------------------------------------
    def _known(self, node: OperatorNode, i: int) -> Array | None:
        return self.constants.get(node.inputs[i]) if len(node.inputs) > i else None

    def _given(self, node: OperatorNode, i: int) -> str:
        return node.inputs[i] if len(node.inputs) > i else ""

    def _dequantised(self, name: str) -> Quantised | None:
        """What a conversion with a known scale makes numbers of, where that is bytes."""
        node = self.made_by.get(name)
        if node is None or node.op[1] != "DequantizeLinear" or node.attributes.get("block_size") or node.attributes.get("output_dtype"):
            return None
        return self._bytes(node, 0, 1, 2, int(node.attributes.get("axis", 1)))

    def _bytes(self, node: OperatorNode, x: int, scale: int, zero: int, axis: int = 1) -> Quantised | None:
        s, z, values = self._known(node, scale), self._known(node, zero), self._known(node, x)
        if z is None and (self._given(node, zero) or values is None):
            return None
        z = np.zeros((), values.dtype) if z is None and values is not None else z
        if s is None or z is None or s.dtype != np.float32 or z.dtype not in BYTES or (values is not None and values.dtype != z.dtype):
            return None
        return Quantised(node.inputs[x], s, z, axis)

    def _weight(self, q: Quantised, by: int, conv: bool, group: int = 1) -> tuple[Array, Array] | None:
        """A known weight's bytes without their zero point, and its scale: one, or one along axis `by`. None where bytes do not hold that,
        where a sum of products with bytes may leave int32 (with groups, what float32 holds), and where they are no matrix, or no
        convolution's."""
        values = self.constants.get(q.name)
        if values is None or (values.ndim < 3 if conv else values.ndim != 2):
            return None
        size = values.shape[by]
        if any(a.size != 1 and (a.shape != (size,) or q.axis % values.ndim != by % values.ndim) for a in (q.scale, q.zero)):
            return None
        shape = [-1 if d == by % values.ndim else 1 for d in range(values.ndim)]
        wide = values.astype(np.int16) - q.zero.astype(np.int16).reshape(shape if q.zero.size > 1 else ())
        if not wide.size or wide.min() < -128 or wide.max() > 127 or 255 * 128 * (wide.size // size) >= 2 ** (24 if group > 1 else 31):
            return None
        return wide.astype(np.int8), q.scale.reshape(-1) if q.scale.size > 1 else q.scale.reshape(())

    def _bias(self, node: OperatorNode) -> str:
        """The name of what is added to a float product; known numbers that are converted there are converted now."""
        name = self._given(node, 2)
        maker = self.made_by.get(name)
        if maker is None or maker.op[1] != "DequantizeLinear" or maker.attributes.get("block_size"):
            return name
        values, scale, zero = (self._known(maker, i) for i in range(3))
        if values is None or scale is None or (self._given(maker, 2) and zero is None) or scale.dtype != np.float32:
            return name
        if any(a.size != 1 and a.shape != values.shape for a in (scale, *(() if zero is None else (zero,)))):
            return name
        return self._constant((values.astype(np.int64) - (0 if zero is None else zero.astype(np.int64))).astype(np.float32) * scale)

    # what takes their place -----------------------------------------------------------------------------------------
    def _constant(self, value: Any) -> str:
        self.count += 1
        name = f"integer products\0{self.count}"
        self.constants[name] = np.asarray(value)
        return name

    def _node(self, node: OperatorNode, kind: str, inputs: list[str], output: str, **attributes: Any) -> OperatorNode:
        return OperatorNode(("tilewright", kind), node.name, inputs, [output], attributes, node.proto)

    def _product(
        self, node: OperatorNode, x: str, zero: int, w: Array, added: Array | None, scale: Any, bias: str, output: str
    ) -> OperatorNode:
        """A product of bytes: a convolution's weights (out, in, taps …), or a matrix (k, n)."""
        conv = node.op[1] in ("Conv", "QLinearConv", "ConvInteger")
        sums = w.sum(axis=tuple(range(1, w.ndim)) if conv else 0, dtype=np.int32)
        less = (0 if added is None else added.astype(np.int32)) - np.int32(zero) * sums
        group = int(node.attributes.get("group", 1)) if conv else 1
        channels = w.shape[1] * group
        if conv:  # (instructions add products of four channels)
            four = -channels % 4 if group == 1 else 0
            w = np.pad(w, [(0, four if d == 1 else 0) for d in range(w.ndim)]).transpose((*range(2, w.ndim), 1, 0))
        taps = np.ascontiguousarray(w, np.float32 if group > 1 else np.int8)
        inputs = [x, self._constant(taps), self._constant(less.astype(np.int32)) if np.any(less) else ""]
        inputs += ["" if scale is None else self._constant(np.asarray(scale, np.float32)), bias]
        how = {**node.attributes, "zero": int(zero), "channels": channels} if conv else {}
        return self._node(node, "IntegerConv" if conv else "IntegerMatMul", inputs, output, **how)

    def _conv(self, node: OperatorNode) -> list[OperatorNode] | None:
        x, w = (self._dequantised(self._given(node, i)) for i in (0, 1))
        if x is None or w is None or x.scale.size != 1 or x.zero.size != 1:
            return self._in_floats(node)
        found = self._weight(w, 0, True, node.attributes.get("group", 1))
        if found is None:
            return self._in_floats(node)
        scale = x.scale.reshape(()) * found[1]
        return [self._product(node, x.name, int(x.zero.reshape(())), found[0], None, scale, self._bias(node), node.outputs[0])]

    def _in_floats(self, node: OperatorNode) -> list[OperatorNode] | None:
        """A convolution of floats, whose known weights are no bytes then: each is read for many elements."""
        w = self._dequantised(self._given(node, 1))
        values = None if w is None else self.constants.get(w.name)
        if w is None or values is None or not all(a.size == 1 or a.shape == values.shape[w.axis :][:1] for a in (w.scale, w.zero)):
            return None
        shape = [-1 if d == w.axis % values.ndim else 1 for d in range(values.ndim)]
        scale, zero = (a.reshape(shape if a.size > 1 else ()) for a in (w.scale, w.zero))
        floats = self._constant((values.astype(np.int32) - zero).astype(np.float32) * scale)
        return [OperatorNode(node.op, node.name, [node.inputs[0], floats, *node.inputs[2:]], node.outputs, node.attributes, node.proto)]

    def _matmul(self, node: OperatorNode) -> list[OperatorNode] | None:
        x, w = (self._dequantised(self._given(node, i)) for i in (0, 1))
        how = node.attributes
        plain = how.get("beta", 1.0) == 1 and not how.get("transA", 0)
        turned = bool(how.get("transB", 0))
        if x is None or w is None or x.scale.size != 1 or x.zero.size != 1 or not plain:
            return None
        found = self._weight(w, 0 if turned else 1, False)
        if found is None:
            return None
        values = found[0].T if turned else found[0]
        scale = x.scale.reshape(()) * found[1] * np.float32(how.get("alpha", 1.0))
        return [self._product(node, x.name, int(x.zero.reshape(())), values, None, scale, self._bias(node), node.outputs[0])]

    def _qlinear(self, node: OperatorNode) -> list[OperatorNode] | None:
        conv = node.op[1] == "QLinearConv"
        x, w = self._bytes(node, 0, 1, 2), self._bytes(node, 3, 4, 5, 0 if conv else 1)
        bias = self._known(node, 8)
        if x is None or w is None or x.scale.size != 1 or x.zero.size != 1:
            return None
        found = self._weight(w, 0 if conv else 1, conv, node.attributes.get("group", 1))
        again = self._known(node, 6)
        if found is None or (self._given(node, 8) and bias is None) or again is None or again.size != 1:
            return None
        middle = f"{node.outputs[0]}\0float"
        product = self._product(node, x.name, int(x.zero.reshape(())), found[0], bias, x.scale.reshape(()) * found[1], "", middle)
        inputs = [middle, *node.inputs[6:8]]
        return [product, OperatorNode(("", "QuantizeLinear"), node.name, inputs, node.outputs, {"channels_last": int(conv)}, node.proto)]

    def _whole(self, node: OperatorNode) -> list[OperatorNode] | None:
        """A product of integers that stays one. The zero point of x may be known at each call only."""
        conv = node.op[1] == "ConvInteger"
        values, zero_w = self._known(node, 1), self._known(node, 3)
        if values is None or values.dtype not in BYTES or (self._given(node, 3) and zero_w is None):
            return None
        zero_w = np.zeros((), values.dtype) if zero_w is None else zero_w
        by = 0 if conv else 1
        found = self._weight(Quantised(node.inputs[1], np.ones((), np.float32), zero_w, by), by, conv, node.attributes.get("group", 1))
        zero = self._known(node, 2)
        if found is None or (zero is not None and zero.size != 1):
            return None
        if zero is not None or not self._given(node, 2):
            return [
                self._product(node, node.inputs[0], 0 if zero is None else int(zero.reshape(())), found[0], None, None, "", node.outputs[0])
            ]
        maker = self.made_by.get(node.inputs[2])
        if conv or maker is None or maker.op[1] != "DynamicQuantizeLinear":
            return None  # (it may be one for each row)
        made = self._product(node, node.inputs[0], 0, found[0], None, None, "", node.outputs[0])
        made.inputs += [node.inputs[2], self._constant(found[0].sum(axis=0, dtype=np.int32))]
        return [made]
