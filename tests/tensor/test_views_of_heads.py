"""Every view of every head, forward and gradients, and every pair of readers of every statistic, against NumPy in float64.

Kernels are evaluated in float64, so that an element that no kernel wrote is NaN. `--thorough` takes more losses and sizes,
and compiles all cases; a plain run compiles a covering set."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from agreement import agrees
from read_in_parts import READERS, STATISTICS
from thorough import amount
from tilewright.tensor import Tensor
from tilewright.tensor.gradients.reverse import gradients
from tilewright.tensor.graph.primitives import const
from viewed_heads import HEADS, SOURCES, VIEWS, by_kernels, drawn

pytestmark = [pytest.mark.many, pytest.mark.usefixtures("graphs")]


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.covering(each=2)
def test_views_of_a_head(head: str, request: pytest.FixtureRequest) -> None:
    h = HEADS[head]
    for n, (view, (of_tensor, of_array)) in enumerate(VIEWS.items()):
        losses = range(3) if amount(request, 1, 3) == 3 else (0,) if n % 3 else (1, 2)
        agrees(
            f"{view} of {head}", lambda *a, v=of_tensor: v(h.tensors(*a)), lambda *a, v=of_array: v(h.arrays(*a)), drawn(h.shapes), losses
        )


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.covering(each=2)
def test_heads_of_a_view(head: str, request: pytest.FixtureRequest) -> None:
    h = HEADS[head]
    for n, (source, (shape, of_tensor, of_array)) in enumerate(SOURCES.items()):
        shapes = (shape(h.shapes[0]), *h.shapes[1:])
        losses = range(3) if amount(request, 1, 3) == 3 else (n % 3,)
        agrees(
            f"{head} of {source}",
            lambda x, *a, v=of_tensor: h.tensors(v(x), *a),
            lambda x, *a, v=of_array: h.arrays(v(x), *a),
            drawn(shapes),
            losses,
        )


def pairs() -> Iterator[tuple[str, str]]:
    yield from combinations_with_replacement(READERS, 2)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_two_readers_of_a_statistic(statistic: str, request: pytest.FixtureRequest) -> None:
    of_tensor, of_array = STATISTICS[statistic]
    for shape in ((9, 6), (300, 70)) if amount(request, 1, 2) == 2 else ((9, 6),):
        x = np.random.default_rng(0).uniform(1, 2, shape)
        p, want = of_tensor(Tensor(x)), of_array(x)
        for pair in pairs():
            found = by_kernels([READERS[r][0](p).node for r in pair])
            for r, got in zip(pair, found, strict=True):
                np.testing.assert_allclose(got, READERS[r][1](want), 1e-9, 1e-9, err_msg=f"{statistic}: {' and '.join(pair)}")


# compiled ----------------------------------------------------------------------------------------------------------------
@pytest.mark.covering
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("view", VIEWS)
def test_compiled_views(head: str, view: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values and gradients, eager and captured, in float32 as kernels."""
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    h, (of_tensor, of_array) = HEADS[head], VIEWS[view]
    given = drawn(h.shapes)
    places = tuple(range(len(given)))

    def loss(*a: Any) -> Any:
        return of_tensor(h.tensors(*a)).sum()

    def both(*a: Any) -> Any:
        return of_tensor(h.tensors(*a)), *tw.grad(loss, argnums=places)(*a)

    narrow = [Tensor(a.astype(np.float32)) for a in given]
    wide = [Tensor(a).node for a in given]
    out = loss(*map(Tensor.of, wide)).node
    want = of_array(h.arrays(*given)), *by_kernels(gradients([out], [const(1.0, out.dtype)], wide))
    for way in (both, tw.jit(both)):
        for n, (got, w) in enumerate(zip(way(*narrow), want, strict=True)):
            top = float(np.max(np.abs(w), initial=1.0))
            np.testing.assert_allclose(got.numpy(), w, rtol=1e-3, atol=1e-4 * top, err_msg=f"{view} of {head}, {n}")


@pytest.mark.covering
@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("second", READERS)
@pytest.mark.parametrize("first", READERS)
def test_compiled_readers(first: str, second: str, statistic: str) -> None:
    of_tensor, of_array = STATISTICS[statistic]
    x = np.random.default_rng(0).uniform(1, 2, (9, 6))

    @tw.jit
    def both(x: Tensor) -> Any:
        p = of_tensor(x)
        return READERS[first][0](p), READERS[second][0](p)

    for got, r in zip(both(Tensor(x.astype(np.float32))), (first, second), strict=True):
        want = READERS[r][1](of_array(x))
        np.testing.assert_allclose(got.numpy(), want, 1e-4, 1e-4, err_msg=f"{statistic}: {first} and {second}")
