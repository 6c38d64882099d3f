"""`tune run --recorded`: tune what real programs ran, by weight."""

from __future__ import annotations

import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ... import cache
from ...ir.errors import OptError, TilewrightError, UsageError
from ...ir.normal_form import normalise
from ...plan import usage
from ...search.budget import parse_seconds
from ..terminal.style import console, duration, soft_wrapped, stored_opts, table
from .tune_manifest import NOT_WITH, tune_entries

if TYPE_CHECKING:
    from rich.console import Console

    from ...cache import Cache
    from ...plan.usage import UsedKernel

NICE = 19


@dataclass(frozen=True)
class Weighed:
    """A recorded kernel with its answer. `seconds`: of a run, measured, or estimated for its start schedule; `why`: what keeps it from being tuned
    here, '' for nothing."""

    used: UsedKernel
    seconds: float
    opts: str = "[]"
    origin: str = ""
    why: str = ""

    @property
    def weight(self) -> float:
        """Seconds of all runs."""
        return self.used.runs * self.seconds


def run(args: Namespace) -> int:
    """Show what ran, or tune it here or in the background. The exit code is that of a manifest's run."""
    from ...search.manifest.manifest_file import Entry, Manifest, Place, sizes_of

    given = [
        "--" + n.replace("_", "-")
        for n in (*NOT_WITH, "manifest", "target", "against", "objective", "policy", "fleet")
        if getattr(args, n, None)
    ]
    if given:
        raise UsageError(f"{', '.join(given)} cannot be used with --recorded, which tunes what ran as it ran")
    if args.mode in ("record", "require"):
        raise UsageError(
            f"--mode {args.mode} is for one kernel or a manifest, not for --recorded; --recorded --dry-run shows what is tuned"
        )
    out = console(sys.stderr if args.json == "-" else None)
    with cache.open(args.cache) as store:
        file = usage.file_of(store)
        found, wrong = usage.recorded(file)
        weighed = sorted((_weighed(k, store) for k in found), key=lambda w: (bool(w.why), -w.weight))
    for said in wrong:
        out.print(said, soft_wrap=soft_wrapped(out))
    if not found:
        out.print(f"nothing was recorded in {file}: run a program with TILEWRIGHT_TUNE=record", soft_wrap=soft_wrapped(out))
        return 0
    _show(weighed, file, out)
    if args.dry_run:
        return 0
    here = [w for w in weighed if not w.why]
    if not here:
        raise UsageError(f"nothing that ran can be tuned here: {'; '.join(dict.fromkeys(w.why for w in weighed))}")
    if args.background:
        return _in_background(args, file, out)
    places = {(w.used.device, w.used.threads): Place(w.used.where, w.used.device, threads=w.used.threads) for w in here}
    entries = tuple(
        Entry(k.name, sizes_of(k), "", places[w.used.device, w.used.threads], 0, given=k, weight=w.weight)
        for w, k in ((w, w.used.kernel) for w in here)
    )
    seconds = None if args.budget is None else parse_seconds(args.budget)
    return tune_entries(Manifest(str(file), tuple(places.values()), entries), args, seconds, out, further=True)[1]


def _weighed(used: UsedKernel, store: Cache) -> Weighed:
    from ...devices import get
    from ...heuristics import estimate
    from ...opts import apply, dumps
    from ...plan import Artefacts, resolve

    if used.gone:
        return Weighed(used, 0.0, why=f"{used.file.rpartition(':')[0]} is gone")
    try:
        device = get(used.device)
        device.check()
        if used.threads > device.threads:
            return Weighed(used, 0.0, why=f"it ran on {used.threads} threads, and this process may use {device.threads}")
        plan = resolve(used.kernel, device, used.threads, store, store=Artefacts.default(), start="quick")
        kernel = normalise(used.kernel)
        known = plan.row.t_med if plan.row is not None and plan.origin in ("exact", "stale") else None
        planned = apply(kernel, plan.opts, device.target)
        # a call that is not worth several threads runs on one
        seconds = known if known is not None else min(estimate(planned, n, device.limits()) for n in {1, used.threads})
        return Weighed(used, seconds, dumps(plan.opts), plan.origin)
    except OptError as e:
        return Weighed(used, 0.0, origin=f"no estimate: {e}")
    except TilewrightError as e:
        return Weighed(used, 0.0, why=str(e))


def _show(weighed: Sequence[Weighed], file: Path, out: Console) -> None:
    whole = sum(w.weight for w in weighed) or 1.0
    listed = table(f"what ran, in {file}", "kernel", "arrays?2", ">runs", ">a run", ">share", "for", "schedule?1", "from")
    for w in weighed:
        used = w.used
        arrays = ", ".join(f"{b.name}[{','.join(map(str, b.shape))}]" for b in used.kernel.buffers)
        name = used.kernel.name if not used.file else f"{used.kernel.name} ({used.file})"
        state = f"left out: {w.why}" if w.why else w.origin
        listed.add_row(
            name,
            arrays,
            str(used.runs),
            duration(w.seconds) if w.seconds else "",
            f"{100 * w.weight / whole:.0f} %",
            used.where,
            stored_opts(w.opts),
            state,
        )
    out.print(listed)


def _in_background(args: Namespace, file: Path, out: Console) -> int:
    """The same in a process of the lowest priority that outlives this one."""
    log = file.with_name(f"{file.name}.log")
    words = ["run", "--recorded", "--quiet", "--mode", args.mode]
    for name in ("budget", "trials", "strategy", "cache"):
        if getattr(args, name) is not None:
            words += [f"--{name}", str(getattr(args, name))]
    with open(log, "w") as said:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tilewright", *words], stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
        )
    os.setpriority(os.PRIO_PROCESS, process.pid, NICE)
    out.print(f"process {process.pid} tunes this at the lowest priority; it writes to {log}", soft_wrap=soft_wrapped(out))
    return 0
