"""Small sums of products of several arrays, and products whose operands are computed."""

from __future__ import annotations

from tilewright.ir import KernelBuilder, float32
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import Node


def einsum(text: str, **sizes: int) -> Kernel:
    """The sum that `text` says, as `ij,jk->ik`; inputs are a, b, c and so on. `sizes`: the extents."""
    left, out = text.split("->")
    kb = KernelBuilder("einsum")
    axes = {x: kb.axis(x, sizes[x]) for x in dict.fromkeys(left) if x != ","}
    expr: Node | None = None
    for name, term in zip("abcdefgh", left.split(","), strict=False):
        read = kb.input(f"{name}0", tuple(sizes[x] for x in term), float32)[tuple(axes[x] for x in term)]
        expr = read if expr is None else expr * read
    assert expr is not None
    at = tuple(axes[x] for x in out)
    acc = kb.sum("acc", at, tuple(a for x, a in axes.items() if x not in out), expr)
    kb.store("y", float32, tuple(sizes[x] for x in out), at, acc[at])
    return kb.build()
