"""The pipeline schedules of the literature, generated for any number of stages and microbatches.

GPipe (arXiv 1811.06965), 1F1B (PipeDream-Flush, 2006.09503), interleaved (Megatron-LM, 2104.04473), ZB-H1 and ZB-H2
(Zero Bubble, 2401.10241), ZB-V, V-Half and V-Min (2405.15362), DualPipe (DeepSeek's README and paper, 2412.19437)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .errors import PlanError
from .list_schedule import ListProblem, ListScheduler, StageRules, periodic
from .pipeline_schedule import MOST, Block, PartCosts, PipelineSchedule, Place, StageOp, equal_parts, made, one_way, v_shaped

MOST_STAGES, MOST_MICROBATCHES = 1024, 65536


def gpipe(stages: int, microbatches: int) -> PipelineSchedule:
    """All forward passes, then all backward passes."""
    row = [StageOp(kind, i) for kind in ("F", "BW") for i in range(microbatches)]
    return made("gpipe", [one_way(stages)], [0] * microbatches, [row] * stages)


def one_f_one_b(stages: int, microbatches: int) -> PipelineSchedule:
    """A stage begins with as many forward passes as stages follow it, then does a forward and a backward pass in turns."""
    return _interleaved("1f1b", stages, microbatches, 1)


def interleaved(stages: int, microbatches: int, chunks: int = 2) -> PipelineSchedule:
    """1F1B over several chunks a stage. Raises PlanError where microbatches are not whole rounds of the stages."""
    if chunks < 1:
        raise PlanError(f"a stage holds one chunk at least, not {chunks}")
    if microbatches % stages:
        more = -(-microbatches // stages) * stages
        raise PlanError(
            f"interleaved deals microbatches in rounds of {stages} stages, and {microbatches} is no multiple: use {more}, or another schedule"
        )
    return _interleaved("interleaved", stages, microbatches, chunks)


def _interleaved(name: str, p: int, m: int, v: int) -> PipelineSchedule:
    def nth(k: int, kind: str) -> StageOp:
        chunk = k % (p * v) // p if v > 1 else 0
        i = k // (p * v) * p + k % p if v > 1 else k
        return StageOp(kind, i, chunk if kind == "F" else v - 1 - chunk)

    orders = []
    for r in range(p):
        warm = min(m * v, (p - 1 - r) * (2 if v > 1 else 1) + (v - 1) * p)
        row = [nth(k, "F") for k in range(warm)]
        for k in range(m * v):
            row += [nth(warm + k, "F")] * (warm + k < m * v) + [nth(k, "BW")]
        orders.append(row)
    return made(name, [one_way(p, v)], [0] * m, orders)


def zb_h1(stages: int, microbatches: int) -> PipelineSchedule:
    """1F1B whose gradients of weights fill the end; the memory of 1F1B."""
    return _zero_bubble("zb-h1", stages, microbatches, 1)


def zb_h2(stages: int, microbatches: int) -> PipelineSchedule:
    """About twice as many forward passes first, so that the beginning is filled too."""
    return _zero_bubble("zb-h2", stages, microbatches, 2)


def _zero_bubble(name: str, p: int, m: int, h: int) -> PipelineSchedule:
    orders = []
    for r in range(p):
        warm, late = min(m, h * (p - 1 - r)), h * (p - 1)
        row, w = [StageOp("F", i) for i in range(warm)], 0
        for i in range(m):
            row += [StageOp("F", warm + i)] * (warm + i < m) + [StageOp("B", i)]
            if h * (p - 1 - r) + i >= late:
                row.append(StageOp("W", w))
                w += 1
        orders.append(row + [StageOp("W", i) for i in range(w, m)])
    return made(name, [one_way(p)], [0] * m, orders)


def zb_v(stages: int, microbatches: int) -> PipelineSchedule:
    """Two chunks a stage, laid out as a V. Without idle time where F, B and W take equally long."""
    p, m = stages, microbatches
    if m < 2 * p - 1:
        raise PlanError(f"zb-v fills {p} stages with {2 * p - 1} microbatches or more, not {m}")
    orders = []
    for r in range(p):
        row: list[StageOp] = []
        at = {kind + chunk: 0 for kind in "FBW" for chunk in "01"}

        def do(*names: str, row: list[StageOp] = row, at: dict[str, int] = at) -> None:
            for name in names:
                row.append(StageOp(name[0], at[name], int(name[1])))
                at[name] += 1

        do(*["F0"] * (2 * (p - r) - 1), *["F1", "F0"] * r, *["F1", "B1", "W1"] * (p - r))
        while at["F1"] < at["F0"] or at["F0"] < m:
            do(*["F0"] * (at["F0"] < m), "B0", "W0", "F1", "B1", "W1")
        do(*["B0", "B1"] * r, *["B0", "W0"] * (p - r))
        do(*["W1"] * (at["B1"] - at["W1"]), *["W0"] * (at["B0"] - at["W0"]))
        orders.append(row)
    return made("zb-v", [v_shaped(p)], [0] * m, orders)


def v_half(stages: int, microbatches: int) -> PipelineSchedule:
    """Two chunks a stage as a V, in about half of 1F1B's memory: (p + 2) // 2 microbatches. Where all passes of a chunk take 1,
    idle for 3p - 5 if p is even, else 3p - 4."""
    gaps = (0.0, 0.0, 1.0) if stages % 2 else (3.0, 0.0, 4.0)
    return _repeated_block("v-half", stages, microbatches, (1.0, 2.0), gaps, (stages + 2) // 2)


def v_min(stages: int, microbatches: int) -> PipelineSchedule:
    """The same in about a third: (p + 4) // 3 microbatches. Idle for 4p - 5."""
    gaps = (0.0, 0.0, 0.0) if stages % 3 else (2.0, 0.0, 2.0)
    return _repeated_block("v-min", stages, microbatches, (1.0, 1.0), gaps, (stages + 4) // 3)


def _repeated_block(
    name: str, p: int, m: int, offsets: tuple[float, float], gaps: tuple[float, float, float], held: int
) -> PipelineSchedule:
    """A block of six passes of 1 that is repeated every 6. `gaps` keep a stage's passes of unlike microbatches from falling together; W fill
    what is left."""
    problem = ListProblem(m, v_shaped(p), equal_parts(2 * p, PartCosts(1, 1, 1)), 2.0 * held)
    found = ListScheduler(problem, [StageRules(late=2)] * p, periodic(problem, offsets, offsets[::-1], 6.0, gaps))
    return problem.schedule(name, found.orders)


def dualpipe(stages: int, microbatches: int) -> PipelineSchedule:
    """Half of the microbatches from each end; a forward and a backward pass of opposite ways run side by side in the middle. A stage holds
    two parts of the model, so an even number of stages holds it twice."""
    p, m = stages, microbatches
    if p % 2 or m % 2 or m < 2 * p:
        raise PlanError(f"dualpipe needs an even number of stages, and an even number of microbatches from {2 * p} for {p} stages on")
    orders = []
    for r in range(p):
        row = _DualPipeStage(m, own=int(r >= p // 2))
        near = min(r, p - 1 - r)
        outer = p // 2 - near - 1
        row.forward(0, 2 * outer)
        for _ in range(near + 1):
            row.forward(0)
            row.forward(1)
        for _ in range(outer):
            row.input(1)
            row.weight()
            row.forward(1)
        for k in range(m // 2 - p + near + 1):
            if k == 0 and near == p // 2 - 1:  # the two middle stages meet before anything can be paired
                row.forward(0)
                row.backward(1)
            else:
                row.pair(0, 1)
            row.pair(1, 0)
        for _ in range(outer):
            row.backward(1)
            row.pair(1, 0)
        split = False
        for k in range(near + 1):
            split = split or (k == (near + 1) // 2 and near % 2 == 1)
            (row.input if split else row.backward)(1)
            split = split or (k == (near + 1) // 2 and near % 2 == 0)
            (row.input if split else row.backward)(0)
        for _ in range(outer):
            row.weight()
            row.input(0)
        for _ in range(near + 1):
            row.weight()
        orders.append(row.blocks)
    there = tuple((k, 0) for k in range(p))
    back = tuple((p - 1 - k, 1) for k in range(p))
    return made("dualpipe", [there, back], [0] * (m // 2) + [1] * (m // 2), orders)


class _DualPipeStage:
    """The blocks of a stage of DualPipe. Way 0 comes from the nearer end; `own` says which chunk that is. Weights' gradients that were put
    off are computed first come, first served."""

    def __init__(self, m: int, own: int) -> None:
        self.blocks: list[Block] = []
        self._half, self._own, self._late = m // 2, own, list[StageOp]()
        self._at: dict[tuple[str, int], int] = {}

    def _next(self, kind: str, way: int) -> StageOp:
        chunk = way ^ self._own
        k = self._at.get((kind[0], chunk), 0)
        self._at[kind[0], chunk] = k + 1
        return StageOp(kind, k + chunk * self._half, chunk)

    def forward(self, way: int, times: int = 1) -> None:
        self.blocks += [(self._next("F", way),) for _ in range(times)]

    def backward(self, way: int) -> None:
        self.blocks.append((self._next("BW", way),))

    def input(self, way: int) -> None:
        op = self._next("B", way)
        self.blocks.append((op,))
        self._late.append(StageOp("W", op.microbatch, op.chunk))

    def weight(self) -> None:
        self.blocks.append((self._late.pop(0),))

    def pair(self, forward: int, backward: int) -> None:
        self.blocks.append((self._next("F", forward), self._next("BW", backward)))


SCHEDULES: dict[str, Callable[[int, int], PipelineSchedule]] = {
    "gpipe": gpipe,
    "1f1b": one_f_one_b,
    "interleaved": interleaved,
    "zb-h1": zb_h1,
    "zb-h2": zb_h2,
    "zb-v": zb_v,
    "v-half": v_half,
    "v-min": v_min,
    "dualpipe": dualpipe,
}
"""The schedules by name, each a function of stages and microbatches."""


def generate(name: str, stages: int, microbatches: int, chunks: int | None = None) -> PipelineSchedule:
    """The schedule of a name. `chunks`: pieces of the model on a stage, for `interleaved`. Raises PlanError."""
    if name not in SCHEDULES:
        raise PlanError(f"there is no pipeline schedule {name!r}; there are {', '.join(SCHEDULES)}")
    _check_count("stages", stages, MOST_STAGES)
    _check_count("microbatches", microbatches, MOST_MICROBATCHES)
    if stages * microbatches * (chunks or 2) * 3 > MOST:
        raise PlanError(f"{stages} stages and {microbatches} microbatches are more than {MOST} operations: fewer microbatches or stages")
    if name == "interleaved":
        return interleaved(stages, microbatches, 2 if chunks is None else chunks)
    if chunks is not None:
        raise PlanError(f"chunks are for interleaved; {name} decides them itself")
    return SCHEDULES[name](stages, microbatches)


def _check_count(what: str, n: int, most: int) -> None:
    if not 1 <= n <= most:
        raise PlanError(f"{what} must be from 1 to {most}, not {n}")


def applicable(stages: int, microbatches: int, route: Sequence[Place]) -> Sequence[PipelineSchedule]:
    """All of them that these numbers allow, over parts that lie so."""
    found = []
    for name in ("zb-v", "v-half", "v-min") if len(route) > stages else ("gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2"):
        try:
            schedule = generate(name, stages, microbatches)
        except PlanError:  # it says which numbers it needs; here it is just not a choice
            continue
        if schedule.routes == (tuple(route),):
            found.append(schedule)
    return found
