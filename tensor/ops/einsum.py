"""Einstein sums of any number of operands: pairs are contracted in the order of least work.

Up to `OPTIMAL` operands the order is the best one, by dynamic programming over subsets; beyond, the cheapest pair is
taken first (both as in D. Smith and J. Gray, "opt_einsum", JOSS 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from string import ascii_letters

from ...ir.errors import UsageError
from ..graph import index_maps as maps
from ..graph.nodes import TensorNode
from ..graph.primitives import cast, expand, reduce, reshape, view
from ..graph.promotion import promote
from ..graph.symbolic_sizes import product

OPTIMAL = 7
Labels = tuple[str, ...]
Path = tuple["Path", "Path"] | int


def einsum(subscripts: str, *operands: TensorNode) -> TensorNode:
    """`einsum("ij,jk->ik", a, b)` as in NumPy: repeated labels are diagonals, labels not in the result are summed, `...` are
    dimensions that broadcast, and without `->` the result has the labels that are there once, in alphabetical order."""
    shapes = [x.shape for x in operands]
    inputs, output = _parsed(subscripts, shapes)
    sizes = _sizes(subscripts, inputs, shapes)
    terms = []
    for labels, x in zip(inputs, operands):
        terms.append(_diagonals(x, labels))
    kind = terms[0][0].dtype
    for x, _ in terms[1:]:
        kind = promote(kind, x.dtype)
    terms = [(_squeezed(cast(x, kind), labels, sizes)) for x, labels in terms]
    path = order([labels for _, labels in terms], output, sizes)
    x, labels = _along(path, terms, output)
    x, labels = _summed(x, labels, set(output))
    missing = tuple(c for c in output if c not in labels)
    x = reshape(x, (*x.shape, *(1 for _ in missing)))
    x = expand(view(x, maps.permute(x.shape, [(*labels, *missing).index(c) for c in output])), tuple(sizes[c] for c in output))
    return x


def extents(subscripts: str, shapes: Sequence[Sequence[int]]) -> dict[str, int]:
    """The size of each label, of operands of these shapes. Raises UsageError where they do not fit."""
    return _sizes(subscripts, _parsed(subscripts, shapes)[0], shapes)


def _parsed(text: str, operands: Sequence[Sequence[int]]) -> tuple[list[Labels], Labels]:
    left, arrow, right = text.replace(" ", "").partition("->")
    parts = left.split(",")
    if len(parts) != len(operands):
        raise UsageError(f"einsum {text!r}: {len(parts)} terms for {len(operands)} operands")
    free = [c for c in ascii_letters if c not in text]
    ranks = [len(x) - len(p.replace("...", "")) for p, x in zip(parts, operands) if "..." in p]
    rest = "".join(free[: max(ranks, default=0)])
    inputs = [_labels(text, p, x, rest) for p, x in zip(parts, operands)]
    if not arrow:
        once = sorted(c for c in set(left) - set(",.") if left.count(c) == 1)
        return inputs, (*rest, *once)
    output = tuple(right.replace("...", rest))
    known = {c for labels in inputs for c in labels}
    if len(set(output)) < len(output) or not set(output) <= known:
        raise UsageError(f"einsum {text!r}: the result's labels must be different, and labels of the operands")
    return inputs, output


def _labels(text: str, part: str, x: Sequence[int], rest: str) -> Labels:
    if "..." in part:
        extra = len(x) - len(part) + 3
        if extra < 0:
            raise UsageError(f"einsum {text!r}: {part!r} has more labels than an operand of shape {list(x)} has dimensions")
        part = part.replace("...", rest[len(rest) - extra :] if extra else "")
    if len(part) != len(x) or not all(c in ascii_letters for c in part):
        raise UsageError(f"einsum {text!r}: the labels {part!r} do not name the dimensions of {list(x)}")
    return tuple(part)


def _sizes(text: str, inputs: Sequence[Labels], operands: Sequence[Sequence[int]]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for labels, x in zip(inputs, operands):
        for c, n in zip(labels, x):
            if sizes.setdefault(c, n) != n:
                if 1 not in (sizes[c], n):
                    raise UsageError(f"einsum {text!r}: label {c!r} has {sizes[c]} and {n} elements")
                sizes[c] = n if sizes[c] == 1 else sizes[c]
    return sizes


def _diagonals(x: TensorNode, labels: Labels) -> tuple[TensorNode, Labels]:
    """Labels that an operand has twice, as diagonals."""
    unique = tuple(dict.fromkeys(labels))
    if len(unique) == len(labels):
        return x, labels
    shape = tuple(min(n for c, n in zip(labels, x.shape) if c == u) for u in unique)
    axes = maps.placeholder_axes(shape)
    return view(x, maps.IndexMap(shape, x.shape, axes, tuple(axes[unique.index(c)] for c in labels))), unique


def _squeezed(x: TensorNode, labels: Labels, sizes: dict[str, int]) -> tuple[TensorNode, Labels]:
    """Dimensions of 1 that broadcast against longer ones are dropped: they come back with their partner."""
    kept = tuple(d for d, c in enumerate(labels) if x.shape[d] == sizes[c])
    return reshape(x, tuple(x.shape[d] for d in kept)), tuple(labels[d] for d in kept)


# the order of contractions ------------------------------------------------------------------------------------------
def order(terms: Sequence[Labels], output: Labels, sizes: dict[str, int]) -> Path:
    """A tree of pairs with the least multiplications."""
    if len(terms) == 1:
        return 0
    return _optimal(terms, output, sizes) if len(terms) <= OPTIMAL else _greedy(terms, output, sizes)


def _remaining_labels(inside: frozenset[int], terms: Sequence[Labels], output: Labels) -> frozenset[str]:
    """The labels that the product of some terms keeps."""
    needed = set(output).union(*(terms[i] for i in range(len(terms)) if i not in inside))
    return frozenset(c for i in inside for c in terms[i] if c in needed)


def _optimal(terms: Sequence[Labels], output: Labels, sizes: dict[str, int]) -> Path:
    best: dict[frozenset[int], tuple[int, Path]] = {frozenset([i]): (0, i) for i in range(len(terms))}
    labels = {frozenset([i]): frozenset(t) for i, t in enumerate(terms)}
    for count in range(2, len(terms) + 1):
        for subset in map(frozenset, combinations(range(len(terms)), count)):
            labels[subset] = _remaining_labels(subset, terms, output)
            first = min(subset)
            choices = []
            for size in range(0, count - 1):
                for others in combinations(sorted(subset - {first}), size):
                    a = frozenset((first, *others))
                    b = subset - a
                    work = product(sizes[c] for c in labels[a] | labels[b])
                    choices.append((best[a][0] + best[b][0] + work, (best[a][1], best[b][1])))
            best[subset] = min(choices, key=lambda c: c[0])
    return best[frozenset(range(len(terms)))][1]


def _greedy(terms: Sequence[Labels], output: Labels, sizes: dict[str, int]) -> Path:
    groups: list[tuple[frozenset[int], frozenset[str], Path]] = [(frozenset([i]), frozenset(t), i) for i, t in enumerate(terms)]
    while len(groups) > 1:
        work = {(a, b): product(sizes[c] for c in groups[a][1] | groups[b][1]) for a, b in combinations(range(len(groups)), 2)}
        a, b = min(work, key=lambda p: work[p])
        inside = groups[a][0] | groups[b][0]
        merged = (inside, _remaining_labels(inside, terms, output), (groups[a][2], groups[b][2]))
        groups = [g for i, g in enumerate(groups) if i not in (a, b)] + [merged]
    return groups[0][2]


# contracting ------------------------------------------------------------------------------------------------------
Term = tuple[TensorNode, Labels]


def _along(path: Path, terms: Sequence[Term], output: Labels) -> Term:
    if isinstance(path, int):
        return terms[path]
    inside = frozenset(_operands_of(path))
    keep = _remaining_labels(inside, [labels for _, labels in terms], output)
    return _pair(_along(path[0], terms, output), _along(path[1], terms, output), keep)


def _operands_of(path: Path) -> list[int]:
    return [path] if isinstance(path, int) else [*_operands_of(path[0]), *_operands_of(path[1])]


def _summed(x: TensorNode, labels: Labels, keep: set[str] | frozenset[str]) -> Term:
    over = [d for d, c in enumerate(labels) if c not in keep]
    return reduce("add", x, over), tuple(c for c in labels if c in keep)


def _pair(a: Term, b: Term, keep: frozenset[str]) -> Term:
    """Σ a·b over the labels that nothing else needs: batches first, then the rows of a, the columns of b, and the sums."""
    (x, left), (y, right) = _summed(*a, keep | set(b[1])), _summed(*b, keep | set(a[1]))
    both = [c for c in left if c in right and c in keep]
    summed = [c for c in left if c not in keep]
    names = (*both, *(c for c in left if c in keep and c not in both), *(c for c in right if c in keep and c not in both), *summed)
    sizes = dict(zip(left, x.shape)) | dict(zip(right, y.shape))
    shape = tuple(sizes[c] for c in names)
    product = _placed(x, left, names, shape) * _placed(y, right, names, shape)
    return reduce("add", product, range(len(names) - len(summed), len(names))), tuple(c for c in names if c in keep)


def _placed(x: TensorNode, labels: Labels, names: Labels, shape: tuple[int, ...]) -> TensorNode:
    """`x` with its dimensions at the places of their labels among `names`."""
    x = view(x, maps.permute(x.shape, sorted(range(len(labels)), key=lambda d: names.index(labels[d]))))
    return expand(reshape(x, tuple(n if c in labels else 1 for c, n in zip(names, shape))), shape)
