"""What `tune fleet status` shows: the slots that are there, and those that were lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..terminal.style import table

if TYPE_CHECKING:
    from rich.console import Console

    from ...fleet.engine import FleetSlot
    from ...fleet.scheduler import LostSlot

MOST_LOST = 12
"""Losses that the table has; --json has all that the scheduler noted."""
HOW = {"died": "died", "silent": "fell silent", "left": "was ended"}


def show(out: Console, url: str, slots: Sequence[FleetSlot], gone: Sequence[LostSlot]) -> None:
    """Print both tables; the second only where something was lost."""
    if slots:
        _there(out, url, slots)
    else:
        out.print(f"no worker has joined {url}: tune fleet worker {url}", markup=False, soft_wrap=True)
    if gone:
        _lost(out, gone)


def _there(out: Console, url: str, slots: Sequence[FleetSlot]) -> None:
    from rich.text import Text

    shown = table(url, "host", "times on", "processor", ">threads", "runs", "slot?1", "address?2", "target?3")
    for s in slots:
        d = s.device
        runs = Text(f"cannot be used: {s.refused}", style="red") if s.refused else Text(", ".join(s.running) or "idle")
        kind = d.spec.rpartition("/")[2] if d is not None else f"builds {s.build} at a time"
        target = d.target if d else ""
        processor = " ".join(target.split(":")[1:3])
        threads = str(d.threads) if d else ""
        shown.add_row(Text(s.host), Text(kind), Text(processor), threads, runs, s.name, Text(s.address), Text(target))
    out.print(shown)
    machines = len({s.host for s in slots})
    busy = sum(bool(s.running) for s in slots)
    out.print(f"{machines} machine{_s(machines)}, {len(slots)} slot{_s(len(slots))}, {busy} busy", markup=False)


def _lost(out: Console, gone: Sequence[LostSlot]) -> None:
    from rich.text import Text

    from ...fleet.scheduler import times_lost

    often = times_lost(gone)
    left_out = len(gone) - MOST_LOST
    shown = table(
        f"lost, the last {MOST_LOST} of {len(gone)} (--json has all)" if left_out > 0 else "lost",
        "when (UTC)", "host", "timed on", "worker", "had", "now",
    )  # fmt: skip
    for g in gone[-MOST_LOST:]:
        had = [f"{t} (lost {often[t]} times)" if often[t] > 1 else t for t in g.jobs]
        shown.add_row(
            Text(g.when[:19].replace("T", " ")),
            Text(g.host),
            Text(g.spec.rpartition("/")[2] or "a builder"),
            Text(HOW[g.how], style="" if g.how == "left" and not g.jobs else "red"),
            Text(", ".join(had) or "no job"),
            Text("back" if g.back else "away"),
        )
    out.print(shown)


def _s(n: int) -> str:
    return "s" * (n != 1)
