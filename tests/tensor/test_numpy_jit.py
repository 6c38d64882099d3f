"""`jit(numpy=True)`: functions of NumPy arrays, with one list of kernels for a class of sizes."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
import tilewright as tw
from tilewright import xp


def arrays(*shapes, dtype="float64"):
    rng = np.random.default_rng(7)
    return [rng.standard_normal(s).astype(dtype) for s in shapes]


def energy(x, w):
    return (w * x**2).sum(1)


@dataclass
class Pair:
    x: object
    kind: str = "sum"


class Named(NamedTuple):
    x: object


def test_dataclasses_and_named_tuples_are_trees_of_arrays():
    f = tw.jit(lambda p: Pair(p.x * 2 if p.kind == "sum" else p.x, p.kind), numpy=True)
    for n in (3, 4):
        for kind, times in (("sum", 2), ("other", 1)):
            found = f(Pair(np.ones(n), kind))
            assert type(found.x) is np.ndarray and found.x.tolist() == [times] * n and found.kind == kind
        assert tw.jit(lambda p: p.x + 1, numpy=True)(Named(np.ones(n))).tolist() == [2.0] * n


def test_arrays_in_and_out_and_one_list_of_kernels_for_all_sizes():
    fast = tw.jit(energy, numpy=True)
    for n, m in [(10, 6), (11, 6), (500, 6), (40, 9), (41, 33), (2, 2), (900, 700)]:
        x, w = arrays((n, m), (n, m))
        found = fast(x, w)
        assert type(found) is np.ndarray and found.dtype == np.float64
        np.testing.assert_allclose(found, energy(x, w), rtol=1e-9)
    assert len(fast.programs) == 3  # (10, 6); n × 6; n × m
    assert fast(*arrays((1, 5), (1, 5))).shape == (1,)
    assert len(fast.programs) == 4  # a dimension of 1 broadcasts: another class
    np.testing.assert_allclose(fast(*(a.T for a in arrays((7, 9), (7, 9)))), energy(*(a.T for a in arrays((7, 9), (7, 9)))))
    assert len(fast.programs) == 4


def test_sizes_that_were_equal_may_differ_later():
    fast = tw.jit(lambda x, y: (x * 2).sum() + (y * 3).sum(), numpy=True)
    for n, m in [(4, 4), (6, 6), (6, 7), (9, 30)]:
        x, y = arrays(n, m)
        np.testing.assert_allclose(fast(x, y), (x * 2).sum() + (y * 3).sum())
    with pytest.raises(tw.UsageError, match="cannot be broadcast"):
        tw.jit(lambda x, y: x + y, numpy=True)(*arrays(3, 4))


def test_types_are_numpys_and_functions_of_numpy_are_answered():
    def f(x, k, scale=1.0):
        away = np.sin(x) / k + scale
        return {"mean": away.mean(), "kept": np.where(away > 0, away, np.zeros_like(away)), "stack": np.stack([x, x * 2]), "name": "f"}

    fast = tw.jit(f, numpy=True)
    for x in (np.arange(6, dtype="int64"), *arrays(8, 9, dtype="float32")):
        for k in (2, 3):
            found, known = fast(x, k, scale=0.5), f(x, k, 0.5)
            assert found["name"] == "f" and isinstance(found["mean"], np.floating)
            for key in ("mean", "kept", "stack"):
                assert found[key].dtype == known[key].dtype
                np.testing.assert_allclose(found[key], known[key], rtol=1e-6)


def test_out_and_arguments_that_are_written_to():
    fast = tw.jit(energy, numpy=True)
    for n in (5, 6, 7, 7):
        x, w = arrays((n, 4), (n, 4))
        out = np.empty(n)
        assert fast(x, w, out=out) is out
        np.testing.assert_allclose(out, energy(x, w))

    def shift(x, k):
        x += k
        x[0] = 0
        return x.sum()

    moved = tw.jit(shift, numpy=True)
    for n in (4, 5, 5, 6):
        (a,), (b,) = arrays(n), arrays(n)
        assert moved(a, 2.5) == pytest.approx(shift(b, 2.5))
        np.testing.assert_array_equal(a, b)


def test_what_needs_a_size_is_compiled_for_each_shape():
    def steps(x):
        total = x * 0
        for i in range(x.shape[0]):
            total = total + x[i]
        return total / np.sqrt(len(x))

    fast = tw.jit(steps, numpy=True)
    for n in (3, 4, 5):
        (x,) = arrays(n)
        np.testing.assert_allclose(fast(x), steps(x))
    assert len(fast.programs) == 3


def test_branches_on_data_say_what_to_do():
    fast = tw.jit(lambda x: x if x.sum() > 0 else -x, numpy=True)
    with pytest.raises(tw.UsageError, match=r"write xp\.where\(condition, a, b\)"):
        fast(np.ones(3))
    with pytest.raises(tw.UsageError, match="leave symbols"):
        tw.jit(energy, numpy=True, donate="x")
    with pytest.raises(tw.UsageError, match="masked"):
        tw.jit(lambda x: x + 1, numpy=True)(np.ma.masked_array([1.0, 2.0], [True, False]))


def test_methods_and_functions_inside_of_others():
    class Model:
        scale = 3.0

        @tw.jit(numpy=True)
        def apply(self, x):
            return x * self.scale

    assert Model().apply(np.ones(2)).tolist() == [3.0, 3.0]
    inner = tw.jit(lambda x: x * 2, numpy=True)
    outer = tw.jit(lambda x: inner(x) + 1, numpy=True)
    assert outer(np.ones(2)).tolist() == [3.0, 3.0]


def test_integers_beside_floats_have_numpys_type():
    kinds = ["int8", "uint16", "int32", "uint64", "int64", "bool", "float16", "float32", "float64"]
    fast = tw.jit(lambda x, y: (x * y, np.where(x > 0, x, y)), numpy=True)
    rng = np.random.default_rng(1)
    for a in kinds:
        for b in ("float32", "int64"):
            x, y = rng.integers(0, 2, 5).astype(a), rng.integers(1, 9, 5).astype(b)
            for found, wanted in zip(fast(x, y), (x * y, np.where(x > 0, x, y)), strict=True):
                assert found.dtype == wanted.dtype
                np.testing.assert_array_equal(found, wanted)
    large = np.array([(1 << 24) + 1, 5])
    assert tw.jit(lambda n, x: (n + x)[0], numpy=True)(large, np.zeros(2, np.float32)) == (1 << 24) + 1
    assert (xp.asarray(large) + xp.zeros(2, dtype=xp.float32)).dtype == xp.float32  # (where floats are float32 by default)


def test_complex_sums_are_numbers_in_tuples_too():
    found = tw.jit(lambda z: (z.sum(), {"mean": z.mean()}), numpy=True)(np.array([1 + 2j, 3]))
    assert type(found[0]) is type(found[1]["mean"]) is np.complex128 and found[0] == 4 + 2j


def test_matrices_are_refused_where_their_operators_are_others():
    m = np.matrix([[1.0, 2.0], [3.0, 4.0]])
    for call in (lambda: tw.jit(lambda x: x * x, numpy=True)(m), lambda: xp.asarray(np.eye(2)) * m, lambda: m * xp.asarray(np.eye(2))):
        with pytest.raises(tw.UsageError, match="a matrix, whose"):
            call()
    assert tw.Tensor(m).tolist() == m.tolist()
    with pytest.raises(TypeError, match=r"int64.* would become float64"):
        tw.jit(lambda x, y: x.__iadd__(y), numpy=True)(np.arange(3), np.ones(3))
