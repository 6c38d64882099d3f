"""Options that make another kernel, or two, of one: what they are given, and what they give back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..ir.errors import OptError
from ..ir.kernel import Kernel
from ..targets import Target
from .builder import ScheduleBuilder
from .nests import plain
from .opt import Opt, Opts
from .schedule import Scheduled


@dataclass(frozen=True, eq=False)
class Rewriting:
    """A kernel with options, of which `mine` rewrite it (all of one name; at least one). `apply` makes a schedule of a kernel."""

    kernel: Kernel
    opts: Opts
    mine: Opts
    target: Target
    apply: Callable[[Kernel, Opts, Target], Scheduled]

    def only(self, refusal: str) -> Opt:
        """The option that rewrites; OptError with `refusal` where there are several."""
        if len(self.mine) > 1:
            raise OptError(f"{self.mine[1]}: {refusal}")
        return self.mine[0]

    @property
    def others(self) -> Opts:
        """The options that are left for the kernels that come out."""
        return tuple(o for o in self.opts if all(o is not m for m in self.mine))

    def schedule(self, phases: tuple[Scheduled, ...], effects: frozenset[str]) -> Scheduled:
        """The schedule of the whole: of `phases` that run one after another (of one that has phases itself, of those)."""
        phases = tuple(p for s in phases for p in (s.phases or (s,)))
        whole = ScheduleBuilder(self.kernel, self.target)
        return Scheduled(
            self.kernel, self.opts, self.target, whole.plans, tuple(whole.order), plain(self.kernel), {}, {},
            effects=effects, phases=phases,
        )  # fmt: skip
