"""The start rule for sums and extremes of which data says how far they go, such as those along padded rows.

One row at a time: of several side by side the longest counts, and each needs a mask. Few steps are taken at once, since the last of them
reach past the row."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.node import axes_of
from ...opts.analysis.ragged import DIAGONALS, SHORT, conditions, entries_of_a_row, follow, gathered, regular, selected, sides
from ...opts.analysis.structure import contiguous, extent
from ...opts.defaults import family_name, fit, site_name
from ...opts.nests import Nest
from ...opts.opt import Opts, opt
from .row_schedules import gathers
from .start_rule import StartFacts, StartRule

RESULTS = (8, 16, 4, 2, 1)
"""Vectors of results that are summed up at once."""
STEPS = (2, 4)
"""Vectors of a row that are read in a step."""
BESIDE, PICKED, LONG_ROWS = 8, 8, 32
"""Rows whose sums are made together, how many entries are gathered at once, and from which mean on rows are long."""
SHORT_PICKED = 6
"""Up to which mean lanes go along regular rows where entries say what is gathered."""
ONE_STEP = 16
"""Entries of a step that most rows end in, where the processor foresees no end."""
LONG_STEPS = 4
"""Vectors of long rows that are read in a step."""
COLUMNS = 8
"""Vectors of columns that are summed up at once where each row has many: the entries are read again for the next."""
ROWS, ITEMS = 16, 64
"""Rows of a work item, and how many of those are enough for any number of threads."""
HALF = 32
"""Bytes of the vectors of rows side by side where each element that is gathered is an access."""
GATHERED = 4
"""Elements that are gathered in a step, as many at once as cost no more than one by one."""


class RowsOfEntries(StartRule):
    """Rows of entries that lie one after the other, from where to where each goes being data: rows of sparse matrices, and segments."""

    name = "rows of entries"

    def guesses(self, f: StartFacts) -> Iterator[Opts]:
        return _entries(f)


class RaggedRows(StartRule):
    """A reduction of the kernel ends where data says, or data says which of the rows that it gathers are there."""

    name = "ragged rows"

    def guesses(self, f: StartFacts) -> Iterator[Opts]:
        kernel = f.kernel
        reducing = [n for n in f.reductions if n.axes and _by_data(n)]
        joined = dict.fromkeys(family_name(kernel, a) for n in reducing for a in n.reduce_axes if len(kernel.families[a.arg.family]) > 1)
        for wish in dict.fromkeys((*w, *more) for n in reducing for w in _lanes(f, n) for more in _other_reductions(f, n)):
            for together in [*((opt("FUSE", name),) for name in joined), ()]:
                outer = f.shared[:1]
                if f.threads > 1 and outer and extent(outer[0]) >= ITEMS * ROWS:  # short rows are no work items of their own
                    yield (*wish, opt("TILE", site_name(outer[0]), ROWS), opt("PARALLEL", site_name(outer[0])), *together)
                yield (*wish, *f.parallel(), *together)
                if f.threads == 1:
                    yield (*wish, *together)


def _entries(f: StartFacts) -> Iterator[Opts]:
    """For rows of entries that lie one after the other: each by vectors, the sums of several across their lanes together. Where each row has
    columns, they are the lanes, and rows and entries come one by one."""
    for n in f.reductions:
        found = [(a, x[1]) for a in n.reduce_axes for c in conditions(n) for x in (sides(c),) if x is not None and a in axes_of(x[0])]
        for axis, data in found[:1]:
            mean = entries_of_a_row(data, extent(axis))
            rows = [a for a in n.axes if a in axes_of(data)]
            if mean is None or len(rows) != 1:
                continue
            items = (opt("TILE", site_name(rows[0]), ROWS), opt("PARALLEL", site_name(rows[0])))
            columns = [a for a in contiguous(f.kernel, n) if a in n.axes and a is not rows[0]]
            if columns:
                size = extent(columns[0])
                lanes = (opt("UPCAST", site_name(columns[0]), fit(size, min(size, COLUMNS * f.lanes))),)
                yield (*lanes, *items) if f.threads > 1 else lanes
                continue
            together = BESIDE
            picked = gathered(n, axis)
            runs, diagonals = follow(n, axis)
            if not picked:
                entries = f.lanes * (1 if mean <= LONG_ROWS else LONG_STEPS)
            elif runs:
                entries = runs
            elif mean <= ONE_STEP and not regular(data):  # (most rows that end anywhere end in one step, if it is wide)
                entries = ONE_STEP
            elif f.target.gathers_slowly and mean > SHORT_PICKED:  # (where each is an access, a short vector leaves a shorter rest)
                entries = together = GATHERED
            else:
                entries = min(f.lanes, PICKED)
            beside = (opt("UPCAST", site_name(rows[0]), min(together, extent(rows[0]))),)
            wish = (*beside, opt("UPCAST", site_name(axis), entries)) if f.target.gathers or not picked else ()
            if regular(data) and f.target.gathers and mean <= (DIAGONALS if diagonals else SHORT_PICKED if picked else SHORT):
                slow = f.target.gathers_slowly and picked and not diagonals  # (a longer vector is put together of two)
                lanes = (opt("UPCAST", site_name(rows[0]), min(HALF // n.expr.dtype.size if slow else BESIDE, extent(rows[0]))),)
                yield (*lanes, *items) if f.threads > 1 else lanes
            yield (*wish, *items) if f.threads > 1 else wish


def _lanes(f: StartFacts, n: Nest) -> Iterator[Opts]:
    """Lanes along results, along the rows, or along what is gathered."""
    lanes = f.lanes
    for a in contiguous(f.kernel, n):
        size, name = extent(a), family_name(f.kernel, a)
        if size >= lanes:
            many = RESULTS if a in n.axes else STEPS
            yield from ((opt("UPCAST", name, fit(size, min(v * lanes, size))),) for v in many)
            if a in n.axes and size % lanes == 0 and size <= max(RESULTS) * lanes:
                yield (opt("UPCAST", name, size),)
    for a in n.reduce_axes:
        if gathered(n, a):
            yield ()
            yield (opt("UPCAST", family_name(f.kernel, a), min(GATHERED, extent(a))),)


def _by_data(n: Nest) -> bool:
    """Whether data says how far a reduction goes, or which of the rows that it gathers are there."""
    where = selected(n)
    return any(sides(c) for c in conditions(n)) or (where is not None and where.op == "where" and gathers(n))


def _other_reductions(f: StartFacts, n: Nest) -> Iterator[Opts]:
    """What else is wished: nothing, or lanes along the rows of other reductions."""
    yield ()
    others = (m for m in f.reductions if m is not n)
    along = [a for m in others for a in contiguous(f.kernel, m) if a in m.reduce_axes and extent(a) >= f.lanes]
    if along:
        yield tuple(opt("UPCAST", site_name(a), f.lanes) for a in dict.fromkeys(along))
