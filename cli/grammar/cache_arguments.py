"""The arguments of commands about what the cache holds: report, watch, plot, cache."""

from __future__ import annotations

from argparse import REMAINDER

from .parser import (
    PORT,
    READS,
    UPDATES,
    Grammar,
    PathUse,
    add_allow,
    add_cache,
    add_kernel,
    add_output,
    add_table,
    add_targets,
    add_where,
    at_least,
)

PLACE = "a cache file, a bundle or a database URL"
_FILTER = "only this kernel; * stands for anything"
COLUMNS = (
    "kernel, shape, dtype, device, threads, time, median, gflops, gbs, roofline, gain, paired, plain, bound, tried, origin, strategy, "
    "when, pinned or opts"
)


# report, watch, plot ----------------------------------------------------------------------------------------
def _add_selection(p: Grammar, positional: bool) -> None:
    """What picks and sorts what is in the cache. `positional`: the kernel may stand without --kernel."""
    if positional:
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


def report(p: Grammar) -> None:
    """`tune report`."""
    _add_selection(p, positional=True)
    add_table(p, "table", "json", "csv", "markdown", "t4")
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
    p.add_path(
        "--tokens",
        use=READS,
        metavar="FOLDER_OR_GGUF",
        help="instead: what a token of this language model reads, and which kernels are not at the speed of memory",
    )


def watch(p: Grammar) -> None:
    """`tune watch`."""
    _add_selection(p, positional=False)
    p.add_argument("--port", type=at_least(0, PORT), default=8337, metavar="N", help="default 8337; 0 takes a free one")
    p.add_path("--study", use=READS, metavar="URL", help="also draw the studies of this storage; default: those of the run's --study")
    p.add_argument("words", nargs=REMAINDER, metavar="run ...", help="a run and its arguments; options of watch go before it")


def plot(p: Grammar) -> None:
    """`tune plot`."""
    p.add_path("file", use=PathUse("writes", "picture"), help="where to write it; the ending says how: .png, .svg or .pdf")
    p.add_argument(
        "--kind", choices=("convergence", "roofline", "outcomes"), default="convergence", help="what to draw (default convergence)"
    )
    _add_selection(p, positional=False)


# one cache --------------------------------------------------------------------------------------------------
def _add_rows(p: Grammar) -> None:
    """Which rows."""
    add_kernel(p, required=False, help=_FILTER)
    add_where(p, device=None)


def list_(p: Grammar) -> None:
    """`tune cache list`."""
    _add_rows(p)
    add_table(p, "table", "json")
    p.add_argument("--all", action="store_true", help="every measurement, not only each kernel's best")


def show(p: Grammar) -> None:
    """`tune cache show`."""
    _add_rows(p)
    add_table(p, "text", "json")


def explain(p: Grammar) -> None:
    """`tune cache explain`."""
    add_kernel(p, required=True)
    add_where(p, device="cpu")
    add_allow(p)


def export(p: Grammar) -> None:
    """`tune cache export`."""
    p.add_path("file", use=PathUse("writes", "bundle"), help="the bundle to write (- is standard output)")
    p.add_argument("--kernel", metavar="NAME", help=_FILTER)
    add_where(p, device=None)
    p.add_argument("--best", action="store_true", help="only what a look-up would use")
    p.add_path("--manifest", use=READS, metavar="FILE", help="only the answers that this TOML file asks for, and all of them")
    p.add_path("--sign", use=READS, metavar="KEY", help="sign it with this secret key of minisign, into FILE.minisig")


def import_(p: Grammar) -> None:
    """`tune cache import`."""
    p.add_path("file", use=READS, help="the bundle to read")
    _add_trust(p)
    add_cache(p)


def clear(p: Grammar) -> None:
    """`tune cache clear`."""
    _add_rows(p)
    p.add_argument("--all", action="store_true", help="everything (else name a kernel, dtype, device or threads)")


def prune(p: Grammar) -> None:
    """`tune cache prune`."""
    p.add_argument("--superseded", action="store_true", help="measurements of schedules that were measured again since (the default)")
    p.add_argument("--old-tools", action="store_true", help="other versions' measurements of what this version has an answer for")
    p.add_argument("--tried", action="store_true", help="what searches tried and is not among the best of its key")
    p.add_argument("--idle", type=at_least(1), metavar="DAYS", help="everything of targets that nothing was measured for in DAYS")
    p.add_argument(
        "--target", action="append", metavar="PATTERN", help="everything of these targets; * stands for anything; may be repeated"
    )
    p.add_argument("--before", metavar="DATE", help="by the first three rules, only what was measured before DATE")
    p.add_argument("--dry-run", action="store_true", help="say what would be deleted, and delete nothing")
    p.add_path("--save", use=PathUse("writes", "bundle"), metavar="FILE", help="write what is deleted into this bundle first")
    add_cache(p)
    add_table(p, "table", "json")


def check(p: Grammar) -> None:
    """`tune cache check`."""
    p.add_path("--manifest", use=READS, metavar="FILE", required=True, help="a TOML file of kernels, shapes and targets")
    add_targets(p)
    add_cache(p)
    add_table(p, "table", "json", "markdown", printed=False)


# several caches ---------------------------------------------------------------------------------------------
def diff(p: Grammar) -> None:
    """`tune cache diff`."""
    p.add_path("a", use=READS, metavar="A", help=PLACE)
    p.add_path("b", use=READS, metavar="B", help="likewise")
    p.add_argument("--kernel", metavar="NAME", help=_FILTER)
    add_where(p, device=None)
    _add_trust(p)
    p.add_argument("--all", action="store_true", help="also the keys that have the same answer in both")
    p.add_argument("--exit-code", action="store_true", help="exit with 1 where an answer differs")
    add_table(p, "table", "json", "markdown")


def merge(p: Grammar) -> None:
    """`tune cache merge`."""
    p.add_path("inputs", use=READS, metavar="PLACE", nargs="+", help=PLACE)
    p.add_path(
        "--into", use=UPDATES, metavar="PLACE", required=True, help=f"{PLACE}; a file is made if need be (a bundle, if it ends with .jsonl)"
    )
    _add_trust(p)
    p.add_argument("--dry-run", action="store_true", help="say what would be added, and add nothing")
    add_output(p, "text", "json")


# signatures -------------------------------------------------------------------------------------------------
def _add_trust(p: Grammar) -> None:
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
    p.add_path("--signature", use=READS, metavar="FILE", help="where the signature is; default: the bundle's name with .minisig after it")


def keys_list(p: Grammar) -> None:
    """`tune cache keys list`."""
    add_output(p, "table", "json")


def keys_make(p: Grammar) -> None:
    """`tune cache keys make`."""
    p.add_path("file", use=UPDATES, help="the secret key to write, such as release.key")
    p.add_argument("--no-password", action="store_true", help="leave the secret key in the clear, for a machine that signs by itself")


def keys_trust(p: Grammar) -> None:
    """`tune cache keys trust`."""
    p.add_path("key", use=READS, help="a public key file of minisign, or the key itself (RW...)")
    p.add_argument("--name", help="what to call it; default: the file's name")


def keys_forget(p: Grammar) -> None:
    """`tune cache keys forget`."""
    p.add_argument("name", help="its name or id")


def keys_verify(p: Grammar) -> None:
    """`tune cache keys verify`."""
    p.add_path("file", use=READS, help="the bundle")
    _add_trust(p)


# a team's cache ---------------------------------------------------------------------------------------------
def team(p: Grammar) -> None:
    """`tune cache team`."""
    p.add_argument("url", nargs="?", metavar="URL", help="keep this server in your settings, as postgresql://USER@HOST/DATABASE")
    p.add_argument("--forget", action="store_true", help="have no team's cache any more")
    add_cache(p)
    add_output(p, "text", "json")


def pull(p: Grammar) -> None:
    """`tune cache pull`."""
    p.add_argument("--again", action="store_true", help="make the mirror anew, as after a backup was restored")
    add_cache(p)
    add_output(p, "text", "json")


def push(p: Grammar) -> None:
    """`tune cache push`."""
    add_kernel(p, required=False, help=_FILTER)
    p.add_path("--from", use=READS, dest="source", metavar="PATH", help="the cache to send from (default: your own)")
    add_where(p, device=None)
    add_output(p, "text", "json")


def roles(p: Grammar) -> None:
    """`tune cache roles`."""
    p.add_argument("--print", action="store_true", help="print the SQL instead")
    for role, does in (("reader", "reads"), ("writer", "also adds rows")):
        p.add_argument(f"--{role}", metavar="NAME", default=f"tilewright_{role}", help=f"the role that {does} (default tilewright_{role})")
    add_cache(p)
    add_output(p, "text", "json")
