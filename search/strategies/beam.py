"""Beam search over the action space, guided by the analytic model and corrected by what was measured.

Unlike a beam that keeps the k best of each generation and stops at the first without a gain, this one
  * keeps every measured schedule; the beam is the best `width` of them that still have something to try, so
    incumbents stay, a schedule that is used up makes room for the next best, and a plateau is walked along until it
    ends;
  * penalises schedules of one skeleton (same options, other amounts), after Adams et al., "Learning to Optimize Halide with Tree Search and
    Random Programs" (SIGGRAPH 2019), so that the beam does not fill with copies of one idea;
  * ranks all successors before anything is built: parent's measured time x (model of child / model of parent) x what
    this kind of move turned out to be worth beyond the model so far;
  * looks two steps ahead by the model where one step does not pay (macro moves), and starts with a draft by the model alone: what is one step away
    from the first start schedules, or a beam from the empty schedule where there are none, since single steps from there say little;
  * moves sideways too (`space.neighbours`), which is how a good start schedule is improved.

A draft depends on nothing that was measured. So two searches of one kernel try the same schedules first.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar

from ...opts.registry import OPTIONS
from ..space import neighbours
from ..strategy import Measured, Strategy, seconds

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from ..space import Schedule, Space, State

DRAFT = 4
"""Schedules a draft goes on from: at each length, or start schedules."""
NEAR, NEAR_LOOKS = 16, 160
"""Schedules of a draft near start schedules, and those that are estimated for it."""
LOOK = 12
"""Moves of a schedule looked at in one go."""
STALE = 24
"""Tells without a gain after which the best schedule gets macro moves."""


@dataclass(slots=True)
class BeamNode:
    """A measured schedule. `moves` (None until it is expanded) are those not looked at yet, the most promising kind
    last; `children` are legal schedules with the model's opinion, waiting to be asked for."""

    state: State
    seconds: float
    moves: list[tuple[str, Schedule]] | None = None
    children: dict[str, Child] = field(default_factory=dict)
    looked_at: int = 0
    macros: bool = False

    @property
    def used_up(self) -> bool:
        return self.moves is not None and not self.moves and not self.children


@dataclass(frozen=True, slots=True)
class Child:
    """A schedule reached from a measured one: the kind of move and the model's ratio to its parent."""

    state: State
    kind: str
    ratio: float


class Beam(Strategy):
    """See the module's text. `width`: schedules that offer children at a time; `effort`: schedules applied and
    estimated for each one that is asked for (a few milliseconds each, which is what limits how many are ranked);
    `depth`: longest draft in actions; `surprise`: share of random choices."""

    name: ClassVar[str] = "beam"

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        start: Sequence[Schedule] = (),
        width: int = 6,
        effort: int = 4,
        depth: int = 10,
        surprise: float = 0.08,
    ) -> None:
        super().__init__(space, seed=seed, start=start)
        self._rng = Random(f"beam {seed}")
        self._width, self._effort, self._depth, self._surprise = width, effort, depth, surprise
        self._nodes: dict[str, BeamNode] = {}
        self._visited: set[str] = set()
        self._predicted: dict[str, tuple[str, float]] = {}
        self._worth: dict[str, tuple[float, int]] = {}
        self._skeletons: dict[str, tuple[tuple[str, str], ...]] = {}
        self._drafts: list[State] | None = None
        self._best = math.inf
        self._stale = 0

    def drafts(self, n: int) -> list[Schedule]:
        """Up to `n` of the draft that were not asked for yet."""
        if self._drafts is None:
            self._drafts = self._near_starts() if any(self.start) else self._from_nothing()
        out: list[Schedule] = []
        while self._drafts and len(out) < n:
            state = self._drafts.pop(0)
            if state.hash not in self._visited:
                self._visited.add(state.hash)
                out.append(state.opts)
        return out

    def ask(self, n: int) -> list[Schedule]:
        effort = self._effort * n + 8
        out = self.drafts(n)
        if self._stale >= STALE:
            self._stale = 0
            self._look_further()
        while len(out) < n:
            beam = self._beam()
            while effort > 0 and (node := self._least_known(beam)) is not None:
                effort -= self._look(node, min(effort, LOOK))
            child = self._choose(beam)
            if child is not None:
                self._visited.add(child.state.hash)
                out.append(child.state.opts)
            elif self._least_known(beam) is not None:
                effort = LOOK  # nothing legal and new so far: look on, for that is what asking is for
            elif not self._look_further():
                break
        return out

    def tell(self, opts: Schedule, measurement: Measured) -> None:
        state = self.space.state(opts)
        if state is None:
            return
        self._visited.add(state.hash)
        t = seconds(measurement)
        kind, predicted = self._predicted.pop(state.hash, ("", 0.0))
        if kind and predicted > 0:
            # a failure counts as four times slower than predicted: that kind of move goes to the back of the queue, not away
            said = math.log(min(t / predicted, 4.0)) if t < math.inf else math.log(4.0)
            total, count = self._worth.get(kind, (0.0, 0))
            self._worth[kind] = (total + said, count + 1)
        self._stale = 0 if t < 0.99 * self._best else self._stale + 1
        self._best = min(self._best, t)
        if t < math.inf:
            known = self._nodes.get(state.hash)
            if known is None:
                self._nodes[state.hash] = BeamNode(state, t)
                self._skeletons[state.hash] = state.skeleton
            else:
                known.seconds = min(known.seconds, t)

    @property
    def done(self) -> bool:
        return self._drafts == [] and bool(self._nodes) and all(n.used_up and n.macros for n in self._nodes.values())

    def _beam(self) -> list[BeamNode]:
        """The best `width` measured schedules that are not used up; one of a skeleton already in the beam counts 7 % slower for each."""
        open_nodes = sorted((x for x in self._nodes.values() if not x.used_up), key=lambda x: (x.seconds, -len(x.state.opts)))
        seen: dict[tuple[tuple[str, str], ...], int] = {}
        ranked: list[tuple[float, int, BeamNode]] = []
        for i, node in enumerate(open_nodes[: 8 * self._width]):
            skeleton = self._skeletons[node.state.hash]
            count = seen.get(skeleton, 0)
            seen[skeleton] = count + 1
            ranked.append((node.seconds * (1 + 0.07 * count), i, node))
        return [node for _, _, node in sorted(ranked, key=lambda r: r[:2])[: self._width]]

    def _least_known(self, beam: Sequence[BeamNode]) -> BeamNode | None:
        """The next node to look at: all of the beam in turn, better ones sooner."""
        todo = [(x.looked_at * x.seconds, i, x) for i, x in enumerate(beam) if x.moves is None or x.moves]
        return min(todo)[2] if todo else None

    def _look(self, node: BeamNode, count: int) -> int:
        """Apply and estimate up to `count` of a node's moves; returns how many."""
        if node.moves is None:
            node.moves = sorted(self._steps(node.state), key=lambda m: -self._bias(m[0]))
        done = 0
        while node.moves and done < count:
            kind, opts = node.moves.pop()
            self._offer(node, opts, kind)
            done += 1
        node.looked_at += done
        return max(done, 1)

    def _steps(self, state: State) -> list[tuple[str, Schedule]]:
        """(kind of move, schedule) of all single steps from a schedule, in no order."""
        steps = [(f"add {a[0].op} {a[0].on}", state.opts + a) for a in self.space.actions(state)]
        steps += neighbours(state.opts)
        self._rng.shuffle(steps)
        return steps

    def _offer(self, node: BeamNode, opts: Schedule, kind: str) -> None:
        state = self.space.state(opts)
        if state is not None and state.hash != node.state.hash and state.hash not in self._visited and state.hash not in node.children:
            node.children[state.hash] = Child(state, kind, state.estimate / max(node.state.estimate, 1e-12))

    def _bias(self, kind: str) -> float:
        """Logarithm of what a kind of move turned out to be worth beyond the model, shrunk towards 0; those never
        tried get the benefit of the doubt."""
        total, count = self._worth.get(kind, (0.0, 0))
        return total / (count + 2) - 0.05 / (count + 1)

    def _choose(self, beam: Sequence[BeamNode]) -> Child | None:
        """The most promising child of these nodes (sometimes a random one), taken from its parent."""
        offers: list[tuple[float, int, str]] = []
        for i, node in enumerate(beam):
            for h in [h for h in node.children if h in self._visited]:
                del node.children[h]
            # the model is trusted in direction more than in size: what it predicts is halved in the logarithm
            offers += [(node.seconds * math.sqrt(c.ratio) * math.exp(self._bias(c.kind)), i, h) for h, c in node.children.items()]
        if not offers:
            return None
        predicted, i, h = self._rng.choice(offers) if self._rng.random() < self._surprise else min(offers)
        child = beam[i].children.pop(h)
        self._predicted[h] = (child.kind, predicted)
        return child

    def _look_further(self) -> bool:
        """Macro moves: give the best schedule without them its two-step successors, by way of the model's favourites among the untried
        first ones. False when every schedule has them."""
        without = [x for x in self._nodes.values() if not x.macros]
        if not without:
            return False
        node = min(without, key=lambda x: x.seconds)
        node.macros = True
        if node.moves is None:
            self._look(node, LOOK)
        for first in sorted((c.state for c in node.children.values()), key=lambda s: s.estimate)[: self._width]:
            assert node.moves is not None
            node.moves += [(f"macro {a[0].op}", first.opts + a) for a in self.space.actions(first)]
        return True

    def _near_starts(self) -> list[State]:
        """What the model likes best among single steps from the first start schedules, each of which has its turn."""
        starts = [s for s in map(self.space.state, self.start) if s is not None]
        seen = {s.hash for s in starts}
        steps = [self._steps(s) for s in starts[:DRAFT]]
        found: dict[str, State] = {}
        for _, opts in islice((x for turn in zip_longest(*steps) for x in turn if x is not None), NEAR_LOOKS):
            s = self.space.state(opts)
            if s is not None and s.hash not in seen:
                found.setdefault(s.hash, s)
        return self._drafted(found.values(), NEAR)

    def _from_nothing(self) -> list[State]:
        """A beam by the model alone from the empty schedule: the most promising of all that it has seen."""
        level = [s for s in (self.space.state(()),) if s is not None]
        seen: dict[str, State] = {s.hash: s for s in level}
        lowest, idle = math.inf, 0
        for _ in range(self._depth):
            nxt = {s.hash: s for state in level for s in self.space.successors(state) if s.hash not in seen}
            level = _diverse(nxt.values(), DRAFT, alike=2)
            seen |= nxt
            idle = idle + 1 if not level or level[0].estimate > 0.99 * lowest else 0
            lowest = min(lowest, level[0].estimate if level else math.inf)
            if idle == 2:
                break
        return self._drafted([s for s in seen.values() if s.hash not in self._visited], 4 * self._width)

    @staticmethod
    def _drafted(seen: Collection[State], most: int) -> list[State]:
        """The most promising of those seen. The model cannot tell schedules of one estimate apart: the shortest stands for all, the others are a step
        away from it. Where it can tell none apart it says nothing, and each skeleton stands for itself."""
        blind = len({f"{s.estimate:.4g}" for s in seen}) == 1
        distinct: dict[Any, State] = {}
        for s in sorted(seen, key=lambda s: len(s.opts)):
            distinct.setdefault(s.skeleton if blind else f"{s.estimate:.4g}", s)
        return _diverse(distinct.values(), most, alike=3)


def _diverse(states: Iterable[State], most: int, alike: int) -> list[State]:
    """The states with the lowest estimates, at most `alike` of one skeleton, and of one register tile (which decides
    most, and which a model gets wrong for all of them at once)."""
    count: Counter[tuple[Any, ...]] = Counter()
    out: list[State] = []
    for s in sorted(states, key=lambda s: s.estimate):
        tile = tuple(sorted((o.op, o.on, o.arg) for o in s.opts if OPTIONS[o.op].kind in ("upcast", "unroll")))
        if count["skeleton", s.skeleton] < alike and count["tile", tile] < alike:
            count["skeleton", s.skeleton] += 1
            count["tile", tile] += 1
            out.append(s)
            if len(out) == most:
                break
    return out
