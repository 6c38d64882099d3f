"""A sweep on a fleet: as many entries side by side as there are slots, and none before the one that it begins from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .many import FleetRun, Show

if TYPE_CHECKING:
    from ..cache import Cache
    from ..search.manifest.entries import Manifest
    from ..search.manifest.tune_all import Done, Overall
    from .seam import FleetEngine
    from .under_way import FleetOptions, Todo


class SweepRun(FleetRun):
    """`after`: for each entry the index of the one that it waits for, None for none (`search.sweep.order`)."""

    after: Sequence[int | None] = ()

    def ready(self, todo: Todo) -> bool:
        """Whether the entry before it has ended, however it did: its rows are in the cache then, and travel with this one."""
        above = self.after[todo.i]
        return above is None or above in self.results


def sweep_on_fleet(
    manifest: Manifest,
    after: Sequence[int | None],
    cache: Cache,
    engine: FleetEngine,
    options: FleetOptions,
    show: Show = lambda under_way, overall: None,
    told: Callable[[Done, Overall], None] = lambda done, overall: None,
) -> list[Done]:
    """As `tune_on_fleet`, with `after` for the entries of `manifest`."""
    run = SweepRun(manifest, cache, engine, options, show, told)
    run.after = after
    return run.run()
