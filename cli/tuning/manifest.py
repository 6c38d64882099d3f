"""`tune run --manifest`: tune all that a manifest asks for, show it being done, and say what failed."""

from __future__ import annotations

import json
import sys
import time
import warnings
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...cache.keys import for_text
from ...ir.errors import DeviceError, UsageError
from ...measure.roofline import share
from ..terminal.json_file import with_code, write
from ..terminal.live import display, rates
from ..terminal.style import console, duration, opts_text, rate, shape_text, table, whole

if TYPE_CHECKING:
    from rich.console import Console

    from ...search.manifest.manifest import Entry, Manifest
    from ...search.manifest.tune_all import Done, Overall

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
        from .required import check

        return check(args)
    from ...search.budget import parse_seconds
    from ...search.manifest import manifest as manifests

    whole = manifests.load(args.manifest, "all" if args.trust else "inside")
    keep_lock(whole)
    found = whole.only(args.target)
    seconds = None if args.budget is None else parse_seconds(args.budget)
    out = console(sys.stderr if args.json == "-" else None)
    done, code = on_fleet(found, args, seconds, out) if args.fleet else tune_shown(found, args, seconds, out)
    if args.json:
        write(
            args.json,
            json.dumps(with_code({"schema": 1, "manifest": found.path, "entries": [plain(d) for d in done], "exit_code": code}), indent=1)
            + "\n",
        )
    return code


def tune_shown(found: Manifest, args: Namespace, seconds: float | None, out: Console) -> tuple[list[Done], int]:
    """Tune all entries in `seconds` (None: each has its own budget), show it being done and sum it up; what became of each, and
    the exit code."""
    from ... import cache
    from ...search.manifest.tune_all import LEAST_S, tune_all

    def show(entry: Entry, share: float | None, trials: int | None, overall: Overall) -> Any:
        return display(entry.title, share, trials, args.quiet, out, overall.line, args.verbose)

    def told(done: Done, overall: Overall) -> None:
        if not args.quiet and done.status != ELSEWHERE:
            out.print(f"[{len(overall.done)}/{overall.total}] {line(done)}", markup=False, soft_wrap=whole(out))

    again = args.retune or args.mode == "refresh"
    with cache.open(args.cache) as store:
        began = time.monotonic()
        probe(found, out, args.quiet, seconds)
        left = None if seconds is None else max(LEAST_S, seconds - (time.monotonic() - began))
        done = tune_all(found, store, seconds=left, trials=args.trials, again=again, strategy=args.strategy, show=show, told=told)
    out.print(summary(found, done))
    return done, ending(found, done, out)


def on_fleet(found: Manifest, args: Namespace, seconds: float | None, out: Console) -> tuple[list[Done], int]:
    """As `tune_shown`, on the machines of a fleet."""
    from ..fleet import tuned

    done = tuned.tune_shown(found, args, seconds, out, line)
    out.print(summary(found, done))
    return done, ending(found, done, out, "in the fleet; let a worker join that has it")


def keep_lock(found: Manifest) -> None:
    """Write which kernels the manifest's files make, for those who may not run them; a warning where that is not possible."""
    from dataclasses import replace

    from ...ir.normal_form import normalise
    from ...plan.identity import canonical_of
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
    from ...search.machine_limits import longest_of, measured, part_of
    from ...search.manifest.tune_all import here

    for place in found.places:
        try:
            device, _ = here(place)
        except DeviceError:
            continue
        if device.limits() is None:
            if not quiet:
                out.print(f"measuring the limits of {place.device}, once", markup=False, soft_wrap=whole(out))
            try:
                measured(device, part_of(seconds), longest_of(seconds))
            except DeviceError as error:  # a search works without them
                warnings.warn(str(error), stacklevel=2)


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
            Text(e.place.name + for_text(e.objective)),
            f"[{STATUS[d.status]}]{d.status}[/]",
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
        out.print(text, style="dim", markup=False, soft_wrap=whole(out))
    failed = [d for d in done if d.status == "failed"]
    for d in failed:
        out.print(
            f"failed: {d.entry.title} ({found.path}, line {d.entry.line}): {d.message}", style="red", markup=False, soft_wrap=whole(out)
        )
    spent = [d for d in done if d.status == LEFT and d.message]
    if spent:
        out.print(f"{len(spent)} were not begun: {spent[0].message}; the same command goes on with them", soft_wrap=whole(out))
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
