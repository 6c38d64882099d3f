"""What a strategy searches: schedules, the legal steps between them, and the model's guess of each one's time.

A strategy sees only a `Space`. Behind it stands an `Engine`: the options package for a real kernel, a recorded file in a simulated search, a
synthetic cost function in tests. Besides appending (`Space.successors`) there are moves in the neighbourhood of a schedule (`neighbours`,
`mutate`): another amount, one option fewer, two options exchanged. They let a search leave a start schedule sideways."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from .. import opts
from ..ir.errors import OptError
from ..opts.actions import proposals
from ..opts.syntax import SYNTAX

if TYPE_CHECKING:
    from random import Random

    from ..ir.kernel import Kernel
    from ..opts.opt import Opt
    from ..targets import Target

    Schedule = tuple[Opt, ...]


ALLOWED = frozenset({"REASSOC"})
"""Effects a schedule may have unless the caller's policy says otherwise (DOWNCONVERT and NONDET are off)."""


class Applied(Protocol):
    """What `Engine.apply` returns: a legal schedule of the kernel."""

    @property
    def hash(self) -> str: ...

    @property
    def effects(self) -> frozenset[str]: ...


class TemplateLike(Protocol):
    """A parameterised schedule: named choices and the function that makes the option list."""

    @property
    def name(self) -> str: ...

    @property
    def params(self) -> Mapping[str, tuple[Any, ...]]: ...

    @property
    def make(self) -> Callable[[dict[str, Any]], Schedule]: ...


class Engine(Protocol):
    """What a search needs to know about a kernel on a target. `Space` calls it, and remembers the answers."""

    def starts(self) -> Sequence[Schedule]:
        """Start schedules, best guess first; some may be illegal."""
        ...

    def apply(self, opts: Schedule) -> Any:
        """The schedule applied, which has a `hash` and `effects` (`Applied`). Raises OptError where it is illegal."""
        ...

    def actions(self, applied: Any) -> Sequence[Schedule]:
        """What may be appended; may hold some that turn out illegal (checking all of them is most of a search's own time)."""
        ...

    def estimate(self, applied: Any) -> float:
        """The model's time, in seconds."""
        ...

    def code_size(self, applied: Any) -> float:
        """About how many instructions it writes, 0 where that is not known: long code is built late."""
        ...

    def templates(self) -> Sequence[Any]:
        """Parameterised schedules (`TemplateLike`)."""
        ...


class State:
    """A legal schedule: its options, and the hash that two equal schedules share."""

    __slots__ = ("_ask", "_estimate", "hash", "opts")

    def __init__(self, opts: Schedule, hash: str, ask: Callable[[Schedule], float]) -> None:
        """`ask` gives the model's time of a schedule, in seconds."""
        self.opts, self.hash, self._ask = opts, hash, ask
        self._estimate: float | None = None

    @property
    def estimate(self) -> float:
        """The model's time in seconds. It is asked when somebody wants to know: most states are only passed on the way to
        others, and asking takes longer than applying the options."""
        if self._estimate is None:
            self._estimate = float(self._ask(self.opts))
        return self._estimate

    @property
    def skeleton(self) -> tuple[tuple[str, str], ...]:
        """The schedule without its amounts and its order: states alike but for numbers share it."""
        return tuple(sorted((o.op, str(o.on)) for o in self.opts))


class Space:
    """A memoising view of an engine. Every method is pure; illegal schedules are `None`, never an exception."""

    def __init__(self, engine: Engine, allowed: frozenset[str] = ALLOWED) -> None:
        self.engine = engine
        self.allowed = allowed
        self._states: dict[Schedule, State | None] = {}
        self._actions: dict[str, list[Schedule]] = {}
        self._reasons: dict[Schedule, str] = {}
        self._starts: list[Schedule] | None = None

    def starts(self) -> list[Schedule]:
        """Legal start schedules, best guess first; the empty schedule where there is no other."""
        if self._starts is None:
            found = [tuple(s) for s in self.engine.starts()]
            self._starts = [s for s in dict.fromkeys(found) if self.state(s) is not None] or [()]
        return list(self._starts)

    def state(self, opts: Schedule) -> State | None:
        """The schedule's state, or None when it is illegal or has an effect that the policy forbids."""
        opts = tuple(opts)
        if opts in self._states:
            return self._states[opts]
        found: State | None = None
        try:
            applied = self.engine.apply(opts)
            forbidden = frozenset(applied.effects) - self.allowed
            if forbidden:
                raise OptError(f"the numerics policy does not allow {', '.join(sorted(forbidden))}")
            found = State(opts, applied.hash, self._estimated)
        except OptError as e:
            self._reasons[opts] = str(e)
        self._states[opts] = found
        return found

    def _estimated(self, opts: Schedule) -> float:
        return self.engine.estimate(self.engine.apply(opts))

    def code_size(self, opts: Schedule) -> float:
        """About how many instructions a legal schedule writes, 0 where the engine cannot say."""
        return self.engine.code_size(self.engine.apply(opts))

    def reason(self, opts: Schedule) -> str:
        """Why `state(opts)` is None."""
        return self._reasons.get(tuple(opts), "")

    def actions(self, state: State) -> list[Schedule]:
        """Option lists to append to a state (a macro move has several options). Some may be illegal: ask `state`."""
        found = self._actions.get(state.hash)
        if found is None:
            found = [tuple(a) for a in self.engine.actions(self.engine.apply(state.opts))]
            self._actions[state.hash] = found
        return found

    def successors(self, state: State) -> Iterator[State]:
        """Legal states one action away, without repetitions of the state itself."""
        for action in self.actions(state):
            nxt = self.state(state.opts + action)
            if nxt is not None and nxt.hash != state.hash:
                yield nxt

    def legalise(self, opts: Sequence[Opt]) -> State | None:
        """The state left when every option that is illegal at its turn is dropped (crossover makes such lists)."""
        whole = self.state(tuple(opts))
        if whole is not None:
            return whole
        kept: Schedule = ()
        waiting: Schedule = ()  # what stands at the front may be legal together only: block sizes that a writer decided
        for o in opts:
            if self.state((*kept, o)) is not None:
                kept = (*kept, o)
            elif not kept:
                waiting = (*waiting, o)
                if self.state(waiting) is not None:
                    kept = waiting
        return self.state(kept)

    def templates(self) -> list[TemplateLike]:
        """Parameterised schedules for samplers over named choices."""
        return list(self.engine.templates())

    def instance(self, template: TemplateLike, params: dict[str, Any]) -> Schedule | None:
        """The template's schedule for these choices when it is legal, else None."""
        try:
            opts = tuple(template.make(params))
        except OptError:
            return None
        return opts if self.state(opts) is not None else None


class OptEngine:
    """The options package as an engine: one kernel on one target with a number of threads."""

    def __init__(self, kernel: Kernel, target: Target, threads: int, limits: Any = None, allowed: frozenset[str] = ALLOWED) -> None:
        self.kernel, self.target, self.threads, self.limits, self.allowed = kernel, target, threads, limits, allowed

    def starts(self) -> Sequence[Schedule]:
        from .. import heuristics

        return heuristics.starts(self.kernel, self.target, self.threads, self.allowed)

    def apply(self, schedule: Schedule) -> Any:
        return opts.apply_cached(self.kernel, tuple(schedule), self.target)

    def actions(self, applied: Any) -> Sequence[Schedule]:
        return proposals(applied)

    def estimate(self, applied: Any) -> float:
        from .. import heuristics

        return heuristics.estimate(applied, self.threads, self.limits)

    def code_size(self, applied: Any) -> float:
        from .. import heuristics

        return heuristics.code_size(applied)

    def templates(self) -> Sequence[Any]:
        from .. import heuristics

        return heuristics.templates(self.kernel, self.target, self.threads, self.allowed)


AMOUNTS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 48, 64, 80, 96, 112, 128, 192, 224, 256, 384, 512, 768, 1024, 2048, 4096)
"""Amounts worth trying for a split: small register tiles densely, cache blocks coarsely."""


def amounts(n: int, reach: int = 2) -> list[int]:
    """Up to `reach` ladder steps below and above `n`, and its half and double, nearest first, without `n`."""
    below = [a for a in AMOUNTS if a < n][-reach:][::-1]
    above = [a for a in AMOUNTS if a > n][:reach]
    out: list[int] = []
    for i in range(reach):
        out += above[i : i + 1] + below[i : i + 1]
    for a in (2 * n, n // 2):
        if a >= 1 and a != n and a not in out:
            out.append(a)
    return out


def variants(opt: Opt, places: Collection[str] = (), reach: int = 2) -> Iterator[Opt]:
    """The option with another amount, or with one field changed; `places` are loops that its fields may name."""
    if isinstance(opt.arg, int):
        for a in amounts(opt.arg, reach):
            yield dataclasses.replace(opt, arg=a)
    elif isinstance(opt.arg, tuple):
        fields, syntax = opt.fields, SYNTAX[opt.op]
        for field, value in fields.items():
            for choice in places if field in syntax.loop_fields else syntax.choices.get(field, ()):
                if choice not in (value, opt.on):
                    yield dataclasses.replace(opt, arg=tuple({**fields, field: choice}.items()))


def places(opts: Schedule) -> list[str]:
    """The axes and loops that a list mentions, each once, in order."""
    seen: dict[str, None] = {}
    for o in opts:
        if SYNTAX[o.op].names(o.fields) != "tensor":
            seen.setdefault(o.on)
        if isinstance(o.arg, tuple):
            for field, value in o.arg:
                if field in SYNTAX[o.op].loop_fields:
                    seen.setdefault(str(value))
    return list(seen)


def neighbours(opts: Schedule, reach: int = 2) -> Iterator[tuple[str, Schedule]]:
    """(kind of move, new list) for every neighbourhood move; nothing here is checked for legality."""
    named = places(opts)
    for i, o in enumerate(opts):
        for v in variants(o, named, reach):
            yield f"amount {o.op} {o.on}", (*opts[:i], v, *opts[i + 1 :])
    for i, o in enumerate(opts):
        yield f"drop {o.op} {o.on}", (*opts[:i], *opts[i + 1 :])
    for i in range(len(opts) - 1):
        yield "swap", (*opts[:i], opts[i + 1], opts[i], *opts[i + 2 :])
    for i, a in enumerate(opts):
        for j in range(i + 1, len(opts)):
            b = opts[j]
            # the same kind of option on two axes: exchange the amounts (an 8x4 register tile becomes 4x8)
            if a.op == b.op and a.on != b.on and a.arg != b.arg and isinstance(a.arg, int) and isinstance(b.arg, int):
                pair = list(opts)
                pair[i], pair[j] = dataclasses.replace(a, arg=b.arg), dataclasses.replace(b, arg=a.arg)
                yield f"exchange {a.op}", tuple(pair)


def mutate(space: Space, state: State, rng: Random, tries: int = 8) -> State | None:
    """A random legal state near `state`: one neighbourhood move, or one action appended or put in somewhere earlier."""
    for _ in range(tries):
        if not state.opts or rng.random() < 0.35:
            actions = space.actions(state)
            if actions:
                action = rng.choice(actions)
                cut = rng.randrange(len(state.opts) + 1) if rng.random() < 0.3 else len(state.opts)
                nxt = space.state((*state.opts[:cut], *action, *state.opts[cut:]))
                if nxt is not None and nxt.hash != state.hash:
                    return nxt
        if state.opts:
            _, opts = rng.choice(list(neighbours(state.opts, reach=3)))
            nxt = space.legalise(opts)
            if nxt is not None and nxt.hash != state.hash:
                return nxt
    return None
