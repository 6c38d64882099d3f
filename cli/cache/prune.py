"""`tune cache prune`: delete what nobody would miss, and say what it is first."""

from __future__ import annotations

import json
import warnings
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...ir.errors import CacheError, UsageError
from ..terminal.style import bytes_text, console, duration, stored_opts, table
from .query import on_cache, shape_of

if TYPE_CHECKING:
    from ...cache import Cache, Row
    from ...cache.pruning import PruneRules, Pruning

SHOWN = 20
"""Lost answers that are listed without --wide."""


@on_cache(writes=True)
def prune(store: Cache, args: Namespace) -> int:
    """Find, show, keep a copy where one is asked for, and delete."""
    from ...cache import bundles
    from ...cache.comparison import Holding, hold
    from ...cache.pruning import plan

    rules = rules_of(args)
    if store.path is not None and not store.path.exists():
        raise CacheError(f"there is no cache {store.path}, so there is nothing to prune")
    # a server's location is without its password, so it is not opened again
    held = Holding(store.location, "server", tuple(store.rows())) if store.path is None else hold(store.location)
    if held.kind == "bundle":
        raise UsageError(f"{held.place} is a bundle: merge it into a cache, prune that, and export it again")
    found, place = plan(held.rows, rules), held.place
    if args.format != "json":
        _show(place, found, rules, args)
    saved = gone = 0
    freed: tuple[int, int] | None = None
    if not args.dry_run and found.rows:
        if args.save:
            saved = bundles.write(found.rows, args.save, args.overwrite)
        gone = store.remove(found.rows)
        freed = _compacted(store)
    if args.format == "json":
        print(json.dumps(_as_json(place, found, rules, args, gone), indent=1))
        return 0
    if args.dry_run:
        print(f"{len(found.rows)} of {found.total} measurements would be deleted; nothing was")
    else:
        said = f"deleted {gone} of {found.total} measurements from {place}"
        said += f", which are in {args.save} now" if saved else ""
        print(said + (f"; {bytes_text(freed[0])} before, {bytes_text(freed[1])} now" if freed else ""))
    return 0


def rules_of(args: Namespace) -> PruneRules:
    """The rules of the arguments; `superseded` alone where none is named."""
    from ...cache.pruning import PruneRules

    named = args.superseded or args.old_tools or args.tried or args.idle is not None or args.target
    if args.before and not (args.superseded or args.old_tools or args.tried or not named):
        raise UsageError("--before narrows --superseded, --old-tools and --tried; for whole targets use --idle DAYS")
    from ..report.entries import moment

    before = moment(args.before, "--before") if args.before else None
    return PruneRules(args.superseded or not named, args.old_tools, args.tried, args.idle, tuple(args.target or ()), before)


def _show(place: str, found: Pruning, rules: PruneRules, args: Namespace) -> None:
    from rich.text import Text

    from ...cache.pruning import RULES

    out = console(wide=args.wide)
    chosen = _chosen(rules)
    listed = table(f"cache {place}", "rule", ">measurements", "", "what it finds?1")
    for name, what in RULES.items():
        if name in chosen or name in ("superseded", "old-tools", "tried"):
            verdict = ("would go" if args.dry_run else "goes") if name in chosen else f"stays (--{name})"
            listed.add_row(Text(name), str(found.by_rule[name]), Text(verdict, style="" if name in chosen else "dim"), Text(what))
    out.print(listed)
    if found.kept:
        said = f"{found.kept} measurements of other versions stay: they answer where nothing newer does"
        out.print(said, soft_wrap=True)
    for target, n in found.targets.items() if rules.idle_days is not None or rules.targets else ():
        out.print(f"{n} of the target {target}", soft_wrap=True)
    if rules.targets and not found.by_rule["target"]:
        out.print("no target here is like that; `tune cache list --wide --all` has their keys", soft_wrap=True)
    if found.lost:
        _lost(found.lost, out, args.wide)


def _lost(lost: Sequence[Row], out: Any, wide: bool) -> None:
    from rich.text import Text

    listed = table(
        f"look-ups that lose their answer, or get another one: {len(lost)}",
        "kernel",
        "shape",
        "dtype?3",
        "device?2",
        ">threads?5",
        ">time",
        "opts?4",
        "target?1",
    )
    for r in lost if wide else lost[:SHOWN]:
        time = duration(r.t_min or r.t_med or 0.0)
        cells: list[str | Text] = [Text(r.name), Text(shape_of(r)), Text(r.dtype), Text(r.device), str(r.threads), time]
        listed.add_row(*cells, stored_opts(r.opts_display), Text(r.target))
    out.print(listed)
    if len(lost) > SHOWN and not wide:
        out.print(f"and {len(lost) - SHOWN} more: --wide shows all")


def _chosen(rules: PruneRules) -> list[str]:
    pairs = {"superseded": rules.superseded, "old-tools": rules.old_tools, "tried": rules.tried}
    return [*(n for n, on in pairs.items() if on), *["idle"] * (rules.idle_days is not None), *["target"] * bool(rules.targets)]


def _compacted(store: Cache) -> tuple[int, int] | None:
    """Bytes of the file before and after; None for a server, or where somebody else is at work on it."""
    from ...cache.pruning import compact

    if store.path is None:
        return None
    store.close()
    try:
        return compact(store.path)
    except CacheError as e:
        warnings.warn(f"the rows are deleted, and their space stays in the file for new ones: {e}", stacklevel=2)
        return None


def _as_json(place: str, found: Pruning, rules: PruneRules, args: Namespace, gone: int) -> dict[str, Any]:
    lost = [
        {
            "name": r.name,
            "shape": r.shape_dict,
            "dtype": r.dtype,
            **{f: getattr(r.key, f) for f in ("kernel", "target", "threads", "compiler", "policy")},
        }
        for r in found.lost
    ]
    counts = {"total": found.total, "found": len(found.rows), "deleted": gone, "kept": found.kept}
    where = {"cache": place, "dry_run": args.dry_run, "saved": args.save if gone else None}
    return {
        "schema": 1,
        **where,
        "rules": _chosen(rules),
        **counts,
        "by_rule": dict(found.by_rule),
        "targets": dict(found.targets),
        "lost": lost,
    }
