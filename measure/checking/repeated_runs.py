"""A loaded candidate whose every run is checked: what it wrote must be right, and the same bits each time.

A schedule that is wrong now and then (a race, code that remembers something between calls) is right in most runs. So its first outputs are
compared with the reference, and those of every later run, and of the sets that a burst of timed calls wrote, with the first ones, bit for
bit; where the schedule may give other bits each time (`NONDET`), with the reference again. Outputs are poisoned before every run, so that
a call that writes nothing is seen.

`repeat` runs it again and again on the same inputs under conditions that change, so that a race that needs a certain order of events gets
its chance. The pool's threads are hot (they spin) when a call follows another at once, and asleep after a pause; beside a busy neighbour
they are interrupted in the middle of their work; in a burst of timed calls nothing lies between one call and the next."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from .compare import FirstOutputs

if TYPE_CHECKING:
    from ...devices import Executable
    from ..bench import Bench
    from ..operands import Shifted
    from .compare import DeviceFirstOutputs


_MOST_BYTES = 16 << 20
"""Outputs compared after a burst or a turn of a duel (10 ms), unless a single set has more: some 3 ms."""
LEAST = 16
"""Runs that a winner must agree with itself in."""
MOST = 512
SPEND_S = 0.4
"""Seconds that more than LEAST runs may take: small kernels are run up to MOST times."""
LIMIT_S = 4.0
"""Seconds after which fewer than LEAST are enough."""
_ROUND = 8
"""Every condition comes once in so many runs."""
_SLEEPS = {3: 0.003, 6: 0.02}
"""Pauses, in seconds, before some runs of a round: the pool's threads go to sleep after 2 ms."""
_BURST, _BUSY = 5, (1, 4)
_FIRST_ROUNDS = 2 * _ROUND
"""Pauses and neighbours slow small kernels down: after these runs they come once in 64."""


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


def expected_s(call_s: float) -> float:
    """About how many seconds `repeat` takes for calls of so many."""
    return max(SPEND_S, min(LIMIT_S, LEAST * call_s))


def repeat(watch: Watch, step: Callable[[], None]) -> int:
    """How many more runs gave the same outputs as the first, which `watch` keeps: at least LEAST unless they take
    longer than LIMIT_S. `step` is called before each (it renews the candidate's deadline). Raises
    WrongResultError."""
    addresses = watch.bench.operands.checked
    began, runs = time.monotonic(), 0
    while not _enough(runs, time.monotonic() - began):
        step()
        _vary(watch, runs, addresses)
        runs += 1
    return runs


def _enough(runs: int, spent: float) -> bool:
    if runs < LEAST:
        return spent > LIMIT_S
    return runs >= MOST or spent > SPEND_S


def _vary(watch: Watch, run: int, addresses: list[int]) -> None:
    """One more run, under the condition that is its turn."""
    turn = run % _ROUND if run < _FIRST_ROUNDS or run % 64 < _ROUND else 0
    if turn in _SLEEPS:
        time.sleep(_SLEEPS[turn])
    if turn == _BURST:
        watch.time([addresses], watch.bench.vars, 3)
        return
    if turn in _BUSY:
        with _Neighbour():
            watch.run(addresses)
    else:
        watch.run(addresses)
    watch.again(addresses)


class _Neighbour:
    """A thread that keeps a core busy, without Python's lock."""

    def __enter__(self) -> _Neighbour:
        self._stop = False
        self._thread = threading.Thread(target=self._work)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._stop = True
        self._thread.join()

    def _work(self) -> None:
        block = ctypes.create_string_buffer(1 << 18)
        while not self._stop:
            ctypes.memset(block, 0, len(block))
