"""Each primitive's gradient, and the gradient of that, against central differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from differences import check
from node_values import value
from tilewright.ir.errors import UsageError
from tilewright.ir.index import floordiv
from tilewright.ir.node import const as index
from tilewright.tensor import Tensor
from tilewright.tensor.gradients.reverse import gradients
from tilewright.tensor.graph import index_maps as maps
from tilewright.tensor.graph import primitives as P
from tilewright.tensor.graph.index_maps import IndexMap
from tilewright.tensor.graph.nodes import Gathered, HostCall, Loaded, Scattered, TensorNode
from tilewright.tensor.ops import elementwise as E
from tilewright.tensor.ops import linalg as L
from tilewright.tensor.ops import movement as M
from tilewright.tensor.ops import reduction as R
from tilewright.tensor.ops.neural import relu

pytestmark = pytest.mark.many
rng = np.random.default_rng(0)
A = rng.uniform(0.2, 1.5, (2, 3))
B = rng.uniform(0.3, 1.4, (2, 3))
SIGNED = rng.permutation(np.linspace(-1.3, 1.2, 12)).reshape(3, 4)


def node(a: Any) -> TensorNode:
    return Tensor(np.asarray(a)).node


UNARY = ["neg", "abs", "exp", "expm1", "log", "log1p", "sqrt", "tanh", "erf", "sin", "cos"]


@pytest.mark.parametrize("op", UNARY)
def test_unary(op: str) -> None:
    check(lambda x: E.floating(op, x), A if op in ("log", "log1p", "sqrt") else SIGNED, tolerance=1e-5)


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "max", "min", "pow"])
def test_binary(op: str) -> None:
    check(lambda x, y: E.binary(op, x, y), A, B)
    check(lambda x, y: E.binary(op, x, y), A, B[:, :1], twice=False)
    check(lambda x: E.binary(op, x, 1.3), A, twice=False)
    check(lambda x: E.binary(op, 1.3, x), A, twice=False)


def test_where_and_steps() -> None:
    mask = node(SIGNED > 0)
    check(lambda x, y: E.where(mask, E.binary("mul", x, y), y), SIGNED, SIGNED + 2)
    check(lambda x: E.binary("mul", E.floating("floor", x), x), A)
    check(lambda x, y: E.binary("remainder", x, y), A * 3, B)


def test_kinks() -> None:
    """relu has no slope at 0, and equal operands share that of their maximum."""
    x = node(np.array([-1.0, 0.0, 2.0]))
    (g,) = gradients([relu(x)], [node(np.ones(3))], [x])
    assert value(g, {}).tolist() == [0, 0, 1]
    (g,) = gradients([E.binary("max", x, 0.0)], [node(np.ones(3))], [x])
    assert value(g, {}).tolist() == [0, 0.5, 1]
    y = node(np.array([-1.0, 1.0, 2.0]))
    a, b = gradients([E.binary("max", x, y)], [node(np.ones(3))], [x, y])
    assert value(a, {}).tolist() == [0.5, 0, 0.5] and value(b, {}).tolist() == [0.5, 1, 0.5]


def sliced(x: TensorNode, *picks: tuple[int, int, int]) -> TensorNode:
    return P.view(x, maps.strided(x.shape, picks))


def window(x: TensorNode, taps: int, step: int, dilation: int = 1) -> TensorNode:
    """(n,) → (places, taps): x[place · step + tap · dilation]."""
    n = (x.shape[0] - (taps - 1) * dilation - 1) // step + 1
    o, t = maps.placeholder_axes((n, taps))
    return P.view(x, IndexMap((n, taps), x.shape, (o, t), (o * step + t * dilation,)))


def diagonal(x: TensorNode) -> TensorNode:
    (i,) = maps.placeholder_axes((3,))
    return P.view(x, IndexMap((3,), x.shape, (i,), (i, i)))


def halves(x: TensorNode) -> TensorNode:
    (i,) = maps.placeholder_axes((9,))
    return P.view(x, IndexMap((9,), x.shape, (i,), (floordiv(i, 2),), i < 8))


MOVES: dict[str, tuple[Callable[[TensorNode], TensorNode], tuple[int, ...]]] = {
    "reshape": (lambda x: M.reshape(x, (3, 4)), (2, 6)),
    "permute": (lambda x: M.permute(x, (2, 0, 1)), (2, 3, 2)),
    "expand": (lambda x: P.expand(x, (2, 3, 4)), (3, 1)),
    "one place": (lambda x: sliced(x, (1, 1, 1), (0, 1, 4)), (3, 4)),
    "slice": (lambda x: sliced(x, (1, 1, 2), (3, -1, 4)), (3, 4)),
    "steps": (lambda x: sliced(x, (0, 2, 2), (4, -2, 3)), (3, 5)),
    "pad": (lambda x: P.view(x, maps.padded(x.shape, (1, 0), (2, 3))), (2, 3)),
    "crop of a pad": (lambda x: sliced(P.view(x, maps.padded(x.shape, (2,), (2,))), (1, 2, 4)), (5,)),
    "window": (lambda x: window(x, 3, 1), (7,)),
    "window in steps": (lambda x: window(x, 3, 2), (8,)),
    "dilated window": (lambda x: window(x, 3, 2, 2), (9,)),
    "padded window": (lambda x: window(P.view(x, maps.padded(x.shape, (1,), (1,))), 3, 1), (5,)),
    "diagonal": (diagonal, (3, 3)),
    "halves": (halves, (5,)),
    "repeat": (lambda x: M.reshape(P.expand(M.reshape(x, (3, 1)), (3, 2)), (6,)), (3,)),
}


@pytest.mark.parametrize("name", MOVES)
def test_movement(name: str) -> None:
    move, shape = MOVES[name]
    (g,) = check(lambda x: E.binary("mul", move(x), move(x)), rng.standard_normal(shape))
    (linear,) = check(move, rng.standard_normal(shape), twice=False)
    assert (linear.op == "scatter") == (name == "halves") and g is not None


def test_empty_and_unit_shapes() -> None:
    x = node(np.zeros((0, 3)))
    for y in (M.permute(x, (1, 0)), R.sum(x, 0), P.expand(node(np.zeros((1, 3))), (0, 3))):
        leaf = x if y.op != "view" or y.src[0] is x else y.src[0]
        (g,) = gradients([y], [P.const(1, y.dtype, y.shape)], [leaf])
        assert g.shape == leaf.shape and not value(g, {}).any()
    check(lambda x: R.sum(E.binary("mul", M.reshape(x, (1, 1)), x), keepdims=True), np.ones((1,)))


@pytest.mark.parametrize("combine", ["add", "mul", "max", "min"])
def test_reductions_and_scans(combine: str) -> None:
    x = rng.permutation(np.linspace(0.5, 1.5, 12)).reshape(3, 2, 2)
    for over in ((0,), (1, 2), (0, 1, 2)):
        check(lambda x, over=over: P.reduce(combine, x, over), x)
    for dim in (0, 2):
        check(lambda x, dim=dim: P.scan(combine, x, dim), x)


def test_products_with_zeros() -> None:
    for zeros in (1, 2):
        x = np.array([1.5, 2.0, -1.0, 0.5])
        x[1 : 1 + zeros] = 0
        check(lambda x: P.reduce("mul", x, (0,)), x)
        check(lambda x: P.scan("mul", x, 0), x, twice=False)


def test_equal_extremes_share() -> None:
    x = node(np.array([1.0, 3.0, 3.0]))
    (g,) = gradients([P.reduce("max", x, (0,))], [node(np.float64(1.0))], [x])
    assert value(g, {}).tolist() == [0, 0.5, 0.5]


def test_gathers() -> None:
    axes = maps.placeholder_axes((4, 3))
    ids = node(np.array([2, 0, 2, 1]))
    rows = P.view(ids, IndexMap((4, 3), (4,), axes, (axes[0],)))
    (g,) = check(lambda x: P.gather(x, Gathered(axes, (Loaded(0), axes[1])), (rows,), (4, 3)), rng.standard_normal((5, 3)))
    assert g.op == "scatter" and g.arg.combine == "add"  # rows may meet
    (i,) = maps.placeholder_axes((4,))
    (g,) = check(lambda x: P.gather(x, Gathered((i,), (i, Loaded(0))), (ids,), (4,)), rng.standard_normal((4, 3)))
    assert g.op == "elementwise"  # a comparison of places, which fuses
    (j,) = maps.placeholder_axes((1,))
    check(lambda x: P.gather(x, Gathered((j,), (index(1), Loaded(0))), (node(np.array([2])),), (1,)), rng.standard_normal((2, 3)))


@pytest.mark.parametrize("combine", ["add", "mul", "max", "min"])
def test_scatters(combine: str) -> None:
    ids = node(np.array([2, 0, 2, 1, 7]))  # the last one leaves the result
    (i,) = maps.placeholder_axes((5,))
    x = np.array([0.5, 1.5, 0.8, 2.0, 3.0])
    to = Scattered(combine, (i,), (Loaded(0),))

    def made(x: TensorNode) -> TensorNode:
        out = P.scatter(x, to, (ids,), (3,))
        return E.binary("mul", out, out)

    check(made, x, twice=combine == "add")


def test_host_calls_need_a_rule() -> None:
    call = HostCall("sort_for_test", lambda a: np.sort(a))
    x = node(A)
    y = P.host(call, (x,), A.shape, x.dtype)
    with pytest.raises(UsageError, match=r"sort_for_test.*stop_gradient"):
        gradients([y], [node(A)], [x])
    (g,) = gradients([P.stop_gradient(y)], [node(A)], [x])
    assert not value(g, {}).any()


def test_products_of_matrices() -> None:
    check(L.matmul, rng.standard_normal((2, 3)), rng.standard_normal((3, 2)))
    check(L.matmul, rng.standard_normal((2, 2, 3)), rng.standard_normal((3, 2)), twice=False)
    check(L.matmul, rng.standard_normal(3), rng.standard_normal((2, 3, 2)), twice=False)


def test_types_follow_their_nodes() -> None:
    x = Tensor(np.ones(3, np.float16)).node
    y = E.binary("mul", P.cast(x, Tensor(np.float32(1)).dtype), 2.0)
    (g,) = gradients([y], [P.const(1, y.dtype, y.shape)], [x])
    assert g.dtype is x.dtype
    with pytest.raises(UsageError, match="only floats"):
        gradients([y], [P.const(1, y.dtype, y.shape)], [node(np.array([1, 2]))])
