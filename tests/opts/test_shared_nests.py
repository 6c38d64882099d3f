"""What schedules of one kernel share: nests, and the counting of a fold's tiles."""

from __future__ import annotations

from itertools import product

from tilewright import kernels
from tilewright.ir import index as ix
from tilewright.ir.node import axis, const
from tilewright.ir.normal_form import normalise
from tilewright.opts.loop_tree import _counted
from tilewright.opts.nests import build, flat


def test_nests_are_made_once_for_the_same_answers() -> None:
    kernel = normalise(kernels.make("softmax", {"m": 4, "n": 8}))
    first, again = build(kernel, {"e": True}), build(kernel, {"e": True})
    assert first == again and first is not again  # the list is the caller's own
    apart = build(kernel, {"e": True}, again=lambda v, nest, by: True)
    assert [n.name for n in flat(apart)] != [n.name for n in flat(first)]
    assert build(kernel, {"e": True}, again=lambda v, nest, by: True) == apart
    assert build(kernel, {"e": True}) == first


def test_what_a_nest_says_of_its_nodes_covers_what_it_fills() -> None:
    filling = next(n for n in flat(build(normalise(kernels.make("softmax", {"m": 4, "n": 8})), {"e": True})) if n.fills)
    assert set(filling.nodes) < set(filling.all_nodes)
    assert {n.op for n in filling.loads} == {"load"} and {n.op for n in filling.refs} == {"ref"}


def test_tiles_are_counted_as_bounds_are_evaluated() -> None:
    i, j = axis("i", 5), axis("j", 7)
    low = ix.minmax("max", const(0), ix.floordiv(ix.add(i, const(-3)), 2))
    high = ix.minmax("min", const(6), ix.add(ix.mod(ix.add(j, const(1)), 4), i, 2))
    want = 0
    for a, b in product(range(5), range(7)):
        at = {i: a, j: b}
        want += max(0, ix.evaluate(high, at) - ix.evaluate(low, at))
    assert _counted(((low, high),), ((i, 5), (j, 7))) == want
    assert _counted(((const(1), const(4)),), ()) == 3
