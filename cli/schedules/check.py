"""`tune check`: a kernel's schedules at a small shape, run where every access is checked."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from ... import targets
from ...ir.errors import BuildError, OptError
from ...ir.normal_form import normalise
from ...opts.opt import short
from ..terminal.style import console, duration, opts_text, shape_text, soft_wrapped, table

if TYPE_CHECKING:
    from rich.text import Text

    from ...ir.kernel import Kernel
    from ...measure.checking.sanitise import Sanitised
    from ...opts.opt import Opt
    from ...targets import Target

NOTHING_VALID = 4


def run(args: Namespace) -> int:
    """Check the schedule that the arguments give, or every start schedule; 0 when nothing was found, else 4."""
    from rich.text import Text

    from ...heuristics import starts
    from ...measure.checking.sanitise import sanitise
    from ..functions.tracing import kernel_of, named_shape

    if args.device:
        from ...devices import get

        target = get(args.device).target
    else:
        target = targets.named(args.target)
    shape = named_shape(args)
    kernel = normalise(kernel_of(args, shape))
    given = args.opts is not None
    schedules = [_schedule_of(args, kernel, target)] if given else list(dict.fromkeys(starts(kernel, target, target.cores)))
    vars = {s.arg.name: s.arg.lo for s in kernel.symbols}
    out = console()
    rows = table(
        f"{kernel.name} {shape_text(shape or {})} for {target.name}".replace("  ", " "),
        ">threads",
        "interpreter",
        "Oclgrind",
        ">time",
        "options",
    )
    faults: list[str] = []
    notes: dict[str, None] = {}
    for opts in schedules:
        try:
            found = sanitise(kernel, opts, target, vars, args.random_seed)
        except (OptError, BuildError):
            if given:
                raise
            continue  # a start schedule made for other sizes
        threads = "+".join(map(str, found.threads))
        rows.add_row(threads, _mark(not found.wrong), _oclgrind(found), duration(found.seconds), opts_text(opts))
        faults += _faults(found)
        if found.why:
            notes[found.why] = None
        if found.oclgrind and found.oclgrind.unchecked:
            notes[
                "* without following uninitialised values: that part of Oclgrind does not survive this code (the interpreter has followed them)"
            ] = None
    out.print(rows)
    for note in notes:
        out.print(Text(note, style="dim"), soft_wrap=soft_wrapped(out))
    for fault in faults:
        out.print(Text(fault, style="red"), soft_wrap=soft_wrapped(out))
    return NOTHING_VALID if faults else 0


def _schedule_of(args: Namespace, kernel: Kernel, target: Target) -> tuple[Opt, ...]:
    """The schedule of --opts."""
    from .opts_argument import ForTarget, chosen

    return chosen(args.opts, kernel, ForTarget(target, target.cores, None), args).opts


def _mark(fine: bool) -> Text:
    from rich.text import Text

    return Text("ok", "green") if fine else Text("fault", "bold red")


def _oclgrind(found: Sanitised) -> Text:
    from rich.text import Text

    if found.oclgrind is None:
        return Text("-", "dim")
    mark = _mark(not found.oclgrind.findings)
    return mark.append("*") if found.oclgrind.unchecked else mark


def _faults(found: Sanitised) -> list[str]:
    name = short(found.opts)
    texts = [found.wrong] if found.wrong else []
    texts += [f"Oclgrind: {f.text}" for f in (found.oclgrind.findings if found.oclgrind else ())]
    return [f"{name}: {t}" for t in texts]
