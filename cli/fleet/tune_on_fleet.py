"""`tune run --fleet URL`: the entries of a manifest on the machines of a fleet, or one kernel on its equal devices."""

from __future__ import annotations

import json
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ... import cache
from ...ir.errors import UsageError
from ...search import strategy as strategies
from ...search.budget import Budget
from ..terminal.live import display, outcomes
from ..terminal.output import with_code, write
from ..terminal.style import clock, console, duration, flops, rate, shape_text, table
from .processes import security

if TYPE_CHECKING:
    from rich.console import Console

    from ...fleet.fleet_run import UnderWay
    from ...search import Result
    from ...search.manifest.manifest_file import Manifest
    from ...search.manifest.tune_all import Done, Overall


# board ------------------------------------------------------------------------------------------------------
# What a person sees while a fleet tunes: one board over all slots on a terminal, plain lines elsewhere, nothing with
# --quiet.


LINE_S = 5.0


class FleetQuiet:
    """No output; the base of the others."""

    def __init__(self, out: Console | None = None, now: Callable[[], float] = time.monotonic) -> None:
        self.out, self.now = out or console(), now

    def __enter__(self) -> FleetQuiet:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Nothing to take down."""

    def show(self, under_way: Sequence[UnderWay], overall: Overall) -> None:
        """What is under way now."""

    def line(self, text: str) -> None:
        """A line that stays."""


class FleetPlain(FleetQuiet):
    """A line when an entry is sent, for each new best, and every few seconds."""

    def __init__(self, out: Console | None = None, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(out, now)
        self._said: dict[int, tuple[float, Any]] = {}

    def line(self, text: str) -> None:
        self.out.print(text, soft_wrap=True)
        self.out.file.flush()

    def show(self, under_way: Sequence[UnderWay], overall: Overall) -> None:
        for u in under_way:
            at, top = self._said.get(id(u), (None, None))
            if at is None:
                again = ", once more after its worker was lost" if u.attempt > 1 else ""
                self.line(f"{slot_text(u)}: tuning {u.entry.title}{again}")
            elif u.top.get("t_min") != top or self.now() - at >= LINE_S:
                self.line(f"{slot_text(u)}: {u.entry.title}: {status_text(u, self.now())}")
            else:
                continue
            self._said[id(u)] = self.now(), u.top.get("t_min")


class FleetBoard(FleetQuiet):
    """A live table: a line for each entry that is being tuned, and where."""

    def __init__(self, out: Console | None = None, now: Callable[[], float] = time.monotonic) -> None:
        from rich.live import Live

        super().__init__(out, now)
        self._live = Live(console=self.out, auto_refresh=False, transient=True)

    def __enter__(self) -> FleetBoard:
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._live.stop()

    def line(self, text: str) -> None:
        self.out.print(text, soft_wrap=True)

    def show(self, under_way: Sequence[UnderWay], overall: Overall) -> None:
        from rich.text import Text

        grid = table(overall.line(), "slot", "tuning", "phase", ">left", "candidates", "best")
        for u in under_way:
            grid.add_row(
                Text(slot_text(u)),
                Text(u.entry.title, style="bold"),
                u.phase,
                remaining_text(u, self.now()),
                outcomes(u.counts),
                Text(best_text(u), style="bold green"),
            )
        self._live.update(grid, refresh=True)


def slot_text(u: UnderWay) -> str:
    """`host cpu`."""
    return f"{u.slot.host} {u.slot.device.spec.rpartition('/')[2] if u.slot.device is not None else ''}".rstrip()


def remaining_text(u: UnderWay, now: float) -> str:
    """What remains of an entry's budget."""
    parts = [clock(max(0.0, u.began + u.share - now))] if u.share is not None else []
    parts += [f"{max(0, u.trials - u.counts.total())} trials"] if u.trials is not None else []
    return ", ".join(parts)


def best_text(u: UnderWay) -> str:
    """The best so far, with its rates; '' where there is none."""
    t = u.top
    if not isinstance(t.get("t_min"), float):
        return ""
    parts = [duration(t["t_min"])]
    parts += [flops(t["gflops"])] if isinstance(t.get("gflops"), float) else []
    parts += [rate(t["gbytes_s"], "GB/s")] if isinstance(t.get("gbytes_s"), float) and not t.get("gflops") else []
    return "  ".join(parts)


def status_text(u: UnderWay, now: float) -> str:
    """All of it in a line."""
    return ", ".join(filter(None, (u.phase, outcomes(u.counts), f"best {best_text(u)}" if u.top else "", f"{remaining_text(u, now)} left")))


def fleet_display(quiet: bool, out: Console) -> FleetQuiet:
    """The display that fits."""
    if quiet:
        return FleetQuiet(out)
    return FleetBoard(out) if out.is_terminal and not out.is_dumb_terminal else FleetPlain(out)


# tuned ------------------------------------------------------------------------------------------------------
def tune_entries(
    found: Manifest,
    args: Namespace,
    seconds: float | None,
    out: Console,
    line: Callable[[Done], str],
    after: Sequence[int | None] = (),
    ended: Callable[[Done], None] = lambda done: None,
) -> list[Done]:
    """Tune all entries on the fleet in `seconds` (None: each has its own budget), and show it being done. `line`: a finished entry in
    a line; `after`: which entry each one waits for; `ended` hears of each. Raises FleetError, CacheError."""
    secured = security(args.fleet, "client", args.tls)
    from ...fleet.dask_engine import DaskEngine
    from ...fleet.fleet_run import FleetOptions, tune_on_fleet

    strategy = strategies.check(args.strategy) if args.strategy else None
    options = FleetOptions(seconds, args.trials, args.retune or args.mode == "refresh", strategy)
    engine = DaskEngine(args.fleet, secured)
    try:
        with cache.open(args.cache) as store, fleet_display(args.quiet, out) as board:

            def told(done: Done, overall: Overall) -> None:
                ended(done)
                board.line(f"[{len(overall.done)}/{overall.total}] {line(done)}")

            return tune_on_fleet(found, store, engine, options, board.show, told, after)
    finally:
        engine.close()


NOT_WITH = {
    "against": "times a library on this machine",
    "schedules": "tunes several sizes: write them into a --manifest",
    "buckets": "tunes several sizes: write them into a --manifest",
    "shapes": "tunes several sizes: write them into a --manifest",
    "study": "keeps Optuna's trials with the bits of their outputs: tune where the device is",
}
"""Options of `tune run` that one kernel on a fleet does not take, and why."""
Summary = Callable[["Console", Namespace, "Result", Mapping[str, str]], None]


def tune_kernel(args: Namespace, start: str, summary: Summary) -> int:
    """Tune, and print the `summary`; the exit code says what came of it. `start`: what the search begins with."""
    from ...named_kernels import get, is_path, parse_shape

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
    from ..functions.tracing import is_tensor_function

    if is_tensor_function(args.kernel, args.shape):
        raise UsageError(f"{args.kernel} is a function of tensors: a fleet takes named kernels and my.py:function that returns a Kernel")
