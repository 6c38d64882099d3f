"""The grammars of graph, profile, devices, kernels and completion."""

from __future__ import annotations

from argparse import REMAINDER

from .remembered import add_long
from .words import JSON, READS, Grammar, PathUse, add_output, at_least

SHELLS = ("bash", "zsh", "fish")


def add_graph(p: Grammar) -> None:
    """`tune graph`."""
    p.add_path("function", use=READS, metavar="FILE.py:FUNCTION", help="a function of tensors; it is called on tensors without values")
    p.add_argument(
        "--shape",
        metavar="x=64x128,float32,..",
        help="shapes of its arguments; default: annotations, default values, or what FUNCTION_inputs() returns",
    )
    p.add_argument("--dtype", help="element type of arguments that have none; default float32")
    p.add_argument("--expr", action="store_true", help="print each kernel as values over axes")
    p.add_argument("--nest", action="store_true", help="print each kernel's loop nest under the start schedule")
    p.add_argument("--target", default="host", metavar="NAME", help="the target of --nest; default: this machine")
    p.add_path("--dot", use=PathUse("writes", "dot"), metavar="FILE", help="write a picture as Graphviz text (- is standard output)")
    p.add_path("--svg", use=PathUse("writes", "svg"), metavar="FILE", help="write a picture drawn by Graphviz, where `dot` is installed")
    p.add_path("--html", use=PathUse("writes", "html"), metavar="FILE", help="write one page with a picture and everything else")
    add_output(p, "text", "json", printed=False)


def add_profile(p: Grammar) -> None:
    """`tune profile`."""
    p.add_path("file", use=READS, metavar="FILE.py", help="the script to run")
    p.add_argument("arguments", nargs=REMAINDER, metavar="ARGS", help="the script's own arguments; options of tune go before the file")
    p.add_path("--trace", use=JSON, metavar="FILE", help="write every call as a Chrome trace (chrome://tracing, ui.perfetto.dev)")
    add_output(p, "table", "json", printed=False)
    p.add_argument("--limit", type=at_least(1), default=30, metavar="N", help="lines of the table; default 30")


def add_devices(p: Grammar) -> None:
    """`tune devices`."""
    p.add_argument("--probe", action="store_true", help="measure peak arithmetic and bandwidth once and keep them (about 10 s)")
    add_output(p, "table", "json")
    add_long(p)


def add_kernels(p: Grammar) -> None:
    """`tune kernels`."""
    add_output(p, "table", "json")
    add_long(p)


def add_completion(p: Grammar) -> None:
    """`tune completion`."""
    p.add_argument("shell", choices=SHELLS, help="the shell that is to complete")
