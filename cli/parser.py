"""The command line's grammar. Only argparse is imported here, so that `tune --help` is immediate."""

from __future__ import annotations

from argparse import REMAINDER, ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from collections.abc import Callable

from .. import __version__
from . import bench_search_options, shapes, source_options

EXITS = """exit codes:
  0    found, or already in the cache
  2    bad usage (unknown kernel, bad shape, unreadable cache ...), or standard output is full
  3    the device is missing
  4    nothing valid was found
  5    --mode require: the cache does not hold it
  130  interrupted; the best so far is saved
"""
_KERNEL = "a named kernel (`tune kernels`), or my.py:function, which returns a Kernel or is a function of tensors (my.py:function#2 is the second kernel of one); NAME:constant=b: input b never changes and may be packed once"
STAGES = ("kernel", "schedule", "program", "passes", "source", "asm", "ptx", "sass")
ONLY_CUDA = ("ptx", "sass")
"""Stages of NVIDIA GPUs."""
MODES = ("use", "require", "record", "tune", "refresh")


def _at_least(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text) if len(text) < 40 else least - 1
        except ValueError:
            value = least - 1
        if not least <= value < 1 << 63:
            raise ArgumentTypeError(
                f"{text if len(text) < 40 else text[:36] + '...'!r} is not a whole number of at least {least} (and of 64 bits)"
            )
        return value

    return parse


def _stages(text: str) -> tuple[str, ...]:
    words = tuple(dict.fromkeys(w.strip() for w in text.split(",")))
    wrong = [w for w in words if w not in (*STAGES, "all")]
    if wrong:
        raise ArgumentTypeError(f"there is no stage {wrong[0][:40]!r}; stages are {', '.join(STAGES)}, several with commas between, or all")
    return words


def _add_kernel(p: ArgumentParser, required: bool, device: str | None, kernel: bool = True) -> None:
    """Arguments that name a kernel (unless `kernel` is false: then the caller does), where it runs, and the cache."""
    if kernel:
        p.add_argument("--kernel", required=required, metavar="NAME", help=_KERNEL)
    p.add_argument("--shape", metavar="m=..,n=..", help="extents by name; those left out take their default; of tensors x=64x128,float32")
    p.add_argument("--dtype", help="float32, float16, bfloat16, float64, int8, fp8, float8_e5m2 (what the kernel takes)")
    p.add_argument("--device", default=device, help="where it runs (`tune devices`)" + (f"; default {device}" if device else ""))
    p.add_argument("--threads", type=_at_least(1), metavar="N", help="threads used" + ("; default: every usable core" if required else ""))
    _add_cache(p)


def _add_allow(p: ArgumentParser) -> None:
    p.add_argument(
        "--allow",
        action="append",
        metavar="EFFECT",
        help="allow what is refused otherwise: downconvert (matrix instructions may round float32 factors to tf32, or to 16 bits beside a "
        "16-bit factor; entries of their own in the cache)",
    )


def _add_cache(p: ArgumentParser) -> None:
    p.add_argument("--cache", metavar="PATH|URL", help="cache file or database URL; default: TILEWRIGHT_CACHE, else the user's data folder")


def _add_targets(p: ArgumentParser) -> None:
    p.add_argument("--target", action="append", metavar="NAME", help="only the manifest's entries for this target; may be repeated")
    p.add_argument("--trust", action="store_true", help="run the Python files that the manifest names, wherever they are")


def _add_run(p: ArgumentParser) -> None:
    what = p.add_mutually_exclusive_group(required=True)
    what.add_argument("--kernel", metavar="NAME", help=_KERNEL)
    what.add_argument("--manifest", metavar="FILE", help="a TOML file of kernels, shapes and targets: tune all that are for this machine")
    _add_kernel(p, required=True, device=None, kernel=False)
    shapes.add_arguments(p)
    _add_targets(p)
    p.add_argument(
        "--budget", metavar="TIME", help="time to search for: 30s, 2m (default 30s, none with --trials); all of a manifest shares it"
    )
    p.add_argument("--trials", type=_at_least(1), metavar="N", help="measurements to make at most; for each entry of a manifest")
    p.add_argument("--seed", type=_at_least(0), metavar="N", help="random seed of the search and of the inputs; default 0")
    p.add_argument(
        "--seeds", choices=("auto", "none"), help="start from the seed schedules (auto, the default), or from the empty schedule"
    )
    _add_allow(p)
    p.add_argument(
        "--strategy",
        metavar="NAME",
        help="portfolio (default), beam, evolve, random, choices, anneal, genetic, uniform, exhaustive, or optuna:SAMPLER (tpe, gp, "
        "cmaes, nsga2, qmc, random)",
    )
    p.add_argument(
        "--study",
        metavar="URL",
        help="keep Optuna's trials here and resume them: sqlite:///study.db, postgresql://..., or a journal file's path",
    )
    p.add_argument(
        "--mode",
        choices=MODES,
        default="use",
        help="use: from the cache, else search (default; tune is the same); require: from the cache or fail (with --manifest this needs no device); record: measure the seed schedules only; refresh: search again",
    )
    p.add_argument("--retune", action="store_true", help="search again although a result is cached")
    p.add_argument(
        "--against",
        metavar="torch[:PYTHON]",
        help="time PyTorch's own kernel beside the best, in turns; PYTHON: an interpreter that has it",
    )
    p.add_argument("--json", metavar="FILE", help="write the result as JSON (- is standard output)")
    p.add_argument("--quiet", action="store_true", help="no progress, only the result")


def _add_show(p: ArgumentParser) -> None:
    _add_kernel(p, required=True, device="cpu")
    _add_allow(p)
    p.add_argument(
        "--target",
        metavar="NAME",
        help="render for this target (znver5, neon, sm_90a, opencl-gpu ...), which need not be here; C with --device cpu:c",
    )
    chosen = p.add_mutually_exclusive_group()
    chosen.add_argument("--seed-schedule", action="store_true", help="show the seed schedule rather than the cache's best")
    chosen.add_argument("--opts", metavar="JSON", help='show these options, e.g. \'[["TILE","m",8]]\'')
    only = p.add_mutually_exclusive_group()
    only.add_argument("--source", action="store_true", help="print the rendered source and nothing else")
    only.add_argument(
        "--stage",
        type=_stages,
        metavar="WHICH",
        help=f"print a stage of the way to machine code and nothing else: {', '.join(STAGES)}; several with commas, or all",
    )


def _add_report(p: ArgumentParser) -> None:
    _add_selection(p)
    p.add_argument(
        "--format",
        choices=("table", "json", "csv", "markdown", "t4"),
        default="table",
        help="t4: every measurement, as auto-tuning tools exchange them",
    )
    p.add_argument("--html", metavar="FILE", help="write one page with everything in it: roofline, convergence, outcomes, schedules")
    p.add_argument("--graph", metavar="FILE.py:FUNCTION", help="with --html: also what this function of tensors becomes (`tune graph`)")


def _add_graph(p: ArgumentParser) -> None:
    p.add_argument("function", metavar="FILE.py:FUNCTION", help="a function of tensors; it is called on tensors without values")
    p.add_argument(
        "--shape",
        metavar="x=64x128,float32,..",
        help="shapes of its arguments; default: annotations, default values, or what FUNCTION_inputs() returns",
    )
    p.add_argument("--dtype", help="element type of arguments that have none; default float32")
    p.add_argument("--expr", action="store_true", help="print each kernel as values over axes")
    p.add_argument("--nest", action="store_true", help="print each kernel's loop nest under the seed schedule")
    p.add_argument("--target", default="host", metavar="NAME", help="the target of --nest; default: this machine")
    p.add_argument("--dot", metavar="FILE", help="write a picture as Graphviz text (- is standard output)")
    p.add_argument("--svg", metavar="FILE", help="write a picture drawn by Graphviz, where `dot` is installed")
    p.add_argument("--html", metavar="FILE", help="write one page with a picture and everything else")
    p.add_argument("--json", metavar="FILE", help="write the facts as JSON (- is standard output)")


def _add_profile(p: ArgumentParser) -> None:
    p.add_argument("file", metavar="FILE.py", help="the script to run")
    p.add_argument("arguments", nargs=REMAINDER, metavar="ARGS", help="the script's own arguments; options of tune go before the file")
    p.add_argument("--trace", metavar="FILE", help="write every call as a Chrome trace (chrome://tracing, ui.perfetto.dev)")
    p.add_argument("--json", metavar="FILE", help="write the figures as JSON (- is standard output)")
    p.add_argument("--limit", type=_at_least(1), default=30, metavar="N", help="lines of the table; default 30")


def _add_selection(p: ArgumentParser) -> None:
    """Arguments that pick and sort what is in the cache."""
    _add_kernel(p, required=False, device=None)
    p.add_argument(
        "--strategy", metavar="PATTERN", help="only what this strategy measured; * stands for anything (also in --kernel and --device)"
    )
    p.add_argument(
        "--outcome",
        choices=("ok", "slow", "wrong", "build", "timeout", "crash", "illegal"),
        help="only kernels with a measurement that ended so (t4: only those measurements)",
    )
    p.add_argument("--since", metavar="DATE", help="only what was measured since: 2026-01-31 or 2026-01-31T12:00 (UTC)")
    p.add_argument(
        "--sort",
        metavar="COLUMN[:desc]",
        help="kernel, shape, dtype, device, threads, time, median, gflops, gbs, roofline, gain, paired, plain, bound, tried, origin, strategy, when or opts",
    )
    p.add_argument("--limit", type=_at_least(1), metavar="N", help="the first N only")


def _add_check(p: ArgumentParser) -> None:
    p.add_argument("--kernel", required=True, metavar="NAME", help="a named kernel (`tune kernels`) or my.py:function")
    p.add_argument(
        "--shape",
        metavar="m=..,n=..",
        help="extents by name; default: a small, odd shape (checking takes about a microsecond an operation)",
    )
    p.add_argument("--dtype", help="float32, float16, bfloat16, float64, int8, fp8, float8_e5m2 (what the kernel takes)")
    where = p.add_mutually_exclusive_group()
    where.add_argument(
        "--target",
        default="opencl-gpu",
        metavar="NAME",
        help="lower for this target (opencl-gpu, opencl-cpu, sm_80, host ...); default opencl-gpu",
    )
    where.add_argument("--device", help="lower for this device's target (`tune devices`)")
    p.add_argument("--opts", metavar="JSON", help='check these options, e.g. \'[["LOCAL","m",8]]\'; default: every seed schedule')
    p.add_argument("--seed", type=_at_least(0), default=0, metavar="N", help="random seed of the inputs")


def _add_bisect(p: ArgumentParser) -> None:
    p.add_argument("--kernel", required=True, metavar="NAME", help="a named kernel (`tune kernels`) or my.py:function")
    p.add_argument("--shape", metavar="m=..,n=..", help="extents by name; default: a small, odd shape")
    p.add_argument("--dtype", help="float32, float16, bfloat16, float64, int8, fp8, float8_e5m2 (what the kernel takes)")
    p.add_argument("--opts", required=True, metavar="JSON", help='the options that are wrong, e.g. \'[["UPCAST","n",16]]\'')
    where = p.add_mutually_exclusive_group()
    where.add_argument("--device", default="cpu", help="the device that is wrong (`tune devices`); default cpu")
    where.add_argument("--target", metavar="NAME", help="check the Programs for this target only, which need not be here")
    p.add_argument("--threads", type=_at_least(1), metavar="N", help="threads used on the device; default: its own")
    p.add_argument("--seed", type=_at_least(0), default=0, metavar="N", help="random seed of the inputs")


def _add_cache_commands(p: ArgumentParser) -> None:
    sub = p.add_subparsers(dest="action", required=True, metavar="ACTION")
    lists = sub.add_parser("list", help="measurements, one a line")
    shows = sub.add_parser("show", help="every field of the best measurement of each kernel")
    explains = sub.add_parser("explain", help="why a kernel hits or misses, field by field")
    exports = sub.add_parser("export", help="write a bundle: sorted JSON Lines, made to be reviewed")
    imports = sub.add_parser("import", help="merge a bundle")
    clears = sub.add_parser("clear", help="delete measurements")
    checks = sub.add_parser(
        "check", help="what a manifest asks for: present, stale or missing; needs no device, fails when anything is missing"
    )
    _add_kernel(explains, required=True, device="cpu")
    for p_ in (lists, shows, exports, clears):
        _add_kernel(p_, required=False, device=None)
    checks.add_argument("--manifest", metavar="FILE", required=True, help="a TOML file of kernels, shapes and targets")
    _add_targets(checks)
    _add_cache(checks)
    checks.add_argument("--format", choices=("table", "json", "markdown"), default="table")
    lists.add_argument("--format", choices=("table", "json"), default="table")
    lists.add_argument("--all", action="store_true", help="every measurement, not only each kernel's best")
    exports.add_argument("file", help="the bundle to write (- is standard output)")
    exports.add_argument("--best", action="store_true", help="only what a look-up would use")
    imports.add_argument("file", help="the bundle to read")
    _add_cache(imports)
    clears.add_argument("--all", action="store_true", help="everything (else name a kernel, dtype, device or threads)")


def build_parser() -> ArgumentParser:
    """The whole grammar of `tune`."""
    p = ArgumentParser(
        prog="tune",
        description="Search for the fastest way to run a kernel on this machine, verify it, and remember it.",
        epilog="start with:  tune run --kernel matmul --budget 20s\n\n" + EXITS,
        formatter_class=RawDescriptionHelpFormatter,
    )
    p.add_argument("--version", action="version", version=f"tilewright {__version__}")
    sub = p.add_subparsers(dest="command", metavar="COMMAND")
    _add_run(sub.add_parser("run", help="search for a kernel's best schedule", epilog=EXITS, formatter_class=RawDescriptionHelpFormatter))
    source_options.add(sub.add_parser("source", help="tune a C, OpenCL or CUDA source of yours that has parameters"), _at_least)
    _add_show(sub.add_parser("show", help="a schedule: its options, loop nest and source"))
    _add_check(sub.add_parser("check", help="run a schedule where every access is checked: races, bounds, barriers, and the result"))
    _add_bisect(sub.add_parser("bisect", help="which pass or option makes a schedule wrong, or whether the device does"))
    _add_report(sub.add_parser("report", help="what the cache holds: times, rates, share of the roofline, gain over the seed"))
    _add_graph(sub.add_parser("graph", help="what a function of tensors becomes: kernels, boundaries, the rules, bytes saved"))
    _add_profile(sub.add_parser("profile", help="run a script and say where its kernels' time goes"))
    explain = sub.add_parser("explain", help="what each option of the cached best is worth, measured now")
    _add_kernel(explain, required=True, device="cpu")
    _add_allow(explain)
    explain.add_argument("--budget", default="30s", metavar="TIME", help="time to measure for (default 30s)")
    explain.add_argument("--format", choices=("table", "json"), default="table")
    plot = sub.add_parser("plot", help="a picture of what the cache holds (needs matplotlib)")
    plot.add_argument("file", help="where to write it; the ending says how: .png, .svg or .pdf")
    plot.add_argument(
        "--kind", choices=("convergence", "roofline", "outcomes"), default="convergence", help="what to draw (default convergence)"
    )
    _add_selection(plot)
    _add_cache_commands(sub.add_parser("cache", help="list, explain, move or delete what is remembered"))
    bench_search_options.add(sub.add_parser("bench-search", help="score every search strategy on recorded spaces, without a device"))
    devices = sub.add_parser("devices", help="devices and what they can do")
    devices.add_argument("--probe", action="store_true", help="measure peak arithmetic and bandwidth once and keep them (about 10 s)")
    kernels = sub.add_parser("kernels", help="named kernels, their shapes and dtypes")
    for p_ in (devices, kernels):
        p_.add_argument("--format", choices=("table", "json"), default="table")
    return p
