"""`tune run`: search for a kernel's best schedule, show it being found, and say how to get it again."""

from __future__ import annotations

import json
import os
import shlex
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from ..ir.errors import UsageError
from .live import display, outcomes, rates
from .style import console, duration, gain, opts_text, shape_text

if TYPE_CHECKING:
    from rich.console import Console

    from ..search import Result


def run(args: Namespace) -> int:
    """Tune (or find in the cache) and print the summary; the exit code says what came of it."""
    from ..kernels import parse_shape
    from ..search import tune
    from ..search.budget import Budget

    shape = parse_shape(args.shape) if args.shape else None
    budget = Budget.make(args.budget, args.trials)
    _writable(args.json)
    out = console(sys.stderr if args.json == "-" else None)
    title = " ".join(filter(None, (args.kernel, args.shape, args.dtype, "on", args.device)))
    with display(title, budget.seconds, budget.trials, args.quiet, out) as progress:
        result = tune(
            args.kernel,
            shape=shape,
            dtype=args.dtype,
            device=args.device,
            budget=args.budget,
            trials=args.trials,
            threads=args.threads,
            strategy=args.strategy,
            seeds=args.seeds,
            seed=args.seed,
            cache=args.cache,
            mode=args.mode,
            retune=args.retune,
            progress=progress,
        )
    summary(out, args, result)
    if args.json:
        _write(args.json, json.dumps(result.to_json(), indent=1) + "\n")
    return result.exit_code


def summary(out: Console, args: Namespace, result: Result) -> None:
    """What was found, in a few lines; the last one reproduces it."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    found = result.t_min is not None
    threads = f"{result.threads} thread{'s' * (result.threads != 1)}"
    what = f"{result.kernel} {shape_text(result.shape)} {result.dtype} on {result.device}, {threads}"
    state = ("cached" if result.origin == "cached" else "verified") if found else "nothing valid found"
    if result.exit_code == 130:
        state = f"interrupted; {'the best so far is saved' if found else state}"
    out.print(Text.assemble((what, "bold"), ": ", (state, "green" if found else "bold red")), soft_wrap=True)
    if found:
        grid.add_row("best", Text(rates(result), style="bold"))
        grid.add_row("timed", f"min {duration(result.t_min)}, median {duration(result.t_med)} of {result.n} runs")
        if result.seed_s:
            grid.add_row("seed", f"{duration(result.seed_s)}: the search gained {gain(result.seed_s, result.t_min)}")
        grid.add_row("opts", opts_text(result.opts))
    if result.counts:
        total = sum(result.counts.values())
        grid.add_row("search", f"{total} candidates in {result.seconds:.1f} s with {result.strategy}: {outcomes(result.counts)}")
    out.print(grid)
    if found:
        out.print(Text.assemble(("look at it  ", "dim"), command(args, result, "show")), soft_wrap=True)
    out.print(Text.assemble(("reproduce   ", "dim"), command(args, result, "run")), soft_wrap=True)


def command(args: Namespace, result: Result, name: str) -> str:
    """One line that runs this again (`run`: the same search; `show`: the schedule that was found), ready for a shell."""
    words = ["tune", name, "--kernel", args.kernel, "--shape", shape_text(result.shape), "--dtype", result.dtype]
    words += ["--device", result.device, "--threads", str(result.threads)]
    if args.cache:
        words += ["--cache", args.cache]
    if name == "run":
        words += ["--budget", args.budget] if args.budget else []
        words += ["--trials", str(args.trials)] if args.trials else []
        words += ["--strategy", args.strategy] if args.strategy else []
        words += ["--seeds", args.seeds] if args.seeds != "auto" else []
        words += ["--seed", str(args.seed), "--retune"]
    return shlex.join(words)


def _writable(path: str | None) -> None:
    """Say that --json cannot be written before the search, not after it."""
    if path is None or path == "-":
        return
    folder = Path(path).absolute().parent
    if not folder.is_dir() or Path(path).is_dir() or not os.access(path if Path(path).exists() else folder, os.W_OK):
        raise UsageError(f"cannot write --json {path}; name a file in a folder that exists and is writable")


def _write(path: str, text: str) -> None:
    if path == "-":
        sys.stdout.write(text)
    else:
        Path(path).write_text(text)
