"""The option lists that were tried on a kernel: which are legal, what the model says of them, and what their Programs count."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from ...ir.errors import OptError
from ...ir.kernel import Kernel
from ...opts import defaults, registry
from ...opts.apply_options import apply
from ...opts.builder import ScheduleBuilder
from ...opts.opt import Opts
from ...opts.schedule import Scheduled
from ...program.program import statements
from ...targets import Target
from ..counted import of_program
from ..model import estimate

ROOM = 30_000
"""Instructions of Programs that are counted for the start schedules of a kernel, with those of its phases: two seconds' worth."""


class Trials:
    """The option lists that were tried on one kernel, target and thread count, and what became of each: guesses share beginnings, and a
    list that was found legal is ranked next. `whole`: the trials of a kernel that this one is a part of."""

    def __init__(self, kernel: Kernel, target: Target, threads: int = 1, whole: Trials | None = None) -> None:
        self.kernel, self.target, self.threads = kernel, target, threads
        self.room: list[int] = [ROOM] if whole is None else whole.room
        """How many instructions may still be counted, for all parts together."""
        self.counts = True
        """Whether Programs are counted: else the estimate stands for that."""
        self._found: dict[tuple[Kernel, Opts], Scheduled | OptError] = {}
        self._seconds: dict[Opts, float] = {}
        self._counts: dict[Opts, float] = {}

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

    # what schedules take --------------------------------------------------------------------------------------------
    def seconds(self, opts: Opts) -> float:
        """What the model estimates, once for each list."""
        found = self._seconds.get(opts)
        if found is None:
            found = self._seconds[opts] = estimate(self.apply(opts), self.threads)
        return found

    def ranked(self, guesses: Iterable[Opts]) -> list[Opts]:
        """The legal ones of some guesses, each schedule once, best first by the model."""
        found: dict[str, tuple[float, Opts]] = {}
        for guess in guesses:
            opts = self.legal(guess)
            if opts is not None:
                found.setdefault(self.apply(opts).hash, (self.seconds(opts), opts))
        return [opts for _, opts in sorted(found.values(), key=lambda f: (f[0], str(f[1])))]

    def ruler(self) -> Callable[[Opts], float]:
        """Seconds by which schedules are compared: by the estimate and by what the Program counts, as a geometric mean (the two seldom fail
        together), or by the estimate alone where enough was counted."""
        return self._by_both if self.counts and self.room[0] > 0 else self.seconds

    def _by_both(self, opts: Opts) -> float:
        return math.sqrt(self.seconds(opts) * self.counted(opts))

    def counted(self, opts: Opts) -> float:
        """Seconds by the counted model; what cannot be lowered takes for ever."""
        from ...lower import lower_ahead  # most quick start schedules are chosen without it

        if not self.counts:
            return self.seconds(opts)
        if opts not in self._counts:
            try:
                program = lower_ahead(self.apply(opts))
            except OptError:
                self._counts[opts] = math.inf
            else:
                self._counts[opts] = of_program(program, self.target, self.threads)
                self.room[0] -= sum(1 for p in program.phases for _ in statements(p.body))
        return self._counts[opts]
