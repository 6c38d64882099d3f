"""What a piece of code takes of a processor's units."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Uses:
    """Micro-operations of the arithmetic units, of the one that shuffles, of loads and stores; cycles of the divider; and all that is
    issued, in slots. Sums of these are the work of a piece of code."""

    arith: float = 0.0
    shuffles: float = 0.0
    loads: float = 0.0
    stores: float = 0.0
    divider: float = 0.0
    issued: float = 0.0

    def add(self, other: Uses, times: float = 1.0) -> None:
        """Count another's as well."""
        self.arith += times * other.arith
        self.shuffles += times * other.shuffles
        self.loads += times * other.loads
        self.stores += times * other.stores
        self.divider += times * other.divider
        self.issued += times * other.issued
