"""`@tile.kernel`: a function of tiles as a kernel."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Mapping
from typing import Any

from ..ir.blocks import DecidedBlocks
from ..ir.errors import KernelError
from ..ir.kernel import Kernel
from ..ir.normal_form.canonical import canonical
from .builder import TileBuilder
from .elaborate import Elaborated, elaborate, with_blocks
from .trace import Step

MOST = 4096
"""Combinations of block sizes."""


class TileKernel:
    """A function that writes a kernel in tiles. Called with its sizes (those of the function, without `t`) it returns the `Kernel`.
    `check` runs it cell by cell, as it is written, and compares."""

    def __init__(self, function: Callable[..., None], reference: Callable[..., Any] | None = None) -> None:
        functools.update_wrapper(self, function)
        self.function, self.reference = function, reference
        parameters = list(inspect.signature(function).parameters.values())
        if not parameters:
            raise KernelError(
                f"{function.__name__} has no argument; the first one of a tile function is what it writes with: def f(t, m=64)"
            )
        self.__signature__ = inspect.Signature(parameters[1:], return_annotation=Kernel)
        self.__name__ = function.__name__

    def __call__(self, **arguments: Any) -> Kernel:
        """The kernel for these sizes. Raises KernelError."""
        builder, found = self._written(arguments)
        combos = _combinations(builder)
        steps = found.blocks
        _check_extents(found, builder)
        self._check_sizes(arguments, builder, found, combos)
        if not steps:
            return found.kernel
        sizes = dict.fromkeys(tuple(_size(s, combo) for s in steps.values()) for combo in combos)
        return with_blocks(found.kernel, DecidedBlocks(tuple(steps), tuple(sizes)).only(found.kernel.families))

    def traced(self, sizes: Mapping[str, int] | None = None, **arguments: Any) -> TileBuilder:
        """One run of the function; `sizes`: block sizes by name (default: the first that are allowed)."""
        builder = TileBuilder(self.__name__, dict(sizes or {}))
        result = self.function(builder, **arguments)
        if inspect.isgenerator(result) or result is not None:
            raise KernelError(
                f"{self.__name__} returns {type(result).__name__}; a tile function stores its results to outputs, and returns nothing"
            )
        if builder.trace.open:
            name = builder.trace.open[-1].step.name
            raise KernelError(f"the loop over {name} was left by break or return; its steps cannot be known. Mask what is not wanted")
        return builder

    def check(self, seed: int = 0, sizes: Mapping[str, int] | None = None, **arguments: Any) -> None:
        """Run the function cell by cell on random inputs, as it is written, and compare with the kernel's float64 reference, and with
        `reference(inputs by name)` where the decorator was given one (it returns the outputs by name, or the one output). Raises
        VerifyError where they differ. For sizes at which NumPy is quick enough."""
        from .meaning import check  # needs NumPy, which a kernel does not

        check(self.traced(sizes, **arguments).trace, self(**arguments), self.reference, seed)

    def _written(self, arguments: Mapping[str, Any]) -> tuple[TileBuilder, Elaborated]:
        builder = self.traced(None, **arguments)
        if builder.limits:
            first = next(iter(_combinations(builder)), {})
            builder = self.traced(first, **arguments)
        return builder, elaborate(builder.trace, builder.aliases)

    def _check_sizes(self, arguments: Mapping[str, Any], builder: TileBuilder, found: Elaborated, combos: list[dict[str, int]]) -> None:
        """Raise KernelError where another block size computes something else. Each size is tried beside the first of the others."""
        first, text = combos[0], canonical(found.raw).text
        fixed = {s.name: s.block for s in builder.trace.steps.values() if not s.param}
        for param, values in builder.params.items():
            for value in values:
                other = next((c for c in combos if c[param] == value), None)
                if other is None or other == first:
                    continue
                again = self.traced(other, **arguments)
                made = elaborate(again.trace, again.aliases, finish=False)
                moved = [s.name for s in again.trace.steps.values() if not s.param and fixed.get(s.name, s.block) != s.block]
                if moved:
                    raise KernelError(
                        f"{self.__name__}: the block of {moved[0]} is computed from {param}; give it a t.block of its own, with t.limit"
                    )
                if canonical(made.raw).text != text:
                    raise KernelError(_depends(self.__name__, param, first[param], value, found))


def _depends(name: str, param: str, one: int, other: int, found: Elaborated) -> str:
    why = f" (a cell of {', '.join(found.meant)} does more than go through its own places)" if found.meant else ""
    return (
        f"{name}: with {param} = {other} something else is computed than with {param} = {one}{why}, so a search cannot choose it. If that is "
        f"meant, give a number instead of t.block({param!r}, ...); if not, look at what is read past the end of an axis: give `other`, or a mask"
    )


def _check_extents(found: Elaborated, builder: TileBuilder) -> None:
    """Raise KernelError for a parameter whose blocks are part of what is computed."""
    for s in builder.trace.steps.values():
        if s.name in found.meant and s.param and len(builder.params[s.param]) > 1:
            sizes = {min(n, s.extent) for n in builder.params[s.param]}
            if len(sizes) > 1:
                raise KernelError(_depends(builder.trace.name, s.param, min(sizes), max(sizes), found))


def _combinations(builder: TileBuilder) -> list[dict[str, int]]:
    """The block sizes that are allowed together."""
    names = list(builder.params)
    out = []
    for values in itertools.product(*builder.params.values()):
        combo = dict(zip(names, values, strict=True))
        if all(f(**{p: combo[p] for p in inspect.signature(f).parameters}) for f in builder.limits):
            out.append(combo)
        if len(out) > MOST:
            raise KernelError(f"{builder.trace.name}: there are more than {MOST} combinations of block sizes; leave some out")
    if not out:
        raise KernelError(f"{builder.trace.name}: t.limit allows no combination of the block sizes; allow at least one")
    return out


def _size(step: Step, combo: Mapping[str, int]) -> int:
    return min(step.extent, combo[step.param] if step.param else int(step.block or 1))


def kernel(function: Callable[..., None] | None = None, *, reference: Callable[..., Any] | None = None) -> Any:
    """A function of tiles as a kernel: `@tile.kernel`, or `@tile.kernel(reference=f)` where `f(inputs)` is what NumPy says, for `check`.

    The function's first argument is a `TileBuilder`, the others are sizes (and `dtype`), with defaults as a rule."""
    if function is None:
        return lambda f: TileKernel(f, reference)
    return TileKernel(function, reference)
