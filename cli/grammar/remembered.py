"""The grammars of commands about what the cache holds: report, plot, cache."""

from __future__ import annotations

from argparse import REMAINDER, ArgumentParser

from . import places, team
from .words import READS, Grammar, PathUse, add_cache, add_kernel, add_output, add_targets, add_where, at_least

_FILTER = "only this kernel; * stands for anything"
COLUMNS = (
    "kernel, shape, dtype, device, threads, time, median, gflops, gbs, roofline, gain, paired, plain, bound, tried, origin, strategy, "
    "when, pinned or opts"
)


def add_selection(p: Grammar, place: bool) -> None:
    """What picks and sorts what is in the cache. `place`: the kernel may stand without --kernel."""
    if place:
        add_kernel(p, required=False, help=_FILTER)
    else:
        p.add_argument("--kernel", metavar="NAME", help=_FILTER)
    add_where(p, device=None)
    p.add_argument("--strategy", metavar="PATTERN", help="only what this strategy measured; * stands for anything (also in --device)")
    p.add_argument(
        "--outcome",
        choices=("ok", "slow", "wrong", "build", "timeout", "crash", "illegal"),
        help="only kernels with a measurement that ended so (t4: only those measurements)",
    )
    p.add_argument("--since", metavar="DATE", help="only what was measured since: 2026-01-31 or 2026-01-31T12:00 (UTC)")
    p.add_argument("--sort", metavar="COLUMN[:desc]", help=COLUMNS)
    p.add_argument("--limit", type=at_least(1), metavar="N", help="the first N only")


def add_report(p: Grammar) -> None:
    """`tune report`."""
    add_selection(p, place=True)
    add_output(p, "table", "json", "csv", "markdown", "t4")
    add_long(p)
    p.add_path(
        "--html",
        use=PathUse("writes", "html"),
        metavar="FILE",
        help="write one page with everything in it: roofline, convergence, outcomes, schedules",
    )
    p.add_path(
        "--study",
        use=READS,
        metavar="URL",
        help="with --html: also the importances and parallel coordinates of an Optuna study (needs Plotly)",
    )
    p.add_path(
        "--graph", use=READS, metavar="FILE.py:FUNCTION", help="with --html: also what this function of tensors becomes (`tune graph`)"
    )


def add_watch(p: Grammar) -> None:
    """`tune watch`."""
    add_selection(p, place=False)
    p.add_argument("--port", type=int, default=8337, choices=range(65536), metavar="N", help="default 8337; 0 takes a free one")
    p.add_path("--study", use=READS, metavar="URL", help="draw the studies that are kept there too; those of the run, where it has --study")
    p.add_argument("words", nargs=REMAINDER, metavar="run ...", help="a run and its arguments; options of watch go before it")


def add_plot(p: Grammar) -> None:
    """`tune plot`."""
    p.add_path("file", use=PathUse("writes", "picture"), help="where to write it; the ending says how: .png, .svg or .pdf")
    p.add_argument(
        "--kind", choices=("convergence", "roofline", "outcomes"), default="convergence", help="what to draw (default convergence)"
    )
    add_selection(p, place=False)


def add_long(p: ArgumentParser) -> None:
    """What listings take."""
    p.add_argument("--wide", action="store_true", help="every column, however wide the terminal is")
    p.add_argument("--no-pager", action="store_true", help="print a long listing at once; PAGER= (empty) does so always")


ACTIONS = {
    "list": ("measurements, one a line", "The best measurement of each kernel, or with --all every measurement, failures too."),
    "show": ("every field of the best measurement of each kernel", "Every field of the best measurement of each kernel."),
    "explain": (
        "why a kernel hits or misses, field by field",
        "Compares the key of a kernel, field by field, with the closest that the cache holds.",
    ),
    "export": (
        "write a bundle: sorted JSON Lines, made to be reviewed",
        "Writes measurements as sorted JSON Lines, to be kept in version control.",
    ),
    "import": ("merge a bundle", "Merges a bundle, whole or not at all. What was imported counts as measured elsewhere."),
    "clear": ("delete measurements", "Deletes the measurements that the arguments name, or with --all every one."),
    **team.ACTIONS,
    "diff": (
        "how two caches, bundles or servers differ, key by key",
        "Compares what A and B would answer, key by key, and counts the measurements that only one of them has.",
    ),
    "merge": (
        "several caches, bundles or servers as one",
        "Adds every measurement of the places to another one, all or nothing. What a bundle holds counts as measured elsewhere, as for an "
        "import.",
    ),
    "keys": (
        "keys that sign bundles: make, trust, list, forget; verify a bundle",
        "Whose signatures of bundles count. Keys and signatures are those of the tool minisign. Without a signature nothing changes for who "
        "asks for none.",
    ),
    "prune": (
        "delete what nobody would miss: superseded, of old tools, of dead targets",
        "Deletes rows that no look-up needs, and says first what each rule finds. Only --idle and --target take answers away, and they are "
        "named.",
    ),
    "check": (
        "what a manifest asks for: present, stale or missing; needs no device, fails when anything is missing",
        "Looks up what a manifest asks for, without any device, and says what is present, stale or missing.",
    ),
}


def add_cache_commands(p: Grammar) -> None:
    """`tune cache`."""
    sub = p.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=Grammar)
    made: dict[str, Grammar] = {name: sub.add_parser(name, help=said, description=whole) for name, (said, whole) in ACTIONS.items()}
    add_kernel(made["explain"], required=True)
    add_where(made["explain"], device="cpu")
    for name in ("list", "show", "clear"):
        add_kernel(made[name], required=False, help="only this kernel")
        add_where(made[name], device=None)
    made["export"].add_path("file", use=PathUse("writes", "bundle"), help="the bundle to write (- is standard output)")
    made["export"].add_argument("--kernel", metavar="NAME", help="only this kernel")
    add_where(made["export"], device=None)
    made["export"].add_argument("--best", action="store_true", help="only what a look-up would use")
    made["export"].add_path("--sign", use=READS, metavar="KEY", help="sign it with this secret key of minisign, into FILE.minisig")
    made["import"].add_path("file", use=READS, help="the bundle to read")
    places.add_trust(made["import"])
    add_cache(made["import"])
    made["check"].add_path("--manifest", use=READS, metavar="FILE", required=True, help="a TOML file of kernels, shapes and targets")
    add_targets(made["check"])
    add_cache(made["check"])
    add_output(made["check"], "table", "json", "markdown", printed=False)
    team.add_team_actions(made)
    add_output(made["list"], "table", "json")
    add_output(made["show"], "text", "json")
    places.add_diff(made["diff"])
    places.add_merge(made["merge"])
    places.add_prune(made["prune"])
    places.add_keys(made["keys"])
    for name in ("list", "show", "check", "diff", "prune"):
        add_long(made[name])
    made["list"].add_argument("--all", action="store_true", help="every measurement, not only each kernel's best")
    made["clear"].add_argument("--all", action="store_true", help="everything (else name a kernel, dtype, device or threads)")
