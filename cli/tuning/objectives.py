"""What a summary says of energy and scratch memory, and the front of two objectives."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...cache.objectives import ENERGIES, FRONTS, TIME, objective
from ...ir.errors import UsageError
from ..terminal.style import bytes_text, duration, opts_text, table

if TYPE_CHECKING:
    from ...search import Result
    from ..terminal.listing import Listing


def only_time(args: Namespace) -> None:
    """Raise UsageError where --objective asks for something else."""
    if objective(args.objective) != TIME:
        said = "--objective is for one kernel of one shape on this machine"
        raise UsageError(f"{said}; several shapes, functions of tensors, and fleets are tuned for the time")


def shown_as(result: Result) -> list[str]:
    """The schedule itself, where `tune show` would look up another: that of the time."""
    from ...opts.opt import short

    return [] if result.objective == TIME else ["--opts", short(result.opts)]


def rows(result: Result) -> Iterator[tuple[str, str]]:
    """Headings and texts: the energy of a call with its doubt, the scratch memory, and how the start schedule compares. The time's are elsewhere."""
    from ...search.result import energy_text

    if result.energy:
        yield "energy", energy_text(result.energy)
    if result.scratch is not None and "scratch" in result.objective:
        yield "scratch", f"{bytes_text(result.scratch) if result.scratch else 'none'} beside the arguments"
    if result.start_value is not None:
        yield f"start's {'energy' if result.objective in ENERGIES else result.objective}", against(result)


def against(result: Result) -> str:
    """How the answer compares with the start schedule in what was made small."""
    from ...search.result import joules

    assert result.start_value is not None
    whole = result.objective in ENERGIES
    said = joules(result.start_value) if whole else bytes_text(int(result.start_value)) if result.start_value else "none"
    if result.opts == result.start_opts:
        return f"{said}; it is the answer: nothing beat it by more than the noise"
    if whole and result.gain:
        return f"{said}; the best takes {result.gain:.2f}x less, side by side"
    return said


def about_time(result: Result) -> bool:
    """Whether `gain` says how many times faster the answer is."""
    return result.objective == TIME or (result.objective in FRONTS and result.objective.startswith(TIME))


def front(result: Result) -> Listing:
    """The front as a table, the fastest first."""
    from ...opts import parse
    from ...search.result import joules

    names = result.objective.split(",")
    energy = any(n in ENERGIES for n in names)
    headings = [">time", *([">energy"] if energy else []), ">scratch", "checked?1", "opts?2"]
    out = table(f"no schedule is better in both {names[0]} and {names[1]}", *headings)
    for m in result.front:
        used = [joules(m["joules"]) if m["joules"] is not None else "-"] if energy else []
        scratch = "-" if m["scratch"] is None else bytes_text(m["scratch"]) if m["scratch"] else "none"
        out.add_row(duration(m["t_min"]), *used, scratch, "twice" if m["confirmed"] else "once", opts_text(parse(m["opts"])))
    return out
