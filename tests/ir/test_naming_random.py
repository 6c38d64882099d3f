"""Tidying changes no result, and it makes one kernel of all writings: of named kernels, odd ones and random ones."""

import random

import numpy as np
import odd_kernels
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tilewright import kernels
from tilewright.ir import KernelBuilder, axis, dtypes, exp, maximum, sqrt, tanh, where
from tilewright.ir.body import Fold, Reduce, Scan, Store, Value, values_of
from tilewright.ir.evaluation import evaluate, twin
from tilewright.ir.kernel import Kernel
from tilewright.ir.kernel_text import kernel_text
from tilewright.ir.node import Node, walk
from tilewright.ir.normal_form.canonical import canonical
from tilewright.ir.normal_form.naming import tidy
from tilewright.ir.operators import substitute

ODD = {n: make(*sizes) for n, (make, sizes) in odd_kernels.KERNELS.items()}
NAMED = {n: kernels.get(n).kernel(kernels.get(n).odd_shape) for n in kernels.NAMES}
EVERY = NAMED | ODD


def raw(kernel, seed=0):
    """The kernel without named pointwise values, every nest with axes of its own, and values in another legal order:
    by substitution, statement by statement."""
    rng, point, count = random.Random(seed), {}, iter(range(10**6))

    def inlined(e):
        while found := {n: point[n.arg] for n in walk(e) if n.op == "ref" and n.arg in point}:
            e = substitute(e, {n: substitute(v.body, dict(zip(v.axes, n.src, strict=True))) for n, v in found.items()})
        return e

    def own(axes):
        return {a: axis(f"z{next(count)}", a.arg.extent) for a in axes}

    def value(v, kept):
        body = inlined(v.body)
        if isinstance(v.expr, Node) and v.name not in kept:
            point[v.name] = Value(v.name, v.axes, body, v.dtype)
            return ()
        table = own((*v.axes, *v.reduce_axes))
        body, axes = substitute(body, table), tuple(table[a] for a in v.axes)
        e = v.expr
        if isinstance(e, Reduce):
            body = Reduce(e.combine, tuple(table[a] for a in e.axes), body, e.dtype)
        elif isinstance(e, Scan):
            body = Scan(e.combine, table[e.axis], body, e.dtype)
        return (Value(v.name, axes, body, v.dtype),)

    body = []
    for item in kernel.body:
        if isinstance(item, Fold):
            block = tuple(w for v in item.block for w in value(v, item.components))
            body.append(Fold(item.name, axis(f"z{next(count)}", item.axis.arg.extent), block, item.components, item.monoid))
            point = {n: v for n, v in point.items() if n not in {b.name for b in item.block}}
        else:
            body += value(item, ())
    stores = []
    for s in kernel.stores:
        table = own(s.axes)
        expr, *indices = (substitute(inlined(e), table) for e in (s.expr, *s.indices))
        mask = None if s.mask is None else substitute(inlined(s.mask), table)
        stores.append(Store(s.buffer, tuple(indices), expr, tuple(table.values()), s.combine, mask, s.own))
    return Kernel(kernel.name, tuple(shuffled(body, rng)), tuple(stores), kernel.buffers)


def shuffled(body, rng):
    """In any order in which everything comes after what it reads."""
    left, out, known = list(body), [], set()
    while left:
        inside = {id(i): {v.name for v in values_of(i)} for i in left}
        ready = [i for i in left if all(n.arg in known | inside[id(i)] for v in values_of(i) for n in walk(v.body) if n.op == "ref")]
        out.append(rng.choice(ready))
        left.remove(out[-1])
        known |= inside[id(out[-1])]
    return out


def inputs_of(kernel, mode, seed=0):
    rng = np.random.default_rng(seed)
    out = {}
    for b in kernel.inputs:
        if b.dtype.is_int or b.dtype is dtypes.bool_:
            low, high = b.range or (0, 1 if b.dtype is dtypes.bool_ else 9)
            out[b.name] = rng.integers(low, high, b.shape, endpoint=True).astype(b.dtype.np)
        else:
            out[b.name] = twin.draw(b.shape, rng.integers(1 << 30)) if mode == "twin" else rng.standard_normal(b.shape).astype(b.dtype.np)
    return out


def check(kernel, tiles=(None,)):
    """Equal results, one form for every writing, and a tidy kernel is its own."""
    mine = tidy(kernel)
    for mode in ("twin", "float64"):
        inputs = inputs_of(kernel, mode)
        for tile in tiles:
            want, got = (evaluate(k, inputs, mode=mode, tile=tile) for k in (kernel, mine))
            for name, a in want.items():
                if mode == "twin" or a.dtype.kind in "iu":
                    np.testing.assert_array_equal(got[name], a)
                else:
                    np.testing.assert_allclose(got[name], a, rtol=1e-12, atol=1e-13)
    anew = Kernel(mine.name, mine.body, mine.stores, mine.buffers)
    assert kernel_text(tidy(anew)) == kernel_text(mine)
    for seed in range(2):
        assert canonical(tidy(raw(kernel, seed))).text == canonical(mine).text
    return mine


@pytest.mark.many
@pytest.mark.parametrize("name", EVERY)
def test_results_stay_and_all_writings_are_one(name):
    kernel = EVERY[name]
    folds = any(isinstance(i, Fold) for i in kernel.body)
    check(kernel, (None, 1, 4) if folds else (None,))


SIZES = {"m": 3, "n": 4, "k": 3}
"""Two dimensions are equally long, so that axes could be taken for each other."""


@st.composite
def random_kernels(draw):
    """A few values over two of the dimensions, pointwise, reduced or running, each made of inputs and of values
    before it."""
    kb = KernelBuilder("random")
    inputs = {d: kb.input("_".join(d), [SIZES[f] for f in d], dtypes.float32) for d in (("m",), ("n",), ("m", "n"), ("n", "k"), ("k", "m"))}
    ids = kb.input("ids", (SIZES["m"],), dtypes.int64, range=(0, SIZES["n"] - 1))
    values = []

    def leaf(bound):
        """Something to read with `bound`, axes by dimension."""
        found = [lambda b=b, d=d: b[tuple(bound[f] for f in d)] for d, b in inputs.items() if set(d) <= set(bound)]
        found += [lambda v=v, d=d: v[tuple(bound[f] for f in d)] for v, d in values if set(d) <= set(bound)]
        if "m" in bound:
            found.append(lambda: inputs["m", "n"][bound["m"], ids[bound["m"]]])
        found.append(lambda: inputs["n",][0] + inputs["m",][1])
        return draw(st.sampled_from(found))()

    def element(bound):
        e = leaf(bound)
        for how in draw(st.lists(st.sampled_from(["exp", "tanh", "sqrt", "add", "mul", "div", "max", "where", "scale"]), max_size=4)):
            if how in ("exp", "tanh"):
                e = exp(e * 0.1) if how == "exp" else tanh(e)
            elif how == "sqrt":
                e = sqrt(e * e + 0.5)
            elif how == "scale":
                e = e * 0.25
            else:
                f = leaf(bound)
                e = {"add": e + f, "mul": e * f, "div": e / (f * f + 1.0), "max": maximum(e, f), "where": where(e < f, e, f)}[how]
        return e

    def axes(dims, site):
        return {f: kb.axis(f"{f}@{site}", SIZES[f]) for f in dims}

    for n in range(draw(st.integers(1, 6))):
        dims = tuple(draw(st.lists(st.sampled_from("mnk"), max_size=2, unique=True)))
        kind = draw(st.sampled_from(["point", "point", "sum", "sum", "max", "scan"]))
        if kind == "scan" and not dims:
            kind = "point"
        if kind in ("sum", "max"):
            over = draw(st.sampled_from([f for f in "mnk" if f not in dims]))
            bound = axes((*dims, over), f"v{n}")
            made = kb.reduce("add" if kind == "sum" else "max", f"v{n}", [bound[f] for f in dims], bound[over], element(bound))
        else:
            bound = axes(dims, f"v{n}")
            at, e = [bound[f] for f in dims], element(bound)
            made = kb.value(f"v{n}", at, e) if kind == "point" else kb.scan("add", f"v{n}", at, draw(st.sampled_from(at)), e)
        values.append((made, dims))
    for n in range(draw(st.integers(1, 2))):
        dims = tuple(draw(st.lists(st.sampled_from("mnk"), min_size=1, max_size=2, unique=True)))
        bound = axes(dims, f"o{n}")
        kb.store(f"o{n}", dtypes.float32, [SIZES[f] for f in dims], list(bound.values()), element(bound))
    read = {n.arg for e in kb.build().expressions() for n in walk(e) if n.op == "ref"}
    for made, dims in values:  # nothing says in which order values come that no store depends on
        if made.name not in read:
            bound = axes(dims, f"{made.name}o")
            at = tuple(bound[f] for f in dims)
            kb.store(f"{made.name}o", dtypes.float32, [SIZES[f] for f in dims], at, made[at])
    return kb.build()


@pytest.mark.slow
@given(random_kernels())
@settings(max_examples=40, deadline=None)
def test_random_kernels(kernel):
    check(kernel)
