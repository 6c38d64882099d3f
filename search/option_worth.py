"""What each option of a schedule is worth, and how several schedules compare: all measured.

Taking one option away can make others illegal (a stage inside a block that is not cut any more). Those fall with it and are named: the
worth of an option is that of it together with what needs it.

Everything is measured once (in its first calls only, where those take many times as long), which tells what is many times slower. What
comes near the full schedule is then timed against it in paired rounds, because times of different moments are not comparable to a few
percent: a ratio that does not differ from 1 by more than the scatter of its rounds is no difference. `side_by_side` compares schedules that
are given, as the finals of a search do."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..ir.errors import MeasureError, OptError
from ..measure import Measurement
from ..measure.outcome import Duel
from .finals import CLEAR
from .space import places, variants

if TYPE_CHECKING:
    from ..devices import Device
    from ..ir.kernel import Kernel
    from ..measure import Built, Measurement, Measurer
    from ..opts.opt import Opt
    from .candidate_measurer import CandidateMeasurer

    Schedule = tuple[Opt, ...]


NEIGHBOURS = 4
"""Other amounts or fields tried for each option."""
ROUNDS = 7
"""Most paired rounds of a comparison; at least 3 are made."""
SURE = 1.1
"""How many times slower or faster a single measurement must be to count as a difference."""
_LENIENT = 4.0
"""Times the full schedule's time: the incumbent that single measurements are held against, so that 12 times slower is timed no further."""
_AGAIN = 3
"""Times that the schedule itself is measured first: all single measurements are compared with it, so one disturbed by
other work will not do."""
_SINGLES, _PAIRS = 0.5, 0.85
"""Shares of the budget after which no neighbour is measured, and no pair; the rest is for the kernel as it is written."""


@dataclass(frozen=True)
class Ratio:
    """Another schedule's time over the full one's, and its time in seconds a call. `noise`: half of the 95 %
    confidence interval, as a share of the ratio; None where each was measured once, not in pairs. `significant`: it
    differs from 1 by more than the noise."""

    factor: float
    seconds: float
    noise: float | None
    significant: bool


@dataclass(frozen=True)
class Worth:
    """One option: `without` compares the schedule without it, and without those of `falls` that then do not apply;
    `neighbour` and `beside` are the best other form of it and its comparison. None where nothing valid was measured:
    then `why` is how it ended, or "not measured"."""

    opt: Opt
    without: Ratio | None
    falls: tuple[Opt, ...]
    neighbour: Opt | None
    beside: Ratio | None
    why: str = ""

    @property
    def factor(self) -> float | None:
        """How many times slower it is without."""
        return self.without.factor if self.without else None


@dataclass(frozen=True)
class Explanation:
    """`seconds`: the schedule, measured now (the least of the medians of its measurements: other work only ever adds
    time); `plain`: the kernel as it is written, with no option at all. `complete`: nothing was left out for want of
    time."""

    opts: tuple[Opt, ...]
    seconds: float
    plain: float | None
    worths: tuple[Worth, ...]
    measured: int
    complete: bool
    interrupted: bool = False


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
    """Measure a schedule (of a kernel in normal form) with each option taken out, and each replaced. What does not
    fit into the budget is left out (`complete` says so), and so is the rest after Ctrl-C, once the schedule itself is
    measured. Raises MeasureError where the schedule itself fails."""
    from ..measure import Measurer
    from ..measure.checking.verify import reference_kernel
    from ..opts import apply

    opts = tuple(opts)
    lower = "DOWNCONVERT" in apply(kernel, opts, device.target).effects
    begin = time.monotonic()
    bare = [without(kernel, opts, i, device) for i in range(len(opts))]
    others = [_legal(kernel, opts, i, device) for i in range(len(opts))]
    with Measurer(kernel, device, threads, reference=reference_kernel(kernel, device.target, lower)) as m:
        trial = _Trial(m, opts, [(), *(left for left, _ in bare), *(o for more in others for o in more)], report)
        interrupted = False
        try:
            _measure_all(trial, bare, others, begin, budget_s)
        except KeyboardInterrupt:
            interrupted = True
        trial.built.close()
    return Explanation(
        opts, trial.quiet, trial.times.get(()), _worths(trial, bare, others), len(trial.ended), not interrupted and trial.complete, interrupted
    )  # fmt: skip


def _measure_all(
    trial: _Trial, bare: Sequence[tuple[Schedule, Schedule]], others: Sequence[Sequence[Schedule]], begin: float, budget_s: float
) -> None:
    """The options first, then their neighbours, then both in pairs, and the plain kernel, which can take long, last."""
    until = begin + budget_s
    for left, _ in bare:
        if left:
            trial.single(left, until)
    for more in zip(*(_padded(o) for o in others), strict=True):
        for o in more:
            if o is not None:
                trial.single(o, begin + _SINGLES * budget_s)
    # what is nearest to the full schedule needs the pairs most; the options come before their neighbours
    rivals: list[Schedule] = []
    for group in ([left for left, _ in bare], [b for b in (trial.best(more) for more in others) if b]):
        rivals += sorted(
            (r for r in group if trial.times.get(r, math.inf) < trial.base * CLEAR),
            key=lambda r: abs(math.log(trial.times[r] / trial.base)),
        )
    rivals = list(dict.fromkeys(rivals))
    for i, r in enumerate(rivals):
        trial.report(f"compared in pairs: {i} of {len(rivals)}")
        trial.pair(r, begin + _PAIRS * budget_s, len(rivals) - i)
    trial.report("as it is written, with no options")
    trial.single((), until)


def _padded(more: Sequence[Schedule]) -> list[Schedule | None]:
    return [*more, *[None] * (NEIGHBOURS - len(more))]


class _Trial:
    """What was measured of which schedule. `base`: seconds of the full one, beside the single measurements; `quiet`:
    the least of its medians."""

    def __init__(self, m: Measurer, opts: Schedule, wanted: Sequence[Schedule], report: Callable[[str], None]) -> None:
        self.m, self.opts, self.report = m, opts, report
        self.wanted = list(dict.fromkeys([opts, *wanted]))
        self.built = m.build(self.wanted)
        self.got: dict[Schedule, Built | Measurement] = {}
        self.times: dict[Schedule, float] = {}
        self.ended: dict[Schedule, str] = {}
        self.pairs: dict[Schedule, Ratio] = {}
        self.complete = True
        self.base = 0.0
        for _ in range(_AGAIN):
            first = self._measure(opts)
            if not first.ok or first.t_med is None:
                raise MeasureError(f"the schedule itself fails here: {first.outcome.value}, {first.detail}; tune the kernel again")
            self.base = self.quiet = min(self.base or first.t_med, first.t_med)

    def _code(self, opts: Schedule) -> Built | Measurement:
        """It as built, or how that failed; builds come in any order."""
        while opts not in self.got:
            i, got = next(self.built)
            self.got[self.wanted[i]] = got
        return self.got[opts]

    def _measure(self, opts: Schedule) -> Measurement:
        code = self._code(opts)
        # neither the plain kernel nor the schedule itself, whose first time may have been its luckiest, is too slow for this
        limit = None if opts in ((), self.opts) else self.base * _LENIENT
        result = code if isinstance(code, Measurement) else self.m.measure([code], limit)[0]
        self.ended[opts] = result.outcome.value
        if result.t_med is not None and result.outcome.value in ("ok", "slow"):
            self.times[opts] = result.t_med
        self.report(f"{len(self.ended)} of {len(self.wanted)} measured")
        return result

    def single(self, opts: Schedule, until: float) -> None:
        """Measure it once, unless it is known or the time is over."""
        if opts in self.ended:
            return
        if time.monotonic() > until:
            self.complete = False
            return
        self._measure(opts)

    def pair(self, opts: Schedule, until: float, left: int) -> None:
        """Compare with the full schedule in paired rounds that take a fair share of what is left; in none where three do not fit."""
        a, b = self._code(opts), self._code(self.opts)
        assert not isinstance(a, Measurement) and not isinstance(b, Measurement)
        if a.sha == b.sha:
            self.pairs[opts] = Ratio(1.0, self.base, 0.0, False)
            return
        spare = until - time.monotonic()
        each = burst(self.times[opts]) + burst(self.base)
        if spare < 3 * each:
            self.complete = False
            return
        try:
            duel = self.m.duel(a, b, rounds=max(3, min(ROUNDS, int(spare / left / each))))
        except MeasureError:
            # it was right when it was measured alone, and that stands; without a pair
            self.complete = False
            return
        self.quiet = min(self.quiet, duel.t_b)
        self.pairs[opts] = Ratio(duel.ratio, duel.t_a, duel.noise, duel.significant)

    def best(self, more: Sequence[Schedule]) -> Schedule | None:
        """The fastest of those that were measured."""
        known = [o for o in more if o in self.times]
        return min(known, key=lambda o: self.times[o]) if known else None

    def ratio(self, opts: Schedule) -> Ratio | None:
        """What is known of it, from pairs where there are some."""
        if opts in self.pairs or opts not in self.times:
            return self.pairs.get(opts)
        factor = self.times[opts] / self.quiet
        return Ratio(factor, self.times[opts], None, not 1 / SURE < factor < SURE)


def burst(seconds: float) -> float:
    """About how many seconds one schedule's part of a paired round takes (`measure.timing.common_rounds`)."""
    return seconds * (23 if seconds < 0.02 else 7 if seconds < 0.2 else 3) + 0.06


def _worths(trial: _Trial, bare: Sequence[tuple[Schedule, Schedule]], others: Sequence[Sequence[Schedule]]) -> tuple[Worth, ...]:
    """One for each option, the greatest loss first."""
    worths = []
    for at, (o, (left, fell), more) in enumerate(zip(trial.opts, bare, others, strict=True)):
        best, lost = trial.best(more), trial.ratio(left)
        why = "" if lost else trial.ended.get(left, "not measured")
        worths.append(Worth(o, lost, fell, best[at] if best else None, trial.ratio(best) if best else None, why))
    return tuple(sorted(worths, key=lambda w: -(w.factor or 0.0)))


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


PAIRED_ROUNDS = 9
"""Paired rounds of a comparison, as many as in the finals of a search."""
LEAST_ROUNDS = 3
"""Fewer say nothing of their scatter."""


@dataclass(frozen=True)
class Contestant:
    """One schedule: its own measurement, and how its time compares with that of the first schedule (None for the
    first, and where there was no comparison: then `why` says why). `rounds`: paired rounds behind the ratio."""

    opts: tuple[Opt, ...]
    measured: Measurement
    ratio: Ratio | None = None
    rounds: int = 0
    why: str = ""

    @property
    def seconds(self) -> float | None:
        """Seconds of its fastest call, when it was measured alone; None where it was not right."""
        return self.measured.t_min if self.measured.ok else None


def side_by_side(
    kernel: Kernel,
    schedules: Sequence[Sequence[Opt]],
    device: Device,
    threads: int,
    rounds: int = PAIRED_ROUNDS,
    budget_s: float = 60.0,
    report: Callable[[str], None] = lambda text: None,
) -> list[Contestant]:
    """Verify and time `schedules` of a kernel in normal form, and compare each with the first. The budget (seconds) is
    for the comparisons; three rounds of each are made in any case. What fails is told by its measurement. Raises
    MeasureError, DeviceError where nothing can be measured at all."""
    from ..measure import Measurer
    from ..measure.checking.verify import reference_kernel

    lists = [tuple(s) for s in schedules]
    vars = {s.arg.name: s.arg.lo for s in kernel.symbols}
    reference = reference_kernel(kernel, device.target, _lowers(kernel, lists, device))
    with Measurer(kernel, device, threads, vars=vars, reference=reference) as m:
        return contest(m, lists, rounds, budget_s, report)


def contest(
    m: CandidateMeasurer, lists: Sequence[Schedule], rounds: int, budget_s: float, report: Callable[[str], None]
) -> list[Contestant]:
    """What `side_by_side` does, of whatever a measurer builds."""
    report(f"building {len(lists)} schedules")
    code: dict[int, Built | Measurement] = dict(m.build(lists))
    alone: list[Measurement] = []
    for i in range(len(lists)):
        got = code[i]
        alone.append(got if isinstance(got, Measurement) else m.measure([got])[0])
        report(f"{i + 1} of {len(lists)} measured")
    out = [Contestant(lists[0], alone[0])]
    begin = time.monotonic()
    for i in range(1, len(lists)):
        left = (begin + budget_s - time.monotonic()) / (len(lists) - i)
        out.append(_compared(m.duel, code[0], code[i], (alone[0], alone[i]), _rounds(alone[0], alone[i], rounds, left)))
        report(f"compared in pairs: {i} of {len(lists) - 1}")
    return out


def _lowers(kernel: Kernel, lists: Sequence[tuple[Opt, ...]], device: Device) -> bool:
    """Whether one of them computes in lower precision: then all are held to that error bound."""
    from ..opts import apply

    for opts in lists:
        try:
            if "DOWNCONVERT" in apply(kernel, opts, device.target).effects:
                return True
        except OptError:
            continue  # it is told as an outcome
    return False


def _rounds(a: Measurement, b: Measurement, most: int, seconds: float) -> int:
    """How many rounds fit."""
    each = burst(a.t_min or 0.0) + burst(b.t_min or 0.0)
    return max(LEAST_ROUNDS, min(most, int(seconds / each)))


def _compared(
    duel: Callable[..., object], first: Built | Measurement, other: Built | Measurement, alone: tuple[Measurement, Measurement], rounds: int
) -> Contestant:
    a, b = alone
    if not a.ok or not b.ok or isinstance(first, Measurement) or isinstance(other, Measurement):
        return Contestant(b.opts, b, why="" if not b.ok else "the first schedule is not right")
    if first.sha == other.sha:
        return Contestant(b.opts, b, Ratio(1.0, b.t_min or 0.0, 0.0, False), 0, "both render to the same source")
    try:
        got = duel(other, first, rounds=rounds)
    except MeasureError as e:
        return Contestant(b.opts, b, why=str(e))
    assert isinstance(got, Duel)
    return Contestant(b.opts, b, Ratio(got.ratio, got.t_a, got.noise, got.significant), got.rounds)
