"""From naive loops to the best schedule, one option at a time: what each step of matmul's and attention's story is worth, measured.

    python benchmarks/ladder.py [--kernel matmul attention] [--threads N] [--step N ...] [--rounds 6] [--budget 30s] [--write]

Every step is verified like any candidate of a search, then all steps of a story are timed in turns, round after
round. `ms` is the median over rounds of a round's median; `gain` is the median over rounds of the quotient with the
step before, within a round. Steps that take over half a second are timed in the first two rounds only. The last two
steps are the start schedule and the winner of a search of `--budget` from an empty cache. `--write` puts the tables
into docs/ladder.md, and the rows into results/ladder.json with the machine and the date."""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from parts.ladder_steps import COMPUTED, STORIES, Step, Story
from tilewright import devices, named_kernels
from tilewright.heuristics import starts
from tilewright.ir.cost import cost
from tilewright.ir.normal_form import normalise
from tilewright.measure import Measurement, Measurer
from tilewright.measure.roofline import roofline
from tilewright.opts.opt import parse, short
from tilewright.search import tune

PAGE = Path(__file__).resolve().parent.parent / "docs" / "ladder.md"
SLOW_S = 0.5
SLOW_ROUNDS = 2
DEADLINE_S = 120.0
"""One call of a naive step may take this long."""


def schedules(story: Story, threads: int, budget: str, steps: Sequence[Step]) -> list[tuple[Any, ...]]:
    """The options of each step; those of the last two are computed here."""
    device = devices.get("cpu")
    out: list[tuple[Any, ...]] = []
    for s in steps:
        if s.title == "start":
            out.append(starts(normalise(named_kernels.make(story.kernel, story.shape, "float32")), device.target, threads)[0])
        elif s.title == "tuned":
            with tempfile.TemporaryDirectory() as folder:
                found = tune(
                    story.kernel, shape=story.shape, dtype="float32", threads=threads, budget=budget, cache=Path(folder) / "cache.db"
                )
            out.append(found.opts)
        else:
            out.append(s.opts)
    return out


def climb(story: Story, threads: int, rounds: int, budget: str, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """One row a step: measured in turns in one run."""
    steps = [s for i, s in enumerate(story.steps, 1) if not numbers or i in numbers]
    lists = schedules(story, threads, budget, steps)
    kernel = normalise(named_kernels.make(story.kernel, story.shape, "float32"))
    device = devices.get("cpu")
    limits, flops = device.limits(), cost(kernel).flops
    roof = roofline(kernel, limits, threads, target=device.target) if limits else None
    times: list[list[float]] = [[] for _ in steps]
    with Measurer(kernel, "cpu", threads, deadline_s=DEADLINE_S) as m:
        built: dict[int, Any] = dict(m.build(lists))
        for r in range(rounds):
            for i in range(len(steps))[:: 1 if r % 2 else -1]:
                if r >= SLOW_ROUNDS and times[i][0] > SLOW_S:
                    continue
                got = built[i] if isinstance(built[i], Measurement) else m.measure([built[i]])[0]
                if not got.ok or got.t_med is None:
                    raise SystemExit(f"{story.kernel}, {steps[i].title}: {got.outcome.value}: {got.detail}")
                times[i].append(got.t_med)
    rows = []
    for i, s in enumerate(steps):
        t = statistics.median(times[i])
        gain = statistics.median(a / b for a, b in zip(times[i - 1], times[i], strict=False)) if i else None
        rows.append(
            {
                "kernel": story.kernel,
                "shape": story.shape,
                "device": "cpu",
                "threads": threads,
                "step": story.steps.index(s) + 1,
                "title": s.title,
                "opts": [o.json for o in lists[i]],
                "short": short(lists[i]),
                "ms": round(t * 1e3, 3),
                "gflops": round(flops / t / 1e9, 2),
                "roofline_pct": round(roof.percent(t), 2) if roof else None,
                "gain": round(gain, 3) if gain else None,
                "rounds": len(times[i]),
                "budget": budget if s.title == "tuned" else None,
                "same_source": i > 0 and getattr(built[i], "sha", None) == getattr(built[i - 1], "sha", None),
            }
        )
    return rows


def page(text: str, rows: list[dict[str, Any]]) -> str:
    """The page with the table, the reasons and the commands of each kernel in `rows` between its markers."""
    for story in STORIES:
        mine = [r for r in rows if r["kernel"] == story.kernel]
        if not mine:
            continue
        begin, end = f"<!-- ladder {story.kernel} -->\n", f"<!-- end {story.kernel} -->"
        before, rest = text.split(begin)
        text = before + begin + section(story, mine) + end + rest.split(end, 1)[1]
    return text


def section(story: Story, rows: list[dict[str, Any]]) -> str:
    """What stands between a kernel's markers."""
    shape = ",".join(f"{k}={v}" for k, v in story.shape.items())
    threads = rows[0]["threads"]
    lines = [f"`{story.kernel}` {shape}, float32, {threads} thread{'s' * (threads != 1)}:", ""]
    lines += ["| | step | options | ms | GFLOP/s | of the roofline | gain |", "|--:|---|---|--:|--:|--:|--:|"]
    for r in rows:
        share = f"{r['roofline_pct']:.2g} %" if r["roofline_pct"] is not None else "-"
        gain = "same code" if r["same_source"] else f"{r['gain']:.2f}x" if r["gain"] else ""
        lines.append(
            f"| {r['step']} | {r['title']} | {_code(r['short'])} | {_figure(r['ms'])} | {_figure(r['gflops'])} | {share} | {gain} |"
        )
    lines += ["", *(f"{r['step']}. **{r['title']}.** {story.steps[r['step'] - 1].why}" for r in rows), "", "```sh"]
    for r, s in ((r, story.steps[r["step"] - 1]) for r in rows):
        opts = short(parse(r["opts"]) if s.title in COMPUTED else s.opts)
        lines.append(f"tune show --kernel {story.kernel} --shape {shape} --opts '{opts}'")
    return "\n".join([*lines, "```", ""])


def _code(text: str) -> str:
    return f"`{text}`" if text else "(none)"


def _figure(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def main() -> None:
    """Print one JSON line a step; with `--write` rewrite the page and the record."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [s.kernel for s in STORIES]
    p.add_argument("--kernel", nargs="*", choices=names, default=names)
    p.add_argument("--threads", type=int, default=devices.get("cpu").threads)
    p.add_argument("--step", type=int, nargs="*", default=[], help="only the steps of these numbers, from 1")
    p.add_argument("--rounds", type=int, default=6)
    p.add_argument("--budget", default="30s", help="of the search for the last step")
    p.add_argument("--write", action="store_true", help="rewrite docs/ladder.md and results/ladder.json")
    args = p.parse_args()
    if args.write and (args.step or set(args.kernel) != set(names)):
        p.error("--write needs every step of every kernel: leave out --step and --kernel")
    rows = []
    for story in (s for s in STORIES if s.kernel in args.kernel):
        for row in climb(story, args.threads, args.rounds, args.budget, args.step):
            print(json.dumps(row), flush=True)
            rows.append(row)
    if args.write:
        from record import keep

        PAGE.write_text(page(PAGE.read_text(), rows))
        keep("ladder", f"python benchmarks/ladder.py --write --threads {args.threads} --rounds {args.rounds} --budget {args.budget}", rows)


if __name__ == "__main__":
    main()
