"""Is an expression made of data, or of places alone?"""

from __future__ import annotations

from .node import Node, pending


def of_data(n: Node) -> bool:
    """Whether an expression is made of what a kernel reads or computes, and not of places alone (memoised)."""
    for m in pending(n, lambda m: "data" in m._memo):
        m._memo["data"] = m.op in ("load", "ref") or any(s._memo["data"] for s in m.src)
    return bool(n._memo["data"])
