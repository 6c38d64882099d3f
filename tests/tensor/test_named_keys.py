"""Every named kernel, written as a plain expression of tensors at two ranks, has the named kernel's key, and so its
schedules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest
from kernel_oracles import ORACLES
from tilewright import named_kernels, xp
from tilewright.ir.dtypes import dtype as dtype_of
from tilewright.ir.normal_form import canonical
from tilewright.measure.inputs import generate
from tilewright.named_kernels.definition import span
from tilewright.tensor import Tensor, nn, vjp
from tilewright.tensor.fusion.call_list import KernelCall, call_list, leaves_of

pytestmark = [pytest.mark.many, pytest.mark.usefixtures("graphs")]

M, N, K = 24, 40, 56
Outs = Tensor | tuple[Tensor, ...]
Case = tuple[dict[str, int], Outs]
"""Sizes of the named kernel, and what is computed."""

CASES: dict[str, Callable[[str], Iterator[Case]]] = {}


def case(*names: str) -> Callable[[Callable[[str], Iterator[Case]]], Callable[[str], Iterator[Case]]]:
    """The function yields a case for each rank; `names`: the kernels that each is."""

    def of(make: Callable[[str], Iterator[Case]]) -> Callable[[str], Iterator[Case]]:
        CASES.update((n, make) for n in names)
        return make

    return of


def array(dtype: str, *shape: int) -> Tensor:
    kind = dtype_of(dtype)
    return Tensor(np.zeros(shape, kind.np), range=span(kind))


def ids(n: int, *shape: int) -> Tensor:
    return Tensor(np.zeros(shape, np.int64), range=(0, n - 1))


def rows(dtype: str) -> Iterator[tuple[dict[str, int], Tensor]]:
    """Rows as a matrix, and with a batch of them."""
    for lead in ((M,), (4, M // 4)):
        yield {"m": M, "n": N}, array(dtype, *lead, N)


def products(dtype: str) -> Iterator[tuple[dict[str, int], Tensor]]:
    for lead in ((M,), (4, M // 4)):
        yield {"m": M, "n": N, "k": K}, array(dtype, *lead, K)


def summed(t: Tensor) -> Tensor:
    """Operands of a product in the type in which it is summed: integers of 8 bits have one, floats keep their own."""
    return t.astype(t.dtype.acc.name) if t.dtype.is_int else t


# products ---------------------------------------------------------------------------------------------------------
@case("matmul")
def matmul(dtype: str) -> Iterator[Case]:
    for shape, a in products(dtype):
        yield shape, summed(a) @ summed(array(dtype, K, N))
    yield shape, xp.einsum("abk,kn->abn", summed(a), summed(array(dtype, K, N)))


@case("matmul_nt")
def matmul_nt(dtype: str) -> Iterator[Case]:
    for shape, a in products(dtype):
        yield shape, summed(a) @ summed(array(dtype, N, K)).mT
        yield shape, nn.linear(summed(a), summed(array(dtype, N, K)))


@case("matmul_tn")
def matmul_tn(dtype: str) -> Iterator[Case]:
    shape = {"m": M, "n": N, "k": K}
    yield shape, summed(array(dtype, K, M)).mT @ summed(array(dtype, K, N))
    x, dy = summed(array(dtype, 4, K // 4, M)), summed(array(dtype, 4, K // 4, N))
    yield shape, x.reshape(K, M).mT @ dy.reshape(K, N)  # a weight's gradient over a batch of rows
    yield shape, xp.einsum("bkm,bkn->mn", x, dy)


@case("matmul_mixed")
def matmul_mixed(dtype: str) -> Iterator[Case]:
    for shape, a in products(dtype):
        yield shape, (a @ array(dtype, K, N)).astype("float32")
        yield shape, a.astype("float32") @ array(dtype, K, N).astype("float32")


@case("matmul_int8")
def matmul_int8(dtype: str) -> Iterator[Case]:
    for lead in ((M,), (4, M // 4)):
        a = Tensor(np.zeros((*lead, K), np.uint8), range=(0, 255))
        yield {"m": M, "n": N, "k": K}, a.astype("int32") @ array("int8", K, N).astype("int32")


@case("matmul_fp8")
def matmul_fp8(dtype: str) -> Iterator[Case]:
    for lead in ((M,), (4, M // 4)):
        a, b = array(dtype, *lead, K).astype("float32"), array(dtype, N, K).astype("float32")
        yield {"m": M, "n": N, "k": K}, (a @ b.mT * array("float32", *lead, 1) * array("float32", N)).astype("bfloat16")


@case("matmul_w8")
def matmul_w8(dtype: str) -> Iterator[Case]:
    for lead in ((M,), (4, M // 4)):
        x, w = array(dtype, *lead, K).astype("float32"), array("int8", N, K).astype("float32")
        yield {"m": M, "n": N, "k": K}, (x @ w.mT * array("float32", N)).astype(dtype)


@case("matmul_bias_relu")
def matmul_bias_relu(dtype: str) -> Iterator[Case]:
    for shape, a in products(dtype):
        yield shape, (a @ array(dtype, K, N) + array(dtype, N)).relu()
        yield shape, (a @ array(dtype, K, N) + array(dtype, N)).maximum(0)


@case("matmul_bias_gelu")
def matmul_bias_gelu(dtype: str) -> Iterator[Case]:
    for shape, a in products(dtype):
        yield shape, nn.gelu(a @ array(dtype, K, N) + array(dtype, N))


@case("batched_matmul")
def batched_matmul(dtype: str) -> Iterator[Case]:
    for lead in ((6,), (2, 3)):
        yield {"b": 6, "m": M, "n": N, "k": K}, summed(array(dtype, *lead, M, K)) @ summed(array(dtype, *lead, K, N))


@case("matvec")
def matvec(dtype: str) -> Iterator[Case]:
    for shape, x in rows(dtype):
        x, w = summed(x), summed(array(dtype, N))
        yield shape, x @ w
        yield shape, (x * w).sum(-1, dtype=x.dtype.name)


# rows -------------------------------------------------------------------------------------------------------------
@case("sum_rows")
def sum_rows(dtype: str) -> Iterator[Case]:
    for shape, x in rows(dtype):
        yield shape, x.sum(-1, dtype=summed(x).dtype.name)


@case("sum_cols")
def sum_cols(dtype: str) -> Iterator[Case]:
    for shape, x in rows(dtype):
        yield shape, x.sum(tuple(range(x.ndim - 1)), dtype=summed(x).dtype.name)


@case("sum_all")
def sum_all(dtype: str) -> Iterator[Case]:
    for _, x in rows(dtype):
        yield {"n": M * N}, x.sum(dtype=summed(x).dtype.name)


@case("softmax")
def softmax(dtype: str) -> Iterator[Case]:
    for shape, x in rows(dtype):
        yield shape, x.softmax(-1)
        e = (x - x.max(-1, True)).exp()
        yield shape, e * (1 / e.sum(-1, True))


@case("log_softmax")
def log_softmax(dtype: str) -> Iterator[Case]:
    for shape, x in rows(dtype):
        yield shape, x.log_softmax(-1)
        d = x - x.max(-1, True)
        yield shape, d - d.exp().sum(-1, True).log()


@case("layernorm")
def layernorm(dtype: str) -> Iterator[Case]:
    for shape, x in rows(dtype):
        w, b = array(dtype, N), array(dtype, N)
        yield shape, nn.layer_norm(x, w, b)
        d = x - x.mean(-1, True)
        if dtype == "float32":  # (a number beside a 16-bit array is rounded to its type)
            yield shape, d * ((d * d).mean(-1, True) + 1e-5).rsqrt() * w + b
            yield shape, d * (x.var(-1, keepdims=True) + 1e-5).rsqrt() * w + b


@case("layernorm_stats")
def layernorm_stats(dtype: str) -> Iterator[Case]:
    for shape, x in rows(dtype):
        mean = x.mean(-1, True)
        d = x - mean
        wide = dtype_of(dtype).compute.name
        rstd = ((d * d).mean(-1, True).astype(wide) + 1e-5).rsqrt()
        y = (d * rstd * array(dtype, N) + array(dtype, N)).astype(dtype)
        yield shape, (y, mean.astype(wide).reshape(*x.shape[:-1]), rstd.astype(wide).reshape(*x.shape[:-1]))


@case("rmsnorm")
def rmsnorm(dtype: str) -> Iterator[Case]:
    for shape, x in rows(dtype):
        w = array(dtype, N)
        yield shape, nn.rms_norm(x, w)
        if dtype == "float32":
            yield shape, x * ((x * x).mean(-1, True) + 1e-6).rsqrt() * w


@case("cross_entropy")
def cross_entropy(dtype: str) -> Iterator[Case]:
    for shape, x in rows(dtype):
        label = ids(N, *x.shape[:-1])
        yield shape, nn.cross_entropy(x, label, axis=-1, reduction="none")
        top = x.max(-1, True)
        lse = (x - top).exp().sum(-1, True).log() + (top - x.take_along_axis(label.reshape(*label.shape, 1), axis=-1))
        yield shape, lse.reshape(*label.shape)


@case("gelu")
def gelu(dtype: str) -> Iterator[Case]:
    for shape, x in rows(dtype):
        yield shape, x.gelu()
        if dtype == "float32":
            yield shape, x * 0.5 * ((x * 0.7071067811865476).erf() + 1.0)


@case("add")
def add(dtype: str) -> Iterator[Case]:
    for shape, x in rows(dtype):
        yield shape, x + array(dtype, *x.shape)


@case("transpose")
def transpose(dtype: str) -> Iterator[Case]:
    yield {"m": M, "n": N}, array(dtype, M, N).T
    yield {"m": M, "n": N}, array(dtype, M, 4, N // 4).permute(1, 2, 0)


@case("argmax")
def argmax(dtype: str) -> Iterator[Case]:
    for shape, x in rows(dtype):
        yield shape, x.argmax(-1).astype("int32")


@case("cumsum")
def cumsum(dtype: str) -> Iterator[Case]:
    for shape, x in rows(dtype):
        if x.dtype.is_int:
            yield shape, xp.cumulative_sum(x, axis=-1, dtype="int32")
        else:
            yield shape, x.cumsum(-1)


# images -----------------------------------------------------------------------------------------------------------
@case("conv2d")
def conv2d(dtype: str) -> Iterator[Case]:
    for n, stride, pad, groups in ((2, 1, 1, 1), (3, 2, 1, 2), (2, 1, 0, 1)):
        shape = {"n": n, "c": 4, "h": 9, "w": 11, "oc": 6, "kh": 3, "kw": 3, "stride": stride, "pad": pad, "groups": groups}
        x, w = array(dtype, n, 4, 9, 11), array(dtype, 6, 4 // groups, 3, 3)
        yield shape, nn.conv(summed(x), summed(w), stride=stride, padding=pad, groups=groups)
    yield {**shape, "n": 1}, nn.conv(summed(array(dtype, 4, 9, 11)), summed(w))


def conv_gradients(dtype: str, forms: Iterable[tuple[int, int, int, int]]) -> Iterator[tuple[dict[str, int], Tensor, Tensor]]:
    """(sizes, dx, dw) for (images, stride, padding, groups), and for one image without a batch of one."""
    for n, stride, pad, groups in forms:
        shape = {"n": n, "c": 4, "h": 9, "w": 11, "oc": 6, "kh": 3, "kw": 3, "stride": stride, "pad": pad, "groups": groups}
        w = array(dtype, 6, 4 // groups, 3, 3)
        for x in (array(dtype, n, 4, 9, 11), array(dtype, 4, 9, 11)):
            y, pull = vjp(lambda x, w, o=(stride, pad, groups): nn.conv(x, w, stride=o[0], padding=o[1], groups=o[2]), x, w)
            yield {**shape, "n": n if x.ndim == 4 else 1}, *pull(array(dtype, *y.shape))


@case("conv2d_dx")
def conv2d_dx(dtype: str) -> Iterator[Case]:
    """With strides or groups the tensor compiler makes a product and a sum of it."""
    for shape, dx, _ in conv_gradients(dtype, ((2, 1, 1, 1), (2, 1, 0, 1))):
        yield shape, dx


@case("conv2d_dw")
def conv2d_dw(dtype: str) -> Iterator[Case]:
    for shape, _, dw in conv_gradients(dtype, ((2, 1, 1, 1), (3, 2, 1, 2), (2, 1, 0, 1))):
        yield shape, dw


@case("max_pool2d")
def max_pool2d(dtype: str) -> Iterator[Case]:
    for lead, stride, pad in (((2, 3), 2, 1), ((6,), 2, 1), ((2, 3), 1, 0)):
        shape = {"n": 2, "c": 3, "h": 9, "w": 11, "kh": 3, "kw": 3, "stride": stride, "pad": pad}
        yield shape, nn.max_pool(array(dtype, *lead, 9, 11), 3, stride=stride, padding=pad)


# tables -----------------------------------------------------------------------------------------------------------
@case("embedding")
def embedding(dtype: str) -> Iterator[Case]:
    for lead in ((K,), (7, K // 7)):
        table, at = array(dtype, M, N), ids(M, *lead)
        yield {"v": M, "n": K, "d": N}, nn.embedding(table, at)
        yield {"v": M, "n": K, "d": N}, table[at]
        yield {"v": M, "n": K, "d": N}, table.take(at, axis=0)


@case("embedding_grad")
def embedding_grad(dtype: str) -> Iterator[Case]:
    wide = dtype_of(dtype).compute.name
    for lead in ((K,), (7, K // 7)):
        at, dy = ids(M, *lead), array(dtype, *lead, N)
        shape = {"v": M, "n": K, "d": N}
        _, pull = vjp(lambda t, at=at: nn.embedding(t, at), array(wide, M, N))
        yield shape, pull(dy.astype(wide))[0]
        yield shape, xp.zeros((M, N), dtype=wide).index_put(at, dy.astype(wide))


# attention --------------------------------------------------------------------------------------------------------
B, H, S, D = 2, 4, 24, 4


def weights(s: Tensor, written: bool) -> Tensor:
    if not written:
        return s.softmax(-1)
    e = (s - s.max(-1, True)).exp()
    return e / e.sum(-1, True)


def attention(q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None, written: bool) -> Tensor:
    s = (q @ k.mT) * q.shape[-1] ** -0.5
    return weights(s if seen is None else seen.where(s, float("-inf")), written) @ v


def ahead(window: int | None = None) -> Tensor:
    i, j = xp.arange(S).reshape(S, 1), xp.arange(S)
    return j <= i if window is None else (j <= i) & (j > i - window)


def forms(dtype: str) -> Iterator[tuple[tuple[Tensor, Tensor, Tensor], bool]]:
    for lead in ((B, H), (B * H,)):
        for written in (False, True):
            yield tuple(array(dtype, *lead, S, D) for _ in range(3)), written


SIZES = {"b": B, "h": H, "s": S, "d": D}


@case("attention")
def causal(dtype: str) -> Iterator[Case]:
    for qkv, written in forms(dtype):
        yield SIZES, attention(*qkv, ahead(), written)
    yield SIZES, attention(*qkv, xp.tril(xp.ones((S, S), dtype="bool")), False)


@case("attention_full")
def full(dtype: str) -> Iterator[Case]:
    for qkv, written in forms(dtype):
        yield SIZES, attention(*qkv, None, written)


@case("attention_window")
def window(dtype: str) -> Iterator[Case]:
    for qkv, written in forms(dtype):
        yield {**SIZES, "w": 5}, attention(*qkv, ahead(5), written)


@case("attention_grouped")
def grouped(dtype: str) -> Iterator[Case]:
    for lead in ((B, 2), (2 * B,)):
        for written in (False, True):
            q, (k, v) = array(dtype, *lead, H // 2, S, D), (array(dtype, *lead, 1, S, D) for _ in range(2))
            yield {**SIZES, "hk": 2}, attention(q, k, v, ahead(), written)


GRADIENT = ("attention_lse", "attention_delta", "attention_dq", "attention_dkv")
"""What attention and its gradients are."""


@case(*GRADIENT)
def gradient(dtype: str) -> Iterator[Case]:
    """(causal, w, heads of queries that share keys), batch and heads of keys, whether softmax is written out."""
    forms = (((1, 0, 1), (B, H), False), ((0, 0, 1), (B * H,), True), ((1, 5, 1), (B, H), True), ((1, 0, 2), (B, 2), False))
    for (masked, w, shared), lead, written in forms:
        q, k, v = (array(dtype, *lead, *((n,) if shared > 1 else ()), S, D) for n in (shared, 1, 1))
        seen = ahead(w or None) if masked else None
        y, pull = vjp(lambda q, k, v, seen=seen, written=written: attention(q, k, v, seen, written), q, k, v)
        yield {**SIZES, "causal": masked, "w": w, "shared": shared}, (y, *pull(array(dtype, *y.shape)))


# sums of sums -----------------------------------------------------------------------------------------------------
def fp8_blocks(x: dict[str, Any], block: int) -> Tensor:
    a, b = (Tensor(x[n]).astype("float32").reshape(len(x[n]), -1, block) for n in "ab")
    scales = Tensor(x["scale_a"]).unsqueeze(1) * Tensor(x["scale_b"]).repeat(block, axis=0)[: len(x["b"])]
    return (xp.einsum("mgk,ngk->mng", a, b) * scales).sum(-1).astype("bfloat16")


def w4(x: dict[str, Any], group: int) -> Tensor:
    n, k = x["w"].shape[0], x["w"].shape[1] * 2
    halves = (Tensor(x["w"], range=(0, 255)).astype("int32").reshape(n, k // 2, 1) >> (xp.arange(2) * 4).astype("int32")) & 15
    weight = halves.reshape(n, -1, group) - Tensor(x["zero"], range=(0, 15)).astype("int32").unsqueeze(-1)
    part = xp.einsum("mgk,ngk->mng", Tensor(x["x"]).astype("float32").reshape(-1, k // group, group), weight.astype("float32"))
    return (part * Tensor(x["scale"]).astype("float32")).sum(-1).astype(x["x"].dtype.name)


SUMS_OF_SUMS = {"matmul_fp8_blocks": (fp8_blocks, "block"), "matmul_w4": (w4, "group")}
"""Kernels whose inner sum the tensor compiler may store, or whose weights it unpacks once: what costs less by its reckoning.
What it makes of them has keys of its own, so only the values are the same."""


def texts(outs: Outs) -> list[str]:
    """The canonical forms of the kernels that compute tensors."""
    calls = call_list([o.node for o in (outs if isinstance(outs, tuple) else (outs,))]).calls
    return [canonical(c.kernel).text if isinstance(c, KernelCall) else c.call.name for c in calls]


def ranks_of(outs: Outs) -> tuple[int, ...]:
    """The ranks of the arrays that tensors are made of."""
    return tuple(len(n.shape) for n in leaves_of([o.node for o in (outs if isinstance(outs, tuple) else (outs,))]))


def parameters() -> Iterator[Any]:
    """Every kernel, in float32 and in one 16-bit type, and in its own types."""
    for name in named_kernels.NAMES:
        for dtype in named_kernels.get(name).dtypes:
            if dtype not in ("float16", "float64") and name not in (*GRADIENT, *SUMS_OF_SUMS):
                yield pytest.param(name, dtype, id=f"{name}-{dtype}")


@pytest.mark.parametrize(("name", "dtype"), list(parameters()))
def test_a_plain_expression_has_the_named_kernels_key(name: str, dtype: str) -> None:
    ranks = set()
    for shape, outs in CASES[name](dtype):
        assert texts(outs) == [canonical(named_kernels.make(name, shape, dtype)).text]
        ranks.add(ranks_of(outs))
    assert len(ranks) > 1


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_attention_and_its_gradients_are_the_four_named_kernels(dtype: str) -> None:
    for shape, outs in CASES["attention_dq"](dtype):
        sizes = [{k: n for k, n in shape.items() if k in named_kernels.get(name).shape_names} for name in GRADIENT]
        made, named = texts(outs), [canonical(named_kernels.make(n, s, dtype)).text for n, s in zip(GRADIENT, sizes)]
        # attention_dkv keeps a gradient for each head of queries; here those that share keys are summed at once
        assert sorted(made) == sorted(named) if shape["shared"] == 1 else set(named[:3]) < set(made) and len(made) == 5


@pytest.mark.parametrize("name", SUMS_OF_SUMS)
def test_sums_of_sums_are_the_named_kernels_in_value(name: str) -> None:
    d, (expression, inner) = named_kernels.get(name), SUMS_OF_SUMS[name]
    shape = {"m": 7, "n": 37, "k": 48, inner: 16}
    inputs = generate(d.kernel(shape), {}, 0)
    want = next(iter(ORACLES[name].reference(inputs, shape).values()))
    got = expression(inputs, 16).numpy().astype("float64")
    np.testing.assert_allclose(got, want, rtol=2**-8, atol=1e-3 * np.abs(want).max())


def test_every_named_kernel_has_a_case() -> None:
    assert set(CASES) | set(SUMS_OF_SUMS) == set(named_kernels.NAMES)
