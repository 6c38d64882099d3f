"""One schedule for several shapes of a kernel: the one whose weighted geometric mean of times is best.

Each shape is tuned alone, which also says what the common schedule costs it. The best schedules of all are timed on all shapes.
Then neighbours of the best common one are tried for as long as there is time, shape by shape: a neighbour that cannot
win any more is not timed on the rest."""

from __future__ import annotations

import contextlib
import math
import os
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, get_args

from ...ir.errors import UsageError
from ...measure.inputs import require_operands
from ...opts.fitted import within
from ...opts.legality import allowed_sizes, block_sizes, extent_of
from ...opts.options.axes import cut_into
from ..api import tune
from ..budget import parse_seconds
from ..interrupts import Deadline
from ..kernel_task import KernelTask
from ..progress import Silent
from .buckets import aggregate
from .ranges import ShapesResult, SizeLoss, WeightedShape
from .timed import Allowance, distinct, record_given, remembered, times_of

if TYPE_CHECKING:
    from ...cache import Cache
    from ...devices import Device
    from ...ir.dtypes import DTypeLike
    from ...ir.kernel import Kernel
    from ...opts.opt import Opt
    from ...plan import Built
    from ..progress import Progress
    from ..space import Schedule, Space


# shared space -----------------------------------------------------------------------------------------------
# One schedule as each of several shapes has it.


class SharedSpace:
    """The spaces of one kernel at several shapes, and its kernels there."""

    def __init__(self, spaces: Sequence[Space], kernels: Sequence[Kernel]) -> None:
        self.spaces, self.kernels = tuple(spaces), tuple(kernels)
        self._families = frozenset(f for k in kernels for f in k.families)
        self._sizes = self._shared_sizes()

    def at(self, shape: int, opts: Schedule) -> Schedule:
        """The schedule as the shape of this number has it: the same where it is legal there."""
        if self.spaces[shape].state(opts) is not None:
            return opts
        return tuple(f for o in opts if (f := self._within(shape, o)) is not None)

    def legal(self, opts: Schedule) -> bool:
        """Whether a schedule may run on every shape."""
        return all(s.state(self.at(i, opts)) is not None for i, s in enumerate(self.spaces))

    def fitted(self, opts: Schedule) -> Schedule:
        """A schedule without what is not legal on some shape, even as that shape has it."""
        for i, space in enumerate(self.spaces):
            if space.state(self.at(i, opts)) is not None:
                continue
            here = [(o, self._within(i, o)) for o in opts]
            state = space.legalise([f for _, f in here if f is not None])
            kept = list(() if state is None else state.opts)  # some of them, in their order
            left: list[Opt] = []
            for o, mine in here:
                if mine is None:
                    left.append(o)
                elif kept and kept[0] == mine:
                    left.append(o)
                    kept.pop(0)
            opts = tuple(left)
        return opts

    def written_out(self, shape: int, opts: Schedule) -> list[Schedule]:
        """A schedule of one shape for all of them, in each way that says the sizes of decided blocks (`ir.kernel`) which are the whole
        of an axis there and need not be elsewhere; the schedule itself where there are none."""
        kernel = self.kernels[shape]
        if not self._sizes or not opts:
            return [opts]
        mine = dict(zip(kernel.blocks.axes, block_sizes(kernel, opts), strict=True)) if kernel.blocks else {}
        ways: list[Schedule] = []
        for sizes in self._sizes:
            whole = {a: extent_of(kernel, a) if a in kernel.families else 1 for a in sizes}
            if all(min(n, whole[a]) == mine.get(a, whole[a]) for a, n in sizes.items()):
                ways.append((*(cut_into(a, n) for a, n in sizes.items() if n >= whole[a]), *opts))
        return ways or [opts]

    def near(self, opts: Schedule) -> Iterator[Schedule]:
        """Schedules one step away that every shape may run: as the shape that has most of the options sees them."""
        most = max(range(len(self.spaces)), key=lambda i: len(self.at(i, opts)))
        mine = self.at(most, opts)
        state = self.spaces[most].state(mine)
        if state is None:
            return
        found = [s.opts for s in self.spaces[most].successors(state)]
        found += [mine[:k] + mine[k + 1 :] for k in range(len(mine))]
        yield from (s for f in dict.fromkeys(found) for s in self.written_out(most, f) if self.legal(s))

    def _within(self, shape: int, o: Opt) -> Opt | None:
        return within(self.kernels[shape], o, self._families)

    def _shared_sizes(self) -> list[dict[str, int]]:
        """The sizes of decided blocks, by axis, that every shape allows, where a block is at most its axis there."""
        of = [(k, k.blocks) for k in self.kernels if k.blocks is not None]
        axes = dict.fromkeys(a for _, blocks in of for a in blocks.axes)
        every = [dict(zip(blocks.axes, s, strict=True)) for _, blocks in of if len(blocks.axes) == len(axes) for s in blocks.sizes]

        def allowed(k: Kernel, axes: Sequence[str], sizes: dict[str, int]) -> bool:
            return tuple(min(sizes[a], extent_of(k, a)) for a in axes) in allowed_sizes(k)

        found = [s for s in every if all(allowed(k, blocks.axes, s) for k, blocks in of)]
        return list({tuple(s.items()): s for s in found}.values())


# aggregated -------------------------------------------------------------------------------------------------
How = Literal["geomean", "worst"]
HOW: tuple[str, ...] = get_args(How)
DEFAULT_S = 60.0
_ALONE, _COMMON = 0.5, 0.85
"""Of the budget: the share for tuning shapes alone, and when neighbours are no longer tried."""
_COMPARED = 0.3
"""The share for comparing what was found for the shapes."""
_POOL = 16
_NEIGHBOURS = 8


class SharedSearch:
    """One call of `tune_shapes`."""

    def __init__(
        self, tasks: Sequence[KernelTask], weights: Sequence[float], how: str, random_seed: int, show: Progress, allowance: Allowance
    ) -> None:
        self.allowance = allowance
        self.tasks, self.weights, self.how, self.random_seed, self.show = tasks, weights, how, random_seed, show
        self.counts: Counter[str] = Counter()
        self.times: dict[tuple[Schedule, int], float] = {}
        self.own: dict[int, Schedule] = {}
        self.beside: dict[tuple[Schedule, int], float] = {}
        """The time of a shape's own best, in the pass in which a schedule was timed there."""
        self.built: list[dict[Schedule, Built | None]] = [{} for _ in tasks]
        self.tried: dict[Schedule, None] = {}
        self.space = SharedSpace([t.space() for t in tasks], [t.kernel for t in tasks])

    def of(self, shape: int, schedules: Sequence[Schedule]) -> list[Schedule]:
        """Schedules of one shape, as they may serve all."""
        return [w for s in schedules for w in self.space.written_out(shape, s)]

    def time(self, schedules: Sequence[Schedule]) -> None:
        """Time schedules on one shape after the other; those that can no longer be best drop out."""
        left = [s for s in schedules if s not in self.tried and self.space.legal(s)]
        self.tried |= dict.fromkeys(left)
        known = self.best()
        for i in sorted(range(len(self.tasks)), key=lambda i: -self.weights[i]):
            if not left:
                return
            began = self.allowance.spent
            here = {s: self.space.at(i, s) for s in left}
            own = [self.own[i]] if i in self.own else []
            taken, measured = times_of(self.tasks[i], [*own, *here.values()], self.random_seed, self.show, self.built[i])
            self.beside.update({(s, i): taken[own[0]] for s in left if own and own[0] in taken})
            self.allowance.took(i, self.allowance.spent - began)
            self.counts.update(m.outcome.value for m in measured)
            self.times.update({(s, i): taken[mine] for s, mine in here.items() if mine in taken})
            left = [s for s in left if (s, i) in self.times and (known is None or self.hopeful(s, known[0]))]

    def hopeful(self, opts: Schedule, best: Schedule) -> bool:
        """Whether a schedule is at most 1.5 times as slow as the best, on the shapes that it was timed on."""
        both = [i for i in range(len(self.tasks)) if (opts, i) in self.times and (best, i) in self.times]
        logs = [(self.weights[i], math.log(self.times[opts, i] / self.times[best, i])) for i in both]
        return not logs or sum(w * x for w, x in logs) <= math.log(1.5) * sum(w for w, _ in logs)

    def best(self) -> tuple[Schedule, float] | None:
        """The best schedule for all, and its loss."""
        return aggregate(self.times, range(len(self.tasks)), self.weights, list(self.tried), self.how)

    def climb(self) -> None:
        """Try neighbours of the best, until none is better or only the time for the second checks is left."""
        rng = random.Random(self.random_seed)
        checks = sum(self.allowance.check(i) for i in range(len(self.tasks)))
        until, longest = min(_COMMON * self.allowance.seconds, self.allowance.seconds - checks), 0.0
        while self.allowance.spent + longest < until:
            found = self.best()
            fresh = [s for s in self.space.near(found[0]) if s not in self.tried] if found else []
            if not fresh:
                return
            rng.shuffle(fresh)
            self.show.phase("neighbours of the best for all")
            began = self.allowance.spent
            self.time(fresh[:_NEIGHBOURS])
            longest = max(longest, self.allowance.spent - began)


def tune_shapes(
    kernel: str,
    shapes: Sequence[WeightedShape],
    dtype: DTypeLike | None = None,
    device: str | Device = "cpu",
    *,
    how: How = "geomean",
    budget: str | float | None = None,
    threads: int | None = None,
    random_seed: int = 0,
    cache: str | os.PathLike[str] | Cache | None = None,
    allow: Iterable[str] = (),
    progress: Progress | None = None,
) -> ShapesResult:
    """Find one schedule for all of `shapes`: the one with the best weighted geometric mean of times ("geomean"), or whose largest loss
    against each shape's own best is least ("worst").

    The schedule is measured, checked twice and recorded for each shape, beside the best of each that tuning it alone found (which is
    what `best()` goes on to answer where it is faster). `budget`: seconds or text; 60 s by default; it is kept as `tune` keeps it, and a
    MeasureError says so where it is over before the schedule was checked. With too little for searches of the single
    shapes, start schedules and what the cache remembers are compared. Raises what `tune` raises."""
    from ... import cache as caches

    if how not in HOW:
        raise UsageError(f"shapes are aggregated by {' or '.join(HOW)}, not {how!r}")
    if len(shapes) < 2 or any(not isinstance(s, WeightedShape) for s in shapes):
        raise UsageError("shapes are two or more of WeightedShape(sizes, weight), such as WeightedShape({'m': 64}, 1.0)")
    started = time.monotonic()
    show = progress if progress is not None else Silent()
    seconds = parse_seconds(budget) if budget is not None else DEFAULT_S
    allow = tuple(allow)
    allowance = Allowance(seconds, started)
    with contextlib.ExitStack() as stack:
        stack.enter_context(Deadline(seconds, started))
        tasks = [KernelTask(kernel, s.shape, dtype, device, threads, None, allow) for s in shapes]
        for task in tasks:
            require_operands(task.kernel, task.vars)
        search = SharedSearch(tasks, [s.weight for s in shapes], how, random_seed, show, allowance)
        store = cache if isinstance(cache, caches.Cache) else stack.enter_context(caches.open(cache))
        store.will_write = True
        pool: list[Schedule] = []
        for i, s in enumerate(shapes):
            share = allowance.slice(_ALONE, _ALONE + 0.1, len(shapes))
            if share is None:
                pool += search.of(i, remembered(tasks[i], store, 3))
                continue
            show.phase(f"{s} alone")
            result = tune(
                kernel, s.shape, dtype, device, share, threads=threads, random_seed=random_seed, cache=store, progress=show, allow=allow
            )
            search.counts.update(result.counts)
            if result.found:
                pool += search.of(i, [result.opts, *remembered(tasks[i], store, 3)])
                search.own[i] = result.opts
        starts = [search.of(i, space.starts()) for i, space in enumerate(search.space.spaces)]
        pool += [s for found in starts for s in found[:1]]
        if len(pool) < _POOL:
            pool += [s for rank in range(1, _POOL) for found in starts for s in found[rank : rank + 1]]
        show.phase("comparing on all shapes")
        search.time(distinct([search.space.fitted(s) for s in pool], allowance.compared(len(shapes), _COMPARED, _POOL)))
        search.climb()
        return _recorded(search, store, shapes, kernel, started)


def _recorded(search: SharedSearch, cache: Cache, shapes: Sequence[WeightedShape], kernel: str, started: float) -> ShapesResult:
    """Check the best schedule on every shape, record it, and say what it costs."""
    found = search.best()
    bad: list[str] = []
    late: list[str] = []
    ours: list[SizeLoss] = []
    for i, (task, s) in enumerate(zip(search.tasks, shapes, strict=True) if found else ()):
        assert found is not None
        search.show.phase(f"checking {s}")
        result = record_given(
            task, cache, [search.space.at(i, found[0])], search.random_seed, search.show, {"shapes": [str(x) for x in shapes]}
        )
        search.counts.update(result.counts)
        if not result.confirmed:
            (late if result.found else bad).append(str(s))
        ours.append(SizeLoss(str(s), search.times[found[0], i], search.beside.get((found[0], i))))
    known = [(w, math.log1p(x.loss)) for w, x in zip(search.weights, ours, strict=False) if x.loss is not None]
    message = "no schedule works for all of the shapes" if found is None else ""
    message = f"the second check of {', '.join(bad)} failed: tune again, with more time" if bad else message
    message = "; ".join(filter(None, (message, f"there was no time for the second check of {', '.join(late)}" if late else "")))
    message = "; ".join(filter(None, (message, search.allowance.said())))
    first = search.tasks[0]
    return ShapesResult(
        kernel=kernel,
        shape={},
        dtype=first.dtype,
        device=first.device.name,
        threads=first.threads,
        range=None,
        buckets=(),
        whole=found[0] if found else (),
        whole_loss=found[1] if found else 0.0,
        losses=tuple(ours),
        loss=math.expm1(sum(w * x for w, x in known) / sum(w for w, _ in known)) if known else None,
        counts=dict(search.counts),
        seconds=time.monotonic() - started,
        message=message,
        exit_code=4 if found is None or bad or late else 0,
    )
