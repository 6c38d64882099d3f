"""SCATTER: a sum of those elements whose key is the result's place is added up where the keys say, by a phase before the rest.

`Σ_i where(key[i] == v, x[i], 0)` for every v is a comparison of each key with each place; as a scatter each element is added once. The
kernel may then read the totals as it reads the sum: a histogram that is made a table, or means of groups that their members are compared
with. (A store with `combine` says the same of an output, which its own kernel cannot read.)"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from ...ir.errors import OptError
from ...ir.kernel import Kernel
from ...ir.keyed import keyed
from ..analysis.by_keys import scattered
from ..kernel_parts import renamed
from ..named_sums import named, proposed
from ..neighbourhood import Neighbourhood
from ..opt import Opts
from ..registry import Doc, Option
from ..rewriting import Rewriting
from ..schedule import Scheduled
from .phase import in_phases

END = ".s"
"""Behind the names of the first phase's axes."""


@lru_cache(maxsize=64)
def phases(kernel: Kernel, names: tuple[str, ...]) -> tuple[Kernel, Kernel] | None:
    """The kernels of the two phases for the sums `names`; None where there are none."""
    found = scattered(kernel, names)
    return None if found is None else (renamed(found[0], END), found[1])


def rewrite(r: Rewriting) -> Scheduled:
    """A schedule for each phase. An option is for every phase that has what it names."""
    names = named(r, f"keys of {r.target.name}'s threads would meet", "scattered")
    found = phases(r.kernel, names)
    if found is None:
        known = ", ".join(keyed(r.kernel)) or f"{r.kernel.name} has none"
        raise OptError(f"{' '.join(map(str, r.mine))}: name sums of where(key == place, ..., 0) that do not need each other ({known})")
    return in_phases(r, found)


def leads(kernel: Kernel, mine: Opts) -> bool:
    """It comes before other options that rewrite: those of the phases that they would make could not name the totals."""
    return True


def propose(near: Neighbourhood) -> Iterator[Opts]:
    """The sums that can be scattered: all together, and each alone."""
    yield from proposed(near, "SCATTER", keyed(near.kernel) if near.target.kind != "gpu" else {})


SCATTER = Option(
    name="SCATTER",
    letter="B",
    on="tensor",
    arg=None,
    kind="grid",
    legend="scattered by its key",
    docs=(
        Doc(
            "SCATTER(sum)",
            "Add up a sum of `where(key == place, …, 0)` at the places that the keys say, by a phase before the rest: each element once, "
            "not once for every place ([below](#sums-by-keys)).",
        ),
    ),
    golden={},
    rewrite=rewrite,
    by_phase=lambda kernel, o: True,
    proposes_whole=True,
    leads=leads,
    propose=propose,
)
