"""The grammar of `tune source`. Imported with the whole grammar, so argparse is all it may import."""

from __future__ import annotations

from .words import JSON, READS, UPDATES, Grammar, PathUse, add_cache, add_random, at_least

MODES = ("use", "require", "refresh")


def add_source(p: Grammar) -> None:
    """`tune source`."""
    p.add_path("file", use=READS, nargs="?", metavar="FILE", help="the source: .c, .cpp, .cl or .cu; or --t1")
    p.add_argument("--function", metavar="NAME", help="the function that is tuned")
    p.add_argument(
        "--param", action="append", default=[], metavar="NAME=8,16,32", help="a #define and its values: also 1..8, 0..64:8, 1..64:*2"
    )
    p.add_argument(
        "--flag-param", action="append", default=[], metavar="NAME=-O2,-O3", help="a choice of compiler flags; an empty one is none"
    )
    p.add_argument("--restrict", action="append", default=[], metavar="EXPR", help="what must hold, such as 'TILE %% UNROLL == 0'")
    p.add_path("--args", use=READS, metavar="FILE.toml", help="sizes, arguments and launch (docs/sources.md)")
    p.add_path("--t1", use=READS, metavar="FILE.json", help="everything from a T1 file, as Kernel Tuner and others have them")
    p.add_path(
        "--check", use=READS, metavar="FILE.py:FUNCTION", help="computes the right result; default: what the untuned configuration gives"
    )
    p.add_argument("--rtol", type=float, metavar="X", help="how far off results may be, as a share of the right ones")
    p.add_argument("--atol", type=float, metavar="X", help="the same as a number")
    p.add_argument("--nondeterministic", action="store_true", help="runs of one configuration may differ (atomic sums of floats)")
    p.add_argument("--shape", metavar="n=..,m=..", help="sizes by name, in the place of the args file's")
    p.add_argument(
        "--block", action="append", metavar="EXPR", help="threads of a group, once for each dimension; default block_size_x, ..."
    )
    p.add_argument("--grid", action="append", metavar="EXPR", help="groups, once for each dimension, such as 'ceil(n / block_size_x)'")
    p.add_argument(
        "--problem", action="append", metavar="EXPR", help="what the grid must cover, once for each dimension, in the place of --grid"
    )
    p.add_argument("--flags", metavar="WORDS", help="the compiler's flags, in one word of the shell")
    p.add_argument("--cold", action="store_true", help="time on arrays that are in no cache")
    p.add_argument("--device", help="where it runs; default: cpu, opencl or cuda, by the language")
    p.add_argument("--threads", type=at_least(1), metavar="N", help="threads of OpenMP; default 1")
    p.add_argument("--budget", metavar="TIME", help="time to search for: 30s, 2m (default 30s, none with --trials)")
    p.add_argument("--trials", type=at_least(1), metavar="N", help="measurements to make at most")
    p.add_argument(
        "--strategy",
        metavar="NAME",
        help="portfolio (default), choices, anneal, genetic, uniform, exhaustive (default for few), optuna:...",
    )
    p.add_path("--study", use=UPDATES, metavar="URL", help="keep Optuna's trials here and resume them")
    add_random(p, "the search and the arguments")
    p.add_argument("--first", action="append", default=[], metavar="NAME=8,NAME=2", help="a configuration to begin with")
    p.add_path(
        "--t4", use=READS, metavar="FILE.json", help="begin with the fastest configurations of these results (T4, or Kernel Tuner's cache)"
    )
    p.add_argument(
        "--mode", choices=MODES, default="use", help="use: from the cache, else search (default); require; refresh: search again"
    )
    p.add_argument("--retune", action="store_true", help="search again although a result is cached")
    p.add_argument(
        "--build-only", action="store_true", help="only build configurations (a few drawn, or --trials), and say which do not build"
    )
    p.add_argument("--target", metavar="NAME", help="with --build-only: an NVIDIA GPU that need not be here, such as sm_80")
    p.add_path(
        "--write", use=PathUse("writes", "source"), metavar="FILE", help="write the best configuration's source (- is standard output)"
    )
    p.add_path("--write-t1", use=JSON, metavar="FILE", help="write what is tuned as a T1 file")
    p.add_path("--write-t4", use=JSON, metavar="FILE", help="write every measurement as T4 results")
    p.add_path("--json", use=JSON, metavar="FILE", help="write the result as JSON (- is standard output)")
    p.add_argument("--quiet", action="store_true", help="no progress, only the result")
    add_cache(p)
