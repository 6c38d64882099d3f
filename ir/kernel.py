"""Kernels: an ordered list of named values over axes, and the stores that make them visible, checked when they are made."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from .blocks import DecidedBlocks
from .body import KernelBody
from .checks.access_bounds import unproved
from .checks.check import check


@dataclass(frozen=True, eq=False)
class Kernel(KernelBody):
    """A named kernel. Raises KernelError where it is not sound: names that clash, references to nothing, an index that leaves its
    dimension. `blocks`: the block sizes that its schedules must keep to, where whoever wrote it decided them."""

    blocks: DecidedBlocks | None = None

    def __post_init__(self) -> None:
        check(self)
        _ = self.unproved  # an access that leaves its buffer is an error here, before anything merges axes

    @cached_property
    def unproved(self) -> frozenset[tuple[str, int]]:
        """(buffer or value, dimension) that some index may leave, for all that is known without data: these are
        merged with no other, so that evaluation checks them as they were written."""
        return unproved(self)
