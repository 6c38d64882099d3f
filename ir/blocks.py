"""Block sizes that whoever wrote a kernel decided: which axes a schedule cuts into blocks, and how large these may be.

A kernel in tiles (`tilewright.tile`) says what is one cell of its grid. It computes the same whatever its block sizes are, so they
are no part of its expressions. They are a promise about its schedules: each is cut by `TILE` as one of `sizes` says. The schedule of
no options, which says nothing at all, is always allowed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


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
