"""Transposed convolutions and strided gradients against loops over taps, on a product of sizes: values, gradients, and that nothing is
multiplied by inserted zeros."""

from __future__ import annotations

from itertools import product
from math import gcd, prod

import numpy as np
import pytest
from tilewright.ir.node import walk
from tilewright.ir.normal_form import normalise
from tilewright.tensor import Tensor, checkpoint, grad, jit, nn, vjp, vmap
from tilewright.tensor.fusion.call_list import call_list

Shape = tuple[int, ...]


@pytest.fixture(autouse=True)
def kernels_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy evaluates no small graph."""
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")


def oracle(x: np.ndarray, w: np.ndarray, stride: Shape, padding: Shape, extra: Shape, dilation: Shape, groups: int) -> np.ndarray:
    """Every tap's products added where the tap writes them, in float64."""
    (batch, channels, *space), (_, outs, *kernel) = x.shape, w.shape
    sizes = [(i - 1) * s + d * (k - 1) + 1 for i, s, d, k in zip(space, stride, dilation, kernel)]
    full = np.zeros((batch, outs * groups, *(a + m for a, m in zip(sizes, extra))))
    inner = channels // groups
    for g, tap in product(range(groups), np.ndindex(*kernel)):
        part = np.einsum("bc...,co->bo...", x[:, g * inner : (g + 1) * inner], w[(slice(g * inner, (g + 1) * inner), slice(None), *tap)])
        at = tuple(slice(d * k, d * k + (i - 1) * s + 1, s) for d, k, i, s in zip(dilation, tap, space, stride))
        full[(slice(None), slice(g * outs, (g + 1) * outs), *at)] += part
    whole = full.shape[2:]
    return full[(slice(None), slice(None), *(slice(p, e - p) for p, e in zip(padding, whole)))]


def strided(x: np.ndarray, w: np.ndarray, stride: Shape, padding: Shape, dilation: Shape, groups: int) -> np.ndarray:
    """A convolution, tap by tap."""
    (batch, _, *space), (outs, inner, *kernel) = x.shape, w.shape
    wide = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    sizes = [(i + 2 * p - d * (k - 1) - 1) // s + 1 for i, p, d, k, s in zip(space, padding, dilation, kernel, stride)]
    y = np.zeros((batch, outs, *sizes))
    each = outs // groups
    for g, tap in product(range(groups), np.ndindex(*kernel)):
        at = tuple(slice(d * k, d * k + (m - 1) * s + 1, s) for d, k, m, s in zip(dilation, tap, sizes, stride))
        seen = wide[(slice(None), slice(g * inner, (g + 1) * inner), *at)]
        y[:, g * each : (g + 1) * each] += np.einsum("bc...,oc->bo...", seen, w[(slice(g * each, (g + 1) * each), slice(None), *tap)])
    return y


def close(found: Tensor, wanted: np.ndarray) -> None:
    assert found.shape == wanted.shape
    assert np.abs(found.numpy() - wanted).max() <= 2e-5 * max(1.0, float(np.abs(wanted).max()))


def form(n: int, small: bool, stride: int, dilation: int, padding: int) -> tuple[Shape, ...] | None:
    """(space, kernel, stride, padding, output padding, dilation) of n dimensions, 0 for numbers that differ from dimension to dimension;
    None where nothing would be left."""
    space, kernel = ((3,) * n, (2, 1, 4)[:n]) if small else ((5, 4, 3)[:n], (3, 2, 5)[:n])
    s, d = ((value,) * n if value else (2, 1, 3)[:n] for value in (stride, dilation))
    p = tuple(min(padding, (d[i] * (kernel[i] - 1) + 1) // 2) for i in range(n))
    extra = tuple(min(padding, max(s[i], d[i]) - 1) for i in range(n))
    left = [(e - 1) * a + b * (k - 1) + 1 + m - 2 * q for e, k, a, b, q, m in zip(space, kernel, s, d, p, extra)]
    return (space, kernel, s, p, extra, d) if min(left) > 0 else None


@pytest.mark.many
@pytest.mark.covering
@pytest.mark.parametrize("n", (1, 2, 3))
@pytest.mark.parametrize("small", (False, True))
@pytest.mark.parametrize("stride", (2, 3, 0, 1))
@pytest.mark.parametrize("dilation", (1, 2, 3, 0))
@pytest.mark.parametrize("padding", (0, 1, 2))
@pytest.mark.parametrize("groups", (1, 2, 3))
def test_values_and_gradients(n: int, small: bool, stride: int, dilation: int, padding: int, groups: int) -> None:
    found = form(n, small, stride, dilation, padding)
    if found is None:
        return
    space, kernel, strides, paddings, extra, dilations = found
    rng = np.random.default_rng(n)
    x, w = rng.standard_normal((2, 2 * groups, *space)), rng.standard_normal((2 * groups, 3, *kernel))
    b = rng.standard_normal(3 * groups)
    where = (strides, paddings, dilations, groups)
    wanted = oracle(x, w, strides, paddings, extra, dilations, groups) + b.reshape(-1, *(1,) * n)
    how = {"stride": strides, "padding": paddings, "output_padding": extra, "dilation": dilations, "groups": groups}
    given = [Tensor(a.astype(np.float32)) for a in (x, w, b)]
    y, pull = vjp(lambda x, w, b: nn.conv_transpose(x, w, b, **how).relu(), *given)
    close(y, np.maximum(wanted, 0))
    dy = rng.standard_normal(wanted.shape)
    dx, dw, db = pull(Tensor(dy.astype(np.float32)))
    seen = np.where(wanted > 0, dy, 0)
    close(dx, strided(seen, w, *where)[(..., *(slice(0, i) for i in space))])
    close(db, seen.sum(axis=(0, *range(2, 2 + n))))
    for at in [tuple(rng.integers(0, e) for e in w.shape) for _ in range(4)]:  # linear in w: what a weight of 1 in one place meets
        one = np.zeros_like(w)
        one[at] = 1
        assert abs(dw.numpy()[at] - (seen * oracle(x, one, strides, paddings, extra, dilations, groups)).sum()) < 2e-4


@pytest.mark.many
@pytest.mark.covering
@pytest.mark.parametrize("n", (1, 2, 3))
@pytest.mark.parametrize("small", (False, True))
@pytest.mark.parametrize("stride", (2, 3, 0))
@pytest.mark.parametrize("dilation", (1, 2, 0))
@pytest.mark.parametrize("padding", (0, 1))
@pytest.mark.parametrize("groups", (1, 3))
def test_gradients_of_strided_convolutions(n: int, small: bool, stride: int, dilation: int, padding: int, groups: int) -> None:
    found = form(n, small, stride, dilation, padding)
    assert found is not None
    space, kernel, strides, paddings, _, dilations = found
    size = tuple(e + d * (k - 1) + 3 for e, k, d in zip(space, kernel, dilations))  # some inputs are behind the last window
    rng = np.random.default_rng(n)
    x, w = rng.standard_normal((2, 2 * groups, *size)), rng.standard_normal((3 * groups, 2, *kernel))
    how = {"stride": strides, "padding": paddings, "dilation": dilations, "groups": groups}
    y, pull = vjp(lambda x: nn.conv(x, Tensor(w.astype(np.float32)), **how), Tensor(x.astype(np.float32)))
    close(y, strided(x, w, strides, paddings, dilations, groups))
    dy = rng.standard_normal(y.shape)
    rest = tuple(
        e + 2 * p - d * (k - 1) - 1 - (m - 1) * s for e, p, d, k, m, s in zip(size, paddings, dilations, kernel, y.shape[2:], strides)
    )
    close(pull(Tensor(dy.astype(np.float32)))[0], oracle(dy, w, strides, paddings, rest, dilations, groups))


@pytest.mark.parametrize("n", (1, 2, 3))
def test_many_channels_of_few_elements_are_multiplied_before_windows_are_added(n: int) -> None:
    rng, (space, kernel) = np.random.default_rng(n), (((4, 2, 3)[:n]), (3, 2, 4)[:n])
    strides, paddings, extra, dilations = (2, 1, 3)[:n], (1, 0, 2)[:n], (1, 0, 1)[:n], (1, 2, 1)[:n]
    x, w = rng.standard_normal((3, 2, 64, *space)), rng.standard_normal((64, 5, *kernel))
    wanted = np.stack([oracle(x[:, i], w, strides, paddings, extra, dilations, 1) for i in range(2)], 1)
    how = {"stride": strides, "padding": paddings, "output_padding": extra, "dilation": dilations}
    weights = Tensor(w.astype(np.float32))
    made = nn.conv_transpose(Tensor(x[:, 0].astype(np.float32)), weights, **how)
    assert len(call_list([made.node]).calls) == 2
    close(made, wanted[:, 0])
    close(vmap(lambda x: nn.conv_transpose(x, weights, **how))(Tensor(x.astype(np.float32))), wanted)
    assert len(call_list([nn.conv_transpose(Tensor(x[:, 0, :16].astype(np.float32)), weights[:16], **how).node]).calls) == 1


@pytest.mark.parametrize(("kernel", "stride", "padding", "extra"), [((2, 5), (2, 5), (0, 0), (0, 0)), ((1, 2), (3, 4), (1, 0), (2, 1))])
def test_taps_of_windows_that_do_not_overlap_are_not_summed(kernel: Shape, stride: Shape, padding: Shape, extra: Shape) -> None:
    rng = np.random.default_rng(2)
    x, w = rng.standard_normal((2, 64, 3, 4)), rng.standard_normal((64, 3, *kernel))
    how = {"stride": stride, "padding": padding, "output_padding": extra}
    made = nn.conv_transpose(Tensor(x.astype(np.float32)), Tensor(w.astype(np.float32)), **how)
    calls = call_list([made.node]).calls
    sums = [v for c in calls for v in c.kernel.values.values() if v.reduce_axes]
    assert len(calls) == 2 and len(sums) == 1
    close(made, oracle(x, w, stride, padding, extra, (1, 1), 1))


@pytest.mark.parametrize(("n", "kernel", "stride", "dilation"), [(1, 4, 2, 1), (2, 3, 2, 1), (2, 2, 2, 2), (3, 3, 3, 1), (2, 5, 3, 2)])
def test_zeros_are_not_multiplied(n: int, kernel: int, stride: int, dilation: int) -> None:
    """One kernel, which has at most the products of taps rounded up to whole classes, and no test of a remainder in its sum."""
    x, w = Tensor(np.ones((1, 4, *(9,) * n), np.float32)), Tensor(np.ones((4, 6, *(kernel,) * n), np.float32))
    y = nn.conv_transpose(x, w, stride=stride, dilation=dilation)
    (call,) = call_list([y.node]).calls
    made = normalise(call.kernel)
    (sum_,) = made.values.values()
    assert not any(m.op == "mod" for m in walk(sum_.body) if m.op == "eq")
    own = stride // gcd(stride, dilation)
    blocks = -(-y.shape[-1] // stride) * own  # results that have taps, in whole blocks
    points = prod(a.arg.extent for a in (*sum_.axes, *sum_.reduce_axes))
    assert points == 4 * 6 * (blocks * -(-kernel // own)) ** n


def test_infinite_weights_meet_no_inserted_zeros() -> None:
    x, w = np.ones((1, 1, 40, 40), np.float32), np.ones((1, 1, 2, 2), np.float32)
    w[0, 0, 0, 1] = np.inf
    y = jit(lambda x, w: nn.conv_transpose(x, w, stride=2))(Tensor(x), Tensor(w)).numpy()
    assert np.isinf(y[0, 0, 0::2, 1::2]).all() and np.isfinite(y).sum() == y.size * 3 // 4


@pytest.mark.parametrize("transposed", (False, True))
def test_gradients_of_a_vmap_and_second_ones(transposed: bool) -> None:
    rng = np.random.default_rng(3)
    x, w = (Tensor(rng.standard_normal(s).astype(np.float32)) for s in ((2, 3, 4, 6), (4, 2, 3)))

    def made(x: Tensor, w: Tensor) -> Tensor:
        if transposed:
            return nn.conv_transpose(x, w, stride=2, padding=1, output_padding=1, groups=2)
        return nn.conv(x, w, stride=2, padding=1, groups=2)

    def loss(x: Tensor, w: Tensor) -> Tensor:
        return (made(x, w) ** 2).sum()

    whole = grad(lambda x, w: vmap(loss, (0, None))(x, w).sum(), (0, 1))(x, w)
    apart = [grad(loss, (0, 1))(x[i], w) for i in range(2)]
    for i in range(2):
        close(whole[0][i], apart[i][0].numpy())
    close(whole[1], apart[0][1].numpy() + apart[1][1].numpy())
    # the loss is a square of what is linear in x: half its second derivative along a direction is its value there
    along = Tensor(rng.standard_normal(x.shape[1:]).astype(np.float32))
    twice = grad(lambda x: (grad(lambda x: loss(x, w))(x) * along).sum())(x[0])
    assert abs((twice * along).sum().item() - 2 * loss(along, w).item()) < 1e-3 * abs(loss(along, w).item())


@pytest.mark.parametrize("way", ("plain", "vmap", "checkpoint"))
@pytest.mark.parametrize("transposed", (False, True))
def test_gradients_of_a_view_that_is_used_beside(transposed: bool, way: str) -> None:
    """Windows of a view read what the view reads: the view itself does not lie behind the convolution, which gives it a gradient."""
    rng = np.random.default_rng(4)
    x, w = (Tensor(rng.standard_normal(s).astype(np.float32)) for s in ((2, 5, 4), (4, 4, 3)))

    def of_view(u: Tensor, w: Tensor) -> Tensor:
        y = nn.conv_transpose(u, w, stride=2) if transposed else nn.conv(u, w, stride=2, padding=1)
        return (y * y).sum() * u.sum() + (u * u * u).sum()

    def loss(x: Tensor, w: Tensor) -> Tensor:
        return of_view(x.mT, w)

    if way == "vmap":
        found = grad(lambda x, w: vmap(loss, (0, None))(x.reshape(1, *x.shape), w).sum(), (0, 1))(x, w)
    else:
        found = grad(checkpoint(loss) if way == "checkpoint" else loss, (0, 1))(x, w)
    of_u, of_w = grad(of_view, (0, 1))(Tensor(x.numpy().swapaxes(1, 2).copy()), w)
    close(found[0], of_u.numpy().swapaxes(1, 2))
    close(found[1], of_w.numpy())
