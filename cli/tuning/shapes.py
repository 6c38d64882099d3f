"""`tune run` for several sizes: `--shape m=1..4096` in buckets, `--shapes` for one schedule that serves a list of shapes."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from ...ir.errors import UsageError
from ..terminal.live import display, outcomes
from ..terminal.output import with_code, write
from ..terminal.style import console, duration, opts_text, soft_wrapped

if TYPE_CHECKING:
    from rich.console import Console

    from ...search.shapes import ShapesResult

NOT_WITH = ("trials", "strategy", "study", "start", "against", "target")
"""Options of `tune run` that are for a single shape."""


def shapes_of(args: Namespace) -> bool:
    """Whether several sizes are asked for. UsageError for options that do not go together."""
    varying = bool(args.shape and ".." in args.shape)
    if args.shapes == "":
        raise UsageError("--shapes is empty; write two shapes or more, such as 'm=64; m=512 * 3'")
    if args.shapes and args.shape:
        raise UsageError("--shapes lists whole shapes: give each its sizes there, and leave out --shape")
    if args.aggregate and not args.shapes:
        raise UsageError("--aggregate says how --shapes are weighed; give --shapes, such as 'm=64; m=512 * 3'")
    if args.buckets is not None and not varying:
        raise UsageError("--buckets divides a range; give one, such as --shape m=1..4096")
    if not varying and not args.shapes:
        return False
    for name in NOT_WITH:
        if getattr(args, name) is not None:
            raise UsageError(f"--{name} is for a single shape; {'--shapes' if args.shapes else args.shape} tunes several")
    if args.mode not in ("use", "tune", "refresh"):
        raise UsageError(f"--mode {args.mode} is for a single shape; ask for the shapes one by one")
    return True


def run(args: Namespace) -> int:
    """Tune for several sizes and print what was found; the exit code says what came of it."""
    from ...search.shapes import parse_range, parse_shapes, tune_buckets, tune_shapes

    out = console(sys.stderr if args.json == "-" else None)
    device = args.device or "cpu"
    again = args.retune or args.mode == "refresh"
    common = {"dtype": args.dtype, "device": device, "budget": args.budget, "threads": args.threads, "random_seed": args.random_seed or 0}
    common |= {"cache": args.cache, "allow": args.allow or ()}
    title = " ".join(filter(None, (args.kernel, args.shapes or args.shape, args.dtype, "on", device)))
    with display(title, None, None, args.quiet, out, verbose=args.verbose) as progress:
        if args.shapes:
            shapes = parse_shapes(args.shapes)
            result = tune_shapes(args.kernel, shapes, how=args.aggregate or "geomean", progress=progress, **common)
        else:
            sizes, varying = parse_range(args.shape)
            assert varying is not None
            most = {} if args.buckets is None else {"most": args.buckets}
            result = tune_buckets(args.kernel, sizes, varying, again=again, progress=progress, **most, **common)
    if args.json:
        write(args.json, json.dumps(with_code(result.to_json()), indent=1) + "\n")
    summary(out, result, args.shapes or args.shape)
    return result.exit_code


def summary(out: Console, result: ShapesResult, sizes: str) -> None:
    """What was found: schedules, and what being general costs at each size."""
    from rich.table import Table
    from rich.text import Text

    threads = f"{result.threads} thread{'s' * (result.threads != 1)}"
    what = " ".join(filter(None, (result.kernel, sizes, result.dtype, "on", result.device + ",", threads)))
    out.print(Text.assemble((what, "bold"), ": ", _state(result)), soft_wrap=soft_wrapped(out))
    if result.buckets:
        assert result.range is not None
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column(result.range.name, no_wrap=True)
        table.add_column("schedule", overflow="fold")
        table.add_column("checked", no_wrap=True)
        for b in result.buckets:
            table.add_row(f"{b.lo}..{b.hi}" if b.lo < b.hi else str(b.lo), opts_text(b.opts), "yes" if b.confirmed else "no")
        out.print(table)
    if result.losses:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column("at", overflow="fold")
        for name in ("time", "tuned alone", "loss"):
            table.add_column(name, justify="right", no_wrap=True)
        for x in result.losses:
            alone = "-" if x.alone is None else duration(x.alone)
            table.add_row(x.label, duration(x.ours), alone, "-" if x.loss is None else f"{100 * x.loss:.1f} %")
        out.print(table)
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    if result.loss is not None:
        grid.add_row("loss", f"{100 * result.loss:.1f} % against tuning each size alone, in the geometric mean")
    if result.range is not None and result.exit_code == 0:
        lost = "" if result.whole_loss is None else f"  would lose {100 * result.whole_loss:.1f} % to the best at each size"
        grid.add_row("one for all", Text.assemble(opts_text(result.whole), lost))
    elif result.whole:
        grid.add_row("opts", opts_text(result.whole))
    if result.counts:
        grid.add_row("search", f"{sum(result.counts.values())} candidates in {result.seconds:.1f} s: {outcomes(result.counts)}")
    if result.message:
        grid.add_row("note", Text(result.message))
    if result.range is not None and result.exit_code == 0:
        shown = ", ".join([f"{k!r}: {v}" for k, v in result.shape.items()] + [f"{result.range.name!r}: m"])
        name, lo, hi = result.range.name, result.range.lo, result.range.hi
        grid.add_row("use it", Text(f'm = tilewright.ir.sym("{name}", {lo}, {hi}); tilewright.best("{result.kernel}", {{{shown}}})'))
    out.print(grid)


def _state(result: ShapesResult) -> tuple[str, str]:
    if result.exit_code:
        return "nothing that works everywhere was found", "bold red"
    if result.range is None:
        return "one schedule, checked for every shape", "green"
    n = len(result.buckets)
    return f"{n} bucket{'s' * (n != 1)}", "green"
