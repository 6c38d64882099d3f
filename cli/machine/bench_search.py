"""`tune bench-search`: every strategy's score on recorded spaces."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...ir.errors import UsageError
from ...targets import lowered
from ..terminal.output import write
from ..terminal.style import console

if TYPE_CHECKING:
    from ...search.bench.recording import Recording
    from ...search.bench.scores import StrategyScores


def run(args: Namespace) -> int:
    """Score, print a table, write JSON where it is asked for."""
    from ...search.bench.scores import available, score_all

    if args.record is not None or args.kernel is not None:
        return _record(args)
    if args.repeats < 1:
        raise UsageError(f"--repeats must be at least 1, not {args.repeats}")
    share = _share(args.budget)
    names = [n.strip() for n in args.strategies.split(",") if n.strip()] if args.strategies else available()
    if not names:
        raise UsageError("--strategies names none; leave it out for all")
    spaces = _spaces(args.files)
    shown = sys.stderr.isatty() and not args.quiet

    def told(strategy: str, space: str) -> None:
        if shown:
            print(f"\r\x1b[K{strategy} on {space}", end="", file=sys.stderr, flush=True)

    scores = score_all(spaces, names, args.repeats, share, told)
    if shown:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    if args.json != "-":
        _print(scores, spaces, args.repeats, share)
    if args.json:
        write(args.json, json.dumps(_json(scores, spaces, args.repeats, share), indent=1, sort_keys=True) + "\n")
    return 0


def _record(args: Namespace) -> int:
    """Measure a space and write it."""
    from ...measure import Measurer
    from ...named_kernels import parse_shape
    from ...search.bench.record_space import record_space
    from ...search.kernel_task import KernelTask
    from ...search.space import OptEngine, Space

    if not args.record or not args.kernel:
        raise UsageError("--record FILE and --kernel NAME go together: name both")
    if args.trials < 1:
        raise UsageError(f"--trials must be at least 1, not {args.trials}")
    if args.files:
        raise UsageError("--record measures; spaces to score are not named with it")
    if not str(args.record).endswith((".jsonl", ".jsonl.gz")):
        raise UsageError(f"--record writes .jsonl or .jsonl.gz; give the file such an ending, not {args.record!r}")
    threads = 1 if args.device.startswith("cpu") else None
    task = KernelTask(args.kernel, parse_shape(args.shape) if args.shape else None, args.dtype, args.device, threads)
    engine = OptEngine(task.kernel, task.device.target, task.threads, task.device.limits(), task.effects)
    about = {
        "kernel": task.name,
        "shape": task.shape,
        "dtype": task.dtype,
        "device": task.device.name,
        "target": lowered() or "the whole machine",
        "threads": task.threads,
        "time": "the least of a burst of calls; of the fastest fifth the least of two bursts, at different times",
        "cost": "seconds of building and measuring, the mean of its batch",
    }
    with Measurer(task.kernel, task.device, task.threads, reference=task.reference) as measurer:
        recording = record_space(Space(engine, task.effects), measurer, args.trials, about)
    recording.save(args.record, args.overwrite)
    right = sum(e.t_min is not None for e in recording.entries)
    console().print(f"wrote {args.record}: {len(recording.entries)} schedules, {right} of them right", soft_wrap=True)
    return 0


def _spaces(files: Sequence[str]) -> dict[str, Recording]:
    from ...search.bench.space_files import load, packaged

    if not files:
        return packaged()
    out: dict[str, Recording] = {}
    for file in files:
        if file in out:
            raise UsageError(f"{file} is named twice")
        out[file] = load(file)
    return out


def _share(text: str) -> float:
    """ "95%" or "0.95" as a number."""
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise UsageError(f"--budget is a share of the way to the optimum, such as 95%, and not {text!r}")
    return share


def _print(scores: Sequence[StrategyScores], spaces: dict[str, Recording], repeats: int, share: float) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("strategy")
    for name in ("score", "95 % interval", "worst space", "ms an evaluation"):
        table.add_column(name, justify="right")
    for s in scores:
        mean, low, high = s.interval
        worst = min(sum(r) / len(r) for r in s.runs.values())
        table.add_row(s.strategy, f"{mean:.3f}", f"{low:.3f} to {high:.3f}", f"{worst:.2f}", f"{1e3 * s.think_s:.1f}")
    console().print(table)
    console().print(
        f"{len(spaces)} space{'s' * (len(spaces) != 1)}, {repeats} searches from nothing on each, as long as random search takes for "
        f"{100 * share:g} % of the way to the optimum. 0 is random search, 1 the optimum at once.",
    )


def _json(scores: Sequence[StrategyScores], spaces: dict[str, Recording], repeats: int, share: float) -> dict[str, Any]:
    from ...search.bench.scores import Yardstick

    facts = {}
    for name, recording in spaces.items():
        y = Yardstick(recording, share)
        facts[name] = {
            "about": dict(recording.about),
            "configurations": len(recording.entries),
            "valid": len(y.times),
            "optimum_s": y.optimum,
            "median_s": y.middle,
            "budget_s": y.budget,
            "budget_evaluations": y.evaluations,
        }
    return {"share": share, "repeats": repeats, "spaces": facts, "scores": [s.json for s in scores]}
