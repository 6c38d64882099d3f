"""How well the cost models rank what is measured, kernel by kernel.

    python benchmarks/model_rank.py [--target v3|v4|native] [--only REGEX] [--schedules N] [--machine FILE]
    [--record FILE.jsonl.gz | --recorded FILE.jsonl.gz] [--json]

The kernels are those of `parts/ranking_cases.py`; half of them are held out, which means that nothing was worked on with them in view.
Schedules are drawn without a model: start schedules, instances of the templates, and short random walks of actions from both, always the same
ones. Each is built, and timed in turns, twice. Those whose two times differ by more than a fifth are left out.

`rank` is Spearman's correlation between the measured times and those of the counted model (`heuristics.counted`), `rank_by_options` the
same of the estimate from options. `pairs` is Kendall's, over pairs of schedules whose times differ by more than noise (7 %), and
`pairs_near` over those of them that are within three times the best. `first`: the measured time of the schedule that the counted model
ranks first, over the best of all; `first_ten`: that of the best of its first ten (null where ten or fewer were measured).

`--record` keeps what was measured, `--recorded` ranks it again without measuring, say with another `--machine`
(benchmarks/calibrate.py).

`start` and `start_ten` are about start schedules without the pool: the best measured time over that of the first of
`counted_order.counted_starts` that was measured, and over the best of its first ten; `plain_start` is the same of `heuristics.starts`,
whose first is used without tuning. Here 1 is best."""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import json
import os
import random
import re
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TEN = 10
AGREE = 1.2
"""How far the two times of a schedule may differ."""
NOISE, NEAR = 1.07, 3.0


@dataclass(frozen=True)
class MeasuredSpace:
    """What was measured of a kernel: options and two times of each schedule."""

    case: Any
    times: list[list[Any]]

    @property
    def steady(self) -> list[tuple[Any, float]]:
        """(options, seconds) of the schedules whose times agree."""
        return [(o, min(t)) for o, *t in self.times if max(t) <= AGREE * min(t)]

    @property
    def text(self) -> str:
        """A line of JSON."""
        return json.dumps(dataclasses.asdict(self.case) | {"times": self.times}, separators=(",", ":"))


def spaces(file: Path) -> Iterator[MeasuredSpace]:
    """Recorded spaces."""
    from parts.ranking_cases import RankingCase

    with gzip.open(file, "rt") as lines:
        for line in lines:
            found = json.loads(line)
            times = found.pop("times")
            yield MeasuredSpace(RankingCase(**found), times)


def measured(case: Any, count: int) -> MeasuredSpace:
    """Draw, build and time schedules of a kernel."""
    from parts.schedule_times import built, drawn, timed
    from tilewright import devices

    kernel, device = case.kernel(), devices.get("cpu")
    made = built(kernel, drawn(kernel, count, random.Random(case.id)), device)
    times = timed(kernel, made, device)
    return MeasuredSpace(case, [[[x.json for x in o], *(round(x, 9) for x in t)] for (o, *_), t in zip(made, times, strict=True)])


def legal(kernel: Any, schedule: Any, target: Any) -> bool:
    """Whether a schedule that was recorded is one still; what is not is named."""
    from tilewright import opts
    from tilewright.ir import OptError

    try:
        opts.apply(kernel, schedule, target)
    except OptError as e:
        print(f"left out: {kernel.name} {opts.short(schedule)}: {e}", file=sys.stderr)
        return False
    return True


def ranked(space: MeasuredSpace, machine: Any) -> dict[str, Any]:
    """One line of the result."""
    from parts.counted_order import counted_starts
    from tilewright import heuristics, opts, targets

    kernel, target = space.case.kernel(), targets.host()
    found = [(o, t) for o, t in space.steady if legal(kernel, opts.parse(o), target)]
    row: dict[str, Any] = {"kernel": space.case.name, "sizes": space.case.sizes, "held_out": space.case.held_out, "schedules": len(found)}
    if len(found) <= TEN:
        return row
    times = [t for _, t in found]
    best = min(times)
    for suffix, model in (("", heuristics.counted), ("_by_options", heuristics.estimate)):
        known = {} if machine is None else {"machine": machine}
        predicted = [model(opts.apply(kernel, opts.parse(o), target), 1, **known) for o, _ in found]
        order = sorted(range(len(found)), key=predicted.__getitem__)
        near = [i for i, t in enumerate(times) if t < NEAR * best]
        row |= {
            f"rank{suffix}": round(spearman(predicted, times), 3),
            f"pairs{suffix}": kendall(predicted, times),
            f"pairs_near{suffix}": kendall([predicted[i] for i in near], [times[i] for i in near]),
            f"first{suffix}": round(times[order[0]] / best, 3),
            f"first_ten{suffix}": round(min(times[i] for i in order[:TEN]) / best, 3),
        }
    measured = {json.dumps(o): t for o, t in found}
    for name, make in (("start", counted_starts), ("plain_start", heuristics.starts)):
        mine = [measured[text] for o in make(kernel, target, 1)[:TEN] if (text := json.dumps([x.json for x in o])) in measured]
        row |= {name: round(best / mine[0], 3), f"{name}_ten": round(best / min(mine), 3)} if mine else {}
    return row | {"best_ms": round(1e3 * best, 4), "slowest": round(max(times) / best, 1)}


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Rank correlation of two series; what is equal shares its mean rank."""
    return statistics.correlation(*(_ranks(x) for x in (a, b))) if len(set(a)) > 1 and len(set(b)) > 1 else 0.0


def _ranks(x: Sequence[float]) -> list[float]:
    return [sum(u < v for u in x) + (sum(u == v for u in x) - 1) / 2 for v in x]


def kendall(predicted: Sequence[float], times: Sequence[float]) -> float | None:
    """Of the pairs whose times differ by more than noise: those in the right order, less those in the wrong one, as a share."""
    right = wrong = 0
    for i, t in enumerate(times):
        for p, u in zip(predicted[:i], times[:i], strict=True):
            if max(t, u) > NOISE * min(t, u):
                right += (predicted[i] - p) * (t - u) > 0
                wrong += (predicted[i] - p) * (t - u) < 0
    return round((right - wrong) / (right + wrong), 3) if right + wrong else None


def summary(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A line for the kernels that are held out, and one for the others: medians, and how many reach 0.6."""
    for held in (True, False):
        mine = [r for r in rows if r["held_out"] == held and "rank" in r]
        if mine:
            line: dict[str, Any] = {"summary": "held out" if held else "worked on", "kernels": len(mine)}
            for key in (k for k in mine[0] if re.match("rank|pairs|first", k)):
                line[f"{key}_median"] = round(statistics.median(r[key] for r in mine if r[key] is not None), 3)
            for key in ("start", "start_ten", "plain_start", "plain_start_ten"):
                values = [r[key] for r in mine if r.get(key)]
                if not values:
                    continue
                line |= {f"{key}_mean": round(statistics.geometric_mean(values), 3), f"{key}_below_0.8": sum(v < 0.8 for v in values)}
            line |= {
                f"{key}_reciprocal_mean": round(1 / statistics.geometric_mean(r[key] for r in mine if r[key]), 3)
                for key in ("first", "first_ten")
            }
            yield line | {"rank_at_least_0.6": sum(r["rank"] >= 0.6 for r in mine)}


def main() -> None:
    """Print one JSON line a kernel, and two for all of them."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--target", choices=("v2", "v3", "v4", "native"), default="native")
    p.add_argument("--only", default="", metavar="REGEX")
    p.add_argument("--schedules", type=int, default=36)
    p.add_argument("--machine", type=Path, metavar="FILE")
    p.add_argument("--record", type=Path, metavar="FILE")
    p.add_argument("--recorded", type=Path, metavar="FILE")
    p.add_argument("--json", action="store_true", help="keep the rows under results/")
    args = p.parse_args()
    os.environ.pop("TILEWRIGHT_TARGET", None)
    if args.target != "native":
        os.environ["TILEWRIGHT_TARGET"] = args.target
    from parts.machine_file import load
    from parts.ranking_cases import CASES

    machine = load(args.machine) if args.machine else None
    found = spaces(args.recorded) if args.recorded else (measured(c, args.schedules) for c in CASES if re.search(args.only, c.id))
    rows, kept = [], []
    for space in found:
        if not re.search(args.only, space.case.id):
            continue
        kept.append(space.text)
        if args.record:
            with gzip.open(args.record, "wt") as out:
                out.write("\n".join(kept) + "\n")
        rows.append(ranked(space, machine))
        print(json.dumps(rows[-1]), flush=True)
    lines = list(summary(rows))
    print(*map(json.dumps, lines), sep="\n")
    if args.json:
        import record
        from tilewright.targets import lowered

        name = "model_rank" if lowered() else f"model_rank-{args.target}"
        record.keep(name, f"python benchmarks/model_rank.py {' '.join(sys.argv[1:])}", rows + lines)


if __name__ == "__main__":
    main()
