"""The arguments of graph, profile, bench-search, devices, kernels and completion."""

from __future__ import annotations

from argparse import REMAINDER

from .parser import JSON, READS, Grammar, PathUse, add_output, add_table, at_least

SHELLS = ("bash", "zsh", "fish")


def graph(p: Grammar) -> None:
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


def profile(p: Grammar) -> None:
    """`tune profile`."""
    p.add_path("file", use=READS, metavar="FILE.py", help="the script to run")
    p.add_argument("arguments", nargs=REMAINDER, metavar="ARGS", help="the script's own arguments; options of tune go before the file")
    p.add_path("--trace", use=JSON, metavar="FILE", help="write every call as a Chrome trace (chrome://tracing, ui.perfetto.dev)")
    add_output(p, "table", "json", printed=False)
    p.add_argument("--limit", type=at_least(1), default=30, metavar="N", help="lines of the table; default 30")


def bench_search(p: Grammar) -> None:
    """`tune bench-search`."""
    p.add_path(
        "files",
        use=READS,
        nargs="*",
        metavar="FILE",
        help="recorded spaces: ours (.jsonl, .jsonl.gz), Kernel Tuner's caches, T4 results; default: made-up spaces",
    )
    p.add_argument("--strategies", metavar="NAME,..", help="strategies to score; default: all whose packages are installed")
    p.add_argument("--repeats", type=int, default=10, metavar="N", help="searches of each strategy on each space; default 10")
    p.add_argument(
        "--budget",
        default="95%",
        metavar="SHARE",
        help="a search may take as long as random search needs for this share of the way from the median to the optimum; default 95%%",
    )
    p.add_path("--json", use=JSON, metavar="FILE", help="write the scores as JSON (- is standard output)")
    p.add_path(
        "--record",
        use=PathUse("writes", "space"),
        metavar="FILE",
        help="measure a space of a kernel into FILE (.jsonl or .jsonl.gz) instead",
    )
    p.add_path("--kernel", use=READS, metavar="NAME", help="with --record: the kernel (`tune kernels`, or my.py:function)")
    p.add_argument("--shape", metavar="m=..,n=..", help="with --record: extents by name")
    p.add_argument("--dtype", help="with --record: the element type")
    p.add_argument("--device", default="cpu", help="with --record: where it runs; default cpu")
    p.add_argument("--trials", type=int, default=300, metavar="N", help="with --record: schedules to measure; default 300")
    p.add_argument("--quiet", action="store_true", help="no progress, only the result")


def devices(p: Grammar) -> None:
    """`tune devices`."""
    p.add_argument("--probe", action="store_true", help="measure peak arithmetic and bandwidth once and keep them (about 10 s)")
    p.add_argument("--links", action="store_true", help="measure sends and collectives between processes, for tune plan (about 3 s)")
    add_table(p, "table", "json")


def kernels(p: Grammar) -> None:
    """`tune kernels`."""
    add_table(p, "table", "json")


def completion(p: Grammar) -> None:
    """`tune completion`."""
    p.add_argument("shell", choices=SHELLS, help="the shell that is to complete")
