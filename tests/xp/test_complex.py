"""Complex numbers, compared with NumPy: computed by NumPy node by node as small graphs are, and by kernels."""

import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import Tensor, xp

RNG = np.random.default_rng(3)
KINDS = ("complex64", "complex128")


def numbers(*shape: int, kind: str = "complex128") -> Any:
    return (RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)).astype(kind)


def same(function: Callable[..., Any], *arrays: Any, known: Callable[..., Any] | None = None, loose: float = 1.0) -> None:
    """One function of tensors and of arrays: the same shapes, types and values."""
    want = (known or function)(*(a.copy() if isinstance(a, np.ndarray) else a for a in arrays))
    found = function(*(Tensor(a) if isinstance(a, np.ndarray) else a for a in arrays))
    several = isinstance(want, (tuple, list))
    for w, t in zip(want if several else [want], found if several else [found], strict=True):
        w, v = np.asarray(w), t.numpy()
        assert (v.shape, v.dtype) == (w.shape, w.dtype) and t.shape == w.shape and t.dtype == w.dtype
        single = w.dtype in (np.complex64, np.float32)
        np.testing.assert_allclose(v, w, rtol=loose * (3e-5 if single else 1e-11), atol=loose * (1e-5 if single else 1e-12))


@pytest.fixture(params=[pytest.param("1", id="small"), pytest.param("0", id="kernels", marks=pytest.mark.slow)])
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_SMALL", request.param)


NAMES = {"abs": "abs", "asin": "arcsin", "acosh": "arccosh", "atan": "arctan"} | {n: n for n in (
    "negative", "square", "reciprocal", "exp", "log", "sqrt", "log10", "sin", "cos", "sinh", "cosh", "tan", "tanh", "sign", "conj", "real",
    "imag", "isnan", "isinf", "isfinite", "log1p", "expm1", "logical_not", "nonzero",
)}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_elementwise(kind: str, small: None) -> None:
    a, b = numbers(4, 5, kind=kind), numbers(4, 5, kind=kind)
    a[0, :4] = 0, 1, -1, 1e-20j
    real = b.real.copy()
    for name, numpy in NAMES.items():
        x = a if name in ("abs", "conj", "real", "imag", "exp", "sqrt", "nonzero", "sign", "logical_not") else b
        same(getattr(xp, name), x, known=getattr(np, numpy))
        if name in np.__dict__ and name not in ("nonzero",):
            same(getattr(np, numpy), x)
    for name in ("add", "subtract", "multiply", "divide", "equal", "not_equal"):
        for pair in ((a, b), (a, real), (real, b), (a, 2), (1.5, b), (a, 2 - 1j), (1j, b), (a[0], b)):
            same(getattr(xp, name), *pair, known=getattr(np, name))
    for power in (2, 3, -2, 0.5, 1j, 0):
        same(lambda x, p=power: x**p, b)
    same(lambda x, y: xp.where(xp.real(x) > 0, x, y), a, real, known=lambda x, y: np.where(x.real > 0, x, y))
    same(lambda x: 1j * x - 2, real, known=lambda x: np.asarray(1j * x - 2, kind))
    same(np.angle, a)


@pytest.mark.parametrize("kind", KINDS)
def test_reductions_products_and_movement(kind: str, small: None) -> None:
    a, b, c = numbers(4, 5, kind=kind), numbers(5, 3, kind=kind), numbers(4, 5, kind=kind)
    real = c.real.copy()
    for axis in (None, 1, (0, 1)):
        for name in ("sum", "prod", "mean", "std", "var", "any", "all", "count_nonzero"):
            same(
                lambda x, n=name, d=axis: getattr(xp, n)(x, axis=d, keepdims=True),
                a,
                known=lambda x, n=name, d=axis: getattr(np, n)(x, axis=d, keepdims=True),
            )
    same(lambda x: xp.cumulative_sum(x, axis=1), a, known=lambda x: np.cumsum(x, 1))
    same(lambda x: xp.cumulative_prod(x, axis=0), a, known=lambda x: np.cumprod(x, 0))
    same(lambda x: xp.sum(x, dtype=xp.complex128), real, known=lambda x: np.sum(x, dtype="complex128"))
    same(lambda x, y: x @ y, a, b, loose=10)
    same(lambda x, y: x @ y, real, b, loose=10)
    same(lambda x, y, z: xp.einsum("ij,jk,il->kl", x, y, z), a, b, c, known=lambda x, y, z: np.einsum("ij,jk,il->kl", x, y, z), loose=10)
    same(xp.vecdot, a, c, known=np.vecdot, loose=10)
    for f in (
        lambda x: x.T, lambda x: x.reshape(2, 10), lambda x: x[1:3, ::2], lambda x: x[..., -1], lambda x: x[1, 2], lambda x: x[x.real > 0],
        lambda x: x[:, None] * x, np.flip, np.triu, lambda x: np.concatenate([x, real]), lambda x: np.stack([x, x], 1), lambda x: x.astype("bool"),
        lambda x: np.roll(x, 2, 0), lambda x: np.diff(x), lambda x: np.diff(x, prepend=x, append=real), lambda x: np.tile(x, (2, 1)), np.zeros_like, lambda x: np.full_like(x, 1 + 2j),
        lambda x: np.full_like(x, 7), lambda x: np.full_like(x, fill_value=2, dtype="complex128"), lambda x: np.round(x, 1), lambda x: x.round(decimals=2),
        lambda x: np.pad(x, 1, constant_values=3), lambda x: np.pad(x, 1, constant_values=2j), np.cumprod, lambda x: np.roll(x, (1, 2), axis=0), lambda x: x.ravel("F"),
    ):  # fmt: skip
        same(f, a)
    same(xp.unique_values, np.array([1j, 2, 1j, 0], kind), known=np.unique)


@pytest.mark.parametrize("kind", KINDS)
def test_linear_algebra_and_transforms(kind: str) -> None:
    m = numbers(3, 4, 4, kind=kind)
    h = m @ m.conj().swapaxes(-1, -2) + 4 * np.eye(4, dtype=kind)
    for name in ("inv", "det", "cholesky", "eigvalsh", "slogdet", "pinv", "svdvals"):
        same(getattr(xp.linalg, name), h, known=getattr(np.linalg, name), loose=100)
    same(xp.linalg.solve, h, m, loose=100, known=np.linalg.solve)
    values, vectors = xp.linalg.eigh(Tensor(h))
    np.testing.assert_allclose((vectors * values[:, None, :] @ vectors.conj().mT).numpy(), h, rtol=1e-3, atol=1e-4)
    for function in (lambda x: xp.linalg.svd(x, full_matrices=False), xp.linalg.qr):
        first, *middle, last = function(Tensor(m))
        first = first * middle[0][:, None, :] if middle else first
        np.testing.assert_allclose((first @ last).numpy(), m, rtol=1e-3, atol=1e-4)
    for n in (0, 3, -1):
        same(lambda x, n=n: xp.linalg.matrix_power(x, n), h, known=lambda x, n=n: np.linalg.matrix_power(x, n), loose=100)
    for order in ("fro", "nuc", 1, -2, np.inf):
        same(lambda x, o=order: xp.linalg.matrix_norm(x, ord=o), m, known=lambda x, o=order: np.linalg.matrix_norm(x, ord=o), loose=10)
    a = numbers(6, 8, kind=kind)
    for names, x in (
        (("fft", "ifft", "irfft", "hfft", "fftn", "irfftn", "fftshift"), a),
        (("rfft", "ihfft", "fft", "rfftn", "ifftshift"), a.real.copy()),
    ):
        for name in names:
            options = (
                [{}]
                if "shift" in name
                else [{}, {"axes": (0,)}, {"s": (4, 3), "axes": (0, 1)}]
                if name[-1] == "n"
                else [{"n": 5}, {"axis": 0, "norm": "ortho"}]
            )
            for o in options:
                same(
                    lambda t, n=name, o=o: getattr(xp.fft, n)(t, **o), x, known=lambda t, n=name, o=o: getattr(np.fft, n)(t, **o), loose=10
                )


def test_writes_are_numpys() -> None:
    def changed(x: Any) -> Any:
        part = x[1:3]
        x[1] = 5
        part[0, 1] = 2j
        x[..., 3] *= 2
        part += 1
        x *= 2j
        x[x.real > 0] = 0
        for y in x.T.reshape(5, 2, 2):
            y[0] = 1j
        x.swapaxes(0, 1)[1, 2] = 8
        return x + 0

    same(changed, numbers(4, 5))


def test_captured_functions_gradients_and_memory() -> None:
    a, b = numbers(40, 50), numbers(40, 50)
    fast = tw.jit(lambda x, y: (x * y + xp.exp(x * 0.1), xp.abs(x)))
    for x, y in ((a, b), (Tensor(a), Tensor(b)), (Tensor(b), Tensor(a))):
        p, q = np.asarray(x), np.asarray(y)
        found = fast(x, y)
        np.testing.assert_allclose(found[0].numpy(), p * q + np.exp(p * 0.1), rtol=1e-11)
        np.testing.assert_allclose(found[1].numpy(), np.abs(p), rtol=1e-11)
    halved = tw.jit(lambda x: np.fft.irfft(np.fft.rfft(x, axis=-1) * 0.5), numpy=True)
    np.testing.assert_allclose(halved(a.real), a.real / 2, rtol=1e-9, atol=1e-12)
    product = tw.jit(lambda x, y: x @ y.T, numpy=True)
    for n in (40, 39, 7):
        np.testing.assert_allclose(product(a[:n], b), a[:n] @ b.T, rtol=1e-9)
    out = np.empty((40, 40), complex)
    assert product(a, b, out=out) is out
    np.testing.assert_allclose(out, a @ b.T, rtol=1e-9)
    slope = tw.grad(lambda z, w: xp.sum(xp.abs(z * w) ** 2))(Tensor(a), Tensor(b))
    np.testing.assert_allclose(slope.numpy(), 2 * a * np.abs(b) ** 2, rtol=1e-9)  # dL/dx + i dL/dy
    z = xp.asarray(a)
    assert np.shares_memory(z.numpy(), a) and np.shares_memory(np.from_dlpack(z), a)
    assert pickle.loads(pickle.dumps(z)).dtype is xp.complex128
    assert complex(z[0, 0]) == a[0, 0] and z.tolist() == a.tolist() and str(xp.asarray([1 + 2j]).dtype) == "complex64"


def test_a_captured_function_converts_to_the_type_that_numbers_have() -> None:
    z = numbers(3, 5)
    for f in (lambda x: x.astype("complex128"), lambda x: xp.astype(x, xp.complex128) * 2, lambda x: xp.asarray(x, copy=True)):
        same(tw.jit(f), z, known=lambda x, f=f: f(Tensor(x)).numpy())
        assert tw.jit(f)(Tensor(z)).shape == z.shape


def test_a_captured_function_writes_to_rows_that_it_goes_through() -> None:
    def f(x: Any) -> Any:
        x = x + 0
        first, *rest = x
        first[:] = rest[0]
        for row in rest:
            row[0] = 1
        return x

    z = numbers(3, 5)
    same(tw.jit(f), z, known=f)


def test_types_and_what_complex_numbers_do_not_have() -> None:
    assert xp.isdtype(xp.complex64, "complex floating") and xp.isdtype(xp.complex64, "numeric")
    assert xp.result_type(xp.complex64, xp.float64) is xp.complex128 and xp.result_type(xp.float32, 1j) is xp.complex64
    assert xp.can_cast(xp.float32, xp.complex64) and not xp.can_cast(xp.float64, xp.complex64) and not xp.can_cast(xp.complex64, xp.float32)
    assert xp.finfo(xp.complex64).eps == np.finfo("float32").eps and np.dtype(xp.complex64) == np.complex64
    assert set(xp.__array_namespace_info__().dtypes(kind="complex floating")) == {"complex64", "complex128"}
    z = Tensor(numbers(3))
    for function in (xp.max, xp.sort, xp.argmax, xp.floor, lambda x: xp.less(x, x), lambda x: x.clip(0, 1)):
        with pytest.raises(TypeError, match="no order"):
            function(z)
    for function in (lambda x: x.astype("float64"), lambda x: xp.sum(x, dtype=xp.float64), lambda x: xp.cumulative_sum(x, dtype="float32")):
        with pytest.raises(TypeError, match="take real"):
            function(z)
    with pytest.raises(TypeError, match="write their real part"):
        xp.zeros(3)[0] = 1j
    with pytest.raises(TypeError, match="transforms real"):
        xp.fft.rfft(z)
    with pytest.raises(tw.UsageError, match=r"tw\.grad"):
        Tensor([1j], requires_grad=True)


def test_an_array_of_a_short_complex_tensor_is_complex() -> None:
    a = np.arange(3) + 1j
    for t in (Tensor(a) * 2.0, (Tensor(a) + a)[1:], xp.sum(Tensor(a))):
        assert np.asarray(t).dtype == np.complex128 and np.array_equal(np.asarray(t), t.numpy())


@pytest.mark.parametrize("kind", KINDS)
def test_views_as_parts(kind: str) -> None:
    """Complex numbers as reals in the last dimension, and the other way round, before they are computed too."""
    x = numbers(3, 4, kind=kind)
    real = x.real.dtype
    same(lambda t: t.view(real), x)
    same(lambda t: (t + 1).view(str(real)).view(kind), x)
    same(lambda t: t.view(kind), x.view(real)[:, 2:])
    same(lambda t: xp.diag(t, k=1), x[:, 1], known=lambda a: np.diag(a, 1))
    with pytest.raises(tw.UsageError, match="memory is read as one type"):
        Tensor(x.view(real)[:, 1:]).view(kind)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "pow", "matmul", "eq", "ne"])
def test_operators_of_what_numpy_computed(name: str) -> None:
    """Square matrices and vectors, so that no other operator's result has another shape."""
    call = getattr(operator, name)
    rng = np.random.default_rng(7)
    for shape in ((3, 3), (3,)):
        a, b = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape) for _ in range(2))
        x, y = xp.asarray(a) + 0, xp.asarray(b) + 0
        assert x.known is not None and y.known is not None
        np.testing.assert_allclose(call(x, y).numpy(), call(a, b), rtol=1e-12)
        np.testing.assert_allclose(call(x, xp.asarray(b.real) + 0).numpy(), call(a, b.real), rtol=1e-12)


PARTS: dict[str, Callable[[Any], Any]] = {
    "real": lambda z: z.real, "imag": lambda z: z.imag, "of a part": lambda z: z[1:].imag, "of a transpose": lambda z: z.T.real,
    "a part of it": lambda z: z.imag[:, 1], "flipped": np.flip, "of what is flipped": lambda z: np.flip(z, 0).real,
}  # fmt: skip


@pytest.mark.parametrize("way", ["data", "computed", "constant", "captured"])
@pytest.mark.parametrize("name", PARTS)
def test_what_is_written_to_a_part_is_written_to_the_whole(name: str, way: str) -> None:
    def changed(z: Any) -> Any:
        part = PARTS[name](z)
        before = part * 2.0
        part[0] = 9.0
        part += 1.0
        z[1, 1] = 3.0 - 2.0j
        return before, part, z * 1.0

    a = np.zeros((3, 3), complex) if way == "constant" else np.arange(9.0).reshape(3, 3) * (1 - 2j)
    made: dict[str, Callable[[], Any]] = {
        "data": lambda: Tensor(a.copy()), "computed": lambda: Tensor(a) + 0, "constant": lambda: xp.zeros((3, 3), dtype="complex128"),
        "captured": lambda: Tensor(a) * 1.0,
    }  # fmt: skip
    call = tw.jit(lambda z: changed(z * 1.0)) if way == "captured" else changed
    for found, wanted in zip(call(made[way]()), changed(a.copy()), strict=True):
        np.testing.assert_array_equal(found.numpy(), wanted)


def test_parts_are_assigned_and_their_arrays_are_the_tensors() -> None:
    a = np.arange(4) * (1 + 1j)
    z = Tensor(a.copy())
    for x in (a, z):
        x.real, x.imag = 2.0, x.real * 3.0
        x.imag -= 1.0
    np.testing.assert_array_equal(z.numpy(), a)
    np.asarray(z.imag)[1] = 40.0
    assert z.tolist()[1] == 2 + 40j
    with pytest.raises(tw.UsageError, match="no place"):
        Tensor([1.0]).imag = 1.0
