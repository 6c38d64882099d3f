"""Results compared on the host and on the device: NumPy's verdict to the bit and to the word; and what is kept of a first run."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from cuda_build import ARCHITECTURES, needs_cxx, needs_nvrtc
from fake_cuda import FakeCudaDevice
from tilewright import targets
from tilewright.devices import comparing
from tilewright.devices.cuda import nvrtc
from tilewright.devices.cuda.executable import CudaMemory
from tilewright.ir import DeviceError
from tilewright.ir.dtypes import DType, bfloat16, bool_, float16, float32, float64, int32, uint8
from tilewright.ir.evaluation.certain_results import OVERFLOW
from tilewright.measure.checking import compare as device_compare
from tilewright.measure.checking.compare import DeviceChecker, DeviceExpect, DeviceFirstOutputs, FirstOutputs, trusted
from tilewright.measure.checking.verify import Expect, Verdict, check
from tilewright.measure.operands import Operands, upload, view
from tilewright.renderers import render

N = 1500
RNG = np.random.default_rng(7)


@pytest.fixture(scope="module")
def memory() -> CudaMemory:
    return CudaMemory(FakeCudaDevice()._open())


def expect(of: DType, weighed: bool = True, **masks: Any) -> Expect:
    if of.is_float:
        value = RNG.standard_normal(N)
        return Expect("y", of, (N // 5, 5), value, RNG.uniform(1e2, 1e4, N).astype(np.float32), **masks)
    value = RNG.integers(0, 2 if of is bool_ else 100, N).astype(of.np)
    return Expect("y", of, (N // 5, 5), value, RNG.uniform(0.3, 1.0, N).astype(np.float32) if weighed else None, **masks)


def both(memory: CudaMemory, e: Expect, got: Any) -> tuple[Verdict, Verdict]:
    """(NumPy's verdict, the device's)."""
    got = np.ascontiguousarray(got.astype(e.dtype.np))
    judge, result = DeviceExpect.of(e, memory), upload(memory, got)
    try:
        with np.errstate(all="ignore"):
            return check(e, got.ctypes.data), judge.check(result)
    finally:
        judge.free()
        memory.free(result)


def agree(memory: CudaMemory, e: Expect, got: Any) -> Verdict:
    here, there = both(memory, e, got)
    assert here == there
    return there


@needs_cxx
@pytest.mark.slow
@pytest.mark.parametrize("of", [float64, float32, float16, bfloat16], ids=lambda d: d.name)
def test_floats_have_the_same_verdict(memory: CudaMemory, of: DType) -> None:
    e = expect(of)
    right = e.value.astype(of.np)
    wide = right.astype(np.float64)
    loose = Expect("y", of, e.shape, wide, e.weight)
    assert agree(memory, loose, right).ok and agree(memory, loose, right).error == 0.0
    # on either side of the bound, by units in the last place of what is stored
    for ulps in range(1, 5):
        bits = right.copy().view(f"u{of.size}") + np.array(ulps, f"u{of.size}")
        agree(memory, loose, bits.view(of.np))
    quarters = np.rint(4 * e.value) / 4  # which every type holds
    for weight, ok in ((np.float32(2), True), (np.nextafter(np.float32(2), np.float32(3)), False)):
        at_bound = agree(memory, Expect("y", of, e.shape, quarters - 0.5, np.full(N, weight)), quarters)
        assert at_bound.ok == ok and (at_bound.error == 1.0) == ok
    for at, wrong in ((0, np.nan), (N - 1, np.inf), (77, -np.inf), (256, 3.0), (1024, -0.0)):
        got = right.copy()
        got[at] = wrong
        got[at // 2] = got[at // 2]
        agree(memory, loose, got)
    # two elements equally wrong: the first one is named; untouched elements are counted
    got = right.copy()
    got[[900, 300]] = np.nan
    assert "60, 0]" in agree(memory, loose, got).detail
    raw = np.ascontiguousarray(right).view(f"u{of.size}").copy()
    raw[[3, 1499]] = np.iinfo(raw.dtype).max
    assert "2 hold the poison" in agree(memory, loose, raw.view(of.np)).detail


@needs_cxx
@pytest.mark.slow
@pytest.mark.parametrize("of", [float32, bfloat16, float16], ids=lambda d: d.name)
def test_what_is_not_finite_is_compared_by_kind(memory: CudaMemory, of: DType) -> None:
    top = OVERFLOW[of.name]
    value = RNG.standard_normal(N)
    value[:12] = [np.nan, np.nan, np.inf, np.inf, -np.inf, 1e300, -1e300, top * 0.99, -top * 0.99, 0.0, -0.0, top * 2]
    with np.errstate(all="ignore"):
        rounded = value.astype(of.np)
        special = ~np.isfinite(rounded.astype(np.float64))
    weight = RNG.uniform(1e-40, 1e3, N).astype(np.float32)
    weight[7:9] = 1e-38
    free = RNG.random(N) < 0.1
    kinds = [np.nan, np.inf, -np.inf, 0.0, -0.0, top * 0.99, 1.5]
    for masks in ({}, {"special": special}, {"special": special, "free": free}):
        e = Expect("y", of, (N,), value, weight, **masks)
        agree(memory, e, rounded)
        for _ in range(12):
            got = rounded.copy()
            for at in RNG.integers(0, 14, 3):
                with np.errstate(all="ignore"):
                    got[at] = np.asarray(RNG.choice(kinds)).astype(of.np)
            agree(memory, e, got)


@needs_cxx
@pytest.mark.slow
@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize("of", [int32, uint8, bool_], ids=lambda d: d.name)
def test_integers_have_the_same_verdict(memory: CudaMemory, of: DType, weighed: bool) -> None:
    e = expect(of, weighed)
    assert agree(memory, e, e.value).error == 0.0
    for at in (0, 700, N - 1):
        got = e.value.copy()
        got[at] = ~got[at]
        agree(memory, e, got)
        got[at] = e.value[at] + of.np.type(1) if of is not bool_ else e.value[at]
        agree(memory, e, got)
    agree(memory, e, ~e.value)
    if of is bool_:  # any byte but 0 is true
        raw = e.value.view(np.uint8) * 2
        agree(memory, e, raw.view(np.bool_))


@needs_cxx
@pytest.mark.slow
def test_first_outputs_are_kept_on_the_device(memory: CudaMemory) -> None:
    class Place:
        dtype, shape, nbytes = float32, (30, 50), 6000

    class Operands:
        checked = (1,)

        def written(self, handles: list[int]) -> list[tuple[str, int, int]]:
            return [("y", handles[0], 6000)]

        def place(self, name: str) -> type[Place]:
            return Place

    y = RNG.standard_normal(N).astype(np.float32)
    handle = upload(memory, y)
    kept = DeviceFirstOutputs(Operands(), memory)  # type: ignore[arg-type]
    kept.keep([handle])
    assert kept.difference([handle]) == ""
    other = y.copy()
    other[[777, 1200]] = -other[777], np.nan
    memory.write(handle, other.ctypes.data, other.nbytes)
    assert kept.difference([handle]).startswith(f"y[15, 27] was {y[777]} and is {-y[777]}; 2 of 1500 elements changed")


@needs_cxx
def test_a_device_that_judges_otherwise_is_not_trusted(memory: CudaMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one would that leaves out the last element."""
    monkeypatch.setattr(CudaMemory, "compare", lambda self, c: 0.0)
    with pytest.raises(DeviceError, match=r"the device's comparison says 0.0, NumPy 0\.1"):
        trusted(float32, np.ones(1, np.float32), memory)


def test_what_is_not_compared_there() -> None:
    with pytest.raises(DeviceError, match="bounds in float64 is compared on the host"):
        trusted(float32, np.ones(1), None)  # type: ignore[arg-type]


class Full:
    """A device with no room for references: whatever is asked for fails."""

    def __init__(self, room: int) -> None:
        self.room, self.live = room, 0

    def alloc(self, nbytes: int) -> int:
        from tilewright.ir import MeasureError

        if self.live >= self.room:
            raise MeasureError("no room")
        self.live += 1
        return self.live

    def free(self, handle: int) -> None:
        self.live -= 1

    def write(self, *args: Any) -> None:
        pass

    def sound(self) -> bool:
        return True


@pytest.mark.parametrize("room", [0, 1])
def test_without_room_nothing_is_left_behind(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    from tilewright.ir import MeasureError

    full = Full(room)
    monkeypatch.setattr(device_compare, "trusted", lambda of, weight, m: None)
    checker = SimpleNamespace(comparers={"y": SimpleNamespace(expect=expect(float32))})
    with pytest.raises(MeasureError, match="no room"):
        DeviceChecker.of(checker, full)  # type: ignore[arg-type]
    assert full.live == 0


@needs_nvrtc
@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_comparison_builds_without_spills(arch: str) -> None:
    for of in (float64, float16, bfloat16, int32, bool_):
        for weighed in (True,) if of.is_float else (False, True):
            for flagged in (False, True):
                source = render(comparing.by_threads(of, weighed, flagged), targets.named(arch if arch != "sm_90" else "sm_90a"))
                _, log = nvrtc.compile(source.text, arch)
                for takes in nvrtc.resources(log).values():
                    assert takes.stack == takes.spill_stores == 0 and takes.registers <= 64


COUNT = 3000


def made() -> tuple[Operands, FirstOutputs]:
    host = Operands(["y"], [float32], [(COUNT,)], {})
    for addresses in (host.checked, host.timed[0]):
        view(addresses[0], float32, (COUNT,))[...] = np.arange(COUNT)
    return host, FirstOutputs(host)


def test_nothing_is_copied_until_its_place_is_written() -> None:
    host, kept = made()
    kept.keep(host.checked)
    kept.leave(host.timed[0])
    assert not kept._copies and not kept.difference(host.timed[0])
    kept.leave(host.checked)
    ctypes.memset(host.checked[0], 0xFF, 4 * COUNT)
    assert not kept.difference(host.timed[0])
    assert "y[0] was 0.0 and is nan; 3000 of 3000 elements changed" in kept.difference(host.checked)


def test_one_other_element_is_found_wherever_the_kept_ones_lie() -> None:
    host, kept = made()
    kept.keep(host.checked)
    view(host.timed[0][0], float32, (COUNT,))[COUNT - 1] = 7
    for _ in range(2):
        assert f"y[{COUNT - 1}] was {COUNT - 1}.0 and is 7.0; 1 of {COUNT}" in kept.difference(host.timed[0])
        kept.leave(host.checked)
        ctypes.memset(host.checked[0], 0, 4 * COUNT)


def test_what_was_forgotten_is_not_copied() -> None:
    host, kept = made()
    kept.keep(host.checked)
    kept.forget()
    kept.leave(host.checked)
    assert not kept._copies


def test_where_a_place_is_used_for_other_things_it_is_copied_at_once() -> None:
    host, _ = made()
    kept = FirstOutputs(host, stay=False)
    kept.keep(host.checked)
    ctypes.memset(host.checked[0], 0xFF, 4 * COUNT)
    assert not kept.difference(host.timed[0]) and kept.difference(host.checked)
