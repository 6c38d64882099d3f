"""`tune_sizes`: few schedules for many shapes of a kernel, from the shapes that are drawn to the rows that keep the tree."""

from __future__ import annotations

import contextlib
import math
import os
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from random import Random
from typing import TYPE_CHECKING, Any, Literal, get_args

from ... import cache as caches
from ...cache.size_tree import MOST, Ranges, SizeTree, tree_of
from ...ir.errors import KernelError, UsageError
from ...ir.node import sym
from ...ir.normal_form import loose
from ...measure.inputs import require_operands
from ...named_kernels import parse_shape
from ...plan.size_trees import EXACT, facts_of, tree_in, widened
from ..budget import parse_seconds
from ..interrupts import Deadline, OutOfTime
from ..kernel_task import KernelTask
from ..progress import Silent
from .sized import SEARCHED, SEARCHES_END, SizeSearch
from .timed import Allowance, record_given, times_of

if TYPE_CHECKING:
    from ...cache import Cache
    from ...devices import Device
    from ...ir.buffer import Extent
    from ...ir.dtypes import DTypeLike
    from ...plan import Built
    from ..progress import Progress
    from ..space import Schedule
    from .sized import Shape


# ranges ---------------------------------------------------------------------------------------------------------------
#
# Sizes as `tune run` takes them for many shapes (ranges, or a list of shapes with weights), and what tuning for them
# gives.


How = Literal["geomean", "worst"]
HOW: tuple[str, ...] = get_args(How)


@dataclass(frozen=True, slots=True)
class SizeRange:
    """A size that is known only when the kernel is called: `name` from `lo` to `hi`, both included."""

    name: str
    lo: int
    hi: int

    def __post_init__(self) -> None:
        if not (isinstance(self.lo, Integral) and isinstance(self.hi, Integral)):
            raise UsageError(f"{self} is no range of sizes: sizes are whole numbers")
        if self.lo == self.hi:
            raise UsageError(f"{self} is a single size; write {self.name}={self.lo}")
        if self.lo > self.hi:
            raise UsageError(f"{self} is no range of sizes; write the smaller number first, as in {self.name}=1..4096")
        if self.lo < 1:
            raise UsageError(f"{self} is no range of sizes: one that varies begins at 1 or more")

    def __str__(self) -> str:
        return f"{self.name}={self.lo}..{self.hi}"


def parse_ranges(text: str) -> tuple[dict[str, int], list[SizeRange]]:
    """`"m=1..4096,n=64..512,k=1024"` as (the sizes that are numbers, those that are ranges). UsageError for what is no range, KernelError for
    what is no size."""
    fixed: list[str] = []
    found: dict[str, SizeRange] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, _, value = part.partition("=")
        lo, dots, hi = value.partition("..")
        if not dots:
            fixed.append(part)
            continue
        name = name.strip()
        if not lo.strip() or not hi.strip():
            raise UsageError(f"{part} lacks an end; write both, as in {name}=1..4096")
        ends = parse_shape(f"{name}={lo}"), parse_shape(f"{name}={hi}")
        if name in found:
            raise UsageError(f"size {name} is given twice in {text!r}")
        found[name] = SizeRange(name, ends[0][name], ends[1][name])
    sizes = parse_shape(",".join(fixed))
    for name in found:
        if name in sizes:
            raise UsageError(f"size {name} is given twice in {text!r}")
    return sizes, list(found.values())


@dataclass(frozen=True, slots=True)
class WeightedShape:
    """A shape and how much it counts."""

    shape: Mapping[str, int]
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.weight < float("inf"):
            raise UsageError(f"{self.weight} is no weight of {self}: weights are positive numbers")

    def __str__(self) -> str:
        return ",".join(f"{k}={v}" for k, v in self.shape.items()) or "the default shape"


def parse_shapes(text: str) -> list[WeightedShape]:
    """`"m=64,n=64; m=512 * 3"`: shapes, each with a weight (1 where none is given). UsageError for a weight that is none, fewer than two
    shapes, or one given twice; KernelError for what is no size."""
    out: list[WeightedShape] = []
    parts = [p.strip() for p in text.split(";")]
    for part in parts if parts[-1] else parts[:-1]:
        if not part:
            raise UsageError(f"there is an empty shape in {text!r}; leave out one of the semicolons")
        out.append(_weighted(part))
    if len(out) < 2:
        raise UsageError("--shapes wants two shapes or more, such as 'm=64; m=512 * 3'; for a single one there is --shape")
    if len({tuple(sorted(s.shape.items())) for s in out}) < len(out):
        raise UsageError(f"a shape is given twice in {text!r}; give it once, with the sum of the weights")
    return out


def _weighted(text: str) -> WeightedShape:
    sizes, star, weight = text.partition("*")
    try:
        number = float(weight) if star else 1.0
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise UsageError(f"{weight.strip()!r} is no weight of a shape; write --shapes 'm=64; m=512 * 3'")
    return WeightedShape(parse_shape(sizes), number)


MOST_BYTES = 1 << 20
"""Of a file of shapes."""


def shapes_in(path: str) -> list[WeightedShape]:
    """The shapes of a file: one a line, such as `m=64,n=64 * 3`, the weight being 1 where none is given; `#` begins a comment. UsageError
    that names the line."""
    found: dict[tuple[tuple[str, int], ...], WeightedShape] = {}
    try:
        with open(path, encoding="utf-8-sig") as f:
            lines = f.read(MOST_BYTES + 1)
    except (OSError, UnicodeDecodeError) as e:
        raise UsageError(f"cannot read the shapes in {path}: {e.strerror if isinstance(e, OSError) else 'it is no UTF-8 text'}") from None
    if len(lines) > MOST_BYTES:
        raise UsageError(f"{path} is larger than a list of shapes may be ({MOST_BYTES} bytes)")
    for number, line in enumerate(lines.splitlines(), 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        try:
            one = _weighted(text)
            if set(one.shape) != set(next(iter(found.values()), one).shape):
                raise UsageError(f"gives other sizes than the lines before ({', '.join(next(iter(found.values())).shape)})")
            if (key := tuple(sorted(one.shape.items()))) in found:
                raise UsageError("this shape is given twice; give it once, with the sum of the weights")
        except (UsageError, KernelError) as e:
            raise UsageError(f"{path}, line {number}: {e}") from None
        found[key] = one
    if len(found) < 2:
        raise UsageError(f"{path} has {len(found)} shapes; write two or more, one a line, such as 'm=64,n=64 * 3'")
    return list(found.values())


def drawn(ranges: Sequence[SizeRange], count: int, rng: Random) -> list[dict[str, int]]:
    """Shapes: corners, then others whose sizes are uniform on a logarithmic scale (Latin hypercube: McKay, Beckman, Conover, 1979), half of
    them as they come and half multiples of 16, as many sizes of programs are."""
    corners = [{r.name: (r.lo, r.hi)[(c >> i) & 1] for i, r in enumerate(ranges)} for c in range(1 << len(ranges))]
    rng.shuffle(corners)
    out = corners[: max(2, count // 3)]
    strata = {r.name: rng.sample(range(count), count) for r in ranges}
    for k in range(count):
        at = {}
        for r in ranges:
            x = math.exp(math.log(r.lo) + (strata[r.name][k] + rng.random()) / count * math.log(r.hi / r.lo))
            n = round(x / 16) * 16 if k % 2 and x >= 24 else round(x)
            at[r.name] = min(r.hi, max(r.lo, n))
        out.append(at)
    return [dict(s) for s in dict.fromkeys(tuple(s.items()) for s in out)][:count]


@dataclass(frozen=True, slots=True)
class SizeLoss:
    """One shape: `ours`, median seconds of the schedule that is taken there, and `best`, of the best schedule that was timed there."""

    label: str
    ours: float
    best: float
    weight: float = 1.0

    @property
    def loss(self) -> float:
        """How much longer ours takes, as a share."""
        return self.ours / self.best - 1


@dataclass(frozen=True, slots=True)
class ShapesResult:
    """What `tune_sizes` returns. `tree`: which schedule is for which sizes; None where nothing was found. `losses`: what it costs at
    shapes that had no part in the choice (`listed`: at the listed ones); `loss`: their weighted geometric mean, `worst`: the largest. `shapes`: how many the
    choice was made on."""

    kernel: str
    shape: Mapping[str, int]
    dtype: str
    device: str
    threads: int
    ranges: Ranges
    tree: SizeTree | None
    listed: bool
    losses: tuple[SizeLoss, ...]
    loss: float | None
    worst: float | None
    shapes: int
    counts: Mapping[str, int]
    seconds: float
    message: str = ""
    exit_code: int = 0

    def to_json(self) -> dict[str, Any]:
        """Plain data; times in seconds."""
        return {
            "schema": 2,
            "kernel": self.kernel,
            "shape": dict(self.shape),
            "dtype": self.dtype,
            "device": self.device,
            "threads": self.threads,
            "ranges": {n: list(r) for n, r in self.ranges.items()},
            "tree": [] if self.tree is None else self.tree.lines(),
            "losses": [{"shape": x.label, "ours": x.ours, "best": x.best, "loss": x.loss, "weight": x.weight} for x in self.losses],
            "loss": self.loss,
            "worst": self.worst,
            "shapes": self.shapes,
            "counts": dict(self.counts),
            "seconds": self.seconds,
            "message": self.message,
            "exit_code": self.exit_code,
        }


# tuned ----------------------------------------------------------------------------------------------------------------

# what becomes of a tree of sizes: shapes are held against it, its schedules are checked, and rows keep it -------------

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
        for row in self.cache.with_trees(self.whole.key, self.loose(self.whole)):
            tree = tree_in(row, EXACT)
            if tree is not None and dict(tree.ranges) == self.ranges and row.key == self.whole.key:
                return self.result(tree, (), started, "found in the cache; --retune searches again", 0)
        return None

    @staticmethod
    def loose(task: KernelTask) -> str:
        """What kernels that differ in their sizes alone have in common."""
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
        said.append(self.cache.waiting.said())
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


# tuned ----------------------------------------------------------------------------------------------------------------

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
    UsageError, KernelError, DeviceError, CacheError, OutOfTimeError, and Interrupted as `tune` does; a tree of what was timed until then is kept."""
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
        store.begin_writing()
        kept = Keeper(search, ranges, bool(listed), store)
        if varying and not again and (answer := kept.known(started)) is not None:
            return answer
        store.ensure_writable()
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
            if not any(s.times for s in search.shapes):
                raise
            return kept.recorded(kept.tree or search.tree(most, ranges), kept.held, started, str(e))
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
