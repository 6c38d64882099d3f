"""Which elements of an output does a kernel leave as they were?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..ir.buffer import loads
from ..ir.kernel import Kernel
from ..ir.node import Node, const, walk
from .inputs import shape

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def unwritten(kernel: Kernel, inputs: Mapping[str, Array], vars: Mapping[str, int]) -> dict[str, Array]:
    """Flat masks of the output elements that no store reaches, for outputs where that can be (masked or indexed stores)."""
    import dataclasses

    import numpy as np

    from ..ir.evaluation.reference import evaluate

    stores = {s.buffer: s for s in kernel.stores}
    out = {}
    for b, s in stores.items():
        dims = shape(b, kernel, vars)
        covers = s.mask is None and len(set(s.indices)) == len(s.indices) and all(i.op == "axis" or d == 1 for i, d in zip(s.indices, dims))
        whole = all(i.op != "axis" or i.arg.extent is e or i.arg.extent == e for i, e in zip(s.indices, b.shape))
        if s.combine is not None or (covers and whole):
            continue
        # the same stores with the constant 1: what stays 0 is not written
        mark = dataclasses.replace(s, expr=const(1, b.dtype))
        roots = [*mark.indices, *([mark.mask] if mark.mask is not None else [])]
        used = tuple(dict.fromkeys(buffer for buffer, _, _ in loads(*roots)))
        ones = evaluate(
            Kernel(
                kernel.name, kernel.body if _uses_values(roots) else (), (mark,), (*(used if not _uses_values(roots) else kernel.inputs), b)
            ),
            inputs,
            vars,
        )
        hit = np.asarray(ones[b.name]).reshape(-1) == 1
        if not hit.all():
            out[b.name] = ~hit
    return out


def _uses_values(roots: list[Node]) -> bool:
    return any(n.op == "ref" for r in roots for n in walk(r))
