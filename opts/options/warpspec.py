"""WARPSPEC: one warpgroup copies by TMA, the others multiply by wgmma."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...ir.errors import OptError
from ..analysis.boxes import BoxPlan, operand_boxes
from ..builder import ScheduleBuilder
from ..groups import check_grid
from ..neighbourhood import Neighbourhood
from ..opt import Opt, Opts, opt
from ..registry import Doc, Option
from ..schedule import Scheduled

WARPGROUP = 128
REGISTERS = {1: (40, 240), 2: (40, 232), 3: (32, 160)}
"""Registers of a thread of the producer and of the consumers, by the number of consuming warpgroups: 65536 in all."""


def act(b: ScheduleBuilder, o: Opt) -> None:
    """Note the number of warpgroups that multiply."""
    check_grid(b, o)
    if "sm90a" not in b.target.features:
        raise OptError(f"{o}: {b.target.name} has no TMA and no wgmma; WARPSPEC is for sm_90a")
    if "WARPSPEC" in b.marks or o.amount not in REGISTERS:
        raise OptError(f"{o}: one WARPSPEC, of {', '.join(map(str, REGISTERS))} warpgroups")
    b.mark(o)


def consumers(s: Scheduled) -> int:
    """Warpgroups that multiply while another copies; 0 without WARPSPEC."""
    found = s.marked("WARPSPEC").get("grid")
    return found if isinstance(found, int) else 0


def finish(s: Scheduled, b: ScheduleBuilder) -> Scheduled:
    """What is staged comes by TMA."""
    return replace(s, stages={name: replace(plan, boxed=True) for name, plan in s.stages.items()})


def check(s: Scheduled) -> None:
    """Raise OptError unless all the group does is products of warpgroups on staged boxes."""
    count = consumers(s)
    if not count:
        return
    if s.group != count * WARPGROUP:
        raise OptError(
            f"WARPSPEC(grid, {count}): {count} warpgroups have {count * WARPGROUP} threads, and the schedule has {s.group}; TC with a row of wgmma, "
            f"and LOCAL along its axes"
        )
    boxes(s)


def boxes(s: Scheduled) -> dict[str, BoxPlan]:
    """The staged operands of all products, by input. OptError where something else is staged, or at several loops."""
    out: dict[str, BoxPlan] = {}
    for t in s.tensors.values():
        if t.row.unit != WARPGROUP:
            raise OptError(f"WARPSPEC(grid): {t.row.name} is an instruction of one warp; use a row of wgmma")
        nest = next(n for n in s.nests if n.name == t.value)
        for operand in "ab":
            if operand == "a" and in_registers(s, nest, t.value):
                continue
            plan = operand_boxes(s, t, nest, operand)
            out[plan.stage.buffer.name] = plan
    if not out:
        raise OptError("WARPSPEC(grid): no sum is made by products of warpgroups; TC with a row of wgmma")
    for name, stage in s.stages.items():
        if name not in out:
            raise OptError(f"STAGE({name}): beside WARPSPEC only operands of products are staged")
        if stage.at is not next(iter(out.values())).stage.at:
            raise OptError(f"STAGE({name}): beside WARPSPEC all operands are staged at one loop")
    at = next(iter(out.values())).stage.at
    for n in s.nests:
        loops = [p for p in s.loops(n) if p.kind != "grid"]
        if any(p is at for p in loops) and loops[0] is not at:
            raise OptError(
                f"WARPSPEC(grid): loop {loops[0].name} runs around {at.name}, where operands are staged; TILE or MOVE so that none does"
            )
    return out


def in_registers(s: Scheduled, nest: object, value: str) -> bool:
    """Whether operand A of a product comes in registers: it is no input."""
    return False


def propose(near: Neighbourhood) -> Iterator[Opts]:
    """A producer, where all sums are made by wgmma."""
    s = near.schedule
    if (
        "sm90a" in near.target.features
        and s.tensors
        and all(t.row.unit == WARPGROUP for t in s.tensors.values())
        and ("WARPSPEC", "grid") not in near.taken
    ):
        yield (opt("WARPSPEC", "grid", s.group // WARPGROUP),)


WARPSPEC = Option(
    name="WARPSPEC",
    letter="WS",
    on="grid",
    kind="grid",
    docs=(
        Doc(
            "WARPSPEC(grid, c)",
            "(Hopper.) One more warpgroup copies operands into a ring of slots by TMA, and c warpgroups multiply by wgmma; mbarriers say which slots "
            "are full and which are empty, and registers go from the one to the others. Operands are staged at one loop with depth 2 or more, 128 bytes of the reduction at a time.",
            groups=True,
        ),
    ),
    act=act,
    finish=finish,
    check=check,
    propose=propose,
)
