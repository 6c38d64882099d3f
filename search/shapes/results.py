"""What tuning for several sizes gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..space import Schedule
    from .ranges import SizeRange


@dataclass(frozen=True, slots=True)
class Bucket:
    """A part of a range of sizes, both ends included, and its schedule. `times`: median seconds a call at the sizes that were timed.
    `confirmed`: it passed a winner's second check, and is recorded."""

    lo: int
    hi: int
    opts: Schedule
    times: Mapping[int, float] = field(default_factory=dict)
    confirmed: bool = False


@dataclass(frozen=True, slots=True)
class SizeLoss:
    """One size: `ours`, median seconds of the schedule that is taken there, and `alone`, of the best schedule found for a kernel of just
    this size (None where none was searched for)."""

    label: str
    ours: float
    alone: float | None

    @property
    def loss(self) -> float | None:
        """How much longer ours takes, as a share."""
        return None if self.alone is None else self.ours / self.alone - 1


@dataclass(frozen=True, slots=True)
class ShapesResult:
    """What `tune_buckets` and `tune_shapes` return. Of a range: its buckets, and `whole`, the schedule that alone serves all of it, with
    `whole_loss`, how much longer it takes in the geometric mean (None
    of a cached answer). Of a list of shapes: one schedule, `whole`. `losses`: what
    being general costs, by size; `loss`: its (weighted) geometric mean, None where nothing was tuned alone."""

    kernel: str
    shape: Mapping[str, int]
    dtype: str
    device: str
    threads: int
    range: SizeRange | None
    buckets: tuple[Bucket, ...]
    whole: Schedule
    whole_loss: float | None
    losses: tuple[SizeLoss, ...]
    loss: float | None
    counts: Mapping[str, int]
    seconds: float
    message: str = ""
    exit_code: int = 0

    def to_json(self) -> dict[str, Any]:
        """Plain data; options in their JSON form, times in seconds."""
        return {
            "schema": 1,
            "kernel": self.kernel,
            "shape": dict(self.shape),
            "dtype": self.dtype,
            "device": self.device,
            "threads": self.threads,
            "range": str(self.range) if self.range else None,
            "buckets": [
                {
                    "lo": b.lo,
                    "hi": b.hi,
                    "opts": [o.json for o in b.opts],
                    "times": {str(v): t for v, t in b.times.items()},
                    "confirmed": b.confirmed,
                }
                for b in self.buckets
            ],
            "whole": [o.json for o in self.whole],
            "whole_loss": self.whole_loss,
            "losses": [{"size": x.label, "ours": x.ours, "alone": x.alone, "loss": x.loss} for x in self.losses],
            "loss": self.loss,
            "counts": dict(self.counts),
            "seconds": self.seconds,
            "message": self.message,
            "exit_code": self.exit_code,
        }
