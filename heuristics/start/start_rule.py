"""What a start rule is: where it applies, which numbers it leaves open, and the schedule that they make.

A rule is one object. The ranked choice asks the model about a sample of its numbers, the quick choice about the likeliest of these, and
a sampler's template is the same rule with its numbers left open. `start_rules.py` has the rules in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, product
from typing import Any, ClassVar

from ...ir.kernel import Kernel
from ...ir.node import Node
from ...opts.analysis.contractions import all_contractions
from ...opts.analysis.structure import Contraction, extent, nests, shared_axes
from ...opts.defaults import site_name
from ...opts.nests import Nest
from ...opts.opt import Opts, opt
from ...targets import Target
from .trials import Trials

EXACT = frozenset({"REASSOC"})
"""The effects that start schedules may have where nothing else is said: sums may be made in another order, and no digit is lost."""

Numbers = Mapping[str, int]
"""A value for each number that a rule leaves open."""


@dataclass(frozen=True)
class Template:
    """A family of schedules: `make` turns one choice for each parameter into options (perhaps illegal ones)."""

    name: str
    params: Mapping[str, tuple[int, ...]]
    make: Callable[[Numbers], Opts]


class StartFacts:
    """What rules ask about a kernel on a target."""

    def __init__(self, kernel: Kernel, target: Target, threads: int = 1, allowed: Set[str] = EXACT, trials: Trials | None = None) -> None:
        self.kernel, self.target, self.threads, self.allowed = kernel, target, threads, allowed
        self.trials = trials or Trials(kernel, target, threads)

    @cached_property
    def nests(self) -> Sequence[Nest]:
        """The nests of the kernel."""
        return nests(self.kernel)

    @cached_property
    def reductions(self) -> list[Nest]:
        """The nests that reduce."""
        return [n for n in self.nests if n.kind == "reduce"]

    @cached_property
    def shared(self) -> list[Node]:
        """The axes that all nests have."""
        return shared_axes(self.kernel)

    @cached_property
    def lanes(self) -> int:
        """Lanes of the widest type that some nest computes with."""
        return row_lanes(self.kernel, self.target)

    @cached_property
    def result_lanes(self) -> int:
        """Lanes of the widest type of a nest's results."""
        return max(1, min(self.target.lanes(n.expr.dtype.compute) for n in self.nests))

    @cached_property
    def contractions(self) -> Sequence[Contraction]:
        """The sums of products of two operands."""
        return all_contractions(self.kernel)

    @cached_property
    def main(self) -> Contraction | None:
        """The largest contraction."""
        return max(self.contractions, key=lambda c: points(c.nest), default=None)

    def has(self, *kinds: str) -> bool:
        """Whether some nest is of one of these kinds."""
        return any(n.kind in kinds for n in self.nests)

    def parallel(self, count: int = 1) -> Opts:
        """The outermost shared axes in parallel."""
        return tuple(opt("PARALLEL", site_name(a)) for a in self.shared[:count])


class StartRule:
    """One way to begin. Guesses may be illegal: what cannot act is left out by whoever tries them."""

    name: ClassVar[str]
    """What reports and templates call it."""
    quick_places: ClassVar[tuple[int, ...]] = ()
    """Which of the guesses the quick choice asks about, by their place; the first where there are fewer. Empty: none."""

    def applies(self, f: StartFacts) -> Iterable[Any]:
        """The places of the kernel where the rule has something to say, such as axes or nests; none where it does not apply."""
        raise NotImplementedError

    def parameters(self, f: StartFacts, where: Any) -> Mapping[str, tuple[int, ...]]:
        """The open numbers, with the values that are tried, the likeliest first."""
        return {}

    def schedule(self, f: StartFacts, where: Any, p: Numbers) -> Opts | None:
        """The schedule that some numbers make; None where they do not go together."""
        raise NotImplementedError

    def sample(self, f: StartFacts, where: Any) -> Iterable[Numbers]:
        """The numbers that the ranked choice asks about, the likeliest first: by default all combinations."""
        found = self.parameters(f, where)
        return (dict(zip(found, values)) for values in product(*found.values()))

    def guesses(self, f: StartFacts) -> Iterator[Opts]:
        """The schedules of the sample at every place, the likeliest first."""
        for where in self.applies(f):
            for p in self.sample(f, where):
                made = self.schedule(f, where, p)
                if made is not None:
                    yield made

    def quick(self, f: StartFacts) -> list[Opts]:
        """The few guesses of the quick choice."""
        if not self.quick_places:
            return []
        found = list(islice(self.guesses(f), max(self.quick_places) + 1))
        return [found[i] for i in self.quick_places if i < len(found)] or found[:1]

    def templates(self, f: StartFacts) -> Iterator[Template]:
        """The rule with its numbers left open, for samplers; none by default."""
        return iter(())


def points(n: Nest) -> int:
    """The points of a nest."""
    out = 1
    for a in n.all_axes:
        out *= extent(a)
    return out


def row_lanes(kernel: Kernel, target: Target) -> int:
    """Lanes of the widest type that some nest computes with: of its results, or of the floats on the way to them."""
    types = {n.expr.dtype.compute for n in nests(kernel)}
    made = (x for n in nests(kernel) for x in n.nodes if x.op not in ("load", "const", "ref", "cast"))
    types |= {x.dtype for x in made if x.dtype.is_float}
    return max(1, min(target.lanes(t.compute) for t in types))
