"""By which kernel's error bound the results of a schedule are judged."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from ...ir.lower_precision import cut_sums, lower_precision

if TYPE_CHECKING:
    from ...ir.kernel import Kernel
    from ...targets import Target


@lru_cache(maxsize=64)
def judged(kernel: Kernel, target: Target, lower: bool) -> Kernel:
    """The kernel to whose error bound results on a target are held, mostly the kernel itself. `lower`: factors of products may be rounded
    (DOWNCONVERT). Long sums that tensor cores could make have their cutting in mind."""
    found = lower_precision(kernel) if lower else kernel
    return cut_sums(found) if target.language.tensor_cores else found
