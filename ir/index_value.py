"""What an index is worth at a point."""

from __future__ import annotations

from math import prod

from .errors import KernelError
from .node import Node


def evaluate(node: Node, env: dict[Node, int]) -> int:
    """The value of an index whose axes and symbols are all in `env` (loads are not allowed)."""
    op = node.op
    if node in env:
        return env[node]
    if op == "const":
        return int(node.arg)
    v = [evaluate(s, env) for s in node.src]
    if op == "sum":
        coeffs, c = node.arg
        return int(c + sum(k * x for k, x in zip(coeffs, v, strict=True)))
    if op == "prod":
        return prod(v)
    if op == "div":
        return int(v[0] // node.arg)
    if op == "mod":
        return int(v[0] % node.arg)
    if op in ("min", "max"):
        return min(v) if op == "min" else max(v)
    raise KernelError(f"{node!r} has no known value: give {node.arg!r}" if not node.src else f"cannot evaluate {op} here")
