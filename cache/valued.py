"""What rows are worth for an objective: their seconds, joules or bytes, and which of them no other beats in both of two."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .objectives import ENERGIES
from .rows import Row


def energy_of(row: Row) -> Mapping[str, Any]:
    """What a row says of energy: the fields of `measure.outcome.EnergyUse`; empty where it was not measured."""
    found = row.facts.get("energy")
    return found if isinstance(found, Mapping) and isinstance(found.get("joules"), float) else {}


def scratch_of(row: Row) -> int | None:
    """Bytes beside the arguments; None where the row does not say."""
    found = row.facts.get("scratch")
    return found if isinstance(found, int) else None


def value_of(row: Row, name: str) -> float:
    """A row's value of one objective: seconds (the least), joules or bytes; infinity where it was not measured."""
    if name == "scratch":
        found = scratch_of(row)
        return float("inf") if found is None else float(found)
    if name in ENERGIES:
        about = energy_of(row)
        # with and without what the machine takes at rest are two figures
        known = about and (about.get("idle_w") is None) == (name == "energy")
        return float(about["joules"]) if known else float("inf")
    least = row.t_min if row.t_min is not None else row.t_med
    return float("inf") if least is None else least


def undominated(rows: Iterable[Row], objective: str) -> list[Row]:
    """The front of two: rows to which no other is equal or better in both, the smallest in the first objective first."""
    a, b = objective.split(",")
    found: list[Row] = []
    for row in sorted(rows, key=lambda r: (value_of(r, a), value_of(r, b), r.digest)):
        if value_of(row, b) < min((value_of(f, b) for f in found), default=float("inf")):
            found.append(row)
    return found
