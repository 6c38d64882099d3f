"""Names of kernels say what they compute, however the expression was written."""

import pytest
from plain_tensors import array, block, gelu, layernorm, listed, parameters, scores, softmax

pytestmark = pytest.mark.usefixtures("graphs")


def names(*outs):
    return [c.kernel.name for c in listed(*outs).calls]


@pytest.mark.slow
def test_a_block_reads_like_its_layers():
    assert names(block(array(2, 6, 8), parameters(8), 2)) == [
        "layernorm+mul+add", "matmul+add", "attention", "matmul+add", "layernorm+mul+add", "matmul+add+gelu", "matmul+add",
    ]  # fmt: skip


def test_composites_have_one_name_and_the_rest_its_operators():
    a, b = array(3, 5), array(5)
    assert names(softmax(a)) == ["softmax"]
    e = (a - a.max(-1, True)).exp()
    assert names(e / e.sum(-1, True)) == ["softmax"]
    assert names(layernorm(a, b, b)) == ["layernorm+mul+add"]
    assert names(a * (1 / ((a * a).mean(-1, True) + 1e-6).sqrt())) == ["rmsnorm"]
    assert names(gelu(a)) == ["gelu"] and names(a.erf()) == ["erf"]
    tanh = a * 0.5 * ((((a * a * a) * 0.044715 + a) * 0.7978845608).tanh() + 1.0)
    assert names(tanh) == ["gelu"] and names((a + b).tanh() * a) == ["add+tanh+mul"]
    assert names(e.sum(-1).log() + a.max(-1)) == ["logsumexp"]
    assert names(a.maximum(0.0)) == ["relu"] and names(a.sum(0)) == ["sum"] and names(a.mT) == ["copy"]
    assert names(scores(array(1, 1, 4, 2), array(1, 1, 4, 2), masked=False)) == ["matmul+scale"]


def test_a_long_name_is_cut():
    x, out = array(4), array(4)
    for f in ("exp", "sqrt", "tanh", "log", "erf", "exp", "sqrt"):
        out = getattr(out, f)() if f != "erf" else (out + x).erf()
    assert names(out) == ["exp+sqrt+tanh+log+4more"]
