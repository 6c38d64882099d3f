"""Joules of a call, from a counter that is much coarser than a call.

A counter moves in steps: RAPL's about once a millisecond, a GPU's some ten or fifty times a second. How long a step takes is observed
first. Then the candidate runs again and again for a *window* of many steps, three times over. What a window's two readings can be off
by is one step in either, so at most two steps' share of the window, which is the *resolution*. The counter covers the whole package or
card, and whatever else runs there is in it: the builders of a search stand still meanwhile."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...ir.errors import DeviceError
from ..outcome import EnergyUse
from .counters import HOW, EnergyCounter, PowercapCounter, pynvml

if TYPE_CHECKING:
    from ...devices import Device


WINDOWS = 3
STEPS = 60
"""Steps of the counter in a window, where that is not longer than MOST_S."""
LEAST_S, MOST_S = 0.04, 1.0
"""Seconds of a window."""
STILL_S = 2.0
"""A counter that does not move for so long stands still: every machine takes some power."""
OBSERVED = 4
"""Steps that are waited for to learn how long one is."""
IDLE_S = 0.25
"""Seconds of rest in which the idle power is measured, at least."""


class EnergyMeter:
    """Measures with one counter. `idle`: subtract what the machine takes at rest."""

    def __init__(
        self,
        counter: EnergyCounter,
        idle: bool = False,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Watches the counter for a moment. Raises DeviceError where it stands still or cannot be read."""
        self.counter, self._clock = counter, clock
        self.step_s = self._observed()
        self.window_s = min(MOST_S, max(LEAST_S, STEPS * self.step_s))
        self.idle_w = self._at_rest(sleep) if idle else None

    def _observed(self) -> float:
        """Seconds of a step of the counter."""
        began = self._clock()
        last, first = self.counter.joules(), None
        changes = 0
        while changes < OBSERVED:
            reading, now = self.counter.joules(), self._clock()
            if reading != last:
                last, changes = reading, changes + 1
                first = now if first is None else first
            elif now - began > STILL_S and changes < 2:
                raise DeviceError(
                    f"the energy counter does not move ({self.counter.name} said {last:g} J for {STILL_S:g} s): virtual machines show such; {HOW}"
                )
            elif now - began > OBSERVED * STILL_S:
                break
        assert first is not None
        return max(1e-6, (self._clock() - first) / max(1, changes - 1))

    def _at_rest(self, sleep: Callable[[float], None]) -> float:
        """Watts while this process rests."""
        began, start = self._clock(), self.counter.joules()
        sleep(max(IDLE_S, min(MOST_S, STEPS * self.step_s)))
        return (self.counter.joules() - start) / (self._clock() - began)

    def measure(self, run: Callable[[int], None], call_s: float) -> EnergyUse:
        """Joules of a call of what `run(n)` calls n times; a call takes about `call_s` seconds. Raises DeviceError."""
        count = self._calls(call_s)
        each, power, shortest = [], [], math.inf
        for _ in range(WINDOWS):
            joules, watts, took = self._window(run, count)
            each.append(joules)
            power.append(watts)
            shortest = min(shortest, took)
        middle = sorted(each)[WINDOWS // 2]
        self._resolved(middle)
        spread = (max(each) - min(each)) / 2 / middle
        return EnergyUse(
            middle,
            spread,
            WINDOWS,
            WINDOWS * count,
            min(1.0, 2 * self.step_s / shortest),
            sorted(power)[WINDOWS // 2],
            self.idle_w,
            self.counter.name,
        )

    def once(self, run: Callable[[int], None], call_s: float) -> float:
        """Joules of a call, from one window. Raises DeviceError."""
        joules = self._window(run, self._calls(call_s))[0]
        self._resolved(joules)
        return joules

    def _calls(self, call_s: float) -> int:
        """Calls that fill a window."""
        return max(1, math.ceil(self.window_s / max(call_s, 1e-9)))

    def _window(self, run: Callable[[int], None], count: int) -> tuple[float, float, float]:
        """(joules of a call, mean watts, seconds) of so many calls."""
        began, start = self._clock(), self.counter.joules()
        run(count)
        spent, took = self.counter.joules() - start, self._clock() - began
        return (spent - (self.idle_w or 0.0) * took) / count, spent / took, took

    def _resolved(self, joules: float) -> None:
        if joules <= 0:
            why = "no more than at rest" if self.idle_w is not None else "nothing"
            raise DeviceError(f"the energy of a call is below what {self.counter.name} resolves: it counted {why}; measure a larger shape")


def paired_windows(
    meter: EnergyMeter, runs: Sequence[Callable[[int], None]], call_s: Sequence[float], rounds: int
) -> list[tuple[float, float]]:
    """Joules of a call of two candidates in each round: a window of one, then of the other, in an order that swaps every round, since a
    package that is warmer takes more. Raises DeviceError."""
    pairs = []
    for r in range(rounds):
        got = {which: meter.once(runs[which], call_s[which]) for which in ((0, 1), (1, 0))[r % 2]}
        pairs.append((got[0], got[1]))
    return pairs


def check_energy(device: Device) -> str:
    """The name of the counter that a search would use. Raises DeviceError where there is none to be read: before anything is tuned."""
    if device.target.kind != "gpu":
        return EnergyMeter(PowercapCounter()).counter.name  # (one that stands still is none)
    # what is on a GPU's bus only its driver knows, which the process that forks never opens: here NVML is only looked for
    nvml = pynvml()
    try:
        nvml.nvmlInit()
        return "NVML"
    except nvml.NVMLError as e:
        raise DeviceError(f"NVML cannot be used here, so the energy of {device.name} cannot be measured: {e}; {HOW}") from None
