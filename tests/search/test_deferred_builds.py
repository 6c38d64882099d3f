"""Long code comes last: what is put off, what never is, what the builds teach, and that all of it is built in the end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from synthetic import Matmulish
from test_tuning_run import Bench, Scripted
from tilewright.opts.opt import Opt, opt
from tilewright.search import Budget, Start
from tilewright.search.space import State
from tilewright.search.tuning_run import BUILD_SHARE, GROWTH, PRIOR_S, DeferredBuilds

Schedule = tuple[Opt, ...]


def wide(n: int) -> Schedule:
    """A schedule of which the code is n long."""
    return (opt("UPCAST", "n", n),)


def state(n: int) -> State:
    return State(wide(n), str(n), lambda _: 1.0)


def deferred(seconds: float | None = 10.0) -> DeferredBuilds:
    space: Any = SimpleNamespace(code_size=lambda opts: float(opts[0].amount))
    return DeferredBuilds(space, seconds)


def most(seconds: float) -> int:
    """The longest code that is built at once before anything was built."""
    return int(BUILD_SHARE * seconds / PRIOR_S)


def lengths(states: list[State]) -> list[int]:
    return [s.opts[0].amount for s in states]


class Queue:
    """A pipeline that keeps what it is given."""

    def __init__(self) -> None:
        self.taken: list[int] = []

    def submit(self, schedules: list[Schedule]) -> None:
        self.taken += [o[0].amount for o in schedules]


def built(seconds: float, cached: bool = False) -> Any:
    return SimpleNamespace(lower_s=seconds / 2, render_s=0.0, build_s=0.0 if cached else seconds / 2)


def test_long_code_is_put_off_and_comes_back_shortest_first() -> None:
    limit, later = most(10.0), deferred()
    long = [state(limit * k) for k in (5, 2, 3)]
    assert lengths(later.sift([state(limit), long[0], state(1), *long[1:]])) == [limit, 1], "the others keep their order"
    queue: Any = Queue()
    assert later.resume(queue, 2) and queue.taken == [2 * limit, 3 * limit]
    assert later.resume(queue, 2) and queue.taken[2:] == [5 * limit]
    assert not later.resume(queue, 2)


def test_what_is_used_without_tuning_and_what_is_like_the_best_is_built_at_once() -> None:
    limit, later = most(10.0), deferred()
    assert lengths(later.sift([state(9 * limit)], keep={wide(9 * limit)})) == [9 * limit]
    near, far = int(GROWTH * 4 * limit), int(GROWTH * 4 * limit) + 1
    assert lengths(later.sift([state(near), state(far)], best=wide(4 * limit))) == [near]


def test_without_a_limit_on_seconds_nothing_is_put_off() -> None:
    later = deferred(None)
    assert lengths(later.sift([state(10**9)])) == [10**9]


def test_builds_teach_what_an_instruction_takes() -> None:
    limit, later = most(10.0), deferred()
    for n in range(1, 4):
        later.learn(wide(100 * n), built(4 * PRIOR_S * 100 * n))
    later.learn(wide(100), built(0.0, cached=True))  # from the store: says nothing
    assert lengths(later.sift([state(limit // 5), state(limit // 2)])) == [limit // 5]


def test_dear_builds_count_more_than_cheap_ones() -> None:
    limit, later = most(10.0), deferred()
    for n in range(1, 9):
        later.learn(wide(100), built((4 if n > 5 else 0.5) * PRIOR_S * 100))
    assert lengths(later.sift([state(limit // 5), state(limit // 2)])) == [limit // 5]


def test_a_search_builds_long_code_last_but_builds_it(monkeypatch: Any) -> None:
    length = {8: 1, 16: 10 * most(1000.0), 4: 1, 2: 1}
    monkeypatch.setattr(Matmulish, "code_size", lambda _, done: float(length[Matmulish._amount(done.opts, "n")]))
    for budget in (Budget(1000.0), Budget(None, 9)):
        b = Bench(budget, lambda s: Scripted(s, [wide(16), wide(4)], [wide(2)]))
        b.run.run()
        order = [Matmulish._amount(o, "n") for batch in b.batches for o in batch][:4]
        handed = [n for what, n in b.measurer.calls if what == "build"]
        assert set(order) == {8, 4, 2, 16} and (order[-1] == 16 or not budget.seconds)
        assert handed == ([1, 2, 1] if budget.seconds else [1, 3]), "it waits only where seconds are limited"


def test_a_strategy_that_has_a_shorter_idea_is_asked_before_long_code_is_built(monkeypatch: Any) -> None:
    length = {8: 1, 16: 10 * most(1000.0), 4: 1}
    monkeypatch.setattr(Matmulish, "code_size", lambda _, done: float(length[Matmulish._amount(done.opts, "n")]))
    b = Bench(Budget(1000.0), lambda s: Scripted(s, [wide(16)], [], [wide(4)], []))
    b.run.run()
    assert [Matmulish._amount(o, "n") for batch in b.batches for o in batch][:3] == [8, 4, 16]


def test_what_is_known_to_be_good_is_not_put_off(monkeypatch: Any) -> None:
    """Of a search that ends before its strategy has no more ideas: the schedule to start from, and what a cache remembers."""
    length = {8: 1, 16: 10 * most(1000.0), 4: 1}
    monkeypatch.setattr(Matmulish, "code_size", lambda _, done: float(length[Matmulish._amount(done.opts, "n")]))
    for origin, first in (("stored", {8, 16}), ("start", {8, 4})):
        b = Bench(Budget(1000.0), lambda s: Scripted(s, [wide(4)]))
        b.run.starts = [Start(wide(8)), Start(wide(16), origin)]
        b.run.run()
        assert {Matmulish._amount(o, "n") for o in [o for batch in b.batches for o in batch][:2]} == first


def test_long_code_does_not_count_as_nothing_new(monkeypatch: Any) -> None:
    """A strategy that asked for much that was put off, and then for nothing, is asked again."""
    length = {8: 1, 16: 10 * most(1000.0), 4: 1}
    monkeypatch.setattr(Matmulish, "code_size", lambda _, done: float(length[Matmulish._amount(done.opts, "n")]))
    b = Bench(Budget(1000.0), lambda s: Scripted(s, 300 * [wide(16)], [], [wide(4)], []))
    b.run.run()
    assert [Matmulish._amount(o, "n") for batch in b.batches for o in batch][:3] == [8, 16, 4]
