"""`tune show`: one schedule as options, as a loop nest, and as source, for this machine or for one that is not here.

A source that was tuned is shown by the values of its parameters, and its text with them."""

from __future__ import annotations

import shlex
import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from ...ir.errors import UsageError
from ..cache.query import shape_of
from ..terminal.style import KINDS, console, duration, legend, opts_text, soft_wrapped
from .opts_argument import chosen, target_of

if TYPE_CHECKING:
    from rich.text import Text

    from ...cache import Row
    from ...opts import Scheduled


LEXERS = {"opencl": "c"}
"""What languages are called where they are coloured."""


def run(args: Namespace) -> int:
    """Print the schedule that the arguments pick; `--source` prints the rendered text alone, `--stage` any stage of the way to it."""
    from ...ir.normal_form import normalise
    from ...lower import lower
    from ...opts import apply
    from ...renderers import render
    from ..functions.tracing import kernel_of

    if show_source(args):
        return 0
    # schedules, cached ones too, are of the kernel in normal form (unit axes dropped, neighbours merged)
    written = kernel_of(args)
    kernel = normalise(written)
    place = target_of(args)
    target = place.target
    if args.diff:
        from .difference import difference

        return difference(kernel, place, args)
    found = chosen("best" if args.opts is None else args.opts, kernel, place, args)
    opts, origin = found.opts, found.origin
    scheduled = apply(kernel, opts, target)
    if args.stage:
        from ..grammar.schedule_arguments import ONLY_CUDA, STAGES
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
    out.print(Text.assemble((kernel.name, "bold"), f" for {target.name}, {origin}"), soft_wrap=soft_wrapped(out))
    out.print(opts_text(opts), soft_wrap=soft_wrapped(out))
    out.print(legend(), style="dim")
    for line in order_lines(kernel, opts):
        out.print(Text(line), soft_wrap=soft_wrapped(out))
    out.print()
    out.print(nest_text(scheduled), soft_wrap=soft_wrapped(out))
    out.print()
    if out.is_terminal:
        from rich.syntax import Syntax

        out.print(Syntax(source.text, LEXERS.get(source.lang, source.lang), theme="ansi_dark", background_color="default", word_wrap=False))
    else:
        out.print(source.text, soft_wrap=True)
    return 0


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


def show_source(args: Namespace) -> bool:
    """Whether --kernel names a source, by `file.c:function` or where no kernel has that name; then its best configurations were printed, one
    for each key."""
    from ... import cache
    from ...named_kernels import is_named, is_path
    from ..functions.tracing import source_rows, split_source

    file, function = split_source(args.kernel)
    if args.target or args.opts is not None or (not file and (is_named(function) or is_path(function))):
        return False
    with cache.open(args.cache) as store:
        best = [b for key in dict.fromkeys(r.key for r in source_rows(store, args.kernel)) if (b := store.best(key)) is not None]
    asked = _asked(args, best)
    if not best:
        if file:
            raise UsageError(f"the cache holds no answer for {function} of {file}: tune source {file} --function {function} finds one")
        return False
    if not asked:
        raise UsageError(f"no answer for {args.kernel} has that shape, device or number of threads: {'; '.join(map(_about, best))}")
    if args.stage:
        raise UsageError("a source has no stages; --source prints its text")
    for i, row in enumerate(asked[:1] if args.source else asked):
        _print(row, args.source, i)
    return True


def _asked(args: Namespace, rows: list[Row]) -> list[Row]:
    """Those of that shape and number of threads, the newest first. The device is looked at where it is not the default."""
    want: dict[str, int] = {}
    if args.shape:
        from ...named_kernels import parse_shape

        want = parse_shape(args.shape)
    kept = [
        r for r in rows if want.items() <= r.shape_dict.items() and args.threads in (None, r.threads) and args.device in ("cpu", r.device)
    ]
    return sorted(kept, key=lambda r: r.when, reverse=True)


def _about(row: Row) -> str:
    return f"{shape_of(row)} on {row.device}, {row.threads} thread{'s' * (row.threads != 1)}"


def _print(row: Row, text_alone: bool, at: int) -> None:
    from rich.text import Text

    from ...opts import parse

    source: dict[str, Any] = row.facts["source"]
    text = str(source.get("text", ""))
    if text_alone:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        return
    out = console()
    if at:
        out.print()
    time = f", {duration(row.t_min)}" if row.t_min else ""
    out.print(Text.assemble((row.name, "bold"), f" of {source.get('file')}, {_about(row)}{time}"), soft_wrap=soft_wrapped(out))
    out.print(opts_text(parse(row.opts)), soft_wrap=soft_wrapped(out))
    flags = [str(f) for f in source.get("flags", ())]
    if flags:
        out.print(Text(f"flags: {shlex.join(flags)}", style="dim"), soft_wrap=True)
    out.print()
    out.print(text, soft_wrap=True)
