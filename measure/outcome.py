"""What came of a candidate: every failure has a name, and a failing candidate is data, not an exception."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ..ir.errors import MeasureError
from .timing import by_place, column_pairs, compare, median, noise, torn

if TYPE_CHECKING:
    from ..opts.opt import Opt


class Outcome(StrEnum):
    """How a candidate ended. A string enum: rows and JSON hold the plain name."""

    ok = "ok"
    """Built, right, timed."""
    wrong = "wrong"
    """Ran, and its result disagrees with the reference, or with its own result of another run, if only once: in a
    process where no other candidate ran."""
    build = "build"
    """Its source did not become loadable code, or its builder hung or died."""
    timeout = "timeout"
    """Did not return before the deadline."""
    crash = "crash"
    """Ended its process: a signal, an exit, a refused allocation."""
    illegal = "illegal"
    """The options do not apply to this kernel on this target."""
    slow = "slow"
    """Right, but its first calls took over three times the incumbent: timed no further."""


@dataclass(frozen=True, slots=True)
class EnergyUse:
    """Energy of a call, from windows of many calls (`measure.energy`). `joules`: the median of the windows; `spread`: half the
    distance between the largest and the smallest, as a share of it; `calls`: in all windows together. `resolution`: by which share
    the counter's steps can make a window wrong. `watts`: mean power meanwhile. `idle_w`: what was taken off, watts, None where
    nothing was. `source`: the counter, and what it covers."""

    joules: float
    spread: float
    windows: int
    calls: int
    resolution: float
    watts: float
    idle_w: float | None
    source: str

    @property
    def json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> EnergyUse | None:
        """From plain data; None where that is not all there."""
        return cls(**{f.name: data[f.name] for f in fields(cls)}) if all(f.name in data for f in fields(cls)) else None


@dataclass(frozen=True, slots=True)
class Measurement:
    """One candidate's result. Times are seconds per call: `t_min` and `t_med` over `n` calls, None unless the outcome
    is ok or slow. `error` is the largest |result − reference| over its bound (ok means ≤ 1; None where nothing was
    compared). `sha` is the rendered source's. `lower_s` covers lowering and rendering, `build_s` the compiler.
    `outputs` is a digest of the results' bits, where one was asked for.

    `cleared`: it failed beside other candidates and was right alone, so its time is known, but it must not win.
    `clocks`: what the device was like while it was timed (`Executable.clocks`): MHz, degrees, watts; {} where nobody
    can say. `checks`: what it passed, in order: 'random', 'whole' (numbers), 'fresh' (other random inputs), 'special' and
    'edges' (see `measure.inputs`; of heavy kernels a part of the outer axis): inputs on which all outputs were
    compared with the reference; 'repeat16' (or another number): so many runs gave the same bits, within the bound where the
    schedule is NONDET; 'aligned': operands at other addresses; 'oclgrind': no race, nor access out of bounds, in the first groups. `compared`: runs whose outputs were compared. `note`: what to
    tell of the reference, such as that much of it is NaN.

    `energy`: where it was asked for and could be read. `scratch`: bytes of memory beside the arguments that a call takes
    (`Signature.working_memory`). `score`: what a search reads in the place of the time, where it makes something else small."""

    opts: tuple[Opt, ...]
    outcome: Outcome
    t_min: float | None = None
    t_med: float | None = None
    n: int = 0
    error: float | None = None
    detail: str = ""
    sha: str | None = None
    build_s: float = 0.0
    lower_s: float = 0.0
    outputs: str | None = None
    cleared: bool = False
    checks: tuple[str, ...] = ()
    compared: int = 0
    clocks: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    energy: EnergyUse | None = None
    scratch: int | None = None
    score: float | None = None

    @property
    def ok(self) -> bool:
        """Right, and timed in full."""
        return self.outcome is Outcome.ok


class DuelError(MeasureError):
    """Two candidates could not be compared. `culprit` (0 or 1): the one that was not right; None: not known."""

    def __init__(self, message: str, culprit: int | None = None) -> None:
        super().__init__(message)
        self.culprit = culprit


@dataclass(frozen=True, slots=True)
class Duel:
    """Two candidates timed in pairs. `ratio` is the median over the rounds of (time of a) / (time of b): below 1, a
    is faster. `significant`: the rounds agree on a difference larger than their own scatter. `t_a`, `t_b`: median
    seconds per call; of a duel about energy all of these are about joules. `noise`: half of the ratio's 95 % confidence interval, as a share of it (0.02: give or take 2
    %). `compared`: runs of either whose outputs were compared. `torn`: who is ahead with operands from memory is behind with operands
    in the caches, or the other way round; such a duel has no winner. `places`: the ratios of the rounds of either kind, where there were both."""

    ratio: float
    significant: bool
    t_a: float
    t_b: float
    rounds: int = 0
    noise: float = 0.0
    compared: int = 0
    torn: bool = False
    places: tuple[float, float] | None = None

    @property
    def interval(self) -> tuple[float, float]:
        """The ends of the ratio's 95 % confidence interval."""
        return self.ratio / (1 + self.noise), self.ratio * (1 + self.noise)

    @classmethod
    def of(cls, pairs: Sequence[tuple[float, float]], compared: int, two_places: bool) -> Duel:
        """From (seconds of a, seconds of b), or joules, of each round. `two_places`: every second round had its operands in the caches."""
        kinds = 2 if two_places else 1
        lost = two_places and torn(pairs)
        each = by_place(pairs) if two_places and len(pairs) > 1 else None
        ratio, significant = compare(pairs, kinds)
        t_a, t_b = median([x for x, _ in pairs]), median([y for _, y in pairs])
        return cls(ratio, significant and not lost, t_a, t_b, len(pairs), noise(pairs, kinds), compared, lost, each)


@dataclass(frozen=True, slots=True)
class Race:
    """Several candidates timed in common rounds: `rows` has the seconds (or joules) per call of each in each round, NaN from where it was plainly behind.
    `compared`, `two_places`: as of a Duel."""

    rows: tuple[tuple[float, ...], ...]
    compared: int
    two_places: bool

    def duel(self, a: int, b: int) -> Duel:
        """Two of them, by their places in the race."""
        return Duel.of(column_pairs(self.rows, a, b), self.compared, self.two_places)
