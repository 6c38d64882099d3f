"""The grammars of commands about what the cache holds: report, plot, cache."""

from __future__ import annotations

from argparse import REMAINDER, ArgumentParser

from . import team
from .words import READS, UPDATES, Grammar, PathUse, add_cache, add_kernel, add_output, add_targets, add_where, at_least

# places -----------------------------------------------------------------------------------------------------
# The grammar of what is done with several caches at once, with signatures, and with rows that nobody misses.


PLACE = "a cache file, a bundle or a database URL"


def add_diff(p: Grammar) -> None:
    """`tune cache diff`."""
    p.add_path("a", use=READS, metavar="A", help=PLACE)
    p.add_path("b", use=READS, metavar="B", help="likewise")
    p.add_argument("--kernel", metavar="NAME", help="only this kernel")
    add_where(p, device=None)
    add_trust(p)
    p.add_argument("--all", action="store_true", help="also the keys that have the same answer in both")
    p.add_argument("--exit-code", action="store_true", help="exit with 1 where an answer differs")
    add_output(p, "table", "json")


def add_merge(p: Grammar) -> None:
    """`tune cache merge`."""
    p.add_path("inputs", use=READS, metavar="PLACE", nargs="+", help=PLACE)
    p.add_path(
        "--into", use=UPDATES, metavar="PLACE", required=True, help=f"{PLACE}; a file is made if need be (a bundle, if it ends with .jsonl)"
    )
    add_trust(p)
    p.add_argument("--dry-run", action="store_true", help="say what would be added, and add nothing")
    add_output(p, "text", "json")


def add_prune(p: Grammar) -> None:
    """`tune cache prune`."""
    p.add_argument(
        "--superseded", action="store_true", help="measurements of schedules that were measured again since (what is done by default)"
    )
    p.add_argument("--old-tools", action="store_true", help="other versions' measurements of what this version has an answer for")
    p.add_argument("--tried", action="store_true", help="what searches tried and is not among the best of its key")
    p.add_argument("--idle", type=at_least(1), metavar="DAYS", help="everything of targets that nothing was measured for in DAYS")
    p.add_argument(
        "--target", action="append", metavar="PATTERN", help="everything of these targets; * stands for anything; may be repeated"
    )
    p.add_argument("--before", metavar="DATE", help="of the first three rules only what was measured before DATE")
    p.add_argument("--dry-run", action="store_true", help="say what would go, and delete nothing")
    p.add_path("--save", use=PathUse("writes", "bundle"), metavar="FILE", help="write what goes into this bundle first")
    add_cache(p)
    add_output(p, "table", "json")


def add_trust(p: Grammar) -> None:
    """What a bundle that is read must show."""
    p.add_argument(
        "--require-signature", action="store_true", help="refuse bundles that no trusted key signed (as TILEWRIGHT_REQUIRE_SIGNATURE=1)"
    )
    p.add_path(
        "--trust",
        use=READS,
        action="append",
        metavar="KEY",
        help="only signatures of this public key count: a file, the key itself (RW...), or a name of `tune cache keys list`; may be repeated, "
        "and requires a signature",
    )
    p.add_path(
        "--signature", use=READS, metavar="FILE", help="where the signature is; default: beside the bundle, with .minisig after its name"
    )


KEYS = {
    "list": ("whom you trust", "Lists the keys whose signatures count where none is named."),
    "make": ("make a pair of keys", "Writes a new secret key, and the public key beside it (release.key and release.pub)."),
    "trust": ("trust a key from now on", "Keeps a public key. Its signatures count wherever a signature is required and no key is named."),
    "forget": ("trust a kept key no more", "Deletes a kept public key."),
    "verify": ("whether a trusted key signed a bundle", "Checks a bundle's signature, and reads the bundle. Imports nothing."),
}


def add_keys(p: Grammar) -> None:
    """`tune cache keys`."""
    sub = p.add_subparsers(dest="do", required=True, metavar="ACTION", parser_class=Grammar)
    made: dict[str, Grammar] = {name: sub.add_parser(name, help=said, description=whole) for name, (said, whole) in KEYS.items()}
    add_output(made["list"], "table", "json")
    made["make"].add_path("file", use=UPDATES, help="the secret key to write, such as release.key")
    made["make"].add_argument(
        "--no-password", action="store_true", help="leave the secret key in the clear, for a machine that signs by itself"
    )
    made["trust"].add_path("key", use=READS, help="a public key file of minisign, or the key itself (RW...)")
    made["trust"].add_argument("--name", help="what to call it; default: the file's name")
    made["forget"].add_argument("name", help="its name or id")
    made["verify"].add_path("file", use=READS, help="the bundle")
    add_trust(made["verify"])


# remembered -------------------------------------------------------------------------------------------------
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
    add_trust(made["import"])
    add_cache(made["import"])
    made["check"].add_path("--manifest", use=READS, metavar="FILE", required=True, help="a TOML file of kernels, shapes and targets")
    add_targets(made["check"])
    add_cache(made["check"])
    add_output(made["check"], "table", "json", "markdown", printed=False)
    team.add_team_actions(made)
    add_output(made["list"], "table", "json")
    add_output(made["show"], "text", "json")
    add_diff(made["diff"])
    add_merge(made["merge"])
    add_prune(made["prune"])
    add_keys(made["keys"])
    for name in ("list", "show", "check", "diff", "prune"):
        add_long(made[name])
    made["list"].add_argument("--all", action="store_true", help="every measurement, not only each kernel's best")
    made["clear"].add_argument("--all", action="store_true", help="everything (else name a kernel, dtype, device or threads)")
