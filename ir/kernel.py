"""Kernels: an ordered list of named values over axes, and the stores that make them visible, checked when they are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

from .body import KernelBody
from .checks.access_bounds import unproved
from .checks.structure_checks import check
from .errors import KernelError


@dataclass(frozen=True, slots=True)
class DecidedBlocks:
    """`axes`: families, outermost first. `sizes`: what their blocks may be, a number of elements for each of `axes`."""

    axes: tuple[str, ...]
    sizes: tuple[tuple[int, ...], ...]

    def only(self, families: Mapping[str, object]) -> DecidedBlocks | None:
        """The same of the families that a kernel still has; None where there is none."""
        left = [k for k, name in enumerate(self.axes) if name in families]
        if len(left) == len(self.axes):
            return self
        sizes = dict.fromkeys(tuple(s[k] for k in left) for s in self.sizes)
        return DecidedBlocks(tuple(self.axes[k] for k in left), tuple(sizes)) if left else None

    def choices(self, axis: str) -> tuple[int, ...]:
        """The sizes that an axis's blocks may have, ascending."""
        k = self.axes.index(axis)
        return tuple(sorted({s[k] for s in self.sizes}))


@dataclass(frozen=True, eq=False)
class Kernel(KernelBody):
    """A named kernel. Raises KernelError where it is not sound: names that clash, references to nothing, an index that leaves its
    dimension. `blocks`: the block sizes that its schedules must keep to, where whoever wrote it decided them. `fixed`: results have the same
    bits under every schedule (`fixed_sums`)."""

    blocks: DecidedBlocks | None = None
    fixed: bool = False

    def __post_init__(self) -> None:
        check(self)
        _ = self.unproved  # an access that leaves its buffer is an error here, before anything merges axes

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        """Raises KernelError: a kernel says what is computed, and `best` makes something that runs."""
        raise KernelError(
            f"the kernel {self.name} says what is computed, and does not run: tilewright.best(kernel) is what takes arrays, and "
            "tilewright.operation makes a function of tensors of what returns it"
        )

    @cached_property
    def unproved(self) -> frozenset[tuple[str, int]]:
        """(buffer or value, dimension) that some index may leave, for all that is known without data: these are
        merged with no other, so that evaluation checks them as they were written."""
        return unproved(self)
