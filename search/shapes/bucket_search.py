"""What `tune_buckets` does at single sizes of a range: search, compare, find the edges, check and record."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..api import tune
from ..task import TuningTask
from .divide import Division
from .matrix import times_of
from .ranges import SizeRange
from .recorded import record_given, remembered, space_of
from .results import Bucket

if TYPE_CHECKING:
    from ...cache import Cache
    from ...devices import Device
    from ...ir.buffer import Extent
    from ...ir.dtypes import DTypeLike
    from ...plan import Built
    from ..progress import Progress
    from ..space import Schedule
    from .allowance import Allowance


class BucketSearch:
    """One call of `tune_buckets`."""

    def __init__(
        self,
        kernel: str,
        shape: Mapping[str, int],
        varying: SizeRange,
        dtype: DTypeLike | None,
        device: str | Device,
        threads: int | None,
        seed: int,
        allow: Iterable[str],
        show: Progress,
        allowance: Allowance,
    ) -> None:
        self.kernel, self.shape, self.range = kernel, dict(shape), varying
        self.dtype, self.device, self.threads = dtype, device, threads
        self.seed, self.allow, self.show, self.allowance = seed, tuple(allow), show, allowance
        self.counts: Counter[str] = Counter()
        self.times: dict[tuple[Schedule, int], float] = {}
        self.built: dict[Schedule, Built | None] = {}
        """Code of schedules of the whole range; None for those that do not build."""

    def task(self, varying: SizeRange | None, at: int) -> TuningTask:
        """The kernel with the size as a symbol of that range, to be timed at `at`; with None, of the one size `at`."""
        size: Extent = at if varying is None else varying.symbol
        sizes = {**self.shape, self.range.name: size}
        vars = {} if varying is None else {varying.name: at}
        return TuningTask(self.kernel, sizes, self.dtype, self.device, self.threads, vars, self.allow)

    def searched(self, at: int, seconds: float, folder: Path) -> list[Schedule]:
        """The best schedules of a search with the symbol, timed at one size. In a cache of its own: times at different
        sizes of one key cannot be compared."""
        from ... import cache as caches

        self.show.phase(f"{self.range.name}={at} as a symbol")
        sizes: dict[str, Extent] = {**self.shape, self.range.name: self.range.symbol}
        with caches.open(folder / f"{at}.db") as kept:
            result = tune(
                self.kernel,
                sizes,
                self.dtype,
                self.device,
                seconds,
                threads=self.threads,
                seed=self.seed,
                cache=kept,
                progress=self.show,
                vars={self.range.name: at},
                allow=self.allow,
            )
            self.counts.update(result.counts)
            return [*([result.opts] if result.found else []), *remembered(self.task(self.range, at), kept, 3)]

    def alone(self, at: int, seconds: float, cache: Cache) -> tuple[Schedule, float] | None:
        """The schedule and median seconds of a search for just this size; it is recorded as any search's."""
        self.show.phase(f"{self.range.name}={at} alone")
        result = tune(
            self.kernel,
            {**self.shape, self.range.name: at},
            self.dtype,
            self.device,
            seconds,
            threads=self.threads,
            seed=self.seed,
            cache=cache,
            progress=self.show,
            allow=self.allow,
        )
        self.counts.update(result.counts)
        return (result.opts, result.t_med or result.t_min or math.inf) if result.found else None

    def timed(self, at: int, schedules: Sequence[Schedule]) -> None:
        """Time schedules of the whole range at one size. All sizes run the same code, which is built once."""
        self.show.phase(f"comparing at {self.range.name}={at}")
        wanted = [s for s in schedules if (s, at) not in self.times]
        began = self.allowance.spent
        taken, measured = times_of(self.task(self.range, at), wanted, self.seed, self.show, self.built)
        self.allowance.took(at, self.allowance.spent - began, len(wanted))
        self.counts.update(m.outcome.value for m in measured)
        self.times.update({(s, at): t for s, t in taken.items()})

    def likely(self, at: int, schedules: Sequence[Schedule]) -> list[Schedule]:
        """Those of the schedules that are worth timing at one more size: the best of the nearest size that was timed, and as many as there
        is time for."""
        known = {v for _, v in self.times}
        if not known:
            return list(schedules)
        near = min(known, key=lambda v: abs(math.log(v / at)))
        ranked = sorted(schedules, key=lambda s: self.times.get((s, near), math.inf))
        call = self.times.get((ranked[0], near), 0.0) * max(1.0, at / near)
        return ranked[: self.allowance.timed(len(ranked), call)]

    def edge(self, left: tuple[int, Schedule], right: tuple[int, Schedule]) -> int:
        """The last size of the left bucket: between two timed sizes, by bisection with at most three more while there is time, and
        halfway where there is none."""
        (lo, a), (hi, b) = left, right
        for _ in range(3):
            middle = math.isqrt(lo * hi)
            if not lo < middle < hi or hi < 1.1 * lo:
                break
            if self.allowance.spare < self.allowance.check(hi):
                return middle
            self.timed(middle, [a, b])
            if self.times.get((a, middle), math.inf) <= self.times.get((b, middle), math.inf):
                lo = middle
            else:
                hi = middle
        return lo

    def bucketed(self, division: Division) -> list[tuple[int, int, Schedule]]:
        """The parts of a division, with the sizes between them dealt out."""
        out: list[tuple[int, int, Schedule]] = []
        lo = self.range.lo
        for (_, last, opts), (first, _, following) in zip(division.parts, division.parts[1:], strict=False):
            edge = self.edge((last, opts), (first, following))
            out.append((lo, edge, opts))
            lo = edge + 1
        return [*out, (lo, self.range.hi, division.parts[-1][2])]

    def checked(self, lo: int, hi: int, opts: Schedule, cache: Cache, facts: Mapping[str, Any] | None = None) -> Bucket:
        """Verify a bucket's schedule on its own kernel, at both ends and between, and record it, with more `facts`. A bucket of one size
        takes what is known of just this size, where that is faster."""
        part = self.range.between(lo, hi)
        self.show.phase(f"checking {self.range.name}={lo}..{hi}")
        middle = math.isqrt(lo * hi)
        task = self.task(part, middle)
        state = space_of(task).legalise(opts)
        given = [state.opts] if state is not None else []
        times = {v: t for (s, v), t in self.times.items() if s == opts and lo <= v <= hi}
        if part is None:
            given += remembered(task, cache, 1)
        result = record_given(task, cache, given, self.seed, self.show, facts)
        self.counts.update(result.counts)
        if not (result.found and result.confirmed):
            return Bucket(lo, hi, opts, times, False)
        if part is None:
            return Bucket(lo, hi, result.opts, {lo: result.t_med or math.inf}, True)
        # of the whole range both ends were verified when they were timed: the code is the same
        for end in sorted({lo, hi} - {middle} - ({v for s, v in self.times if s == result.opts} if part == self.range else set())):
            taken, measured = times_of(self.task(part, end), [result.opts], self.seed + 1, self.show)
            self.counts.update(m.outcome.value for m in measured)
            if result.opts not in taken:
                return Bucket(lo, hi, opts, times, False)
        return Bucket(lo, hi, result.opts, times, True)
