"""A schedule, with what options ask about it when they propose what a search may append."""

from __future__ import annotations

from functools import cached_property

from ..ir.body import Scan
from ..ir.buffer import Buffer, loads
from ..ir.node import Node
from .analysis.structure import contiguous, extent, nests
from .nests import Nest
from .schedule import Scheduled


class Neighbourhood:
    """What is asked of a schedule by more than one option."""

    def __init__(self, schedule: Scheduled) -> None:
        self.schedule, self.kernel, self.target = schedule, schedule.kernel, schedule.target

    @property
    def cpu(self) -> bool:
        """Whether the target is a processor (in whatever language)."""
        return self.target.kind == "cpu"

    @property
    def may_group(self) -> bool:
        """Whether threads may be grouped: the target has groups, and no option rules them out."""
        return self.target.simt and self.schedule.launch.threads != 1

    @cached_property
    def taken(self) -> frozenset[tuple[str, str]]:
        """(option, what it is on) of the options that are there."""
        return frozenset((o.op, o.on) for o in self.schedule.opts)

    @cached_property
    def ops(self) -> frozenset[str]:
        """The names of the options that are there."""
        return frozenset(o.op for o in self.schedule.opts)

    @cached_property
    def reduced(self) -> frozenset[Node]:
        """The axes that some nest reduces over."""
        return frozenset(a for n in self.schedule.nests for a in n.reduce_axes)

    @cached_property
    def scanned(self) -> frozenset[Node]:
        """The axes that some nest scans along."""
        return frozenset(n.value.expr.axis for n in self.schedule.nests if n.value is not None and isinstance(n.value.expr, Scan))

    @cached_property
    def consecutive(self) -> frozenset[Node]:
        """The axes along which some access of the kernel is consecutive: those that lanes could go along."""
        return frozenset(a for n in nests(self.kernel) for a in contiguous(self.kernel, n))

    @cached_property
    def axes(self) -> dict[str, list[Node]]:
        """What an option on axes may name, axes of one trip left out: a family of several sites, or a site → its axes."""
        found: dict[str, list[Node]] = {}
        for a in self.schedule.plans:
            found.setdefault(a.arg.family if len(self.kernel.families.get(a.arg.family, (a,))) > 1 else a.arg.name, []).append(a)
        return {name: sites for name, sites in found.items() if extent(sites[0]) >= 2}

    @cached_property
    def families(self) -> dict[str, list[Node]]:
        """What an option on threads may name: a family that none share yet, and that nothing scans along → its sites."""
        found: dict[str, list[Node]] = {}
        for a in self.schedule.plans:
            found.setdefault(a.arg.family, []).append(a)
        free = [sites for sites in found.values() if self.schedule.plans[sites[0]].threads == 1 and not self.scanned.intersection(sites)]
        return {sites[0].arg.family if len(sites) > 1 else sites[0].arg.name: sites for sites in free}

    def reads(self, nest: Nest, buffer: Buffer) -> bool:
        """Whether a nest reads a buffer."""
        return any(x == buffer for x, _, _ in loads(*nest.evaluated))
