"""Sizes as `tune run` takes them for many shapes (ranges, or a list of shapes with weights), and what tuning for them gives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from random import Random
from typing import Any, Literal, get_args

from ...cache.size_tree import Ranges, SizeTree
from ...ir.errors import KernelError, UsageError
from ...named_kernels import parse_shape

How = Literal["geomean", "worst"]
HOW: tuple[str, ...] = get_args(How)


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


def parse_ranges(text: str) -> tuple[dict[str, int], list[SizeRange]]:
    """`"m=1..4096,n=64..512,k=1024"` as (the sizes that are numbers, those that are ranges). UsageError for what is no range, KernelError for
    what is no size."""
    fixed: list[str] = []
    found: dict[str, SizeRange] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, _, value = part.partition("=")
        lo, dots, hi = value.partition("..")
        if not dots:
            fixed.append(part)
            continue
        name = name.strip()
        if not lo.strip() or not hi.strip():
            raise UsageError(f"{part} lacks an end; write both, as in {name}=1..4096")
        ends = parse_shape(f"{name}={lo}"), parse_shape(f"{name}={hi}")
        if name in found:
            raise UsageError(f"size {name} is given twice in {text!r}")
        found[name] = SizeRange(name, ends[0][name], ends[1][name])
    sizes = parse_shape(",".join(fixed))
    for name in found:
        if name in sizes:
            raise UsageError(f"size {name} is given twice in {text!r}")
    return sizes, list(found.values())


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
        out.append(_weighted(part))
    if len(out) < 2:
        raise UsageError("--shapes wants two shapes or more, such as 'm=64; m=512 * 3'; for a single one there is --shape")
    if len({tuple(sorted(s.shape.items())) for s in out}) < len(out):
        raise UsageError(f"a shape is given twice in {text!r}; give it once, with the sum of the weights")
    return out


def _weighted(text: str) -> WeightedShape:
    sizes, star, weight = text.partition("*")
    try:
        number = float(weight) if star else 1.0
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise UsageError(f"{weight.strip()!r} is no weight of a shape; write --shapes 'm=64; m=512 * 3'")
    return WeightedShape(parse_shape(sizes), number)


MOST_BYTES = 1 << 20
"""Of a file of shapes."""


def shapes_in(path: str) -> list[WeightedShape]:
    """The shapes of a file: one a line, such as `m=64,n=64 * 3`, the weight being 1 where none is given; `#` begins a comment. UsageError
    that names the line."""
    found: dict[tuple[tuple[str, int], ...], WeightedShape] = {}
    try:
        with open(path, encoding="utf-8-sig") as f:
            lines = f.read(MOST_BYTES + 1)
    except (OSError, UnicodeDecodeError) as e:
        raise UsageError(f"cannot read the shapes in {path}: {e.strerror if isinstance(e, OSError) else 'it is no UTF-8 text'}") from None
    if len(lines) > MOST_BYTES:
        raise UsageError(f"{path} is larger than a list of shapes may be ({MOST_BYTES} bytes)")
    for number, line in enumerate(lines.splitlines(), 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        try:
            one = _weighted(text)
            if set(one.shape) != set(next(iter(found.values()), one).shape):
                raise UsageError(f"gives other sizes than the lines before ({', '.join(next(iter(found.values())).shape)})")
            if (key := tuple(sorted(one.shape.items()))) in found:
                raise UsageError("this shape is given twice; give it once, with the sum of the weights")
        except (UsageError, KernelError) as e:
            raise UsageError(f"{path}, line {number}: {e}") from None
        found[key] = one
    if len(found) < 2:
        raise UsageError(f"{path} has {len(found)} shapes; write two or more, one a line, such as 'm=64,n=64 * 3'")
    return list(found.values())


def drawn(ranges: Sequence[SizeRange], count: int, rng: Random) -> list[dict[str, int]]:
    """Shapes: corners, then others whose sizes are uniform on a logarithmic scale (Latin hypercube: McKay, Beckman, Conover, 1979), half of
    them as they come and half multiples of 16, as many sizes of programs are."""
    corners = [{r.name: (r.lo, r.hi)[(c >> i) & 1] for i, r in enumerate(ranges)} for c in range(1 << len(ranges))]
    rng.shuffle(corners)
    out = corners[: max(2, count // 3)]
    strata = {r.name: rng.sample(range(count), count) for r in ranges}
    for k in range(count):
        at = {}
        for r in ranges:
            x = math.exp(math.log(r.lo) + (strata[r.name][k] + rng.random()) / count * math.log(r.hi / r.lo))
            n = round(x / 16) * 16 if k % 2 and x >= 24 else round(x)
            at[r.name] = min(r.hi, max(r.lo, n))
        out.append(at)
    return [dict(s) for s in dict.fromkeys(tuple(s.items()) for s in out)][:count]


@dataclass(frozen=True, slots=True)
class SizeLoss:
    """One shape: `ours`, median seconds of the schedule that is taken there, and `best`, of the best schedule that was timed there."""

    label: str
    ours: float
    best: float
    weight: float = 1.0

    @property
    def loss(self) -> float:
        """How much longer ours takes, as a share."""
        return self.ours / self.best - 1


@dataclass(frozen=True, slots=True)
class ShapesResult:
    """What `tune_sizes` returns. `tree`: which schedule is for which sizes; None where nothing was found. `losses`: what it costs at
    shapes that had no part in the choice (`listed`: at the listed ones); `loss`: their weighted geometric mean, `worst`: the largest. `shapes`: how many the
    choice was made on."""

    kernel: str
    shape: Mapping[str, int]
    dtype: str
    device: str
    threads: int
    ranges: Ranges
    tree: SizeTree | None
    listed: bool
    losses: tuple[SizeLoss, ...]
    loss: float | None
    worst: float | None
    shapes: int
    counts: Mapping[str, int]
    seconds: float
    message: str = ""
    exit_code: int = 0

    def to_json(self) -> dict[str, Any]:
        """Plain data; times in seconds."""
        return {
            "schema": 2,
            "kernel": self.kernel,
            "shape": dict(self.shape),
            "dtype": self.dtype,
            "device": self.device,
            "threads": self.threads,
            "ranges": {n: list(r) for n, r in self.ranges.items()},
            "tree": [] if self.tree is None else self.tree.lines(),
            "losses": [{"shape": x.label, "ours": x.ours, "best": x.best, "loss": x.loss, "weight": x.weight} for x in self.losses],
            "loss": self.loss,
            "worst": self.worst,
            "shapes": self.shapes,
            "counts": dict(self.counts),
            "seconds": self.seconds,
            "message": self.message,
            "exit_code": self.exit_code,
        }
