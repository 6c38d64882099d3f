"""UPCAST: copies of an axis in registers, which become vector lanes where they are consecutive."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.body import Scan
from ..analysis.structure import extent
from ..builder import ScheduleBuilder
from ..neighbourhood import Neighbourhood
from ..opt import Opt, Opts, opt
from ..registry import Doc, Golden, Option
from .golden_shapes import MATMUL

SPATIAL = (2, 3, 4, 6, 8, 12, 14, 16, 32, 48, 64, 128)
ODD = (5, 7, 9, 10, 11, 13)
"""Copies that only extents they divide make worth a look."""
PARTIAL = (4, 16, 32, 64, 128)
THREAD = (2, 4, 8, 16)
"""Copies of one thread of many."""
ACROSS = (2, 4)
"""Partial results of a reduction that no access is consecutive along."""


def act(b: ScheduleBuilder, o: Opt) -> None:
    """Spell out copies; those of a reduction or a scan change its order."""
    scanned = {v.expr.axis for v in b.kernel.values.values() if isinstance(v.expr, Scan)}
    for a in b.find(o.on, o):
        b.plans[a] = b.plans[a].with_registers("upcast", o.amount)
        if a in b.reduced | scanned:
            b.effects.add("REASSOC")


def propose(near: Neighbourhood) -> Iterator[Opts]:
    """Amounts that suit the target, for each axis that has no copies yet."""
    for name, axes in near.axes.items():
        if near.schedule.plans[axes[0]].upcast > 1:
            continue
        size, is_reduce = extent(axes[0]), all(a in near.reduced for a in axes)
        amounts: tuple[int, ...] = THREAD if not near.cpu else PARTIAL if is_reduce else SPATIAL
        if is_reduce and not near.consecutive.intersection(axes):
            amounts = ACROSS
        elif near.cpu and not is_reduce:
            amounts += tuple(n for n in ODD if size % n == 0)
        tile = max(near.schedule.plans[a].tile for a in axes)
        if tile > 1:  # a unit of threads makes whole tiles of a matrix instruction
            amounts, size = tuple(tile * n for n in THREAD), 2 * size
        yield from ((opt("UPCAST", name, n),) for n in amounts if n <= size)


UPCAST = Option(
    name="UPCAST",
    letter="U",
    on="axis",
    kind="upcast",
    copies=True,
    legend="into registers",
    docs=(
        Doc(
            "UPCAST(axis, n)",
            "Keep n elements in registers. The part that is consecutive in most accesses becomes vector lanes. On "
            "a reduce axis these are n independent partial results, combined at the end (`REASSOC`). Along a "
            "scan it is so many steps at a time; as lanes, where its loops are innermost, a vector of prefixes (`REASSOC`).",
        ),
    ),
    golden={
        "upcast": Golden(*MATMUL, [["UPCAST", "m", 4], ["UPCAST", "n", 32]]),
        "upcast_masked": Golden("matmul", {"m": 7, "n": 27, "k": 16}, [["UPCAST", "m", 4], ["UPCAST", "n", 16]]),
        "upcast_partial": Golden("sum_rows", {"m": 4, "n": 96}, [["UPCAST", "n", 32]]),
    },
    act=act,
    propose=propose,
)
