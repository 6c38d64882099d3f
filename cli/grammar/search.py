"""The grammar of `tune run`."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser

from .fleet import add_tls
from .words import KERNEL, READS, UPDATES, Grammar, Renamed, add_allow, add_kernel, add_output, add_random, add_targets, add_where, at_least

MODES = ("use", "require", "record", "tune", "refresh")


def add_run(p: Grammar) -> None:
    """`tune run`."""
    add_kernel(p, required=True, either=("kernel", "manifest"), help=KERNEL)
    p.add_path(
        "--manifest", use=READS, metavar="FILE", help="a TOML file of kernels, shapes and targets: tune all that are for this machine"
    )
    _add_fleet(p)
    add_where(p, device=None, every=True)
    _add_sizes(p)
    add_targets(p)
    p.add_argument(
        "--budget",
        metavar="TIME",
        help="time to search for: 30s, 2m (default 30s, 60s for several sizes, none with --trials); all of a manifest shares it",
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
        "the arguments); or the front of two, such as time,scratch. Each has answers of its own",
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
        "--buckets", type=int, metavar="N", help="with a range such as --shape m=1..4096: at most N schedules for it (default 6)"
    )
    p.add_argument("--shapes", metavar="'m=..; m=..*W'", help="one schedule for all of these shapes; W is what a shape weighs (1)")
    p.add_argument(
        "--aggregate",
        choices=("geomean", "worst"),
        help="what --shapes makes small: the weighted geometric mean of the times (default), or the largest loss of a shape",
    )


def _add_study(p: Grammar) -> None:
    """--study."""
    p.add_path(
        "--study",
        use=UPDATES,
        metavar="URL",
        help="keep Optuna's trials here and resume them: sqlite:///study.db, postgresql://..., or a journal file's path",
    )
