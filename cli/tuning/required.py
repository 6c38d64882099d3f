"""`tune cache check` and `tune run --mode require` with a manifest: what of it is missing in the cache, told without any device."""

from __future__ import annotations

import json
import shlex
import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...cache.keys import for_text
from ...cache.objectives import TIME
from ..report.limits_now import roofline_s
from ..terminal.json_file import write
from ..terminal.style import console, duration, percent, shape_text, table, whole

if TYPE_CHECKING:
    from ...search.manifest.manifest import Entry, Manifest
    from ...search.manifest.required import Checked

MISSING = 5
STATE = {"present": "green", "stale": "yellow", "missing": "bold red"}


def check(args: Namespace) -> int:
    """Look up every entry without any device; say what is missing, and how to tune it."""
    from ... import cache
    from ...search.manifest import manifest as manifests
    from ...search.manifest import required

    found = manifests.load(args.manifest, "all" if args.trust else "none").only(args.target)
    with cache.open(args.cache) as store:
        checked = [required.check(e, store) for e in found.entries]
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
                Text(e.place.name + for_text(e.objective)),
                f"[{STATE[c.state]}]{c.state}[/]",
                *what,
            )
        out.print(listed)
    absent = [c for c in checked if c.state != "present"]
    out.print(f"{len(checked) - len(absent)} of {len(checked)} present")
    for c in absent:
        why = c.why or ("made by other code of Tilewright, tune it again" if c.state == "stale" else "nothing that was verified is cached")
        out.print(f"{c.state}: {c.entry.title} ({why}): {c.wanted}", style="red", markup=False, soft_wrap=whole(out))
        out.print(f"  {command(c.entry, args.cache, c.state == 'stale')}", markup=False, soft_wrap=True)
    if absent:
        out.print(
            f"all at once, on a machine of that target: {shlex.join(['tune', 'run', '--manifest', args.manifest, '--budget', '5m', *where(args.cache)])}"
        )


def command(e: Entry, cache: str | None, again: bool = False) -> str:
    """What tunes one entry, on a machine that has its target."""
    words = ["tune", "run", "--kernel", e.kernel]
    words += ["--shape", shape_text(e.shape)] if e.shape else []
    words += ["--dtype", e.dtype] if e.dtype else []
    words += ["--device", e.place.device] if e.place.device != "cpu" else []
    words += ["--threads", str(e.place.threads)] if e.place.threads else []
    words += ["--objective", e.objective] if e.objective != TIME else []
    return shlex.join([*words, *(["--retune"] if again else []), *where(cache)])


def where(cache: str | None) -> list[str]:
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
        cells = (e.kernel, shape_text(e.shape), e.dtype, e.place.name + for_text(e.objective), state, time, when)
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
    key = {"kernel": w.kernel, "target": w.target, "threads": w.threads, "compiler": w.compiler}
    return {**out, "wanted": key, "t_min": c.row.t_min if c.row else None, "tune": command(e, None, c.state == "stale"), "why": c.why}
