"""What start schedules of every kind of target share: which wishes are legal, each option list applied once."""

from __future__ import annotations

from ...ir.errors import OptError
from ...ir.kernel import Kernel
from ...opts import defaults, registry
from ...opts.apply_options import apply
from ...opts.builder import ScheduleBuilder
from ...opts.opt import Opts
from ...opts.schedule import Scheduled
from ...targets import Target

ROOM = 30_000
"""Instructions of Programs that are counted for the start schedules of a kernel, with those of its phases: two seconds' worth."""


class Trials:
    """The option lists that were tried on one kernel and target, and what became of each: guesses share beginnings,
    and a list that was found legal is ranked next. `counts`: what Programs were found to take (`program_time.count`), by threads.
    `whole`: the trials of a kernel that this one is a part of; `room`: how many instructions may still be counted for all parts."""

    def __init__(self, kernel: Kernel, target: Target, whole: Trials | None = None) -> None:
        self.room: list[int] = [ROOM] if whole is None else whole.room
        self.kernel, self.target = kernel, target
        self._found: dict[tuple[Kernel, Opts], Scheduled | OptError] = {}
        self.counts: dict[tuple[int, Opts], tuple[float, int]] = {}

    def apply(self, opts: Opts) -> Scheduled:
        """`opts.apply`, once for each list. Raises OptError."""
        return self._apply(self.kernel, opts, self.target)

    def _apply(self, kernel: Kernel, opts: Opts, target: Target) -> Scheduled:
        """The same of a kernel that is the whole, or one of those that options make of it: lists share phases."""
        found = self._found.get((kernel, opts))
        if found is None:
            try:
                found = apply(kernel, opts, target, self._apply)
            except OptError as e:
                found = e.with_traceback(None)
            self._found[kernel, opts] = found
        if isinstance(found, OptError):
            raise found
        return found

    def legal(self, wish: Opts) -> Opts | None:
        """`wish`, or the longest list left after dropping what is illegal (a start schedule is a wish, not a demand)."""
        return defaults.legal_prefix(wish, self.apply)

    def legal_at_once(self, wish: Opts) -> Opts | None:
        """As `legal`, but what cannot act where it stands is dropped before anything else is looked at: that takes one
        pass an option that is dropped, where `legal` tries every beginning. Mostly the same list."""
        kept = wish
        while not self.is_legal(kept):
            place = self._first_that_cannot_act(kept)
            if place is None:
                return self.legal(kept)
            kept = kept[:place] + kept[place + 1 :]
        return kept

    def is_legal(self, opts: Opts) -> bool:
        """Whether a list can be applied as it is."""
        try:
            self.apply(opts)
        except OptError:
            return False
        return True

    def _first_that_cannot_act(self, opts: Opts) -> int | None:
        """The place of the first option that is illegal where it stands; None where the whole is what is illegal."""
        builder = ScheduleBuilder(self.kernel, self.target)
        for place, o in enumerate(opts):
            try:
                registry.act(builder, (o,))
            except OptError:
                rewrites = registry.OPTIONS[o.op].rewrite is not None
                return None if rewrites else place
        return None


def legal_prefix(kernel: Kernel, opts: Opts, target: Target) -> Opts | None:
    """`Trials.legal` for a single list."""
    return Trials(kernel, target).legal(opts)
