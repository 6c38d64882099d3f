"""ACCUMULATE: a sum over rows is added to in memory, row by row, in the loop that goes through the rows already.

What decides by how much a row counts, and what is stored of each row, comes in the same phase (`analysis.accumulated`); a second one
does with the sums what the kernel does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from ...ir.errors import OptError
from ...ir.kernel import Kernel
from ..analysis.accumulated import accumulable, accumulated
from ..kernel_parts import renamed
from ..named_sums import named, proposed
from ..neighbourhood import Neighbourhood
from ..opt import Opts
from ..registry import Doc, Option
from ..rewriting import Rewriting
from ..schedule import Scheduled
from .phase import in_phases

END = ".a"
"""Behind the names of the first phase's axes."""


@lru_cache(maxsize=64)
def phases(kernel: Kernel, names: tuple[str, ...]) -> tuple[Kernel, Kernel] | None:
    """The kernels of the two phases for the sums `names`; None where there are none."""
    found = accumulated(kernel, names)
    return None if found is None else (renamed(found[0], END), found[1])


def rewrite(r: Rewriting) -> Scheduled:
    """A schedule for each phase. An option is for every phase that has what it names."""
    names = named(r, f"rows come one after the other, so {r.target.name} would be idle", "accumulated")
    found = phases(r.kernel, names)
    if found is None:
        known = ", ".join(accumulable(r.kernel)) or f"{r.kernel.name} has none"
        raise OptError(
            f"{' '.join(map(str, r.mine))}: name a sum over rows that another reduction reads as well ({known}), or several over the same rows"
        )
    made = in_phases(r, found)
    inside = any(len(v.reduce_axes) > 1 and v.dtype.is_float for name in names for v in (r.kernel.values[name],))
    return replace(made, effects=made.effects | {"REASSOC"}) if inside else made


def propose(near: Neighbourhood) -> Iterator[Opts]:
    """The sums over rows that others read as well: all together, and each alone."""
    yield from proposed(near, "ACCUMULATE", accumulable(near.kernel) if near.target.kind != "gpu" else {})


ACCUMULATE = Option(
    name="ACCUMULATE",
    letter="AC",
    on="tensor",
    arg=None,
    kind="grid",
    legend="accumulated",
    docs=(
        Doc(
            "ACCUMULATE(sum)",
            "Add up a sum over rows in memory, row by row, by a phase that goes through the rows once: with what decides by how much "
            "each counts, and what is stored of it (`REASSOC` for sums of floats over more than the rows) ([below](#sums-over-rows)).",
        ),
    ),
    golden={},
    rewrite=rewrite,
    by_phase=lambda kernel, o: True,
    proposes_whole=True,
    propose=propose,
)
