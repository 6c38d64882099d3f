"""How the command line writes numbers, options and axis kinds. The console falls back to plain text when not on a terminal."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TextIO

from ...measure.roofline import share
from .listing import Listing
from .sanitised import behind, clean

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from ...opts.opt import Opt

KINDS = {
    "grid": "bold blue",
    "thread": "bold cyan",
    "serial": "white",
    "reduce": "red",
    "upcast": "yellow",
    "lanes": "bold yellow",
    "unroll": "magenta",
    "partial": "bright_magenta",
    "dot": "bold magenta",
    "stage": "green",
    "store": "cyan",
}
"""A colour for each axis kind of `opts.nest_lines`, and for each option's."""

OUTCOMES = {
    "ok": "green",
    "slow": "dim",
    "wrong": "bold red",
    "build": "yellow",
    "timeout": "magenta",
    "crash": "red",
    "illegal": "dim yellow",
}

MOST_TEXT = 600
"""Characters of a failing candidate's detail that are shown."""


def legend() -> str:
    """What the letters of the options' short form mean."""
    from ...opts.registry import OPTIONS

    return "  ".join(f"{o.letter} {o.legend}" for o in OPTIONS.values() if o.legend)


ENDLESS = 100_000
"""Columns of a terminal that a line never fills."""


def console(stream: TextIO | None = None, wide: bool = False) -> Console:
    """A console on `stream` (default: standard output); wide tables when the output is a file or a pipe. `wide`: no line is
    wrapped and no column left out, whatever the terminal's width. What is printed is text, `[ids]` and `:x:` too: styles are
    those of `Text`."""
    out = behind(sys.stdout if stream is None else stream)
    piped = not out.isatty() and "COLUMNS" not in os.environ
    return _console()(
        file=out, markup=False, emoji=False, highlight=False, soft_wrap=piped, width=ENDLESS if wide else 180 if piped else None
    )


def soft_wrapped(out: Console) -> bool:
    """Whether a line of prose is printed whole: on a terminal it is wrapped between words."""
    return not out.is_terminal


@functools.cache
def _console() -> type[Console]:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class Clean(Console):
        """What texts hold reaches the terminal clean; rich's own control segments pass."""

        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            for s in super().render(renderable, options):
                yield s if s.control else Segment(clean(s.text), s.style)

        def on_broken_pipe(self) -> None:
            """A reader that has gone is no error, and `main` ends the command quietly; rich would exit with 1."""
            raise BrokenPipeError

    return Clean


def table(title: str, *headings: str) -> Listing:
    """An empty table that fits the terminal it is printed on. A heading that begins with `>` is of a column of numbers;
    one that ends with `?2` is left out where there is no room, later than `?3`."""
    return Listing(title, headings)


def duration(seconds: float) -> str:
    """Seconds for a reader: `12.3 µs`, `1.235 ms`, `2.5 s`."""
    for limit, scale, unit in ((1e-6, 1e9, "ns"), (1e-3, 1e6, "µs"), (1.0, 1e3, "ms")):
        if seconds < limit:
            return f"{seconds * scale:.4g} {unit}"
    return f"{seconds:.4g} s"


def clock(seconds: float) -> str:
    """A countdown: `0:09`, `1:30`."""
    whole = max(0, round(seconds))
    return f"{whole // 60}:{whole % 60:02d}"


def rate(value: float | None, unit: str) -> str:
    """`1234 GFLOP/s`, or a dash when there is nothing to divide."""
    return "-" if not value else (f"{value:.3g} {unit}" if value < 100 else f"{value:.0f} {unit}").rstrip()


def flops(gflops: float | None) -> str:
    """`1234 GFLOP/s`, and `61.7 TFLOP/s` from ten of these on."""
    return rate(gflops, "GFLOP/s") if not gflops or gflops < 10_000 else f"{gflops / 1000:.{1 if gflops < 1e6 else 0}f} TFLOP/s"


def percent(roofline_s: float | None, t: float) -> str:
    """Share of the roofline that a time of `t` seconds reaches: `87 %`, `187 %!` where it cannot be right."""
    return share(100 * roofline_s / t) if roofline_s else "-"


def gain(start_s: float | None, t: float) -> str:
    """How many times faster than the start schedule's time: `1.83x`."""
    return f"{start_s / t:.2f}x" if start_s else "-"


def factor(value: float) -> str:
    """`1.83x`, `45x`, `1.2e+04x`: a factor of any size."""
    return f"{value:.2f}x" if value < 10 else f"{value:.3g}x" if value >= 1000 else f"{value:.0f}x"


def bytes_text(size: int) -> str:
    """`48 KiB`, `1 MiB`; a dash when unknown."""
    amount: float = size
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.4g} {unit}" if amount else "-"
        amount /= 1024
    return f"{amount:.4g} GiB"


def shape_text(shape: Mapping[str, object]) -> str:
    """`m=1024,n=1024`: the form that --shape takes."""
    return ",".join(f"{name}={extent}" for name, extent in shape.items())


def opts_text(opts: Sequence[Opt]) -> Text:
    """Options in short form, each in the colour of the axis kind it makes."""
    from rich.text import Text

    from ...opts.opt import short
    from ...opts.registry import OPTIONS

    out = Text()
    for i, opt in enumerate(opts):
        if i:
            out.append(" ")
        out.append(short((opt,)), style=KINDS[OPTIONS[opt.op].kind if opt.op in OPTIONS else "stage"])
    return out if opts else Text("(none)", style="dim")


def opts_words(text: str) -> str:
    """The options of a row of the cache for whoever reviews them: `into registers: 8 of m; parallel: n`."""
    from ...ir.errors import OptError
    from ...opts.opt import parse
    from ...opts.registry import OPTIONS

    try:
        opts = parse(text)
    except OptError:
        return text
    said: dict[str, list[str]] = {}
    for o in opts:
        amount = f"{o.arg} of " if isinstance(o.arg, int) else ""
        rest = " (" + ", ".join(f"{k} {v}" for k, v in o.arg) + ")" if isinstance(o.arg, tuple) and o.arg else ""
        said.setdefault(OPTIONS[o.op].legend or o.op.lower() if o.op in OPTIONS else o.op.lower(), []).append(f"{amount}{o.on}{rest}")
    return "; ".join(f"{word}: {', '.join(each)}" for word, each in said.items()) or "as written"


def stored_opts(text: str) -> Text:
    """The options of a row of the cache, in short form; as they are kept where another version wrote them."""
    from rich.text import Text

    from ...ir.errors import OptError
    from ...opts.opt import parse

    try:
        return opts_text(parse(text))
    except OptError:
        return Text(text, style="dim")
