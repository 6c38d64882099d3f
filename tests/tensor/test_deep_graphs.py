"""Deep and large graphs: nothing recurses, nothing explodes, places are 64-bit, and constants are nobody else's."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from tilewright import xp
from tilewright.tensor import Tensor
from tilewright.tensor.fusion.call_list import call_list, key_of
from tilewright.tensor.running.realise import detached

pytestmark = pytest.mark.slow


def test_a_chain_of_many_thousand_nodes_is_made_keyed_copied_and_freed() -> None:
    x = Tensor([1.0])
    for _ in range(6_000):
        x = (x * 1.5)[None, :][0]
    assert len(key_of([x.node])[0]) == 6_000 + 3 and detached([x.node])[0]  # the leaf, the products, their number and its view
    del x
    gc.collect()


def test_alternating_reshapes_and_permutations_are_cut() -> None:
    x = Tensor(np.arange(12.0, dtype=np.float32))
    want = x.numpy()
    for _ in range(60):
        x, want = x.reshape(4, 3).permute(1, 0).reshape(12), want.reshape(4, 3).T.reshape(12)
    assert 1 < len(call_list([x.node]).calls) < 30
    assert x.tolist() == want.tolist()


def test_a_few_reshapes_stay_one_kernel() -> None:
    x = Tensor(np.zeros((2, 3, 4, 5), np.float32))
    y = x.permute(1, 0, 3, 2).reshape(6, 20).permute(1, 0).reshape(4, 30) + 1
    assert len(call_list([y.node]).calls) == 1


def test_places_beyond_2_to_the_31(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    x = xp.arange(2**34)
    assert (x[2**32 + 7 :: 2**33] + 0).tolist() == [2**32 + 7, 2**32 + 7 + 2**33]
    assert (x.reshape(2**17, 2**17)[80000, 5] + 0).item() == 80000 * 2**17 + 5


def test_writing_to_a_constant_changes_no_other() -> None:
    a, b = xp.zeros(3), xp.zeros(3)
    a.numpy()[:] = 1
    xp.arange(3).numpy()[:] = 7
    assert a.tolist() == [1, 1, 1] and b.tolist() == [0, 0, 0] and xp.arange(3).tolist() == [0, 1, 2]
