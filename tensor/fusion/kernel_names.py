"""Names of kernels, made of what they compute: `matmul+add+gelu`. Only for people: no key holds them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

from ...ir.node import axes_of
from ..graph.nodes import TensorNode, constant_of, walk
from ..partition.heads import is_contraction

MOST = 5
"""Parts of a name; of longer ones the rest is counted."""
_REDUCE = {"add": "sum", "mul": "prod"}
_SILENT = frozenset({"lt", "le", "eq", "ne", "and", "or", "not"})
"""Operators that only make conditions."""
_COMPOSITES = tuple(
    (re.compile(rf"(?<!\S){pattern}(?!\S)"), name)
    for pattern, name in {
        r"(max (abs )?sub )?exp sum div( mul)?": "softmax",
        r"(max (abs )?sub )?exp sum log( max)?( add)?": "logsumexp",
        r"sum scale sub mul sum scale( add)? sqrt div( mul)?": "layernorm",
        r"mul sum scale( add)? sqrt div( mul)?": "rmsnorm",
        r"(scale )*(mul mul scale add scale )?(erf|tanh) add( scale)? mul( scale)?": "gelu",
        r"sum scale": "mean",
    }.items()
)
"""Operators in the order of computation, and what they are together."""


def inside(roots: Sequence[TensorNode], ends: Callable[[TensorNode], bool]) -> list[TensorNode]:
    """What one kernel computes, sources first. `roots`: what it stores; `ends`: whether a node's values come from memory
    where it is no root."""
    own = {id(r) for r in roots}

    def end(n: TensorNode) -> bool:
        return id(n) not in own and ends(n)

    return [n for n in walk(roots, end) if not end(n)]


def kernel_name(nodes: Sequence[TensorNode]) -> str:
    """A name for a kernel that computes `nodes` (sources first)."""
    own = {id(n) for n in nodes}
    heads = {id(n): _base(n.src[0], own) for n in nodes if is_contraction(n)}
    products = {id(p) for p in heads.values()}
    labels = (_head(heads[id(n)]) if id(n) in heads else _plain(n) for n in nodes if n.op != "const" and id(n) not in products)
    text = " ".join(filter(None, labels))
    for pattern, name in _COMPOSITES:
        text = pattern.sub(name, text)
    parts = text.split()
    if [p for p in parts if p not in ("scale", "where", "add")] == ["matmul", "softmax", "matmul"]:
        return "attention"
    parts = [p for i, p in enumerate(parts) if i == 0 or p != parts[i - 1]]
    if not parts:
        return "cast" if any(n.op == "cast" and n.src[0].dtype is not n.dtype for n in nodes) else "copy"
    return "+".join(parts if len(parts) <= MOST else [*parts[: MOST - 1], f"{len(parts) - MOST + 1}more"])


def _base(n: TensorNode, own: Collection[int]) -> TensorNode:
    """What a node of a kernel moves or converts."""
    while n.op in ("view", "cast", "after") and id(n) in own:
        n = n.src[0]
    return n


def _head(product: TensorNode) -> str:
    windows = any(s.op == "view" and not s.arg.reshape and any(len(axes_of(i)) > 1 for i in s.arg.indices) for s in product.src)
    return "conv" if windows else "matmul"


def _plain(n: TensorNode) -> str:
    if n.op == "reduce":
        return str(_REDUCE.get(n.arg[0], n.arg[0]))
    if n.op == "scan":
        return f"cum{_REDUCE.get(n.arg[0], n.arg[0])}"
    if n.op == "elementwise":
        if n.arg == "max" and any(constant_of(s) == 0 for s in n.src):
            return "relu"
        scaling = n.arg in ("mul", "div") and any(constant_of(s) is not None for s in n.src[n.arg == "div" :])
        return "" if n.arg in _SILENT else "scale" if scaling else str(n.arg)
    return (
        n.op
        if n.op in ("gather", "scatter")
        else str(n.arg.name)
        if n.op == "host"
        else str(n.arg.own.kernel.name)
        if n.op == "kernel"
        else ""
    )
