"""Tidying changes no result, and it makes one kernel of all writings: of named kernels, odd ones and random ones."""

import random

import numpy as np
import odd_kernels
import pytest
from hypothesis import given, settings
from random_values import random_kernels
from tilewright import named_kernels
from tilewright.ir import axis, dtypes
from tilewright.ir.body import Fold, Reduce, Scan, Store, Value, values_of
from tilewright.ir.evaluation import evaluate, twin
from tilewright.ir.kernel import Kernel, kernel_text
from tilewright.ir.node import Node, walk
from tilewright.ir.normal_form import canonical, tidy
from tilewright.ir.operators import substitute

ODD = {n: make(*sizes) for n, (make, sizes) in odd_kernels.KERNELS.items()}
NAMED = {n: named_kernels.get(n).kernel(named_kernels.get(n).odd_shape) for n in named_kernels.NAMES}
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


@pytest.mark.slow
@given(random_kernels())
@settings(max_examples=40, deadline=None)
def test_random_kernels(kernel):
    check(kernel)
