"""Every schedule, nearest to the empty one first: for small spaces, for recording a space, and to know the true optimum."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

from ..strategy import Measured, Strategy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..space import Schedule, Space, TemplateLike


class Exhaustive(Strategy):
    """All template instances, then the action space breadth first to `depth` actions, each structural hash once."""

    name: ClassVar[str] = "exhaustive"

    def __init__(self, space: Space, *, seed: int = 0, start: Sequence[Schedule] = (), depth: int = 12) -> None:
        super().__init__(space, seed=seed, start=start)
        self._depth = depth
        self._seen: set[str] = set()
        self._walk = self._all()
        self._done = False

    def ask(self, n: int) -> list[Schedule]:
        out: list[Schedule] = []
        for opts in self._walk:
            out.append(opts)
            if len(out) == n:
                return out
        self._done = True
        return out

    def tell(self, opts: Schedule, measurement: Measured) -> None:
        """Nothing to learn: the order is fixed."""

    @property
    def done(self) -> bool:
        return self._done

    def _all(self) -> Iterator[Schedule]:
        queue: deque[tuple[Schedule, int]] = deque()
        for opts in ((), *self.start):
            if self._new(opts):
                yield opts
            queue.append((opts, 0))
        for t in self.space.templates():
            names, lattice = list(t.params), getattr(t, "lattice", None)
            every = product(*(t.params[k] for k in names)) if lattice is None else _of(t, lattice)
            for values in every:
                made = self.space.instance(t, dict(zip(names, values)))
                if made is not None and self._new(made):
                    yield made
        expanded: set[str] = set()
        while queue:
            opts, depth = queue.popleft()
            state = self.space.state(opts)
            if state is None or depth >= self._depth or state.hash in expanded:
                continue
            expanded.add(state.hash)
            for nxt in self.space.successors(state):
                if self._new(nxt.opts):
                    yield nxt.opts
                queue.append((nxt.opts, depth + 1))

    def _new(self, opts: Schedule) -> bool:
        state = self.space.state(opts)
        if state is None or state.hash in self._seen:
            return False
        self._seen.add(state.hash)
        return True


def _of(template: TemplateLike, lattice: Iterable[tuple[int, ...]]) -> Iterator[tuple[Any, ...]]:
    """The choices of every point of a lattice, those that are refused anyway left out."""
    values = list(template.params.values())
    return (tuple(v[i] for v, i in zip(values, at, strict=True)) for at in lattice)
