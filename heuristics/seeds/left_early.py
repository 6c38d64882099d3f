"""Seeds that leave reductions early whose results are known before all elements are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from ...ir.kernel import Kernel
from ...opts.analysis.structure import nests
from ...opts.opt import Opts, opt
from ...opts.options.exit import leavable
from ..model import estimate
from .legal import Trials

LIKELY = 8
"""Seeds of which it is tried."""


def left_early(trials: Trials, threads: int, found: Iterable[Opts]) -> Iterator[Opts]:
    """`found`, and before them the likeliest ones with reductions that are left, where the model takes that to be faster. (How early depends
    on data; whoever asks where something holds first, or whether anything does, mostly has some for which it does.)"""
    names = _early(trials.kernel) if trials.target.kind != "gpu" and not trials.target.groups else []
    if not names:
        yield from found
        return
    rest = iter(found)
    head = list(islice(rest, LIKELY))
    times: dict[Opts, float] = {}
    least = min((estimate(trials.apply(o), threads) for h in head if (o := trials.legal(h)) is not None), default=0.0)
    for h in head:
        alone = tuple(o for o in h if o.op != "FUSE")
        for wish in dict.fromkeys(((*alone, *(opt("EXIT", n) for n in names)), *((*alone, opt("EXIT", n)) for n in names))):
            legal = trials.legal(wish)
            if legal is not None:
                times[legal] = estimate(trials.apply(legal), threads)
    ranked = sorted(times, key=times.__getitem__)
    yield from (o for o in ranked if times[o] < least)
    yield from head
    yield from rest


def _early(kernel: Kernel) -> list[str]:
    """The reductions that may be known long before the end: not the place of an extreme, which is as likely to be anywhere."""
    found = {n.name: n for n in nests(kernel)}
    return [name for name in leavable(kernel) if not any(x.op == "eq" and "ref" in (s.op for s in x.src) for x in found[name].nodes)]
