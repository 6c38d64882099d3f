"""One schedule as each of several shapes has it.

A block of 64 cuts nothing from an axis of 7: there the block is the whole axis, and the option is left out. Likewise 16 copies
become 4. So a schedule that is good for large shapes need not be given up for the sake of a small one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...ir import index as ix
from ...opts.decided_blocks import allowed_sizes, block_sizes, extent_of
from ...opts.options.tile import cut_into
from ...opts.registry import OPTIONS

if TYPE_CHECKING:
    from ...ir.kernel import Kernel
    from ...opts.opt import Opt
    from ..space import Schedule, Space


class SharedSpace:
    """The spaces of one kernel at several shapes, and its kernels there."""

    def __init__(self, spaces: Sequence[Space], kernels: Sequence[Kernel]) -> None:
        self.spaces, self.kernels = tuple(spaces), tuple(kernels)
        self._families = frozenset(f for k in kernels for f in k.families)
        self._sizes = self._shared_sizes()

    def at(self, shape: int, opts: Schedule) -> Schedule:
        """The schedule as the shape of this number has it: the same where it is legal there."""
        if self.spaces[shape].state(opts) is not None:
            return opts
        return tuple(f for o in opts if (f := self._within(shape, o)) is not None)

    def legal(self, opts: Schedule) -> bool:
        """Whether a schedule may run on every shape."""
        return all(s.state(self.at(i, opts)) is not None for i, s in enumerate(self.spaces))

    def fitted(self, opts: Schedule) -> Schedule:
        """A schedule without what is not legal on some shape, even as that shape has it."""
        for i, space in enumerate(self.spaces):
            if space.state(self.at(i, opts)) is not None:
                continue
            here = [(o, self._within(i, o)) for o in opts]
            state = space.legalise([f for _, f in here if f is not None])
            kept = list(() if state is None else state.opts)  # some of them, in their order
            left: list[Opt] = []
            for o, mine in here:
                if mine is None:
                    left.append(o)
                elif kept and kept[0] == mine:
                    left.append(o)
                    kept.pop(0)
            opts = tuple(left)
        return opts

    def written_out(self, shape: int, opts: Schedule) -> list[Schedule]:
        """A schedule of one shape for all of them, in each way that says the sizes of decided blocks (`ir.blocks`) which are the whole
        of an axis there and need not be elsewhere; the schedule itself where there are none."""
        kernel = self.kernels[shape]
        if not self._sizes or not opts:
            return [opts]
        mine = dict(zip(kernel.blocks.axes, block_sizes(kernel, opts), strict=True)) if kernel.blocks else {}
        ways: list[Schedule] = []
        for sizes in self._sizes:
            whole = {a: extent_of(kernel, a) if a in kernel.families else 1 for a in sizes}
            if all(min(n, whole[a]) == mine.get(a, whole[a]) for a, n in sizes.items()):
                ways.append((*(cut_into(a, n) for a, n in sizes.items() if n >= whole[a]), *opts))
        return ways or [opts]

    def near(self, opts: Schedule) -> Iterator[Schedule]:
        """Schedules one step away that every shape may run: as the shape that has most of the options sees them."""
        most = max(range(len(self.spaces)), key=lambda i: len(self.at(i, opts)))
        mine = self.at(most, opts)
        state = self.spaces[most].state(mine)
        if state is None:
            return
        found = [s.opts for s in self.spaces[most].successors(state)]
        found += [mine[:k] + mine[k + 1 :] for k in range(len(mine))]
        yield from (s for f in dict.fromkeys(found) for s in self.written_out(most, f) if self.legal(s))

    def _within(self, shape: int, o: Opt) -> Opt | None:
        """An option as a shape has room for it: None for a block that is no smaller than its axis, for a single copy, and on an
        axis of one element, which the kernel may not have."""
        extent = self._extent(shape, str(o.on))
        if extent is None:
            return o
        if extent == 1 or (OPTIONS[o.op].cuts and o.amount >= extent):
            return None
        if not OPTIONS[o.op].copies or o.amount <= extent:
            return o
        amount = o.amount
        while amount > extent:
            amount //= 2
        return replace(o, arg=amount) if amount > 1 else None

    def _extent(self, shape: int, name: str) -> int | None:
        """The largest extent of the axes that an option's place names, whichever nest or phase it means; None of what is no axis."""
        kernel, family = self.kernels[shape], name if name in self._families else name.split("@")[0].split(".")[0]
        if family not in self._families:
            return None
        return max((ix.upper(a.arg.extent) for a in kernel.families.get(family, ())), default=1)

    def _shared_sizes(self) -> list[dict[str, int]]:
        """The sizes of decided blocks, by axis, that every shape allows, where a block is at most its axis there."""
        of = [(k, k.blocks) for k in self.kernels if k.blocks is not None]
        axes = dict.fromkeys(a for _, blocks in of for a in blocks.axes)
        every = [dict(zip(blocks.axes, s, strict=True)) for _, blocks in of if len(blocks.axes) == len(axes) for s in blocks.sizes]

        def allowed(k: Kernel, axes: Sequence[str], sizes: dict[str, int]) -> bool:
            return tuple(min(sizes[a], extent_of(k, a)) for a in axes) in allowed_sizes(k)

        found = [s for s in every if all(allowed(k, blocks.axes, s) for k, blocks in of)]
        return list({tuple(s.items()): s for s in found}.values())
