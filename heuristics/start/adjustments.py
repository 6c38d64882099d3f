"""Start schedules of kernels whose writer decided block sizes (`ir.kernel`): those of the same kernel without them, made to fit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice

from ...ir.kernel import Kernel
from ...opts.analysis.structure import joins
from ...opts.legality import allowed_sizes, block_sizes, extent_of, is_on, undecided
from ...opts.neighbourhood import Neighbourhood
from ...opts.opt import Opt, Opts, opt
from ...targets import Target
from ..machine import DEFAULT
from ..model.arithmetic import accumulators
from .trials import Trials

# single changes -------------------------------------------------------------------------------------------------------
#
# Single changes of a start schedule: what its rule did not think of, and both models know.
#
# A rule gives schedules of one form, with a few numbers. From the best of them this goes on by steps: an axis gets
# copies in registers, an amount is doubled or halved, an option is left out, as long as the estimate gets better (the
# coordinate descent of Inductor's and other tuners, but by a model). The end is taken where what the Programs count
# is better as well: of 57 kernels with sizes drawn at random, it was 1.45 times as fast in the mean where both models
# said 1.2 times, and no faster where the estimate alone did.


COPIES = 4
"""How many copies of an axis are tried first."""
STEP = 1.05
"""How many times as fast each step must be by the estimate."""
FASTER = 1.25
"""How many times as fast the end must be, by both models."""


def changed(trials: Trials, opts: Opts, most: int) -> Opts | None:
    """The schedule to which single changes lead from `opts`, of which each took at most so many estimates; None where it is not clearly
    faster."""
    at, asked = opts, {opts}
    step: Opts | None = opts
    while step is not None:
        at, step = step, None
        least = trials.seconds(at) / STEP
        for new in islice((o for o in _changes(trials, at) if o not in asked), most):
            asked.add(new)
            if not trials.is_legal(new) or trials.seconds(new) >= least:
                continue
            # (sums that have no register are charged too little: column sums 0.8)
            after = trials.apply(new)
            if all(accumulators(after, n, DEFAULT) <= after.target.registers for n in after.nests if n.kind == "reduce"):
                step, least = new, trials.seconds(new)
    if trials.seconds(at) * FASTER > trials.seconds(opts) or trials.counted(at) * FASTER > trials.counted(opts):
        return None
    return at


def _changes(trials: Trials, opts: Opts) -> Iterator[Opts]:
    """What is one change away from `opts`, legal or not."""
    amounts = {o.on for o in opts if o.op in ("UPCAST", "UNROLL")}
    place = next((i for i, o in enumerate(opts) if o.op in ("PARALLEL", "FUSE", "TILE", "REORDER")), len(opts))
    for name, sites in Neighbourhood(trials.apply(opts)).axes.items():
        if name not in amounts and not any(joins(trials.kernel, a) for a in sites):  # (all of the arrays would be read, under masks)
            yield (*opts[:place], opt("UPCAST", name, COPIES), *opts[place:])
    for i, o in enumerate(opts):
        if o.op in ("UPCAST", "UNROLL") and isinstance(o.arg, int):
            yield (*opts[:i], opt(o.op, o.on, 2 * o.arg), *opts[i + 1 :])
            if o.arg > 2:
                yield (*opts[:i], opt(o.op, o.on, o.arg // 2), *opts[i + 1 :])
    for i, o in enumerate(opts):
        if o.op != "PARALLEL":
            yield (*opts[:i], *opts[i + 1 :])


# fitted to blocks -----------------------------------------------------------------------------------------------------

WISHES, NEAR = 6, 6
"""Start schedules that are fitted, and block sizes that each is fitted to."""


def blocked_starts(kernel: Kernel, target: Target, threads: int, wishes: Iterable[Opts], quick: bool = False) -> list[Opts]:
    """Legal schedules with the blocks of the kernel, best guess first by the model, and no options at all. A wish is fitted to the
    sizes that are nearest to its own."""
    plain = undecided(kernel)
    trials = Trials(plain, target, threads)
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
                    found[opts] = trials.seconds(opts)
    return [*sorted(found, key=lambda o: found[o]), ()]


def _own_sizes(kernel: Kernel, wish: Opts) -> tuple[int, ...]:
    """What a wish does at a time of each decided axis: a block, or of a loop of work items that is not cut, one step."""
    assert kernel.blocks is not None
    cut = block_sizes(kernel, wish)
    items = {o.on for o in wish if o.op == "PARALLEL"}
    copies = {o.on: o.amount for o in wish if o.op == "UPCAST"}
    tiled = {o.on for o in wish if o.op == "TILE"}
    return tuple(copies.get(a, 1) if a in items - tiled else n for a, n in zip(kernel.blocks.axes, cut, strict=True))


_CUTS = ("TILE", "HALO")
_COPIES = ("UPCAST", "UNROLL", "LOCAL", "GROUP")


def fitted(kernel: Kernel, wish: Opts, sizes: tuple[int, ...]) -> Opts:
    """A wish with the blocks cut as `sizes` says: other cuts of these axes are left out unless they fit inside, and copies in
    registers and threads take the nearest number that divides the block."""
    assert kernel.blocks is not None
    of = dict(zip(kernel.blocks.axes, sizes, strict=True))
    first = tuple(opt("TILE", a, n) for a, n in of.items() if n < extent_of(kernel, a))
    return (*first, *(f for o in wish if (f := _fitted(kernel, o, of)) is not None))


def inside_blocks(kernel: Kernel, opts: Opts) -> Opts:
    """The same with values that are kept at the loop over an axis's blocks kept at the loop inside a block: as long as there were no
    blocks, that was a step of the one loop."""
    assert kernel.blocks is not None
    cut = {o.on for o in opts if o.op == "TILE" and o.on in kernel.blocks.axes}
    return tuple(
        replace(o, arg=tuple({**o.fields, "at": f"{o.fields['at']}.t"}.items()))
        if o.op == "STAGE" and o.on in kernel.values and o.fields["at"] in cut
        else o
        for o in opts
    )


def _fitted(kernel: Kernel, o: Opt, of: Mapping[str, int]) -> Opt | None:
    axis = next((a for a in of if is_on(kernel, o, a)), None)
    if axis is None or not isinstance(o.arg, int) or of[axis] == extent_of(kernel, axis):
        return o if axis is None or o.op not in _CUTS else None
    size = of[axis]
    if o.op in _CUTS:
        return o if o.op == "TILE" and o.amount < size and size % o.amount == 0 else None
    if o.op in _COPIES and size % o.amount:
        near = min((d for d in range(1, size + 1) if size % d == 0), key=lambda d: (abs(d - o.amount), -d))
        return replace(o, arg=near) if near > 1 else None
    return o
