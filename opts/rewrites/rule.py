"""What a rule of REWRITE is: a function from a kernel to the kernels that take its place, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ...ir.kernel import Kernel

Named = tuple[str, str]
"""What an option names: a value, an output or an axis, and the axis `along`, '' where its rule takes none."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RewriteRule:
    """`kernels`: the kernels that compute what the kernel does, one after another, with what is named rewritten; OptError where that
    cannot be. `proposals`: what may be named together, beside what is `taken`. `on`: what a name is; `along`: whether it takes an axis
    besides. `phased`: values that it makes have phases of their own. `reorders`: whether sums of floats are added up in another order;
    `regroups`: whether factors meet in another order. `processors`: why it is for processors alone, '' where it is not.
    `written`, `meaning`: its line of docs/options.md."""

    name: str
    kernels: Callable[[Kernel, tuple[Named, ...]], tuple[Kernel, ...]]
    proposals: Callable[[Kernel, Sequence[str]], Iterable[tuple[Named, ...]]]
    on: Literal["axis", "tensor"] = "tensor"
    along: bool = False
    phased: bool = False
    reorders: Callable[[Kernel, tuple[Named, ...]], bool] = lambda kernel, named: False
    regroups: bool = False
    processors: str = ""
    written: str
    meaning: str


def together(names: Iterable[str], taken: Sequence[str]) -> Iterator[tuple[Named, ...]]:
    """All of some names, and each alone; none where one is taken."""
    found = list(names)
    if any(name in taken for name in found):
        return
    if len(found) > 1:
        yield tuple((name, "") for name in found)
    yield from (((name, ""),) for name in found)
