"""Beam search over the action space, guided by the analytic model and corrected by what was measured.

Unlike a beam that keeps the k best of each generation and stops at the first without a gain, this one
  * keeps every measured schedule; the beam is the best `width` of them that still have something to try, so incumbents stay, a schedule that
    is used up makes room for the next best, and a plateau is walked along until it ends;
  * penalises schedules of one skeleton (same options, other amounts), after Adams et al., "Learning to Optimize Halide with Tree Search and
    Random Programs" (SIGGRAPH 2019), so that the beam does not fill with copies of one idea;
  * ranks all successors before anything is built: parent's measured time x (model of child / model of parent) x what this kind of move turned
    out to be worth beyond the model so far;
  * looks two steps ahead by the model where one step does not pay (macro moves), and starts with a draft: a beam by the model alone, from
    the empty schedule, since with no start schedules single steps from there say little;
  * moves sideways too (`moves.neighbours`), which is how a good start schedule is improved.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, ClassVar

from .moves import neighbours
from .strategy import Measured, Strategy, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .space import Schedule, Space, State

STALE = 24
"""Tells without a gain after which the best schedule gets macro moves."""


@dataclass(slots=True)
class Node:
    """A measured schedule; `children` is None until it is expanded, then what is left to try, best prediction last."""

    state: State
    seconds: float
    children: list[Child] | None = None
    macros: bool = False


@dataclass(frozen=True, slots=True)
class Child:
    """A schedule reached from a measured one: the kind of move and the model's ratio to its parent."""

    state: State
    kind: str
    ratio: float


class Beam(Strategy):
    """See the module's text. `width`: schedules that offer children at a time; `expansions`: how many may be expanded in one `ask` (each costs
    one `apply` and one estimate a child); `depth`: longest draft in actions."""

    name: ClassVar[str] = "beam"

    def __init__(
        self, space: Space, *, seed: int = 0, start: Sequence[Schedule] = (), width: int = 6, expansions: int = 2, depth: int = 12, surprise: float = 0.08
    ) -> None:
        super().__init__(space, seed=seed, start=start)
        self._rng = Random(f"beam {seed}")
        self._width, self._expansions, self._depth, self._surprise = width, expansions, depth, surprise
        self._nodes: dict[str, Node] = {}
        self._visited: set[str] = set()
        self._predicted: dict[str, tuple[str, float]] = {}
        self._worth: dict[str, tuple[float, int]] = {}
        self._skeletons: dict[str, tuple[tuple[str, str], ...]] = {}
        self._drafts: list[State] = []
        self._draft = self._drafting()
        self._drafted = False
        self._best = math.inf
        self._stale = 0

    def ask(self, n: int) -> list[Schedule]:
        self._advance_draft()
        out: list[State] = []
        # half of a batch at most is drafts once there are measured schedules to improve on
        drafts = n if not self._nodes else (n + 1) // 2
        while self._drafts and len(out) < drafts:
            self._take(self._drafts.pop(0), out)
        expanded = 0
        if self._stale >= STALE:
            self._stale = 0
            self._look_further()
        while len(out) < n:
            beam = self._beam()
            fresh = next((x for x in beam if x.children is None), None)
            child = None
            if fresh is None or expanded >= self._expansions:
                child = self._choose([x for x in beam if x.children])
            if child is not None:
                self._take(child.state, out)
            elif fresh is not None:
                self._expand(fresh)
                expanded += 1
            elif not self._look_further():
                break
        return [s.opts for s in out]

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
                self._nodes[state.hash] = Node(state, t)
                self._skeletons[state.hash] = state.skeleton
            else:
                known.seconds = min(known.seconds, t)

    @property
    def done(self) -> bool:
        return self._drafted and not self._drafts and bool(self._nodes) and all(n.children == [] and n.macros for n in self._nodes.values())

    def _take(self, state: State, out: list[State]) -> None:
        if state.hash not in self._visited:
            self._visited.add(state.hash)
            out.append(state)

    def _beam(self) -> list[Node]:
        """The best `width` measured schedules that are not used up; one of a skeleton already in the beam counts 7 % slower for each."""
        open_nodes = sorted((x for x in self._nodes.values() if x.children is None or x.children), key=lambda x: (x.seconds, -len(x.state.opts)))
        seen: dict[tuple[tuple[str, str], ...], int] = {}
        ranked: list[tuple[float, int, Node]] = []
        for i, node in enumerate(open_nodes[: 8 * self._width]):
            skeleton = self._skeletons[node.state.hash]
            count = seen.get(skeleton, 0)
            seen[skeleton] = count + 1
            ranked.append((node.seconds * (1 + 0.07 * count), i, node))
        return [node for _, _, node in sorted(ranked, key=lambda r: r[:2])[: self._width]]

    def _expand(self, node: Node) -> None:
        children: dict[str, Child] = {}
        for action in self.space.actions(node.state):
            self._offer(children, node, node.state.opts + action, f"add {action[0].op} {action[0].on}")
        for kind, opts in neighbours(node.state.opts):
            self._offer(children, node, opts, kind)
        node.children = list(children.values())

    def _offer(self, children: dict[str, Child], node: Node, opts: Schedule, kind: str) -> None:
        state = self.space.state(opts)
        if state is not None and state.hash != node.state.hash and state.hash not in self._visited and state.hash not in children:
            children[state.hash] = Child(state, kind, state.estimate / max(node.state.estimate, 1e-12))

    def _predict(self, node: Node, child: Child) -> float:
        """Seconds expected of a child; kinds of moves never tried get the benefit of the doubt."""
        total, count = self._worth.get(child.kind, (0.0, 0))
        # the model is trusted in direction more than in size: a predicted gain is halved in the logarithm
        return node.seconds * math.sqrt(child.ratio) * math.exp(total / (count + 2) - 0.05 / (count + 1))

    def _choose(self, nodes: Sequence[Node]) -> Child | None:
        """The most promising child of these nodes (sometimes a random one), taken out of its parent's list."""
        for node in nodes:
            node.children = [c for c in node.children or () if c.state.hash not in self._visited]
        offers = [(self._predict(node, c), i, j) for i, node in enumerate(nodes) for j, c in enumerate(node.children or ())]
        if not offers:
            return None
        predicted, i, j = self._rng.choice(offers) if self._rng.random() < self._surprise else min(offers)
        left = nodes[i].children
        assert left is not None
        child = left.pop(j)
        self._predicted[child.state.hash] = (child.kind, predicted)
        return child

    def _look_further(self) -> bool:
        """Macro moves: give the best schedule without them its two-step successors, by way of the model's favourite first steps. False when
        every schedule has them."""
        without = [x for x in self._nodes.values() if not x.macros]
        if not without:
            return False
        node = min(without, key=lambda x: x.seconds)
        node.macros = True
        if node.children is None:
            self._expand(node)
        found: dict[str, Child] = {c.state.hash: c for c in node.children or ()}
        firsts = sorted(self.space.successors(node.state), key=lambda s: s.estimate)[: self._width]
        for first in firsts:
            for action in self.space.actions(first):
                self._offer(found, node, first.opts + action, f"macro {action[0].op}")
        node.children = list(found.values())
        return True

    def _drafting(self) -> Iterator[None]:
        """A beam by the model alone from the empty schedule (and the start schedules); yields after each expansion. What it leaves in `_drafts` are
        the schedules it found, best estimate first."""
        level = [s for s in (self.space.state(o) for o in [(), *self.start[:1]]) if s is not None]
        best: dict[str, State] = {s.hash: s for s in level}
        for _ in range(self._depth):
            nxt: dict[str, State] = {}
            for state in level:
                for s in self.space.successors(state):
                    if s.hash not in best:
                        nxt[s.hash] = s
                yield
            if not nxt:
                break
            ranked = sorted(nxt.values(), key=lambda s: s.estimate)
            per_skeleton: dict[tuple[tuple[str, str], ...], int] = {}
            level = []
            for s in ranked:
                count = per_skeleton.get(s.skeleton, 0)
                if count < 2 and len(level) < self._width:
                    per_skeleton[s.skeleton] = count + 1
                    level.append(s)
            best.update((s.hash, s) for s in level)
            self._drafts = sorted((s for s in best.values() if s.hash not in self._visited), key=lambda s: s.estimate)[: 4 * self._width]

    def _advance_draft(self) -> None:
        """A little of the draft in every ask; more of it where there is nothing else to go by."""
        for _ in range(self._expansions if self._nodes else 8 * self._expansions):
            if next(self._draft, True):
                self._drafted = True
                return
