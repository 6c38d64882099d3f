"""Expressions whose text is very long, since what is shared is written out each time: they are shown in part, and are told apart."""

from __future__ import annotations

from tilewright.ir import KernelBuilder, Node, float32, int64
from tilewright.ir import index as ix
from tilewright.ir.node_text import LONGEST, order_key


def test_what_is_shared_again_and_again_is_shown_in_part() -> None:
    kb = KernelBuilder("rounds")
    i = kb.axis("n", 8)
    v: Node = kb.input("x", (8,), float32)[i]
    for _ in range(200):  # its text would have 2 ** 200 terms
        v = v * v + v
    assert len(repr(v)) < LONGEST + 100 and repr(v).endswith("…")


def test_terms_that_begin_alike_for_long_are_told_apart() -> None:
    kb = KernelBuilder("places")
    i = kb.axis("n", 8)
    x = kb.input("a_rather_long_name_of_an_input_whose_elements_are_places_in_another", (2000, 8), int64)

    def smallest(last: int) -> Node:
        out = x[last, i]
        for k in range(300):
            out = ix.minmax("min", x[k, i], out)
        return out

    one, other = smallest(1000), smallest(1001)
    assert one is not other and repr(one) == repr(other)
    assert order_key(one) != order_key(other)
    assert ix.add(one, other) is ix.add(other, one)
