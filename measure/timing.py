"""Timing: how often to repeat, whether one candidate is really faster than another, and whether other programs use the machine."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from typing import Protocol

WINDOW_S = 0.01
"""Time spent on a candidate that may win, and as much again on one that does: times of one moment only say who enters the finals."""
REJECT = 3.0
"""A candidate this many times slower than the incumbent is timed no further."""
_SURE_S = 0.005
"""Calls that are together shorter than this reject nothing."""
_SHORT_S = 0.01
"""Calls that are shorter are made three times at first."""
CONTENDER = 1.1
"""Beyond this ratio to the incumbent, a part of the window tells enough."""
BEHIND = 1.5
"""Beyond this one, the first calls do."""
_MOST = 2000
REST_S = 0.005
"""Before a burst, every pool sleeps: its workers spin for far less than this (`devices.cpu.pool.SPIN_S`)."""
MOST_RESTS = 10
"""Where threads of others work on for longer (those of OpenMP may spin for tens of milliseconds), so many rests are enough."""
_QUIET = 0.1
"""Cores that this process may use while it rests."""
_BURST = 20
_DROPPED = 3
DUEL_S = 20.0
"""Seconds after which a comparison has as many rounds as it needs."""
_TURN_S = 0.015
"""How long one of two takes turns with the other on one thread: long against what a check after each turn displaces from the caches."""
_MIN_EFFECT = 0.005
_UNANIMOUS = 5
"""Rounds that must all agree for the sign test alone to decide (one in 16 by chance, two-sided)."""
_PLAIN = 0.02
"""A difference over which a duel ends after so many rounds, if they agree: others cannot change who is faster."""
_BEHIND = 0.03
"""A loss of which nobody in a race is wrongly suspected, however many take part."""
_TORN = 0.02
"""A loss in one of two places that the gain in the other does not make good."""
# two-sided 95 % quantiles of Student's t by degrees of freedom
_T95 = {
    1: 12.706,
    2: 4.303,
    3: 3.182,
    4: 2.776,
    5: 2.571,
    6: 2.447,
    7: 2.365,
    8: 2.306,
    9: 2.262,
    10: 2.228,
    12: 2.179,
    15: 2.131,
    20: 2.086,
    30: 2.042,
}


class Timed(Protocol):
    """What can be timed: `Executable.time`."""

    def time(
        self, pointer_sets: Sequence[Sequence[int]], vars: Sequence[int] = (), repeats: int = 1, limit_s: float = ...
    ) -> list[float]: ...


def median(values: Sequence[float]) -> float:
    """The middle value (mean of the two middle ones)."""
    s = sorted(values)
    half = len(s) // 2
    return s[half] if len(s) % 2 else (s[half - 1] + s[half]) / 2


def quartile(values: Sequence[float]) -> float:
    """The lower quartile."""
    return sorted(values)[(len(values) - 1) // 4]


def repeats_for(seconds: float, window_s: float) -> int:
    """Calls that fill the window: at least 3 (1 for calls over 0.3 s), at most 2000."""
    least = 3 if seconds < 0.3 else 1
    return max(least, min(_MOST, math.ceil(window_s / max(seconds, 1e-9))))


def time_adaptively(
    exe: Timed, sets: Sequence[Sequence[int]], vars: Sequence[int], incumbent_s: float | None, ran_s: float = math.inf
) -> tuple[list[float], bool]:
    """(seconds of each call, rejected). Rejected: the best of the first calls (three, and at least 5 ms of them) took
    over 3 × the incumbent. A contender gets 10 ms or three calls, and as much again when it beats the incumbent; what is
    up to half as slow again gets a third of that, and others their first calls: of long ones two, in case the first
    was disturbed. `ran_s`: what a call took that was not timed so well; a short one need not be found out first."""
    times = exe.time(sets, vars, 1 if ran_s >= _SHORT_S else 3, math.inf)
    if times[0] < _SHORT_S and len(times) == 1:
        # the first call pays for cold caches and sleeping threads
        times = exe.time(sets, vars, 3, math.inf)
    best = min(times)
    if incumbent_s is not None and best > REJECT * incumbent_s:
        if best < _SURE_S / 3:
            # three short calls are too few: on a busy machine, or in a process that was just started, all may be slow
            times = exe.time(sets, vars, math.ceil(_SURE_S / best), math.inf)
            best = min(times)
        if best > REJECT * incumbent_s:
            return times, True
    behind = 1.0 if incumbent_s is None else best / incumbent_s
    window = WINDOW_S if behind < CONTENDER else WINDOW_S / 3 if behind < BEHIND else WINDOW_S / 6
    count = repeats_for(best, window)
    if behind >= BEHIND and len(times) == 1:
        times = times + exe.time(sets, vars, 1, math.inf)
        if min(times) >= BEHIND * (incumbent_s or 0.0):
            return times, False
    if count > len(times):  # else the first calls were window enough
        times = exe.time(sets, vars, count, max(2.0, 4 * window))
    if incumbent_s is not None and min(times) < incumbent_s:
        times = times + exe.time(sets, vars, count if best < 0.01 else 2, max(2.0, 4 * window))
    return times, False


def common_rounds(
    of: Sequence[Timed], sets: Sequence[Sequence[int]], vars: Sequence[int], threads: int, rounds: int, sleep: Callable[[float], None],
    turns: bool = True, limit_s: float = DUEL_S,
) -> list[tuple[float, ...]]:  # fmt: skip
    """Seconds per call (lower quartile: others' load only ever adds time) of each in each round. On one thread they
    take turns every few milliseconds (`_timed_in_turns`). Above one thread, strict alternation is unfair (an idle rival's
    spinning workers halve the other's speed): bursts of at least 20 calls, the first three dropped, every pool asleep for
    5 ms before, and as long as threads spin. Of calls over 20 ms there are six (they hide a thread's waking), of those
    over 0.2 s two. After `limit_s` seconds three rounds are enough. Who is plainly behind the fastest, in five rounds that agree, takes
    no part in later ones, where it has NaN; a race for which only one is left ends. (O. Maron, A. Moore, "Hoeffding races", NIPS 1993.)

    Where there are several sets of operands, which together are more than the caches hold, every second round has only the first
    of them, as a program has that calls a kernel on what it has just made: who wins must not do so by what one of both hides. (Unless `turns` says
    that all rounds have all sets.) The order swaps every other round."""
    rows: list[tuple[float, ...]] = []
    standing = list(range(len(of)))
    kinds = 2 if len(sets) > 1 and turns else 1
    surely = _BEHIND if len(of) > 2 else 0.0
    begin = time.monotonic()
    for r in range(rounds):
        if r >= 3 and time.monotonic() - begin > limit_s:
            break
        near = r % kinds == 1
        order = standing[:: -1 if r // kinds % 2 else 1]
        mine = sets[:1] if near else sets
        got = _timed_in_turns(of, order, mine, vars) if threads == 1 else _bursts(of, order, mine, vars, sleep)
        rows.append(tuple(got.get(i, math.nan) for i in range(len(of))))
        if r + 1 < _UNANIMOUS:
            continue
        leader = min(standing, key=lambda i: compare(column_pairs(rows, i, standing[0]), kinds)[0])
        standing = [i for i in standing if i == leader or not plain(column_pairs(rows, i, leader), surely, kinds)]
        if len(standing) < 2:
            break
    return rows


def column_pairs(rows: Sequence[tuple[float, ...]], a: int, b: int) -> list[tuple[float, float]]:
    """The rounds in which both took part."""
    return [(row[a], row[b]) for row in rows if not math.isnan(row[a] + row[b])]


def _amount(first: float) -> tuple[int, int]:
    """(calls of a round whose first took so many seconds, how many of them only warm up)."""
    return (max(_BURST, repeats_for(first, 0.01)), _DROPPED) if first < 0.02 else (6, _DROPPED) if first < 0.2 else (2, 1)


def _bursts(
    of: Sequence[Timed], order: Sequence[int], sets: Sequence[Sequence[int]], vars: Sequence[int], sleep: Callable[[float], None]
) -> dict[int, float]:
    """One burst of each, rested."""
    got: dict[int, float] = {}
    for which in order:
        rest(sleep)
        count, drop = _amount(of[which].time(sets, vars, 1, math.inf)[0])
        got[which] = quartile(of[which].time(sets, vars, count, math.inf)[drop:])
    return got


def _timed_in_turns(of: Sequence[Timed], order: Sequence[int], sets: Sequence[Sequence[int]], vars: Sequence[int]) -> dict[int, float]:
    """All in turns of some milliseconds, so that load that comes and goes, or a clock that changes, meets all alike:
    first, second, second, first, and so on. The first call of a turn warms up."""
    left: dict[int, int] = {}
    turn: dict[int, int] = {}
    seen: dict[int, list[float]] = {which: [] for which in order}
    turn_s = _TURN_S if len(order) == 2 else _TURN_S / 3
    for which in order:
        first = of[which].time(sets, vars, 1, math.inf)[0]
        count, drop = _amount(first)
        left[which] = count - drop if len(order) == 2 else max(_BURST - drop, (count - drop) // 2)
        turn[which] = max(1, min(left[which], int(turn_s / max(first, 1e-9))))
    side = 0
    while any(n > 0 for n in left.values()):
        for which in (order, order[::-1])[side]:
            if left[which] > 0:
                seen[which] += of[which].time(sets, vars, turn[which] + 1, math.inf)[1:]
                left[which] -= turn[which]
        side = 1 - side
    return {which: quartile(times) for which, times in seen.items()}


def rest(sleep: Callable[[float], None], used: Callable[[], float] = time.process_time) -> None:
    """Let every thread of this process go to sleep. `used` tells its processor seconds, of all its threads."""
    for _ in range(MOST_RESTS):
        before = used()
        sleep(REST_S)
        if used() - before < _QUIET * REST_S:
            return


def compare(pairs: Sequence[tuple[float, float]], kinds: int = 1) -> tuple[float, bool]:
    """(median of a/b, significant): at least 0.5 % of difference, and a paired t-test on log ratios at 95 % or the same sign in
    all of five rounds or more (one disturbed round inflates the deviation, but seldom changes a sign).

    With `kinds` 2 every second round is of another kind (`common_rounds`), and the median is the geometric mean of both kinds' medians: that of
    all rounds would be the ratio of the kind that has one round more. And who is ahead by it must be so by the mean."""
    logs = _logs(pairs)
    between = sum(map(median, _by_kind(logs, kinds))) / min(kinds, len(logs))
    ratio = math.exp(between)
    n = len(logs)
    if n < 3:
        return ratio, False
    mean, half = _interval(logs, kinds)
    unanimous = n >= _UNANIMOUS and (all(x > 0 for x in logs) or all(x < 0 for x in logs))
    return ratio, abs(between) > _MIN_EFFECT and mean * between > 0 and (unanimous or abs(mean) > half)


def torn(pairs: Sequence[tuple[float, float]]) -> bool:
    """Whether who is ahead is behind by 2 % or more in one kind of rounds, from memory or in the caches, in two or more that agree."""
    logs = _logs(pairs)
    if len(logs) < 4:
        return False
    kinds = sorted(_by_kind(logs, 2), key=lambda kind: abs(median(kind)))
    behind, ahead = (median(kind) for kind in kinds)
    return ahead * behind < 0 and abs(behind) > _TORN and all(x * behind > 0 for x in kinds[0])


def by_place(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The ratio of the rounds with operands from memory, and that of those with operands in the caches."""
    far, near = map(median, _by_kind(_logs(pairs), 2))
    return math.exp(far), math.exp(near)


def _logs(pairs: Sequence[tuple[float, float]]) -> list[float]:
    return [math.log(a / b) for a, b in pairs]


def _by_kind(logs: Sequence[float], kinds: int) -> list[Sequence[float]]:
    """The rounds of each kind of which there are any."""
    return [logs[k::kinds] for k in range(min(kinds, len(logs)))]


def plain(pairs: Sequence[tuple[float, float]], surely: float = 0.0, kinds: int = 1) -> bool:
    """Whether more rounds need not be fought: all agree, by a plain difference, and their own scatter leaves no doubt that it is more than
    `surely` (in logarithms)."""
    logs = _logs(pairs)
    if len(logs) < _UNANIMOUS or not (all(x > 0 for x in logs) or all(x < 0 for x in logs)):
        return False
    mean, half = _interval(logs, kinds)
    return abs(mean) - half > surely and abs(median(logs)) > _PLAIN


def noise(pairs: Sequence[tuple[float, float]], kinds: int = 1) -> float:
    """Half of the 95 % confidence interval of a/b, as a share of it; infinite for fewer than three rounds."""
    return math.expm1(_interval(_logs(pairs), kinds)[1]) if len(pairs) >= 3 else math.inf


def _interval(logs: Sequence[float], kinds: int) -> tuple[float, float]:
    """(mean of the kinds' means, half of its 95 % confidence interval) of at least three values, by Student's t. What the kinds differ by is no
    noise: only how rounds of one kind scatter is."""
    each = _by_kind(logs, kinds)
    means = [sum(kind) / len(kind) for kind in each]
    freedom = len(logs) - len(each)
    variance = sum((x - mean) ** 2 for kind, mean in zip(each, means, strict=True) for x in kind) / freedom
    quantile = next(q for d, q in sorted(_T95.items(), reverse=True) if d <= freedom)
    return sum(means) / len(each), quantile * math.sqrt(variance * sum(1 / len(kind) for kind in each)) / len(each)


SAMPLE_S = 0.15
"""How long is looked."""
BUSY = 0.4
"""Cores that others may use without being worth a word."""


def used_by_others(seconds: float = SAMPLE_S) -> float | None:
    """How many cores other programs used in the next so many seconds; None where the system does not say. (Linux
    counts in hundredths of a second, and in a container the whole machine.)"""
    before = _times()
    if before is None:
        return None
    own, begin = _cpu_seconds(), time.monotonic()
    time.sleep(seconds)
    after = _times()
    if after is None:
        return None
    return max(0.0, (after - before) - (_cpu_seconds() - own)) / (time.monotonic() - begin)


def _cpu_seconds() -> float:
    t = os.times()
    return t.user + t.system + t.children_user + t.children_system


def _times() -> float | None:
    """Seconds of processor time that all programs used since the machine started."""
    try:
        with open("/proc/stat", encoding="ascii") as f:
            user, nice, system, _idle, _wait, *rest = (int(x) for x in f.readline().split()[1:])
        return (user + nice + system + sum(rest[:2])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return None
