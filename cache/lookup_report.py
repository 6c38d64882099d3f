"""Why a look-up hits or misses, field by field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..ir.units import duration
from .keys import FIELDS, Key
from .objective_types import TIME
from .ranking import Standing
from .rows import Row

EVERY = (*FIELDS, "objective")


@dataclass(frozen=True, slots=True)
class Field:
    """One field of the strict key: what was wanted, what the closest cached key has."""

    name: str
    wanted: str
    found: str | None

    @property
    def same(self) -> bool:
        """Whether it is what was wanted."""
        return self.wanted == self.found


@dataclass(frozen=True, slots=True)
class LookupReport:
    """`hit`, with the `row` and the `place` (file or URL) it came from; else the closest key there is (`fields`, and which kernel it
    belongs to: `closest`) and, where the key itself matches, the counts of its rows by outcome."""

    key: Key
    hit: bool
    row: Row | None
    place: str | None
    fields: tuple[Field, ...]
    closest: str | None
    outcomes: dict[str, int]
    total: int
    standing: Standing | None = None
    """Of a hit: what is known of it here."""

    def lines(self) -> list[str]:
        """The explanation as text, one statement a line."""
        if self.hit and self.row is not None and self.row.t_med is not None:
            out = [
                f"hit: {self.row.name or 'kernel'} {duration(self.row.t_med)} (median of {self.row.n}), measured {self.row.when}, from {self.place}, {self.standing}"
            ]
        elif not self.total:
            out = ["miss: the cache is empty; this is looked up:"]
        elif self.outcomes:
            counts = ", ".join(f"{n} {o}" for o, n in sorted(self.outcomes.items()))
            out = [f"miss: the key is there, but no row of it is verified and ok ({counts})"]
        else:
            out = [f"miss: no row has this key; the closest of {self.total} rows is {self.closest}"]
        width = max((len(f.name) for f in self.fields), default=0)
        for f in self.fields:
            if not self.total:
                out.append(f"  {f.name:<{width}}  {f.wanted}")
                continue
            out.append(
                f"  {f.name:<{width}}  {'same   ' if f.same else 'differs'}  {f.wanted}" + ("" if f.same else f"  (cached: {f.found})")
            )
        return out


def explain(
    key: Key, row: Row | None, place: str | None, groups: Iterable[dict[str, Any]], standing: Standing | None = None
) -> LookupReport:
    """Compare `key` with what there is: `groups` are rows of `queries.KEYS`; `row` is what the look-up gave, and
    `standing` its standing."""
    wanted = {f: str(getattr(key, f)) for f in EVERY}
    found, total = list(groups), 0
    outcomes: Counter[str] = Counter()
    best: tuple[int, int, str] | None = None
    closest: dict[str, Any] | None = None
    for g in found:
        total += int(g["times"])
        same = [str(g[f]) == wanted[f] for f in EVERY]
        if all(same):
            outcomes[f"{g['outcome']}{'' if g['verified'] else ' unverified'}"] += int(g["times"])
        # the kernel weighs most: another kernel's rows say nothing about this one
        rank = (sum(same) + len(EVERY) * same[0], int(g["times"]), str(sorted((k, str(v)) for k, v in g.items())))
        if best is None or rank > best:
            best, closest = rank, g
    return LookupReport(
        key,
        row is not None,
        row,
        place,
        tuple(
            Field(f, wanted[f], None if closest is None else str(closest[f]))
            for f in EVERY
            # where all is about the time, nobody asks
            if f != "objective" or {wanted[f], TIME if closest is None else str(closest[f])} != {TIME}
        ),
        None if closest is None else f"{closest['name'] or 'a kernel'} {closest['shape']} {closest['dtype']}".rstrip(),
        dict(outcomes),
        total,
        standing,
    )
