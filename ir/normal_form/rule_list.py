"""The normal form of a kernel: named rules in one ordered list, each of which gives an equal kernel.

The list is gone through once; `stops` says why a rule does not apply for ever. Rules for axes come first, so that those for expressions see
few of them. Rules that name values come last, and their values keep their axes, as blocks with a halo need them."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, reduce
from itertools import islice, permutations

from ..dtypes import DType, index, rounded
from ..kernel import Kernel
from ..node import COMMUTATIVE, Node, make, walk
from ..operators import unary
from ..rewriter import Rewriter
from .axis_rules import drop_units, drop_unread, join_dimensions, merge_axes, separate_families, split_by_parity, split_flattened
from .masked_weights import mask_weights
from .named_values import name_repeated, name_windowed
from .narrow_integers import narrow, narrow_sums
from .residue_classes import single_terms, split_by_residue

# idiom rules ----------------------------------------------------------------------------------------------------------
#
# Rules of the normal form for expressions that are written out: windows' extremes, and bits that are counted.


# window rows ------------------------------------------------------------------------------------------------------
# Extremes of windows that are written out go row by row: the largest of 3 × 3 neighbours is the largest of three rows' largest.
#
# Such a row of a window is a part of the neighbouring windows as well, and a schedule with several rows of results computes it once
# (decision 77 does the same for windows over axes). Extremes may be taken in any order, so no bit changes.


LEAST = 4
"""Elements of the smallest window that has rows."""


def extremes_by_rows(kernel: Kernel) -> Kernel:
    """An equal kernel whose chains of maxima, or minima, over elements of one array go through it row by row; `kernel` itself where
    there are none."""
    if not any(_links(n) for root in kernel.expressions() for n in walk(root)):
        return kernel
    found = _RowsFirst(kernel)
    out = found.run()
    return out if found.changed else kernel


def _links(n: Node) -> bool:
    """Whether a node may be in a chain of several."""
    return n.op in ("max", "min") and n.dtype is not index and any(s.op == n.op for s in n.src)


class _RowsFirst(Rewriter):
    """Chains are written anew where they begin; what is inside one has no other reader."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.changed = False
        self.inside: set[Node] = set()
        roots = list(kernel.expressions())
        self.readers = Counter([*roots, *(s for n in walk(*roots) for s in n.src)])

    def node(self, n: Node) -> Node | None:
        if n in self.inside or not _links(n):
            return None
        elements = self._elements(n)
        places = [_place(x) for x in elements]
        if len(elements) < LEAST or None in places or len({p[0] for p in places if p}) > 1:
            return None
        at = [p[1] for p in places if p]
        if _by_rows(n.op, list(zip(elements, at, strict=True))) is n:
            return None
        self.changed = True
        return _by_rows(n.op, [(self.go(x), i) for x, i in zip(elements, at, strict=True)])

    def _elements(self, n: Node) -> list[Node]:
        """What a chain takes the extreme of, in order. (Without recursion: chains may be long.)"""
        out, stack = list[Node](), [*reversed(n.src)]
        while stack:
            x = stack.pop()
            if x.op == n.op and self.readers[x] == 1:
                self.inside.add(x)
                stack.extend(reversed(x.src))
            else:
                out.append(x)
        return out


def _place(n: Node) -> tuple[object, tuple[Node, ...]] | None:
    """(array, indices) of the only element that an expression reads, of two dimensions or more."""
    read = list(islice((x for x in walk(n) if x.op in ("load", "ref")), 2))
    if len(read) != 1:
        return None
    indices = read[0].src[:-1] if read[0].op == "load" and read[0].arg[1] else read[0].src
    return (read[0].arg, indices) if len(indices) > 1 else None


def _by_rows(op: str, elements: Sequence[tuple[Node, tuple[Node, ...]]]) -> Node:
    """The extreme of some elements, those together first that have the same index in the first dimension, and so on."""
    if len(elements) == 1 or not elements[0][1]:
        return reduce(lambda x, y: make(op, x.dtype, (x, y)), [x for x, _ in elements])
    rows: dict[Node, list[tuple[Node, tuple[Node, ...]]]] = {}
    for x, at in elements:
        rows.setdefault(at[0], []).append((x, at[1:]))
    return reduce(lambda x, y: make(op, x.dtype, (x, y)), [_by_rows(op, row) for row in rows.values()])


# counted bits -----------------------------------------------------------------------------------------------------
# Bits that are counted by shifts and masks are `popcount` (H. S. Warren, "Hacker's Delight", 2nd edition, 2012, figure 5-2). Written out
# it is a dozen operations: sums of neighbouring bits, then of pairs, of groups of four, and of bytes. Many processors have an instruction,
# and others do it in fewer.


def count_bits(kernel: Kernel) -> Kernel:
    """An equal kernel in which such counts of 32 or 64 bits are `popcount`; `kernel` itself where there are none."""
    found = _Counts(kernel)
    roots = (*(v.body for v in kernel.values.values()), *(s.expr for s in kernel.stores))
    return found.run() if any(_counted(n) is not None for n in walk(*roots)) else kernel


class _Counts(Rewriter):
    def node(self, n: Node) -> Node | None:
        x = _counted(n)
        return None if x is None else unary("popcount", self.go(x))


def _counted(n: Node) -> Node | None:
    """The integer whose bits an expression counts; None for any other."""
    if n.op not in ("shr", "and") or not n.dtype.is_int or n.dtype.size < 4 or n.dtype is index:
        return None
    for pattern in _counts(n.dtype):
        bound: dict[Node, Node] = {}
        if matches(pattern, n, bound):
            return next(iter(bound.values()))
    return None


@cache
def _counts(dtype: DType) -> tuple[Node, ...]:
    """Every way to count the bits of x: pairs, groups of four and bytes are summed, and the sum of the bytes is in the highest byte of a
    product, or in the lowest one of sums of halves."""
    bits, x = 8 * dtype.size, make("arg", dtype, (), "x")

    def every(value: int, step: int) -> int:
        return sum(value << at for at in range(0, bits, step))

    def halves(n: Node, distance: int, mask: int) -> Node:
        return (n & mask) + ((n >> distance) & mask)

    pairs = [x - ((x >> 1) & every(1, 2)), halves(x, 1, every(1, 2))]
    fours = [halves(n, 2, every(3, 4)) for n in pairs]
    # (the sum of two groups of four fits four bits)
    in_bytes = [n for f in fours for n in ((f + (f >> 4)) & every(15, 8), halves(f, 4, every(15, 8)))]
    sums = [reduce(lambda n, d: n + (n >> d), order, n) & (2 * bits - 1) for n in in_bytes for order in permutations(_HALVES[bits])]
    return (*((n * every(1, 8)) >> (bits - 8) for n in in_bytes), *sums)


_HALVES = {32: (8, 16), 64: (8, 16, 32)}


def matches(pattern: Node, n: Node, bound: dict[Node, Node]) -> bool:
    """Whether `n` is `pattern`, in any order of commutative operands, for some values of its placeholders (`arg`): `bound` gets them."""
    if pattern.op == "arg":
        return bound.setdefault(pattern, n) is n
    if pattern.op == "const":
        return n.op == "const" and bool(rounded(n.arg, n.dtype) == rounded(pattern.arg, n.dtype))
    if pattern.op != n.op or pattern.dtype is not n.dtype or len(pattern.src) != len(n.src):
        return False
    for src in (n.src, n.src[::-1]) if n.op in COMMUTATIVE else (n.src,):
        trial = dict(bound)
        if all(matches(p, s, trial) for p, s in zip(pattern.src, src, strict=True)):
            bound.update(trial)
            return True
    return False


# rule list ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NormalRule:
    """`apply(kernel)`: an equal kernel, or `kernel` itself where the rule does not apply. `before` and `after`: an example. `stops`: why it
    does not apply for ever. `again`: it is applied until it does not."""

    name: str
    apply: Callable[[Kernel], Kernel]
    before: str
    after: str
    stops: str
    again: bool = False


RULES = (
    NormalRule(
        "drop unread values",
        drop_unread,
        "t[i] = sum(x[i, j]); y[i] = x[i, 0]",
        "y[i] = x[i, 0]",
        "each value that is left is needed by a store",
    ),
    NormalRule(
        "drop axes of extent 1, fold constants",
        drop_units,
        "y[i, 0] = x[i, 0] * (2.0 * 3.0)",
        "y[i] = x[i] * 6.0",
        "no axis that may go is left, and a folded constant has no operands",
    ),
    NormalRule(
        "separate families",
        separate_families,
        "f[i] = sum(g(x[i], x[j])), i and j of family n",
        "f[i] = sum(g(x[i], x[j])), i of family n, j of family n2",
        "no nest has two axes of a family afterwards",
    ),
    NormalRule(
        "sums of one term",
        single_terms,
        "y[i] = sum(where(k == i, x[k], 0) * w[k])",
        "y[i] = x[i] * w[i]",
        "each application leaves a sum without an axis",
        again=True,
    ),
    NormalRule(
        "merge axes",
        merge_axes,
        "y[i, j] = x[i, j], j < 8",
        "y[k] = x[k], k = 8*i + j",
        "each application leaves a family less",
        again=True,
    ),
    NormalRule(
        "extremes by rows",
        extremes_by_rows,
        "max(max(max(x[0, 0], x[1, 0]), x[0, 1]), x[1, 1])",
        "max(max(x[0, 0], x[0, 1]), max(x[1, 0], x[1, 1]))",
        "a chain that goes row by row stays as it is",
    ),
    NormalRule(
        "mask weights",
        mask_weights,
        "P = exp(where(seen, s, -inf) - M)",
        "P = where(seen, exp(where(seen, s, -inf) - M), 0)",
        "a weight that is masked is a choice, and no exponential",
    ),
    NormalRule(
        "split by residue",
        split_by_residue,
        "y[i] = sum(x[(i - k) // 2] * w[k] if (i - k) % 2 == 0 else 0), k < 4",
        "y[2*i + r] = sum(x[i - j] * w[r + 2*j]), j < 2",
        "each application leaves a test of a remainder less in a sum",
        again=True,
    ),
    NormalRule(
        "split by parity",
        split_by_parity,
        "y[i] = where(i % 2 == 0, a[i // 2], b[i // 2])",
        "y[2*i + p] = where(p == 0, a[i], b[i])",
        "each application leaves an axis less that a remainder is taken of",
        again=True,
    ),
    NormalRule(
        "join dimensions",
        join_dimensions,
        "y[i] = x[i // 5 % 7, i % 5], x of 7 × 5",
        "y[i] = x[i % 35], x of 35",
        "each application leaves a dimension less",
        again=True,
    ),
    NormalRule(
        "split flattened axes",
        split_flattened,
        "y[i] = sum(x[i // 8, k] * w[i, k]), i < 32",
        "y[8*i + j] = sum(x[i, k] * w[8*i + j, k]), j < 8",
        "each application leaves an axis less that is divided",
        again=True,
    ),
    NormalRule(
        "count bits",
        count_bits,
        "x - ((x >> 1) & 0x55555555), then pairs, groups of four and bytes summed",
        "popcount(x)",
        "no such sum is left",
    ),
    NormalRule(
        "narrow sums",
        narrow_sums,
        "sum over 9 pixels in int32",
        "sum over 9 pixels in int16",
        "a sum's type gets smaller each time",
    ),
    NormalRule(
        "narrow integers",
        narrow,
        "uint8((int32(a) + int32(b)) >> 1)",
        "uint8((uint16(a) + uint16(b)) >> 1)",
        "an expression's type gets smaller each time",
    ),
    NormalRule(
        "name windowed values",
        name_windowed,
        "y[i] = log(x[i]) + log(x[i + 1])",
        "p0[j] = log(x[j]); y[i] = p0[i] + p0[i + 1]",
        "a named expression is no expression of its readers any more, and at most eight get a name",
    ),
    NormalRule(
        "name repeated values",
        name_repeated,
        "s = sum(exp(x[j] - m)); y[j] = exp(x[j] - m) / s",
        "p0[j] = exp(x[j] - m); s = sum(p0[j]); y[j] = p0[j] / s",
        "a named expression stands in one place",
    ),
)
"""In the order in which they are applied."""
_DONE: weakref.WeakKeyDictionary[Kernel, Kernel | None] = weakref.WeakKeyDictionary()
"""Normal forms; None for a kernel that is its own, because a value that is the key would keep it for ever."""


def applied(kernel: Kernel) -> Iterator[tuple[NormalRule, Kernel]]:
    """The rules that apply to `kernel` on its way to its normal form, each with the kernel that it gives. The last one is the normal form."""
    for rule in RULES:
        found = rule.apply(kernel)
        while found is not kernel:
            kernel = found if found.fixed == kernel.fixed else replace(found, fixed=kernel.fixed)
            yield rule, kernel
            found = rule.apply(kernel) if rule.again else kernel


def normalise(kernel: Kernel) -> Kernel:
    """An equal kernel in normal form (the kernel itself when no rule applies; its normal form is its own)."""
    if kernel in _DONE:
        return _DONE[kernel] or kernel
    found = next(reversed([made for _, made in applied(kernel)]), kernel)
    _DONE[found] = None
    if found is not kernel:
        _DONE[kernel] = found
    return found
