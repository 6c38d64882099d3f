"""`Scheduled`: a kernel with everything decided. `apply_options.apply` makes one."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

from .lanes import Vectors, choose_lanes
from .loop_tree import LoopTree, loop_tree
from .loops import Loops
from .nests import Nest


@dataclass(frozen=True, eq=False)
class Scheduled(Loops):
    """A kernel with everything decided: its loops, and what follows from them. Read by lowering, the analytic model
    and `tune show`. Options that rewrite the kernel make `phases`, each a schedule of its own; this one then only
    names the whole."""

    phases: tuple[Scheduled, ...] = ()

    @cached_property
    def told(self) -> dict[object, float]:
        """What models were asked of it, and what they said: schedules share phases, and are compared with many others."""
        return {}

    @cached_property
    def bodies(self) -> dict[Nest, tuple[Nest, ...]]:
        """What models found to be one body, by each of its nests: they ask again and again."""
        return {}

    @cached_property
    def tree(self) -> LoopTree:
        """The loops inside the grid, what runs in each, and which values stay in registers."""
        return loop_tree(self)

    def lanes(self, nest: Nest) -> Vectors:
        """The register parts of a nest, and which of them runs over vector lanes."""
        return self._lanes[0][nest.name]

    @property
    def inner(self) -> dict[str, int]:
        """The position of the consecutive axis of kept values, where lanes decide it; else it is the last."""
        return self._lanes[1]

    @cached_property
    def _lanes(self) -> tuple[dict[str, Vectors], dict[str, int]]:
        return choose_lanes(self, self.tree)

    @cached_property
    def hash(self) -> str:
        """Structural: equal for option lists that give the same loops."""
        if self.phases:
            return hashlib.sha256("/".join(p.hash for p in self.phases).encode()).hexdigest()[:24]
        lines = [
            f"{self.swizzle} {self.launch} {[(t.family, t.count) for t in self.threads]}",
            repr(sorted(self.nt))
            + repr(sorted(self.prefetched))
            + "".join(f" {op} {sorted(noted.items(), key=repr)}" for op, noted in sorted(self.marks.items())),
            repr(sorted(self.held)),
            repr(sorted(self.value_stages.items())),
        ]
        for n in self.nests:
            lines.append(f"{n.kind} {n.name}")
            for p in (*self.loops(n), *self.shared(n), *self.registers(n)):
                lines.append(f"  {p.axis.arg.name} {p.kind} {p.size!r} {p.stride} {p.clip}")
        lines += [f"stage {s.describe}" for _, s in sorted(self.stages.items())]
        lines += [f"ring {name} {r}" for name, r in sorted(self.rings.items())]
        lines += [f"dot {d.describe}" for _, d in sorted(self.dots.items())]
        lines += [f"tensor {t.describe}" for _, t in sorted(self.tensors.items())]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:24]
