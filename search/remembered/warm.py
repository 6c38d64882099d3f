"""What the cache already knows about a kernel: the answer itself, or schedules to start from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ...cache.choice import Standing
from ...cache.valued import energy_of, scratch_of
from ...ir.errors import OptError
from .effort import Effort

if TYPE_CHECKING:
    from ...cache import Cache, Key, Row
    from ...ir.normal_form.canonical import Canonical
    from ...plan import Plan
    from ..result import Job, Result
    from ..space import Schedule, Space
    from ..task import TuningTask


NOTES = {
    Standing.unconfirmed: "checked once: a run of `tune run` checks it again",
    Standing.unverified: "elsewhere, so unverified here: a run of `tune run` checks and times it",
}


def stored(cache: Cache, key: Key, canonical: Canonical, space: Space, top: int = 3) -> list[Schedule]:
    """The answers of earlier runs, then the fastest schedules measured for this key, whether or not that run was
    finished: where a killed or repeated search goes on."""
    rows = cache.rows(kernel=key.kernel, target=key.target, threads=key.threads, compiler=key.compiler, policy=key.policy, outcome="ok")
    return _legal(sorted(rows, key=lambda r: (not r.verified, r.t_med or 0.0)), canonical, space, top)


def related(cache: Cache, key: Key, canonical: Canonical, space: Space, loose: Mapping[str, str], job: Job, top: int = 2) -> list[Schedule]:
    """Winners of the nearest other shapes and epilogues."""
    rows = cache.nearest(key, loose.get("extents", ""), loose.get("epilogue", ""), shape=job.shape, flops=job.flops or None)
    return _legal(rows, canonical, space, top)


def _legal(rows: Iterable[Row], canonical: Canonical, space: Space, top: int) -> list[Schedule]:
    """Their options in this kernel's names, those that are legal here, each schedule once."""
    from ...opts import parse
    from ...opts.written.syntax import SYNTAX

    found: dict[str, Schedule] = {}
    for row in rows:
        if len(found) == top:
            break
        try:
            opts = parse(canonical.from_canonical(json.loads(row.opts), SYNTAX))
        except OptError:
            continue  # written by another version, or about axes this kernel lacks: of no use as a start
        state = space.state(opts)
        if state is not None:
            found.setdefault(state.hash, opts)
    return list(found.values())


def answer(job: Job, plan: Plan, seconds: float, front: tuple[dict[str, Any], ...] = ()) -> Result:
    """The cached row of an exact plan as a result; of two objectives with the members of the `front`."""
    from ...opts import parse
    from .. import result as results

    row = plan.row
    assert row is not None and plan.standing is not None
    provenance = row.facts
    effort = Effort.of(row)
    said = [
        f"found in the cache (measured {row.when}",
        *([f"after {effort}"] if effort else []),
        *([NOTES[plan.standing]] if plan.standing in NOTES else []),
    ]
    seed_opts = provenance.get("seed_opts")
    gain = provenance.get("gain")
    return results.make(
        job,
        opts=plan.opts,
        t_min=row.t_min,
        t_med=row.t_med,
        n=row.n,
        seed_opts=None if seed_opts is None else parse(seed_opts),
        seed_s=row.seed_s,
        gain=gain if isinstance(gain, float) else None,
        verified=row.verified,
        confirmed=bool(provenance.get("confirmed", False)),
        standing=str(plan.standing),
        pinned=row.pinned,
        origin="cached",
        seconds=seconds,
        source_sha=row.source_sha or None,
        energy=dict(energy_of(row)) or None,
        scratch=scratch_of(row),
        seed_value=value if isinstance(value := provenance.get("seed_value"), (int, float)) else None,
        front=front,
        message=", ".join(said) + ")",
    )


def front_of(task: TuningTask, cache: Cache) -> tuple[dict[str, Any], ...]:
    """The members of the front of a task's key, as a result holds them; none where it has one objective."""
    from ...cache.objectives import FRONTS
    from ...plan.asked import front

    if task.key.objective not in FRONTS:
        return ()
    return tuple(
        {
            "t_min": r.t_min,
            "t_med": r.t_med,
            "joules": energy_of(r).get("joules"),
            "scratch": scratch_of(r),
            "opts": json.loads(r.opts_display),
            "confirmed": bool(r.facts.get("confirmed")),
        }
        for r in front(cache, task.key)
    )
