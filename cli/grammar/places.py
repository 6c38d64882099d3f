"""The grammar of what is done with several caches at once, with signatures, and with rows that nobody misses."""

from __future__ import annotations

from .words import READS, UPDATES, Grammar, PathUse, add_cache, add_output, add_where, at_least

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
