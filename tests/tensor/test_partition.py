"""What becomes of whole expressions: how many kernels, which boundaries, and that the values are right."""

from __future__ import annotations

import numpy as np
import pytest
from plain_tensors import array, block, causal, f64, gelu, layernorm, listed, parameters, scores, softmax
from scipy.special import erf
from tilewright import grad, nn, xp
from tilewright.heuristics import quick_starts
from tilewright.ir.normal_form import normalise
from tilewright.targets import named
from tilewright.tensor import Tensor, value_and_grad
from tilewright.tensor.gradients.reverse import gradients
from tilewright.tensor.graph import primitives as T
from tilewright.tensor.ops.elementwise import where
from tilewright.tensor.partition import Rule
from tilewright.tensor.running import numpy_evaluation as small
from tilewright.tensor.running.realise import realise
from tilewright.weights import linear, quantize
from viewed_heads import by_kernels

pytestmark = pytest.mark.usefixtures("graphs")


def rules(*outs):
    return [r for c in listed(*outs).calls for r in c.rules]


@pytest.mark.slow
def test_a_gpt2_block_is_seven_kernels():
    b, s, c, h = 2, 12, 24, 3
    x, p = array(b, s, c), parameters(c)
    y = block(x, p, h)
    calls = listed(y).calls
    assert len(calls) == 7 and [r for call in calls for r in call.rules].count(Rule.fold) == 1

    def norm(x, w, b):
        d = x - x.mean(-1, keepdims=True)
        return d / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-5) * w + b

    P, X = {k: f64(v) for k, v in p.items()}, f64(x)
    qkv = (norm(X, P["l1"], P["b1"]) @ P["wq"] + P["bq"]).reshape(b, s, 3, h, c // h).transpose(2, 0, 3, 1, 4)
    w = np.where(np.tri(s, dtype=bool), qkv[0] @ qkv[1].swapaxes(-1, -2) * (c // h) ** -0.5, -np.inf)
    w = np.exp(w - w.max(-1, keepdims=True))
    X = X + (w / w.sum(-1, keepdims=True) @ qkv[2]).transpose(0, 2, 1, 3).reshape(b, s, c) @ P["wo"] + P["bo"]
    u = norm(X, P["l2"], P["b2"]) @ P["w1"] + P["c1"]
    assert np.abs(f64(y) - (X + u * 0.5 * (1 + erf(u / 2**0.5)) @ P["w2"] + P["c2"])).max() < 1e-5


@pytest.mark.slow
def test_attention_and_its_gradients_are_four_kernels_with_no_scores_in_memory():
    b, h, n, d = 1, 2, 13, 8
    q, k, v, dy = (array(b, h, n, d) for _ in range(4))
    s = scores(q, k)
    m = s.max(-1, True)
    e = (s - m).exp()
    total = e.sum(-1, True)
    y = (e * (1 / total)) @ v
    p = Tensor.of(where(causal(n).node, (s - (m + total.log())).exp().node, 0.0))
    ds = p * (dy @ v.mT - (dy * y).sum(-1, True))
    dq, dk, dv = (ds @ k) * d**-0.5, (ds.mT @ q) * d**-0.5, p.mT @ dy
    made = listed(y, dq, dk, dv)
    assert len(made.calls) == 4 and not made.unfolded
    assert not any(node.size >= b * h * n * n for call in made.calls for node in call.nodes if node.shape[-1] == n)
    Q, K, V, DY = map(f64, (q, k, v, dy))
    P = np.where(np.tri(n, dtype=bool), Q @ K.swapaxes(-1, -2) * d**-0.5, -np.inf)
    P = np.exp(P - P.max(-1, keepdims=True))
    P /= P.sum(-1, keepdims=True)
    dP = DY @ V.swapaxes(-1, -2)
    dS = P * (dP - (dP * P).sum(-1, keepdims=True))
    wanted = (P @ V, dS @ K * d**-0.5, dS.swapaxes(-1, -2) @ Q * d**-0.5, P.swapaxes(-1, -2) @ DY)
    realise([t.node for t in (y, dq, dk, dv)])
    for got, want in zip((y, dq, dk, dv), wanted):
        assert np.abs(f64(got) - want).max() < 1e-5


def test_weights_and_their_sum_run_in_tiles_together_and_apart_they_are_stored():
    q, k, v = (array(1, 2, 12, 8) for _ in range(3))
    e = (q @ k.mT).exp()
    assert rules((e @ v) / e.sum(-1, True)) == [Rule.output]
    assert len(listed(e @ v, e.sum(-1)).calls) == 3  # two kernels would compute the product again


def test_rows_are_one_kernel_and_a_contractions_operand_is_stored_where_it_is_dear():
    x, w = array(8, 16), array(16, 4)
    assert rules(softmax(x)) == [Rule.output]
    assert rules(layernorm(x, array(16), array(16))) == [Rule.output]
    assert rules(x.exp() @ w) == [Rule.operand, Rule.output] or rules(x.exp() @ w) == [Rule.output]  # small: a launch costs more
    big, wide = array(256, 512), array(512, 512)
    assert rules(big.exp() @ wide) == [Rule.operand, Rule.output]
    assert rules((big * 2.0) @ wide) == [Rule.output]


def test_an_epilogue_ends_where_another_kernel_reads():
    x, w, b = array(8, 16), array(16, 16), array(16)
    assert rules(gelu(x @ w + b)) == [Rule.output]
    y = x @ w + b + x
    assert len(listed(y + softmax(y)).calls) == 2
    assert len(listed((x @ w) + (x @ w.mT)).calls) == 2


def test_movement_is_index_arithmetic():
    x = array(6, 4, 10)
    y = x.permute(2, 0, 1).reshape(10, 24).mT.reshape(4, 6, 10)
    assert len(listed(y + 1.0).calls) == 1
    assert np.array_equal((y + 1.0).numpy(), x.numpy().transpose(2, 0, 1).reshape(10, 24).T.reshape(4, 6, 10) + np.float32(1))


def test_long_chains_and_wide_sums_are_cut():
    x = array(64)
    y, want = x, f64(x)
    for i in range(400):
        y, want = (y * 1.001, want * 1.001) if i % 2 else (y - 0.5, want - 0.5)
    assert rules(y).count(Rule.limit) in (2, 3, 4)
    assert np.allclose(f64(y), want, rtol=1e-4)
    parts = [array(64) for _ in range(100)]
    y = parts[0]
    for p in parts[1:]:
        y = y + p
    made = listed(y)
    assert len(made.calls) == 3 and max(len(c.inputs) for c in made.calls) <= 49
    assert np.allclose(f64(y), sum(map(f64, parts)), atol=1e-5)


def test_steps_that_multiply_what_each_element_reads_are_stored():
    """Sums and differences of neighbours, six times: a kernel of n steps would compute the first one at 4^n places."""
    x = array(77, 64)
    y, want = x, f64(x)
    for _ in range(6):
        y = xp.concat([y.reshape(77, 32, 2)[..., 0] + y.reshape(77, 32, 2)[..., 1], y[:, ::2] - y[:, 1::2]], axis=1)
        want = np.concatenate([want[:, ::2] + want[:, 1::2], want[:, ::2] - want[:, 1::2]], 1)
    calls = listed(y).calls
    assert len(calls) > 2 and max(len(c.kernel.inputs) for c in calls) <= 8
    assert np.allclose(f64(y), want, atol=1e-4)


def test_arrays_without_elements():
    x = Tensor(np.zeros((0, 5), "f"))
    assert np.array_equal(x.sum(0).numpy(), np.zeros(5)) and (x + 1.0).numpy().shape == (0, 5) and x.sum().item() == 0


def test_one_list_serves_graphs_that_differ_in_memory_only():
    from tilewright.tensor.running.realise import listed as kept

    x, y = array(4, 4), array(4, 4)
    first = kept([softmax(x).node])
    assert kept([softmax(y).node]) is first
    assert kept([(x + y).node]) is not kept([(x + x).node])


def test_a_diagonal_product_reads_one_array_in_two_ways():
    x = array(9, 5)
    y = x @ x.mT
    (call,) = listed(y).calls
    assert len(call.inputs) == 2 and call.inputs[0] == call.inputs[1]
    assert np.allclose(y.numpy(), x.numpy() @ x.numpy().T, atol=1e-6)
    assert T.iota(3).shape == (3,)


def test_a_residual_stream_of_many_layers_needs_few_cuts():
    """What is stored anyway ends a kernel: the gradients' sums through twelve layers are no long expression."""
    x, w = array(32, 16), array(16, 16)

    def loss(w):
        y = x
        for _ in range(12):
            y = y + gelu(layernorm(y, w.sum(0), w.sum(1)) @ w)
        return (y * y).sum()

    value, dw = value_and_grad(loss)(w)
    made = listed(value, dw)
    assert [r for c in made.calls for r in c.rules].count(Rule.limit) <= 2 and len(made.calls) < 100


def test_kernels_do_not_need_one_another():
    """A row's result of a gradient joined the kernel of an output, which also made what the gradient needs: partitioning
    never ended."""
    x = Tensor(np.random.default_rng(0).normal(size=(60, 70)))

    d = x.flip(axis=0) - x.flip(axis=0).mean(-1, keepdims=True)
    p = (d / ((d * d).mean(-1, keepdims=True) + 1e-5).sqrt()).roll(3, axis=-1)
    a, b = p[..., 35:] * 2, p * 2
    loss = a.sum() + (b * b).sum()
    nodes = [a.node, b.node, *gradients([loss.node], [T.const(1.0, loss.dtype)], [x.node])]
    for got, want in zip(by_kernels(nodes), small.evaluate(nodes)):
        assert np.allclose(got, want)


def test_stacked_arrays_are_parameters_of_their_own():
    x = array(2, 8, 3, 2, 4)
    q, k, v = x.permute(2, 0, 3, 1, 4).unstack()
    (call,) = listed((q @ k.mT).softmax(-1) @ v).calls
    assert call.folded and len(call.inputs) == 3 and len(set(call.inputs)) == 1


def test_the_taps_of_a_stencil_share_a_parameter():
    x = array(64)
    (call,) = listed(x[2:] + x[1:-1] + x[:-2]).calls
    assert len(call.inputs) == 1


def test_a_mean_of_a_whole_product_is_no_fold():
    x, w = array(64, 32), array(32, 48)
    calls = listed(((x @ w - 1.0) ** 2).mean()).calls
    assert [c.folded for c in calls] == [False, False]


@pytest.mark.parametrize("batch", [(), (1,), (3,)])
def test_a_product_by_one_matrix_before_a_norm_and_a_product_is_stored(batch):
    """Not computed in tiles for the mean, the variance and the second product; one for each head, before a softmax, is."""
    x, one, two, g = array(*batch, 24, 16), array(16, 20), array(20, 8), array(20)
    y = x @ one
    d = y - y.mean(-1, keepdims=True)
    calls = listed((d / ((d * d).mean(-1, keepdims=True) + 1e-5).sqrt() * g) @ two).calls
    assert len(calls) == 3 and not any(c.folded for c in calls)
    q, k, v = array(2, 24, 16), array(2, 20, 16), array(2, 20, 8)
    assert [c.folded for c in listed(softmax(q @ k.permute(0, 2, 1)) @ v).calls] == [True]


def test_a_join_that_windows_read_again_is_stored():
    """And one whose elements are read once is part of what reads it."""
    x = xp.concat([array(1, 3, 9, 9), array(1, 2, 9, 9)], axis=1)
    for stride, padding in ((2, 0), (1, 1)):
        calls = listed(nn.max_pool(x, 3, stride=stride, padding=padding)).calls
        assert [Rule.joined in c.rules for c in calls] == [True, False]
    assert [Rule.joined in c.rules for c in listed(nn.max_pool(x, 3)).calls] == [False]


@pytest.mark.parametrize(("steps", "rows", "folded"), [(16, 64, True), (128, 64, False), (128, 1 << 14, True)])
def test_reductions_of_a_products_rows_run_in_its_tiles_where_sums_are_short_or_the_product_large(steps, rows, folded):
    x, w = Tensor(np.zeros((rows, steps), np.float32)), Tensor(np.zeros((steps, 1 << 12), np.float32))
    calls = listed((x @ w).logsumexp(-1)).calls
    assert [c.folded for c in calls] == ([True] if folded else [False, False])


def test_a_convolution_keeps_its_register_tile_where_its_channels_are_reduced():
    x, w, b = array(2, 16, 12, 12), array(32, 16, 3, 3), array(32, 1, 1)
    calls = listed((nn.conv(x, w) + b).min(1)).calls
    assert [c.folded for c in calls] == [False, False]


def test_an_update_that_reads_several_arrays_is_not_part_of_the_product():
    x, dy, p, m, v = array(16, 64), array(16, 48), array(64, 48), array(64, 48), array(64, 48)
    g = x.mT @ dy
    m, v = m * 0.9 + g * 0.1, v * 0.99 + g * g * 0.01
    calls = listed(p - m / v, m, v).calls
    assert [len(c.outputs) for c in calls] == [1, 3]
    h = x.mT @ dy
    assert len(listed(h, h.tanh()).calls) == 1


def test_a_label_for_each_row_gives_no_lanes_across_the_rows():
    classes = 4096
    x, label = array(256, classes), array(256)
    hit = xp.where(xp.arange(classes)[None, :] == label[:, None].astype("int64"), 1.0, 0.0)
    e = (x - x.max(-1, keepdims=True)).exp()
    y = hit - e * (hit.sum(-1, keepdims=True) / e.sum(-1, keepdims=True))
    (call,) = listed(y).calls
    kernel = normalise(call.kernel)
    rows = {a.arg.name for a in kernel.stores[0].axes[:1]}
    best = quick_starts(kernel, named("x86-64-v4"), 1)[0]
    assert not [o for o in best if o.op == "UPCAST" and o.on in rows and isinstance(o.arg, int) and o.arg > 8]
    assert np.isfinite(y.numpy()).all()


def weights(n: int) -> np.ndarray:
    return (np.arange(n * n) % 7 - 2.0).reshape(n, n) / 4


def norm_between(x: Tensor) -> Tensor:
    h = nn.rms_norm(x @ x.mT)
    return ((h @ h.mT) * Tensor(weights(x.shape[0]))).sum()


@pytest.mark.parametrize("n", [2, 7, 16])
def test_the_gradient_of_a_gram_matrix_of_a_norm_of_one(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    x = np.random.default_rng(n).standard_normal((n, n))
    found = grad(norm_between)(Tensor(x)).numpy()

    def plain(a: np.ndarray) -> float:
        p = a @ a.T
        h = p / np.sqrt((p * p).mean(-1, keepdims=True) + 1e-6)
        return float((h @ h.T * weights(n)).sum())

    for at in ((0, 0), (1, 0), (n - 1, n - 1)):
        d = np.zeros((n, n))
        d[at] = 1e-6
        assert np.isclose(found[at], (plain(x + d) - plain(x - d)) / 2e-6, rtol=1e-4, atol=1e-4)


def test_kernels_do_not_grow_with_the_layers_that_are_joined():
    """A network that joins each layer's result to all earlier ones: no kernel reads more than five arrays through a join."""
    x, layers = array(2, 3, 5), 12
    weights = [array(3 + 2 * i, 2) for i in range(layers)]

    def network(x):
        for w in weights:
            x = xp.concat([x, (x.swapaxes(-1, -2).relu() @ w).swapaxes(-1, -2)], axis=1)
        return x.sum(-1)

    calls = listed(network(x)).calls
    assert max(len(c.kernel.inputs) for c in calls) <= 7 and len(calls) <= 2 * layers
    assert [r for c in calls for r in c.rules].count(Rule.joined) in (2, 3)
    expected = f64(x)
    for w in weights:
        expected = np.concatenate([expected, (np.maximum(expected.swapaxes(-1, -2), 0) @ f64(w)).swapaxes(-1, -2)], 1)
    assert np.abs(f64(network(x)) - expected.sum(-1)).max() < 1e-3


def test_a_join_of_many_arrays_is_stored_for_its_readers():
    parts = [array(4, 6) for _ in range(6)]
    w = array(24, 3)
    y = (xp.concat(parts).swapaxes(0, 1) @ w).relu()
    assert Rule.joined in rules(y)
    assert np.abs(f64(y) - np.maximum(np.concatenate([f64(p) for p in parts]).T @ f64(w), 0)).max() < 1e-4


@pytest.mark.parametrize("packed", [None, "q8_0", "q4_0", "q4_k", "q6_k", "int8", "int4"])
def test_products_of_one_row_with_several_matrices_are_kernels_of_their_own(packed):
    """What they share is a row, which is small however often it is read; in one kernel each has loops of its own, and no axis is everybody's."""
    x, each = array(1, 256), [array(64, 256) for _ in range(3)]
    ws = [w if packed is None else quantize(w, packed) for w in each]
    calls = listed(*(linear(x, w) for w in ws)).calls
    assert [len(c.kernel.stores) for c in calls] == [1, 1, 1]
    assert all(
        any(o.op == "PARALLEL" for o in quick_starts(normalise(c.kernel), named(t), threads=2)[0])
        for c in calls
        for t in ("v2", "v3", "v4")
    )


def test_sums_that_share_a_computed_array_are_one_kernel():
    a, b, w = array(128, 1), array(1, 64), array(128, 64)
    y = (a * b).exp()
    assert len(listed(y.sum(-1), (y * w).sum(-1)).calls) == 1


def test_what_is_rounded_to_bytes_is_stored_as_bytes():
    """Readers widen it for a product, or make numbers of it again."""
    x, w, v = array(64, 32), *(Tensor(np.full((n, 48), 3, np.int8)) for n in (32, 48))

    def rounded(y):
        return (y * 4 + 3).round().clip(0, 255).astype("uint8")

    def product(a, b):
        return (a.astype("int32") @ b.astype("int32")).astype("float32") * 0.01

    a = rounded(product(rounded(x), w).relu())
    y = product(a, v) + (a.astype("int32") - 3).astype("float32") * 0.5
    calls = listed(y).calls
    assert [str(b.dtype) for c in calls for b in c.kernel.outputs] == ["uint8", "uint8", "float32"]
    assert all(b.dtype.size == 1 for c in calls for b in c.kernel.inputs if b.shape[0] != 64 or c is not calls[0])


def test_a_product_that_is_rounded_for_another_is_stored_in_two_bytes():
    """So that an instruction which takes pairs of bfloat16 finds them."""
    x, w, v = array(64, 32), *(Tensor(np.ones((n, 48), "float32").astype(kind)) for n, kind in ((32, "float32"), (32, "bfloat16")))

    near = (x @ w).astype("bfloat16").astype("float32")
    for y, kind in ((near, "bfloat16"), (near + 1, "float32")):
        calls = listed(y @ v.astype("float32").mT + x).calls
        assert [str(b.dtype) for c in calls for b in c.kernel.outputs] == [kind, "float32"]


def test_attention_that_is_rounded_behind_its_heads_has_no_scores_in_memory():
    """Heads lie side by side where it is rounded, so that an axis of this kernel goes through heads and their elements."""
    q, k, v = (array(3, 13, 8) for _ in range(3))
    y = (softmax(q @ k.mT) @ v).permute(1, 0, 2).reshape(13, 24)
    made = listed(y.astype("bfloat16"))
    assert len(made.calls) == 1 and not made.unfolded
    assert np.abs(f64(y.astype("bfloat16").astype("float32")) - f64(y)).max() < 0.01


def test_a_contraction_reads_bytes_that_were_padded_before():
    x, w = Tensor(np.ones((1, 12, 12, 16), np.uint8)), Tensor(np.ones((3, 3, 16, 32), np.int8))
    seen = x.pad([(0, 0), (1, 1), (1, 1), (0, 0)])
    y = nn.conv(seen.astype("int32").permute((0, 3, 1, 2)), w.astype("int32").permute((3, 2, 0, 1)))
    assert [b.shape for c in listed(y).calls for b in c.kernel.outputs] == [(1, 14, 14, 16), (1, 1, 32, 12, 12)]


def shuffled(x, r):
    """[b, c·r·r, h, w] as [b, c, h·r, w·r], as a pixel shuffle has it."""
    b, c, h, w = x.shape
    return x.reshape((b, c // r // r, r, r, h, w)).permute((0, 1, 4, 2, 5, 3)).reshape((b, c // r // r, h * r, w * r))


def test_a_convolution_stores_rows_and_reads_rows_where_pixels_are_shuffled():
    x, w, v = array(1, 8, 16, 18), array(32, 8, 3, 3), array(16, 8, 3, 3)
    assert rules(shuffled(nn.conv(x, w), 2)) == [Rule.head, Rule.output]
    assert rules((shuffled(nn.conv(x, w), 2) + 1).tanh() * 2) == [Rule.head, Rule.output]
    taken = array(2, 4, 16, 2, 16, 2).permute((0, 1, 3, 5, 2, 4)).reshape((2, 16, 16, 16))
    assert rules(nn.conv(taken, array(32, 16, 3, 3))) == [Rule.moved, Rule.output]
    y = nn.conv(shuffled(nn.conv(x, w).relu(), 2), v)
    assert rules(y) == [Rule.head, Rule.moved, Rule.output]
    assert len(listed(shuffled(array(1, 8, 4, 4) * 2, 2)).calls) == 1  # (nothing is multiplied)


@pytest.mark.parametrize("groups", [1, 2])
def test_a_bias_that_is_read_beside_a_convolution_is_not_one_of_its_operands(groups: int):
    y = nn.conv(array(1, 4, 7, 5), array(4, 4 // groups, 3, 3), array(4), stride=2, dilation=2, groups=groups)
    assert rules(y) == [Rule.output]


def test_batches_and_heads_that_are_flattened_are_read_where_they_lie():
    q, k = array(3, 40, 5, 16), array(3, 40, 5, 16)
    flat = [t.permute((0, 2, *last)).reshape((15, *(t.shape[d] for d in last))) for t, last in ((q, (1, 3)), (k, (3, 1)))]
    assert len(listed(flat[0] @ flat[1]).calls) == 1
    y = nn.conv(array(2, 4, 12, 12), array(16, 4, 3, 3)).permute((0, 2, 3, 1))
    assert len(listed(y).calls) == len(listed(nn.conv_transpose(array(1, 16, 12, 12), array(16, 8, 2, 2), stride=2)).calls) == 1


def test_behind_a_convolution_of_one_pixel_another_shape_is_no_operand():
    x, w = array(2, 8, 3, 3), array(4, 8, 1, 1)
    y = nn.conv(x.mean((2, 3), keepdims=True), w)
    assert len(listed(y * y.sigmoid()).calls) == 2
