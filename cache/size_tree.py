"""A decision tree over the sizes of a kernel: which of a few schedules is for which sizes, as text that people read and review.

    sizes m=1..4096 n=64..4096
    outside clamped
    if m*n <= 65536
      use A
    else
      use B
    A = Um4 Un32
    B = Um8 Un32 Pm

Conditions compare a size, or a product of sizes, with a number. A size outside of its range counts as the end of the range that is nearer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from ..ir import index as ix
from ..ir.dtypes import index
from ..ir.errors import CacheError, OptError
from ..ir.node import Node, const, make, sym
from ..opts import Opt, parse, short

MOST = 64
"""Schedules that a tree may have."""
_DEEP = 32
_NAME, _RANGE = re.compile(r"[A-Z]+\Z"), re.compile(r"(\w+)=(\d+)\.\.(\d+)\Z")
_TEST = re.compile(r"if (\w+(?:\*\w+)*) <= (\d+)\Z")

Ranges = Mapping[str, tuple[int, int]]
"""The least and the largest value of each size, both included."""


@dataclass(frozen=True, slots=True)
class SizeTest:
    """Whether the product of some sizes is at most `limit`: then `low` has the schedule, else `high`."""

    names: tuple[str, ...]
    limit: int
    low: Branch
    high: Branch


Branch = SizeTest | int
"""A test, or the number of a schedule."""
Path = tuple[tuple[tuple[str, ...], int, bool], ...]
"""The tests on the way to a leaf: (sizes, limit, whether their product is at most that)."""


@dataclass(frozen=True)
class SizeTree:
    """`root`: the first test, or the only schedule. Every one of `schedules` is used."""

    ranges: Ranges
    root: Branch
    schedules: tuple[tuple[Opt, ...], ...]

    def at(self, sizes: Mapping[str, int]) -> int:
        """The number of the schedule for some sizes."""
        here = {n: min(max(sizes[n], lo), hi) for n, (lo, hi) in self.ranges.items()}
        branch = self.root
        while isinstance(branch, SizeTest):
            branch = branch.low if prod(here[n] for n in branch.names) <= branch.limit else branch.high
        return branch

    def outside(self, sizes: Mapping[str, int]) -> list[str]:
        """Which sizes are outside of their ranges, and what they count as."""
        return [
            f"{n}={sizes[n]} is outside of {lo}..{hi} and counts as {min(max(sizes[n], lo), hi)}"
            for n, (lo, hi) in self.ranges.items()
            if not lo <= sizes[n] <= hi
        ]

    def leaves(self) -> Iterator[tuple[int, Path]]:
        """Each leaf: the number of its schedule, and the tests on the way there."""
        yield from _leaves(self.root, ())

    def box(self, schedule: int) -> dict[str, tuple[int, int]]:
        """The least ranges of sizes that hold all for which there is this schedule."""
        found = [_narrowed(self.ranges, path) for leaf, path in self.leaves() if leaf == schedule]
        return {n: (min(b[n][0] for b in found), max(b[n][1] for b in found)) for n in self.ranges}

    def chosen(self, schedule: int) -> Node:
        """1 where the sizes, which are symbols of these names, have this schedule, else 0: an index."""
        total = const(0)
        for leaf, path in self.leaves():
            if leaf == schedule:
                factors = [_test_node(names, limit, low, self.ranges) for names, limit, low in path]
                total = ix.add(total, factors[0] if len(factors) == 1 else make("prod", index, tuple(factors)) if factors else const(1))
        return total

    def lines(self) -> list[str]:
        """The tree as text."""
        ranges = " ".join(f"{n}={lo}..{hi}" for n, (lo, hi) in self.ranges.items())
        named = [f"{name_of(i)} = {short(s)}" for i, s in enumerate(self.schedules)]
        return [f"sizes {ranges}", "outside clamped", *_branch_lines(self.root, ""), *named]


def parse_tree(lines: object, what: str = "the tree of sizes") -> SizeTree:
    """A tree from its lines. Raises CacheError that names the line."""
    if not isinstance(lines, (list, tuple)) or not all(isinstance(x, str) for x in lines):
        raise CacheError(f"{what}: must be a list of lines")
    return _TreeReader(lines, what).tree()


def check_trees(said: object, what: str) -> None:
    """Raise CacheError, which names the place, where the trees that a row holds are none."""
    if not isinstance(said, dict):
        raise CacheError(f"{what}: trees of sizes must be a JSON object")
    for which in ("exact", "symbolic"):
        if which in said:
            parse_tree(said[which], f"{what}, the {which} tree of sizes")


class _TreeReader:
    """Reads the lines one after the other."""

    def __init__(self, lines: Sequence[str], what: str) -> None:
        self.lines, self.what, self.next = lines, what, 0
        self.ranges: dict[str, tuple[int, int]] = {}
        self.used: dict[str, int] = {}

    def wrong(self, why: str) -> CacheError:
        """An error at the line that was read last."""
        return CacheError(f"{self.what}, line {max(1, self.next)}: {why}")

    def take(self, wanted: str) -> str:
        if self.next >= len(self.lines):
            self.next = len(self.lines)
            raise self.wrong(f"it ends here, and {wanted} is missing")
        self.next += 1
        return self.lines[self.next - 1]

    def tree(self) -> SizeTree:
        head, _, rest = self.take("'sizes m=1..4096'").partition(" ")
        for part in rest.split():
            found = _RANGE.match(part)
            if head != "sizes" or found is None or found[1] in self.ranges or not 1 <= int(found[2]) <= int(found[3]):
                raise self.wrong(f"{part!r} is no range of a size; write 'sizes m=1..4096 n=64..4096', each size once")
            self.ranges[found[1]] = int(found[2]), int(found[3])
        if not self.ranges:
            raise self.wrong("it begins with the ranges of its sizes, such as 'sizes m=1..4096 n=64..4096'")
        if self.take("'outside clamped'") != "outside clamped":
            raise self.wrong("must be 'outside clamped': what is outside of a range counts as its end")
        root = self.branch("", ())
        schedules = [self.schedule(name) for name in sorted(self.used, key=self.used.__getitem__)]
        if self.next < len(self.lines):
            self.next += 1
            raise self.wrong("nothing in the tree uses this line; each schedule that is used stands once, in the order of the first uses")
        return SizeTree(self.ranges, root, tuple(schedules))

    def branch(self, indent: str, path: Path) -> Branch:
        line = self.take("a test or a schedule")
        text = line.strip()
        if line != indent + text:
            raise self.wrong(f"must be indented by {len(indent)} spaces")
        if text.startswith("use ") and _NAME.match(text[4:]):
            if len(self.used) >= MOST and text[4:] not in self.used:
                raise self.wrong(f"a tree has at most {MOST} schedules")
            return self.used.setdefault(text[4:], len(self.used))
        found = _TEST.match(text)
        if found is None:
            raise self.wrong(f"{text!r} is neither a test such as 'if m*n <= 4096' nor a schedule such as 'use A'")
        names, limit = tuple(found[1].split("*")), int(found[2])
        for n in names:
            if n not in self.ranges or names.count(n) > 1:
                raise self.wrong(f"{found[1]} must be a size, or a product of different sizes ({', '.join(self.ranges)})")
        if len(path) >= _DEEP:
            raise self.wrong(f"tests are at most {_DEEP} deep")
        here = _narrowed(self.ranges, path)
        least, most = (prod(here[n][i] for n in names) for i in (0, 1))
        if not least <= limit < most:
            raise self.wrong(f"{found[1]} is from {least} to {most} here, so the test always has the same answer")
        low = self.branch(indent + "  ", (*path, (names, limit, True)))
        if self.take("'else'") != indent + "else":
            raise self.wrong("must be the 'else' of the test above, as far indented")
        return SizeTest(names, limit, low, self.branch(indent + "  ", (*path, (names, limit, False))))

    def schedule(self, name: str) -> tuple[Opt, ...]:
        head, equals, text = self.take(f"the schedule {name}").partition(" = ")
        if head != name or not equals:
            raise self.wrong(f"must be the schedule {name}, as in '{name} = Um4 Un32'")
        try:
            return tuple(parse(text))
        except OptError as e:
            raise self.wrong(f"{e}") from None


def by_letter(branch: Branch) -> Branch:
    """A branch whose schedules are numbered by their first uses."""
    order = {old: new for new, old in enumerate(dict.fromkeys(leaf for leaf, _ in _leaves(branch, ())))}
    return _mapped(branch, order.__getitem__)


def _mapped(branch: Branch, number: Callable[[int], int]) -> Branch:
    if not isinstance(branch, SizeTest):
        return number(branch)
    return SizeTest(branch.names, branch.limit, _mapped(branch.low, number), _mapped(branch.high, number))


def tree_of(ranges: Ranges, root: Branch, schedules: Sequence[tuple[Opt, ...]]) -> SizeTree:
    """A tree of those of `schedules` that are used, equal ones once; a test whose branches are the same schedule is none."""
    first = {s: i for i, s in reversed(list(enumerate(schedules)))}
    root = _simpler(_mapped(root, lambda i: first[schedules[i]]))
    used = list(dict.fromkeys(leaf for leaf, _ in _leaves(root, ())))
    return SizeTree(dict(ranges), by_letter(root), tuple(schedules[i] for i in used))


def _simpler(branch: Branch) -> Branch:
    if not isinstance(branch, SizeTest):
        return branch
    low, high = _simpler(branch.low), _simpler(branch.high)
    return low if low == high and not isinstance(low, SizeTest) else SizeTest(branch.names, branch.limit, low, high)


def _leaves(branch: Branch, path: Path) -> Iterator[tuple[int, Path]]:
    if not isinstance(branch, SizeTest):
        yield branch, path
        return
    yield from _leaves(branch.low, (*path, (branch.names, branch.limit, True)))
    yield from _leaves(branch.high, (*path, (branch.names, branch.limit, False)))


def _narrowed(ranges: Ranges, path: Path) -> dict[str, tuple[int, int]]:
    """What the tests of a path leave of the ranges, size by size."""
    box = dict(ranges)
    for names, limit, low in path:
        for n in names:
            lo, hi = box[n]
            others = [box[m] for m in names if m != n]
            if low:
                hi = min(hi, limit // prod(o[0] for o in others))
            else:
                lo = max(lo, limit // prod(o[1] for o in others) + 1)
            box[n] = lo, hi
    return box


def _test_node(names: Sequence[str], limit: int, low: bool, ranges: Ranges) -> Node:
    """1 where a test has this answer, else 0."""
    product = sym(names[0], *ranges[names[0]])
    for n in names[1:]:
        product = ix.mul(product, sym(n, *ranges[n]))
    more = make("min", index, (make("max", index, (ix.add(product, const(-limit)), const(0))), const(1)))
    return ix.add(const(1), more, -1) if low else more


def _branch_lines(branch: Branch, indent: str) -> Iterator[str]:
    if not isinstance(branch, SizeTest):
        yield f"{indent}use {name_of(branch)}"
        return
    yield f"{indent}if {'*'.join(branch.names)} <= {branch.limit}"
    yield from _branch_lines(branch.low, indent + "  ")
    yield f"{indent}else"
    yield from _branch_lines(branch.high, indent + "  ")


def name_of(number: int) -> str:
    """A, B, …, Z, AA, AB, …"""
    return (name_of(number // 26 - 1) if number >= 26 else "") + chr(ord("A") + number % 26)
