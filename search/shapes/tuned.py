"""`tune_sizes`: few schedules for many shapes of a kernel, from the shapes that are drawn to the rows that keep the tree."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ...cache.size_tree import MOST
from ...ir.errors import UsageError
from ...measure.inputs import require_operands
from ..budget import parse_seconds
from ..interrupts import Deadline, OutOfTime
from ..progress import Silent
from .kept import Keeper
from .ranges import HOW, How, ShapesResult, SizeRange, WeightedShape, drawn
from .sized import SEARCHED, SEARCHES_END, SizeSearch
from .timed import Allowance

if TYPE_CHECKING:
    from ...cache import Cache
    from ...devices import Device
    from ...ir.dtypes import DTypeLike
    from ..progress import Progress

DEFAULT_S = 60.0
SCHEDULES = 6
"""Schedules at most for ranges, unless the caller says otherwise; for a list of shapes it is one."""
_SHAPES = (24, 256)
"""Shapes that are drawn, at least and at most."""
_SHAPE_S = 0.25
"""About how long the model takes for a shape."""
_SEARCH_S = 5.0
"""Seconds that a search at one shape is worth."""


def tune_sizes(
    kernel: str,
    sizes: Sequence[SizeRange] | Sequence[WeightedShape],
    dtype: DTypeLike | None = None,
    device: str | Device = "cpu",
    *,
    fixed: Mapping[str, int] | None = None,
    schedules: int | None = None,
    how: How = "geomean",
    budget: str | float | None = None,
    threads: int | None = None,
    random_seed: int = 0,
    cache: str | os.PathLike[str] | Cache | None = None,
    allow: Iterable[str] = (),
    again: bool = False,
    progress: Progress | None = None,
) -> ShapesResult:
    """Choose at most `schedules` schedules (6; 1 for a list of shapes) for many shapes of `kernel`, and a tree of sizes that says where
    each is used (`cache.size_tree`).

    `kernel`: a name or `my.py:function`. `sizes`: ranges of sizes, beside the sizes that are `fixed`, or shapes with weights. What is made small is the
    weighted geometric mean of the times over those of the best schedule of each shape ("geomean"), or the largest of these ("worst").
    `budget`: seconds or text such as "60s" (the default), kept as `tune` keeps it; with more of it, more shapes are drawn and more
    schedules compared. The tree is kept in the cache with the kernel whose sizes are symbols. `best()` answers from it where nothing was
    tuned for the very shape; kernels with symbols of these ranges have its parts. A cached tree is the answer unless `again`. Raises
    UsageError, KernelError, DeviceError, CacheError, and Interrupted as `tune` does; a tree of what was timed until then is kept."""
    from ... import cache as caches

    listed = [s for s in sizes if isinstance(s, WeightedShape)]
    varying = [s for s in sizes if isinstance(s, SizeRange)]
    fixed = dict(fixed or {})
    most = schedules if schedules is not None else SCHEDULES if varying else 1
    _check(listed, varying, fixed, most, how)
    started = time.monotonic()
    show = progress if progress is not None else Silent()
    seconds = parse_seconds(budget) if budget is not None else DEFAULT_S
    search = SizeSearch(kernel, fixed, dtype, device, threads, random_seed, allow, how, bool(varying), show, Allowance(seconds, started))
    ranges = {r.name: (r.lo, r.hi) for r in varying} or spans([s.shape for s in listed])
    with contextlib.ExitStack() as stack:
        stack.enter_context(Deadline(seconds, started))
        store = cache if isinstance(cache, caches.Cache) else stack.enter_context(caches.open(cache))
        store.will_write = True
        kept = Keeper(search, ranges, bool(listed), store)
        if varying and not again and (answer := kept.known(started)) is not None:
            return answer
        rng = random.Random(random_seed)
        for r in varying:  # (all sizes at their largest together may be too large for this machine, and are left out)
            require_operands(search.shape({**{o.name: o.lo for o in varying}, r.name: r.hi}).task.kernel, {})
        try:
            if varying:
                count = max(_SHAPES[0], min(_SHAPES[1], int(0.3 * seconds / _SHAPE_S)))
                search.shapes = [search.shape(s) for s in drawn(varying, count, rng)]
            else:
                search.shapes = [search.shape(s.shape, s.weight) for s in listed]
            for shape in search.shapes:
                require_operands(shape.task.kernel, {})
            search.gathered(most)
            for shape in (anchors := search.anchors(int(SEARCHED * seconds / _SEARCH_S))):
                share = search.allowance.slice(SEARCHED, SEARCHES_END, len(anchors))
                if share is not None:
                    search.searched(shape, share, store)
            search.compared(most)
            tree = search.tree(most, ranges)
            held = kept.held_out(tree, varying, random.Random(random_seed + 1)) if varying else search.shapes
            return kept.recorded(tree, held, started, "")
        except OutOfTime as e:
            some = any(s.times for s in search.shapes)
            return (
                kept.recorded(kept.tree or search.tree(most, ranges), kept.held, started, str(e))
                if some
                else kept.result(None, (), started, str(e), 4)
            )
        except KeyboardInterrupt:
            if any(s.times for s in search.shapes):
                kept.recorded(search.tree(most, ranges), (), started, "interrupted")
            raise


def spans(shapes: Sequence[Mapping[str, int]]) -> dict[str, tuple[int, int]]:
    """The least ranges that hold the sizes of some shapes."""
    return {n: (min(s[n] for s in shapes), max(s[n] for s in shapes)) for n in shapes[0]}


def _check(listed: Sequence[WeightedShape], varying: Sequence[SizeRange], fixed: Mapping[str, int], most: int, how: str) -> None:
    """Raise UsageError for what cannot be asked for."""
    if how not in HOW:
        raise UsageError(f"shapes are aggregated by {' or '.join(HOW)}, not {how!r}")
    if most < 1 or most > MOST:
        raise UsageError(f"schedules must be at least 1 and at most {MOST}, not {most}")
    if (listed and varying) or (not varying and len(listed) < 2):
        raise UsageError("sizes are ranges, such as SizeRange('m', 1, 4096), or two or more of WeightedShape({'m': 64}, 1.0)")
    names = [r.name for r in varying]
    for n in names:
        if n in fixed or names.count(n) > 1:
            raise UsageError(f"{n} varies and is given as well: leave it out of the shape")
    if listed and len({tuple(sorted(s.shape)) for s in listed}) > 1:
        raise UsageError("shapes of one list give the same sizes: " + "; ".join(map(str, listed[:3])))
