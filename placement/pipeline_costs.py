"""What the operations of a pipeline cost: seconds and bytes of each part of the model, and of the links between stages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .errors import PlanError


@dataclass(frozen=True, slots=True)
class PartCosts:
    """A part of the model. Seconds: `forward`, `input` and `weight` of its passes, `pair` of a forward and a whole
    backward pass side by side (None: their sum). Bytes: `held` from the forward pass to the gradient of the input,
    `held_weight` from there to the gradient of the weights, `sent` to the next part (and as much comes back), `fixed`
    what lies there always: parameters, gradients, optimiser state."""

    forward: float
    input: float
    weight: float
    pair: float | None = None
    held: float = 1.0
    held_weight: float = 1.0
    sent: float = 0.0
    fixed: float = 0.0

    def __post_init__(self) -> None:
        numbers = (self.forward, self.input, self.weight, self.pair or 0.0, self.held, self.held_weight, self.sent, self.fixed)
        if not all(math.isfinite(x) and x >= 0 for x in numbers):
            raise PlanError("times and sizes of a part of the model must be finite, and not negative")

    def seconds(self, kind: str) -> float:
        """Of an operation of this kind alone."""
        return {"F": self.forward, "B": self.input, "W": self.weight, "BW": self.input + self.weight}[kind]

    def divided(self, n: int) -> PartCosts:
        """The costs of each of `n` equal pieces of it."""
        pair = None if self.pair is None else self.pair / n
        seconds = self.forward / n, self.input / n, self.weight / n
        return PartCosts(*seconds, pair, self.held / n, self.held_weight / n, self.sent, self.fixed / n)


@dataclass(frozen=True, slots=True)
class Link:
    """A transfer of b bytes takes `alpha` + `beta` b seconds, of which it has the link to itself for `beta` b."""

    alpha: float = 0.0
    beta: float = 0.0

    def __post_init__(self) -> None:
        if not all(math.isfinite(x) and x >= 0 for x in (self.alpha, self.beta)):
            raise PlanError("a link's seconds, and its seconds a byte, must be finite, and not negative")

    def seconds(self, nbytes: float) -> float:
        return self.alpha + self.beta * nbytes


@dataclass(frozen=True)
class PipelineCosts:
    """`parts`: the model, first part to last. `link`: between any two stages; `links`: those that are unlike it, by (from, to)."""

    parts: Sequence[PartCosts]
    link: Link = Link()
    links: Mapping[tuple[int, int], Link] = field(default_factory=dict)

    def between(self, source: int, target: int) -> Link:
        return self.links.get((source, target), self.link)


def equal_parts(n: int, part: PartCosts, transfer: float = 0.0) -> PipelineCosts:
    """`n` equal parts, and `transfer` seconds between stages."""
    return PipelineCosts((part,) * n, Link(transfer))
