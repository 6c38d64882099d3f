"""What seeds of every kind of target share."""

from __future__ import annotations

from ...ir.errors import OptError
from ...ir.kernel import Kernel
from ...targets import Target
from ..opt import Opts
from ..schedule import apply


def legal_prefix(kernel: Kernel, opts: Opts, target: Target) -> Opts | None:
    """`opts`, or the longest list left after dropping what is illegal (a seed is a wish, not a demand)."""
    kept: Opts = opts
    for _ in range(len(opts) + 1):
        try:
            apply(kernel, kept, target)
            return kept
        except OptError:
            pass
        # drop the first option whose prefix fails
        for i in range(len(kept)):
            try:
                apply(kernel, kept[: i + 1], target)
            except OptError:
                kept = kept[:i] + kept[i + 1 :]
                break
        else:
            return None
    return None


def waste(size: int, n: int) -> float:
    """The extra work, as a share, of rounding `size` up to a multiple of n."""
    return -(-size // n) * n / max(1, size) - 1
