"""What each option of a schedule is worth: the time without it, and the best with a neighbour in its place, all measured.

Taking one option away can make others illegal (a stage inside a block that is not cut any more). Those fall with it and are named:
the worth of an option is that of it together with what needs it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..ir.errors import MeasureError, OptError
from .moves import places, variants

if TYPE_CHECKING:
    from ..devices import Device
    from ..ir.kernel import Kernel
    from ..measure import Built, Measurement
    from ..opts.opt import Opt

NEIGHBOURS = 4
"""Other amounts or fields tried for each option."""
_PATIENCE = 50.0
"""A schedule this many times slower than the best is timed no further than its first calls."""


@dataclass(frozen=True)
class Worth:
    """One option: `with_it` is the best schedule's time; `without` the time when it is left out, with those of `falls` that then do not
    apply; `neighbour` and `beside` the best other form of it and its time. None where nothing valid was measured; seconds a call."""

    opt: Opt
    with_it: float
    without: float | None
    falls: tuple[Opt, ...]
    neighbour: Opt | None
    beside: float | None

    @property
    def factor(self) -> float | None:
        """How many times slower it is without."""
        return self.without / self.with_it if self.without else None


@dataclass(frozen=True)
class Explanation:
    """`seconds`: the schedule, measured now; `plain`: the kernel as it is written, with no option at all."""

    opts: tuple[Opt, ...]
    seconds: float
    plain: float | None
    worths: tuple[Worth, ...]
    measured: int
    complete: bool


def without(kernel: Kernel, opts: Sequence[Opt], drop: int, device: Device) -> tuple[tuple[Opt, ...], tuple[Opt, ...]]:
    """(the options that are left, those that fell) when option `drop` is taken out of a legal list."""
    from ..opts import apply

    left = [o for i, o in enumerate(opts) if i != drop]
    fell: list[Opt] = []
    while True:
        try:
            apply(kernel, left, device.target)
            return tuple(left), tuple(fell)
        except OptError:
            fell.append(left.pop(_culprit(kernel, left, device)))


def _culprit(kernel: Kernel, opts: Sequence[Opt], device: Device) -> int:
    """The first option whose prefix is refused; the last where only the whole is."""
    from ..opts import apply

    for i in range(len(opts)):
        try:
            apply(kernel, opts[: i + 1], device.target)
        except OptError:
            return i
    return len(opts) - 1


def explain(
    kernel: Kernel, opts: Sequence[Opt], device: Device, threads: int, budget_s: float, report: Callable[[str], None] = lambda text: None
) -> Explanation:
    """Measure a schedule (of a kernel in normal form) with each option taken out, and each replaced. What does not fit into the
    budget is left out (`complete` says so); the options come first, their neighbours after. Raises MeasureError where the
    schedule itself fails."""
    from ..measure import Measurer

    opts = tuple(opts)
    until = time.monotonic() + budget_s
    bare = [without(kernel, opts, i, device) for i in range(len(opts))]
    others = [_legal(kernel, opts, i, device) for i in range(len(opts))]
    wanted = list(dict.fromkeys([opts, (), *(left for left, _ in bare), *(o for more in others for o in more)]))
    times: dict[tuple[Opt, ...], float] = {}
    done = 0
    with Measurer(kernel, device, threads) as m:
        built = m.build(wanted)
        best = None
        for i, got in built:
            if time.monotonic() > until and i != 0 and best is not None:
                break
            done += 1
            result = _measured(m, got, best)
            if i == 0:
                if not result.ok or result.t_med is None:
                    raise MeasureError(f"the schedule itself is {result.outcome.value} here ({result.detail}); tune the kernel again")
                best = result.t_med
            if result.t_med is not None and result.outcome.value in ("ok", "slow"):
                times[wanted[i]] = result.t_med
                report(f"{done} of {len(wanted)} measured")
        built.close()
    worths = []
    for o, (left, fell), more in zip(opts, bare, others, strict=True):
        known = [(times[v], v) for v in more if v in times]
        beside = min(known, key=lambda k: k[0]) if known else None
        at = opts.index(o)
        worths.append(Worth(o, times[opts], times.get(left), fell, beside[1][at] if beside else None, beside[0] if beside else None))
    worths.sort(key=lambda w: -(w.factor or 0.0))
    return Explanation(opts, times[opts], times.get(()), tuple(worths), done, done == len(wanted))


def _measured(m: object, got: Built | Measurement, best: float | None) -> Measurement:
    from ..measure import Measurement, Measurer

    assert isinstance(m, Measurer)
    return got if isinstance(got, Measurement) else m.measure([got], best * _PATIENCE / 3.0 if best else None)[0]


def _legal(kernel: Kernel, opts: tuple[Opt, ...], at: int, device: Device) -> list[tuple[Opt, ...]]:
    """The list with option `at` replaced by each of its nearest neighbours that is legal and means something else."""
    from ..opts import apply

    here = apply(kernel, opts, device.target).hash
    seen, out = {here}, []
    for v in variants(opts[at], places(opts)):
        changed = (*opts[:at], v, *opts[at + 1 :])
        try:
            s = apply(kernel, changed, device.target)
        except OptError:
            continue
        if s.hash not in seen:
            seen.add(s.hash)
            out.append(changed)
        if len(out) == NEIGHBOURS:
            break
    return out
