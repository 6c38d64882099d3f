"""`tune run --manifest FILE --fleet URL`: the entries of a manifest on the machines of a fleet."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .board import fleet_display
from .command import security

if TYPE_CHECKING:
    from rich.console import Console

    from ...search.manifest.entries import Manifest
    from ...search.manifest.tune_all import Done, Overall


def tune_shown(
    found: Manifest,
    args: Namespace,
    seconds: float | None,
    out: Console,
    line: Callable[[Done], str],
    after: Sequence[int | None] | None = None,
    ended: Callable[[Done], None] = lambda done: None,
) -> list[Done]:
    """Tune all entries on the fleet in `seconds` (None: each has its own budget), and show it being done. `line`: a finished entry in
    a line; `after`: which entry each one waits for; `ended` hears of each. Raises FleetError, CacheError."""
    secured = security(args.fleet, "client", args.tls)
    from ... import cache
    from ...fleet.engine import DaskEngine
    from ...fleet.sweep import sweep_on_fleet
    from ...fleet.under_way import FleetOptions
    from ...search import strategy as strategies

    strategy = strategies.check(args.strategy) if args.strategy else None
    options = FleetOptions(seconds, args.trials, args.retune or args.mode == "refresh", strategy)
    engine = DaskEngine(args.fleet, secured)
    try:
        with cache.open(args.cache) as store, fleet_display(args.quiet, out) as board:

            def told(done: Done, overall: Overall) -> None:
                ended(done)
                board.line(f"[{len(overall.done)}/{overall.total}] {line(done)}")

            waits = after if after is not None else [None] * len(found.entries)
            return sweep_on_fleet(found, waits, store, engine, options, board.show, told)
    finally:
        engine.close()
