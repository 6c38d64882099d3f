"""Does a rule that a user gives combine parts in any grouping? Tried on random numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..body import TupleScan, names
from ..dtypes import DType, index
from ..errors import KernelError
from ..evaluation.algebra import Algebra
from ..evaluation.dense import index_values
from ..node import Node, walk

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

_TRIED = 64
_CLOSE = 1e-6


def check_associative(what: str, scan: TupleScan) -> None:
    """Raise KernelError where (x · y) · z differs from x · (y · z), or identity · x from x, on numbers of ±½ to ±2, nor on zeros and
    ones, nor on small positive whole numbers (rules about flags, or counts, hold for those alone)."""
    failed = [_difference(scan, kind) for kind in ("numbers", "flags", "counts")]
    if all(failed):
        raise KernelError(
            f"{what}: {failed[0]}. A scan may combine neighbours first, so the rule must be associative; a recurrence that is not has no other "
            "order than one step after the other: write it over tuples (such as (a, b) for h = a·h + b), or as kb.recurrence"
        )


def _difference(scan: TupleScan, kind: str) -> str:
    rng = np.random.default_rng(0)
    x, y, z = ([_draw(rng, n.dtype, kind) for n in scan.elements] for _ in range(3))
    with np.errstate(all="ignore"):
        one, other = merged(scan, merged(scan, x, y), z), merged(scan, x, merged(scan, y, z))
        start = merged(scan, [np.broadcast_to(np.asarray(Algebra().number(n.arg, n.dtype)), _TRIED) for n in scan.identity], x)
    for i, (p, q, s) in enumerate(zip(one, other, start, strict=True)):
        far = ~np.isclose(np.asarray(p, np.float64), np.asarray(q, np.float64), rtol=_CLOSE, atol=_CLOSE, equal_nan=True)
        if far.any():
            n = int(np.argmax(far))
            at = ", ".join(f"({', '.join(f'{c[n]:.6g}' for c in t)})" for t in (x, y, z))
            return f"component {i} of x, y, z = {at} is {p[n]:.6g} from the left and {q[n]:.6g} from the right"
        far = ~np.isclose(np.asarray(s, np.float64), np.asarray(x[i], np.float64), rtol=_CLOSE, atol=_CLOSE, equal_nan=True)
        if far.any():
            n = int(np.argmax(far))
            return f"the identity changes what follows it: component {i} of ({', '.join(f'{c[n]:.6g}' for c in x)}) becomes {s[n]:.6g}"
    return ""


def _draw(rng: np.random.Generator, dtype: DType, kind: str) -> Array:
    if dtype.is_float and kind == "numbers":
        return np.asarray(rng.uniform(0.5, 2.0, _TRIED) * rng.choice([-1.0, 1.0], _TRIED))
    lo, hi = (0, 2) if kind == "flags" or dtype.kind == "b" else (1, 5)
    return np.asarray(rng.integers(lo, hi, _TRIED).astype(np.float64 if dtype.is_float else dtype.np))


def merged(scan: TupleScan, left: list[Array], right: list[Array]) -> list[Array]:
    """The rule, of two lists of components, in float64."""
    algebra, memo = Algebra(), dict[Node, Any]()
    given = {**names("a", left), **names("b", right)}
    for n in walk(*scan.merge):
        v = [memo[s] for s in n.src]
        if n.op == "arg":
            memo[n] = given[n.arg]
        elif n.op == "const":
            memo[n] = algebra.number(n.arg, n.dtype)
        elif n.op == "cast":
            memo[n] = algebra.cast(v[0], n.src[0].dtype, n.dtype)
        elif n.dtype is index and (n.op in ("sum", "prod", "mod") or (n.op == "div" and n.arg is not None)):
            memo[n] = index_values(n, v)
        elif n.op == "where":
            memo[n] = algebra.where(v[0], v[1], v[2], n.dtype)
        else:
            memo[n] = algebra.unary(n.op, v[0], n.src[0].dtype) if len(v) == 1 else algebra.binary(n.op, v[0], v[1], n.src[0].dtype)
    return [np.broadcast_to(memo[m], _TRIED) for m in scan.merge]
