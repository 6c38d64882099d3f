"""Statistics of timings: how often to repeat, and whether one candidate is really faster than another."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..devices import Executable

WINDOW_S = 0.02
"""Time spent on a candidate that may win."""
REJECT = 3.0
"""A candidate this many times slower than the incumbent is timed no further."""
CONTENDER = 1.1
"""Beyond this ratio to the incumbent, a quarter of the window tells enough."""
_MOST = 2000
_SLEEP_S = 0.05
_BURST = 20
_DROPPED = 3
_DUEL_S = 20.0
_MIN_EFFECT = 0.005
# two-sided 99 % quantiles of Student's t by degrees of freedom
_T99 = {2: 9.925, 3: 5.841, 4: 4.604, 5: 4.032, 6: 3.707, 7: 3.499, 8: 3.355, 9: 3.250, 10: 3.169, 12: 3.055, 15: 2.947, 20: 2.845, 30: 2.750}


def median(values: Sequence[float]) -> float:
    """The middle value (mean of the two middle ones)."""
    s = sorted(values)
    half = len(s) // 2
    return s[half] if len(s) % 2 else (s[half - 1] + s[half]) / 2


def repeats_for(seconds: float, window_s: float) -> int:
    """Calls that fill the window: at least 3 (1 for calls over 0.3 s), at most 2000."""
    least = 3 if seconds < 0.3 else 1
    return max(least, min(_MOST, math.ceil(window_s / max(seconds, 1e-9))))


def time_adaptively(exe: Executable, sets: Sequence[Sequence[int]], vars: Sequence[int], incumbent_s: float | None) -> tuple[list[float], bool]:
    """(seconds of each call, rejected). Rejected: the best of the first calls took over 3 × the incumbent. A contender gets
    20 ms or three calls, and as much again when it beats the incumbent; others get a quarter."""
    times = exe.time(sets, vars, 1, math.inf)
    if times[0] < 0.01:
        # the first call pays for cold caches and sleeping threads
        times = exe.time(sets, vars, 3, math.inf)
    best = min(times)
    if incumbent_s is not None and best > REJECT * incumbent_s:
        return times, True
    contender = incumbent_s is None or best < CONTENDER * incumbent_s
    window = WINDOW_S if contender else WINDOW_S / 4
    count = repeats_for(best, window)
    if count > len(times) or best < 0.01:
        times = exe.time(sets, vars, count, max(2.0, 4 * window))
    if incumbent_s is not None and min(times) < incumbent_s:
        times = times + exe.time(sets, vars, count if best < 0.01 else 2, max(2.0, 4 * window))
    return times, False


def paired_bursts(
    a: Executable, b: Executable, sets: Sequence[Sequence[int]], vars: Sequence[int], threads: int, rounds: int, sleep: Callable[[float], None]
) -> list[tuple[float, float]]:
    """Median seconds per call of a and b in each round. On one thread a round is a short burst of each. Above one thread, strict
    alternation is unfair (an idle rival's spinning workers halve the other's speed): bursts of at least 20 calls, the first three
    dropped, every pool asleep for 50 ms before (of calls over 20 ms, which hide a thread's waking, six; of calls over 0.2 s, two).
    The order swaps every round; after 20 s, three rounds are enough."""
    pairs: list[tuple[float, float]] = []
    begin = time.monotonic()
    for r in range(rounds):
        if r >= 3 and time.monotonic() - begin > _DUEL_S:
            break
        got: dict[int, float] = {}
        for which in ((0, 1), (1, 0))[r % 2]:
            exe = (a, b)[which]
            if threads > 1:
                sleep(_SLEEP_S)
            first = exe.time(sets, vars, 1, math.inf)[0]
            count, drop = (max(_BURST, repeats_for(first, 0.01)), _DROPPED) if first < 0.02 else (6, _DROPPED) if first < 0.2 else (2, 1)
            got[which] = median(exe.time(sets, vars, count, math.inf)[drop:])
        pairs.append((got[0], got[1]))
    return pairs


def compare(pairs: Sequence[tuple[float, float]]) -> tuple[float, bool]:
    """(median of a/b, significant): a paired t-test on log ratios at 99 %, and at least 0.5 % of difference."""
    logs = [math.log(a / b) for a, b in pairs]
    ratio = math.exp(median(logs))
    n = len(logs)
    if n < 3:
        return ratio, False
    mean = sum(logs) / n
    deviation = math.sqrt(sum((x - mean) ** 2 for x in logs) / (n - 1))
    quantile = next(q for d, q in sorted(_T99.items(), reverse=True) if d <= n - 1)
    return ratio, abs(mean) > max(_MIN_EFFECT, quantile * deviation / math.sqrt(n))
