"""Which schedules are chosen from a table of costs, and the tree that deals them out."""

import math
import random

import pytest
from tilewright.cache.size_tree import SizeTest, parse_tree, tree_of
from tilewright.opts.opt import opt
from tilewright.search.shapes.sized import chosen, grown

INF = math.inf


def test_the_fewest_schedules_that_cost_nothing() -> None:
    costs = [[0, 1, 0.1], [0, 1, 0.1], [1, 0, 0.1], [1, 0, 0.1]]
    assert sorted(chosen(costs, [1] * 4, 4, False)) == [0, 1]
    assert chosen(costs, [1] * 4, 1, False) == [2]


def test_weights_and_the_worst_shape() -> None:
    costs = [[0, 0.3], [0, 0.3], [0, 0.3], [1, 0.3]]
    assert chosen(costs, [1] * 4, 1, False) == [0]
    assert chosen(costs, [1, 1, 1, 9], 1, False) == [1]
    assert chosen(costs, [1] * 4, 1, True) == [1]


def test_what_does_not_work_somewhere_is_not_alone() -> None:
    costs = [[0, 0.5], [INF, 0.5]]
    assert chosen(costs, [1, 1], 1, False) == [1] and sorted(chosen(costs, [1, 1], 2, False)) == [0, 1]


@pytest.mark.parametrize("worst", [False, True])
@pytest.mark.parametrize(("names", "limit"), [(("m",), 32), (("n",), 100), (("m", "n"), 4096)])
def test_a_tree_finds_the_test_that_costs_follow(names: tuple[str, ...], limit: int, worst: bool) -> None:
    sizes = [{"m": 2**a, "n": 3 * 2**b} for a in range(11) for b in range(9)]
    small = [math.prod(s[n] for n in names) <= limit for s in sizes]
    costs = [[0.0, 0.4] if low else [0.4, 0.0] for low in small]
    tree = tree_of(
        {"m": (1, 1024), "n": (3, 768)}, grown(sizes, costs, [1.0] * len(sizes), worst), [(opt("UPCAST", "m", n),) for n in (2, 4)]
    )
    assert isinstance(tree.root, SizeTest) and tree.root.names == names and not isinstance(tree.root.low, SizeTest)
    assert [tree.schedules[tree.at(s)] == (opt("UPCAST", "m", 2),) for s in sizes] == small
    assert parse_tree(tree.lines()) == tree


def test_two_tests_of_which_one_alone_gains_nothing() -> None:
    sizes = [{"m": 2**a, "n": 2**b} for a in range(8) for b in range(8)]
    costs = [[0.0, 0.4] if (s["m"] > 8) == (s["n"] > 8) else [0.4, 0.0] for s in sizes]
    tree = tree_of({"m": (1, 128), "n": (1, 128)}, grown(sizes, costs, [1.0] * 64, False), [(opt("UPCAST", "m", n),) for n in (2, 4)])
    assert sum(c[[2, 4].index(tree.schedules[tree.at(s)][0].amount)] for s, c in zip(sizes, costs, strict=True)) / 64 < 0.08, (
        "one leaf costs 0.2"
    )


def test_noise_is_not_worth_a_test() -> None:
    sizes = [{"m": 2**a} for a in range(10)]
    assert grown(sizes, [[0.0005 * (a % 2), 0.0005 * (1 - a % 2)] for a in range(10)], [1.0] * 10, False) in (0, 1)


def test_no_test_says_what_the_one_inside_it_says() -> None:
    """Tests of the same sizes one in the other, with the same schedule on the outer sides, are one."""

    def needless(branch: object) -> bool:
        if not isinstance(branch, SizeTest):
            return False
        low, high = branch.low, branch.high
        inner = isinstance(low, SizeTest) and low.names == branch.names and low.high == high
        inner |= isinstance(high, SizeTest) and high.names == branch.names and high.low == low
        return inner or needless(low) or needless(high)

    rng = random.Random(0)
    for _ in range(12):
        sizes = [{"m": rng.randint(1, 400), "n": rng.randint(1, 400)} for _ in range(24)]
        costs = [[0.0, rng.choice([0.0, 0.2])] if s["n"] > 40 else [rng.random(), rng.random()] for s in sizes]
        assert not needless(grown(sizes, costs, [1.0] * len(sizes), False))
