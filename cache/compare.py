"""How two caches differ: what each would answer, key by key, and which measurements only one of them has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from .choice import answers
from .keys import Key
from .rows import Row


class Difference(StrEnum):
    """What becomes of a key's answer between two caches."""

    only_a = "only in A"
    only_b = "only in B"
    schedule = "other schedule"
    same = "same"
    """The same schedule answers; its times may be of different runs."""
    none = "no answer"
    """Neither has an answer: there are failures or unverified measurements only."""


@dataclass(frozen=True, slots=True)
class KeyDifference:
    """One key. `about`: a row of it, for its name and shape; `a`, `b`: the rows that answer (see `choice`), None for
    none; `both`, `more_a`, `more_b`: how many measurements both have, and only one."""

    key: Key
    about: Row
    state: Difference
    a: Row | None
    b: Row | None
    both: int
    more_a: int
    more_b: int

    @property
    def ratio(self) -> float | None:
        """B's time over A's, None without both."""
        if self.a is None or self.b is None or not self.a.t_med or self.b.t_med is None:
            return None
        return (self.b.t_min or self.b.t_med) / (self.a.t_min or self.a.t_med)


def compare(a: Iterable[Row], b: Iterable[Row]) -> list[KeyDifference]:
    """Every key of either side, by name, dtype, shape, target and threads. A measurement that came with a bundle is
    the one that it was where it was made."""
    left, right = _by_key(a), _by_key(b)
    return sorted((_one(k, left.get(k, ()), right.get(k, ())) for k in left.keys() | right.keys()), key=_order)


def _one(key: Key, a: Iterable[Row], b: Iterable[Row]) -> KeyDifference:
    rows_a, rows_b = list(a), list(b)
    best_a, best_b = (next(iter(answers(rows)), None) for rows in (rows_a, rows_b))
    seen_a, seen_b = ({r.marked(imported=False).digest for r in rows} for rows in (rows_a, rows_b))
    if best_a is None and best_b is None:
        state = Difference.none
    elif best_a is None:
        state = Difference.only_b
    elif best_b is None:
        state = Difference.only_a
    else:
        state = Difference.same if best_a.opts == best_b.opts else Difference.schedule
    about = best_a or best_b or (rows_a or rows_b)[-1]
    return KeyDifference(key, about, state, best_a, best_b, len(seen_a & seen_b), len(seen_a - seen_b), len(seen_b - seen_a))


def _by_key(rows: Iterable[Row]) -> Mapping[Key, list[Row]]:
    out: dict[Key, list[Row]] = defaultdict(list)
    for row in rows:
        out[row.key].append(row)
    return out


def _order(d: KeyDifference) -> tuple[str, str, list[tuple[str, int]], str, int, str]:
    r = d.about
    return r.name, r.dtype, sorted(r.shape_dict.items()), r.target, r.threads, r.key.hash
