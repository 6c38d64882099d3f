"""SET: the value of a parameter of a user's source. It is no option of a kernel."""

from __future__ import annotations

from ...ir.errors import OptError
from ..builder import ScheduleBuilder
from ..opt import Opt
from ..registry import Doc, Option


def act(b: ScheduleBuilder, o: Opt) -> None:
    """Kernels have no such parameters."""
    raise OptError(f"{o}: SET gives a parameter of a source its value (tune source); a kernel has none")


SET = Option(
    name="SET",
    letter="",
    on="grid",
    arg={"to": str},
    short=(("=", "to"),),
    loop_fields=("to",),  # no loop, but a name as far as writing it goes: it may need quotes
    kind="stage",
    docs=(Doc("SET(parameter, to)", "The value of a parameter of a [source](sources.md); kernels have none"),),
    act=act,
)
