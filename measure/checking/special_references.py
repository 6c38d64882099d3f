"""References on special inputs: what the kernel's definition leaves open there is not looked at. Of large kernels parts are enough."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...targets import usable_cores
from ..inputs import shape
from .exact import drift
from .unwritten import unwritten
from .verify import Expect, expected

if TYPE_CHECKING:
    import numpy as np

    from ...ir.kernel import Kernel

    Array = np.ndarray[Any, Any]

SPECIAL_WORK = 1 << 24
"""Elements of arrays (`evaluation_work`) up to which a kernel's whole output is compared on special inputs: about a second of one core."""
SAMPLED_WORK = 1 << 22
"""The same of what is compared of larger kernels."""


def special_expectations(kernel: Kernel, inputs: Mapping[str, Array], vars: Mapping[str, int], seed: int = 0) -> dict[str, Expect]:
    """As `verify.expectations` on inputs of `special.generate`. Of kernels that NumPy would take long for, parts of the outer axis alone: the first, the
    last, and others by `seed`."""
    from ...ir.evaluation.sampling import sampled_slices
    from ...ir.evaluation.work import evaluation_work

    work = evaluation_work(kernel, in_order=True)
    slices = sampled_slices(kernel, inputs, vars, SAMPLED_WORK / work, seed) if work > SPECIAL_WORK else None
    return certain_expectations(kernel, inputs, vars, slices, usable_cores())


def certain_expectations(
    kernel: Kernel, inputs: Mapping[str, Array], vars: Mapping[str, int], slices: list[dict[str, tuple[int, int]]] | None, threads: int
) -> dict[str, Expect]:
    """The same of some `slices` of the outer axes (`ir.evaluation.sampling`; None: of all), on any inputs, by so many threads."""
    import numpy as np

    from ...ir.evaluation import evaluate_kinds
    from ...ir.evaluation.sampling import reached

    with np.errstate(all="ignore"):
        results = evaluate_kinds(kernel, inputs, vars, threads, slices)
        free = unwritten(kernel, inputs, vars)
        seen = {} if slices is None else reached(kernel, inputs, vars, slices)
    drifted = drift(kernel, vars)  # few values, again and again
    out = {}
    for b in kernel.outputs:
        value, scale, loose, unsure = results[b.name]
        dims = shape(b, kernel, vars)
        undefined = [m.reshape(-1) for m in (free.get(b.name), None if loose is None else np.broadcast_to(loose, dims)) if m is not None]
        undefined += [~seen[b.name]] if b.name in seen else []
        e = expected(
            b.name,
            b.dtype,
            dims,
            np.asarray(value),
            drifted * np.asarray(scale),
            np.logical_or.reduce(undefined) if undefined else None,
            False,
            np.dtype(np.float64),
        )
        if b.dtype.is_float:
            zeros = e.value == 0
            e = replace(e, signed=zeros if unsure is None else zeros & ~np.broadcast_to(unsure, dims).reshape(-1))
        out[b.name] = replace(e, looked=float(seen[b.name].mean())) if b.name in seen else e
    return out
