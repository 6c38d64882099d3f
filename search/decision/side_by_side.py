"""Several schedules of one kernel beside each other: each verified on its whole output and timed, then compared with
the first one in paired rounds, as the finals of a search compare."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...ir.errors import MeasureError
from .explain import Ratio, burst

if TYPE_CHECKING:
    from ...devices import Device
    from ...ir.kernel import Kernel
    from ...measure import Built, Measurement
    from ...opts.opt import Opt

ROUNDS = 9
"""Paired rounds of a comparison, as many as in the finals of a search."""
LEAST = 3
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
    rounds: int = ROUNDS,
    budget_s: float = 60.0,
    report: Callable[[str], None] = lambda text: None,
) -> list[Contestant]:
    """Verify and time `schedules` of a kernel in normal form, and compare each with the first. The budget (seconds) is
    for the comparisons; three rounds of each are made in any case. What fails is told by its measurement. Raises
    MeasureError, DeviceError where nothing can be measured at all."""
    from ...measure import Measurement, Measurer
    from ...measure.checking.judged_kernel import judged

    lists = [tuple(s) for s in schedules]
    vars = {s.arg.name: s.arg.lo for s in kernel.symbols}
    with Measurer(kernel, device, threads, vars=vars, reference=judged(kernel, device.target, _lowers(kernel, lists, device))) as m:
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
    from ...ir.errors import OptError
    from ...opts import apply

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
    return max(LEAST, min(most, int(seconds / each)))


def _compared(
    duel: Callable[..., object], first: Built | Measurement, other: Built | Measurement, alone: tuple[Measurement, Measurement], rounds: int
) -> Contestant:
    from ...measure import Measurement
    from ...measure.outcome import Duel

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
