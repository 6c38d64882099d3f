"""Does a factor that moves a sum from one running maximum to the next leave no trace? Tried on random numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..ir.node import Node, walk

if TYPE_CHECKING:
    import numpy as np

_TRIED = 64
_CLOSE = 1e-6


class _Numbers:
    """Random numbers for what an expression reads, the same whenever it is computed."""

    def __init__(self) -> None:
        import numpy as np

        self._np, self._rng = np, np.random.default_rng(0)
        self._leaves: dict[Node, Any] = {}

    def leaf(self, n: Node) -> np.ndarray[Any, Any]:
        """What a node that is read is."""
        if n not in self._leaves:
            if n.dtype.kind == "b":
                drawn = self._rng.integers(0, 2, _TRIED).astype(bool)
            elif n.dtype.is_int:
                drawn = self._rng.integers(1, 5, _TRIED)
            else:
                drawn = self._rng.uniform(0.25, 1.5, _TRIED) * self._rng.choice([-1.0, 1.0], _TRIED)
            self._leaves[n] = drawn
        found: np.ndarray[Any, Any] = self._leaves[n]
        return found

    def value(self, root: Node, states: Mapping[str, Any]) -> np.ndarray[Any, Any]:
        """The expression, for values of the states by their references' names."""
        from ..ir.evaluation.algebra import Algebra

        algebra, memo = Algebra(), dict[Node, Any]()
        for n in walk(root):
            v = [memo[s] for s in n.src]
            if n.op == "ref" and n.arg in states:
                memo[n] = states[n.arg]
            elif n.op == "const":
                memo[n] = algebra.number(n.arg, n.dtype)
            elif n.op in ("load", "ref", "axis", "sym") or n.dtype.is_int or (n.dtype.kind == "b" and n.src[0].dtype.is_int):
                memo[n] = self.leaf(n)
            elif n.op == "cast":
                memo[n] = self.leaf(n) if n.src[0].dtype.is_int else algebra.cast(v[0], n.src[0].dtype, n.dtype)
            elif n.op == "where":
                memo[n] = algebra.where(v[0], v[1], v[2], n.dtype)
            else:
                memo[n] = algebra.unary(n.op, v[0], n.src[0].dtype) if len(v) == 1 else algebra.binary(n.op, v[0], v[1], n.src[0].dtype)
        return self._np.broadcast_to(self._np.asarray(memo[root], self._np.float64), _TRIED)

    def close(self, a: Any, b: Any) -> bool:
        """Whether two results agree, NaN with NaN."""
        return bool(self._np.isclose(a, b, rtol=_CLOSE, atol=_CLOSE, equal_nan=True).all())


def rescales(scale: Node, elements: Sequence[Node], grows: Mapping[str, bool]) -> str:
    """ "" where sums of `elements` under `scale` may be taken for the last states at once; else what is wrong. `grows`: the running
    maxima (True) and minima (False) by the names of their references before a step."""
    import numpy as np

    numbers = _Numbers()
    rng = np.random.default_rng(1)
    with np.errstate(all="ignore"):
        at = [{s: np.zeros(_TRIED) for s in grows}]
        for _ in range(2):
            steps = {s: rng.uniform(0.0, 1.5, _TRIED) * (1.0 if up else -1.0) for s, up in grows.items()}
            at.append({s: at[-1][s] + steps[s] for s in grows})
        first = {s: rng.uniform(-1.0, 1.0, _TRIED) for s in grows}
        at = [{s: x[s] + first[s] for s in grows} for x in at]

        def moved(i: int, j: int) -> Any:
            return numbers.value(scale, {**at[i], **{s.replace("\0b", "\0n", 1): x for s, x in at[j].items()}})

        def element(e: Node, j: int) -> Any:
            return numbers.value(e, {s.replace("\0b", "\0n", 1): x for s, x in at[j].items()})

        if not numbers.close(moved(0, 1) * moved(1, 2), moved(0, 2)):
            return "the factor of two steps is not the product of the factors of each"
        if not all(numbers.close(element(e, 1) * moved(1, 2), element(e, 2)) for e in elements):
            return "what a step adds does not change by that factor when the maximum does"
    return ""
