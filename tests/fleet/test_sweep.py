"""A sweep on scripted slots: side by side, and none before the one that it begins from."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tilewright import cache, named_kernels
from tilewright.fleet.engine import FleetSlot, SlotDevice, Worksite
from tilewright.fleet.fleet_run import FleetOptions, tune_on_fleet
from tilewright.search.manifest.manifest_file import Entry, Manifest, Place
from tilewright.search.manifest.sweep_file import order
from tilewright.search.result import Job, make

from tests.support.local_fleet import LocalEngine

TARGET = "llvm:x86_64:znver5:avx2"
ZEN = Place("zen", "cpu", TARGET, 1)


def entry(kernel: str, n: int) -> Entry:
    shape = {"m": n, "n": 8}
    return Entry(kernel, shape, "float32", ZEN, n, made=named_kernels.make(kernel, shape, "float32"))


@pytest.mark.parametrize("fails", [False, True])
def test_each_entry_follows_the_one_that_warms_it(tmp_path: Path, fails: bool) -> None:
    plan = order([entry(k, n) for k in ("add", "softmax") for n in (8, 64, 512)])
    assert plan.after == (None, None, 0, 0, 1, 1)
    device = SlotDevice("cpu", TARGET, "llvmlite-1", 4, "0" * 16)
    slots = [FleetSlot(device.slot_name, f"slot:{i}", device, host="there") for i in range(3)]
    both, guard = threading.Barrier(2, timeout=240), threading.Lock()
    began: list[tuple[str, int]] = []
    ended: list[tuple[str, int]] = []

    def act(job: Mapping[str, Any], site: Worksite) -> Any:
        me = job["kernel"], job["shape"]["m"]
        with guard:
            began.append(me)
            if me[1] != 64:
                assert (me[0], 64) in ended, "it was sent before the one in the middle had ended"
        if me[1] == 64:
            both.wait()  # the first of both trees are under way at once, though a third slot is idle
            with guard:
                assert len(began) == 2
            both.wait()  # neither ends before both have looked
            with guard:
                ended.append(me)
            if fails and me[0] == "add":
                raise ValueError("it broke")
        made = make(Job(job["kernel"], job["shape"], "float32", "cpu", job["threads"], "portfolio"), t_min=1e-6, t_med=1e-6, n=9)
        return {"result": made.to_json()}

    engine = LocalEngine(slots, {"entry": act})
    try:
        with cache.open(tmp_path / "c.db") as store:
            done = tune_on_fleet(Manifest("m.toml", (ZEN,), plan.entries), store, engine, FleetOptions(), after=plan.after)
    finally:
        engine.close()
    assert [d.status for d in done] == ["failed" if fails and i == 0 else "tuned" for i in range(6)], [d.message for d in done]
    assert sorted(began) == sorted((e.kernel, e.shape["m"]) for e in plan.entries)
