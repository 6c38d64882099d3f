"""NT: non-temporal stores."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.errors import OptError
from ..builder import ScheduleBuilder
from ..neighbourhood import Neighbourhood
from ..opt import Opt, Opts, opt
from ..registry import Doc, Golden, Option


def act(b: ScheduleBuilder, o: Opt) -> None:
    """Note an output whose stores go past the caches."""
    if o.on not in {x.name for x in b.kernel.outputs}:
        raise OptError(f"{o}: NT names an output ({', '.join(x.name for x in b.kernel.outputs)})")
    b.nt.add(o.on)


def propose(near: Neighbourhood) -> Iterator[Opts]:
    """Each output; a GPU's stores are not worth it."""
    if near.target.kind != "gpu":
        yield from ((opt("NT", x.name),) for x in near.kernel.outputs if ("NT", x.name) not in near.taken)


NT = Option(
    name="NT",
    letter="NT",
    on="tensor",
    arg=None,
    kind="store",
    stored=True,
    legend="non-temporal stores",
    docs=(
        Doc(
            "NT(output)",
            "Use non-temporal stores of whole vectors where the output turns out to be aligned, and to lie apart from what is "
            "loaded in a page, and ordinary stores elsewhere. Of a scatter, this is for the stores that clear the output.",
        ),
    ),
    golden={"nt": Golden("add", {"m": 8, "n": 32}, [["UPCAST", "n", 32], ["NT", "y"]])},
    act=act,
    propose=propose,
    phase="last",
)
