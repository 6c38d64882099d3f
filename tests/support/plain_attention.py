"""Causal attention as a user writes it: one mask, on the scores."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.ir import KernelBuilder, dtypes, exp, maximum, where
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import Node

LEAST = -3.4028234663852886e38
Seen = Callable[[Node, Node], Node]


def causal(row: Node, key: Node) -> Node:
    """Keys up to the query's own place."""
    return key <= row


def plain(
    b: int = 1,
    h: int = 2,
    s: int = 22,
    d: int = 4,
    dtype: dtypes.DType = dtypes.float32,
    *,
    seen: Seen = causal,
    finite: bool = True,
    filled: bool = False,
    otherwise: float = float("-inf"),
) -> Kernel:
    """q, k, v (b, h, s, d) → y. `finite`: differences are taken from max(M, least finite number), else from M itself;
    `filled`: the mask is written as where(not seen, −∞, score); `otherwise`: the score of a masked key."""
    kb = KernelBuilder("attention")
    z, c, i = kb.axis("b", b), kb.axis("h", h), kb.axis("row", s)
    j_dot, j_score, j_max, j_p, j_sum, j_out = (kb.axis(f"key@{site}", s) for site in ("dot", "score", "max", "p", "sum", "out"))
    d_dot, d_out = kb.axis("d@dot", d), kb.axis("d@out", d)
    q, k, v = (kb.input(t, (b, h, s, d), dtype) for t in "qkv")

    def least(m: Node) -> Node:
        return maximum(m, LEAST) if finite else m

    dot = kb.block_reduce("add", "dot", (z, c, i, j_dot), d_dot, q[z, c, i, d_dot] * k[z, c, j_dot, d_dot])
    scaled, mask = dot[z, c, i, j_score] * d**-0.5, seen(i, j_score)
    masked = where(~mask if mask.op != "le" else mask.src[1] < mask.src[0], otherwise, scaled) if filled else where(mask, scaled, otherwise)
    score = kb.block_value("score", (z, c, i, j_score), masked)
    top = kb.block_reduce("max", "M", (z, c, i), j_max, score[z, c, i, j_max])
    weight = kb.block_value("P", (z, c, i, j_p), exp(score[z, c, i, j_p] - least(top[z, c, i])))
    total = kb.block_reduce("add", "L", (z, c, i), j_sum, weight[z, c, i, j_sum])
    out = kb.block_reduce("add", "O", (z, c, i, d_out), j_out, weight[z, c, i, j_out] * v[z, c, j_out, d_out])
    new = maximum(kb.lhs(top), kb.rhs(top))
    left, right = (exp(least(m) - least(new)) for m in (kb.lhs(top), kb.rhs(top)))
    merge = (new, kb.lhs(total) * left + kb.rhs(total) * right, kb.lhs(out) * left + kb.rhs(out) * right)
    kb.fold("state", kb.axis("key", s), (dot, score, top, weight, total, out), (top, total, out), (float("-inf"), 0.0, 0.0), merge)
    kb.store("y", dtype, (b, h, s, d), (z, c, i, d_out), out[z, c, i, d_out] * (1.0 / total[z, c, i]))
    return kb.build()
