"""A kernel pulled out of plain tensor expressions has the named kernel's key once it is tidied."""

import subprocess
import sys
from math import prod

import pytest
from pulled import Inlined, sides
from random_schedules import SYMBOLS
from tilewright import named_kernels
from tilewright.ir import const, dtypes, erf, exp, log, maximum, minimum, sqrt, sym, tanh, where
from tilewright.ir.body import Fold
from tilewright.ir.kernel import Kernel, kernel_text
from tilewright.ir.normal_form import canonical, tidy
from tilewright.ir.operators import cast

pytestmark = pytest.mark.many
LEAST = -3.4028234663852886e38
ROWS = {2: (12,), 3: (3, 4)}
"""Twelve rows, written with one dimension and with two."""


def check(pulled, name, shape, dtype="float32"):
    """The pulled kernel, tidied, against the named one."""
    named, mine = named_kernels.make(name, shape, dtype), tidy(pulled.build())
    assert canonical(mine).text == canonical(named).text
    assert tidy(mine) is mine


def gelu(x):
    return x * 0.5 * (erf(x * 0.7071067811865476) + 1.0)


# products -------------------------------------------------------------------------------------------------------------
K, N = 7, 10
EPILOGUES = {
    "matmul": lambda y, bias: y,
    "matmul_bias_relu": lambda y, bias: maximum(y + bias(), 0.0),
    "matmul_bias_gelu": lambda y, bias: gelu(y + bias()),
}


@pytest.mark.parametrize("rows", ROWS.values(), ids=str)
@pytest.mark.parametrize(
    "name", ["matmul", "matmul_nt", "matmul_tn", "matmul_mixed", "matmul_int8", "matmul_bias_relu", "matmul_bias_gelu"]
)
def test_products(name, rows):
    dtype = {"matmul_mixed": dtypes.bfloat16, "matmul_int8": dtypes.uint8}.get(name, dtypes.float32)
    p, acc = Inlined(dtype), dtypes.int32 if name == "matmul_int8" else dtypes.float32
    whole = {"range": (0, 255)} if name == "matmul_int8" else {}
    left = p.input("w", *((K, *rows) if name == "matmul_tn" else (*rows, K)), **whole)
    right = p.input("u", *((N, K) if name == "matmul_nt" else (K, N)), **({"dtype": dtypes.int8, "range": (-128, 127)} if whole else {}))

    def product(i, k):
        a = left[(*k, *i[:-1])] if name == "matmul_tn" else left[(*i[:-1], *k)]
        b = right[(i[-1], *k)] if name == "matmul_nt" else right[(*k, i[-1])]
        return cast(a, acc) * cast(b, acc)

    y = p.reduce("add", (*rows, N), (K,), product)
    bias = p.input("z", N) if "bias" in name else None
    epilogue = EPILOGUES.get(name, EPILOGUES["matmul"])
    p.store("o", (*rows, N), lambda i: epilogue(y[i], lambda: bias[i[-1]]), acc)
    check(p, name, {"m": 12, "n": N, "k": K}, dtype.name)


@pytest.mark.parametrize("batch", [(6,), (2, 3)])
def test_batched_product(batch):
    p = Inlined()
    x, y = p.input("x", *batch, 5, K), p.input("y", *batch, K, N)
    c = p.reduce("add", (*batch, 5, N), (K,), lambda i, k: x[(*i[:-1], *k)] * y[(*i[:-2], *k, i[-1])])
    p.store("c", (*batch, 5, N), lambda i: c[i])
    check(p, "batched_matmul", {"b": 6, "m": 5, "n": N, "k": K})


@pytest.mark.parametrize("rows", ROWS.values(), ids=str)
def test_matrix_times_vector(rows):
    p = Inlined()
    a, x = p.input("a", *rows, N), p.input("x", N)
    y = p.reduce("add", rows, (N,), lambda i, j: a[(*i, *j)] * x[j])
    p.store("y", rows, lambda i: y[i])
    check(p, "matvec", {"m": 12, "n": N})


@pytest.mark.parametrize("batch", [(2,), (1, 2)])
def test_convolution(batch):
    s = {"n": 2, "c": 3, "h": 6, "w": 5, "oc": 4, "kh": 3, "kw": 3, "stride": 1, "pad": 1, "groups": 1}
    p = Inlined()
    x, w = p.input("x", *batch, 3, 6, 5), p.input("w", 4, 3, 3, 3)

    def tap(i, k):
        *n, o, y, z = i
        c, r, t = k
        row, col = y + r - 1, z + t - 1
        inside = (row >= 0) & (row < 6) & (col >= 0) & (col < 5)
        return x.masked(inside, *n, c, row, col) * w[o, c, r, t]

    y = p.reduce("add", (*batch, 4, 6, 5), (3, 3, 3), tap)
    p.store("y", (*batch, 4, 6, 5), lambda i: y[i])
    check(p, "conv2d", s)


@pytest.mark.parametrize("batch", [(2,), (1, 2)])
def test_pooling(batch):
    s = {"n": 2, "c": 3, "h": 8, "w": 6, "kh": 3, "kw": 3, "stride": 2, "pad": 1}
    p = Inlined()
    x = p.input("x", *batch, 3, 8, 6)

    def seen(i, k):
        *n, y, z = i
        row, col = y * 2 + k[0] - 1, z * 2 + k[1] - 1
        inside = (row >= 0) & (row < 8) & (col >= 0) & (col < 6)
        return where(inside, x.masked(inside, *n, row, col), float("-inf"))

    top = p.reduce("max", (*batch, 3, 4, 3), (3, 3), seen)
    p.store("y", (*batch, 3, 4, 3), lambda i: top[i])
    check(p, "max_pool2d", s)


# rows -----------------------------------------------------------------------------------------------------------------
def sums(p, rows, name):
    x = p.input("x", *rows, N)
    if name == "sum_cols":
        y = p.reduce("add", (N,), rows, lambda i, j: x[(*j, *i)])
        return p.store("y", (N,), lambda i: y[i])
    y = p.reduce("add", rows, (N,), lambda i, j: x[(*i, *j)])
    return p.store("y", rows, lambda i: y[i])


def normed(p, rows, name):
    x, w = p.input("x", *rows, N), p.input("w", N)
    if name == "rmsnorm":
        square = p.reduce("add", rows, (N,), lambda i, j: x[(*i, *j)] * x[(*i, *j)])
        return p.store("y", (*rows, N), lambda i: x[i] * (1.0 / sqrt(square[i[:-1]] / float(N) + 1e-6)) * w[i[-1]])
    b = p.input("b", N)
    total = p.reduce("add", rows, (N,), lambda i, j: x[(*i, *j)])

    def mean(i):
        return total[i] / float(N)

    def dev(i, j):
        return x[(*i, j)] - mean(i)

    square = p.reduce("add", rows, (N,), lambda i, j: dev(i, *j) * dev(i, *j))

    def rstd(i):
        return 1.0 / sqrt(square[i] / float(N) + 1e-5)

    p.store("y", (*rows, N), lambda i: dev(i[:-1], i[-1]) * rstd(i[:-1]) * w[i[-1]] + b[i[-1]])
    if name == "layernorm_stats":
        p.store("mean", rows, mean)
        p.store("rstd", rows, rstd)
    return None


def softmaxes(p, rows, name):
    x = p.input("x", *rows, N)
    top = p.reduce("max", rows, (N,), lambda i, j: x[(*i, *j)])

    def e(i, j):
        return exp(x[(*i, *j)] - top[i])

    total = p.reduce("add", rows, (N,), e)
    if name == "softmax":
        p.store("y", (*rows, N), lambda i: e(i[:-1], i[-1:]) * (1.0 / total[i[:-1]]))
    elif name == "log_softmax":
        p.store("y", (*rows, N), lambda i: (x[i] - top[i[:-1]]) - log(total[i[:-1]]))
    else:
        label = p.input("label", *rows, dtype=dtypes.int64, range=(0, N - 1))
        p.store("loss", rows, lambda i: log(total[i]) + (top[i] - x[(*i, label[i])]))


def largest(p, rows, name):
    x, nowhere = p.input("x", *rows, N), 2**31 - 1
    p.block = []

    def among(value, most):
        return value.eq(most) | value.ne(value)

    top = p.reduce("max", rows, (N,), lambda i, j: x[(*i, *j)])
    at = p.reduce("min", rows, (N,), lambda i, j: where(among(x[(*i, *j)], top[i]), cast(j[0], dtypes.int32), nowhere), dtypes.int32)
    (left, right), (here, there) = sides(top), sides(at)
    best = maximum(left, right)
    first = minimum(where(among(left, best), here, nowhere), where(among(right, best), there, nowhere))
    p.fold(N, (top, at), (float("-inf"), nowhere), (best, first))
    p.store("y", rows, lambda i: at[i], dtypes.int32)


def running(p, rows, name):
    x = p.input("x", *rows, N)
    y = p.scan("add", (*rows, N), -1, lambda i: x[i])
    p.store("y", (*rows, N), lambda i: y[i])


def pointwise(p, rows, name):
    x = p.input("x", *rows, N)
    if name == "add":
        y = p.input("y", *rows, N)
        return p.store("o", (*rows, N), lambda i: x[i] + y[i])
    return p.store("o", (*rows, N), lambda i: gelu(x[i]))


def turned(p, rows, name):
    x = p.input("x", *rows, N)
    p.store("y", (N, *rows), lambda i: x[(*i[1:], i[0])])


OF_ROWS = {
    "sum_rows": sums, "sum_cols": sums, "layernorm": normed, "layernorm_stats": normed, "rmsnorm": normed, "softmax": softmaxes,
    "log_softmax": softmaxes, "cross_entropy": softmaxes, "argmax": largest, "cumsum": running, "gelu": pointwise, "add": pointwise,
    "transpose": turned,
}  # fmt: skip


@pytest.mark.parametrize("rows", ROWS.values(), ids=str)
@pytest.mark.parametrize("name", OF_ROWS)
def test_rows(name, rows):
    p = Inlined()
    OF_ROWS[name](p, rows, name)
    check(p, name, {"m": 12, "n": N})


@pytest.mark.parametrize("shape", [(24,), (2, 12), (2, 3, 4)], ids=str)
def test_sum_of_everything(shape):
    p = Inlined()
    x = p.input("x", *shape)
    y = p.reduce("add", (), shape, lambda i, j: x[j])
    p.store("y", (), lambda i: y[()])
    check(p, "sum_all", {"n": 24})


@pytest.mark.parametrize("rows", ROWS.values(), ids=str)
def test_embedding(rows):
    p = Inlined()
    table, ids = p.input("t", 9, N), p.input("ids", *rows, dtype=dtypes.int64, range=(0, 8))
    p.store("y", (*rows, N), lambda i: table[ids[i[:-1]], i[-1]])
    check(p, "embedding", {"v": 9, "n": 12, "d": N})


@pytest.mark.parametrize("rows", ROWS.values(), ids=str)
def test_gradient_of_embedding(rows):
    p = Inlined()
    dy, ids = p.input("dy", *rows, N), p.input("ids", *rows, dtype=dtypes.int64, range=(0, 8))
    p.store("dt", (9, N), lambda i: dy[i], over=(*rows, N), at=lambda i: (ids[i[:-1]], i[-1]), combine="add")
    check(p, "embedding_grad", {"v": 9, "n": 12, "d": N})


# attention ------------------------------------------------------------------------------------------------------------
S, D = 8, 4
HEADS = {3: (6,), 4: (2, 3), 5: (2, 1, 3)}
"""Six heads with their keys in one, two or three dimensions."""


def mask_of(name):
    if name == "attention_full":
        return lambda i, j, x, otherwise: x
    if name == "attention_window":
        return lambda i, j, x, otherwise: where((j <= i) & (j > i - 5), x, otherwise)
    return lambda i, j, x, otherwise: where(j <= i, x, otherwise)


def finite(m):
    return maximum(m, LEAST)


def attention(p, heads, name, shared=()):
    """`shared`: how many heads of queries share their keys; scores and weights are inlined where they are read."""
    queries = (*heads[:-1], heads[-1] * prod(shared), S)
    q, (k, v) = p.input("q", *queries, D), (p.input(t, *heads, S, D) for t in "kv")
    every, seen = (*heads, *shared), mask_of(name)
    p.block = []

    def of_keys(i):
        return i[: len(heads)]

    def of_query(i):
        *z, row = i
        return (*z[:-2], z[-2] * shared[0] + z[-1], row) if shared else i

    dot = p.reduce("add", (*every, S, S), (D,), lambda i, e: q[(*of_query(i[:-1]), *e)] * k[(*of_keys(i), i[-1], *e)])

    def score(i, j):
        return seen(i[-1], j, dot[(*i, j)] * D**-0.5, float("-inf"))

    top = p.reduce("max", (*every, S), (S,), lambda i, j: score(i, *j))

    def weight(i, j):
        return seen(i[-1], j, exp(score(i, j) - finite(top[i])), 0.0)

    total = p.reduce("add", (*every, S), (S,), lambda i, j: weight(i, *j))
    out = p.reduce("add", (*every, S, D), (S,), lambda i, j: weight(i[:-1], *j) * v[(*of_keys(i), *j, i[-1])])
    (m, n), (l0, l1), (o0, o1) = sides(top), sides(total), sides(out)
    both = maximum(m, n)
    left, right = (exp(finite(x) - finite(both)) for x in (m, n))
    p.fold(S, (top, total, out), (float("-inf"), 0.0, 0.0), (both, l0 * left + l1 * right, o0 * left + o1 * right))
    p.store("y", (*queries, D), lambda i: out[i] * (1.0 / total[i[:-1]]), over=(*every, S, D), at=lambda i: (*of_query(i[:-1]), i[-1]))
    if name == "attention_lse":
        p.store("lse", (*every, S), lambda i: top[i] + log(total[i]))


@pytest.mark.parametrize("heads", HEADS.values(), ids=str)
@pytest.mark.parametrize("name", ["attention", "attention_full", "attention_window", "attention_lse"])
def test_attention(name, heads):
    p = Inlined()
    attention(p, heads, name)
    check(p, name, {"b": 2, "h": 3, "s": S, "d": D} | ({"w": 5} if name == "attention_window" else {}))


@pytest.mark.parametrize("heads", [(3,), (1, 3), (2, 3)], ids=str)
def test_attention_with_shared_keys(heads):
    p = Inlined()
    attention(p, heads, "attention", (2,))
    check(p, "attention_grouped", {"b": prod(heads[:-1]), "h": 6, "hk": 3, "s": S, "d": D})


def gradient(p, heads, name):
    q, k, v, dy = (p.input(t, *heads, S, D) for t in ("q", "k", "v", "dy"))
    lse, delta = (p.input(t, *heads, S) for t in ("lse", "delta"))
    turn = name == "attention_dkv"
    p.block = []

    def pair(i):
        """(heads, row, key) of the place of a score."""
        return (i[:-2], i[-1], i[-2]) if turn else (i[:-2], i[-2], i[-1])

    def product(a, b):
        def of(i, e):
            z, row, at = pair(i)
            return a[(*z, row, *e)] * b[(*z, at, *e)]

        return p.reduce("add", (*heads, S, S), (D,), of)

    dot, change = product(q, k), product(dy, v)

    def weight(i):
        z, row, at = pair(i)
        return where(at <= row, exp(dot[i] * D**-0.5 - lse[(*z, row)]), 0.0)

    def slope(i):
        z, row, _ = pair(i)
        return weight(i) * (change[i] - delta[(*z, row)])

    def summed(what, by):
        return p.reduce("add", (*heads, S, D), (S,), lambda i, j: what((*i[:-1], *j)) * by[(*i[:-2], *j, i[-1])])

    found = [summed(slope, q), summed(weight, dy)] if turn else [summed(slope, k)]
    p.fold(S, found, [0.0] * len(found), [a + b for a, b in map(sides, found)])
    if not turn:
        return p.store("dq", (*heads, S, D), lambda i: found[0][i] * D**-0.5)
    p.store("dk", (*heads, S, D), lambda i: found[0][i] * D**-0.5)
    return p.store("dv", (*heads, S, D), lambda i: found[1][i])


@pytest.mark.parametrize("heads", HEADS.values(), ids=str)
@pytest.mark.parametrize("name", ["attention_dq", "attention_dkv"])
def test_gradients_of_attention(name, heads):
    p = Inlined()
    gradient(p, heads, name)
    check(p, name, {"b": 2, "h": 3, "s": S, "d": D})


@pytest.mark.parametrize("heads", HEADS.values(), ids=str)
def test_delta_of_attention(heads):
    p = Inlined()
    y, dy = p.input("y", *heads, S, D), p.input("dy", *heads, S, D)
    total = p.reduce("add", (*heads, S), (D,), lambda i, e: dy[(*i, *e)] * y[(*i, *e)])
    p.store("delta", (*heads, S), lambda i: total[i])
    check(p, "attention_delta", {"b": 2, "h": 3, "s": S, "d": D})


# named kernels --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", named_kernels.NAMES)
def test_named_kernels_are_written_so(name):
    """At their own sizes and at odd ones, there in two element types."""
    d = named_kernels.get(name)
    for shape in ({}, d.odd_shape):
        for dtype in d.dtypes[: 2 if shape else 1]:
            named = d.kernel(shape, dtype)
            assert canonical(tidy(named)).text == canonical(named).text


@pytest.mark.parametrize("name", named_kernels.NAMES)
def test_a_tidy_kernel_stays_as_it_is(name):
    """Also where it is made anew, so that nothing remembers it."""
    once = tidy(named_kernels.get(name).kernel(named_kernels.get(name).odd_shape))
    again = tidy(Kernel(once.name, once.body, once.stores, once.buffers))
    assert again is not once
    assert kernel_text(again) == kernel_text(once)


@pytest.mark.slow
def test_every_process_names_alike():
    code = (
        "from tilewright import named_kernels\nfrom tilewright.ir.normal_form import tidy\nfrom tilewright.ir.kernel import kernel_text\n"
        "for n in ('attention_dkv', 'layernorm_stats', 'conv2d'): print(kernel_text(tidy(named_kernels.make(n))))"
    )
    texts = {
        subprocess.run([sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True).stdout
        for seed in "01"
    }
    assert len(texts) == 1 and "p0" in texts.pop()


# ties, sites and names ------------------------------------------------------------------------------------------------
def axes_by_nest(kernel):
    """The axes of each value and store, then those it reduces."""
    found = {v.name: [a.arg.name for a in (*v.axes, *v.reduce_axes)] for v in kernel.values.values()}
    return found | {s.buffer.name: [a.arg.name for a in s.axes] for s in kernel.stores}


def test_rows_and_columns_of_one_nest_stay_apart():
    p = Inlined()
    x = p.input("x", 8, N)
    gram = p.reduce("add", (8, 8), (N,), lambda i, k: x[i[0], k[0]] * x[i[1], k[0]])
    norm = p.reduce("add", (8,), (N,), lambda i, k: x[i[0], k[0]] * x[i[0], k[0]])
    p.store("y", (8, 8), lambda i: gram[i] / sqrt(norm[i[0]] * norm[i[1]]))
    found = axes_by_nest(tidy(p.build()))
    assert found["r0"][:2] == found["y"] == ["d0", "d1"]
    assert found["r1"][0] not in found["y"]  # it is read along both


def test_ties_that_contradict_each_other_do_not_join_two_axes_of_one_nest():
    p = Inlined()
    x, y = p.input("x", 8), p.input("y", 8)
    both = p.reduce("add", (), (8,), lambda i, k: x[k] * y[k])
    p.store("z", (8, 8), lambda i: x[i[0]] * y[i[1]] * both[()])
    found = axes_by_nest(tidy(p.build()))
    assert len(set(found["z"])) == 2


def test_nothing_outside_a_fold_is_of_the_folded_family():
    """A tile of the fold is no tile of a store that walks the same dimension."""
    p = Inlined()
    x = p.input("x", 6, N)
    p.block = []
    total = p.reduce("add", (6,), (N,), lambda i, j: x[(*i, *j)])
    p.fold(N, (total,), (0.0,), (sum(sides(total)[1:], sides(total)[0]),))
    p.store("y", (6, N), lambda i: x[i] * total[i[:1]])
    kernel = tidy(p.build())
    families = {a.arg.name: a.arg.family for a in kernel.axes}
    found = axes_by_nest(kernel)
    assert families[found["y"][1]] != families[found["r0"][1]] == kernel.body[0].axis.arg.family


def test_axes_lie_in_the_order_in_which_they_are_read():
    def made(turned):
        p = Inlined()
        x = p.input("x", 6, 5, N)
        if turned:
            total = p.reduce("add", (5, 6), (N,), lambda i, j: exp(x[(i[1], i[0], *j)]))
            p.store("y", (6, 5), lambda i: total[i[1], i[0]] * 2.0)
        else:
            total = p.reduce("add", (6, 5), (N,), lambda i, j: exp(x[(*i, *j)]))
            p.store("y", (6, 5), lambda i: total[i] * 2.0)
        return canonical(tidy(p.build())).text

    assert made(True) == made(False)


def test_a_value_that_waits_for_another_reduction_has_loops_of_its_own():
    def site(wait):
        p = Inlined()
        x, y, z = p.input("x", 6, N), p.input("y", N, 5), p.input("z", 6, 7)
        dot = p.reduce("add", (6, 5), (N,), lambda i, k: x[i[0], k[0]] * y[k[0], i[1]])
        other = p.reduce("max", (6,), (7,), lambda i, k: z[(*i, *k)])

        def weight(i):
            return exp(dot[i] - other[i[0]]) if wait else exp(dot[i])

        total = p.reduce("add", (6,), (5,), lambda i, j: weight((*i, *j)))
        p.store("s", (6, 5), lambda i: weight(i) / total[i[0]] + other[i[0]])
        return axes_by_nest(tidy(p.build()))

    found = site(False)
    assert found["p0"] == found["r0"][:2]
    found = site(True)
    assert found["p0"][1] != found["r0"][1]


def test_independent_sums_share_a_loop_and_one_after_another_do_not():
    p = Inlined()
    x, y = p.input("x", 6, N), p.input("y", 6, N)
    one = p.reduce("add", (6,), (N,), lambda i, j: x[(*i, *j)])
    other = p.reduce("max", (6,), (N,), lambda i, j: y[(*i, *j)])
    last = p.reduce("add", (6,), (N,), lambda i, j: x[(*i, *j)] - one[i])
    p.store("z", (6,), lambda i: one[i] + other[i] + last[i])
    kernel = tidy(p.build())
    found = axes_by_nest(kernel)
    assert found["r0"] == found["r1"] == ["d0", "d1@r0"]
    assert found["r2"] == ["d0", "d1@r2"]
    assert [v.name for v in kernel.body] == ["r0", "r1", "r2"]  # side by side


def test_sums_over_other_extents_do_not():
    p = Inlined()
    x, y = p.input("x", 6, N), p.input("y", 6, N + 1)
    one, other = (p.reduce("add", (6,), (b.shape[1],), lambda i, j, b=b: b[(*i, *j)]) for b in (x, y))
    p.store("z", (6,), lambda i: one[i] + other[i])
    found = axes_by_nest(tidy(p.build()))
    assert found["r0"][1] != found["r1"][1]


def test_keys_and_values_of_other_lengths_are_other_axes():
    def made(length):
        p = Inlined()
        q, k, v = p.input("q", S, D), p.input("k", S, D), p.input("v", S, length)
        p.block = []
        dot = p.reduce("add", (S, S), (D,), lambda i, e: q[i[0], e[0]] * k[i[1], e[0]])
        out = p.reduce("add", (S, length), (S,), lambda i, j: exp(dot[i[0], j[0]]) * v[j[0], i[1]])
        p.fold(S, (out,), (0.0,), (sum(sides(out), const(0.0)),))
        p.store("y", (S, length), lambda i: out[i])
        return {a.arg.family for a in tidy(p.build()).axes}

    assert len(made(D)) == 3
    assert len(made(D + 1)) == 4


def test_what_is_worth_keeping_has_a_name():
    """Shared by two nests, or an operand of a product; not a load, a sum or a comparison, nor what one nest has for
    itself."""

    def points(element, again):
        p = Inlined()
        x, w, y = p.input("x", 6, N), p.input("w", N, 5), p.input("y", 6, N)
        total = p.reduce("add", (6,), (N,), lambda i, j: element(x[(*i, *j)], y[(*i, *j)]))
        out = p.reduce("add", (6, 5), (N,), lambda i, j: again(x[i[0], j[0]], y[i[0], j[0]]) * w[j[0], i[1]])
        p.store("z", (6, 5), lambda i: total[i[:1]] + out[i])
        return [str(v.expr) for v in tidy(p.build()).body if not hasattr(v.expr, "combine")]

    assert points(lambda x, y: exp(x), lambda x, y: exp(x)) == ["exp(x[d0, d2@p0])"]
    assert points(lambda x, y: exp(x), lambda x, y: exp(x) + y) == ["exp(x[d0, d2@p0])", "(p0[d0, d2@p1] + y[d0, d2@p1])"]
    assert points(lambda x, y: x / y, lambda x, y: x / y) == ["(x[d0, d2@p0] / y[d0, d2@p0])"]
    assert points(lambda x, y: x - y, lambda x, y: x - y) == []
    assert points(lambda x, y: where(x < y, x, y), lambda x, y: where(x < y, x, y)) == []
    # once for each of five columns else
    assert points(lambda x, y: x, lambda x, y: tanh(y)) == ["tanh(y[d0, d3@p0])"]
    assert points(lambda x, y: tanh(y), lambda x, y: x) == []


def test_a_block_and_what_follows_it_share_no_value():
    """Inside a fold's block a component is that of a tile."""
    p = Inlined()
    x = p.input("x", 6, N)
    p.block = []
    top = p.reduce("max", (6,), (N,), lambda i, j: x[(*i, *j)])
    total = p.reduce("add", (6,), (N,), lambda i, j: exp(x[(*i, *j)] - exp(top[i])))
    (a, b), (c, d) = sides(top), sides(total)
    p.fold(N, (top, total), (float("-inf"), 0.0), (maximum(a, b), c + d))
    p.store("y", (6, N), lambda i: exp(x[i] - exp(top[i[:1]])) + total[i[:1]])
    kernel = tidy(p.build())
    assert [type(i) for i in kernel.body] == [Fold]
    assert [v.name for v in kernel.body[0].block] == ["r0", "r1"]


def test_names_of_parameters_are_free_to_choose():
    p = Inlined()
    x = p.input("p0", 6, N)
    total = p.reduce("add", (6,), (N,), lambda i, j: exp(x[(*i, *j)]))
    p.store("d0", (6, N), lambda i: exp(x[i]) * total[i[:1]])
    found = axes_by_nest(tidy(p.build()))
    assert found == {"p1": ["d1", "d2@p1"], "r0": ["d1", "d2@r0"], "d0": ["d1", "d2@d0"]}


def test_deep_and_wide_expressions_take_no_recursion():
    p = Inlined()
    x = p.input("x", 6)

    def long(i):
        y = x[i]
        for _ in range(3000):
            y = minimum(y + 1.0, 3.0)
        return y

    p.store("y", (6,), long)
    found = tidy(p.build())
    assert len(found.stores) == 1 and found.body == ()


def test_what_only_a_block_reads_is_computed_in_its_tiles():
    p = Inlined()
    x, w = p.input("x", 6, N), p.input("w", N, 5)
    p.block = []
    total = p.reduce("add", (6,), (N,), lambda i, j: exp(x[(*i, *j)]))
    out = p.reduce("add", (6, 5), (N,), lambda i, j: exp(x[(i[0], *j)]) * w[(*j, i[1])])
    p.fold(N, (total, out), (0.0, 0.0), [a + b for a, b in map(sides, (total, out))])
    p.store("y", (6, 5), lambda i: out[i] * (1.0 / total[i[:1]]))
    (fold,) = tidy(p.build()).body
    assert [v.name for v in fold.block] == ["p0", "r0", "r1"]  # small results first


def test_the_order_of_values_is_that_of_levels():
    p = Inlined()
    attention(p, (6,), "attention")
    (fold,) = tidy(p.build()).body
    assert [v.name for v in fold.block] == ["r0", "p0", "r1", "p1", "r2", "r3"]


@pytest.mark.parametrize("name", sorted(SYMBOLS))
def test_symbolic_kernels_are_written_so(name):
    d = named_kernels.get(name)
    named = d.kernel({**d.odd_shape, **{n: sym(n, 1, 4096) for n in SYMBOLS[name]}})
    assert canonical(tidy(named)).text == canonical(named).text
