"""A program of captured functions that runs with and without new schedules of some kernels, and what the cache is told of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ...cache.program_choices import ProgramChoice, keep, row_of
from ...search.whole import Acceptance, Winner, accept
from .call_sequence import CallSequence
from .compiled_function import CompiledFunction, seconds_of
from .kernel_lookup import CHOSEN, FoundKernel

if TYPE_CHECKING:
    from ...cache import Cache, Row
    from ...cache.keys import Key

MOST_KEPT = 3
"""Variants of a function that are ready to run: the ones that are compared, and what ran before."""
TURNS = 3
"""Times that the old and the new schedule of a kernel are timed alone, in turns."""


@dataclass
class KernelChange:
    """The new schedule of a kernel in the functions that run it. `key`: its strict key; `old`, `new`: schedules as rows have them."""

    key: Key
    old: str
    new: str
    places: list[tuple[CompiledFunction, FoundKernel, FoundKernel]] = field(default_factory=list)

    def winner(self, symbols: Mapping[str, int]) -> Winner:
        """The change with the times of both schedules alone."""
        function, old, new = self.places[0]
        times = [
            (seconds_of(old.executable, function.device, symbols), seconds_of(new.executable, function.device, symbols))
            for _ in range(TURNS)
        ]
        calls = sum(k.calls for _, k, _ in self.places)
        return Winner(old.name, calls, min(t for t, _ in times), min(t for _, t in times))


class ProgramVariants:
    """Captured functions that are a program together: `search.whole.Whole`. `call`: seconds of a call of the program."""

    def __init__(self, changes: Sequence[KernelChange], call: Callable[[], float]) -> None:
        self.changes, self.call = changes, call
        self._functions = list({id(f): f for c in changes for f, _, _ in c.places}.values())
        self._first = {id(f): f.sequence for f in self._functions}
        self._made: dict[frozenset[int], dict[int, CallSequence]] = {frozenset(): self._first}
        self._ran = False

    def use(self, winners: frozenset[int]) -> bool:
        """Run the new schedules of these changes from the next call on; whether this variant has not run before."""
        new = winners not in self._made or not self._ran
        self._ran = True
        if winners not in self._made:
            if len(self._made) > MOST_KEPT:
                del self._made[next(k for k in self._made if k)]
            self._made[winners] = {id(f): self._varied(f, winners) for f in self._functions}
        for f in self._functions:
            f.sequence = self._made[winners][id(f)]
        self._made[winners] = self._made.pop(winners)  # the last one used goes last
        return new

    def _varied(self, f: CompiledFunction, winners: frozenset[int]) -> CallSequence:
        pairs = [(old.executable, new.executable) for i in winners for g, old, new in self.changes[i].places if g is f]
        f.sequence = self._first[id(f)]
        return f.varied(pairs) if pairs else self._first[id(f)]

    def settle(self, winners: frozenset[int]) -> None:
        """Let the functions run these changes for good."""
        self.use(winners)
        now: dict[int, FoundKernel] = {}
        for i, c in enumerate(self.changes):
            now |= {id(old): new if i in winners else replace(old, origin=CHOSEN) for _, old, new in c.places}
        for f in self._functions:
            f.kernels = [now.get(id(k), k) for k in f.kernels]


def changes_of(found: Iterable[tuple[CompiledFunction, FoundKernel, FoundKernel]]) -> list[KernelChange]:
    """Kernels whose schedule differs, each once. `found`: kernels of functions before and after; those whose schedule is the same change to what is
    known of it now."""
    changes: dict[tuple[Key, str, str], KernelChange] = {}
    for function, old, new in found:
        before, after = old.text, new.text
        if before == after:
            function.change(old, new)
            continue
        assert new.key is not None
        changes.setdefault((new.key, before, after), KernelChange(new.key, before, after)).places.append((function, old, new))
    return list(changes.values())


def accepted(changes: Sequence[KernelChange], call: Callable[[], float], seconds: float) -> Acceptance:
    """Compare the program with and without each change, in about so many seconds, and let it run those that help. The functions run what was
    before when this is called."""
    variants = ProgramVariants(changes, call)
    symbols = {name: high for c in changes for f, _, _ in c.places for name, _, high in f.graph.symbols}
    found = accept([c.winner(symbols) for c in changes], variants, seconds)
    variants.settle(found.kept)
    return found


def keep_choices(cache: Cache, changes: Sequence[KernelChange], found: Acceptance) -> None:
    """Have the cache remember it."""
    keep(cache, choice_rows(changes, found))


def choice_rows(changes: Sequence[KernelChange], found: Acceptance) -> Iterator[Row]:
    """What the cache remembers: of each function with a text, what it runs of each kernel that was compared."""
    for change, judged in zip(changes, found.judged, strict=True):
        duel = judged.duel
        before, after, pairs = (found.before_s, found.before_s, 0) if duel is None else (duel.t_b, duel.t_a, duel.rounds)
        for f, old, _ in change.places:
            if f.program:
                yield row_of(
                    f.program, change.key, ProgramChoice(change.new if judged.kept else change.old, change.new), name=f"{f.name}: {old.name}",
                    device=f.device, before_s=before, after_s=after, pairs=pairs, facts=judged.facts,
                )  # fmt: skip
