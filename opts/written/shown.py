"""A schedule as users hold it: a tuple of options that a notebook shows as a table."""

from __future__ import annotations

from ...ir.html_text import table
from ..opt import Opt, short


class ShownSchedule(tuple[Opt, ...]):
    """A tuple of options, equal to the plain one. `str` of it is the short form, which every `opts=` and `--opts` takes."""

    __slots__ = ()

    def __str__(self) -> str:
        return short(self)

    def _repr_html_(self) -> str:
        """Each option in its short and its long form, in order."""
        rows = [(short([o]), str(o)) for o in self]
        return table(rows, ("option", "in full"), f"schedule {short(self)}") if rows else table([], (), "schedule: no options")
