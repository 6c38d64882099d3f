"""`tune show --diff A B`: what is different between two schedules, from their options to their source."""

from __future__ import annotations

import difflib
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..terminal.style import console, duration, factor, opts_text, soft_wrapped
from .opts_argument import ForTarget, chosen

if TYPE_CHECKING:
    from rich.text import Text

    from ...cache import Row
    from ...heuristics import CpuTerms
    from ...ir.kernel import Kernel
    from ...opts import Opt, Scheduled

CONTEXT = 3
"""Lines of source around each difference."""
COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@dataclass(frozen=True)
class ShownSide:
    """One of the two: its options and where they are from, the schedule, its source, what the model expects (seconds),
    the newest verified measurement in the cache, and for a processor the terms of the counted time."""

    name: str
    opts: tuple[Opt, ...]
    origin: str
    scheduled: Scheduled
    source: str
    expected: float
    row: Row | None
    terms: CpuTerms | None = None


def difference(kernel: Kernel, place: ForTarget, args: Namespace) -> int:
    """Print it; `--source` prints the difference of the sources alone, `--stage schedule` and others that of a stage."""
    from rich.text import Text

    a, b = (side(name, text, kernel, place, args) for name, text in zip("AB", args.diff, strict=True))
    out = console()
    only_source = args.source or args.stage
    if not only_source:
        target = f"{kernel.name} for {place.target.name}"
        out.print(Text.assemble((target, "bold")), soft_wrap=soft_wrapped(out))
        for s in (a, b):
            out.print(Text.assemble((s.name, "bold"), "  ", opts_text(s.opts), (f"   {s.origin}", "dim")), soft_wrap=soft_wrapped(out))
        for line in facts(a, b):
            out.print(line, soft_wrap=soft_wrapped(out))
        for heading, before, after in (("loop nest", _nest(a), _nest(b)),):
            _show(out.print, heading, before, after, len(before) + len(after))
    if args.stage:
        for stage, before, after in _stages(kernel, a, b, place, args.stage):
            _show(out.print, stage, before, after, CONTEXT)
    else:
        _show(out.print, "source", a.source.splitlines(), b.source.splitlines(), CONTEXT)
    return 0


def side(name: str, text: str, kernel: Kernel, place: ForTarget, args: Namespace) -> ShownSide:
    """A schedule with all that is compared. Raises OptError."""
    from ...heuristics import cpu_terms, estimate
    from ...lower import lower
    from ...opts import apply
    from ...renderers import render

    found = chosen(text, kernel, place, args)
    scheduled = apply(kernel, found.opts, place.target)
    limits = place.device.limits() if place.device is not None else None
    expected = estimate(scheduled, place.threads, limits)
    source = render(lower(scheduled), place.target).text
    terms = None if place.target.kind == "gpu" else cpu_terms(scheduled, place.threads, limits)
    return ShownSide(name, found.opts, found.origin, scheduled, source, expected, _measured(kernel, found.opts, place, args), terms)


def _measured(kernel: Kernel, opts: tuple[Opt, ...], place: ForTarget, args: Namespace) -> Row | None:
    """The newest measurement of the schedule for this very key that was right."""
    if place.device is None:
        return None
    from ... import cache
    from ...cache.keys import allowed, policy
    from ...files.strict import canon
    from ...opts.syntax import SYNTAX
    from ...plan.identity import canonical_of, key_of

    key = key_of(kernel, place.device, place.threads, policy(allowed(args.allow or ())))
    wanted = canon(canonical_of(kernel).to_canonical([o.json for o in opts], SYNTAX))
    with cache.open(args.cache) as store:
        fields = {"kernel": key.kernel, "target": key.target, "threads": key.threads, "compiler": key.compiler, "policy": key.policy}
        rows = [r for r in store.rows(**fields) if r.schedule == wanted and r.outcome in ("ok", "slow") and r.t_min]
    return rows[-1] if rows else None


def facts(a: ShownSide, b: ShownSide) -> Iterator[Text]:
    """The options that differ, and the times that are expected and were measured."""
    from rich.text import Text

    left, right = _without(a.opts, b.opts), _without(b.opts, a.opts)
    for s, only in ((a, left), (b, right)):
        yield Text.assemble((f"only in {s.name}   ", "dim"), opts_text(only) if only else Text("nothing", style="dim"))
    if not left and not right and a.opts != b.opts:
        yield Text("the same options in another order", style="dim")
    if a.source == b.source:
        yield Text("both render to the same source")
    times = f"{a.name} {duration(a.expected)}, {b.name} {duration(b.expected)}: {factor(b.expected / a.expected)}"
    yield Text.assemble(("by the model  ", "dim"), times)
    yield from _phases(a, b)
    yield from _terms(a, b)
    measured = ", ".join(f"{s.name} {_time(s.row)}" for s in (a, b))
    yield Text.assemble(("measured      ", "dim"), measured)
    yield Text(
        "times of different moments are not comparable to a few percent; `tune bench --opts A --opts B` compares in pairs", style="dim"
    )


def _time(row: Row | None) -> str:
    if row is None or row.t_min is None:
        return "never"
    return f"{duration(row.t_min)} on {row.when[:10]}"


LEAST = 0.01
"""Of the longer expected time: what differs by less is not shown."""


def _terms(a: ShownSide, b: ShownSide) -> Iterator[Text]:
    """For processors: what the counted time is made of, and which terms differ, the largest difference first."""
    from rich.text import Text

    if a.scheduled.target.kind == "gpu":
        return
    left, right = (s.terms for s in (a, b))
    if left is None or right is None:
        return
    times = f"{a.name} {duration(left.total)}, {b.name} {duration(right.total)}: {factor(right.total / left.total)}"
    yield Text.assemble(("counted       ", "dim"), times)
    before, after = left.named(), right.named()
    # terms are of all threads together
    least = LEAST * max(max(before.values()), max(after.values()))
    told = sorted((n for n in before if abs(after[n] - before[n]) >= least), key=lambda n: -abs(after[n] - before[n]))
    for name in told:
        change = duration(abs(after[name] - before[name]))
        sign = "+" if after[name] > before[name] else "-"
        yield Text(f"  {name:<12}{duration(before[name]):>10}  {duration(after[name]):>10}  {sign}{change}")
    if told:
        yield Text("  seconds of one core for all work; units work beside each other, so they add up to more", style="dim")
    else:
        yield Text("  no term differs by more than a hundredth", style="dim")


def _phases(a: ShownSide, b: ShownSide) -> Iterator[Text]:
    """What decides how long each phase takes on a GPU, beside each other."""
    from rich.text import Text

    if a.scheduled.target.kind != "gpu":
        return
    from ...heuristics import gpu_estimates

    for s in (a, b):
        for i, e in enumerate(gpu_estimates(s.scheduled)):
            terms = ", ".join(f"{t.name} {duration(t.seconds)}" for t in e.terms)
            yield Text(f"  {s.name}, phase {i}: {terms}; {e.registers} registers, {e.resident} groups at once")


def _without(some: Sequence[Opt], others: Sequence[Opt]) -> tuple[Opt, ...]:
    """Those of `some` that `others` lacks, as often as it does."""
    left = list(others)
    out = []
    for o in some:
        if o in left:
            left.remove(o)
        else:
            out.append(o)
    return tuple(out)


def _nest(s: ShownSide) -> list[str]:
    from ...opts import nest_lines

    return [
        "  " * n.depth + "  ".join(filter(None, (f"{n.label} {n.extent_text}".strip(), n.kind, n.detail))) for n in nest_lines(s.scheduled)
    ]


def _stages(
    kernel: Kernel, a: ShownSide, b: ShownSide, place: ForTarget, wanted: Sequence[str]
) -> Iterator[tuple[str, list[str], list[str]]]:
    from ..grammar.schedule_arguments import ONLY_CUDA, STAGES
    from .stages import stages_text

    every = [s for s in STAGES if s not in ONLY_CUDA or (s == "sass" and place.target.lang == "cuda")]
    for stage in every if "all" in wanted else wanted:
        texts = (stages_text(kernel, s.scheduled, place.target, [stage], optional="all" in wanted) for s in (a, b))
        before, after = (t.splitlines() for t in texts)
        yield stage, before, after


def _show(say: object, heading: str, before: Sequence[str], after: Sequence[str], context: int) -> None:
    """A unified difference, coloured; one line where there is none."""
    from rich.text import Text

    assert callable(say)
    lines = list(difflib.unified_diff(before, after, "A", "B", n=context, lineterm=""))[2:]
    added, gone = (sum(x.startswith(sign) for x in lines) for sign in "+-")
    said = f"{gone} lines only in A, {added} only in B" if lines else "the same"
    say(Text.assemble("\n", (heading, "bold"), f": {said}"), soft_wrap=True)
    for x in lines if context == CONTEXT else (x for x in lines if not x.startswith("@")):
        say(Text(x, style=COLOURS.get(x[:1], "")), soft_wrap=True)
