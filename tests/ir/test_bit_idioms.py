"""Bits that are counted by shifts and masks are `popcount`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tilewright.ir import Kernel, KernelBuilder, Node, dtype
from tilewright.ir.evaluation import evaluate
from tilewright.ir.node import walk
from tilewright.ir.normal_form import normalise

WAYS: dict[str, Callable[[Node, int], Node]] = {}


def fields(value: int, every: int, bits: int) -> int:
    return sum(value << at for at in range(0, bits, every))


def way(f: Callable[[Node, int], Node]) -> Callable[[Node, int], Node]:
    WAYS[f.__name__] = f
    return f


@way
def multiplied(v: Node, bits: int) -> Node:
    v = v - ((v >> 1) & fields(1, 2, bits))
    v = (v & fields(3, 4, bits)) + ((v >> 2) & fields(3, 4, bits))
    return (((v + (v >> 4)) & fields(15, 8, bits)) * fields(1, 8, bits)) >> (bits - 8)


@way
def added(v: Node, bits: int) -> Node:
    v = (fields(1, 2, bits) & (v >> 1)) + (v & fields(1, 2, bits))
    v = ((v >> 2) & fields(3, 4, bits)) + (v & fields(3, 4, bits))
    v = (v & fields(15, 8, bits)) + ((v >> 4) & fields(15, 8, bits))
    for distance in (8, 16, 32):
        v = v + (v >> distance) if distance < bits else v
    return v & (2 * bits - 1)


def kernel(f: Callable[[Node], Node], kind: str) -> Kernel:
    kb = KernelBuilder("k")
    i, x = kb.axis("n", 64), kb.input("x", (64,), dtype(kind), range=None)
    kb.store("y", dtype(kind), (64,), (i,), f(x[i] ^ 5))
    return kb.build()


def counts(k: Kernel) -> bool:
    return any(n.op == "popcount" for n in walk(normalise(k).stores[0].expr))


@pytest.mark.parametrize("kind", ["int32", "uint32", "uint64"])
@pytest.mark.parametrize("name", WAYS)
def test_counts_are_found_and_equal(name: str, kind: str) -> None:
    k = kernel(lambda v: WAYS[name](v, 8 * dtype(kind).size), kind)
    assert counts(k) and normalise(normalise(k)) is normalise(k)
    ends = np.iinfo(kind)
    x = np.random.default_rng(0).integers(ends.min, ends.max, 64, kind, endpoint=True)
    x[:4] = np.array([ends.min, ends.max, 0, 5], kind)
    np.testing.assert_array_equal(evaluate(normalise(k), {"x": x})["y"], evaluate(k, {"x": x})["y"])


@pytest.mark.parametrize(("bits", "kind"), [(32, "uint64"), (30, "int32")])
def test_counts_of_other_widths_stay(bits: int, kind: str) -> None:
    assert not any(counts(kernel(lambda v, f=f: f(v, bits), kind)) for f in WAYS.values())


def test_a_wrong_mask_stays() -> None:
    def wrong(v: Node) -> Node:
        v = v - ((v >> 1) & 0x55555551)
        v = (v & 0x33333333) + ((v >> 2) & 0x33333333)
        return (((v + (v >> 4)) & 0x0F0F0F0F) * 0x01010101) >> 24

    assert not counts(kernel(wrong, "int32"))
