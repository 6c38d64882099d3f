"""Several reductions through the same loops, and stores at the points that are reduced."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from ...opts.axis_plan import Part
from ...opts.nests import Nest
from ...program.program import Val
from ..lowering import Lowering
from .accumulators import Accumulators
from .loops import carry
from .places import PlaceAccumulators, of_extremes
from .quickly import stepped
from .store import store_point


def run_together(
    low: Lowering,
    each: Sequence[Accumulators],
    loops: Sequence[Part],
    starts: Sequence[list[Val]],
    empty: bool,
    stores: Sequence[Nest] = (),
) -> list[list[Val]]:
    """Accumulate several reductions through the same loops: for each element all of them, so that what they have in common is used at
    once; places before their extremes, which they compare with; and last what is stored at these points."""
    of_extremes(each)
    if empty:
        return list(starts)
    starts = [[*s, *a.beside(loops)] for a, s in zip(each, starts, strict=True)]
    ends = list(accumulate((len(s) for s in starts), initial=0))
    first = dict(zip(each, ends, strict=False))
    members = sorted(each, key=lambda a: not isinstance(a, PlaceAccumulators))

    def steps(carried: list[Val]) -> list[Val]:
        accs = list(carried)
        for a, (lo, hi) in zip(each, pairwise(ends), strict=True):
            a.begin(carried[lo:hi])
        for u in each[0].ev.assignments(each[0].unrolled):
            for i in range(max(len(a.keys) for a in each)):
                for a in members:
                    if i < len(a.keys):
                        if isinstance(a, PlaceAccumulators) and a.of is not None:
                            a.before = accs[first[a.of] + i]
                        s, p = a.keys[i]
                        accs[first[a] + i] = a.step(accs[first[a] + i], {**s, **p, **u})
        for n in stores:
            store_point(low, n, beside=True)
        return [v for a, (lo, hi) in zip(each, pairwise(ends), strict=True) for v in a.noted(accs[lo:hi])]

    def quick(carried: list[Val]) -> list[Val]:
        return stepped(low, stores, lambda: steps(carried)) if stores else steps(carried)

    final = carry(low, loops, [v for s in starts for v in s], quick)
    for a, (lo, hi) in zip(each, pairwise(ends), strict=True):
        a.final = a.ended(final[lo:hi])
    return [a.final for a in each]
