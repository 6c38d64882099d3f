"""The order of kernels: what frees memory runs as soon as it can (a weight's gradient, when nothing else waits for the
gradients it reads), everything else as it is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def by_memory(
    groups: Sequence[int], reads: Mapping[int, Mapping[int, int]], writes: Mapping[int, int], of: Mapping[int, int], kept: set[int]
) -> list[int]:
    """`groups`, which are in an order in which they can run, in one that holds less. `reads`: by group the bytes of the
    stored nodes it reads; `writes`: the bytes that it makes and that go again; `of`: the group that stores a node; `kept`:
    nodes that stay. Of those that can run, the first that frees at least what it makes; if none does, the first."""
    waiting = {g: len({of[s] for s in reads[g]} - {g}) for g in groups}
    behind: dict[int, list[int]] = {g: [] for g in groups}
    readers: dict[int, int] = {}
    for g in groups:
        for source in {of[s] for s in reads[g]} - {g}:
            behind[source].append(g)
        for s in reads[g]:
            readers[s] = readers.get(s, 0) + 1
    place = {g: i for i, g in enumerate(groups)}
    ready = [g for g in groups if not waiting[g]]
    done: list[int] = []
    while ready:
        gains = (sum(n for s, n in reads[g].items() if readers[s] == 1 and s not in kept) - writes[g] for g in ready)
        best = next((g for g, gain in zip(ready, gains) if gain >= 0), ready[0])
        ready.remove(best)
        done.append(best)
        for s in reads[best]:
            readers[s] -= 1
        for g in behind[best]:
            waiting[g] -= 1
            if not waiting[g]:
                ready.append(g)
        ready.sort(key=place.__getitem__)
    return done


def early(wanted: Sequence[int], order: Sequence[int], needs: Mapping[int, set[int]], of: Mapping[int, int]) -> list[int]:
    """The same order, but that the groups `wanted` (checks of indices), with what they need, come before everything else: nothing is
    written yet when one fails. `needs`: by group the stored nodes it reads; `of`: the group that stores a node."""
    found: set[int] = set()
    stack = list(wanted)
    while stack:
        g = stack.pop()
        if g not in found:
            found.add(g)
            stack += [of[s] for s in needs[g] if of[s] != g]
    return [*(g for g in order if g in found), *(g for g in order if g not in found)]
