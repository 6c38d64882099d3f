"""Pipeline schedules as plain data: what each stage does, in which order; their text form and strict JSON."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .errors import PlanError

# pipeline costs -------------------------------------------------------------------------------------------------------
#
# What the operations of a pipeline cost: seconds and bytes of each part of the model, and of the links between
# stages.


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
        """Seconds of an operation of this kind alone."""
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


# pipeline schedule ----------------------------------------------------------------------------------------------------

SCHEMA = 1
KINDS = ("F", "B", "W", "BW")
"""Forward, gradient of the input, gradient of the weights, and both gradients at once."""
MOST = 1 << 20
"""Operations that a schedule may have."""
_OP = re.compile(r"(F|BW|B|W)(\d{1,7})(?:\.(\d{1,5}))?")


@dataclass(frozen=True, slots=True, order=True)
class StageOp:
    """One pass of a microbatch over a chunk: a piece of the model that its stage holds."""

    kind: str
    microbatch: int
    chunk: int = 0

    def __str__(self) -> str:
        return f"{self.kind}{self.microbatch}" + (f".{self.chunk}" if self.chunk else "")


Block = tuple[StageOp, ...]
"""What a stage does at a time: an operation, or a forward and a backward pass side by side."""
Place = tuple[int, int]
"""(stage, chunk)."""


@dataclass(frozen=True)
class PipelineSchedule:
    """`routes`: where the parts of the model lie, first to last, as (stage, chunk); DualPipe has one for each direction. `route_of`: the
    route of each microbatch. `orders`: the blocks of each stage. Raises PlanError where it is no schedule: an operation that is missing,
    twice, or on a stage that does not hold its chunk."""

    name: str
    routes: tuple[tuple[Place, ...], ...]
    route_of: tuple[int, ...]
    orders: tuple[tuple[Block, ...], ...]

    def __post_init__(self) -> None:
        _check_routes(self)
        _check_operations(self)

    @property
    def stages(self) -> int:
        return len(self.orders)

    @property
    def microbatches(self) -> int:
        return len(self.route_of)

    @property
    def parts(self) -> int:
        """Pieces that the model is cut into."""
        return len(self.routes[0])

    @property
    def chunks(self) -> int:
        """Pieces that a stage holds, at most."""
        return 1 + max(chunk for route in self.routes for _, chunk in route)

    @cached_property
    def part_at(self) -> dict[Place, tuple[int, int]]:
        """(route, part of the model) at each (stage, chunk)."""
        return {place: (r, k) for r, route in enumerate(self.routes) for k, place in enumerate(route)}

    def parts_of(self, stage: int) -> list[int]:
        """Parts of the model that a stage holds, by chunk."""
        return [part for (s, _), (_, part) in sorted(self.part_at.items()) if s == stage]

    @cached_property
    def in_flight(self) -> list[int]:
        """The most microbatches of which a part of the model holds activations at once, from F until W."""
        most = [0] * self.parts
        for stage, order in enumerate(self.orders):
            now: Counter[int] = Counter()
            for block in order:
                for op in block:
                    now[op.chunk] += op.kind == "F"
                    part = self.part_at[stage, op.chunk][1]
                    most[part] = max(most[part], now[op.chunk])
                for op in block:
                    now[op.chunk] -= op.kind in ("W", "BW")
        return most

    @property
    def splits(self) -> bool:
        """Whether gradients of weights are operations of their own."""
        return any(op.kind == "W" for _, op in self.operations())

    def operations(self) -> Iterator[tuple[int, StageOp]]:
        """(stage, operation) of all, stage by stage."""
        for stage, order in enumerate(self.orders):
            for block in order:
                for op in block:
                    yield stage, op

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "name": self.name,
            "routes": [[list(place) for place in route] for route in self.routes],
            "route_of": list(self.route_of),
            "orders": [["+".join(map(str, block)) for block in order] for order in self.orders],
        }

    @staticmethod
    def from_json(data: Any) -> PipelineSchedule:
        """Reads what `to_json` made, or its text. Raises PlanError for anything else."""
        if isinstance(data, (str, bytes)):
            try:
                data = json.loads(data, object_pairs_hook=_without_duplicates)
            except (ValueError, RecursionError) as e:
                raise PlanError(f"a pipeline schedule is not JSON: {e}") from None
        fields = {"schema", "name", "routes", "route_of", "orders"}
        if not isinstance(data, dict) or data.keys() != fields:
            found = ", ".join(sorted(map(str, data))) if isinstance(data, dict) else type(data).__name__
            raise PlanError(f"a pipeline schedule has the fields {', '.join(sorted(fields))}; this has {found or 'none'}")
        if data["schema"] != SCHEMA or isinstance(data["schema"], bool):
            raise PlanError(f"this pipeline schedule has schema {data['schema']!r}, and {SCHEMA} is known here")
        if not isinstance(data["name"], str) or not data["name"] or len(data["name"]) > 100:
            raise PlanError("the name of a pipeline schedule is a text of 1 to 100 characters")
        routes = tuple(tuple(_place(place) for place in _list(route, "a route")) for route in _list(data["routes"], "routes"))
        route_of = tuple(_natural(r, "route_of") for r in _list(data["route_of"], "route_of"))
        orders = tuple(tuple(block_of(b) for b in _list(order, "an order")) for order in _list(data["orders"], "orders"))
        return PipelineSchedule(data["name"], routes, route_of, orders)


def block_of(text: Any) -> Block:
    """The block of a text such as `F0`, `B3.1` or `F4+BW2.1`. Raises PlanError."""
    words = text.split("+") if isinstance(text, str) else []
    found = [_OP.fullmatch(word) for word in words]
    ops = tuple(StageOp(m[1], int(m[2]), int(m[3] or 0)) for m in found if m is not None)
    if not ops or len(ops) != len(words) or len(ops) > 2:
        raise PlanError(f"cannot read {text!r} as a block; write F0, B3.1, W2, BW5, or a pair such as F4+BW2.1")
    if len(ops) == 2 and (ops[0].kind != "F" or ops[1].kind not in ("B", "BW")):
        raise PlanError(f"a pair is a forward and a backward pass, as in F4+BW2.1; this is {text!r}")
    return ops


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("a field is there twice")
    return dict(pairs)


def _list(x: Any, what: str) -> list[Any]:
    if not isinstance(x, list):
        raise PlanError(f"{what} of a pipeline schedule must be a list; this is {x!r:.60}")
    return x


def _natural(x: Any, what: str) -> int:
    if not isinstance(x, int) or isinstance(x, bool) or not 0 <= x < MOST:
        raise PlanError(f"{what} of a pipeline schedule holds natural numbers; this is {x!r:.60}")
    return x


def _place(x: Any) -> Place:
    if not isinstance(x, list) or len(x) != 2:
        raise PlanError(f"a route holds [stage, chunk]; this is {x!r:.60}")
    return _natural(x[0], "a route"), _natural(x[1], "a route")


def _check_routes(s: PipelineSchedule) -> None:
    if not s.orders or not s.route_of or not s.routes or not s.routes[0]:
        raise PlanError(f"{s.name} needs a stage, a part of the model and a microbatch at least")
    if not all(s.orders):
        raise PlanError(f"stage {s.orders.index(())} of {s.name} does nothing: leave it out")
    if len({len(route) for route in s.routes}) != 1:
        raise PlanError(f"the routes of {s.name} have unlike numbers of parts")
    places = [place for route in s.routes for place in route]
    if len(set(places)) != len(places):
        raise PlanError(f"two parts of {s.name} lie in one chunk of a stage")
    far = [stage for stage, _ in places if stage >= s.stages]
    if far:
        raise PlanError(f"a route of {s.name} goes over stage {far[0]}, and there are {s.stages}")
    wrong = [r for r in s.route_of if r >= len(s.routes)]
    if wrong:
        raise PlanError(f"a microbatch of {s.name} takes route {wrong[0]}, and there are {len(s.routes)}")


def _check_operations(s: PipelineSchedule) -> None:
    if sum(len(order) for order in s.orders) > MOST:
        raise PlanError(f"{s.name} has more than {MOST} operations: fewer microbatches or stages")
    seen: set[tuple[int, StageOp]] = set()
    for stage, op in s.operations():
        at = s.part_at.get((stage, op.chunk))
        if op.microbatch >= s.microbatches or at is None or at[0] != s.route_of[op.microbatch]:
            raise PlanError(f"{op} of {s.name} cannot be on stage {stage}: no chunk there is on the way of that microbatch")
        if (stage, op) in seen:
            raise PlanError(f"{op} is twice on stage {stage} of {s.name}")
        seen.add((stage, op))
    for i, r in enumerate(s.route_of):
        for stage, chunk in s.routes[r]:
            has = {kind for kind in KINDS if (stage, StageOp(kind, i, chunk)) in seen}
            if has not in ({"F", "BW"}, {"F", "B", "W"}):
                raise PlanError(f"{s.name}: {_missing(has, StageOp('F', i, chunk))} on stage {stage}")


def _missing(has: set[str], f: StageOp) -> str:
    i = str(f)[1:]
    if "BW" in has and has & {"B", "W"}:
        return f"BW{i} and {min(has & {'B', 'W'})}{i} compute the same gradients"
    if "F" not in has:
        return f"F{i} is missing" + (f", and {max(has)}{i} waits for it" if has else "")
    if "B" in has:
        return f"B{i} has no W{i}: the gradient of the weights is lost"
    return f"F{i} has no B{i} or BW{i}" + (f", and W{i} waits for it" if "W" in has else "")


def one_way(stages: int, chunks: int = 1) -> tuple[Place, ...]:
    """The route that goes over all stages once for each chunk."""
    return tuple((k % stages, k // stages) for k in range(stages * chunks))


def v_shaped(stages: int) -> tuple[Place, ...]:
    """The route that goes over all stages to the last and back: the first and the last part lie on stage 0."""
    return (*((k, 0) for k in range(stages)), *((k, 1) for k in reversed(range(stages))))


def made(
    name: str, routes: Sequence[tuple[Place, ...]], route_of: Sequence[int], orders: Sequence[Sequence[Block | StageOp]]
) -> PipelineSchedule:
    """A schedule of lists in which a lone operation may stand for its block."""
    blocks = tuple(tuple((b,) if isinstance(b, StageOp) else b for b in order) for order in orders)
    return PipelineSchedule(name, tuple(routes), tuple(route_of), blocks)
