"""Kernels of the user's as operations on tensors: over indices, in tiles and from sources; and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import KernelBuilder, Tensor, UsageError, tile, xp
from tilewright.ir import Kernel, tanh
from tilewright.ir.rewriter import in_place

SOURCE = """
#define TILE 8
void saxpy(int n, float a, const float *x, const float *y, float *z) {
    for (int i = 0; i < n; i += TILE) {
        const int end = i + TILE < n ? i + TILE : n;
        for (int j = i; j < end; j++) z[j] = a * x[j] + y[j];
    }
}
"""


@tw.operation
def softcap(x: Any, cap: float = 3.0) -> Kernel:
    """cap · tanh(x / cap), of rows."""
    kb = KernelBuilder("softcap")
    i, j = kb.axis("m", x.shape[0]), kb.axis("n", x.shape[1])
    a = kb.input("x", x.shape, x.dtype)
    kb.store("y", x.dtype, x.shape, (i, j), tanh(a[i, j] / cap) * cap)
    return kb.build()


tw.register_gradient(softcap, lambda dy, y, x, cap=3.0: dy * (1 - (y / cap) ** 2))


@tile.kernel
def blocks(t: Any, m: int = 64, n: int = 64, k: int = 64) -> None:
    a, b, c = t.input("a", (m, k)), t.input("b", (k, n)), t.output("c", (m, n))
    rows, cols = t.grid(m=(m, t.block("bm", (16, 32))), n=(n, t.block("bn", (32, 64))))
    acc = t.zeros((rows.size, cols.size))
    for ks in t.loop("k", k, min(k, 64)):
        acc += t.dot(a[rows, ks], b[ks, cols])
    c[rows, cols] = acc


@tw.operation
def product(a: Any, b: Any) -> Kernel:
    """In tiles."""
    made: Kernel = blocks(m=a.shape[0], k=a.shape[1], n=b.shape[1])
    return made


tw.register_gradient(product, lambda dy, y, a, b: (dy @ b.mT, a.mT @ dy))


@tw.operation
def extremes(x: Any) -> Kernel:
    """The least and the largest of each row."""
    kb = KernelBuilder("extremes")
    i, j, k = kb.axis("m", x.shape[0]), kb.axis("n@low", x.shape[1]), kb.axis("n@high", x.shape[1])
    a = kb.input("x", x.shape, x.dtype)
    kb.store("low", x.dtype, (x.shape[0],), (i,), kb.min("least", (i,), j, a[i, j])[i])
    kb.store("high", x.dtype, (x.shape[0],), (i,), kb.max("most", (i,), k, a[i, k])[i])
    return kb.build()


tw.register_gradient(extremes, lambda dys, ys, x: sum(d[:, None] * (x == y[:, None]) for d, y in zip(dys, ys, strict=True)))


def _x(*shape: int, dtype: str = "float32", seed: int = 0) -> Tensor:
    return Tensor(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


def _close(a: Any, b: Any) -> None:
    np.testing.assert_allclose(a.numpy(), b.numpy() if isinstance(b, Tensor) else b, rtol=2e-5, atol=2e-5)


def _both(x: Tensor, w: Tensor) -> Tensor:
    y: Tensor = softcap(product(x * 2, w) + 1, cap=2.0)
    return y


def _meant(x: Tensor, w: Tensor) -> Tensor:
    return (((x * 2) @ w + 1) / 2).tanh() * 2


WAYS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "eager": lambda f: f,
    "jit": tw.jit,
    "grad": lambda f: tw.grad(lambda x, w: f(x, w).sum(), argnums=(0, 1)),
    "jit of grad": lambda f: tw.jit(tw.grad(lambda x, w: f(x, w).sum(), argnums=(0, 1))),
    "vmap": lambda f: lambda x, w: tw.vmap(f, in_axes=(0, None))(xp.stack([x, x + 1, x * 2]), w),
    "grad of vmap": lambda f: tw.grad(lambda x, w: tw.vmap(f, in_axes=(0, None))(xp.stack([x, x + 1]), w).sum(), argnums=(0, 1)),
    "vmap of grad": lambda f: lambda x, w: tw.vmap(tw.grad(lambda x, w: f(x, w).sum()), in_axes=(None, 0))(x, xp.stack([w, w * 2])),
    "jit of vmap": lambda f: tw.jit(lambda x, w: tw.vmap(f, in_axes=(None, 0))(x, xp.stack([w, w + 1]))),
    "checkpoint": lambda f: tw.jit(tw.grad(lambda x, w: tw.checkpoint(f)(x, w).sum())),
    "scan": lambda f: tw.jit(lambda x, w: tw.scan(lambda c, s: (f(c, w)[:, : c.shape[1]] + s, c.sum()), x, xp.stack([x, x * 2]))),
    "grad of scan": lambda f: tw.grad(
        lambda w, x: tw.scan(lambda c, s: (f(c, w)[:, : c.shape[1]] + s, None), x, xp.stack([x, x * 2]))[0].sum()
    ),
    "cond": lambda f: tw.jit(lambda x, w: tw.cond(x.sum() > -1e9, lambda: f(x, w), lambda: f(x, w) * 0)),
}


@pytest.mark.parametrize("way", WAYS)
def test_kernels_of_ones_own_are_operations(way: str) -> None:
    """The same function, of own kernels and of tensors' operations."""
    x, w = _x(13, 21), _x(21, 21, seed=1)
    given = (w, x) if way == "grad of scan" else (x, w)
    found, wanted = (tw.tree_map(lambda t: t, WAYS[way](f)(*given)) for f in (_both, _meant))
    tw.tree_map(_close, found, wanted)


@pytest.mark.parametrize("captured", [False, True])
def test_several_outputs_are_one_kernel(captured: bool) -> None:
    x = _x(9, 33)
    f = tw.jit(extremes) if captured else extremes
    low, high = f(x)
    assert np.array_equal(low.numpy(), x.numpy().min(1)) and np.array_equal(high.numpy(), x.numpy().max(1))
    if captured:
        assert [c.name for c in f.programs[0].calls] == ["extremes"]
    one = tw.jit(lambda x: extremes(x)[1] * 2)
    assert np.array_equal(one(x).numpy(), x.numpy().max(1) * 2)
    slope = tw.grad(lambda x: (extremes(x)[1] * 3).sum())(x).numpy()
    assert np.array_equal(slope, 3.0 * (x.numpy() == x.numpy().max(1, keepdims=True)))


def test_sizes_that_differ_share_a_program() -> None:
    f = tw.jit(numpy=True)(lambda x: softcap(x, cap=2.0) * 2)
    for n in (5, 9, 17):
        x = np.random.default_rng(n).standard_normal((n, 8))
        np.testing.assert_allclose(f(x), np.tanh(x / 2) * 4, rtol=1e-12)
    assert len(f.programs) == 2
    tiles = tw.jit(numpy=True)(lambda x, w: product(x, w))
    for n in (5, 9):
        x = np.ones((n, 8), np.float32)
        assert np.array_equal(tiles(x, np.ones((8, 3), np.float32)), np.full((n, 3), 8.0))


def test_a_kernel_is_found_again_by_another_capture() -> None:
    x, w = _x(13, 21), _x(21, 21)
    first, second = tw.jit(_both), tw.jit(_both)
    a, b = first(x, w), second(x, w)
    assert np.array_equal(a.numpy(), b.numpy())
    assert second.programs[0].warm


def test_indices_are_checked() -> None:
    @tw.operation
    def rows(table: Any, ids: Any) -> Kernel:
        kb = KernelBuilder("rows")
        i, j = kb.axis("n", ids.shape[0]), kb.axis("d", table.shape[1])
        a = kb.input("table", table.shape, table.dtype)
        k = kb.input("ids", ids.shape, ids.dtype, range=(0, table.shape[0] - 1))
        kb.store("y", table.dtype, (ids.shape[0], table.shape[1]), (i, j), a[k[i], j])
        return kb.build()

    table = _x(10, 4)
    for f in (rows, tw.jit(rows)):
        assert np.array_equal(f(table, np.array([3, 9])).numpy(), table.numpy()[[3, 9]])
        with pytest.raises(tw.OutOfRangeError, match="element of ids 10 is out of range"):
            f(table, np.array([3, 10])).numpy()


@dataclass
class State:
    """A carry with a field that is no tensor."""

    h: Any
    parts: dict[str, Any]
    name: str | None = "state"


def test_dataclasses_keywords_and_nested_trees_are_arguments_and_results() -> None:
    @tw.jit
    def step(s: State, *, by: Any, more: Any = None) -> State:
        return State(s.h * by, {"a": (s.parts["a"] + 1, [s.h]), "none": None}, s.name)

    for i in range(3):
        s = State(_x(4, seed=i), {"a": _x(2), "b": (1, 2)}, "mine")
        found = step(s, by=_x(4), more={"k": (s.h,)})
        assert isinstance(found, State) and found.name == "mine" and found.parts["none"] is None
        assert np.array_equal(found.h.numpy(), s.h.numpy() * _x(4).numpy())
        assert np.array_equal(found.parts["a"][0].numpy(), s.parts["a"].numpy() + 1)
    assert len(step.programs) == 1
    last, _ = tw.scan(lambda s, x: (State(s.h + x, s.parts, None), None), State(_x(3) * 0, {"w": _x(2)}, None), np.ones((5, 3), np.float32))
    assert last.h.tolist() == [5.0] * 3
    slopes = tw.grad(lambda s: (s.h * s.parts["w"]).sum())(State(_x(3), {"w": _x(3, seed=1)}, "mine"))
    assert np.array_equal(slopes.h.numpy(), _x(3, seed=1).numpy()) and slopes.name == "mine"
    with pytest.raises(UsageError, match=r"carry\.h begins as float32\[3\]"):
        tw.scan(lambda s, x: (State(s.h.astype("float64"), s.parts, None), None), State(_x(3), {}, None), np.ones((5, 3), np.float32))


@dataclass
class Layer:
    w: Any
    act: Callable[[Any], Any]
    kind: str = "full"


def test_settings_of_a_dataclass_are_no_leaves() -> None:
    def run(p: Layer, x: Any) -> Any:
        return p.act(x @ p.w) if p.kind == "full" else x @ p.w

    p, x = Layer(_x(5, 3), tw.nn.relu), _x(4, 5)
    f = tw.jit(run)
    product = x.numpy() @ p.w.numpy()
    for _ in range(3):
        np.testing.assert_allclose(f(p, x).numpy(), product.clip(0), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(f(replace(p, kind="no"), x).numpy(), product, rtol=1e-4, atol=1e-5)
    slopes = tw.jit(tw.grad(lambda p: run(p, x).sum()))(p)
    stepped = tw.tree_map(lambda w, g: w - g, p, slopes)
    assert stepped.act is tw.nn.relu and stepped.w.shape == (5, 3)
    np.testing.assert_allclose(slopes.w.numpy(), x.numpy().T @ (product > 0), rtol=1e-4, atol=1e-5)


@pytest.fixture
def saxpy(tmp_path: Path) -> tw.tensor.operations.Operation:
    (tmp_path / "saxpy.c").write_text(SOURCE)

    @tw.operation
    def saxpy(x: Any, y: Any, a: float = 0.5, role: str = "out") -> Any:
        vector = {"dtype": "float", "shape": ["n"]}
        args = [{"name": "n", "dtype": "int", "value": "n"}, {"name": "a", "dtype": "float", "value": a}]
        args += [{"name": "x", **vector}, {"name": "y", **vector}, {"name": "z", **vector, "role": role}]
        return tw.best_source(tmp_path / "saxpy.c", "saxpy", args=args, sizes={"n": x.shape[0]}, params={"TILE": [8, 64]})

    tw.register_gradient(saxpy, lambda dy, z, x, y, a=0.5: (dy * a, dy))
    return saxpy


def test_a_source_is_an_operation(saxpy: Any) -> None:
    x, y = _x(100), _x(100, seed=1)
    for f in (saxpy, tw.jit(saxpy)):
        np.testing.assert_allclose(f(x, y, a=2.0).numpy(), x.numpy() * 2 + y.numpy(), rtol=1e-6)
    assert tw.jit(tw.grad(lambda x: (saxpy(x * 2, y, a=3.0) * 2).sum()))(x).tolist() == [12.0] * 100
    many = xp.stack([x, y, x])
    assert tw.vmap(lambda x: saxpy(x, y))(many).shape == (3, 100)
    assert tw.grad(lambda y: tw.vmap(lambda x: saxpy(x, y))(many).sum())(y).tolist() == [3.0] * 100
    with pytest.raises(UsageError, match=r'writes its argument z in place, .* role "out"'):
        saxpy(x, y, role="inout")
    with pytest.raises(UsageError, match=r"the argument y is float32\[100\], and y is float32\[50\]"):
        saxpy(x, y[:50])


def test_what_is_refused_says_what_to_do() -> None:
    @tw.operation
    def doubled(x: Any, inside: bool = True, part: int = 0) -> Any:
        kb = KernelBuilder("doubled")
        (n,) = x.shape
        i = kb.axis("n", n - part)
        kb.store("y", x.dtype, x.shape, (i,), kb.input("x", x.shape, x.dtype)[i] * 2.0)
        made = kb.build()
        return in_place(made, {"y": "x"}) if inside else made

    x = _x(8)
    assert doubled(x, inside=False).tolist() == (x * 2).tolist()
    for f in (doubled, tw.jit(doubled)):
        with pytest.raises(UsageError, match=r"doubled writes y in the memory of its input x, .*assign.* \(at .*test_operations"):
            f(x)
        with pytest.raises(UsageError, match="does not write every element of its output y"):
            f(x, inside=False, part=1)
    with pytest.raises(UsageError, match=r"without a gradient \(at .*register_gradient\(doubled, rule\)"):
        tw.grad(lambda x: doubled(x, inside=False).sum())(x)
    with pytest.raises(UsageError, match=r"the input b is float32\[21, 8\], and b is float32\[20, 8\]"):
        product(_x(13, 21), _x(20, 8))
    with pytest.raises(UsageError, match=r"the input a is float32\[13, 21\], and a is float64\[13, 21\]"):
        product(_x(13, 21, dtype="float64"), _x(21, 8))
    with pytest.raises(UsageError, match="missing a required argument: 'b'"):
        product(_x(13, 21))
    with pytest.raises(UsageError, match="no argument is a tensor"):
        softcap(3.0)
    with pytest.raises(UsageError, match="returned int"):
        tw.operation(lambda x: 3)(x)
    with pytest.raises(UsageError, match="2 gradients for 1 inputs"):
        wrong = tw.operation(softcap.__wrapped__)
        tw.register_gradient(wrong, lambda dy, y, x: (dy, dy))
        tw.grad(lambda x: wrong(x).sum())(_x(2, 3))
    with pytest.raises(
        UsageError, match=r"called with \(dy, y, input 1, cap=20.0\), and takes \(dy, y, x\): got an unexpected .*'cap' \(at "
    ):
        tw.grad(lambda x: wrong(x, cap=20.0).sum())(_x(2, 3))
    tw.register_gradient(wrong, lambda dy, y, x, cap: dy * cap)  # (the operation's own default)
    assert np.array_equal(tw.grad(lambda x: wrong(x).sum())(_x(2, 3)).numpy(), np.full((2, 3), 3, np.float32))
    with pytest.raises(UsageError, match=r"gets the shape and dtype of a tensor, and no values.* \(at .*test_operations"):
        tw.operation(lambda x, n: n * 2)(_x(3), _x())
    with pytest.raises(UsageError, match=r"its gradient rule gives float32\[\] for an input float32\[2, 3\]"):
        tw.register_gradient(wrong, lambda dy, y, x: dy.sum())
        tw.grad(lambda x: wrong(x).sum())(_x(2, 3))


def test_an_exported_library_has_the_kernel(tmp_path: Path) -> None:
    x, w = _x(13, 21), _x(21, 5)
    tw.export.write(tmp_path / "lib", lambda x, w: product(x, w) * 2, x, w, name="lib")
    found = tw.load_exported(tmp_path / "lib")(x.numpy(), w.numpy())
    np.testing.assert_allclose(found, x.numpy() @ w.numpy() * 2, rtol=1e-5, atol=1e-5)
