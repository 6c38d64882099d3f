"""`tune show`: one schedule as options, as a loop nest, and as source, for this machine or for one that is not here."""

from __future__ import annotations

import sys
from argparse import Namespace
from dataclasses import replace
from typing import TYPE_CHECKING

from ..terminal.style import KINDS, console, legend, opts_text, whole
from .chosen import ForTarget, chosen

if TYPE_CHECKING:
    from rich.text import Text

    from ...opts import Scheduled


LEXERS = {"opencl": "c"}
"""What languages are called where they are coloured."""


def run(args: Namespace) -> int:
    """Print the schedule that the arguments pick; `--source` prints the rendered text alone, `--stage` any stage of the way to it."""
    from ...ir.normal_form import normalise
    from ...lower import lower
    from ...opts import apply
    from ...renderers import render
    from ..functions.asked import kernel_of
    from .shown_source import shown

    if shown(args):
        return 0
    # schedules, cached ones too, are of the kernel in normal form (unit axes dropped, neighbours merged)
    written = kernel_of(args)
    kernel = normalise(written)
    place = place_of(args)
    target = place.target
    if args.diff:
        from .difference import difference

        return difference(kernel, place, args)
    found = chosen("best" if args.opts is None else args.opts, kernel, place, args)
    opts, origin = found.opts, found.origin
    scheduled = apply(kernel, opts, target)
    if args.stage:
        from ..grammar.schedules import ONLY_CUDA, STAGES
        from .stages import stages_text

        # `asm` of a GPU is its PTX
        every = [s for s in STAGES if s not in ONLY_CUDA or (s == "sass" and target.lang == "cuda")]
        wanted = every if "all" in args.stage else args.stage
        sys.stdout.write(stages_text(kernel, scheduled, target, wanted, optional="all" in args.stage, written=written))
        return 0
    source = render(lower(scheduled), target)
    if args.source:
        sys.stdout.write(source.text if source.text.endswith("\n") else source.text + "\n")
        return 0
    from rich.text import Text

    from ...heuristics.contraction_order import order_lines

    out = console()
    out.print(Text.assemble((kernel.name, "bold"), f" for {target.name}, {origin}"), soft_wrap=whole(out))
    out.print(opts_text(opts), soft_wrap=whole(out))
    out.print(legend(), style="dim")
    for line in order_lines(kernel, opts):
        out.print(Text(line), soft_wrap=whole(out))
    out.print()
    out.print(nest_text(scheduled), soft_wrap=whole(out))
    out.print()
    if out.is_terminal:
        from rich.syntax import Syntax

        out.print(Syntax(source.text, LEXERS.get(source.lang, source.lang), theme="ansi_dark", background_color="default", word_wrap=False))
    else:
        out.print(source.text, markup=False, soft_wrap=True)
    return 0


def place_of(args: Namespace) -> ForTarget:
    """What the schedule is shown for: the device, or a target that need not be here."""
    from ... import targets

    if not args.target:
        from ...devices import get

        device = get(args.device)
        return ForTarget(device.target, args.threads or device.threads, device)
    target = targets.named(args.target)
    if args.device == "cpu:c" and target.lang == "llvm":
        target = replace(target, lang="c")
    return ForTarget(target, args.threads or target.cores, None)


def nest_text(scheduled: Scheduled) -> Text:
    """The loop nest, one line a loop, each in the colour of its kind."""
    from rich.text import Text

    from ...opts import nest_lines

    out = Text()
    for line in nest_lines(scheduled):
        if out:
            out.append("\n")
        out.append("  " * line.depth)
        out.append(f"{line.label} {line.extent_text}".strip(), style=KINDS[line.kind])
        out.append(f"  {line.kind}", style="dim")
        if line.detail:
            out.append(f"  {line.detail}", style="dim")
    return out
