"""A loaded candidate whose every run is checked: what it wrote must be right, and the same bits each time.

A schedule that is wrong now and then (a race, code that remembers something between calls) is right in most runs. So
its first outputs are compared with the reference, and those of every later run, and of the sets that a burst of timed
calls wrote, with the first ones, bit for bit; where the schedule may give other bits each time (`NONDET`), with the
reference again. Outputs are poisoned before every run, so that a call that writes nothing is seen."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .first_outputs import FirstOutputs

if TYPE_CHECKING:
    from ...devices import Executable
    from ..bench import Bench
    from ..on_device.compare import DeviceFirstOutputs
    from .shifted_addresses import Shifted

_MOST_BYTES = 16 << 20
"""Outputs compared after a burst or a turn of a duel (10 ms), unless a single set has more: some 3 ms."""


class WrongResultError(Exception):
    """What a candidate wrote is not right. `error`: the largest |result − reference| over its bound; `slot`: whose it
    was, where two are watched."""

    def __init__(self, detail: str, error: float | None, slot: int) -> None:
        super().__init__(detail)
        self.detail, self.error, self.slot = detail, error, slot


class Watch:
    """Runs and times one candidate on the operands of a bench; raises WrongResultError. It has the `time` of an
    Executable, so that timing it is checking it."""

    def __init__(self, bench: Bench, exe: Executable, deterministic: bool, slot: int = 0) -> None:
        """Two that are watched at a time have each their own `slot`, 0 and 1."""
        self.bench, self.exe, self.deterministic, self.slot = bench, exe, deterministic, slot
        bench.forget(slot)
        self.error = 0.0
        """The largest error over its bound so far."""
        self.compared = 0
        """Runs whose outputs were compared."""
        self.ran_s = 0.0
        """Seconds that the last run took, beside whatever else was going on."""
        self._bursts = 0

    # one run --------------------------------------------------------------------------------------------------------
    def run(self, addresses: Sequence[int]) -> None:
        """Run once, on poisoned outputs, scratch and workspace."""
        self.bench.leave(addresses)
        self.bench.operands.poison(addresses, self.bench.checker.stale)
        self.exe.poison()
        began = time.perf_counter()
        self.exe.run(addresses, self.bench.vars)
        self.ran_s = time.perf_counter() - began

    def compare(self, addresses: Sequence[int], full: bool = False) -> None:
        """The outputs against the reference, and the canaries."""
        bench = self.bench
        verdict = bench.check(addresses, full)
        self.compared += 1
        if not verdict.ok:
            raise WrongResultError(verdict.detail, verdict.error, self.slot)
        self.error = max(self.error, verdict.error)
        self._canaries()

    def _canaries(self) -> None:
        operands = self.bench.operands
        if broken := operands.broken():
            operands.set_canaries()
            raise WrongResultError(broken, self.error, self.slot)

    # more runs ------------------------------------------------------------------------------------------------------
    def keep(self, addresses: Sequence[int]) -> None:
        """What these outputs hold is right: later runs must give the same."""
        if self.deterministic:
            self._kept.keep(self._place(addresses))

    def again(self, addresses: Sequence[int]) -> None:
        """Compare the outputs of another run on the same inputs with what was kept."""
        if not self.deterministic:
            return self.compare(addresses)
        self.compared += 1
        changed = self._kept.difference(self._place(addresses))
        if changed:
            raise WrongResultError(f"two runs on the same inputs gave different bits: {changed}", self.error, self.slot)
        return None

    def moved(self, addresses: Sequence[int], shifted: Shifted, how: str) -> None:
        """Run on operands that lie elsewhere. Other bits than before are allowed there, if they are right."""
        self.run(addresses)
        if not self.deterministic or self._kept.difference(addresses):
            verdict = self.bench.checker.check(self.bench.host, addresses)
            if not verdict.ok:
                raise WrongResultError(f"with operands {how}: {verdict.detail}", verdict.error, self.slot)
        self.compared += 1
        if broken := shifted.broken():
            raise WrongResultError(f"with operands {how}: {broken}", self.error, self.slot)

    @property
    def _kept(self) -> FirstOutputs | DeviceFirstOutputs:
        return self.bench.first_outputs(self.slot)

    def _place(self, addresses: Sequence[int]) -> Sequence[int]:
        """Where what a run wrote is compared: where it is, or on the host."""
        return self.bench.operands.fetch(addresses) if isinstance(self._kept, FirstOutputs) else addresses

    # timing ---------------------------------------------------------------------------------------------------------
    def time(
        self, pointer_sets: Sequence[Sequence[int]], vars: Sequence[int] = (), repeats: int = 1, limit_s: float = float("inf")
    ) -> list[float]:
        """As `Executable.time`; then the outputs of the sets that were written are compared, as many as do not take long."""
        if pointer_sets is not self.bench.operands.timed:  # where nothing is kept
            for addresses in pointer_sets[:repeats]:
                self.bench.leave(addresses)
        watched = self._watched(len(pointer_sets), repeats)
        for i in watched:
            self._spoil(pointer_sets[i])
        times = self.exe.time(pointer_sets, vars, repeats, limit_s)
        for i in watched:
            if i < len(times):
                try:
                    self.again(pointer_sets[i])
                except WrongResultError as e:
                    raise WrongResultError(f"after {len(times)} timed calls: {e.detail}", e.error, self.slot) from None
        self._canaries()
        return times

    def calls(self, pointer_sets: Sequence[Sequence[int]], vars: Sequence[int], count: int) -> None:
        """So many calls and nothing else, on sets where nothing is kept, for what is measured around them."""
        self.exe.time(pointer_sets, vars, count)

    def _watched(self, sets: int, repeats: int) -> list[int]:
        """Which sets are compared after a burst: others each time where not all can be. Results in a device's own
        memory come through a bus: one set."""
        bench, first = self.bench, self._bursts
        self._bursts += 1
        written = min(sets, repeats)
        size = sum(bench.host.places[n].nbytes for n in bench.host.outputs)
        most = 1 if bench.on_device is not None and bench.judge is None else max(1, _MOST_BYTES // max(size, 1))
        if repeats < sets:
            first = 0  # the first ones are written whatever the time limit is
        return [(first + k) % written for k in range(min(most, written))]

    def _spoil(self, addresses: Sequence[int]) -> None:
        bench = self.bench
        kept = self._kept
        if bench.on_device is not None or not self.deterministic or bench.checker.partial or not isinstance(kept, FirstOutputs):
            bench.operands.poison(addresses, bench.checker.stale)
        else:
            kept.spoil(addresses)
