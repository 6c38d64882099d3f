"""`tune run --kernel K --fleet URL`: one kernel on the equal devices of a fleet. What it says and shows is what `tune run` does."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ...ir.errors import UsageError
from ..fleet.command import security
from ..terminal.json_file import with_code, write
from ..terminal.live import display
from ..terminal.style import console, shape_text

if TYPE_CHECKING:
    from rich.console import Console

    from ...search import Result

NOT_WITH = {
    "against": "times a library on this machine",
    "buckets": "tunes several sizes: write them into a --manifest",
    "shapes": "tunes several sizes: write them into a --manifest",
    "study": "keeps Optuna's trials with the bits of their outputs: tune where the device is",
}
"""Options of `tune run` that one kernel on a fleet does not take, and why."""
Summary = Callable[["Console", Namespace, "Result", Mapping[str, str]], None]


def run(args: Namespace, start: str, summary: Summary) -> int:
    """Tune, and print the `summary`; the exit code says what came of it. `start`: what the search begins with."""
    from ...kernels import get, is_path, parse_shape
    from ...search.budget import Budget

    _check(args)
    shape = parse_shape(args.shape) if args.shape else None
    budget = Budget.make(args.budget, args.trials)
    out = console(sys.stderr if args.json == "-" else None)
    args.device = args.device or "cpu"
    whole = shape_text(shape or {} if is_path(args.kernel) else dict(get(args.kernel).complete(shape)))
    title = " ".join(filter(None, (args.kernel, whole, args.dtype, "on the fleet's", args.device)))
    secured = security(args.fleet, "client", args.tls)
    from ...fleet.batches.fleet_measurer import FleetTuning
    from ...fleet.dask_engine import DaskEngine

    engine = DaskEngine(args.fleet, secured)
    try:
        with display(title, budget.seconds, budget.trials, args.quiet, out, verbose=args.verbose) as progress:
            progress.phase("asking the fleet for its devices")
            fleet = FleetTuning(engine, args.device, args.slots)
            progress.restart()
            asked = {name: getattr(args, name) for name in ("dtype", "budget", "trials", "threads", "strategy", "cache", "mode", "retune")}
            asked |= {"shape": shape, "start": start, "random_seed": args.random_seed or 0, "allow": args.allow or (), "progress": progress}
            result = fleet.tune(args.kernel, **asked, interrupt="return")
    finally:
        engine.close()
    summary(out, args, result, {"fleet": "; ".join(fleet.said)} if fleet.said else {})
    if args.json:
        write(args.json, json.dumps(with_code(result.to_json()) | {"fleet": fleet.said}, indent=1) + "\n")
    return result.exit_code


def _check(args: Namespace) -> None:
    """UsageError where an option means nothing on a fleet."""
    for name, why in NOT_WITH.items():
        if getattr(args, name):
            raise UsageError(f"--{name} and --fleet do not go together: --{name} {why}")
    if args.shape and ".." in args.shape:
        raise UsageError(f"--shape {args.shape} and --fleet do not go together: a range {NOT_WITH['buckets']}")
    if args.mode == "require":
        raise UsageError("--mode require asks the cache alone: leave out --fleet")
    from ..functions.asked import is_tensor_function

    if is_tensor_function(args.kernel, args.shape):
        raise UsageError(f"{args.kernel} is a function of tensors: a fleet takes named kernels and my.py:function that returns a Kernel")
