"""Which choices of a template make a given schedule, or the one nearest to it: how start schedules and cached schedules enter a study.

Templates only say how choices become options, so this is a search: coordinate descent on a distance between option lists, which costs a
call of `make` a step and applies nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...ir.errors import OptError

if TYPE_CHECKING:
    from ..space import Schedule, TemplateLike

MAKES = 160
"""Calls of `make` a template may cost, whatever is fitted to it."""


class Fitter:
    """Fits schedules to one template; remembers what choices make."""

    def __init__(self, template: TemplateLike, makes: int = MAKES) -> None:
        self.template = template
        self._left = makes
        self._last: Mapping[str, Any] = {k: v[len(v) // 2] for k, v in template.params.items()}
        self._made: dict[tuple[Any, ...], Schedule | None] = {}

    def fit(self, opts: Schedule, begin: Mapping[str, Any] | None = None) -> tuple[float, dict[str, Any]] | None:
        """(distance, choices) of the nearest instance that was found from `begin` (default: the last one found, first
        the middle of each range); distance 0: the same options. None where nothing that was tried can be made."""
        params = self.template.params
        now = dict(begin if begin is not None else self._last)
        best = self._distance(now, opts)
        while best > 0:
            before = best
            for name, choices in params.items():
                for value in choices:
                    trial = {**now, name: value}
                    far = self._distance(trial, opts)
                    if far < best:
                        now, best = trial, far
            if best == before:
                break
        if best == math.inf:
            return None
        self._last = now
        return best, now

    def _distance(self, params: Mapping[str, Any], opts: Schedule) -> float:
        at = tuple(params.values())
        if at not in self._made:
            if self._left <= 0:
                return math.inf
            self._left -= 1
            try:
                self._made[at] = tuple(self.template.make(dict(params)))
            except OptError:
                self._made[at] = None
        made = self._made[at]
        return math.inf if made is None else distance(made, opts)


def distance(a: Schedule, b: Schedule) -> float:
    """0 for the same options in any order. An option on one side only counts 3, one with another amount the octaves
    between them (at most 2), one that differs in another way 2."""
    rest = list(b)
    total = 0.0
    for o in a:
        same = [p for p in rest if (p.op, p.on) == (o.op, o.on)]
        if not same:
            total += 3.0
            continue
        near = min(same, key=lambda p: _difference(o, p))
        total += _difference(o, near)
        rest.remove(near)
    return total + 3.0 * len(rest)


def _difference(a: Any, b: Any) -> float:
    if a == b:
        return 0.0
    if isinstance(a.arg, int) and isinstance(b.arg, int):
        return min(2.0, 0.25 + abs(math.log2(max(a.arg, 1) / max(b.arg, 1))))
    return 2.0


def nearest(fitters: Sequence[Fitter], opts: Schedule) -> tuple[str, dict[str, Any]] | None:
    """Template and choices of the nearest instance over all templates, the first of equals; None where none is near
    (half of the options differ)."""
    fits = [(got[0], f.template.name, got[1]) for f in fitters if (got := f.fit(opts)) is not None]
    if not fits:
        return None
    far, name, params = min(fits, key=lambda f: f[0])
    return (name, params) if far <= 1.5 * len(opts) else None
