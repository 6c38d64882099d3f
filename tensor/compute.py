"""Computing several tensors at once: one partition, so that what they share is computed once and kernels are fused."""

from __future__ import annotations

from typing import Any

from .run import realise
from .tensor import Tensor
from .trees import flatten


def compute(*trees: Any) -> None:
    """Compute every tensor of some trees now, those of one device in one go."""
    by: dict[str, list[Tensor]] = {}
    for leaf in flatten(list(trees))[0]:
        if isinstance(leaf, Tensor):
            by.setdefault(leaf.device, []).append(leaf)
    for device, tensors in by.items():
        realise([t.node for t in tensors], device)
        for t in tensors:
            t.realise()  # what each was made from can go
