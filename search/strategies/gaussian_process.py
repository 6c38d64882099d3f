"""A Gaussian process over the points of one family: what it expects of a point it has not seen, and how sure it is.

Rasmussen and Williams, "Gaussian Processes for Machine Learning" (2006), with a Matern 5/2 kernel that has a length
for each parameter. The lengths are not climbed to but drawn: a handful of hypotheses lives on, each refit mutates
them and keeps those under which the data are likeliest, and predictions are their mean. That is robust with a dozen
results, where the likelihood has many peaks.

Products of matrices are cut into pieces that stay below the size from which BLAS starts threads of its own: they would
go on spinning beside what is being timed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from .points import ChoicePoint, Family

    Matrix = np.ndarray[Any, np.dtype[np.float64]]

HYPOTHESES = 8
DRAWN = 24
"""Mutations and new draws at a refit."""
MOST = 150
"""Results that are fitted at most."""
BLOCK = 24
"""Rows of a matrix that is factored in one call."""
PIECE = 200_000
"""Multiplications that one call of BLAS may have."""


class Encoder:
    """Points of a family as rows of numbers: one column for a parameter of numbers, one for each value of others, and
    one for each two parameters of more than two numbers, with the logarithm of their product. Much of what a machine
    does depends on products (threads of a block, elements of a tile): a dozen results then say something of points
    that have no single value in common with them."""

    def __init__(self, family: Family) -> None:
        import numpy as np

        self._columns: list[Any] = []
        self.groups: list[int] = []
        """Of each column, which length it shares: that of its parameter or pair."""
        numeric: list[tuple[int, Matrix]] = []
        for p, (values, numbers) in enumerate(zip(family.values, family.scaled)):
            if len(values) < 2:
                continue
            table = np.eye(len(values)) / 2**0.5 if numbers is None else np.array(numbers)[:, None]
            self._columns.append((p, table))
            self.groups += [len(self._columns) - 1] * table.shape[1]
            if (even := evenness(values)) is not None:
                self._columns.append((p, even[:, None]))
                self.groups.append(len(self._columns) - 1)
            if numbers is not None and len(values) > 2:
                numeric.append((p, logarithms(values)))
        self.single = len(self._columns)
        self._pairs = [(a, u, b, v, *_range(u, v)) for i, (a, u) in enumerate(numeric) for b, v in numeric[:i]]
        self.groups += range(self.single, self.single + len(self._pairs))
        self.count = self.single + len(self._pairs)

    def __call__(self, points: Sequence[ChoicePoint]) -> Matrix:
        import numpy as np

        at = np.array([p.at for p in points], dtype=int).reshape(len(points), -1)
        columns = [table[at[:, p]] for p, table in self._columns] or [np.zeros((len(points), 1))]
        columns += [((u[at[:, a]] + v[at[:, b]] - least) / width)[:, None] for a, u, b, v, least, width in self._pairs]
        return np.concatenate(columns, axis=1)


def evenness(values: Sequence[object]) -> Matrix | None:
    """How often each number can be halved, between 0 and 1, at most five times: whether lines, vectors, warps and banks
    come out even. None where a number's size says as much, as where all are powers of two."""
    import numpy as np

    if not all(isinstance(v, int) and v > 0 for v in values):
        return None
    halved = [min(5, (v & -v).bit_length() - 1) for v in values if isinstance(v, int)]
    if halved == sorted(halved) or len(set(halved)) < 2:
        return None
    out: Matrix = np.array(halved, dtype=float) / max(halved)
    return out


def logarithms(values: Sequence[float]) -> Matrix:
    """The logarithms of numbers; one that is not positive counts as an octave below the least positive one."""
    import numpy as np

    v = np.array(values, dtype=float)
    least = v[v > 0].min() if (v > 0).any() else 1.0
    out: Matrix = np.log(np.where(v > 0, v, least / 2))
    return out


def _range(u: Matrix, v: Matrix) -> tuple[float, float]:
    """The least sum of one of each, and how far the greatest is from it."""
    least = float(u.min() + v.min())
    return least, float(u.max() + v.max()) - least or 1.0


class Process:
    """See the module's text. `fit` takes all results; `predict` gives mean and variance in units of the values' spread."""

    def __init__(self, encoder: Encoder, seed: int) -> None:
        import numpy as np

        self._np = np
        self._rng = np.random.default_rng(seed)
        self._groups = np.array(encoder.groups or [0])
        self._count = max(1, encoder.count)
        # the last column is the noise; a length of about the root of how many there are says that each matters alike
        single, pairs = encoder.single or 1, encoder.count - encoder.single
        lengths = [np.full(single, np.log(0.5 * single**0.5)), np.full(pairs, np.log(0.5 * max(1, pairs) ** 0.5))]
        self._typical = np.concatenate([*lengths, [np.log(0.05)]])
        self._spread = np.concatenate([np.full(self._count, 1.0), [0.8]])
        self._thetas = self._draw(HYPOTHESES)

    def fit(self, x: Matrix, y: Matrix, again: bool = True) -> None:
        """`x`: rows of the encoder; `y`: values, standardised here. `again`: choose the hypotheses anew."""
        np = self._np
        self._x, self._middle = x, float(y.mean())
        self._scale = float(y.std()) or 1.0
        z = (y - self._middle) / self._scale
        thetas = self._thetas
        if again:
            mutated = thetas[self._rng.integers(0, len(thetas), DRAWN - 2)]
            mutated = mutated + self._rng.normal(0, 0.5, mutated.shape) * (self._rng.random(mutated.shape) < 0.35)
            thetas = np.concatenate([thetas, mutated, self._draw(2)])
        k = self._kernel(x, x, thetas)
        k[:, np.arange(len(x)), np.arange(len(x))] += np.exp(thetas[:, -1])[:, None] + 1e-6
        inverse = factor(k)
        half = np.einsum("hij,j->hi", inverse, z)
        like = -0.5 * (half**2).sum(1) + np.log(np.diagonal(inverse, axis1=1, axis2=2)).sum(1)
        like -= 0.5 * (((thetas - self._typical) / self._spread) ** 2).sum(1)
        best = np.argsort(-like)[:HYPOTHESES]
        self._thetas = thetas[best]
        weight = np.exp(like[best] - like[best[0]])
        keep = weight > 0.05
        self._used, self._weight = thetas[best][keep], weight[keep] / weight[keep].sum()
        self._inverse = inverse[best][keep]
        self._alpha = np.einsum("hij,hi->hj", self._inverse, half[best][keep])

    def predict(self, c: Matrix) -> tuple[Matrix, Matrix]:
        """(mean, standard deviation) in the units of `fit`'s values."""
        np = self._np
        k = self._kernel(c, self._x, self._used)
        means = np.einsum("hcn,hn->hc", k, self._alpha)
        explained = np.stack([(small(a, b.T) ** 2).sum(1) for a, b in zip(k, self._inverse)])
        var = np.maximum(1e-6, 1.0 - explained)
        mean = (self._weight[:, None] * means).sum(0)
        # hypotheses that disagree are a reason for doubt as well
        total = (self._weight[:, None] * (var + (means - mean) ** 2)).sum(0)
        return self._middle + self._scale * mean, self._scale * np.sqrt(total)

    def alike(self, c: Matrix, one: Matrix) -> Matrix:
        """How much each point is like another one: the kernel, 0 to 1, under the likeliest hypothesis."""
        return self._kernel(c, one[None, :], self._used[:1])[0, :, 0]

    def _kernel(self, a: Matrix, b: Matrix, thetas: Matrix) -> Matrix:
        np = self._np
        scale = np.exp(-thetas[:, :-1])[:, self._groups]
        r2 = np.empty((len(thetas), len(a), len(b)))
        for h in range(len(thetas)):
            u, v = a * scale[h], b * scale[h]
            r2[h] = (u**2).sum(1)[:, None] + (v**2).sum(1)[None, :] - 2 * small(u, v.T)
        r = np.sqrt(5 * np.maximum(r2, 0))
        like: Matrix = (1 + r + r * r / 3) * np.exp(-r)
        return like

    def _draw(self, count: int) -> Matrix:
        return self._typical + self._spread * self._rng.standard_normal((count, len(self._typical)))


def factor(k: Matrix) -> Matrix:
    """The inverses of the Cholesky factors of a stack of matrices (h, n, n), by blocks."""
    import numpy as np

    n = k.shape[1]
    k, out = k.copy(), np.zeros_like(k)
    for i in range(0, n, BLOCK):
        j = min(n, i + BLOCK)
        corner = np.linalg.inv(np.linalg.cholesky(k[:, i:j, i:j]))
        # what is left of the inverse: the rows of this block against the columns before it
        below = stacked(k[:, j:, i:j], corner.transpose(0, 2, 1))
        out[:, i:j, i:j] = corner
        out[:, i:j, :i] = stacked(corner, out[:, i:j, :i])
        if j < n:
            k[:, j:, j:] -= stacked(below, below.transpose(0, 2, 1))
            # forward substitution of the rows to come, which so far hold minus the sum over the blocks before
            out[:, j:, :j] -= stacked(below, out[:, i:j, :j])
    return out


def stacked(a: Matrix, b: Matrix) -> Matrix:
    """A stack of products, in pieces of `PIECE` multiplications each."""
    import numpy as np

    if not a.size or not b.size:
        return np.zeros((len(a), a.shape[1], b.shape[2]))
    rows = max(1, PIECE // (b.shape[1] * b.shape[2]))
    return np.concatenate([a[:, i : i + rows] @ b for i in range(0, a.shape[1], rows)], axis=1) if a.shape[1] > rows else a @ b


def small(a: Matrix, b: Matrix) -> Matrix:
    """The product of two matrices, in pieces of `PIECE` multiplications."""
    import numpy as np

    rows = max(1, PIECE // max(1, b.shape[0] * b.shape[1]))
    return np.concatenate([a[i : i + rows] @ b for i in range(0, len(a), rows)]) if len(a) > rows else a @ b
