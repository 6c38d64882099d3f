"""Indices as they are for most points."""

from __future__ import annotations

from tilewright.ir import sym
from tilewright.ir.functions import maximum, minimum, where
from tilewright.ir.node import Node, axis
from tilewright.opts.analysis.interior import interior

I, J = axis("i", 100), axis("j", 100)


def test_clamps_wraps_reflections_and_selections() -> None:
    mirrored = minimum(maximum(I - 2, 2 - I), 198 - (I - 2))
    for n, want in (
        (maximum(I - 1, 0), I - 1),
        (minimum(maximum(I + 3, 0), 99), I + 3),
        ((I + 99) % 100, I - 1),
        ((I + 1) % 100, I + 1),
        (mirrored, I - 2),
        (where((I < 3) | I.eq(98), 7, I + 2), I + 2),
        ((I + 1) // 100, I * 0),
    ):
        assert interior(n) is want, n


def test_what_varies_throughout_is_left_alone() -> None:
    n = sym("n", 1, 500)
    j = axis("k", n)
    for node in (I % 7, I // 7, minimum(I, J), maximum(j - 1, 0), where(I < J, I, J)):
        assert interior(node) is node


def test_other_terms_stay() -> None:
    node: Node = maximum(I - 1, 0) * 100 + J % 10
    assert interior(node) is (I - 1) * 100 + J % 10


def test_an_index_is_looked_at_once() -> None:
    """Every schedule of a kernel asks for the same indices, many times each."""
    node = (I - 1) * 100 + J % 10
    interior.cache_clear()
    assert interior(node) is interior(node)
    assert interior.cache_info()[:2] == (1, 1)
