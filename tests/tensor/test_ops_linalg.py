"""Products, Einstein sums and decompositions against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from tilewright import Tensor, xp
from tilewright.ir.errors import UsageError
from tilewright.tensor.ops import einsum as E

from tests.tensor.agree import Agree

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(5)


def of(*shape: int) -> tuple[np.ndarray, Tensor]:  # type: ignore[type-arg]
    x = RNG.standard_normal(shape).astype(np.float32)
    return x, Tensor(x)


def test_products_of_truth_values_are_numpys(agree: Agree, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum of them is whether any holds: in products, Einstein sums and combined writes."""
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    x, y = RNG.random((3, 40)) < 0.2, RNG.random((40, 5)) < 0.2
    s, t = Tensor(x), Tensor(y)
    agree("matmul of bools", s @ t, x @ y)
    agree("a row times a column", s[0] @ t[:, 0], x[0] @ y[:, 0])
    agree("einsum of bools", xp.einsum("ij,jk->k", s, t), np.einsum("ij,jk->k", x, y))
    agree("no elements", s[:, :0] @ t[:0], x[:, :0] @ y[:0])
    places = np.array([1, 1, 0])
    for combine, of in (("add", np.logical_or), ("max", np.logical_or), ("mul", np.logical_and), ("min", np.logical_and)):
        wanted = x.copy()
        of.at(wanted, places, x[::-1])
        agree(f"index_put by {combine}", s.index_put(places, Tensor(x[::-1].copy()), combine), wanted)


def test_products_as_numpys(agree: Agree) -> None:
    for a, b in (((3, 4), (4, 5)), ((4,), (4,)), ((4,), (4, 5)), ((3, 4), (4,)), ((2, 1, 3, 4), (5, 4, 2)), ((1, 1), (1, 1))):
        (x, s), (y, t) = of(*a), of(*b)
        agree(f"matmul {a} {b}", s @ t, x @ y)
    (x, s), (y, t) = of(3, 4, 5), of(4, 5, 2)
    agree("tensordot", xp.tensordot(s, t), np.tensordot(x, y, 2))
    agree("tensordot by axes", xp.tensordot(s, t, axes=((2, 1), (1, 0))), np.tensordot(x, y, ((2, 1), (1, 0))))
    agree("outer product", xp.tensordot(s[0, 0], t[0, 0], axes=0), np.tensordot(x[0, 0], y[0, 0], 0))
    agree("vecdot", xp.vecdot(s, t[None, :, :, 0].mT.mT[:, :4], axis=-1), np.einsum("abc,bc->ab", x, y[:, :, 0]))
    (u, p), (v, q) = of(6, 3), of(6, 3)
    agree("cross", xp.linalg.cross(p, q), np.cross(u, v))
    agree("trace", xp.linalg.trace(s, offset=1), np.trace(x, 1, 1, 2))
    agree("outer", xp.linalg.outer(p[0], q[1]), np.outer(u[0], v[1]))
    agree("power", xp.linalg.matrix_power(p[:3], 3), np.linalg.matrix_power(u[:3], 3))
    i, j = RNG.integers(-9, 9, (3, 4)), RNG.integers(-9, 9, (4, 2))
    agree("integers", Tensor(i) @ Tensor(j), i @ j)


SUMS = [
    ("ij,jk->ik", (3, 4), (4, 5)), ("ij,kj->ik", (3, 4), (5, 4)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)), ("ij->ji", (3, 4)), ("ij->", (3, 4)),
    ("ii->i", (4, 4)), ("ii", (4, 4)), ("i,j->ij", (3,), (4,)), ("ij,ij->i", (3, 4), (3, 4)), ("...ij,...jk->...ik", (2, 3, 4), (1, 4, 5)),
    ("ab,bc,cd->ad", (3, 4), (4, 5), (5, 2)), ("ab,bc,cd,da", (3, 4), (4, 5), (5, 2), (2, 3)), ("ij,jk", (3, 4), (4, 5)),
    ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)), ("i,i,i->", (3,), (3,), (3,)), ("aab,bc->ac", (2, 2, 3), (3, 2)),
]  # fmt: skip


def test_einstein_sums_as_numpys(agree: Agree) -> None:
    for text, *shapes in SUMS:
        pairs = [of(*s) for s in shapes]
        agree(text, xp.einsum(text, *(t for _, t in pairs)), np.einsum(text, *(x for x, _ in pairs)), 64)


def test_einsum_contracts_in_the_cheapest_order() -> None:
    sizes = {"a": 100, "b": 2, "c": 100, "d": 2}
    terms = [tuple("ab"), tuple("bc"), tuple("cd")]
    assert E.order(terms, tuple("ad"), sizes) == (0, (1, 2))
    assert E._greedy(terms, tuple("ad"), sizes) in ((0, (1, 2)), ((1, 2), 0))


def test_einsum_errors() -> None:
    x = xp.ones((2, 3))
    for text, match in (("ij,jk->ik", "2 terms for 1"), ("ijk->i", "do not name"), ("ij->z", "result's labels")):
        with pytest.raises(UsageError, match=match):
            xp.einsum(text, x)
    with pytest.raises(UsageError, match="label 'j' has 3 and 2"):
        xp.einsum("ij,jk->ik", x, x)


def test_products_of_wrong_shapes_name_them() -> None:
    x = xp.ones((2, 3))
    with pytest.raises(UsageError, match=r"matmul of \[2, 3\] and \[2, 3\]: 3 columns do not meet 2 rows"):
        x @ x
    with pytest.raises(UsageError, match="vecdot"):
        xp.vecdot(x, x, axis=0)
    with pytest.raises(UsageError, match="tensordot"):
        xp.tensordot(x, x, axes=1)


def test_decompositions_are_numpys(agree_small: Agree) -> None:
    x = RNG.standard_normal((2, 4, 4)).astype(np.float32)
    spd = x @ x.swapaxes(-1, -2) + 4 * np.eye(4, dtype=np.float32)
    t, s = Tensor(x), Tensor(spd)
    la = xp.linalg
    agree_small("cholesky", la.cholesky(s), np.linalg.cholesky(spd))
    agree_small("upper", la.cholesky(s, upper=True), np.linalg.cholesky(spd, upper=True))
    agree_small("det", la.det(t), np.linalg.det(x))
    agree_small("inv", la.inv(s), np.linalg.inv(spd))
    agree_small("eigh", list(la.eigh(s)), list(np.linalg.eigh(spd)))
    agree_small("eigvalsh", la.eigvalsh(s), np.linalg.eigvalsh(spd))
    agree_small("qr", list(la.qr(t[:, :, :3])), list(np.linalg.qr(x[:, :, :3])))
    agree_small("qr complete", list(la.qr(t[:, :, :3], mode="complete")), list(np.linalg.qr(x[:, :, :3], "complete")))
    agree_small("svd", list(la.svd(t[:, :3], full_matrices=False)), list(np.linalg.svd(x[:, :3], False)))
    agree_small("svdvals", la.svdvals(t), np.linalg.svd(x, compute_uv=False))
    agree_small("slogdet", list(la.slogdet(t)), list(np.linalg.slogdet(x)))
    agree_small("solve", la.solve(s, t[0]), np.linalg.solve(spd, x[0]), 64)
    agree_small("solve a vector", la.solve(s, t[0, 0]), np.linalg.solve(spd, x[0, 0][:, None])[..., 0], 64)
    agree_small("pinv", la.pinv(t[:, :3]), np.linalg.pinv(x[:, :3]), 64)
    agree_small("rank", la.matrix_rank(Tensor(np.ones((2, 3, 3), np.float32))), np.array([1, 1]))
    for order in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        agree_small(f"norm {order}", la.matrix_norm(t, ord=order, keepdims=True), np.linalg.norm(x, order, (-2, -1), True))
    for order in (2, 1, 0, 3, np.inf, -np.inf, -1):
        agree_small(f"vector norm {order}", la.vector_norm(t, axis=1, ord=order), np.linalg.norm(x, order, 1), 32)
    with pytest.raises(UsageError, match="cholesky: Matrix is not positive definite"):
        la.cholesky(-s).numpy()
