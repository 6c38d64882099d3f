"""Checkpoints: a part of a graph whose values are not kept for the backward pass but computed again.

Equal expressions are one node, so a second computation would be the first one. The backward pass therefore builds the
region anew on `after` nodes: their values are the region's inputs, available only when the gradient of the region's
result is. That keeps both computations apart and the second one late (XLA's optimization barrier, as jax.checkpoint
uses it)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from ..graph.nodes import Mark, OwnGradient, TensorNode, differentiated, make, walk
from ..graph.primitives import after


class CheckpointRegion(Mark):
    """The mark on a checkpoint's outputs. `inputs`: the marked arguments its computation starts from."""

    __slots__ = ("inputs",)

    def __init__(self, inputs: Sequence[TensorNode]) -> None:
        super().__init__("checkpoint")
        self.inputs = tuple(inputs)


Again = tuple[TensorNode, list[TensorNode], list[TensorNode]]


def again(n: TensorNode, dy: TensorNode, regions: dict[int, list[TensorNode]], active: Collection[int]) -> Again:
    """(the region's result computed again, nodes to take its gradient to, the nodes those gradients belong to) for a
    checkpoint's output `n` with gradient `dy`. `regions` keeps the inputs of regions with several outputs."""
    region: CheckpointRegion = n.arg
    body = n.src[0]
    inputs = {id(i) for i in region.inputs}
    order = list(walk([body], lambda m: id(m) in inputs, differentiated))
    inside = set(inputs)
    for m in order:
        if any(id(s) in inside for s in m.src):
            inside.add(id(m))
    if id(body) not in inside:
        return body, [body], [body]
    if id(region) not in regions:
        regions[id(region)] = [after(i, dy) for i in region.inputs]
    fresh = regions[id(region)]
    table = {id(i): f for i, f in zip(region.inputs, fresh)}
    rebuild(order, inside, table)
    border = {id(s): s for m in order if id(m) in inside and id(m) not in inputs for s in m.src if id(s) not in inside and id(s) in active}
    return table[id(body)], [*fresh, *border.values()], [*region.inputs, *border.values()]


def rebuild(
    order: Sequence[TensorNode],
    inside: Collection[int],
    table: dict[int, TensorNode],
    remake: Callable[[TensorNode, tuple[TensorNode, ...], Any], TensorNode] | None = None,
) -> None:
    """Make the nodes of `order` whose ids are `inside` anew from what `table` says of their sources, into `table`; by
    `remake` of a node, its new sources and its `arg`, else as they were."""
    for m in order:
        if id(m) in inside and id(m) not in table:
            src = tuple(table.get(id(s), s) for s in m.src)
            arg = m.arg
            if isinstance(arg, CheckpointRegion):
                arg = CheckpointRegion([table.get(id(i), i) for i in arg.inputs])
            elif isinstance(arg, OwnGradient):
                arg = OwnGradient(arg.name, tuple(table.get(id(i), i) for i in arg.of), arg.rule)
            table[id(m)] = remake(m, src, arg) if remake is not None else make(m.op, src, arg, m.shape, m.dtype)
