"""Start schedules of kernels whose block sizes were decided (`ir.kernel`): those of the same kernel without them, made to fit."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import islice

from ...ir.kernel import Kernel
from ...opts.decided_blocks import allowed_sizes, block_sizes, undecided
from ...opts.opt import Opts
from ...targets import Target
from ..fitted_blocks import fitted, inside_blocks
from ..model import estimate
from .legal import Trials

WISHES, NEAR = 6, 6
"""Start schedules that are fitted, and block sizes that each is fitted to."""


def blocked_starts(kernel: Kernel, target: Target, threads: int, wishes: Iterable[Opts], quick: bool = False) -> list[Opts]:
    """Legal schedules with the blocks of the kernel, best guess first by the model, and no options at all. A wish is fitted to the
    sizes that are nearest to its own."""
    plain = undecided(kernel)
    trials = Trials(plain, target)
    allowed = allowed_sizes(kernel)
    found: dict[Opts, float] = {}
    few = 2 if quick else WISHES
    for wish in islice(wishes, few):
        own = _own_sizes(kernel, wish)
        near = sorted(allowed, key=lambda s: (sum(abs(math.log(a / b)) for a, b in zip(s, own, strict=True)), s))
        for sizes in near[: 2 if quick else NEAR]:
            made = fitted(kernel, wish, sizes)
            for way in dict.fromkeys((inside_blocks(kernel, made), made)):
                opts = trials.legal(way)
                if opts and opts not in found and block_sizes(kernel, opts) in allowed:
                    found[opts] = estimate(trials.apply(opts), threads)
    return [*sorted(found, key=lambda o: found[o]), ()]


def _own_sizes(kernel: Kernel, wish: Opts) -> tuple[int, ...]:
    """What a wish does at a time of each decided axis: a block, or of a loop of work items that is not cut, one step."""
    assert kernel.blocks is not None
    cut = block_sizes(kernel, wish)
    items = {o.on for o in wish if o.op == "PARALLEL"}
    copies = {o.on: o.amount for o in wish if o.op == "UPCAST"}
    tiled = {o.on for o in wish if o.op == "TILE"}
    return tuple(copies.get(a, 1) if a in items - tiled else n for a, n in zip(kernel.blocks.axes, cut, strict=True))
