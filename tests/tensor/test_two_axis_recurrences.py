"""Recurrences over two axes as scans over rows whose body is a recurrence along the row: against plain Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import KernelBuilder, xp
from tilewright.ir import absolute, maximum, minimum, where

FAR = 1e30


def _row(name: str, x: Any, above: Any, other: Any, corner: Any) -> Any:
    """The kernel of a row: (place, batch) each, of the row above."""
    n, m = above.shape
    kb = KernelBuilder(f"{name}_row")
    i, t = kb.axis("m", m), kb.axis("n", n)
    a, up = kb.input("x", x.shape, x.dtype), kb.input("above", (n, m), x.dtype)
    b, c = kb.input("other", (n, m), x.dtype), kb.input("corner", (), x.dtype)
    before = where(t > 0, up.masked(t > 0, t - 1, i), c[()])
    steps: dict[str, Callable[[Any], Any]] = {
        "dtw": lambda left: absolute(a[i] - b[t, i]) + minimum(minimum(left, up[t, i]), before),
        "smith_waterman": lambda left: maximum(
            maximum(left - 1.0, up[t, i] - 1.0), maximum(before + where(a[i].eq(b[t, i]), 2.0, -1.0), 0.0)
        ),
        "gauss_seidel": lambda left: (left + up[t, i] + a.masked(t < n - 1, t + 1, i) + b[t, i]) * 0.25 + c[()],
    }
    (s,) = kb.recurrence(("s",), (i, t), t, (FAR if name == "dtw" else 0.0,), steps[name], x.dtype)
    kb.store("y", x.dtype, (n, m), (i, t), s[i, t], (t, i))
    return kb.build()


dtw_row = tw.operation(lambda x, above, other, corner: _row("dtw", x, above, other, corner))
smith_waterman_row = tw.operation(lambda x, above, other, corner: _row("smith_waterman", x, above, other, corner))
gauss_seidel_row = tw.operation(lambda x, above, other, corner: _row("gauss_seidel", x, above, other, corner))


def dtw(a: Any, b: Any) -> Any:
    corners = xp.where(xp.arange(a.shape[0]) == 0, 0.0, FAR).astype(str(a.dtype))
    return tw.scan(lambda above, r: ((new := dtw_row(r[0], above, b, r[1])), new), b * 0 + FAR, (a, corners))[1]


def smith_waterman(a: Any, b: Any) -> Any:
    corners = a[:, 0] * 0
    return tw.scan(lambda above, r: ((new := smith_waterman_row(r[0], above, b, r[1])), new), b * 0, (a, corners))[1]


def gauss_seidel(u: Any, _: Any) -> Any:
    below = xp.concat([u[1:], u[:1] * 0])
    return tw.scan(lambda above, r: ((new := gauss_seidel_row(r[0], above, r[1], r[2])), new), u[0] * 0, (u, below, u[:, 0, 0] * 0))[1]


def _plain(name: str, a: Any, b: Any) -> Any:
    rows, places, batch = (*a.shape[:1], *(b.shape if name != "gauss_seidel" else a.shape[1:]))
    out = np.zeros((rows, places, batch))
    outside = FAR if name == "dtw" else 0.0
    for i in range(batch):
        for r in range(rows):
            for t in range(places):
                up = out[r - 1, t, i] if r else outside
                left = out[r, t - 1, i] if t else outside
                both = out[r - 1, t - 1, i] if r and t else outside if r or t else 0.0
                if name == "dtw":
                    out[r, t, i] = abs(a[r, i] - b[t, i]) + min(left, up, both)
                elif name == "smith_waterman":
                    out[r, t, i] = max(left - 1, up - 1, both + (2 if a[r, i] == b[t, i] else -1), 0)
                else:
                    right, down = (a[r, t + 1, i] if t + 1 < places else 0), (a[r + 1, t, i] if r + 1 < rows else 0)
                    out[r, t, i] = (left + up + right + down) / 4
    return out


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (7, 5, 3), (12, 20, 17)])
@pytest.mark.parametrize("f", [dtw, smith_waterman, gauss_seidel])
@pytest.mark.covering
def test_recurrences_over_two_axes(f: Callable[..., Any], sizes: tuple[int, int, int], kind: str) -> None:
    rows, places, batch = sizes
    rng = np.random.default_rng(rows)
    if f is gauss_seidel:
        a = b = rng.standard_normal(sizes).astype(kind)
    else:
        draw = (lambda s: rng.integers(0, 3, s)) if f is smith_waterman else rng.standard_normal
        a, b = (np.asarray(draw((n, batch))).astype(kind) for n in (rows, places))
    wanted = _plain(f.__name__, a.astype(np.float64), b.astype(np.float64))
    found = tw.jit(f)(a, b).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-4 if kind == "float32" else 1e-12, atol=1e-4 if kind == "float32" else 1e-12)
