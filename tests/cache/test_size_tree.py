"""Trees of sizes: their text, what they choose, and what is refused."""

from itertools import product

import pytest
from tilewright.cache.size_tree import SizeTest, SizeTree, parse_tree, tree_of
from tilewright.ir import CacheError
from tilewright.ir.index import bounds, function
from tilewright.opts.opt import opt

A, B, C = ((opt("UPCAST", "m", n),) for n in (2, 4, 8))
RANGES = {"m": (1, 9), "n": (3, 8)}
TREES = [
    tree_of(RANGES, 0, [A]),
    tree_of(RANGES, SizeTest(("m",), 4, 0, 1), [A, B]),
    tree_of(RANGES, SizeTest(("m", "n"), 24, SizeTest(("n",), 5, 2, 0), 1), [A, B, C]),
    tree_of(RANGES, SizeTest(("m", "n"), 24, 0, SizeTest(("m",), 7, 1, 0)), [A, B]),
]
SIZES = [dict(zip("mn", s, strict=True)) for s in product(range(1, 10), range(3, 9))]


@pytest.mark.parametrize("tree", TREES)
def test_text_gives_the_same_tree(tree: SizeTree) -> None:
    assert parse_tree(tree.lines()) == tree


@pytest.mark.parametrize("tree", TREES)
def test_the_index_of_a_schedule_is_one_where_it_is_chosen(tree: SizeTree) -> None:
    every = [tree.chosen(i) for i in range(len(tree.schedules))]
    chosen = function(every, ("m", "n"))
    for sizes in SIZES:
        assert list(chosen(*sizes.values())) == [int(i == tree.at(sizes)) for i in range(len(every))]
        assert all(lo <= value <= hi for value, (lo, hi) in zip(chosen(*sizes.values()), map(bounds, every), strict=True))


@pytest.mark.parametrize("tree", TREES)
def test_boxes_hold_all_sizes_of_a_schedule(tree: SizeTree) -> None:
    for sizes in SIZES:
        assert all(lo <= sizes[n] <= hi for n, (lo, hi) in tree.box(tree.at(sizes)).items())
    for i in range(len(tree.schedules)):
        mine = [s for s in SIZES if tree.at(s) == i]
        box = tree.box(i)
        assert all(lo >= RANGES[n][0] and hi <= RANGES[n][1] for n, (lo, hi) in box.items()) and mine


def test_equal_branches_are_one() -> None:
    tree = tree_of(RANGES, SizeTest(("m",), 4, SizeTest(("n",), 5, 0, 2), 1), [A, B, A])
    assert tree.schedules == (A, B) and tree.lines()[2:7] == ["if m <= 4", "  use A", "else", "  use B", "A = Um2"]


def test_sizes_outside_count_as_the_nearer_end() -> None:
    tree = TREES[1]
    assert tree.at({"m": 100, "n": 1}) == tree.at({"m": 9, "n": 3}) == 1
    assert tree.outside({"m": 100, "n": 1}) == ["m=100 is outside of 1..9 and counts as 9", "n=1 is outside of 3..8 and counts as 3"]
    assert not tree.outside({"m": 9, "n": 3})


GOOD = ["sizes m=1..9 n=3..8", "outside clamped", "if m <= 4", "  use A", "else", "  use B", "A = Um2", "B = Um4"]


@pytest.mark.parametrize(
    ("line", "text", "says"),
    [
        (1, "sizes", "begins with the ranges"),
        (1, "sizes m=9..1", "line 1: 'm=9..1' is no range"),
        (1, "sizes m=1..9 m=1..4", "no range of a size"),
        (2, "outside refused", "line 2: must be 'outside clamped'"),
        (3, "if z <= 4", "line 3: z must be a size"),
        (3, "if m*m <= 4", "different sizes"),
        (3, "if m <= 9", "line 3: m is from 1 to 9 here, so the test always has the same answer"),
        (3, "if m <= 0", "always has the same answer"),
        (3, "if m < 4", "neither a test"),
        (4, "use A", "line 4: must be indented by 2 spaces"),
        (4, "  use a", "neither a test"),
        (5, "  else", "line 5: must be the 'else'"),
        (7, "A: Um2", "line 7: must be the schedule A"),
        (7, "A = Qm2", "line 7:"),
        (8, None, "line 7: it ends here, and the schedule B is missing"),
        (9, "C = Um8", "line 9: nothing in the tree uses this line"),
    ],
)
def test_what_a_hand_got_wrong_is_named_with_its_line(line: int, text: str | None, says: str) -> None:
    lines = [*GOOD[: line - 1], *([] if text is None else [text]), *GOOD[line:]]
    with pytest.raises(CacheError, match=says.replace("*", r"\*")):
        parse_tree(lines)


def test_no_lines_at_all() -> None:
    for bad in (None, "sizes m=1..4", [1, 2], []):
        with pytest.raises(CacheError, match="the tree of sizes"):
            parse_tree(bad)
