"""What becomes of candidates whose worker was lost: pure rules, no network.

A worker says which candidate it begins, and sends each result as it comes. So when it is gone, the candidate that it
was at is known in most cases: that one is sent again alone. Where nothing was said (the last messages of a process that
is killed may not have left it), the part is halved. A candidate is a `crash` when a second worker was lost that had only
this candidate and had begun it; whoever stood beside it in a batch is never blamed, nor is a candidate whose worker
ended while it made the inputs. A worker that has one candidate only waits until its message has left before it begins
(`at_worker.CAREFUL_S`), so that what is said of it can be trusted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

CONVICTED = 2
"""Workers lost over a candidate, the last of them with nothing else to do, after which it is never sent again."""
GUILTY = f"{CONVICTED} workers were lost over it, the last with nothing else to do"


@dataclass(frozen=True, slots=True)
class BatchPart:
    """Candidates, by their numbers, that go to one worker. `avoid`: hosts that lost one over them already, so that another machine is
    asked where there is one."""

    items: tuple[int, ...]
    avoid: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class LossVerdict:
    """What follows from a loss: parts to send, in this order, and candidates that are to blame."""

    again: tuple[BatchPart, ...] = ()
    guilty: tuple[int, ...] = ()


FRUITLESS = 8
"""Workers lost in a row, without one result between them, after which something other than the candidates is at fault."""


@dataclass
class LossRule:
    """Remembers who was lost over whom; one for all batches of a kernel. `lost`: workers lost so far; `fruitless`: those of them
    since the last result."""

    lost: int = 0
    fruitless: int = 0
    _over: Counter[int] = field(default_factory=Counter)

    def after(self, part: BatchPart, done: Collection[int], begun: Sequence[int], host: str = "") -> LossVerdict:
        """A worker on `host` was lost over `part`. `done`: candidates whose results had arrived; `begun`: those that it said to
        have begun, in order."""
        self.lost += 1
        self.fruitless += 1
        rest = tuple(i for i in part.items if i not in done)
        avoid = part.avoid | {host} if host else part.avoid
        at = next((i for i in reversed(begun) if i in rest), None)
        if at is not None:
            self._over[at] += 1
            if self._over[at] >= CONVICTED and len(part.items) == 1:
                return LossVerdict(guilty=(at,))
            others = tuple(i for i in rest if i != at)
            return LossVerdict((BatchPart((at,), avoid), *([BatchPart(others, part.avoid)] if others else [])))
        if len(rest) <= 1:
            return LossVerdict((BatchPart(rest, avoid),) if rest else ())
        middle = len(rest) // 2
        return LossVerdict((BatchPart(rest[:middle], avoid), BatchPart(rest[middle:], avoid)))

    def measured(self, item: int) -> None:
        """It has a result: what was lost over it had other reasons."""
        self.fruitless = 0
        self._over.pop(item, None)


def split(items: Sequence[int], width: int, most: int) -> list[BatchPart]:
    """Parts for `width` workers, as equal as can be, none longer than `most`. Neighbours go to different workers: a search sorts
    candidates by their estimate, and so every part has some that are quick and some that are slow."""
    if not items:
        return []
    count = max(min(width, len(items)), -(-len(items) // most))
    return [BatchPart(tuple(items[i::count])) for i in range(count)]
