"""A whole search on a fleet of workers that pretend: what is asked for, what is recorded, what is said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from scripted import DEVICE, Script, slots
from tilewright import cache
from tilewright.fleet.batches import fleet_measurer
from tilewright.fleet.batches.fleet_measurer import FleetTuning, chosen
from tilewright.fleet.batches.messages import subject
from tilewright.fleet.engine import FleetSlot, SlotDevice
from tilewright.ir.errors import FleetError, UsageError
from tilewright.search.kernel_task import KernelTask

from tests.support.local_fleet import LocalEngine

SHAPE = {"m": 16, "n": 16, "k": 16}


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def engine(script: Script) -> Iterator[LocalEngine]:
    made = LocalEngine(slots(2), {"batch": script.batch, "build": script.build_job})
    yield made
    made.close()


@pytest.mark.slow
def test_a_search_measures_there_and_records_here(engine: LocalEngine, script: Script, tmp_path: Path) -> None:
    fleet = FleetTuning(engine, "cpu", 2)
    where = tmp_path / "cache.db"
    result = fleet.tune("matmul", shape=SHAPE, dtype="float32", trials=20, cache=where, random_seed=1)
    assert result.found and result.verified and sum(result.counts.values()) == 20 and result.exit_code == 0
    task = KernelTask("matmul", SHAPE, "float32", fleet.device, 1)
    with cache.open(where) as store:
        rows = store.rows(kernel=task.key.kernel)
        best = store.best(task.key)
    assert best is not None and best.opts_display is not None and len({r.opts for r in rows}) == 20
    assert {r.key for r in rows} == {task.key} and fleet.said[0].startswith("timed on ")
    assert ("confirm" in {ask for _, ask in script.asked}) and {a for a, ask in script.asked if ask == "release"}
    # the answer is there without the fleet
    script.asked.clear()
    again = FleetTuning(engine, "cpu").tune("matmul", shape=SHAPE, dtype="float32", cache=where)
    assert again.origin == "cached" and {ask for _, ask in script.asked} == {"facts"}


@pytest.mark.slow
def test_a_fleet_that_goes_away_leaves_the_best_so_far(
    engine: LocalEngine, script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = FleetTuning(engine, "cpu", 2)
    fleet._devices.patience_s = 0.0

    def gone(n: int, site: object) -> None:
        if len(script.began) == 15:
            monkeypatch.setattr(fleet_measurer, "FRUITLESS", 0)
            engine._revive = False
            for slot in engine.slots():
                engine.lose(slot.address)

    script.on_begin = gone
    result = fleet.tune("matmul", shape=SHAPE, dtype="float32", trials=40, cache=tmp_path / "cache.db")
    assert result.found and not result.confirmed and "workers were lost" in result.message


def test_a_kernel_without_a_name_does_not_travel() -> None:
    from tilewright import named_kernels

    kernel = named_kernels.make("matmul", SHAPE)
    with pytest.raises(UsageError, match="a kernel travels by its name or with its file"):
        subject(KernelTask(kernel, None, None, "cpu", 1), {"kernel": kernel})


def test_the_slots_for_a_device() -> None:
    other = FleetSlot("x", "o", SlotDevice("cuda", "cuda:sm_90", "nvrtc", 1, "0" * 16))
    few, many = FleetSlot("a", "a0", DEVICE), [FleetSlot("c", f"c{i}", DEVICE) for i in range(2)]
    assert chosen([other, few, *many], "cpu") == many and chosen([other, few], "cuda") == [other]
    assert chosen([few, *many], "a") == [few]  # by the name of the slot
    with pytest.raises(FleetError, match="no device 'opencl' now; it has cpu, cuda"):
        chosen([other, few], "opencl")
    with pytest.raises(FleetError, match="another digest"):
        chosen([FleetSlot("a", "a0", DEVICE, refused="another digest")], "cpu")
