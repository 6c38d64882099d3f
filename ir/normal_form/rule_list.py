"""The normal form of a kernel: named rules in one ordered list, each of which gives an equal kernel.

The list is gone through once; `stops` says why a rule does not apply for ever. Rules for axes come first, so that those for expressions see
few of them. Rules that name values come last, and their values keep their axes, as blocks with a halo need them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ..kernel import Kernel
from .axis_rules import drop_units, drop_unread, join_dimensions, merge_axes, separate_families, split_by_parity, split_flattened
from .idiom_rules import count_bits, extremes_by_rows
from .masked_weights import mask_weights
from .named_values import name_repeated, name_windowed
from .narrow_integers import narrow, narrow_sums
from .residue_classes import single_terms, split_by_residue


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
