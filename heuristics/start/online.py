"""Start schedules for attention that is written as a chain of reductions: the fold that it is (FOLD), with the start schedules of one."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.body import Fold, Reduce
from ...ir.kernel import Kernel
from ...opts.opt import Opts, opt
from ...opts.options.fold import foldable, folded
from ...targets import Target
from .folds import weighted
from .legal import Trials
from .phased import Starts, joined


def fold_first(kernel: Kernel, target: Target) -> Opts:
    """The option that makes a fold of a chain of reductions over a product, of which one is a weighted sum of rows; none for other
    kernels. (A place of an extreme is found as quickly once the products are in memory.)"""
    if target.kind == "gpu" or not (name := foldable(kernel)):
        return ()
    fold = next(item for item in folded(kernel, name).body if isinstance(item, Fold))
    return (opt("FOLD", name),) if weighted(fold) and _of_all_rows(fold) else ()


def _of_all_rows(fold: Fold) -> bool:
    """Whether every reduction of the block runs over all axes that the results share: others, such as the norm of each key, would be
    computed again for every row, and are better kept before."""
    family, rows = fold.axis.arg.family, set.intersection(*(set(fold.component(c).axes) for c in fold.components))
    before = [v for v in fold.block if isinstance(v.expr, Reduce) and all(a.arg.family != family for a in v.reduce_axes)]
    return all(rows & set(w.axes) <= set(v.axes) for v in before for w in before)


def online_starts(trials: Trials, starts: Starts) -> Iterator[Opts]:
    """The fold with its start schedules, the likeliest first."""
    first = fold_first(trials.kernel, trials.target)
    if first:
        yield from joined(trials, first, starts)
