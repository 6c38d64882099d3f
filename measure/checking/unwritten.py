"""Which elements of an output does a kernel leave as they were?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...ir.body import Store
from ...ir.buffer import Buffer, loads
from ...ir.kernel import Kernel
from ...ir.node import const, walk
from ..inputs import shape

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def unwritten(kernel: Kernel, inputs: Mapping[str, Array], vars: Mapping[str, int]) -> dict[str, Array]:
    """Flat masks of the output elements that no store reaches, for outputs where that can be (masked or indexed stores)."""
    by_output: dict[Buffer, list[Store]] = {}
    for s in kernel.stores:
        by_output.setdefault(s.buffer, []).append(s)
    out = {}
    for b, stores in by_output.items():
        if any(s.combine is not None or _covers(s, shape(b, kernel, vars)) for s in stores):
            continue
        hit = _hit(kernel, stores, inputs, vars)
        if not hit.all():
            out[b.name] = ~hit
    return out


def _covers(s: Store, dims: tuple[int, ...]) -> bool:
    """Whether a store certainly writes every element."""
    points = s.mask is None and len(set(s.indices)) == len(s.indices)
    return points and all(
        (i.op == "axis" and (i.arg.extent is e or i.arg.extent == e)) or (i.op != "axis" and d == 1)
        for i, d, e in zip(s.indices, dims, s.buffer.shape, strict=True)
    )


def _hit(kernel: Kernel, stores: list[Store], inputs: Mapping[str, Array], vars: Mapping[str, int]) -> Array:
    """Which elements the stores write: the same stores with the constant 1; what stays 0 is not written."""
    import dataclasses

    import numpy as np

    from ...ir.evaluation import evaluate

    b = stores[0].buffer
    marks = tuple(dataclasses.replace(s, expr=const(1, b.dtype)) for s in stores)
    roots = [r for s in marks for r in (*s.indices, *([] if s.mask is None else [s.mask]))]
    values = any(n.op == "ref" for r in roots for n in walk(r))
    used = kernel.inputs if values else tuple(dict.fromkeys(buffer for buffer, _, _ in loads(*roots)))
    ones = evaluate(Kernel(kernel.name, kernel.body if values else (), marks, (*used, b)), inputs, vars)
    return np.asarray(np.asarray(ones[b.name]).reshape(-1) == 1)
