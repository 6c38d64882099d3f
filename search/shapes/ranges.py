"""Sizes as `tune run` takes them for several shapes (a range of one size, or a list of shapes with weights), and what tuning for them gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral
from typing import TYPE_CHECKING, Any

from ...ir.errors import UsageError
from ...ir.node import Node, sym
from ...named_kernels import parse_shape

if TYPE_CHECKING:
    from ..space import Schedule


VALUES = 9
"""Sizes of a range at which schedules are timed."""


@dataclass(frozen=True, slots=True)
class SizeRange:
    """A size that is known only when the kernel is called: `name` from `lo` to `hi`, both included."""

    name: str
    lo: int
    hi: int

    def __post_init__(self) -> None:
        if not (isinstance(self.lo, Integral) and isinstance(self.hi, Integral)):
            raise UsageError(f"{self} is no range of sizes: sizes are whole numbers")
        if self.lo == self.hi:
            raise UsageError(f"{self} is a single size; write {self.name}={self.lo}")
        if self.lo > self.hi:
            raise UsageError(f"{self} is no range of sizes; write the smaller number first, as in {self.name}=1..4096")
        if self.lo < 1:
            raise UsageError(f"{self} is no range of sizes: one that varies begins at 1 or more")

    def __str__(self) -> str:
        return f"{self.name}={self.lo}..{self.hi}"

    @property
    def symbol(self) -> Node:
        """The symbolic extent."""
        return sym(self.name, self.lo, self.hi)

    def between(self, lo: int, hi: int) -> SizeRange:
        """A part of it, of at least two sizes."""
        from ...plan.size_trees import widened

        return SizeRange(self.name, *widened({self.name: (lo, hi)}, {self.name: (self.lo, self.hi)})[self.name])

    def values(self, count: int = VALUES) -> list[int]:
        """Up to `count` sizes from end to end, each about as many times larger than the one before: what is drawn uniformly on a
        logarithmic scale. Few of them are round."""
        step = (self.hi / self.lo) ** (1 / max(1, count - 1))
        return sorted({min(self.hi, max(self.lo, round(self.lo * step**i))) for i in range(count)} | {self.lo, self.hi})


def parse_range(text: str) -> tuple[dict[str, int], SizeRange | None]:
    """`"m=1..4096,n=1024"` as (the sizes that are numbers, the one that is a range). UsageError for two ranges, KernelError for what is
    no size."""
    fixed: list[str] = []
    found: SizeRange | None = None
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, _, value = part.partition("=")
        lo, dots, hi = value.partition("..")
        if not dots:
            fixed.append(part)
            continue
        name = name.strip()
        if found is not None:
            raise UsageError(f"{found} and {part} are two ranges; one size may vary, tune the others one by one")
        if not lo.strip() or not hi.strip():
            raise UsageError(f"{part} lacks an end; write both, as in {name}=1..4096")
        ends = parse_shape(f"{name}={lo}"), parse_shape(f"{name}={hi}")
        found = SizeRange(name, ends[0][name], ends[1][name])
    sizes = parse_shape(",".join(fixed))
    if found is not None and found.name in sizes:
        raise UsageError(f"size {found.name} is given twice in {text!r}")
    return sizes, found


@dataclass(frozen=True, slots=True)
class WeightedShape:
    """A shape and how much it counts."""

    shape: Mapping[str, int]
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.weight < float("inf"):
            raise UsageError(f"{self.weight} is no weight of {self}: weights are positive numbers")

    def __str__(self) -> str:
        return ",".join(f"{k}={v}" for k, v in self.shape.items()) or "the default shape"


def parse_shapes(text: str) -> list[WeightedShape]:
    """`"m=64,n=64; m=512 * 3"`: shapes, each with a weight (1 where none is given). UsageError for a weight that is none, fewer than two
    shapes, or one given twice; KernelError for what is no size."""
    out: list[WeightedShape] = []
    parts = [p.strip() for p in text.split(";")]
    for part in parts if parts[-1] else parts[:-1]:
        if not part:
            raise UsageError(f"there is an empty shape in {text!r}; leave out one of the semicolons")
        sizes, star, weight = part.partition("*")
        try:
            number = float(weight) if star else 1.0
        except ValueError:
            number = 0.0
        if not 0 < number < float("inf"):
            raise UsageError(f"{weight.strip()!r} is no weight of a shape; write --shapes 'm=64; m=512 * 3'")
        out.append(WeightedShape(parse_shape(sizes), number))
    if len(out) < 2:
        raise UsageError("--shapes wants two shapes or more, such as 'm=64; m=512 * 3'; for a single one there is --shape")
    if len({tuple(sorted(s.shape.items())) for s in out}) < len(out):
        raise UsageError(f"a shape is given twice in {text!r}; give it once, with the sum of the weights")
    return out


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
