"""What becomes of a tree of sizes: shapes are held against it, its schedules are checked, and rows keep it."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...cache.size_tree import Ranges, SizeTree, tree_of
from ...ir.node import sym
from ..kernel_task import KernelTask
from .ranges import ShapesResult, SizeLoss, SizeRange, drawn
from .timed import record_given, times_of

if TYPE_CHECKING:
    from ...cache import Cache
    from ...ir.buffer import Extent
    from ...plan import Built
    from ..space import Schedule
    from .sized import Shape, SizeSearch

HELD = 24
"""Shapes that are held against a tree, at most."""
_INSIDE = 3
"""Shapes of a part at which schedules are timed with symbols."""
_LIKELY = 3
"""Schedules of the tree that are timed with symbols in a part: its own, and those that the model ranks first."""
_HELD, _SYMBOLS, _ONES = 0.78, 0.92, 0.96
"""Of the budget: when shapes are no longer held against the tree, when schedules for symbols are chosen and checked, and when the kernels
whose size is 1 are."""


class Keeper:
    """The rows of one call of `tune_sizes`."""

    def __init__(self, search: SizeSearch, ranges: Ranges, listed: bool, cache: Cache) -> None:
        self.search, self.ranges, self.listed, self.cache = search, dict(ranges), listed, cache
        self.held: list[Shape] = []
        """Shapes that were held against `tree`."""
        self.tree: SizeTree | None = None
        self.whole = self.task(ranges, {n: math.isqrt(lo * hi) for n, (lo, hi) in ranges.items()})

    def task(self, ranges: Ranges, at: Mapping[str, int]) -> KernelTask:
        """The kernel with sizes that are symbols of these ranges, or numbers where both ends are equal, to be timed at some sizes."""
        s = self.search
        sizes: dict[str, Extent] = {n: sym(n, lo, hi) if lo < hi else lo for n, (lo, hi) in ranges.items()}
        values = {n: min(max(at[n], lo), hi) for n, (lo, hi) in ranges.items() if lo < hi}
        return KernelTask(s.kernel, {**s.fixed, **sizes}, s.dtype, s.device, s.threads, values, s.allow)

    def known(self, started: float) -> ShapesResult | None:
        """The tree that the cache has for these ranges."""
        from ...plan.size_trees import EXACT, tree_in

        for row in self.cache.with_trees(self.whole.key, self.loose(self.whole)):
            tree = tree_in(row, EXACT)
            if tree is not None and dict(tree.ranges) == self.ranges and row.key == self.whole.key:
                return self.result(tree, (), started, "found in the cache; --retune searches again", 0)
        return None

    @staticmethod
    def loose(task: KernelTask) -> str:
        """What kernels that differ in their sizes alone have in common."""
        from ...ir.normal_form import loose

        return loose(task.kernel)["extents"]

    def held_out(self, tree: SizeTree, varying: Sequence[SizeRange], rng: random.Random) -> list[Shape]:
        """Shapes that had no part in the choice, each with the tree's schedule timed beside the best that is expected or guessed there."""
        search, allowance = self.search, self.search.allowance
        self.tree, out = tree, self.held
        seen = {tuple(s.sizes.items()) for s in search.shapes}
        while len(out) < HELD and (allowance.fits(_HELD, "held") or (not out and allowance.fits(_HELD))):
            shape = search.shape(drawn(varying, 8, rng)[-1])
            if tuple(shape.sizes.items()) in seen or not search.light(shape):
                continue
            seen.add(tuple(shape.sizes.items()))
            every = list(search.pool)
            likely = [s for _, s in sorted(zip(search.expected(shape, every), every, strict=True), key=lambda x: x[0])][:5]
            with allowance.step("held"):
                search.timed(shape, [tree.schedules[tree.at(shape.sizes)], *shape.space.starts()[:3], *likely])
            out.append(shape)
        return out

    def recorded(self, tree: SizeTree, held: Sequence[Shape], started: float, message: str) -> ShapesResult:
        """Check the schedules and keep the tree."""
        from ...plan.size_trees import facts_of

        bad = [str(s) for s in self.search.shapes if self.listed and not self._confirmed(s, tree)]
        said = [message, f"the second check of {', '.join(bad)} failed: tune again, with more time" if bad else ""]
        symbolic = self._symbolic(tree) if not message else None
        if symbolic is None:
            said.append("there was no time to choose schedules for symbols: kernels with symbols have one for all sizes")
        general = [*(symbolic.schedules if symbolic is not None else ()), *tree.schedules]
        legal = self.whole.space()
        given = [s for s in general if legal.state(s) is not None][:2] or legal.starts()[:1]
        show, seed = self.search.show, self.search.random_seed
        show.phase("the kernel with symbols")
        with self.search.allowance.step("check"):
            done = record_given(self.whole, self.cache, given, seed, show, facts_of(self.whole.kernel, {}, exact=tree, symbolic=symbolic))
        self.search.counts.update(done.counts)
        for n, (lo, hi) in self.ranges.items():
            if lo == 1 < hi and len(self.ranges) > 1:  # without an axis it is another kernel
                if not self.search.allowance.fits(_ONES, "check"):
                    said.append(f"there was no time to check the kernel where {n} is 1: there, what was tuned for it alone is used")
                    continue
                one = self.task({**self.ranges, n: (1, 1)}, {k: v for k, v in self.whole.vars.items()})
                start = one.space().starts()[:1]
                with self.search.allowance.step("check"):
                    record_given(one, self.cache, start, seed, show, facts_of(one.kernel, {n: 1}, exact=tree))
        said.append(self.search.allowance.said())
        return self.result(tree, held, started, "; ".join(filter(None, said)), 0 if done.found and not bad else 4)

    def _confirmed(self, shape: Shape, tree: SizeTree) -> bool:
        """Record the tree's schedule for a shape of a list; whether it passed the second check."""
        self.search.show.phase(f"checking {shape}")
        opts = shape.here(tree.schedules[tree.at(shape.sizes)])
        done = record_given(shape.task, self.cache, [opts], self.search.random_seed, self.search.show)
        self.search.counts.update(done.counts)
        return bool(done.confirmed)

    def _symbolic(self, tree: SizeTree) -> SizeTree | None:
        """The tree with the schedules that are best where sizes are symbols, each checked and recorded with its ranges."""
        from ...plan.size_trees import widened

        search, allowance = self.search, self.search.allowance
        found: list[Schedule] = []
        parts = len(tree.schedules)
        for i in range(parts):
            inside = [s for s in search.shapes if tree.at(s.sizes) == i][:_INSIDE]
            if not inside:
                return None
            search.show.phase("schedules for symbols")
            box = widened(tree.box(i), tree.ranges)
            legal = self.task(box, inside[0].sizes).space()
            known = {s: state.estimate for s in tree.schedules if (state := legal.state(s)) is not None}
            ranked = sorted(known, key=lambda s: (s != tree.schedules[i], known[s]))
            candidates = list(dict.fromkeys([*ranked[:_LIKELY], *legal.starts()[:1]]))
            built: dict[Schedule, Built | None] = {}
            logs: dict[Schedule, list[float]] = {s: [] for s in candidates}
            for n, shape in enumerate(inside):
                kind = "symbols built" if n == 0 else "symbols"
                if not allowance.fits(_SYMBOLS, *[kind] * (parts - i if n == 0 else 1)):
                    if n == 0:
                        return None
                    break
                with allowance.step(kind):
                    taken, measured = times_of(self.task(box, shape.sizes), candidates, search.random_seed, search.show, built)
                search.counts.update(m.outcome.value for m in measured)
                for s in candidates:
                    logs[s].append(math.log(taken.get(s, math.inf)))
            found.append(min(candidates, key=lambda s: sum(logs[s])))
        made = tree_of(tree.ranges, tree.root, found)
        for i, opts in enumerate(made.schedules):
            box = widened(made.box(i), made.ranges)
            at = next(s.sizes for s in search.shapes if made.at(s.sizes) == i)
            if not allowance.fits(_ONES, *["check"] * (len(made.schedules) - i)):
                return None
            with allowance.step("check"):
                done = record_given(self.task(box, at), self.cache, [opts], search.random_seed, search.show)
            search.counts.update(done.counts)
        return made

    def result(self, tree: SizeTree | None, held: Sequence[Shape], started: float, message: str, code: int) -> ShapesResult:
        """What is returned."""
        losses = []
        for shape in held:
            assert tree is not None
            ours = shape.time(tree.schedules[tree.at(shape.sizes)])
            if ours is not None and ours < math.inf:
                losses.append(SizeLoss(str(shape), ours, shape.best, shape.weight))
        logs = [(x.weight, math.log1p(x.loss)) for x in losses]
        s = self.search
        return ShapesResult(
            kernel=s.kernel,
            shape=s.fixed,
            dtype=self.whole.dtype,
            device=self.whole.device.name,
            threads=self.whole.threads,
            ranges=self.ranges,
            tree=tree,
            listed=self.listed,
            losses=tuple(losses),
            loss=math.expm1(sum(w * x for w, x in logs) / sum(w for w, _ in logs)) if logs else None,
            worst=max((x.loss for x in losses), default=None),
            shapes=len(s.shapes),
            counts=dict(s.counts),
            seconds=time.monotonic() - started,
            message=message,
            exit_code=code,
        )
