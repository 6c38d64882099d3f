"""`tune fleet sweep`: tune what models need, in the order in which entries warm each other, and go on where an earlier run ended."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import cache
from ...search.budget import parse_seconds
from ...search.interrupts import watched
from ..terminal.output import with_code, write
from ..terminal.style import console, duration, shape_text, table
from ..tuning import tune_manifest

if TYPE_CHECKING:
    from rich.console import Console

    from ...search.manifest.manifest_file import Entry, Manifest
    from ...search.manifest.sweep_file import EntryStory, Sweep, SweepJournal, SweepOrder
    from ...search.manifest.tune_all import Done, Overall


def sweep(args: Namespace) -> int:
    """Plan, and tune what is not done; the exit code is that of a manifest's run."""
    from ...search.manifest import sweep_file
    from ...search.manifest.sweep_file import order

    files: Any = "all" if args.trust else "inside"
    whole = sweep_file.load(args.file, files, args.target, args.model)
    if not args.dry_run:
        tune_manifest.keep_lock(whole.manifest)
    plan = order(whole.manifest.entries)
    place = Path(args.journal) if args.journal else sweep_file.path_of(args.file)
    out = console(sys.stderr if args.json == "-" else None, args.wide)
    if args.dry_run:
        stories = {} if args.again else sweep_file.read(place)
        _plan(whole, plan, stories, out)
        if args.json:
            write(args.json, json.dumps({"schema": 1, "sweep": args.file, "entries": _planned(whole, plan, stories)}, indent=1) + "\n")
        return 0
    return watched(lambda: _run(args, whole, plan, place, out))


def _run(args: Namespace, whole: Sweep, plan: SweepOrder, place: Path, out: Console) -> int:
    from ...search.manifest.sweep_file import LOSSES, SweepJournal, deadly, order
    from ...search.manifest.tune_all import FAILED, Done

    with SweepJournal(place, plan.entries if args.again else ()) as journal:
        # on a fleet it is a worker that dies, which the fleet knows more of
        lost = [] if args.again or args.retry or args.fleet else deadly(plan.entries, journal.stories)
        why = f"was begun {LOSSES} times and took its process with it each time; --retry tries it once more"
        skipped = [Done(e, FAILED, message=why) for e in lost]
        left = order([e for e in whole.manifest.entries if not any(e is x for x in lost)])
        out.print(_beginning(plan, journal.stories, place), soft_wrap=True)
        for d in skipped:
            out.print(tune_manifest.line(d), soft_wrap=True)
        ordered = replace(whole.manifest, entries=left.entries)
        done = [*(_on_fleet if args.fleet else _tune_here)(args, ordered, left, journal, out), *skipped]
    found = replace(whole.manifest, entries=plan.entries)
    out.print(tune_manifest.summary(found, done))
    code = tune_manifest.ending(found, done, out, *(["in the fleet; let a worker join that has it"] if args.fleet else []))
    if args.json:
        entries = [{**tune_manifest.plain(d), "models": list(_models(whole, d.entry))} for d in done]
        write(args.json, json.dumps(with_code({"schema": 1, "sweep": args.file, "entries": entries, "exit_code": code}), indent=1) + "\n")
    return code


def _on_fleet(args: Namespace, ordered: Manifest, plan: SweepOrder, journal: SweepJournal, out: Console) -> list[Done]:
    """Tune on the slots of a fleet, side by side."""
    from .tune_on_fleet import tune_entries

    asked = Namespace(**vars(args), retune=args.again, mode="tune", strategy=None)
    return tune_entries(ordered, asked, _seconds(args), out, tune_manifest.line, plan.after, journal.ended)


def _seconds(args: Namespace) -> float | None:
    return None if args.budget is None else parse_seconds(args.budget)


def _tune_here(args: Namespace, ordered: Manifest, plan: SweepOrder, journal: SweepJournal, out: Console) -> list[Done]:
    """Tune on this machine, one entry after the other."""
    from ...search.manifest.tune_all import ELSEWHERE, tune_all
    from ..terminal.live import display

    def show(entry: Entry, share: float | None, trials: int | None, overall: Overall) -> Any:
        journal.begun(entry)
        return display(entry.title, share, trials, args.quiet, out, overall.line, False)

    def told(done: Done, overall: Overall) -> None:
        journal.ended(done)
        if not args.quiet and done.status != ELSEWHERE:
            out.print(f"[{len(overall.done)}/{overall.total}] {tune_manifest.line(done)}", soft_wrap=True)

    seconds = _seconds(args)
    with cache.open(args.cache) as store:
        tune_manifest.probe(ordered, out, args.quiet, seconds)
        return tune_all(ordered, store, seconds=seconds, trials=args.trials, again=args.again, show=show, told=told)


# what is said --------------------------------------------------------------------------------------------------------
def _beginning(plan: SweepOrder, stories: dict[str, EntryStory], place: Path) -> str:
    """What is ahead, in a line."""
    from ...search.manifest.sweep_file import identity

    known = Counter(stories[i].event for i in map(identity, plan.entries) if i in stories)
    said = f"{_entries(plan)}, at most {plan.longest} after one another"
    return said + (f"; {place} knows of {', '.join(f'{n} {event}' for event, n in known.items())}" if known else f"; journal {place}")


def _entries(plan: SweepOrder) -> str:
    n = len(plan.entries)
    return f"{n} entr{'y' if n == 1 else 'ies'}"


def _plan(whole: Sweep, plan: SweepOrder, stories: dict[str, EntryStory], out: Console) -> None:
    from rich.text import Text

    from ...search.manifest.sweep_file import EntryStory, identity

    listed = table(whole.manifest.path, ">#", "kernel", "shape", "dtype?4", "for?3", ">after?2", "journal?1", ">time?5", "models?6")
    for i, e in enumerate(plan.entries):
        story, above = stories.get(identity(e), EntryStory()), plan.after[i]
        after = "" if above is None else str(above + 1)
        time = duration(story.t_min) if story.t_min else ""
        names = Text(", ".join(_models(whole, e)))
        said = Text("not begun again" if story.deadly else story.event)
        listed.add_row(str(i + 1), Text(e.kernel), Text(shape_text(e.shape)), e.dtype, Text(e.place.name), after, said, time, names)
    out.print(listed)
    groups = sum(a is None for a in plan.after)
    out.print(f"{_entries(plan)} in {groups} tree{'s' * (groups != 1)}, at most {plan.longest} after one another; nothing was tuned")


def _planned(whole: Sweep, plan: SweepOrder, stories: dict[str, EntryStory]) -> list[dict[str, Any]]:
    from ...search.manifest.sweep_file import EntryStory, identity

    out = []
    for i, e in enumerate(plan.entries):
        story = stories.get(identity(e), EntryStory())
        what = {"kernel": e.kernel, "shape": dict(e.shape), "dtype": e.dtype, "target": e.place.name, "models": list(_models(whole, e))}
        out.append({**what, "after": plan.after[i], "depth": plan.depth[i], "journal": story.event, "t_min": story.t_min})
    return out


def _models(whole: Sweep, entry: Entry) -> Sequence[str]:
    from ...search.manifest.sweep_file import identity

    return whole.models[identity(entry)]
