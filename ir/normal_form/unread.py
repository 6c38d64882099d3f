"""Values that nobody reads are no part of what a kernel does."""

from __future__ import annotations

from dataclasses import replace

from ..body import Fold, Value, values_of
from ..kernel import Kernel
from ..node import walk


def without_unread(kernel: Kernel) -> Kernel:
    """The kernel with the values that its stores need, directly or not; its parameters stay as they are."""
    wanted = {n.arg for s in kernel.stores for n in walk(s.expr, *s.indices, *(() if s.mask is None else (s.mask,))) if n.op == "ref"}
    kept: list[Value | Fold] = []
    for item in reversed(kernel.body):
        made = set(item.components) if isinstance(item, Fold) else {item.name}
        if made & wanted:
            kept.append(item)
            wanted |= {n.arg for n in walk(*(v.body for v in values_of(item))) if n.op == "ref"}
    return kernel if len(kept) == len(kernel.body) else replace(kernel, body=tuple(reversed(kept)))
