"""`tune run --manifest`: tune all that a manifest asks for, show it being done, and say what failed.

`tune cache check`, and `tune run --mode require` with a manifest, say what of it is missing in the cache, without any device."""

from __future__ import annotations

import json
import shlex
import sys
import time
import warnings
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ... import cache
from ...cache.objective_types import TIME
from ...ir.errors import DeviceError, UsageError
from ...ir.normal_form import normalise
from ...measure.roofline import share
from ...plan.identity import canonical_of
from ...search.budget import Budget, parse_seconds
from ..report.entries import roofline_s
from ..terminal.live import display, rates
from ..terminal.output import with_code, write
from ..terminal.style import console, duration, opts_text, percent, rate, shape_text, soft_wrapped, table

if TYPE_CHECKING:
    from rich.console import Console

    from ...search.manifest.manifest_file import Entry, Manifest
    from ...search.manifest.tune_all import Checked, Done, Overall


NOTHING_VALID, INTERRUPTED = 4, 130
ELSEWHERE, LEFT = "elsewhere", "left"
STATUS = {"cached": "green", "tuned": "bold green", "failed": "bold red", "elsewhere": "dim", "interrupted": "yellow", "left": "yellow"}
NOT_WITH = ("kernel", "shape", "dtype", "device", "threads", "study", "random_seed", "start")


def run(args: Namespace) -> int:
    """Tune every entry that is for this machine, or with `--mode require` only look them up."""
    given = ["--" + n.replace("_", "-") for n in NOT_WITH if getattr(args, n) is not None]
    if given:
        raise UsageError(f"{', '.join(given)} cannot be used with --manifest: write it in the manifest")
    if args.mode == "record":
        raise UsageError("--mode record is for one kernel, not for a manifest")
    if args.mode == "require":
        if args.retune:
            raise UsageError("require answers from the cache and --retune searches again: use one of them")
        if args.fleet:
            raise UsageError("require answers from the cache, which needs no --fleet")

        return check(args)
    from ...search.manifest import manifest_file as manifests

    manifest = manifests.load(args.manifest, "all" if args.trust else "inside")
    keep_lock(manifest)
    found = manifest.only(args.target)
    seconds = None if args.budget is None else parse_seconds(args.budget)
    out = console(sys.stderr if args.json == "-" else None)
    done, code = on_fleet(found, args, seconds, out) if args.fleet else tune_entries(found, args, seconds, out)
    if args.json:
        write(
            args.json,
            json.dumps(with_code({"schema": 1, "manifest": found.path, "entries": [plain(d) for d in done], "exit_code": code}), indent=1)
            + "\n",
        )
    return code


def tune_entries(found: Manifest, args: Namespace, seconds: float | None, out: Console, further: bool = False) -> tuple[list[Done], int]:
    """Tune all entries in `seconds` (None: each has its own budget), show it being done and sum it up; what became of each, and
    the exit code. `further`: see `tune_all`."""
    from ...search.manifest.tune_all import LEAST_S, tune_all

    until = None if args.until is None else Budget.until(args.until, args.budget)
    if until is not None and until.plateau is None and until.stop_at is None:
        seconds = until.seconds

    def show(entry: Entry, share: float | None, trials: int | None, overall: Overall) -> Any:
        return display(entry.title, share, trials, args.quiet, out, overall.line, args.verbose)

    def told(done: Done, overall: Overall) -> None:
        if not args.quiet and done.status != ELSEWHERE:
            out.print(f"[{len(overall.done)}/{overall.total}] {line(done)}", soft_wrap=soft_wrapped(out))

    again = args.retune or args.mode == "refresh"
    with cache.open(args.cache) as store:
        began = time.monotonic()
        probe(found, out, args.quiet, seconds)
        left = None if seconds is None else max(LEAST_S, seconds - (time.monotonic() - began))
        done = tune_all(
            found,
            store,
            seconds=left,
            trials=args.trials,
            again=again,
            further=further,
            strategy=args.strategy,
            until=until,
            show=show,
            told=told,
        )
        unsent = store.waiting.said()
    out.print(summary(found, done))
    if unsent:
        out.print(unsent, style="yellow", soft_wrap=soft_wrapped(out))
    return done, ending(found, done, out)


def on_fleet(found: Manifest, args: Namespace, seconds: float | None, out: Console) -> tuple[list[Done], int]:
    """As `tune_shown`, on the machines of a fleet."""
    from ..fleet.tune_on_fleet import tune_entries as tune_on_fleet_shown

    done = tune_on_fleet_shown(found, args, seconds, out, line)
    out.print(summary(found, done))
    return done, ending(found, done, out, "in the fleet; let a worker join that has it")


def keep_lock(found: Manifest) -> None:
    """Write which kernels the manifest's files make, for those who may not run them; a warning where that is not possible."""
    from dataclasses import replace

    from ...search.manifest import lock as manifest_lock

    ran = [(e.record, e.made) for e in found.entries if e.record is not None and e.made is not None]
    try:
        manifest_lock.write(found.path, (replace(r, kernel=canonical_of(normalise(made)).hash) for r, made in ran))
    except OSError as e:
        place = manifest_lock.path_of(found.path)
        warnings.warn(
            f"cannot write {place} ({e.strerror}): --mode require will not know the kernels of this manifest's files", stacklevel=2
        )


def probe(found: Manifest, out: Console, quiet: bool, seconds: float | None) -> None:
    """Measure the limits of the devices of this machine that the manifest names, where that never happened, in a part of the budget."""
    from ...search.machine_limits import know_limits
    from ...search.manifest.tune_all import here

    for place in found.places:
        try:
            device, _ = here(place)
        except DeviceError:
            continue
        said = f"measuring the limits of {place.device}, once"
        begin: Callable[[], None] = (lambda: None) if quiet else partial(out.print, said, soft_wrap=soft_wrapped(out))
        know_limits(device, seconds, begin)


def line(done: Done) -> str:
    """One finished entry in a line."""
    said = f"{done.entry.title}: {done.status}"
    if done.result is not None and done.result.found:
        said += f", {rates(done.result)}"
    return said + (f" ({done.message})" if done.message else "")


def summary(found: Manifest, done: Sequence[Done]) -> Any:
    """All entries in a table."""
    from rich.text import Text

    out = table(found.path, "kernel", "shape", "dtype?5", "for?2", "", ">time", ">GFLOP/s?4", ">GB/s?6", ">roofline?1", ">gain?3", "opts?7")
    for d in done:
        r, e = d.result, d.entry
        row = ["", "", "", "", "", "" if d.status == ELSEWHERE else Text(d.message)]
        if r is not None and r.t_min is not None:
            row = [duration(r.t_min), rate(r.gflops, ""), rate(r.gbytes_s, ""), share(r.roofline_pct) if r.roofline_pct else "-"]
            row += [f"{r.gain:.2f}x" if r.gain else "-", opts_text(r.opts)]
        out.add_row(
            Text(e.kernel),
            Text(shape_text(e.shape)),
            e.dtype,
            Text(e.purpose),
            Text(d.status, style=STATUS[d.status]),
            *row,
        )
    return out


def ending(
    found: Manifest, done: Sequence[Done], out: Console, nowhere: str = "on this machine; add one, or run this where they are"
) -> int:
    """Says how it went; the exit code."""
    counts = Counter(d.status for d in done)
    out.print(", ".join(f"{counts[s]} {s}" for s in STATUS if counts[s]))
    for text in dict.fromkeys(f"{d.entry.place.name} is elsewhere: {d.message}" for d in done if d.status == ELSEWHERE):
        out.print(text, style="dim", soft_wrap=soft_wrapped(out))
    failed = [d for d in done if d.status == "failed"]
    for d in failed:
        out.print(
            f"failed: {d.entry.title} ({found.path}{f', line {d.entry.line}' if d.entry.line else ''}): {d.message}",
            style="red",
            soft_wrap=soft_wrapped(out),
        )
    spent = [d for d in done if d.status == LEFT and d.message]
    if spent:
        out.print(f"{len(spent)} were not begun: {spent[0].message}; the same command goes on with them", soft_wrap=soft_wrapped(out))
    if counts["interrupted"] or counts["left"] > len(spent):
        out.print("interrupted; what was tuned is saved, and the same command goes on from there")
        return INTERRUPTED
    if failed or spent:
        return NOTHING_VALID
    if counts[ELSEWHERE] == len(done):
        raise DeviceError(f"no target of {found.path} is {nowhere}")
    return 0


def plain(done: Done) -> dict[str, Any]:
    """A Done as JSON."""
    e = done.entry
    out: dict[str, Any] = {"kernel": e.kernel, "shape": dict(e.shape), "dtype": e.dtype, "target": e.place.name, "line": e.line}
    result = None if done.result is None else done.result.to_json()
    if result is not None and done.status == "interrupted":
        result = with_code(result)
    return {**out, "status": done.status, "message": done.message, "result": result}


MISSING = 5
STATE = {"present": "green", "stale": "yellow", "missing": "bold red"}


def check(args: Namespace) -> int:
    """Look up every entry without any device; say what is missing, and how to tune it."""
    from ...search.manifest import manifest_file as manifests
    from ...search.manifest import tune_all

    found = manifests.load(args.manifest, "all" if args.trust else "none").only(args.target)
    with cache.open(args.cache) as store:
        checked = [tune_all.check(e, store) for e in found.entries]
        place = store.location
    form = getattr(args, "format", "table")
    if form == "markdown":
        print(markdown(found, checked))
    elif form == "json" or getattr(args, "json", None):
        entries = [verdict(c) for c in checked]
        text = json.dumps({"schema": 1, "manifest": found.path, "entries": entries}, indent=1) + "\n"
        write(getattr(args, "json", None) or "-", text)
    if form in ("table", "text"):
        listing(found, checked, place, args)
    return MISSING if any(c.state != "present" for c in checked) else 0


def listing(found: Manifest, checked: Sequence[Checked], place: str, args: Namespace) -> None:
    """The table, and for what is not there the key and the command that tunes it."""
    from rich.text import Text

    quiet, to_error = getattr(args, "quiet", False), getattr(args, "json", None) == "-"
    out = console(sys.stderr if to_error else None, getattr(args, "wide", False))
    if not quiet:
        listed = table(f"{found.path} in {place}", "kernel", "shape", "dtype?4", "for?2", "", ">time?1", ">roofline?3", "measured?5")
        for c in checked:
            e, r = c.entry, c.row
            t = (r.t_min or r.t_med or 1.0) if r else 1.0
            what = [duration(t), percent(roofline_s(r, t), t), r.when[:10]] if r else ["", "", ""]
            listed.add_row(
                Text(e.kernel),
                Text(shape_text(e.shape)),
                e.dtype,
                Text(e.purpose),
                Text(c.state, style=STATE[c.state]),
                *what,
            )
        out.print(listed)
    absent = [c for c in checked if c.state != "present"]
    out.print(f"{len(checked) - len(absent)} of {len(checked)} present")
    for c in absent:
        why = c.why or ("made by other code of Tilewright, tune it again" if c.state == "stale" else "nothing that was verified is cached")
        out.print(f"{c.state}: {c.entry.title} ({why}): {c.wanted}", style="red", soft_wrap=soft_wrapped(out))
        out.print(f"  {command(c.entry, args.cache, c.state == 'stale')}", soft_wrap=True)
    if absent:
        out.print(
            f"all at once, on a machine of that target: {shlex.join(['tune', 'run', '--manifest', args.manifest, '--budget', '5m', *cache_flag(args.cache)])}"
        )


def command(e: Entry, cache: str | None, again: bool = False) -> str:
    """What tunes one entry, on a machine that has its target."""
    words = ["tune", "run", "--kernel", e.kernel]
    words += ["--shape", shape_text(e.shape)] if e.shape else []
    words += ["--dtype", e.dtype] if e.dtype else []
    words += ["--device", e.place.device] if e.place.device != "cpu" else []
    words += ["--threads", str(e.place.threads)] if e.place.threads else []
    words += ["--objective", e.objective] if e.objective != TIME else []
    words += ["--numerics", e.numerics] if e.numerics != "free" else []
    return shlex.join([*words, *(["--retune"] if again else []), *cache_flag(cache)])


def cache_flag(cache: str | None) -> list[str]:
    """The flag for a cache that was named."""
    return ["--cache", cache] if cache else []


def markdown(found: Manifest, checked: Sequence[Checked]) -> str:
    """A table for a pull request's summary."""
    absent = sum(c.state != "present" for c in checked)
    head = f"**{found.path}**: {'all' if not absent else f'{len(checked) - absent} of'} {len(checked)} entries are in the cache"
    lines = [head, "", "| kernel | shape | dtype | for | state | time | measured |", "|---|---|---|---|---|---:|---|"]
    for c in checked:
        e, r = c.entry, c.row
        time, when = (duration(r.t_min or r.t_med or 0.0), r.when[:10]) if r else ("", "")
        state = c.state if c.state == "present" else f"**{c.state}**"
        cells = (e.kernel, shape_text(e.shape), e.dtype, e.purpose, state, time, when)
        lines.append("| " + " | ".join(x.replace("|", "\\|") for x in cells) + " |")
    lines += ["", *(f"* {c.entry.title}: {c.why}" for c in checked if c.why)] if any(c.why for c in checked) else []
    return "\n".join(lines)


def verdict(c: Checked) -> dict[str, Any]:
    """A look-up as JSON."""
    e, w = c.entry, c.wanted
    out: dict[str, Any] = {
        "kernel": e.kernel,
        "shape": dict(e.shape),
        "dtype": e.dtype,
        "target": e.place.name,
        "line": e.line,
        "state": c.state,
    }
    out |= {"objective": e.objective} if e.objective != TIME else {}
    out |= {"numerics": e.numerics} if e.numerics != "free" else {}
    key = {"kernel": w.kernel, "target": w.target, "threads": w.threads, "compiler": w.compiler}
    return {**out, "wanted": key, "t_min": c.row.t_min if c.row else None, "tune": command(e, None, c.state == "stale"), "why": c.why}
