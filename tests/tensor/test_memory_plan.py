"""Where intermediate results lie, pools, and the cap."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from hypothesis import given
from hypothesis import strategies as st
from tilewright import Tensor
from tilewright.tensor.capture.memory_plan import ALIGN, Lifetime, arena, chunks, rounded
from tilewright.tensor.running import buffers
from tilewright.tensor.running import pools as devices
from tilewright.tensor.running.buffers import ACCOUNT, TensorMemoryError

from tests.tensor.test_jit import own_home, ramp

__all__ = ["own_home"]

pytestmark = pytest.mark.many

LIFETIMES = st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 12), st.integers(0, 5)), max_size=24).map(
    lambda rows: [Lifetime(i, size, first, first + length) for i, (size, first, length) in enumerate(rows)]
)


@given(LIFETIMES)
def test_arrays_that_live_at_once_lie_apart(lifetimes: list[Lifetime]) -> None:
    plan = arena(lifetimes)
    at = plan.offsets
    for a in lifetimes:
        assert at[a.place] % ALIGN == 0 and at[a.place] + rounded(a.nbytes) <= plan.peak
        for b in lifetimes:
            if a.place < b.place and a.meets(b):
                assert at[a.place] + rounded(a.nbytes) <= at[b.place] or at[b.place] + rounded(b.nbytes) <= at[a.place]
    assert plan.peak <= plan.total


@given(LIFETIMES)
def test_chunks_are_shared_by_arrays_that_never_meet(lifetimes: list[Lifetime]) -> None:
    found, sizes = chunks(lifetimes)
    for a in lifetimes:
        assert sizes[found[a.place]] >= a.nbytes
        assert not any(a.meets(b) and found[a.place] == found[b.place] for b in lifetimes if b.place != a.place)


def test_a_chain_needs_two_arrays_of_memory() -> None:
    plan = arena([Lifetime(i, 1000, i, i + 1) for i in range(10)])
    assert plan.peak == 2 * rounded(1000) and plan.total == 10 * rounded(1000)


def test_nothing_is_read_in_the_arena_before_it_was_written() -> None:
    f = tw.jit(lambda x: ((x @ x).softmax(-1) @ x).relu() @ x)
    x = Tensor(ramp(12, 12))
    want = f(x).numpy().copy()
    program = f.programs[0]
    assert program.plan.memory.peak > 0
    program.sequence.poison = True
    assert (f(x).numpy() == want).all()


def test_the_cap_names_the_largest_tensors_and_their_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()
    monkeypatch.setattr(ACCOUNT, "cap", None)
    large = Tensor(np.zeros((300, 1000), np.float32))
    tw.memory_cap(ACCOUNT.live + 100_000)
    with pytest.raises(TensorMemoryError, match=r"pass the cap.*float32\[300, 1000\] 1\.2 MB test_memory_plan\.py:\d+.*memory_cap"):
        (large * 2.0).numpy()
    tw.memory_cap(None)
    assert (large * 2.0).numpy().shape == (300, 1000)
    with pytest.raises(tw.UsageError, match="cap of -1 bytes"):
        tw.memory_cap(-1)


@pytest.mark.usefixtures("graphs")
def test_memory_is_counted_until_it_dies_and_used_again() -> None:
    gc.collect()
    before = ACCOUNT.live
    a = (Tensor(np.zeros(50_000, np.float32)) + 1.0).realise()
    assert ACCOUNT.live - before >= a.nbytes
    place, size = a.node.data.address, a.nbytes
    del a
    gc.collect()
    assert ACCOUNT.live - before < size
    b = buffers.new((50_000,), tw.Tensor(np.zeros(1, np.float32)).dtype, "cpu", ("", 0))
    assert b.address == place


@pytest.mark.parametrize("how", ["array", "view", "buffer"])
def test_memory_that_somebody_sees_is_not_used_again(how: str) -> None:
    a = (Tensor(np.zeros(50_001, np.float32)) + 1.0).realise()
    seen = a.numpy() if how == "array" else a.numpy()[3:5] if how == "view" else memoryview(a.numpy())
    del a
    b = (Tensor(np.zeros(50_001, np.float32)) + 2.0).realise()
    assert (np.asarray(seen) == 1.0).all() and (b.numpy() == 2.0).all()


def test_realised_graphs_keep_no_memory_alive() -> None:
    gc.collect()
    before = ACCOUNT.live
    x = Tensor(np.ones(70_000, np.float32))
    y = (x * 2.0 + 1.0).realise()
    del x, y
    gc.collect()
    assert ACCOUNT.live == before


def test_pools_hold_no_more_than_they_may() -> None:
    rooms = devices.FreeRooms(limit=100)
    assert rooms.give(60, "a") and not rooms.give(60, "b") and rooms.held == 60
    assert rooms.take(10) is None and rooms.take(60) == "a" and rooms.held == 0


def _opencl() -> bool:
    from tilewright.devices import get

    try:
        get("opencl").check()
    except tw.TilewrightError:
        return False
    return True


@pytest.mark.skipif(not _opencl(), reason="there is no OpenCL device")
def test_a_device_with_memory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Captured, updated, evicted at the cap, and back."""
    w = (Tensor(ramp(8, 8), device="opencl") + 0.0).realise()

    @tw.jit
    def step(x: Tensor) -> Tensor:
        w.assign(w + x)
        return (w @ x).sum(-1)

    x = Tensor(ramp(8, 8), device="opencl")
    for i in range(3):
        got = step(x).numpy()
        np.testing.assert_allclose(got, ((i + 2) * ramp(8, 8) @ ramp(8, 8)).sum(-1), rtol=1e-4, atol=1e-4)
    w.node.data.evict()
    assert w.node.data.evicted and (w.numpy() == ramp(8, 8) * 4).all()
    np.testing.assert_allclose(step(x).numpy(), (5 * ramp(8, 8) @ ramp(8, 8)).sum(-1), rtol=1e-4, atol=1e-4)
    assert not w.node.data.evicted
    with pytest.raises(tw.UsageError, match="different devices"):
        step(Tensor(ramp(8, 8)))
