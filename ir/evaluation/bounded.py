"""A kernel's reference as another kernel: in float64, with a second output for each that holds the error a correct result may have.

`bounded(kernel)` is what `error_bound.Errors` computes, written as a kernel, so that a device can compute the reference of a kernel that takes
long in NumPy. It knows sums, maxima, arithmetic, some functions of floats, and integers that no float decides (matmuls, convolutions, forces,
distances, decoded weights, gathers and what follows them); for everything else it is None, and NumPy evaluates. The formulas are those of
`error_bound`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, prod
from types import SimpleNamespace

from ..body import Reduce, Store, Value
from ..buffer import load, load_parts
from ..dtypes import OVERFLOW, DType, float64
from ..functions import absolute, erf, exp, expm1, log, maximum, minimum, sqrt, tanh
from ..kernel import Kernel
from ..node import ABOUT, COMPARE, Node, axes_of, const, ref, walk
from ..operators import rebuild, where
from .algebra import narrows
from .error_bound import (
    FUNCTION_ULP,
    MANTISSA,
    SMALLEST,
    chosen_error,
    extreme_error,
    function_error,
    last_place,
    or_zero,
    product_error,
    quotient_error,
    sum_error,
    total,
)
from .reference import SLACK
from .stores import unrounded, writes_once
from .values import factors_of


@dataclass(frozen=True, slots=True)
class BoundedNode:
    """A value in float64 and its error (None: exact), as expressions."""

    value: Node
    error: Node | None


class UnknownError(Exception):
    """No formula here for the error of this."""


FUNCTIONS = {"exp": exp, "tanh": tanh, "erf": erf, "sqrt": sqrt, "log": log}
NODES = SimpleNamespace(
    maximum=maximum, minimum=minimum, absolute=absolute, sqrt=sqrt, exp=exp, tanh=tanh, where=where,
    exp_error=lambda v, e: where(e > 1.0, where(v.eq(0.0), 0.0, v * expm1(e)), (1.0 + e) * e * v),
    by_size=lambda e, small, large: where(e < 1.0, small(), large()),
)  # fmt: skip
"""Functions of expressions, for the formulas; each element's own error decides which formula it has."""


def number(x: float) -> Node:
    """A constant in float64."""
    return const(x, float64)


def unary(op: str, a: BoundedNode, of: DType) -> BoundedNode:
    """A function of a float."""
    x, e = a.value, a.error
    if op in ("neg", "abs"):
        return BoundedNode(-x if op == "neg" else absolute(x), e)
    if op not in FUNCTIONS:
        raise UnknownError
    v = FUNCTIONS[op](x)
    if e is not None:
        e = function_error(NODES, op, x, v, e, SLACK)
    made = paired(v, e, (1.0 if op == "sqrt" else FUNCTION_ULP) * of.eps, SMALLEST.get(of.name, 0.0))
    return _unbounded_error(made, of) if op == "exp" else made


def _unbounded_error(a: BoundedNode, of: DType) -> BoundedNode:
    """An error without end where a value that float64 holds overflows its own type: what follows from it has no formula here."""
    if of.compute.size == 8 or a.error is None:
        return a
    size = absolute(a.value)
    over = (size >= OVERFLOW[of.compute.name]) & (size < inf)
    return BoundedNode(a.value, where(over, number(inf), a.error))


def quotient(a: BoundedNode, b: BoundedNode, of: DType) -> BoundedNode:
    """A division."""
    v = a.value / b.value
    e = quotient_error(NODES, v, b.value, a.error, b.error)
    return rounded(v, None, of) if e is None else _unbounded_error(rounded(v, e, of), of)


def paired(value: Node, error: Node | None, eps: float, smallest: float) -> BoundedNode:
    """A value with one more rounding, of relative size `eps` and at least `smallest`."""
    fresh = absolute(value) * eps + smallest
    return BoundedNode(value, fresh if error is None else fresh + error)


def rounded(value: Node, error: Node | None, of: DType) -> BoundedNode:
    """A value that was rounded once in type `of`."""
    return paired(value, error, of.eps, SMALLEST.get(of.name, 0.0))


# bounded ----------------------------------------------------------------------------------------------------
ERROR = "_error"
"""What the name of a value or an output has behind it for its error."""


def bounded(kernel: Kernel) -> Kernel | None:
    """The kernel whose output NAME is the float64 value of `kernel`'s, and NAME_error its error: a correct result, before it is rounded to the
    output's type, is within SLACK · error of the value, as `evaluate_error` says (its scale is error ÷ eps of the type's `acc`).

    Inputs are those of `kernel`, in their own types and in order. None where there is no formula: folds, scans, other
    functions, masked or combining stores, integers and conditions that a rounding decides, symbols, outputs of other types than floats."""
    if kernel.symbols or not all(_covers(s) and s.buffer.dtype.is_float and s.buffer.dtype.size > 1 for s in kernel.stores):
        return None
    names = {*kernel.values, *(b.name for b in kernel.buffers)}
    if len(kernel.stores) != len(kernel.outputs) or any(f"{n}{suffix}" in names for n in names for suffix in (ERROR, _SQUARES, _TERMS)):
        return None
    try:
        made = _Values(kernel)
    except UnknownError:
        return None
    return Kernel(f"{kernel.name}_bounded", tuple(made.body), tuple(made.stores), (*kernel.inputs, *(s.buffer for s in made.stores)))


def _covers(s: Store) -> bool:
    """Whether it writes as many elements as there are (no store of a kernel writes one twice)."""
    sizes = [*s.buffer.shape, *(a.arg.extent for a in s.axes)]
    if s.mask is not None or s.combine is not None or not all(isinstance(n, int) for n in sizes):
        return False
    return writes_once(s) or prod(s.buffer.shape) == prod(a.arg.extent for a in s.axes)


_SQUARES, _TERMS = "_squares", "_terms"


class _Values:
    """The values of a bounded kernel, in order."""

    def __init__(self, kernel: Kernel) -> None:
        self.body: list[Value] = []
        self.stores: list[Store] = []
        self._known: dict[str, bool] = {}
        """Whether a value has an error."""
        self._memo: dict[Node, BoundedNode] = {}
        for item in kernel.body:
            if not isinstance(item, Value) or not isinstance(item.expr, (Reduce, Node)):
                raise UnknownError
            if not item.dtype.is_float:
                self._whole(item)
            elif isinstance(item.expr, Reduce):
                self._reduce(item, item.expr)
            else:
                self._pair(item, self.of(item.expr))
        for s in kernel.stores:
            got = self.of(unrounded(s.expr))
            for suffix, expr in (("", got.value), (ERROR, got.error if got.error is not None else number(0.0))):
                buffer = replace(s.buffer, name=s.buffer.name + suffix, dtype=float64, alias="")
                self.stores.append(replace(s, buffer=buffer, expr=expr))

    def _whole(self, v: Value) -> None:
        """A value of integers or bools that no rounding can change: it stays as it is, but for the floats that it compares."""
        if isinstance(v.expr, Reduce):
            self.body.append(replace(v, expr=replace(v.expr, expr=self._plain(v.expr.expr))))
        else:
            assert isinstance(v.expr, Node)
            self.body.append(replace(v, expr=self._plain(v.expr)))

    def _pair(self, v: Value, p: BoundedNode) -> None:
        self.body.append(Value(v.name, v.axes, p.value, float64))
        self._known[v.name] = p.error is not None
        if p.error is not None:
            self.body.append(Value(v.name + ERROR, v.axes, p.error, float64))

    def _sum(self, name: str, v: Value, combine: str, over: tuple[Node, ...], term: Node) -> Node:
        self.body.append(Value(name, v.axes, Reduce(combine, over, term, float64), float64))
        return ref(name, v.axes, float64)

    def _reduce(self, v: Value, r: Reduce) -> None:
        if r.combine == "mul":
            raise UnknownError
        if r.combine != "add":
            p = self.of(r.expr)
            self._sum(v.name, v, r.combine, r.axes, p.value)
            self._known[v.name] = p.error is not None
            if p.error is not None:
                self._sum(v.name + ERROR, v, "max", r.axes, p.error)
            return
        term, terms, eps = self._terms(v, r)
        s = self._sum(v.name, v, "add", r.axes, term)
        squares = self._sum(v.name + _SQUARES, v, "add", r.axes, term * term)
        count = prod(_extent(a) for a in r.axes)
        added = None if terms is None else self._sum(v.name + _TERMS, v, "add", r.axes, terms)
        grown = sum_error(NODES, s, squares, added, count, eps, r.dtype)
        self.body.append(Value(v.name + ERROR, v.axes, grown, float64))
        self._known[v.name] = True

    def _terms(self, v: Value, r: Reduce) -> tuple[Node, Node | None, float]:
        """What a sum adds up: (term, its error, the eps of one rounding). Products of two factors are exact there, as in a chain
        of fused multiplications and additions."""
        factors = factors_of(v.body, v.dtype)
        if len(factors) == 1:
            p = self.of(r.expr)
            return p.value, p.error, v.dtype.eps
        x, y = self._two([(axes_of(f), self.of(f)) for f in factors], v.dtype)
        eps = max([v.dtype.eps, *(n.dtype.eps for n in walk(v.body) if n.op == "mul" and n.dtype.is_float)])
        return x.value * y.value, product_error(NODES, x.value, y.value, x.error, y.error), eps

    def _two(self, factors: list[tuple[frozenset[Node], BoundedNode]], of: DType) -> tuple[BoundedNode, BoundedNode]:
        """Factors multiplied together, the smallest result first, until two are left: as `values` does it."""
        while len(factors) > 2:
            pairs = [(i, j) for i in range(len(factors)) for j in range(i)]
            i, j = min(pairs, key=lambda p: prod(_extent(a) for a in factors[p[0]][0] | factors[p[1]][0]))
            merged = self._product(factors[i][1], factors[j][1], of)
            axes = factors[i][0] | factors[j][0]
            factors = [f for k, f in enumerate(factors) if k not in (i, j)] + [(axes, merged)]
        return factors[0][1], factors[1][1]

    # expressions ----------------------------------------------------------------------------------------------------
    def of(self, root: Node) -> BoundedNode:
        """The pair of a float expression. Raises UnknownError."""
        found = self._memo.get(root)
        if found is None:
            found = self._memo[root] = self._node(root)
        return found

    def _node(self, n: Node) -> BoundedNode:
        if not n.dtype.is_float or n.dtype.size == 1:
            raise UnknownError
        if n.op == "const":
            import numpy as np

            return BoundedNode(number(float(np.array(n.arg).astype(n.dtype.np).astype(np.float64))), None)
        if n.op == "load":
            buffer, indices, mask = load_parts(n)
            kept = None if mask is None else self._plain(mask)
            return BoundedNode(load(buffer, [self._plain(i) for i in indices], kept).cast(float64), None)
        if n.op == "ref":
            at = tuple(self._plain(i) for i in n.src)
            error = ref(n.arg + ERROR, at, float64) if self._known[n.arg] else None
            return BoundedNode(ref(n.arg, at, float64), error)
        if n.op == "cast":
            return self._cast(n)
        if n.op == ABOUT:
            to, times = n.arg
            a = self.of(n.src[0])
            return paired(a.value, a.error, *last_place(to, SLACK, times / 2))
        if n.op == "where":
            condition = self._plain(n.src[0])
            a, b = self.of(n.src[1]), self.of(n.src[2])
            return BoundedNode(where(condition, a.value, b.value), chosen_error(NODES, condition, a.error, b.error))
        if len(n.src) == 1:
            return unary(n.op, self.of(n.src[0]), n.src[0].dtype)
        return self._binary(n.op, self.of(n.src[0]), self.of(n.src[1]), n.dtype)

    def _plain(self, n: Node) -> Node:
        """An index, an integer or a condition that no rounding can change; the floats that it compares are compared in float64.
        Raises UnknownError where one could."""
        if n.dtype.is_float:
            raise UnknownError
        if n.op in COMPARE and n.src[0].dtype.is_float:
            a, b = map(self.of, n.src)
            if a.error is not None or b.error is not None:
                raise UnknownError
            return rebuild(n, (a.value, b.value))
        return rebuild(n, tuple(map(self._plain, n.src))) if n.src else n

    def _binary(self, op: str, a: BoundedNode, b: BoundedNode, of: DType) -> BoundedNode:
        x, y, ex, ey = a.value, b.value, a.error, b.error
        if op in ("max", "min"):
            value = maximum(x, y) if op == "max" else minimum(x, y)
            return BoundedNode(value, extreme_error(NODES, ex, ey))
        if op in ("add", "sub"):
            return rounded(x + y if op == "add" else x - y, total(ex, ey), of)
        if op == "div":
            return quotient(a, b, of)
        if op != "mul":
            raise UnknownError
        return self._product(a, b, of)

    def _product(self, a: BoundedNode, b: BoundedNode, of: DType) -> BoundedNode:
        e = product_error(NODES, a.value, b.value, a.error, b.error)
        made = rounded(a.value * b.value, e, of)
        if e is not None or of.size < 8:
            return made
        # as in `error_bound`: exact zeros are multiplied exactly
        return BoundedNode(made.value, where(made.value.eq(0.0), number(0.0), or_zero(made.error)))

    def _cast(self, n: Node) -> BoundedNode:
        source, to = n.src[0].dtype, n.dtype
        if not source.is_float:
            whole = BoundedNode(self._plain(n.src[0]).cast(float64), None)
            return rounded(whole.value, None, to) if 8 * source.size > MANTISSA[to.size] else whole
        a = self.of(n.src[0])
        if not narrows(source, to):
            return a
        value = a.value.cast(to).cast(float64)
        if a.error is None:
            return BoundedNode(value, None)
        made = paired(value, a.error, *last_place(to, SLACK))
        return BoundedNode(value, where(a.error > 0.0, or_zero(made.error), 0.0))


def _extent(axis: Node) -> int:
    if not isinstance(axis.arg.extent, int):
        raise UnknownError
    return int(axis.arg.extent)
