"""`tune cache diff` and `tune cache merge`: several caches, bundles and servers beside each other, or as one."""

from __future__ import annotations

import json
from argparse import Namespace
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...cache import Cache
from ...cache.keys import for_text
from ...ir.units import counted
from ..report.report import escaped
from ..terminal.style import console, duration, factor, opts_words, stored_opts, table
from .query import narrowed, shape_of
from .signing import checker

if TYPE_CHECKING:
    from ...cache import Row
    from ...cache.comparison import Holding, KeyDifference

DIFFERENT = 1
"""The exit code of `--exit-code`."""


def diff(args: Namespace) -> int:
    """Say how B differs from A."""
    from ...cache.comparison import Difference, compare, hold

    check = checker(args)
    a, b = hold(args.a, check), hold(args.b, check)
    found = compare(narrowed(a.rows, args), narrowed(b.rows, args))
    other = [d for d in found if d.state not in (Difference.same, Difference.none)]
    if args.format == "json":
        print(json.dumps({"schema": 1, "a": _place(a), "b": _place(b), "keys": [_difference(d) for d in found]}, indent=1))
    elif args.format == "markdown":
        print(markdown(store_names(a, b), found if args.all else other))
    else:
        _differences(a, b, found if args.all else other, args.wide)
        _counts(found)
    return DIFFERENT if other and args.exit_code else 0


def _differences(a: Holding, b: Holding, shown: list[KeyDifference], wide: bool) -> None:
    from rich.text import Text

    out = console(wide=wide)
    out.print(f"A: {a.place} ({counted(len(a.rows), 'measurement')})", soft_wrap=True)
    out.print(f"B: {b.place} ({counted(len(b.rows), 'measurement')})", soft_wrap=True)
    if not shown:
        return
    listed = table(
        "", "kernel", "shape", "dtype?5", "device?4", ">threads?7", "", ">A", ">B", ">B/A?1", "A's opts?6", "B's opts?6", "target?3"
    )
    colour = {"only in A": "red", "only in B": "green", "other schedule": "yellow"}
    for d in shown:
        r = d.about
        times = [duration(x.t_min or x.t_med or 0.0) if x is not None else "-" for x in (d.a, d.b)]
        state = Text(str(d.state), style=colour.get(str(d.state), "dim"))
        opts = [stored_opts(x.opts_display) if x is not None else Text("-") for x in (d.a, d.b)]
        cells: list[str | Text] = [
            Text(r.name + for_text(r.objective, r.policy)),
            Text(shape_of(r)),
            Text(r.dtype),
            Text(r.device),
            str(r.threads),
            state,
            *times,
        ]
        listed.add_row(*cells, factor(d.ratio) if d.ratio else "-", *opts, Text(r.target))
    out.print(listed)


def store_names(a: Holding, b: Holding) -> tuple[str, str]:
    """What A and B are, without the folders of whoever compares them."""
    return tuple(h.place if h.kind == "server" else Path(h.place).name for h in (a, b))  # type: ignore[return-value]


def markdown(places: tuple[str, str], shown: list[KeyDifference]) -> str:
    """The differences for a pull request: kernel, times, schedules in words, what was verified, and the machine of each."""
    lines = [f"{len(shown)} answer{'s differ' if len(shown) != 1 else ' differs'} from {escaped(places[0])} to {escaped(places[1])}"]
    if not shown:
        return lines[0]
    lines += ["", "| kernel | change | time | schedule | verified | machine |", "|---|---|---|---|---|---|"]
    for d in shown:
        r = d.about
        old, new = (None if x is None else x.t_min or x.t_med for x in (d.a, d.b))
        times = " → ".join("none" if t is None else duration(t) for t in (old, new))
        faster = f" ({factor(old / new)} as fast)" if old and new else ""
        words = list(dict.fromkeys(escaped(opts_words(x.opts_display)) if x is not None else "none" for x in (d.a, d.b)))
        checked = list(dict.fromkeys(_verified(x) for x in (d.a, d.b) if x is not None))
        threads = f"{r.threads} thread{'s' * (r.threads != 1)}"
        cells = (
            f"**{escaped(r.name)}**{for_text(r.objective, r.policy)} {escaped(shape_of(r))} {escaped(r.dtype)}".replace("  ", " "), str(d.state), times + faster,
            " → ".join(words), " → ".join(checked) or "no", escaped(f"{r.device}, {threads}, {r.target}"),
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _verified(r: Row) -> str:
    return ("twice" if r.facts.get("confirmed") is True else "once") if r.verified else "no"


def _counts(found: list[KeyDifference]) -> None:
    states = Counter(str(d.state) for d in found)
    said = ", ".join(f"{n} {state}" for state, n in sorted(states.items(), key=lambda x: -x[1]))
    print(f"{len(found)} keys" + (f": {said}" if said else ""))
    both, more_a, more_b = (sum(n) for n in zip(*((d.both, d.more_a, d.more_b) for d in found), strict=True)) if found else (0, 0, 0)
    print(f"measurements: {both} in both, {more_a} only in A, {more_b} only in B")


def _difference(d: KeyDifference) -> dict[str, Any]:
    r = d.about
    key = {"name": r.name, "shape": r.shape_dict, "dtype": r.dtype, "device": r.device, "objective": r.objective}
    strict = {f: getattr(d.key, f) for f in ("kernel", "target", "threads", "compiler", "policy")}
    counts = {"both": d.both, "only_a": d.more_a, "only_b": d.more_b}
    return {**key, **strict, "state": str(d.state), "ratio": d.ratio, "a": _as_json(d.a), "b": _as_json(d.b), "measurements": counts}


def _as_json(r: Row | None) -> dict[str, Any] | None:
    return (
        None if r is None else {"t_min": r.t_min, "t_med": r.t_med, "opts": json.loads(r.opts_display), "when": r.when, "run_id": r.run_id}
    )


def _place(h: Holding) -> dict[str, Any]:
    return {"place": h.place, "kind": h.kind, "measurements": len(h.rows)}


def merge(args: Namespace) -> int:
    """Add what several places hold to one."""
    from ...cache.comparison import hold
    from ...cache.comparison import merge as merged

    check = checker(args)
    inputs = [hold(name, check) for name in args.inputs]
    done = merged(inputs, args.into, args.dry_run)
    place = Cache.open(args.into).location
    if args.format == "json":
        each = [{**_place(h), "added": n, "known": k} for h, n, k in zip(inputs, done.added, done.known, strict=True)]
        whole = {"into": place, "dry_run": args.dry_run, "unpinned": done.unpinned, "total": done.total}
        print(json.dumps({"schema": 1, "inputs": each, **whole}, indent=1))
        return 0
    would = "would add" if args.dry_run else "added"
    for h, n, k in zip(inputs, done.added, done.known, strict=True):
        print(f"{would} {n} measurements of {h.place}; {k} were there already")
    if done.unpinned:
        print(f"{done.unpinned} of them were pinned on other machines, which is no pin here (`tune pin` makes one)")
    print(f"{place} {'would hold' if args.dry_run else 'holds'} {done.total} measurements")
    return 0
