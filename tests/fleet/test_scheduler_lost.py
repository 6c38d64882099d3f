"""A scheduler that ends and is started again on the same port: the engine on Dask goes on, and says what was lost."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("distributed")
from distributed.utils import LoopRunner
from tilewright.fleet import dask_setup as settings
from tilewright.fleet import engine as jobs
from tilewright.fleet import scheduler, tls
from tilewright.fleet.dask_engine import DaskEngine
from tilewright.fleet.engine import FleetJob, FleetSlot, SchedulerLost, Worksite
from tilewright.fleet.worker import SlotWorker, WorkerOptions, slots

pytestmark = pytest.mark.slow


class RestartedFleet:
    """A scheduler with one worker on a thread's loop."""

    def __init__(self, folder: Path) -> None:
        tls.make(folder)
        settings.apply()
        self.folder, self.url, self.loop = folder, "tls://127.0.0.1:0", LoopRunner()
        self.loop.start()
        self.loop.run_sync(self.begin, 0)

    async def begin(self, port: int) -> None:
        options = scheduler.SchedulerOptions("127.0.0.1", port, tls.security(self.url, "scheduler", self.folder))
        self.scheduler = await scheduler.made(options)
        self.url = str(self.scheduler.address)
        slot = slots(WorkerOptions(self.url, lock=str(self.folder / "lock")))[0]
        secured, how = tls.security(self.url, "worker", self.folder), {"resources": {"timing": 1}, "local_directory": str(self.folder)}
        self.worker = await SlotWorker(self.url, nthreads=1, security=secured, slot=slot, **how)

    async def end(self) -> None:
        await self.scheduler.close()
        await self.worker.close()

    def restart(self) -> None:
        self.loop.run_sync(self.end)
        self.loop.run_sync(self.begin, int(self.url.rpartition(":")[2]))


def test_an_engine_goes_on_with_the_next_scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()

    def act(payload: Mapping[str, Any], where: Worksite) -> Any:
        where.send({"said": payload["n"]})
        begun.set()
        while payload["n"] == 0 and not where.stopped:
            threading.Event().wait(0.005)
        return payload["n"]

    monkeypatch.setattr(jobs, "function", lambda kind: act)
    fleet = RestartedFleet(tmp_path / "tls")
    try:
        engine = DaskEngine(fleet.url, tls.security(fleet.url, "client", fleet.folder))
        (old,) = engine.slots()
        waits = engine.submit(old, FleetJob("batch", {"n": 0}))
        assert begun.wait(240)
        fleet.restart()
        with pytest.raises(SchedulerLost, match="connection to the scheduler"):
            waits.result(240)
        with pytest.raises(SchedulerLost):  # nobody would ever take it
            engine.submit(old, FleetJob("batch", {"n": 1})).result(240)
        new = _one(engine)
        with pytest.raises(SchedulerLost):  # also now that it is known who is there
            engine.submit(old, FleetJob("batch", {"n": 1})).result(240)
        assert new.address != old.address
        heard = engine.submit(new, FleetJob("batch", {"n": 2}))
        assert heard.result(240) == 2 and heard.messages() == [{"said": 2}]
        fleet.loop.run_sync(fleet.worker.close)  # what happens to workers is heard too
        assert engine.lost.get(timeout=240).slot == new
        engine.close()
    finally:
        fleet.loop.run_sync(fleet.end)
        fleet.loop.stop()


def _one(engine: DaskEngine) -> FleetSlot:
    (slot,) = engine.slots()
    return slot
