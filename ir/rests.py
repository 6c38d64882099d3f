"""x − x // k · k in a sum of indices, which is x % k: its interval and its code are better known as such."""

from __future__ import annotations

from . import index as ix
from .dtypes import index
from .node import Node


def rests(n: Node) -> tuple[list[tuple[Node, int]], dict[Node, int], int]:
    """(x // k and how often x % k is added for each, the other terms with their coefficients, the constant) of a sum of indices."""
    terms, c = ix.parts(n)
    found: list[tuple[Node, int]] = []
    for t in list(terms):
        if t not in terms:  # (of an x that was found before)
            continue
        times = -terms[t] // t.arg if t.op == "div" and t.dtype is index and terms[t] < 0 and terms[t] % t.arg == 0 else 0
        inner, d = ix.parts(t.src[0]) if times else ({}, 0)
        if inner and all(terms.get(s) == times * k for s, k in inner.items()):
            found.append((t, times))
            terms = {s: k for s, k in terms.items() if s is not t and s not in inner}
            c -= times * d
    return found, terms, c
