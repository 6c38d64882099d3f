"""References in which values overflow on the way, or are no numbers: what is expected then, and what is said of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...ir.dtypes import OVERFLOW
from ...ir.evaluation import SLACK
from ...ir.kernel import Kernel
from ...targets import usable_cores

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

SAID = 0.05
"""Above this share of an output, elements that are no numbers or undefined are told of."""


def with_overflow(
    kernel: Kernel,
    inputs: Mapping[str, Array],
    vars: Mapping[str, int],
    plain: Mapping[str, tuple[Array, Array]],
    free: Mapping[str, Array],
) -> tuple[dict[str, tuple[Array, Array]], dict[str, Array]]:
    """(value, scale) and free elements where a value on the way does not fit its type: infinities go on from there, as they
    do in the kernel, and an element is free where right schedules may differ in that. What surely overflows at the end alone
    must still be infinite."""
    import numpy as np

    from ...ir.evaluation import evaluate_kinds

    with np.errstate(all="ignore"):
        kinds = evaluate_kinds(kernel, inputs, vars, threads=usable_cores())
        results, open_ends = {}, dict(free)
        for b in kernel.outputs:
            value, scale, loose, _ = kinds[b.name]
            first, bound = (np.asarray(x) for x in plain[b.name])
            if loose is not None:
                loose = np.broadcast_to(loose, first.shape)
                if b.dtype.is_float:
                    sure = loose & np.isfinite(first) & (np.abs(first) - SLACK * b.dtype.acc.eps * bound >= OVERFLOW[b.dtype.compute.name])
                    value, loose = np.where(sure, first, value), loose & ~sure
                flat = loose.reshape(-1)
                if flat.any():
                    open_ends[b.name] = flat | free[b.name] if b.name in free else flat
            results[b.name] = value, scale
    return results, open_ends


def noted(name: str, value: Array, masks: tuple[Array | None, Array | None], written: Array | None) -> str:
    """What whoever tunes should know of an output's reference: that much of it is no number, is left open, or is not there.

    `masks`: the elements that are not finite in the output's type, and those that are free (`verify.Expect`); `written`: those
    that the kernel writes (None: all)."""
    import numpy as np

    if not value.size:
        return ""
    if written is not None and not written.any():
        return f"no element of {name} is written: the mask of its store never holds, so nothing of it was verified"
    there = np.ones(value.size, bool) if written is None else written
    special, free = (np.zeros(value.size, bool) if m is None else m & there for m in masks)
    nan = np.isnan(value) & special
    found = {"NaN": nan, "infinite": special & ~nan, "left open (values overflow on the way)": free}
    total = int(there.sum())
    parts = [f"{what} in {int(m.sum())}" for what, m in found.items() if m.sum() > SAID * total]
    if not parts:
        return ""
    return (
        f"of {total} elements of {name} the reference is {' and '.join(parts)} on random inputs, so that the others alone show whether results "
        "are right. State what inputs hold: kb.input(..., range=(least, largest))"
    )
