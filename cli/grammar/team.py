"""The grammar of `tune cache team`, `pull`, `push` and `roles`: a team's cache on a server."""

from __future__ import annotations

from collections.abc import Mapping

from .words import READS, Grammar, add_cache, add_kernel, add_output, add_where

ACTIONS = {
    "team": (
        "which server is the team's cache, and how old its mirror is",
        "Shows the server, this machine's mirror of it, and what waits to be sent. With a URL, keeps it in your settings.",
    ),
    "pull": (
        "fetch what is new in the team's cache",
        "Sends what waits, and brings this machine's mirror of the team's cache up to date. Look-ups read only the mirror.",
    ),
    "push": (
        "send what you measured to the team's cache",
        "Adds the measurements of your own cache to the team's, but for those that came with a bundle or that you pinned.",
    ),
    "roles": (
        "make the tables of a team's cache, and roles for readers and writers",
        "Makes or migrates the tables on the server, and two roles: one may read them, one may also add rows. May be run again.",
    ),
}


def add_team_actions(made: Mapping[str, Grammar]) -> None:
    """What the four take."""
    made["team"].add_argument("url", nargs="?", metavar="URL", help="keep this server in your settings, as postgresql://USER@HOST/DATABASE")
    made["team"].add_argument("--forget", action="store_true", help="have no team's cache any more")
    made["pull"].add_argument("--again", action="store_true", help="make the mirror anew, as after a backup was restored")
    add_kernel(made["push"], required=False, help="only this kernel")
    made["push"].add_path("--from", use=READS, dest="source", metavar="PATH", help="the cache to send from (default: your own)")
    roles = made["roles"]
    roles.add_argument("--print", action="store_true", help="print the SQL instead")
    for which, does in (("reader", "reads"), ("writer", "also adds rows")):
        roles.add_argument(
            f"--{which}", metavar="NAME", default=f"tilewright_{which}", help=f"the role that {does} (default tilewright_{which})"
        )
    add_where(made["push"], device=None)
    for name in ("team", "pull", "roles"):
        add_cache(made[name])
    for name in ACTIONS:
        add_output(made[name], "text", "json")
