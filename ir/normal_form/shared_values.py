"""Which pointwise expressions of a kernel get a name, so that a schedule can keep them (`STAGE`).

Those that two nests compute, or that one computes for every element of an axis they do not have (an operand of a sum
of products), where they hold an elementary function, a division, or the result of such a sum. Of what is read at the
same places only the largest expression gets a name."""

from __future__ import annotations

from dataclasses import dataclass

from ..body import Fold, Reduce
from ..dtypes import bool_, index
from ..node import PAIRED, UNARY, Node, axes_of, make, walk
from ..operators import rebuild
from .axis_ties import AxisTies
from .raw_nests import INSIDE, own_name

ELEMENTARY = (UNARY - {"neg", "abs", "not", "floor", "round", "trunc"}) | PAIRED | {"div", "floordiv", "remainder"}
"""What costs many instructions."""
_PLAIN = frozenset({"const", "axis", "sym", "arg", "load", "ref", "cast"})


@dataclass(frozen=True, slots=True, eq=False)
class SharedValue:
    """An expression that gets a name. `whole` is it over stand-ins with nothing named, `body` with others named."""

    name: str
    whole: Node
    body: Node
    fold: Fold | None
    dear: bool
    """Whether it holds an elementary function or a division, also where another value has it."""


@dataclass(slots=True)
class _Facts:
    """What one expression holds."""

    elementary: bool = False
    dear: bool = False
    data: bool = False
    fold: Fold | None = None


class Naming:
    """Names for shared expressions: `values`, and `forms`, the nests' expressions that refer to them. `names` are
    taken."""

    def __init__(self, ties: AxisTies, names: set[str]) -> None:
        self.ties, self.nests = ties, ties.nests
        order = list(walk(*(e for form in ties.forms for e in form)))
        self._facts = self._look(order)
        chosen = self._choose(order)
        labels = self._labels(chosen, names)
        self.values: list[SharedValue] = []
        new: dict[Node, Node] = {}
        for n in order:
            body = rebuild(n, tuple(new[s] for s in n.src)) if n.src else n
            if n in labels:
                fact = self._facts[n]
                self.values.append(SharedValue(labels[n], n, body, chosen[n], fact.elementary))
                axes = sorted(axes_of(n), key=ties.rank)
                inside = INSIDE if chosen[n] is not None else ""
                body = make("ref", n.dtype, tuple(axes), inside + labels[n])
            new[n] = body
        self.forms = [tuple(new[e] for e in form) for form in ties.forms]

    # what expressions hold --------------------------------------------------------------------------------------------
    def _look(self, order: list[Node]) -> dict[Node, _Facts]:
        found: dict[Node, _Facts] = {}
        summed = {k for k in range(len(self.nests)) if self._operands(k)[1]}
        for n in order:
            fact = found[n] = _Facts()
            for s in n.src:
                below = found[s]
                fact.elementary |= below.elementary
                fact.dear |= below.dear
                fact.data |= below.data
                fact.fold = fact.fold or below.fold
            if n.op in ELEMENTARY and n.dtype is not index:
                if fact.data:  # 1/√d of a symbol is computed once
                    fact.elementary = fact.dear = True
            elif n.op == "ref":
                owner = self.ties.place[own_name(n)]
                fact.data = True
                fact.dear |= owner in summed
                fact.fold = self.nests[owner].fold if n.arg.startswith(INSIDE) else fact.fold
            elif n.op in ("load", "axis"):
                fact.data = True
        return found

    def _operands(self, k: int) -> tuple[list[Node], bool]:
        """Of nest `k`: the factors of its sum that lack one of its result's axes, and whether all lack one (then it
        is a contraction)."""
        nest = self.nests[k]
        e = nest.item.expr
        if not (isinstance(e, Reduce) and e.combine == "add"):
            return [], False
        spatial = {a for a in self.ties.axes(k) if a.arg.extent != 1}
        found, whole = [], True
        stack = [self.ties.forms[k][0]]
        while stack:
            n = stack.pop()
            while n.op == "cast":
                n = n.src[0]
            if spatial - axes_of(n):
                if n.op != "const":
                    found.append(n)
            elif n.op == "mul":
                stack += n.src
            else:
                whole = False
        return found, whole and len(found) > 1

    # which get a name -------------------------------------------------------------------------------------------------
    def _choose(self, order: list[Node]) -> dict[Node, Fold | None]:
        """The chosen expressions, with the fold in whose block each belongs. From the largest down: what a named
        expression holds is read by that alone. Readers are bits: first the nests, then the named."""
        readers = dict.fromkeys(order, 0)
        inside: dict[Fold, int] = {}
        for k, form in enumerate(self.ties.forms):
            for e in form:
                readers[e] |= 1 << k
            fold = self.nests[k].fold
            if fold is not None:
                inside[fold] = inside.get(fold, 0) | 1 << k
        operands = {n for k in range(len(self.nests)) for n in self._operands(k)[0]}
        chosen: dict[Node, Fold | None] = {}
        for n in reversed(order):
            mask = readers[n]
            if self._may(n) and (mask & (mask - 1) or n in operands):
                fold = self._facts[n].fold
                if fold is None:
                    own = axes_of(n)
                    fold = next((f for f, m in inside.items() if not mask & ~m and self.ties.folded(f) in own), None)
                mask = 1 << len(self.nests) + len(chosen)
                chosen[n] = fold
                if fold is not None:
                    inside[fold] |= mask
            for s in n.src:
                readers[s] |= mask
        return chosen

    def _may(self, n: Node) -> bool:
        fact = self._facts[n]
        return fact.dear and n.op not in _PLAIN and n.dtype is not index and n.dtype is not bool_

    def _labels(self, chosen: dict[Node, Fold | None], names: set[str]) -> dict[Node, str]:
        """Names in the order in which the nests meet them."""
        free = (f"p{n}" for n in range(len(chosen) + len(names)) if f"p{n}" not in names)
        return {n: next(free) for n in self._facts if n in chosen}
