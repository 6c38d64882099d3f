"""What collectives cost over an axis of a mesh of devices, by the alpha-beta model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from .errors import PlanError

KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "send")


@dataclass(frozen=True)
class MeshAxis:
    """`n` devices in a row: a collective of b bytes takes `alpha` seconds, and `beta` seconds for each byte that a
    device sends. `rates`: (alpha, beta) of kinds that were measured. `extra`: seconds more of an all-reduce, an
    all-gather and a reduce-scatter (Alpa has .01, .1 and .001 in its units)."""

    n: int
    alpha: float = 0.0
    beta: float = 0.0
    extra: tuple[float, float, float] = (0.0, 0.0, 0.0)
    rates: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.n < 1:
            raise PlanError(f"an axis of a mesh has one device at least, not {self.n}")
        if not all(math.isfinite(x) and x >= 0 for x in (self.alpha, self.beta, *self.extra)):
            raise PlanError("a link's seconds, and its seconds a byte, must be finite, and not negative")

    def sent(self, kind: str, nbytes: float) -> float:
        """Bytes that each device sends. `nbytes`: of the whole array (for all-to-all, of the part that a device has;
        for send, of the message)."""
        share = (self.n - 1) / self.n
        return {"all-reduce": 2 * share, "all-gather": share, "reduce-scatter": share, "all-to-all": share, "send": 1.0}[kind] * nbytes

    def seconds(self, kind: str, nbytes: float) -> float:
        """Seconds of a collective on an array of so many bytes; 0 where there is one device."""
        if self.n == 1:
            return 0.0
        more = dict(zip(KINDS, self.extra)).get(kind, 0.0)
        alpha, beta = self.rates.get(kind, (self.alpha, self.beta))
        return alpha + beta * self.sent(kind, nbytes) + more


Mesh = tuple[MeshAxis, ...]


def devices(mesh: Mesh) -> int:
    """How many a mesh has."""
    return math.prod(axis.n for axis in mesh)
