"""A made-up kernel to search: legality, costs with plateaus and traps, a model that is blind to some of it, and a
measurer with scripted failures."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.ir.errors import OptError
from tilewright.measure.outcome import Duel, Measurement, Outcome
from tilewright.opts.opt import Opt, opt
from tilewright.search import Space
from tilewright.search.candidate_measurer import CandidateBuilds, CandidateMeasurer

AMOUNTS = (2, 3, 4, 6, 8, 12, 16, 32)
BLOCKS = (64, 128, 256, 512)
Schedule = tuple[Opt, ...]


@dataclass(frozen=True)
class Done:
    """A legal synthetic schedule."""

    opts: Schedule

    @property
    def hash(self) -> str:
        return " ".join(sorted(map(str, self.opts)))

    @property
    def effects(self) -> frozenset[str]:
        return frozenset({"NONDET"}) if any(o.op == "SPLIT" for o in self.opts) else frozenset()


@dataclass(frozen=True)
class Template:
    """What heuristics.templates gives."""

    name: str
    params: dict[str, tuple[Any, ...]]
    make: Callable[[dict[str, Any]], Schedule]


class Matmulish:
    """Best: UPCAST m and n to 32 or more together (128 at most, beyond that registers spill), B staged, k tiled, parallel.

    A plateau: TILE(k) does nothing before B is staged. A trap: staging B makes it slower until n is upcast by 4 or
    more. `started`: the start schedule."""

    def __init__(self, with_starts: bool = True, with_templates: bool = True) -> None:
        self.with_starts, self.with_templates = with_starts, with_templates
        self.applied = 0

    def starts(self) -> list[Schedule]:
        return [(opt("PARALLEL", "m"), opt("UPCAST", "n", 8))] if self.with_starts else []

    def apply(self, opts: Schedule) -> Done:
        self.applied += 1
        used: dict[tuple[str, str], Opt] = {}
        for o in opts:
            if (o.op, o.on) in used:
                raise OptError(f"{o.op}({o.on}) is given twice")
            used[o.op, o.on] = o
            if o.op == "UPCAST" and (o.on not in "mn" or o.amount not in AMOUNTS):
                raise OptError(f"{o}: not a divisor")
            if o.op == "TILE" and (o.on != "k" or o.amount not in BLOCKS):
                raise OptError(f"{o}: not a divisor")
            if o.op == "STAGE" and (o.on not in "ab" or o.fields["at"] not in ("m", "n")):
                raise OptError(f"{o}: no such loop")
            if o.op in ("MOVE", "UNROLL", "CACHE") or (o.op == "PARALLEL" and o.on != "m"):
                raise OptError(f"{o}: not here")
        if self._amount(opts, "m") * self._amount(opts, "n") > 512:
            raise OptError("more than 512 statements")
        return Done(tuple(opts))

    def actions(self, done: Done) -> list[Schedule]:
        every: list[Opt] = [opt("PARALLEL", "m"), opt("SPLIT", "k", 4), *(opt("STAGE", t, at=at) for t in "ab" for at in "mn")]
        every += [opt("UPCAST", ax, a) for ax in "mn" for a in AMOUNTS] + [opt("TILE", "k", b) for b in BLOCKS]
        out = []
        for o in every:
            try:
                self.apply((*done.opts, o))
            except OptError:
                continue
            out.append((o,))
        return out

    def estimate(self, done: Done) -> float:
        """Knows about registers and cores, nothing of staging or cache blocks."""
        return 0.7 * self._compute(done.opts)

    def code_size(self, applied: Done) -> float:
        return 0.0

    def templates(self) -> list[Template]:
        if not self.with_templates:
            return []

        def make(p: dict[str, Any]) -> Schedule:
            stage = (opt("STAGE", "b", at=p["at"]),) if p["at"] != "-" else ()
            return (opt("PARALLEL", "m"), opt("UPCAST", "m", p["m"]), opt("UPCAST", "n", p["n"]), *stage)

        return [Template("gemm", {"m": AMOUNTS, "n": AMOUNTS, "at": ("-", "m", "n")}, make)]

    def seconds(self, opts: Schedule) -> float:
        """The truth."""
        t = self._compute(opts)
        staged = next((o for o in opts if o.op == "STAGE" and o.on == "b"), None)
        if staged is not None:
            t *= (0.6 if staged.fields["at"] == "n" else 0.8) if self._amount(opts, "n") >= 4 else 1.3
            k = next((o.amount for o in opts if o.op == "TILE"), 1024)
            t *= {64: 0.95, 128: 0.85, 256: 0.75, 512: 0.8}.get(k, 1.0)
        if any(o.op == "STAGE" and o.on == "a" for o in opts):
            t *= 1.05
        return t

    @staticmethod
    def _amount(opts: Schedule, ax: str) -> int:
        return next((o.amount for o in opts if o.op == "UPCAST" and o.on == ax), 1)

    def _compute(self, opts: Schedule) -> float:
        m, n = self._amount(opts, "m"), self._amount(opts, "n")
        t = 1.0 / min(n, 16) * (1 + 8 / (m * n))
        t *= max(1.0, m * n / 128) ** 2
        t *= 0.75 if m in (6, 8) else 1.0
        return t * (0.52 if any(o.op == "PARALLEL" for o in opts) else 1.0)

    def optimum(self) -> float:
        """The best time there is."""
        found = math.inf
        for m in (1, *AMOUNTS):
            for n in (1, *AMOUNTS):
                ups = tuple(opt("UPCAST", ax, a) for ax, a in (("m", m), ("n", n)) if a > 1)
                found = min(found, self.seconds((opt("PARALLEL", "m"), *ups, opt("STAGE", "b", at="n"), opt("TILE", "k", 256))))
        return found


@dataclass(frozen=True)
class FakeBuilt:
    """What a build gives."""

    opts: Schedule
    sha: str


READY_S = 0.004
"""Seconds for which a serial builder goes on before it hands over what it has made."""


class SerialBuilds(CandidateBuilds):
    """The `count` builds of a measurer that makes one after the other, when it is asked for it."""

    def __init__(self, made: Iterable[tuple[int, Any]], count: int) -> None:
        self._made, self._left = iter(made), count

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        return self

    def __next__(self) -> tuple[int, Any]:
        found = next(self._made)
        self._left -= 1
        return found

    def __len__(self) -> int:
        return self._left

    def finished(self, wait_s: float) -> list[tuple[int, Any]]:
        out: list[tuple[int, Any]] = []
        began = time.monotonic()
        while self._left and time.monotonic() - began < READY_S:
            out.append(next(self))
        return out

    def wait(self, wait_s: float) -> None:
        """Nothing is under way."""

    def close(self) -> None:
        self._left = 0


@dataclass
class FakeMeasurer(CandidateMeasurer):
    """Measures by formula. `outcomes(opts)` scripts failures, `same_source(opts)` says which schedules render alike;
    `calls` lists what was done."""

    seconds: Callable[[Schedule], float]
    outcomes: Callable[[Schedule], Outcome] = lambda opts: Outcome.ok
    second_check: Callable[[Schedule], Outcome] = lambda opts: Outcome.ok
    same_source: Callable[[Schedule], str] = lambda opts: " ".join(sorted(map(str, opts)))
    noise: Callable[[int], float] = lambda n: 1.0
    on_measure: Callable[[int], None] = lambda n: None
    significance: float = 0.01
    calls: list[tuple[str, Any]] = field(default_factory=list)
    measured: int = 0
    prepared_s: tuple[float, float] | None = None  # type: ignore[misc]

    def build(self, schedules: Sequence[Schedule]) -> SerialBuilds:
        self.calls.append(("build", len(schedules)))
        return SerialBuilds(self._builds(schedules), len(schedules))

    def _builds(self, schedules: Sequence[Schedule]) -> Iterator[tuple[int, Any]]:
        for i, opts in reversed(list(enumerate(schedules))):  # in another order than asked, as real ones
            if self.outcomes(opts) is Outcome.build:
                yield i, Measurement(opts, Outcome.build, detail="does not compile")
            else:
                yield i, FakeBuilt(opts, self.same_source(opts))

    def measure(self, built: Sequence[FakeBuilt], incumbent_s: float | None = None) -> list[Measurement]:
        self.calls.append(("measure", [b.opts for b in built]))
        return [self._one(b) for b in built]

    def _one(self, b: FakeBuilt) -> Measurement:
        self.measured += 1
        self.on_measure(self.measured)
        outcome = self.outcomes(b.opts)
        t = self.seconds(b.opts) * self.noise(self.measured) if outcome in (Outcome.ok, Outcome.slow) else None
        return Measurement(b.opts, outcome, t, None if t is None else 1.02 * t, 5, sha=b.sha, build_s=0.01, lower_s=0.005)

    def confirm(self, built: FakeBuilt) -> Measurement:
        self.calls.append(("confirm", built.opts))
        outcome = self.second_check(built.opts)
        t = self.seconds(built.opts) if outcome is Outcome.ok else None
        return Measurement(built.opts, outcome, t, t, 5, sha=built.sha)

    def duel(self, a: FakeBuilt, b: FakeBuilt, rounds: int = 8, energy: bool = False) -> Duel:
        self.calls.append(("duel", (a.opts, b.opts)))
        ratio = self.seconds(a.opts) / self.seconds(b.opts)
        return Duel(ratio, abs(ratio - 1) > self.significance, self.seconds(a.opts), self.seconds(b.opts), rounds)


def space(with_starts: bool = True, with_templates: bool = True) -> tuple[Space, Matmulish]:
    """A fresh space and the engine behind it."""
    engine = Matmulish(with_starts, with_templates)
    return Space(engine), engine


def measured(opts: Schedule, t: float) -> Measurement:
    """An ok measurement."""
    return Measurement(opts, Outcome.ok, t, t, 5)
