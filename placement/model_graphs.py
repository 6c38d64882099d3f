"""Graphs of a step of training: a perceptron, and a transformer such as BERT or GPT-2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd

from .shard_graph import Dims, ShardArray, ShardGraph, ShardOp


class GraphMaker:
    """Collects operations and arrays; `product` and `pointwise` also note what the backward pass needs, which
    `backward` appends. `itemsize`: bytes of an element; `state`: bytes of optimiser state for each element of a
    parameter; `training`: with backward pass and updates."""

    def __init__(self, itemsize: int = 4, state: float = 0.0, training: bool = True) -> None:
        self._itemsize, self._state, self._training = itemsize, state, training
        self._arrays: dict[str, ShardArray] = {}
        self._ops: list[ShardOp] = []
        self._tape: list[ShardOp] = []
        self.layer, self._back = 0, False

    def array(self, name: str, shape: Sequence[int], role: str = "made", kept: bool = False) -> str:
        self._arrays[name] = ShardArray(name, tuple(shape), self._itemsize, role, kept)
        return name

    def _op(
        self,
        name: str,
        axes: dict[str, int],
        reads: Sequence[tuple[str, Dims]],
        writes: tuple[str, Dims],
        flops: float,
        rule: str,
        whole: Sequence[str] = (),
        state: float = 0.0,
    ) -> ShardOp:
        op = ShardOp(name, axes, tuple(reads), writes, flops, frozenset(whole), state, self.layer, self._back, rule)
        self._ops.append(op)
        return op

    def product(self, name: str, x: str, dims: Dims, w: str, w_dims: Dims, out: Dims, axes: dict[str, int]) -> str:
        """The sum over what `out` lacks of x · w."""
        y = self.array(name, [axes[a] for a in out], kept=self._training)
        flops = 2.0
        for a in axes:
            flops *= axes[a]
        self._tape.append(self._op(name, axes, [(x, dims), (w, w_dims)], (y, out), flops, "product"))
        return y

    def mixed(
        self, name: str, reads: Sequence[tuple[str, Dims]], out: Dims, axes: dict[str, int], whole: Sequence[str], flops: float
    ) -> str:
        """Something that needs the `whole` axes at once: attention or a normalisation, which is its name's first word."""
        y = self.array(name, [axes[a] for a in out], kept=self._training)
        self._tape.append(self._op(name, axes, reads, (y, out), flops, name.split()[0], whole))
        return y

    def graph(self, last: str) -> ShardGraph:
        """The whole. `last`: the output, whose gradient the backward pass begins with."""
        grads = self._backward(last) if self._training else {}
        back = next((grads[name] for name, a in self._arrays.items() if a.role == "boundary" and name in grads), "")
        return ShardGraph(self._arrays, tuple(self._ops), back)

    def _needs(self, name: str) -> bool:
        """Whether a gradient goes to it: all but inputs."""
        return self._arrays[name].role != "input"

    def _backward(self, last: str) -> dict[str, str]:
        """The gradient of each array."""
        shape = self._arrays[last].shape
        dims = tuple(f"d{k}" for k in range(len(shape)))
        grads = {last: self.array(f"d {last}", shape)}
        self._back = True
        self._op("loss", dict(zip(dims, shape)), [(last, dims)], (grads[last], dims), 0.0, "loss")
        for op in reversed(self._tape):
            self.layer = op.layer
            y, out = op.writes
            if y not in grads:
                continue
            for k, (x, dims) in enumerate(op.reads):
                if not self._needs(x):
                    continue
                others = [r for n, r in enumerate(op.reads) if n != k]
                parameter = self._arrays[x].role == "parameter"
                made = f"d {x}" if x not in grads else f"d {x} by {op.name}"
                gx = self.array(made, self._arrays[x].shape, "gradient" if parameter else "made", parameter)
                product = op.rule == "product"
                reads = [(grads[y], out), *(others if product else op.reads)]
                flops, rule = (op.flops, "product") if product else (2 * op.flops / len(op.reads), f"gradient of {op.rule}")
                self._op(gx, dict(op.axes), reads, (gx, dims), flops, rule, tuple(op.whole))
                if x in grads:
                    axes = {a: op.axes[a] for a in dims}
                    both = self.array(f"{gx} added", self._arrays[x].shape, "gradient" if parameter else "made")
                    self._op(both, axes, [(grads[x], dims), (gx, dims)], (both, dims), 0.0, "sum")
                    gx = both
                grads[x] = gx
        for name, array in list(self._arrays.items()):
            if array.role == "parameter" and name in grads:
                dims = tuple(f"d{k}" for k in range(len(array.shape)))
                axes = dict(zip(dims, array.shape))
                size = 1.0
                for extent in array.shape:
                    size *= extent
                self.layer = next(op.layer for op in self._ops if any(x == name for x, _ in op.reads))
                self._op(f"update {name}", axes, [(name, dims), (grads[name], dims)], (name, dims), 0.0, "update", state=self._state * size)
        return grads


def perceptron(layers: int, batch: int, hidden: int, state: float = 0.0, itemsize: int = 4) -> ShardGraph:
    """`layers` products of (batch, hidden) with (hidden, hidden), and their training."""
    g = GraphMaker(itemsize, state)
    x, axes = g.array("x", (batch, hidden), "input"), {"b": batch, "i": hidden, "o": hidden}
    for k in range(layers):
        g.layer = k
        w = g.array(f"w{k}", (hidden, hidden), "parameter")
        x = g.product(f"y{k}", x, ("b", "i"), w, ("i", "o"), ("b", "o"), axes)
    return g.graph(x)


@dataclass(frozen=True)
class TransformerSize:
    """`tokens`: of the vocabulary; 0 leaves out the product with the embedding."""

    layers: int
    hidden: int
    heads: int
    sequence: int
    tokens: int = 0


def shrunk(size: TransformerSize, devices: int, width: int = 1, sequence: int = 1) -> TransformerSize:
    """A small transformer of as many layers and heads, whose axes can be split over so many devices wherever the large one's can. `width` and
    `sequence`: at least so many elements of a head, and so long a sequence."""
    n = devices * devices

    def least(extent: int, wanted: int) -> int:
        part = gcd(extent, n)
        return min(extent, part * -(-wanted // part))

    head = least(size.hidden // size.heads, width)
    return replace(
        size, hidden=size.heads * head, sequence=least(size.sequence, sequence), tokens=least(size.tokens, 64) if size.tokens else 0
    )


GPT2 = {
    "gpt2-tiny": TransformerSize(2, 64, 4, 64, 256),
    "gpt2-mini": TransformerSize(8, 64, 4, 64, 256),
    "gpt2": TransformerSize(12, 768, 12, 1024, 50257),
    "gpt2-medium": TransformerSize(24, 1024, 16, 1024, 50257),
}
"""Models by name; `examples/gpt2.py` has the first and the third. The second has enough layers for any schedule on a few devices."""


def transformer(size: TransformerSize, batch: int, layers: range | None = None, state: float = 0.0, training: bool = True) -> ShardGraph:
    """A transformer's step: for each layer the product with the query, key and value weights, attention, and the three
    products after it. `layers`: a part of it; the product with the embedding belongs to the last."""
    g = GraphMaker(4, state, training)
    s, h, d = size.sequence, size.heads, size.hidden // size.heads
    which = range(size.layers) if layers is None else layers
    x = g.array("x", (batch, s, size.hidden), "boundary" if which.start else "input")
    for k in which:
        g.layer = k
        whole = {"b": batch, "s": s, "i": size.hidden}
        n1 = x if k == 0 else g.mixed(f"norm {k}.1", [(x, ("b", "s", "i"))], ("b", "s", "i"), whole, ("i",), 8.0 * batch * s * size.hidden)
        w = g.array(f"qkv weights {k}", (size.hidden, 3, h, d), "parameter")
        axes = {**whole, "t": 3, "h": h, "d": d}
        qkv = g.product(f"qkv {k}", n1, ("b", "s", "i"), w, ("i", "t", "h", "d"), ("b", "s", "t", "h", "d"), axes)
        mixed = {"b": batch, "s": s, "t": 3, "h": h, "d": d}
        attended = g.mixed(
            f"attention {k}", [(qkv, ("b", "s", "t", "h", "d"))], ("b", "s", "h", "d"), mixed, ("s", "t", "d"), 4.0 * batch * h * s * s * d
        )
        w = g.array(f"out weights {k}", (h, d, size.hidden), "parameter")
        axes = {"b": batch, "s": s, "h": h, "d": d, "i": size.hidden}
        x = g.product(f"out {k}", attended, ("b", "s", "h", "d"), w, ("h", "d", "i"), ("b", "s", "i"), axes)
        n2 = g.mixed(f"norm {k}.2", [(x, ("b", "s", "i"))], ("b", "s", "i"), whole, ("i",), 8.0 * batch * s * size.hidden)
        w = g.array(f"up weights {k}", (size.hidden, 4 * size.hidden), "parameter")
        axes = {"b": batch, "s": s, "i": size.hidden, "o": 4 * size.hidden}
        up = g.product(f"up {k}", n2, ("b", "s", "i"), w, ("i", "o"), ("b", "s", "o"), axes)
        w = g.array(f"down weights {k}", (4 * size.hidden, size.hidden), "parameter")
        axes = {"b": batch, "s": s, "o": 4 * size.hidden, "i": size.hidden}
        x = g.product(f"down {k}", up, ("b", "s", "o"), w, ("o", "i"), ("b", "s", "i"), axes)
    if size.tokens and which.stop == size.layers:
        w = g.array("token weights", (size.tokens, size.hidden), "parameter")
        axes = {"b": batch, "s": s, "i": size.hidden, "o": size.tokens}
        x = g.product("logits", x, ("b", "s", "i"), w, ("o", "i"), ("b", "s", "o"), axes)
    return g.graph(x)
