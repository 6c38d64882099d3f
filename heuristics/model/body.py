"""The innermost body of a nest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from ...ir.buffer import Buffer
from ...ir.node import Node, axes_of
from ...opts.access import stride as stride_of
from ...opts.axis_plan import Part
from ...opts.nests import Nest
from ...opts.plans import DotPlan
from ...opts.schedule import Scheduled
from ..machine import Core, MachineModel


@dataclass(frozen=True, slots=True)
class Body:
    """The innermost body of a nest: its register parts, how many copies each makes (of whole vectors along the lanes), and the lanes."""

    scheduled: Scheduled
    nest: Nest
    machine: MachineModel
    regs: tuple[Part, ...]
    lane: Part | None
    width: int
    copies: Mapping[str, int]
    dot: DotPlan | None

    @property
    def core(self) -> Core:
        """What instructions cost."""
        return self.machine.core

    def times(self, node: Node) -> int:
        """How often `node` is computed: once for each assignment of the register parts it varies with."""
        axes = axes_of(node)
        return prod(self.copies[p.name] for p in self.regs if p.axis in axes)

    def parts(self, kind: str) -> list[Part]:
        """The register parts of one kind."""
        return [p for p in self.regs if p.kind == kind]

    def count(self, parts: Sequence[Part]) -> int:
        """The copies that some register parts make together."""
        return prod(self.copies[p.name] for p in parts)

    def stride(self, buffer: Buffer, indices: tuple[Node, ...], part: Part) -> int | None:
        """The element stride of a load along `part`."""
        return stride_of(self.scheduled, self.nest, buffer.name, indices, buffer.shape, part)


@dataclass(frozen=True, slots=True)
class BodyWork:
    """Instructions of a body."""

    arith: float
    loads: float
    latency: float
