"""Which devices of a fleet are equal: the same schedules were timed on each, and times within 5 % of each other may be compared.

Pure: times in, groups out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...measure.timing import median

WITHIN = 1.05
"""Devices whose times differ by more are not the same thing."""
PROBES = 3
"""Schedules that are timed on every device."""
LOOKS = 3
"""Times that a device which seems to differ is timed: the shortest time of each schedule counts, as other work only ever adds to it."""

Times = Mapping[str, float]
"""Seconds of each schedule, by its name."""


def factor(times: Times, others: Sequence[Times]) -> float | None:
    """How slow a device is: its time over the shortest of all, the median over the schedules that every one of them has. None where
    there is none."""
    common = [name for name in times if times[name] > 0 and all(o.get(name, 0.0) > 0 for o in others)]
    ratios = [times[name] / min([times[name], *(o[name] for o in others)]) for name in common]
    return median(ratios) if ratios else None


def groups(by_device: Mapping[str, Times]) -> list[list[str]]:
    """Devices that are equal to each other, the largest group first, and of two that are as large the faster one. A device on which no
    schedule could be timed is in none."""
    able = {d: t for d, t in by_device.items() if t}
    slow = {d: f for d, t in able.items() if (f := factor(t, [o for e, o in able.items() if e != d])) is not None}
    out: list[list[str]] = []
    for d in sorted(slow, key=lambda d: slow[d]):
        if out and slow[d] <= WITHIN * slow[out[-1][0]]:
            out[-1].append(d)
        else:
            out.append([d])
    return sorted(out, key=lambda g: (-len(g), slow[g[0]]))


def apart(times: Times, known: Sequence[Times]) -> float | None:
    """A device's time over that of those whose times are `known`, the median over the schedules; None where they have none in common."""
    ratios = [t / median(seen) for name, t in times.items() if (seen := [k[name] for k in known if name in k])]
    return median(ratios) if ratios else None


def belongs(times: Times, known: Sequence[Times]) -> bool:
    """Whether a device that comes later is equal to those whose times are `known`: neither slower nor faster by more than 5 %."""
    ratio = apart(times, known)
    return ratio is not None and 1 / WITHIN <= ratio <= WITHIN
