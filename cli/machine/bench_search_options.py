"""The grammar of `tune bench-search`. Imported with the whole grammar, so argparse is all it may import."""

from __future__ import annotations

from ..grammar.words import JSON, READS, Grammar, PathUse


def add(p: Grammar) -> None:
    """Add the command's arguments."""
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
