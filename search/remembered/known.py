"""What earlier searches of a key measured with today's code, so that a larger budget goes on where a smaller one ended."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...ir.errors import OptError
from ..aims import Aim
from ..strategy import seconds

if TYPE_CHECKING:
    from ...cache import Cache, Key, Row
    from ...ir.normal_form.canonical import Canonical
    from ...measure import Measurement
    from ..space import Schedule

NEWEST = 2000
"""Rows of a key that are looked at."""
TOLD = 64
"""The fastest of them that a strategy hears of."""
NEAR = 1.15
"""What is within this ratio of the fastest is measured again: times of another day do not decide between such."""


@dataclass(frozen=True)
class Known:
    """Measurements of earlier searches, by schedule."""

    by_opts: Mapping[Schedule, Measurement]
    front: bool = False
    """Of two objectives, what is slow may still be the best in the other."""

    def settled(self, opts: Schedule) -> Measurement | None:
        """The measurement of a schedule that need not be made again: it failed, or was clearly slower than the fastest."""
        m = self.by_opts.get(opts)
        return m if m is not None and (m.t_min is None or (not self.front and seconds(m) > NEAR * self.fastest)) else None

    @property
    def fastest(self) -> float:
        """Seconds, infinity where nothing was right."""
        return min((seconds(m) for m in self.by_opts.values() if m.t_min is not None), default=math.inf)

    def today(self, fresh: Mapping[Schedule, Measurement]) -> list[Measurement]:
        """The fastest ones as they would be timed now: scaled by what those among `fresh`, measured again in this run, take now."""
        then = [(m.t_min, self.by_opts[o].t_min) for o, m in fresh.items() if o in self.by_opts]
        ratios = sorted(now / before for now, before in then if now and before)
        scale = ratios[len(ratios) // 2] if ratios else 1.0
        right = sorted((m for o, m in self.by_opts.items() if m.t_min is not None and o not in fresh), key=seconds)
        return [
            replace(
                m,
                t_min=scale * m.t_min,
                t_med=None if m.t_med is None else scale * m.t_med,
                score=None if m.score is None else scale * m.score,
            )
            for m in right[:TOLD]
            if m.t_min is not None
        ]


NOTHING = Known({})


def known(cache: Cache, key: Key, canonical: Canonical) -> Known:
    """What the cache holds of `key`, measured here, with the code of today."""
    from ...cache import tool_version

    rows = cache.rows(
        kernel=key.kernel, target=key.target, threads=key.threads, compiler=key.compiler, policy=key.policy, tool_version=tool_version()
    )
    found = {}
    aim = Aim(key.objective)
    for row in rows[-NEWEST:]:
        if not row.imported and (m := _measurement(row, canonical, aim)) is not None and (m.t_min is None or aim.able(m)):
            found[m.opts] = aim.scored(m)  # oldest first: the newest stays
    return Known(found, aim.front)


def _measurement(row: Row, canonical: Canonical, aim: Aim) -> Measurement | None:
    from ...cache.valued import energy_of, scratch_of, value_of
    from ...measure import Measurement, Outcome
    from ...measure.outcome import EnergyUse
    from ...opts import parse
    from ...opts.written.syntax import SYNTAX

    try:
        opts = parse(canonical.from_canonical(json.loads(row.opts), SYNTAX))
    except OptError:
        return None
    timed = row.outcome in ("ok", "slow")
    found = Measurement(
        opts, Outcome(row.outcome), row.t_min if timed else None, row.t_med if timed else None, row.n, sha=row.source_sha or None
    )
    used = EnergyUse.of(energy_of(row)) if aim.energy and value_of(row, aim.energy) < math.inf else None
    return replace(found, scratch=scratch_of(row), energy=used)
