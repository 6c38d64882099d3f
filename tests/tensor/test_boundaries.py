"""Boundaries and parameters that decide how fast a kernel can be: what is not fused, and what is read apart."""

import numpy as np
from plain_tensors import array, listed
from tilewright import xp
from tilewright.heuristics import quick_starts
from tilewright.ir.normal_form import normalise
from tilewright.targets import named


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
    (call,) = listed((x @ w).logsumexp(-1)).calls
    assert call.folded


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
