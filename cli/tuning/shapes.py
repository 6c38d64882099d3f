"""`tune run` for many shapes: `--shape m=1..4096,n=64..512` and `--shapes`, with few schedules and a tree of sizes that deals them out."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from ...ir.errors import UsageError
from ..terminal.live import display, outcomes
from ..terminal.output import with_code, write
from ..terminal.style import console, duration, soft_wrapped

if TYPE_CHECKING:
    from rich.console import Console

    from ...search.shapes import ShapesResult

NOT_WITH = ("trials", "until", "strategy", "study", "start", "against", "target")
"""Options of `tune run` that are for a single shape."""


def shapes_of(args: Namespace) -> bool:
    """Whether many shapes are asked for. UsageError for options that do not go together."""
    varying = bool(args.shape and ".." in args.shape)
    if args.shapes == "":
        raise UsageError("--shapes is empty; write two shapes or more, such as 'm=64; m=512 * 3', or the name of a file of them")
    if args.shapes and args.shape:
        raise UsageError("--shapes lists whole shapes: give each its sizes there, and leave out --shape")
    if args.buckets is not None and args.schedules is not None:
        raise UsageError("--buckets is what --schedules was called: give one of them")
    for name in ("aggregate", "schedules", "buckets"):
        if getattr(args, name) is not None and not varying and not args.shapes:
            raise UsageError(f"--{name} is for many shapes: give ranges, such as --shape m=1..4096, or --shapes 'm=64; m=512 * 3'")
    if not varying and not args.shapes:
        return False
    for name in NOT_WITH:
        if getattr(args, name) is not None:
            raise UsageError(f"--{name} is for a single shape; {'--shapes' if args.shapes else args.shape} tunes several")
    if args.mode not in ("use", "tune", "refresh"):
        raise UsageError(f"--mode {args.mode} is for a single shape; ask for the shapes one by one")
    return True


def run(args: Namespace) -> int:
    """Tune for many shapes and print what was found; the exit code says what came of it."""
    from ...search.shapes import SizeRange, WeightedShape, parse_ranges, parse_shapes, shapes_in, tune_sizes

    out = console(sys.stderr if args.json == "-" else None)
    device = args.device or "cpu"
    fixed: dict[str, int] = {}
    sizes: list[SizeRange] | list[WeightedShape]
    if args.shapes:
        sizes = parse_shapes(args.shapes) if "=" in args.shapes else shapes_in(args.shapes)
    else:
        fixed, sizes = parse_ranges(args.shape)
    title = " ".join(filter(None, (args.kernel, args.shapes or args.shape, args.dtype, "on", device)))
    with display(title, None, None, args.quiet, out, verbose=args.verbose) as progress:
        result = tune_sizes(
            args.kernel,
            sizes,
            args.dtype,
            device,
            fixed=fixed,
            schedules=args.schedules if args.buckets is None else args.buckets,
            how=args.aggregate or "geomean",
            budget=args.budget,
            threads=args.threads,
            random_seed=args.random_seed or 0,
            cache=args.cache,
            allow=args.allow or (),
            again=args.retune or args.mode == "refresh",
            progress=progress,
        )
    if args.json:
        write(args.json, json.dumps(with_code(result.to_json()), indent=1) + "\n")
    summary(out, result, args.shapes or args.shape)
    return result.exit_code


def summary(out: Console, result: ShapesResult, sizes: str) -> None:
    """What was found: the tree, and what it costs."""
    from rich.table import Table
    from rich.text import Text

    threads = f"{result.threads} thread{'s' * (result.threads != 1)}"
    what = " ".join(filter(None, (result.kernel, sizes, result.dtype, "on", result.device + ",", threads)))
    out.print(Text.assemble((what, "bold"), ": ", _state(result)), soft_wrap=soft_wrapped(out))
    for line in () if result.tree is None else result.tree.lines():
        out.print(Text(line), soft_wrap=True)
    if result.losses:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column("at" if result.listed else "held out", overflow="fold")
        for name in ("time", "best there", "loss"):
            table.add_column(name, justify="right", no_wrap=True)
        for x in result.losses:
            table.add_row(x.label, duration(x.ours), duration(x.best), f"{100 * x.loss:.1f} %")
        out.print(table)
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    if result.loss is not None and result.worst is not None:
        where = (
            "the listed shapes"
            if result.listed
            else f"{len(result.losses)} shape{'s' * (len(result.losses) != 1)} that had no part in the choice"
        )
        grid.add_row("loss", f"{100 * result.loss:.1f} % in the geometric mean, {100 * result.worst:.1f} % at worst, on {where}")
    elif result.counts and not result.listed:
        grid.add_row("loss", "unknown: there was time for 0 shapes that had no part in the choice")
    if result.counts:
        grid.add_row("search", f"{sum(result.counts.values())} candidates in {result.seconds:.1f} s: {outcomes(result.counts)}")
    if result.message:
        grid.add_row("note", Text(result.message))
    out.print(grid)


def _state(result: ShapesResult) -> tuple[str, str]:
    if result.exit_code or result.tree is None:
        return "nothing that works everywhere was found", "bold red"
    n = len(result.tree.schedules)
    return f"{n} schedule{'s' * (n != 1)}", "green"
