"""`tune bench`: schedules beside each other, or beside NumPy or PyTorch; verified, and compared in paired rounds."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

from ...ir.dtypes import dtype
from ...ir.errors import MeasureError, UsageError
from ...ir.normal_form import normalise
from ...opts.opt import short
from ...search.budget import parse_seconds
from ..terminal.style import MOST_TEXT, OUTCOMES, console, duration, opts_text, rate, soft_wrapped, table
from . import option_worth
from .option_worth import ratio_numbers, ratio_text, status_line
from .opts_argument import Chosen, ForTarget, chosen, device_of
from .source_configurations import about, compared, configurations, single_changes, source_task

if TYPE_CHECKING:
    from ...ir.kernel import Kernel
    from ...measure.rival.versus import Rivalry, Versus
    from ...search.option_worth import Contestant
    from ...sources.source_task import SourceTask

NOTHING_VALID = 4
_WORDS = ("start", "best")
ROUNDS = 5
"""Paired rounds of each value of a source."""


@dataclass(frozen=True)
class Compared:
    """What was compared: names and schedules in order, the first being what the others are compared with; and of each
    that was right how it compares with a library, where one was asked for."""

    what: str
    names: Sequence[str]
    schedules: Sequence[Chosen]
    found: Sequence[Contestant]
    rivals: Sequence[Versus | None]
    flops: int

    @property
    def right(self) -> bool:
        """Whether every schedule was right."""
        return all(c.measured.ok for c in self.found)


def run(args: Namespace) -> int:
    """Compare and print; 4 where a schedule was not right."""
    if (source := source_task(args)) is not None:
        return bench_source(args, source)
    from ...heuristics import necessary
    from ...ir.cost import cost
    from ...search.option_worth import side_by_side
    from ..functions.tracing import kernel_of
    from ..tuning.run import rivalry

    library = args.against if args.against and args.against.lower() not in _WORDS else None
    how = rivalry(args) if library else None
    kernel = normalise(kernel_of(args))
    place = device_of(args)
    names, schedules = _schedules(args, kernel, place, how is not None)
    budget = parse_seconds(args.budget)
    with ExitStack() as stack:
        quiet = args.format == "json" or not sys.stderr.isatty()
        show: Callable[[str], None] = (lambda text: None) if quiet else stack.enter_context(status_line())
        assert place.device is not None
        found = side_by_side(kernel, [s.opts for s in schedules], place.device, place.threads, args.rounds, budget, show)
        rivals = [_against(args, c, place, how) if how else None for c in found]
    shown = " ".join(filter(None, (kernel.name, args.shape or "", args.dtype or "", f"on {args.device},", _threads(place.threads))))
    return told(
        Compared(shown, names, schedules, found, rivals, 0 if kernel.symbols else cost(necessary(kernel)).flops), args, place.threads
    )


def bench_source(args: Namespace, task: SourceTask) -> int:
    """Configurations of a source beside the first one."""
    if args.against and args.against.lower() not in _WORDS:
        raise UsageError(f"--against {args.against}: a source is compared with its own configurations, start and best")
    words, names = _named(args, False)
    lists = configurations(task, words, args.cache)
    found = compared(task, lists, args.rounds, args.budget, args.random_seed, args.format == "json")
    shown = [Chosen(opts, "") for opts in lists]
    return told(Compared(about(task), names, shown, found, [None] * len(found), task.flops), args, task.threads)


def explain(args: Namespace) -> int:
    """`tune explain`: of a source, what each value of a configuration is worth, beside those that differ in one."""
    if (task := source_task(args)) is None:
        return option_worth.run(args)
    (best,) = configurations(task, [args.opts or "best"], args.cache)
    lists = [best, *single_changes(task, best)]
    found = compared(task, lists, ROUNDS, args.budget, 0, args.format == "json")
    shown = [Chosen(best, ""), *[Chosen(tuple(o for o in opts if o not in best), "") for opts in lists[1:]]]
    names = ["best" if args.opts is None else "given", *[""] * (len(lists) - 1)]
    return told(Compared(about(task), names, shown, found, [None] * len(found), task.flops), args, task.threads)


def told(bench: Compared, args: Namespace, threads: int) -> int:
    """Print it; 4 where a schedule was not right."""
    if args.format == "json":
        print(json.dumps(as_json(bench, args, threads), indent=1))
    else:
        _print(bench)
    return 0 if bench.right else NOTHING_VALID


def _threads(n: int) -> str:
    return f"{n} thread{'s' * (n != 1)}"


def _schedules(args: Namespace, kernel: Kernel, place: ForTarget, library: bool) -> tuple[list[str], list[Chosen]]:
    """(names, schedules), the one to compare with first. Raises UsageError where there is nothing to compare."""
    words, names = _named(args, library)
    return names, [chosen(w, kernel, place, args) for w in words]


def _named(args: Namespace, library: bool) -> tuple[list[str], list[str]]:
    """(what --opts and --against say, names), the one to compare with first. Raises UsageError where there is nothing to compare."""
    texts = args.opts or (["best"] if args.against else [])
    if not texts or (len(texts) < 2 and not args.against):
        raise UsageError("give two schedules to compare (--opts A --opts B), or one and what to compare it with (--against start)")
    words = [args.against.lower(), *texts] if args.against and not library else list(texts)
    names = [t if t in _WORDS else "" for t in (w.strip().lower() for w in words)]
    letters = (c for n in range(1, 9) for c in (letter * n for letter in ascii_uppercase))
    return words, [n or next(letters) for n in names]


def _against(args: Namespace, c: Contestant, place: ForTarget, how: Rivalry) -> Versus | None:
    """A schedule and the library in turns; None for one that is not right."""
    from ...measure.rival.versus import Versus, against_library
    from ...named_kernels import get, parse_shape

    if not c.measured.ok:
        return None
    made = get(args.kernel)
    extents = made.complete(parse_shape(args.shape) if args.shape else None)
    shape = {name: size for name, size in extents.items() if isinstance(size, int)}
    of = dtype(args.dtype).name if args.dtype else made.dtypes[0]
    assert place.device is not None
    try:
        return against_library(args.kernel, shape, of, c.opts, place.device, place.threads, how)
    except MeasureError as e:
        return Versus(why=str(e), library=how.library)


def _print(b: Compared) -> None:
    from rich.text import Text

    out = console()
    out.print(Text(b.what, style="bold"), soft_wrap=soft_wrapped(out))
    first = b.names[0]
    several = len(b.found) > 1
    headings = ["", ">time", *([">GFLOP/s"] if b.flops else []), *([f">beside {first}"] if several else []), "schedule"]
    listed = table("", *headings)
    for name, s, c in zip(b.names, b.schedules, b.found, strict=True):
        time = duration(c.seconds) if c.seconds else Text(c.measured.outcome.value, style=OUTCOMES[c.measured.outcome.value])
        flops = [rate(b.flops / c.seconds * 1e-9 if c.seconds else None, "")] if b.flops else []
        beside = ratio_text(c.ratio) if c.ratio else "1x" if c is b.found[0] and c.seconds else "-"
        listed.add_row(Text(name, style="bold"), time, *flops, *([beside] if several else []), opts_text(s.opts))
    out.print(listed)
    for name, c in zip(b.names, b.found, strict=True):
        why = c.measured.detail if not c.measured.ok else c.why
        if why:
            out.print(Text(f"{name}: {why[:MOST_TEXT]}", style="" if c.measured.ok else "red"), soft_wrap=soft_wrapped(out))
    for name, rival in zip(b.names, b.rivals, strict=True):
        if rival is not None:
            out.print(Text(f"{name} is {rival.text}" if rival.ratio else f"{name}: {rival.text}"), soft_wrap=soft_wrapped(out))
    for line in _legend(b, several):
        out.print(Text(line, style="dim"), soft_wrap=soft_wrapped(out))


def _legend(b: Compared, several: bool) -> list[str]:
    lines = ["time: the fastest call of each, measured alone"]
    rounds = sorted({c.rounds for c in b.found if c.rounds})
    if several and rounds:
        of = str(rounds[0]) if len(rounds) == 1 else f"{rounds[0]} to {rounds[-1]}"
        lines = [
            f"{lines[0]}; what decides is the factor beside {b.names[0]}: 2x takes twice as long, "
            f"by {of} paired rounds, ± their 95 % interval"
        ]
    known = [c for c in b.found if c.ratio and c.seconds and b.found[0].seconds]
    if any(c.ratio and c.ratio.significant and (c.seconds or 0) < (b.found[0].seconds or 0) and c.ratio.factor > 1 for c in known) or any(
        c.ratio and c.ratio.significant and (c.seconds or 0) > (b.found[0].seconds or 0) and c.ratio.factor < 1 for c in known
    ):
        lines.append("times alone and in pairs disagree: the machine was busy, or changed its clocks; the pairs are right")
    return lines


def as_json(b: Compared, args: Namespace, threads: int) -> dict[str, Any]:
    """Plain data: times are seconds a call, ratios times over the first schedule's."""
    schedules = []
    for name, s, c, rival in zip(b.names, b.schedules, b.found, b.rivals, strict=True):
        m = c.measured
        schedules.append(
            {
                "name": name,
                "opts": [o.json for o in s.opts],
                "short": short(s.opts),
                "origin": s.origin,
                "outcome": m.outcome.value,
                "why": m.detail or c.why,
                "t_min": m.t_min,
                "t_med": m.t_med,
                "n": m.n,
                "gflops": b.flops / c.seconds * 1e-9 if c.seconds and b.flops else None,
                "beside": {**(ratio_numbers(c.ratio) or {}), "rounds": c.rounds} if c.ratio else None,
                "against": rival.to_json() if rival else None,
            }
        )
    about = {"kernel": args.kernel, "shape": args.shape, "dtype": args.dtype, "device": args.device, "threads": threads}
    return {"schema": 1, **about, "first": b.names[0], "schedules": schedules}
