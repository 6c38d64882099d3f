"""Made-up spaces in the shape of public ones: thousands of configurations, restrictions that are known before and
failures that are not. Work on these, never on the spaces that judge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..recording import RecordedEntry, Recording
from .columns import options, schedule
from .families import FAMILIES
from .families_more import MORE
from .families_rugged import RUGGED
from .families_unseen import UNSEEN
from .families_whole import WHOLE_SPACES, calm
from .physics import machine, run


def made_up(family: str, seed: int) -> Recording:
    """A space of a family on the machine of a seed."""
    import numpy as np

    make = {**FAMILIES, **MORE, **RUGGED, **WHOLE_SPACES, **UNSEEN}[family]
    rng = np.random.default_rng([seed, len(family)])
    on = calm(machine(seed)) if family in {**WHOLE_SPACES, **UNSEEN} else machine(seed)
    columns, work = make(on, rng)
    times, runs = run(on, work, rng)
    wrong = rng.random(len(times)) < 0.004
    compiling = on.compile_s * np.exp(rng.normal(0, 0.15, len(times))) * (1 + work["regs"] / 400)
    entries = []
    names = list(columns)
    table = options({k: sorted({_plain(x) for x in v.tolist()}) for k, v in columns.items()})
    for i in range(len(times)):
        chosen = {k: _plain(columns[k][i]) for k in names}
        good = bool(runs[i]) and not wrong[i]
        cost = float(compiling[i]) + (32 * float(times[i]) if good else 0.0)
        opts = schedule(table, chosen)
        entries.append(
            RecordedEntry(opts, str(i), 1.0, "ok" if good else "build", float(times[i]) if good else None, cost, "space", chosen)
        )
    return Recording({"kernel": family, "machine": f"made up {seed}"}, (), tuple(entries))


def several(names: Mapping[str, range]) -> Iterator[tuple[str, Recording]]:
    """(name, space) for the seeds of each family."""
    for family, seeds in names.items():
        for seed in seeds:
            yield f"{family}-{seed}", made_up(family, seed)


def _plain(x: float) -> int | float:
    return int(x) if float(x).is_integer() else float(x)
