"""Computing several tensors at once: one partition, so that what they share is computed once and kernels are fused."""

from __future__ import annotations

from typing import Any

from ..gradients.tracking import kept
from ..leaves import leaf
from ..tensor import Tensor
from ..trees import flatten
from .run import realise


def compute(*trees: Any) -> None:
    """Compute every tensor of some trees now, those of one device in one go."""
    by: dict[str, list[Tensor]] = {}
    for t in flatten(list(trees))[0]:
        if isinstance(t, Tensor):
            by.setdefault(t.device, []).append(t)
    for device, tensors in by.items():
        nodes = [t.node for t in tensors]
        realise(nodes, device)
        keep = kept(nodes)
        for t in tensors:
            if t.node.src and id(t.node) not in keep:
                t.node = leaf(t.node.data)  # what it was made from can go
