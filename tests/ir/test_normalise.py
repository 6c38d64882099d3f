"""Fewer axes, the same computation."""

import gc
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tilewright import named_kernels
from tilewright.ir import KernelBuilder, const, exp, float32, int64, sym
from tilewright.ir.evaluation import evaluate, twin
from tilewright.ir.index import evaluate as index_value
from tilewright.ir.normal_form import normalise


def draw(kernel, mode="float64", seed=0, sizes=None):
    rng = np.random.default_rng(seed)
    out = {}
    for b in kernel.inputs:
        shape = tuple(d if isinstance(d, int) else index_value(d, {s: sizes[s.arg.name] for s in kernel.symbols}) for d in b.shape)
        if b.dtype.is_int:
            out[b.name] = rng.integers(*b.range, shape, dtype=b.dtype.np, endpoint=True)
        else:
            out[b.name] = twin.draw(shape, rng.integers(1 << 30)) if mode == "twin" else rng.standard_normal(shape).astype(b.dtype.np)
    return out


def same(kernel, mode="float64", sizes=None):
    """Evaluate both forms; returns the normal one."""
    normal = normalise(kernel)
    assert normalise(normal) is normal
    assert [(b.name, b.dtype, b.role) for b in normal.buffers] == [(b.name, b.dtype, b.role) for b in kernel.buffers]
    inputs = draw(kernel, mode, sizes=sizes)
    want = evaluate(kernel, inputs, sizes, mode)
    shapes = {
        b.name: tuple(d if isinstance(d, int) else index_value(d, {s: sizes[s.arg.name] for s in kernel.symbols}) for d in b.shape)
        for b in normal.buffers
    }
    got = evaluate(normal, {n: a.reshape(shapes[n]) for n, a in inputs.items()}, sizes, mode)
    for name, a in want.items():
        if mode == "twin" or a.dtype.kind in "iu":
            assert np.array_equal(got[name].reshape(a.shape), a)
        else:
            np.testing.assert_allclose(got[name].reshape(a.shape), a, rtol=1e-12, atol=1e-12)
    return normal


def families(kernel):
    return list(dict.fromkeys(a.arg.family for a in kernel.axes))


@pytest.mark.parametrize("mode", ["float64", "twin"])
@pytest.mark.parametrize("name", named_kernels.NAMES)
def test_named_kernels_keep_their_results(name, mode):
    d = named_kernels.get(name)
    same(d.kernel(d.odd_shape), mode)


@pytest.mark.many
@pytest.mark.parametrize("name", named_kernels.NAMES)
@given(data=st.data())
@settings(max_examples=8, deadline=None)
def test_random_small_shapes_with_unit_sizes(name, data):
    d = named_kernels.get(name)
    keep = {"kh", "kw", "stride", "pad", "groups", "c", "oc", "h", "hk", "w", "causal", "shared"}
    shape = {n: e if n in keep else data.draw(st.integers(1, 4), label=n) for n, e in d.odd_shape.items()}
    same(d.kernel(shape))


EXPECTED = {
    "add": ["m_n"],
    "gelu": ["m_n"],
    "softmax": ["m", "n"],
    "layernorm": ["m", "n"],
    "sum_rows": ["m", "n"],
    "matmul": ["m", "n", "k"],
    "batched_matmul": ["b", "m", "n", "k"],
    "transpose": ["n", "m"],
    "cumsum": ["m", "n"],
    "embedding": ["n", "d"],
    "max_pool2d": ["n_c", "oh", "ow", "kh", "kw"],
    "attention": ["key", "b_h", "row", "d"],
}


@pytest.mark.parametrize("name", EXPECTED)
def test_which_axes_are_left(name):
    d = named_kernels.get(name)
    assert families(normalise(d.kernel(d.odd_shape))) == EXPECTED[name]


def test_a_one_by_one_convolution_is_a_matmul():
    normal = same(named_kernels.make("conv2d", {"n": 1, "c": 6, "h": 5, "w": 7, "oc": 4, "kh": 1, "kw": 1, "pad": 0}))
    assert families(normal) == ["oc", "oh_ow", "c"]
    assert [b.shape for b in normal.buffers] == [(6, 35), (4, 6), (4, 35)]


def test_unit_axes_go_and_a_reduction_over_nothing_is_its_element():
    assert families(same(named_kernels.make("matmul", {"m": 1, "n": 5, "k": 3}))) == ["n", "k"]
    normal = same(named_kernels.make("matmul", {"m": 4, "n": 5, "k": 1}))
    assert families(normal) == ["m", "n"]
    assert isinstance(normal.body[0].expr, type(const(1)))
    assert normalise(named_kernels.make("add", {"m": 1, "n": 1})).axes == ()


def test_sites_of_merged_families_stay_sites():
    kb = KernelBuilder("k")
    x = kb.input("x", (3, 4, 5), float32)
    a, b = kb.axis("a", 3), kb.axis("b", 4)
    c1, c2 = kb.axis("c@sum", 5), kb.axis("c@out", 5)
    total = kb.sum("total", (a, b), c1, x[a, b, c1])
    kb.store("y", float32, (3, 4, 5), (a, b, c2), x[a, b, c2] * total[a, b])
    normal = same(kb.build())
    assert [n.arg.name for n in normal.axes] == ["a_b", "c@sum", "c@out"]
    assert [b.shape for b in normal.buffers] == [(12, 5), (12, 5)]


def test_reduced_axes_merge():
    kb = KernelBuilder("k")
    x = kb.input("x", (3, 4, 5), float32)
    a, b, c = kb.axis("a", 3), kb.axis("b", 4), kb.axis("c", 5)
    total = kb.sum("total", (), (a, b, c), exp(x[a, b, c]))
    kb.store("y", float32, (), (), total[()])
    normal = same(kb.build())
    assert [(n.arg.name, n.arg.extent) for n in normal.axes] == [("a_b_c", 60)]


def test_flat_indices_merge():
    """x[i·4 + j] of a flat buffer."""
    kb = KernelBuilder("k")
    x = kb.input("x", (12,), float32)
    i, j = kb.axis("i", 3), kb.axis("j", 4)
    kb.store("y", float32, (3, 4), (i, j), x[i * 4 + j])
    assert families(same(kb.build())) == ["i_j"]


def two_axes(expr, shape=(3, 4), out=(3, 4)):
    """y[i, j] = expr(x, i, j)."""
    kb = KernelBuilder("k")
    x = kb.input("x", shape, float32)
    i, j = kb.axis("i", 3), kb.axis("j", 4)
    kb.store("y", float32, out, (i, j), expr(x, i, j))
    return kb.build()


@pytest.mark.parametrize(
    ("why", "expr", "shape"),
    [
        ("transposed read", lambda x, i, j: x[j, i], (4, 3)),
        ("broadcast row", lambda x, i, j: x[i, j] * x[i, const(0)], (3, 4)),
        ("broadcast column", lambda x, i, j: x[i, j] + x[const(0), j], (3, 4)),
        ("padded rows", lambda x, i, j: x[i, j], (3, 5)),
        ("shifted", lambda x, i, j: x[i, j + 1], (3, 5)),
        ("strided", lambda x, i, j: x[i * 2, j], (6, 4)),
        ("mask of one axis", lambda x, i, j: x.masked(i < 2, i, j), (3, 4)),
        ("axis as a number", lambda x, i, j: x[i, j] * j.cast(float32), (3, 4)),
        ("wrong factor", lambda x, i, j: x[i * 3 + j], (12,)),
    ],
)
def test_what_forbids_merging(why, expr, shape):
    assert families(same(two_axes(expr, shape))) == ["i", "j"]


def test_masks_over_the_merged_index_allow_it():
    kernel = two_axes(lambda x, i, j: x.masked(i * 4 + j < 7, i, j))
    assert families(same(kernel)) == ["i_j"]


def test_an_access_without_the_axes_does_not_forbid_it():
    assert families(same(two_axes(lambda x, i, j: x[i, j] + x[const(1), const(2)]))) == ["i_j"]


def test_values_between():
    kb = KernelBuilder("k")
    x = kb.input("x", (3, 4), float32)
    i, j, p, q = kb.axis("i", 3), kb.axis("j", 4), kb.axis("i@b", 3), kb.axis("j@b", 4)
    v = kb.value("v", (p, q), exp(x[p, q]))
    kb.store("y", float32, (3, 4), (i, j), v[i, j] + 1.0)
    assert [n.arg.name for n in same(kb.build()).axes] == ["i_j@b", "i_j"]


def test_a_value_read_transposed_forbids_it():
    kb = KernelBuilder("k")
    x = kb.input("x", (4, 4), float32)
    i, j, p, q = kb.axis("i", 4), kb.axis("j", 4), kb.axis("i@b", 4), kb.axis("j@b", 4)
    v = kb.value("v", (p, q), exp(x[p, q]))
    kb.store("y", float32, (4, 4), (i, j), v[j, i])
    assert families(same(kb.build())) == ["i", "j"]


def test_scatter_merges_only_where_rows_do():
    kb = KernelBuilder("k")
    x, ids = kb.input("x", (5, 2, 3), float32), kb.input("ids", (5,), int64, range=(0, 3))
    n, a, b = kb.axis("n", 5), kb.axis("a", 2), kb.axis("b", 3)
    kb.store("y", float32, (4, 2, 3), (n, a, b), x[n, a, b], indices=(ids[n], a, b), combine="add")
    assert families(same(kb.build())) == ["n", "a_b"]


def test_symbolic_outer_extents_merge_and_inner_ones_do_not():
    m = sym("rows", 1, 9)
    normal = same(named_kernels.make("add", {"m": m, "n": 4}), sizes={"rows": 3})
    assert families(normal) == ["m_n"] and normal.axes[0].arg.extent is m * 4
    assert families(same(named_kernels.make("add", {"m": 4, "n": m}), sizes={"rows": 3})) == ["m", "n"]


def test_merged_names_do_not_clash():
    kb = KernelBuilder("k")
    x, other = kb.input("x", (3, 4), float32), kb.input("i_j", (3, 4), float32)
    i, j = kb.axis("i", 3), kb.axis("j", 4)
    kb.store("y", float32, (3, 4), (i, j), x[i, j] + other[i, j])
    (a,) = same(kb.build()).axes
    assert a.arg.name not in {b.name for b in kb.build().buffers}


def test_constants_fold():
    kernel = two_axes(lambda x, i, j: x[i, j] * (const(2.0) * 3.0 - 5.0) + (const(1.0) / 4.0) * x[i, j] - 0.0)
    text = repr(normalise(kernel).stores[0].expr)
    assert text == "(x[i_j] + (0.25 * x[i_j]))"
    same(kernel)


def test_folding_rounds_to_the_type():
    kernel = two_axes(lambda x, i, j: x[i, j] + (const(0.1) + 0.2))
    (c,) = {n.arg for n in normalise(kernel).stores[0].expr.src if n.op == "const"}
    assert c == float(np.float32(0.1) + np.float32(0.2))


def test_division_by_zero_is_left_to_run_time():
    kernel = two_axes(lambda x, i, j: x[i, j] + const(1.0) / 0.0)
    assert repr(normalise(kernel).stores[0].expr) == "(x[i_j] + (1 / 0))"


def test_adding_zero_is_kept_for_the_sign_of_zero():
    kernel = two_axes(lambda x, i, j: x[i, j] + 0.0)
    assert repr(normalise(kernel).stores[0].expr) == "(x[i_j] + 0)"


@pytest.mark.parametrize("shape", [{"m": 16, "n": 300}, {"m": 1, "n": 300}], ids=["its own normal form", "another"])
def test_a_kernel_that_nobody_holds_is_let_go(shape):
    """A process that asks for a program every second must not keep them all."""
    from tilewright.ir.normal_form import canonical

    kernel = named_kernels.make("softmax", shape)
    normal = normalise(kernel)
    assert canonical(kernel).hash == canonical(normal).hash
    gone = [weakref.ref(kernel), weakref.ref(normal)]
    del kernel, normal
    gc.collect()
    assert [r() for r in gone] == [None, None]


def test_what_nobody_reads_is_left_out():
    """Nor what only that reads; inputs stay parameters."""
    kb = KernelBuilder("left")
    i, j, k, o = kb.axis("m", 8), kb.axis("n", 4), kb.axis("m@2", 8), kb.axis("m@o", 8)
    x, z = kb.input("x", (8, 4), float32), kb.input("z", (8,), float32)
    kept = kb.sum("kept", (i,), j, x[i, j])
    lone = kb.max("lone", (), k, z[k] + kept[k])
    kb.value("unread", (o,), lone[()] * z[o])
    kb.store("y", float32, (8,), (o,), kept[o] * 2)
    assert list(same(kb.build()).values) == ["kept"]
