"""`tune cache team`, `pull`, `push` and `roles`: a team's cache on a server, and this machine's mirror of it."""

from __future__ import annotations

import json
import os
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from ...ir.errors import UsageError

if TYPE_CHECKING:
    from ...cache.server.team_cache import Team
    from ...cache.store import Cache


def _print(args: Namespace, facts: dict[str, Any], lines: list[str]) -> int:
    print(json.dumps(facts, indent=1) if args.format == "json" else "\n".join(lines))
    return 0


def _opened(args: Namespace) -> tuple[Cache, Team]:
    """The cache that the arguments name, and the server that it is or that is below it. Raises UsageError where there is none."""
    from ... import cache
    from ...cache.server import address

    store = cache.open(args.cache)
    if store.team is None:
        raise UsageError(
            f"no team's cache is named: `tune cache team URL` keeps one in {address.path()}, "
            f"{address.ENV}=URL names one for a while, and --cache URL for this command"
        )
    return store, store.team


def _named(args: Namespace) -> int:
    from ...cache.server import address

    file = address.remember("" if args.forget else args.url)
    if args.forget:
        print(f"no team's cache any more ({file})")
    else:
        print(f"the team's cache is {args.url} ({file}); `tune cache pull` fetches it")
    if address.ENV in os.environ:
        print(f"but {address.ENV} is set, and decides")
    return 0


def team(args: Namespace) -> int:
    """Keep a server in the settings, or say what is known without asking it."""
    if args.url is not None or args.forget:
        return _named(args)
    store, team = _opened(args)
    with store:
        return _print(args, *_known(store, team))


def _known(store: Cache, team: Team) -> tuple[dict[str, Any], list[str]]:
    at = team.mirror.position()
    rows = team.mirror.reader.table("SELECT count(*) AS n FROM measurement")[0]["n"] if at is not None else 0
    waiting = [str(f) for f in store.waiting.files()]
    said = {
        "server": str(team.address),
        "mirror": str(team.mirror.path),
        "rows": rows,
        "pulled": None if at is None else at.pulled,
        "waiting": waiting,
    }
    when = "never pulled: `tune cache pull`" if at is None else f"{rows} measurements, pulled {at.pulled[:19].replace('T', ' ')} UTC"
    lines = [f"server  {team.address}", f"mirror  {team.mirror.path} ({when})"]
    lines += [f"waiting {f}: the next pull or run takes it in" for f in waiting]
    return said, lines


def pull(args: Namespace) -> int:
    """Send what waits, and update the mirror."""
    store, team = _opened(args)
    with store:
        sent = store.waiting.take_in(store.record) if store.location == str(team.address) else 0
        done = team.pull(args.again)
    facts = {"server": str(team.address), "added": done.added, "gone": done.gone, "refused": done.refused, "sent": sent}
    return _print(args, facts, [f"pulled {done.added} measurements from {team.address}; {done.gone} are gone there"])


def push(args: Namespace) -> int:
    """Send what was measured here: neither what came with a bundle, nor what somebody pinned, which is their own choice."""
    from ... import cache
    from ...cache import layers
    from .query import select

    store, team = _opened(args)
    with store, cache.open(args.source or layers.user_path()) as mine:
        if mine.location == str(team.address):
            raise UsageError("--from and --cache name the same cache: there is nothing to send")
        rows = [r for r in select(mine, args) if not r.imported and not r.pinned]
        sent = team.push(rows)
    facts = {"server": str(team.address), "sent": sent, "known": len(rows) - sent}
    return _print(args, facts, [f"sent {sent} measurements to {team.address}; {len(rows) - sent} were there already"])


def roles(args: Namespace) -> int:
    """Make the tables and the roles, or print the SQL that makes the roles."""
    from ...cache.server.roles import script

    sql = script(args.reader, args.writer)
    if args.print:
        print(sql, end="")
        return 0
    store, team = _opened(args)
    with store:
        team.writer.prepare()
        team.writer.execute(sql)
    facts = {"server": str(team.address), "reader": args.reader, "writer": args.writer}
    lines = [
        f"the tables of {team.address} are there; {args.reader} may read them, and {args.writer} add rows",
        f"GRANT {args.reader} TO somebody;  -- in psql gives a role to a user",
    ]
    return _print(args, facts, lines)
