"""The arguments of `tune run` and `tune source`."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser

from .fleet_arguments import add_tls
from .parser import (
    DTYPES,
    JSON,
    KERNEL,
    READS,
    UPDATES,
    Grammar,
    PathUse,
    Renamed,
    add_allow,
    add_cache,
    add_kernel,
    add_numerics,
    add_output,
    add_random,
    add_targets,
    add_where,
    at_least,
)

MODES = ("use", "require", "record", "tune", "refresh")
SOURCE_MODES = ("use", "require", "refresh")


def run(p: Grammar) -> None:
    """`tune run`."""
    add_kernel(p, required=True, either=("kernel", "manifest", "recorded"), help=KERNEL)
    p.add_path(
        "--manifest", use=READS, metavar="FILE", help="a TOML file of kernels, shapes and targets: tune all that are for this machine"
    )
    p.add_argument("--recorded", action="store_true", default=None, help="tune what programs ran with TILEWRIGHT_TUNE=record, by weight")
    p.add_argument("--dry-run", action="store_true", help="with --recorded: only show what ran, heaviest first")
    p.add_argument("--background", action="store_true", help="with --recorded: in a process of the lowest priority; this one ends")
    _add_fleet(p)
    add_where(p, device=None, every=True)
    _add_sizes(p)
    add_targets(p)
    p.add_argument(
        "--budget",
        metavar="TIME",
        help="time to search for: 30s, 2m (default 30s, 60s for several sizes, none with --trials); all of a manifest shares it",
    )
    p.add_argument(
        "--until",
        metavar="END",
        help="when to stop: plateau (another minute is expected to gain less than 1 %%), 0.95-roofline, or a time such as 5m",
    )
    p.add_argument("--trials", type=at_least(1), metavar="N", help="measurements to make at most; for each entry of a manifest")
    add_random(p, "the search and the inputs", None)
    p.add_argument(
        "--start",
        metavar="WHERE",
        help="what the search begins with: auto (the start schedules; the default), none (the schedule without options), or a schedule "
        "in short form or JSON, which is tried beside the start schedules",
    )
    p.add_argument("--seeds", action=Renamed, new="--start", dest="start", choices=("auto", "none"), default=SUPPRESS)
    add_allow(p)
    p.add_argument(
        "--policy",
        metavar="WHERE",
        help="where operands lie while calls are timed: memory, cache (the last one), or program (both in turns; the default); with ,busy all "
        "other cores copy memory meanwhile",
    )
    p.add_argument(
        "--strategy",
        metavar="NAME",
        help="portfolio (default), beam, evolve, random, choices, anneal, genetic, uniform, exhaustive, or optuna:SAMPLER (tpe, gp, "
        "cmaes, nsga2, qmc, random)",
    )
    _add_study(p)
    p.add_argument(
        "--mode",
        choices=MODES,
        default="use",
        help="use: from the cache, else search (default; tune is the same); require: from the cache or fail (with --manifest this "
        "needs no device); record: measure the start schedules only; refresh: search again",
    )
    p.add_argument(
        "--objective",
        metavar="WHAT",
        help="what to make small: time (default), energy, dynamic-energy (without what the machine takes at rest) or scratch (bytes beside "
        "the arguments); the front of two, such as time,scratch; or one of your own (file.py:Class). Each has answers of its own",
    )
    p.add_argument("--retune", action="store_true", help="search again although a result is cached")
    p.add_argument(
        "--against",
        metavar="LIBRARY",
        help="time torch's or numpy's own kernel beside the best, in turns; torch:PYTHON names an interpreter that has it",
    )
    add_output(p, "text", "json", printed=False)
    shown = p.add_mutually_exclusive_group()
    shown.add_argument("--quiet", action="store_true", help="no progress, only the result")
    shown.add_argument(
        "-v", "--verbose", action="store_true", help="a line for each candidate: its time, its factor to the best, how it ended, and why"
    )


def _add_fleet(p: Grammar) -> None:
    """What says that others measure."""
    p.add_argument(
        "--fleet",
        metavar="URL",
        help="tune on the machines of a fleet (`tune fleet`): each entry of --manifest on one of its target, one --kernel on all "
        "devices that are equal; tls://host:8786",
    )
    p.add_argument("--slots", type=at_least(1), metavar="N", help="with --fleet and --kernel: use at most N devices")
    add_tls(p)


def _add_sizes(p: ArgumentParser) -> None:
    """What `tune run` takes for several sizes."""
    p.add_argument(
        "--schedules",
        type=int,
        metavar="N",
        help="with ranges such as --shape m=1..4096,n=64..512, or --shapes: at most N schedules, and a tree of sizes that says where each "
        "is used (default 6 for ranges, 1 for --shapes)",
    )
    p.add_argument("--buckets", type=int, metavar="N", help="the same as --schedules")
    p.add_argument(
        "--shapes", metavar="'m=..; m=..*W'", help="these shapes; W is what a shape weighs (1). Also the name of a file with one a line"
    )
    p.add_argument(
        "--aggregate",
        choices=("geomean", "worst"),
        help="what is made small over many shapes: the weighted geometric mean of the times (default), or the largest loss of a shape",
    )


def _add_study(p: Grammar) -> None:
    """--study."""
    p.add_path(
        "--study",
        use=UPDATES,
        metavar="URL",
        help="keep Optuna's trials here and resume them: sqlite:///study.db, postgresql://..., or a journal file's path",
    )


def source(p: Grammar) -> None:
    """`tune source`."""
    p.add_path("file", use=READS, nargs="?", metavar="FILE", help="the source: .c, .cpp, .cl or .cu, or FILE:FUNCTION; or --t1")
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
        "--mode", choices=SOURCE_MODES, default="use", help="use: from the cache, else search (default); require; refresh: search again"
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


def model(p: Grammar) -> None:
    """`tune model`."""
    p.add_path(
        "model",
        use=READS,
        metavar="MODEL",
        help="FILE.onnx; FILE.py:FUNCTION, a function without arguments that returns a PyTorch module and its inputs; or a language model's files: a "
        "Hugging Face folder, FILE.gguf, or FILE.bin of llama2.c or llm.c",
    )
    p.add_argument("--budget", metavar="TIME", default="60s", help="time to search for, over all kernels: 30s, 5m (default 60s)")
    p.add_argument("--shape", metavar="n=..,m=..", help="of an ONNX model: sizes by name; default 1 each")
    p.add_argument("--training", action="store_true", help="of a PyTorch model: the kernels of the backward pass too")
    p.add_argument("--threads", type=at_least(1), metavar="N", help="threads used; default: as many as PyTorch uses, or all")
    add_numerics(p)
    add_cache(p)
    p.add_path("--json", use=JSON, metavar="FILE", help="write the result as JSON (- is standard output)")


def export(p: Grammar) -> None:
    """`tune export`."""
    p.add_path(
        "source", use=READS, nargs="?", metavar="SOURCE", help="FILE.onnx, or FILE.py:FUNCTION of tensors or one that returns a Kernel"
    )
    p.add_path("--kernel", use=READS, metavar="NAME", help="one kernel (`tune kernels`) in the place of SOURCE")
    p.add_argument("--out", required=True, metavar="FOLDER", help="where to write; an earlier export there is replaced, other files never")
    p.add_argument(
        "--shape",
        metavar="SHAPE",
        help="m=64,n=64 of a kernel or a model's sizes; x=33x20,w=20x17,float32 of a function's tensors; n=1..4096,x=nx20 for a size "
        "that comes with each call",
    )
    p.add_argument("--dtype", help=DTYPES)
    p.add_argument("--name", metavar="NAME", help="of the library; default: the source's")
    p.add_argument(
        "--target",
        metavar="NAME,…",
        help="processors that need not be here, such as v2,v3,v4, or one GPU, such as sm_90a; default: this one",
    )
    p.add_argument(
        "--device", metavar="NAME", help="opencl, cuda or one of their devices: a kernel's text, with a host program; default: C"
    )
    p.add_argument("--threads", type=at_least(1), metavar="N", help="threads that schedules are chosen for; default: all")
    p.add_argument("--check", action="store_true", help="build it, and compare a recorded call bit by bit")
    add_numerics(p)
    add_cache(p)
