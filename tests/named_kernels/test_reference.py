"""Every named kernel, in every type, against its NumPy cross-check."""

import numpy as np
import pytest
from kernel_oracles import ORACLES
from tilewright import named_kernels
from tilewright.ir import KernelError, dtype, sym
from tilewright.ir.body import Fold
from tilewright.ir.evaluation import evaluate, evaluate_error

CASES = [(n, t) for n in named_kernels.NAMES for t in named_kernels.get(n).dtypes]
FOLDS = ("argmax", "attention", "attention_full", "attention_lse", "attention_dq", "attention_dkv")


def compare(got, want):
    assert set(got) == set(want)
    for name, a in want.items():
        assert got[name].shape == a.shape, name
        np.testing.assert_allclose(got[name], a, rtol=1e-6, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(("name", "t"), CASES)
def test_evaluates_to_its_reference(name, t, draw):
    d = named_kernels.get(name)
    kernel = d.kernel(d.odd_shape, t)
    inputs = draw(kernel)
    compare(evaluate(kernel, inputs), ORACLES[name].reference(inputs, d.odd_shape))


@pytest.mark.parametrize(("name", "t"), CASES)
@pytest.mark.covering
def test_types_of_its_parameters(name, t):
    d = named_kernels.get(name)
    kernel = d.kernel(d.odd_shape, t)
    assert kernel.name == name
    assert any(b.dtype is dtype(t) for b in kernel.inputs)
    assert all(b.range is not None for b in kernel.inputs if b.dtype.is_int)
    # 16-bit floats are storage only
    for v in kernel.values.values():
        assert v.dtype.compute is v.dtype or not v.dtype.is_float


@pytest.mark.parametrize("name", named_kernels.NAMES)
def test_the_error_scale_is_of_the_size_of_the_result(name, draw):
    """A scale that explodes would let every wrong result pass."""
    d = named_kernels.get(name)
    kernel = d.kernel(d.odd_shape)
    for value, scale in evaluate_error(kernel, draw(kernel)).values():
        assert np.isfinite(value).all() and np.isfinite(scale).all()
        assert scale.max() <= 1e3 * (1 + np.abs(value).max())


@pytest.mark.parametrize("mode", ["float64", "twin"])
@pytest.mark.parametrize("tile", [1, 3, 4, 64, 1000])
@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.covering(pairs=True)
def test_cutting_a_fold_does_not_change_it(name, tile, mode, draw):
    d = named_kernels.get(name)
    kernel = d.kernel(d.odd_shape)
    assert any(isinstance(item, Fold) for item in kernel.body)
    inputs = draw(kernel, mode=mode)
    whole, cut = evaluate(kernel, inputs, mode=mode), evaluate(kernel, inputs, mode=mode, tile=tile)
    for o in whole:
        if mode == "twin":
            assert np.array_equal(cut[o], whole[o])
        else:
            np.testing.assert_allclose(cut[o], whole[o], rtol=1e-12, atol=1e-12)


def test_a_fully_masked_tile_gives_no_nan(draw):
    """Query 0 sees key 0 only: every later tile of keys is masked for it."""
    kernel = named_kernels.make("attention", {"b": 1, "h": 1, "s": 16, "d": 4})
    inputs = draw(kernel)
    cut = evaluate(kernel, inputs, tile=2)["y"]
    assert np.isfinite(cut).all()
    np.testing.assert_allclose(cut[0, 0, 0], inputs["v"][0, 0, 0], rtol=1e-6)


def test_argmax_takes_the_first_of_equals():
    kernel = named_kernels.make("argmax", {"m": 4, "n": 9})
    x = np.zeros((4, 9), np.float32)
    x[1, [2, 5, 8]] = 1.0
    x[2] = -np.inf
    x[3] = np.inf
    for tile in (None, 1, 2, 4):
        assert evaluate(kernel, {"x": x}, tile=tile)["y"].tolist() == [0, 2, 0, 0]


def test_argmax_takes_the_first_nan():
    kernel = named_kernels.make("argmax", {"m": 4, "n": 9})
    x = np.zeros((4, 9), np.float32)
    x[0, [3, 5]] = np.nan
    x[1] = np.inf
    x[1, 8] = -np.nan
    x[2] = np.nan
    for tile in (None, 1, 2, 4):
        assert evaluate(kernel, {"x": x}, tile=tile)["y"].tolist() == x.argmax(1).tolist() == [3, 8, 0, 0]


@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("pad", [0, 1, 2])
@pytest.mark.covering(pairs=True)
def test_conv2d_options(groups, stride, pad, draw):
    d = named_kernels.get("conv2d")
    shape = {**d.odd_shape, "oc": 12, "groups": groups, "stride": stride, "pad": pad, "kw": 2}
    kernel = d.kernel(shape)
    inputs = draw(kernel)
    compare(evaluate(kernel, inputs), ORACLES["conv2d"].reference(inputs, shape))
    if pad == 0:
        assert not any(n.op == "load" and n.arg[1] for e in kernel.expressions() for n in e.src), "no mask without padding"


def test_conv2d_refuses_what_does_not_fit():
    with pytest.raises(KernelError, match="groups=3 must divide c=4 and oc=6"):
        named_kernels.make("conv2d", {"c": 4, "oc": 6, "groups": 3})
    with pytest.raises(KernelError, match="a 3x3 window does not fit a 1x9 input with pad=0"):
        named_kernels.make("conv2d", {"h": 1, "w": 9, "pad": 0})
    with pytest.raises(KernelError, match="size h must be an int"):
        named_kernels.make("conv2d", {"h": sym("h", 1, 9)})


def test_max_pool_refuses_empty_windows():
    with pytest.raises(KernelError, match="pad=2 is more than half of the 3x3 window"):
        named_kernels.make("max_pool2d", {"pad": 2})


def test_max_pool_of_negative_numbers_ignores_the_padding(draw):
    kernel = named_kernels.make("max_pool2d", {"n": 1, "c": 1, "h": 4, "w": 4})
    x = -1.0 - np.abs(draw(kernel)["x"])
    assert (evaluate(kernel, {"x": x})["y"] < 0).all()


SYMBOLIC = {
    "matmul": ("m",),
    "matmul_bias_gelu": ("m", "n"),
    "batched_matmul": ("b", "k"),
    "softmax": ("m", "n"),
    "log_softmax": ("m", "n"),
    "layernorm_stats": ("m", "n"),
    "rmsnorm": ("n",),
    "cross_entropy": ("m", "n"),
    "sum_all": ("n",),
    "cumsum": ("n",),
    "argmax": ("n",),
    "embedding": ("v", "n"),
    "embedding_grad": ("n",),
    "conv2d": ("n",),
    "max_pool2d": ("n", "c"),
    "attention": ("s", "d"),
    "attention_lse": ("s",),
    "attention_dq": ("s", "d"),
    "attention_dkv": ("s",),
}


@pytest.mark.parametrize("name", SYMBOLIC)
def test_symbolic_extents(name, draw):
    d = named_kernels.get(name)
    sizes = {n: d.odd_shape[n] for n in SYMBOLIC[name]}
    kernel = d.kernel({**d.odd_shape, **{n: sym(n, 2, 2000) for n in sizes}})
    assert [s.arg.name for s in kernel.symbols] == sorted(sizes)
    inputs = draw(kernel, **sizes)
    compare(evaluate(kernel, inputs, sizes), ORACLES[name].reference(inputs, d.odd_shape))


def test_a_symbolic_kernel_serves_every_size(draw):
    kernel = named_kernels.make("matmul", {"m": sym("m", 1, 64), "n": 5, "k": 7})
    for m in (1, 2, 33, 64):
        inputs = draw(kernel, m=m)
        np.testing.assert_allclose(evaluate(kernel, inputs)["c"], inputs["a"].astype(float) @ inputs["b"].astype(float))
